//! Table entries and everything else that a control plane writes: what it looks like, whether it is valid for a
//! pipeline, and what is there now.
//!
//! This crate answers one question: *what has the control plane said?* [`State`] is the authoritative contents,
//! changed only by [`WriteBatch`]es: each is applied as a whole or not at all. Cloning a state is cheap and gives a
//! snapshot that later writes don't touch. Values of counters, meters and registers belong to the engines; they
//! pass through here to be validated and arrive at an engine as [`Change`]s.
//!
//! At the edge, values are [`num_bigint::BigUint`]s in [`ir::KeyMatch`]es ([`TableEntry`]); inside, an entry is a
//! few machine words ([`Entry`]), so that a million of them fit in a few hundred megabytes.
//!
//! Deliberately absent: P4Runtime's protobuf (crate `p4runtime`) and names of the region (crate `region`). Lookups
//! here ([`State::lookup`]) are plain and correct, for the control plane and as a model for tests; the interpreter
//! doesn't use them, so that one can check the other.

mod apply;
mod batch;
mod bits;
mod entry;
mod error;
pub mod fast;
mod layout;
mod lookup;
mod profile;
mod state;
mod text;
mod validate;

pub use batch::{
    ActionProfileGroup, ActionProfileMember, Change, CloneSession, CounterData, EntryId, GroupMember, MeterConfig,
    MulticastGroup, Replica, Update, UpdateKind, WriteBatch,
};
pub use bits::{big_from_words, push_words, words_for};
pub use entry::{Action, ActionSpec, Entry, PackedKey, TableEntry};
pub use error::{EntryError, UpdateError, WriteError};
pub use layout::{ArgField, KeyField, KeyLayout, action_layout, pack_args, unpack_args};
pub use profile::{Group, Member, Profile};
pub use state::{State, StateError};
pub use text::{EntryTextError, format_entry, parse_entry};
