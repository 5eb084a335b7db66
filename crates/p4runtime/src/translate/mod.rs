//! Protobuf entities to writes of [`entries`], and what is kept there to entities.
//!
//! This module answers one question: *what does a message mean for this program?* [`Schema`] knows the program's P4Info: numbers to
//! tables, keys, actions, objects, and back. Nothing here is kept or sent: what is kept is in [`entries::State`], values that packets
//! change are asked of a [`crate::Device`].
//!
//! A refusal names the object in the program's words, with the canonical code that the P4Runtime specification asks for. Where it asks for
//! two, the more specific one is given: a number that does not fit is `OUT_OF_RANGE` (section "Bytestrings"), also in a match.
//!
//! What is not stored, and therefore refused rather than forgotten: metadata of multicast groups and default entries, a group's `max_size`
//! other than what the program says, backup replicas, counters of a meter's colours.

// Deprecated fields are served to controllers that still send them.
#![allow(deprecated)]

mod action;
mod counter;
mod data;
mod describe;
mod digest;
mod encode;
mod entry;
mod keys;
mod meter;
mod numbers;
mod oneshot;
mod packet;
mod packet_header;
mod profile;
mod read;
mod read_entry;
mod register;
mod remark;
mod replication;
mod scalar;
mod schema;
mod strings;
mod update;
mod value_set;

pub use digest::{DigestConfig, DigestWrite};
pub use numbers::FIRST_HIDDEN;
pub use oneshot::Oneshots;
pub use schema::Schema;
pub use strings::{ShownStrings, StringsOf, Translation, Translations, string_width};

use crate::Refusal;
use crate::proto::v1;
use std::ops::ControlFlow;

/// Takes entities that are read. `Break`: nobody wants more of them.
pub type Sink<'a> = &'a mut dyn FnMut(v1::Entity) -> ControlFlow<()>;

/// `Break`: reading ends early, without a fault.
pub(crate) type Flow = Result<ControlFlow<()>, Refusal>;

/// Wraps an entity's message.
fn entity(entity: v1::entity::Entity) -> v1::Entity {
    v1::Entity { entity: Some(entity) }
}
