//! Writes of a control plane, and the changes that result from them for an engine.

use crate::entry::{ActionSpec, MeterConfig, TableEntry, UpdateKind};
use crate::error::{UpdateError, WriteError};
use crate::layout::KeyLayout;
use crate::packed::PackedEntry;
use crate::stored_entry::StoredEntry;
use ir::{ActionCall, ExternId, KeyMatch, TableId, ValueSetId};
use num_bigint::BigUint;
use packet::Counter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Identity of an entry: its keys and its priority.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct EntryId {
    /// The table.
    pub table: TableId,
    /// See [`TableEntry::keys`].
    pub keys: Vec<KeyMatch>,
    /// See [`TableEntry::priority`].
    pub priority: i32,
}

/// A member of an action profile or selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionProfileMember {
    /// The profile or selector.
    pub profile: ExternId,
    /// Chosen by the control plane.
    pub id: u32,
    /// Action of the member.
    pub action: ActionCall,
}

/// A member in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GroupMember {
    /// The member.
    pub member: u32,
    /// Weight, from 1: the number of times that the member is in the list that the hash selects
    /// from.
    pub weight: u32,
    /// The port that the member depends on: while it is down, other members are selected. `None`:
    /// the member is always selectable.
    pub watch: Option<u32>,
}

impl GroupMember {
    /// Creates a member that depends on no port.
    pub fn new(member: u32, weight: u32) -> GroupMember {
        GroupMember { member, weight, watch: None }
    }
}

/// A group of an action selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionProfileGroup {
    /// The selector.
    pub profile: ExternId,
    /// Chosen by the control plane.
    pub id: u32,
    /// Members; may be empty.
    pub members: Vec<GroupMember>,
}

/// A copy that a multicast group or clone session makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Egress port.
    pub port: u32,
    /// `egress_rid` of the copy.
    pub instance: u16,
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastGroup {
    /// From 1.
    pub id: u32,
    /// Copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
}

/// A clone session (v1model) or mirror session (PNA).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CloneSession {
    /// From 1.
    pub id: u32,
    /// Copies.
    pub replicas: Vec<Replica>,
    /// Additional multicast group for the packet.
    pub multicast_group: Option<u32>,
    /// Maximum length of the copies in bytes; 0: not truncated.
    pub packet_length: u32,
    /// Class of service of the copies.
    pub class_of_service: u32,
}

/// Name and status of a device port.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct DevicePort {
    /// Name of the interface or device.
    pub name: String,
    /// Whether the port can send and receive.
    pub is_up: bool,
}

/// Assignment of a string to a value, or its removal (P4Runtime `sdn_string`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SdnStringUpdate {
    /// Name of the mapping: the URI of a translation, or the name of a type.
    pub space: Arc<str>,
    /// The string.
    pub string: Arc<str>,
    /// The value; `None` removes the string.
    pub value: Option<BigUint>,
}

impl EntryId {
    /// Returns the identity of a stored entry.
    pub fn from_stored(layout: &KeyLayout, table: TableId, entry: &StoredEntry) -> EntryId {
        EntryId { table, keys: layout.unpack(entry.key()), priority: entry.priority() }
    }
}

/// One write.
#[derive(Clone, PartialEq, Debug)]
pub enum StateUpdate {
    /// A table entry.
    Entry(UpdateKind, TableEntry),
    /// A packed table entry, for writers of many entries.
    Packed(UpdateKind, PackedEntry),
    /// The default action of a table; `None` restores the program's.
    DefaultAction(TableId, Option<ActionSpec>),
    /// A member of a profile or selector.
    Member(UpdateKind, ActionProfileMember),
    /// A group of a selector.
    Group(UpdateKind, ActionProfileGroup),
    /// All members of a value set; each has one match for each key.
    ValueSet(ValueSetId, Vec<Vec<KeyMatch>>),
    /// The configuration of the meter at an index; `None` unconfigures it.
    Meter(ExternId, u64, Option<MeterConfig>),
    /// The configuration of an entry's direct meter.
    DirectMeter(EntryId, Option<MeterConfig>),
    /// The value of the counter at an index.
    Counter(ExternId, u64, Counter),
    /// The value of an entry's direct counter.
    DirectCounter(EntryId, Counter),
    /// The value (its leaves) of the register at an index; without index: of all.
    Register(ExternId, Option<u64>, Vec<BigUint>),
    /// A multicast group.
    Multicast(UpdateKind, MulticastGroup),
    /// A clone or mirror session.
    Clone(UpdateKind, CloneSession),
    /// PNA: the idle timeout of an expire time profile in nanoseconds; 0: entries with it never
    /// expire.
    ExpireTime(u8, u64),
    /// Status of the ports of the device. Written by the device whenever a link changes, not by a
    /// control plane. A port that is not listed is down. `None`: no status is known, and all ports
    /// count as up.
    Ports(Option<BTreeMap<u32, DevicePort>>),
    /// Assigns a string to a value, or removes it ([`crate::SdnStrings`]).
    SdnString(SdnStringUpdate),
}

/// Writes that take effect together or not at all. They are checked in order: an entry may be
/// inserted after another with its key was deleted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WriteBatch {
    /// The writes.
    pub updates: Vec<StateUpdate>,
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }
    /// Applies the writes in batches with `apply`, which applies a batch as a whole or rejects it.
    /// Rejected writes are skipped and returned with the reason; the writes after them are tried
    /// without them.
    pub fn apply_accepted(
        self,
        mut apply: impl FnMut(&WriteBatch) -> Result<(), WriteError>,
    ) -> Vec<(StateUpdate, UpdateError)> {
        let mut refused = Vec::new();
        let mut remaining = self;
        while !remaining.updates.is_empty() {
            let Err(error) = apply(&remaining) else { break };
            // The updates before the refused one are tried as a batch of their own.
            let after_refused = remaining.updates.split_off((error.index + 1).min(remaining.updates.len()));
            let Some(refused_update) = remaining.updates.pop() else { break };
            refused.push((refused_update, error.error));
            // The writes before the rejected one were valid a moment ago. If packets have changed
            // that, each is tried individually.
            if !remaining.updates.is_empty() && apply(&remaining).is_err() {
                for update in remaining.updates {
                    let single = WriteBatch { updates: vec![update] };
                    if let Err(error) = apply(&single) {
                        refused.extend(single.updates.into_iter().map(|update| (update, error.error.clone())));
                    }
                }
            }
            remaining = WriteBatch { updates: after_refused };
        }
        refused
    }
    /// Adds any write.
    pub fn push(&mut self, update: StateUpdate) -> &mut WriteBatch {
        self.updates.push(update);
        self
    }
    /// Adds the insertion of an entry.
    pub fn insert(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(StateUpdate::Entry(UpdateKind::Insert, entry))
    }
    /// Adds an update of a packed entry.
    pub fn push_packed(&mut self, kind: UpdateKind, entry: PackedEntry) -> &mut WriteBatch {
        self.push(StateUpdate::Packed(kind, entry))
    }
    /// Adds an update of a stored entry ([`PackedEntry::from_stored`]).
    pub fn push_stored(&mut self, kind: UpdateKind, table: TableId, entry: &StoredEntry) -> &mut WriteBatch {
        self.push_packed(kind, PackedEntry::from_stored(kind, table, entry))
    }
    /// Adds the modification of an entry.
    pub fn modify(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(StateUpdate::Entry(UpdateKind::Modify, entry))
    }
    /// Adds the deletion of an entry.
    pub fn delete(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(StateUpdate::Entry(UpdateKind::Delete, entry))
    }
}

impl FromIterator<StateUpdate> for WriteBatch {
    fn from_iter<I: IntoIterator<Item = StateUpdate>>(updates: I) -> WriteBatch {
        WriteBatch { updates: updates.into_iter().collect() }
    }
}

/// A change that an engine has to follow after a batch was applied to a [`crate::ControlState`];
/// following cannot fail. Objects that are named only by id are read from the new state, where they
/// are as the batch left them, or removed.
#[derive(Clone, PartialEq, Debug)]
pub enum StateChange {
    /// An entry was inserted.
    Inserted(TableId, StoredEntry, Counter),
    /// An entry was replaced (same key and priority). The counter is set if given.
    Modified(TableId, StoredEntry, StoredEntry, Option<Counter>),
    /// An entry was deleted.
    Deleted(TableId, StoredEntry),
    /// A table's default action changed.
    DefaultAction(TableId),
    /// A member changed.
    Member(ExternId, u32),
    /// A group changed: its members, or which of them can be selected.
    Group(ExternId, u32),
    /// A value set changed.
    ValueSet(ValueSetId),
    /// A meter's configuration changed.
    Meter(ExternId, u64),
    /// A counter's value was written.
    Counter(ExternId, u64, Counter),
    /// An entry's direct counter was written.
    DirectCounter(TableId, StoredEntry, Counter),
    /// A register's value was written; without index: all.
    Register(ExternId, Option<u64>, Vec<BigUint>),
    /// A multicast group changed.
    Multicast(u32),
    /// A clone or mirror session changed.
    Clone(u32),
    /// An expire time profile changed.
    ExpireTime(u8),
}

impl StateChange {
    /// Returns the inserted, replacing or deleted entry.
    pub fn entry(&self) -> Option<(TableId, &StoredEntry)> {
        match self {
            StateChange::Inserted(table, entry, _)
            | StateChange::Modified(table, _, entry, _)
            | StateChange::Deleted(table, entry) => Some((*table, entry)),
            _ => None,
        }
    }
}
