//! Table entries and everything else that a control plane writes: what it looks like, whether it is valid for a
//! pipeline, and what is there now.
//!
//! This crate answers one question: *what has the control plane said?* [`State`] is the authoritative contents,
//! changed only by [`WriteBatch`]es: each is applied as a whole or not at all. Cloning a state is cheap and gives a
//! snapshot that later writes don't touch. Values of counters, meters and registers belong to the engines; they
//! pass through here to be validated and arrive at an engine as [`Change`]s.
//!
//! At the edge, values are [`num_bigint::BigUint`]s in [`ir::KeyMatch`]es ([`TableEntry`]), or for writers of many entries
//! machine words ([`PackedEntry`]); inside, an entry is a few words in one piece of memory ([`Entry`]), so that a million of them
//! with short keys fit in a hundred megabytes.
//!
//! Deliberately absent: P4Runtime's protobuf (crate `p4runtime`) and names of the region (crate `region`). Lookups
//! here ([`State::lookup`]) are plain and correct, for the control plane and as a model for tests; the interpreter
//! doesn't use them, so that one can check the other.

mod apply;
mod batch;
mod bits;
mod entry;
mod error;
mod index;
mod kept;
mod layout;
mod lookup;
pub mod match_key;
mod names;
mod packed;
mod packer;
mod prefetch;
mod profile;
mod shown;
mod state;
mod text;
mod validate;

pub use batch::{
    ActionProfileGroup, ActionProfileMember, Change, CloneSession, EntryId, GroupMember, MulticastGroup, Naming, Port,
    Replica, Update, WriteBatch,
};
pub use bits::{big_from_words, fits, push_bytes, push_words, words_for, words_from_bytes};
pub use entry::{Action, ActionSpec, MeterConfig, PackedAction, PackedKey, TableEntry, UpdateKind};
pub use error::{EntryError, UpdateError, WriteError};
pub use kept::Entry;
pub use layout::{ArgField, KeyField, KeyLayout, Strength, action_layout, pack_args, unpack_args};
pub use names::{Names, Space};
pub use packed::PackedEntry;
pub use packer::{EntryPacker, Number};
pub use packet::Counter;
pub use prefetch::{CACHE_LINE, prefetch};
/// The name by which the interpreter knows [`Counter`].
pub use profile::{Group, Member, Profile};
pub use shown::Meaning;
pub use state::{SharedObjects, State, StateError};
pub use text::{EntryTextError, find_name, find_table, format_entry, format_identity, names, parse_entry, parse_write};
