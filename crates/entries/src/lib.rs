//! Table entries and the other objects that a control plane writes: their representation, their
//! validation against a pipeline, and their current contents.
//!
//! This crate answers one question: *which objects exist after the writes of the control plane?*
//! [`ControlState`] is the authoritative contents, changed only by [`WriteBatch`]es. Each batch is
//! applied as a whole or not at all. Cloning a state is cheap and gives a snapshot that later
//! writes do not change. Values of counters, meters and registers belong to the engines: writes to
//! them are validated here and arrive at an engine as [`StateChange`]s.
//!
//! At the API, values are [`num_bigint::BigUint`]s in [`ir::KeyMatch`]es ([`TableEntry`]), or
//! machine words for writers of many entries ([`PackedEntry`]). Inside, an entry is one small
//! allocation ([`StoredEntry`]), so that a million entries with short keys fit in a hundred
//! megabytes.
//!
//! P4Runtime's protobuf (crate `p4runtime`) and names of the region (crate `region`) are
//! deliberately absent. Lookups here ([`ControlState::lookup`]) are naive and correct, for the
//! control plane and as a model for tests. The interpreter does not use them, so that one can check
//! the other.

mod apply;
mod batch;
mod bits;
mod entry;
mod entry_index;
mod error;
mod key_filter;
mod layout;
pub mod match_key;
mod naive_lookup;
mod packed;
mod packer;
mod prefetch;
mod profile;
mod sdn_strings;
mod state;
mod stored_entry;
mod text;
mod validate;
mod value_format;

pub use batch::{
    ActionProfileGroup, ActionProfileMember, CloneSession, DevicePort, EntryId, GroupMember, MulticastGroup, Replica,
    SdnStringUpdate, StateChange, StateUpdate, WriteBatch,
};
pub use bits::{big_from_words, fits_width, push_bytes, push_words, words_for, words_from_bytes};
pub use entry::{ActionSpec, MeterConfig, PackedKey, StoredAction, StoredActionRef, TableEntry, UpdateKind};
pub use error::{EntryError, UpdateError, WriteError};
pub use key_filter::{KeyCondition, KeyFilter};
pub use layout::{KeyLayout, MatchPrecedence, PackedArgField, PackedKeyField, action_layout, pack_args, unpack_args};
pub use packed::PackedEntry;
pub use packer::{EntryPacker, PackValue};
pub use packet::Counter;
pub use prefetch::{CACHE_LINE, prefetch};
pub use profile::{Profile, ProfileGroup, ProfileMember};
pub use sdn_strings::{SdnStringMap, SdnStrings};
pub use state::{ControlState, SharedObjects, StateError};
pub use stored_entry::StoredEntry;
pub use text::{
    EntryTextError, find_name, find_table, format_entry, format_identity, matches_name, parse_entry, parse_write,
};
pub use value_format::ValueFormat;
