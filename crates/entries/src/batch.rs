//! What a control plane writes, and what an engine is told of it.

use crate::entry::{ActionSpec, MeterConfig, TableEntry, UpdateKind};
use crate::error::{UpdateError, WriteError};
use crate::kept::Entry;
use crate::layout::KeyLayout;
use crate::packed::PackedEntry;
use ir::{ActionCall, ExternId, KeyMatch, TableId, ValueSetId};
use num_bigint::BigUint;
use packet::Counter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Identity of an entry: what it matches, and how strongly.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct EntryId {
    /// The table.
    pub table: TableId,
    /// As [`TableEntry::keys`].
    pub keys: Vec<KeyMatch>,
    /// As [`TableEntry::priority`].
    pub priority: i32,
}

/// A member of an action profile or selector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActionProfileMember {
    /// The profile or selector.
    pub profile: ExternId,
    /// Chosen by the control plane.
    pub id: u32,
    /// What it does.
    pub action: ActionCall,
}

/// A member's part in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GroupMember {
    /// The member.
    pub member: u32,
    /// Its share, from 1: it stands this many times in the list that the hash picks from.
    pub weight: u32,
    /// The port that it depends on: while that is down, other members are chosen instead. None: it is always there.
    pub watch: Option<u32>,
}

impl GroupMember {
    /// A member that depends on no port.
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
    /// Its members; may be empty.
    pub members: Vec<GroupMember>,
}

/// A copy that a multicast group or clone session makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Replica {
    /// Where it goes.
    pub port: u32,
    /// `egress_rid` of the copy.
    pub instance: u16,
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastGroup {
    /// From 1.
    pub id: u32,
    /// Its copies, in the order in which they are made.
    pub replicas: Vec<Replica>,
}

/// A clone session (v1model) or mirror session (PNA).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CloneSession {
    /// From 1.
    pub id: u32,
    /// Copies made for it.
    pub replicas: Vec<Replica>,
    /// A multicast group that the copy goes to as well.
    pub multicast_group: Option<u32>,
    /// Cuts copies to this many bytes; 0: not.
    pub packet_length: u32,
    /// Class of service of the copies.
    pub class_of_service: u32,
}

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Port {
    /// Its name: that of its interface or device.
    pub name: String,
    /// Whether something can go through it.
    pub is_up: bool,
}

/// A string and what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// What shares one mapping: the URI of a translation, or the name of a type.
    pub space: Arc<str>,
    /// The string.
    pub string: Arc<str>,
    /// The value; none: the string is given up.
    pub value: Option<BigUint>,
}

impl EntryId {
    /// Of an entry that its table has.
    pub fn of(layout: &KeyLayout, table: TableId, entry: &Entry) -> EntryId {
        EntryId { table, keys: layout.unpack(entry.key()), priority: entry.priority() }
    }
}

/// One write.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// A table entry.
    Entry(UpdateKind, TableEntry),
    /// The same as words: for writers of many entries.
    Packed(UpdateKind, PackedEntry),
    /// The default action of a table; `None` brings back the program's.
    DefaultAction(TableId, Option<ActionSpec>),
    /// A member of a profile or selector.
    Member(UpdateKind, ActionProfileMember),
    /// A group of a selector.
    Group(UpdateKind, ActionProfileGroup),
    /// The members of a value set, all of them; each has one match for each key.
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
    /// PNA: the idle time of an expire time profile in nanoseconds; 0: entries with it never expire.
    ExpireTime(u8, u64),
    /// The ports of the device, and whether each is up. No control plane writes it: the device does, whenever a link changes. A port
    /// that is not among them is down. None: nothing is known of ports, and all count as up.
    Ports(Option<BTreeMap<u32, Port>>),
    /// A string stands for a value from now on, or for none any more ([`crate::Names`]).
    Name(Naming),
}

/// Writes that take effect together or not at all. They are looked at in order: an entry may be inserted after
/// another with its key was deleted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WriteBatch {
    /// The writes.
    pub updates: Vec<Update>,
}

impl WriteBatch {
    /// No writes.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }
    /// Applies the writes in batches by `apply`, which applies a batch or, if it refuses a write, nothing. A write that is refused is left out and given
    /// back with the reason, and those behind it are tried without it.
    pub fn apply_what_fits(
        self,
        mut apply: impl FnMut(&WriteBatch) -> Result<(), WriteError>,
    ) -> Vec<(Update, UpdateError)> {
        let mut refused = Vec::new();
        let mut rest = self;
        while !rest.updates.is_empty() {
            let Err(error) = apply(&rest) else { break };
            let behind = rest.updates.split_off((error.index + 1).min(rest.updates.len()));
            let Some(bad) = rest.updates.pop() else { break };
            refused.push((bad, error.error));
            // What came before it was good a moment ago. If packets have changed that, each is tried by itself.
            if !rest.updates.is_empty() && apply(&rest).is_err() {
                for update in rest.updates {
                    let one = WriteBatch { updates: vec![update] };
                    if let Err(error) = apply(&one) {
                        refused.extend(one.updates.into_iter().map(|update| (update, error.error.clone())));
                    }
                }
            }
            rest = WriteBatch { updates: behind };
        }
        refused
    }
    /// Adds any write.
    pub fn push(&mut self, update: Update) -> &mut WriteBatch {
        self.updates.push(update);
        self
    }
    /// Adds the insertion of an entry.
    pub fn insert(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(Update::Entry(UpdateKind::Insert, entry))
    }
    /// Adds a change of an entry whose numbers are words already.
    pub fn packed(&mut self, kind: UpdateKind, entry: PackedEntry) -> &mut WriteBatch {
        self.push(Update::Packed(kind, entry))
    }
    /// Adds what is done with an entry that some table has ([`PackedEntry::of`]).
    pub fn kept(&mut self, kind: UpdateKind, table: TableId, entry: &Entry) -> &mut WriteBatch {
        self.packed(kind, PackedEntry::of(kind, table, entry))
    }
    /// Adds the modification of an entry.
    pub fn modify(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(Update::Entry(UpdateKind::Modify, entry))
    }
    /// Adds the deletion of an entry.
    pub fn delete(&mut self, entry: TableEntry) -> &mut WriteBatch {
        self.push(Update::Entry(UpdateKind::Delete, entry))
    }
}

impl FromIterator<Update> for WriteBatch {
    fn from_iter<I: IntoIterator<Item = Update>>(updates: I) -> WriteBatch {
        WriteBatch { updates: updates.into_iter().collect() }
    }
}

/// What an engine has to do after a batch was applied to a [`crate::State`]; it can't fail. Objects that are named only by id
/// are read from the new state: there they are as the batch left them, or gone.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// An entry is new.
    Inserted(TableId, Entry, Counter),
    /// An entry was replaced (same key and priority). The counter is set if given.
    Modified(TableId, Entry, Entry, Option<Counter>),
    /// An entry is gone.
    Deleted(TableId, Entry),
    /// A table's default action.
    DefaultAction(TableId),
    /// A member.
    Member(ExternId, u32),
    /// A group: its members, or which of them can be chosen now.
    Group(ExternId, u32),
    /// A value set.
    ValueSet(ValueSetId),
    /// A meter's configuration.
    Meter(ExternId, u64),
    /// A counter's value.
    Counter(ExternId, u64, Counter),
    /// An entry's direct counter.
    DirectCounter(TableId, Entry, Counter),
    /// A register's value, or that of all.
    Register(ExternId, Option<u64>, Vec<BigUint>),
    /// A multicast group.
    Multicast(u32),
    /// A clone or mirror session.
    Clone(u32),
    /// An expire time profile.
    ExpireTime(u8),
}

impl Change {
    /// The entry that is new, that took another's place, or that is gone.
    pub fn entry(&self) -> Option<(TableId, &Entry)> {
        match self {
            Change::Inserted(table, entry, _)
            | Change::Modified(table, _, entry, _)
            | Change::Deleted(table, entry) => Some((*table, entry)),
            _ => None,
        }
    }
}
