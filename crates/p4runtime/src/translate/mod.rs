//! Protobuf entities to writes of [`entries`], and stored objects to entities.
//!
//! This module answers one question: *what does a message mean for this program?* [`Schema`] maps
//! ids of the program's P4Info to tables, keys, actions and objects, and back. This module stores
//! and sends nothing: state is in [`entries::ControlState`], and values that packets change are
//! read from a [`crate::Device`].
//!
//! An error names the object in the program's words and has the canonical code of the P4Runtime
//! specification. Where the specification permits two, the more specific one is used: a number that
//! does not fit is `OUT_OF_RANGE` (section "Bytestrings"), also in a match.
//!
//! Contents that cannot be stored are rejected: metadata of multicast groups and default entries, a
//! group's `max_size` other than the program's, backup replicas, counters of a meter's colors.

// Deprecated fields are supported for controllers that still send them.
#![allow(deprecated)]

mod action;
mod counter;
mod data;
mod digest;
mod entry;
mod entry_metadata;
mod entry_text;
mod keys;
mod meter;
mod oneshot;
mod packet;
mod packet_header;
mod profile;
mod read;
mod read_entry;
mod register;
mod replication;
mod reserved_ids;
mod scalar;
mod schema;
mod strings;
mod table_entries;
mod update;
mod update_encoding;
mod value_set;

pub use digest::{DigestConfig, DigestWrite};
pub use oneshot::Oneshots;
pub use reserved_ids::FIRST_HIDDEN;
pub use schema::Schema;
pub use strings::{ShownStrings, StringsOf, Translation, Translations, string_width};
pub(crate) use table_entries::leave_paged_tables_out;

use crate::P4RuntimeError;
use crate::proto::v1;
use std::ops::ControlFlow;

/// Receiver of entities that are read. `Break` ends the read.
pub type EntitySink<'a> = &'a mut dyn FnMut(v1::Entity) -> ControlFlow<()>;

/// Result of a read step. `Break`: the read ends early, without an error.
pub(crate) type ReadFlow = Result<ControlFlow<()>, P4RuntimeError>;

/// Wraps the message of an entity.
fn entity(entity: v1::entity::Entity) -> v1::Entity {
    v1::Entity { entity: Some(entity) }
}
