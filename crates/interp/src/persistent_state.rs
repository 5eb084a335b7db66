//! State that outlives a packet: tables, counters, meters, registers, digests, groups and sessions.

use crate::element_array::ElementArray;
use crate::entry_quota::{EntryQuota, QuotaShare};
use crate::idle_clock::IdleClock;
use crate::lookup::ReferenceTable;
use crate::meter::{Meter, MeterColor};
use crate::port_pool::{PortLease, PortPool};
use crate::registers::Registers;
use entries::{CloneSession, ControlState, Counter, MulticastGroup, StateChange, StoredAction, StoredEntry, words_for};
use ir::{Entity, ExternId, ExternKind, MeterUnit, Pipeline, TableId, Type, packet_written_tables};
use num_bigint::BigUint;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// Maximum number of digest messages and notifications that wait for the control plane.
pub const MAX_WAITING: usize = 1 << 16;

/// Members and groups of an action profile or selector, in the form that packets use.
#[derive(Clone, Debug, Default)]
pub struct ProfileState {
    /// Action of each member.
    pub actions: HashMap<u32, StoredAction>,
    /// For each group, the list of members that its hash indexes.
    pub groups: HashMap<u32, Box<[u32]>>,
}

/// State of an extern object.
#[derive(Clone, Debug)]
pub enum ExternState {
    /// Packets and bytes by index.
    Counter(ElementArray),
    /// Size, and configured meters by index.
    Meter(u64, HashMap<u64, Meter>),
    /// Register elements with the types of their leaves.
    Register(ElementArray, Vec<Type>),
    /// Action profile or selector.
    Members(ProfileState),
    /// Ports of a pool.
    Ports(PortPool),
    /// Shares of a quota.
    Quota(EntryQuota),
    /// No state that outlives a packet.
    None,
}

/// Digest message for the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestMessage {
    /// The digest object.
    pub digest: ExternId,
    /// Leaves of the message.
    pub values: Vec<BigUint>,
}

/// Entry with an expired idle timeout.
#[derive(Clone, PartialEq, Debug)]
pub struct IdleEntry {
    /// Table of the entry.
    pub table: TableId,
    /// The entry.
    pub entry: StoredEntry,
    /// Whether the entry was deleted.
    pub deleted: bool,
}

/// State of an engine that outlives a packet.
#[derive(Clone, Debug)]
pub struct PersistentState {
    /// Tables by id.
    pub tables: Vec<ReferenceTable>,
    /// Extern objects by id.
    pub objects: Vec<ExternState>,
    /// Multicast groups by id.
    pub multicast_groups: BTreeMap<u32, MulticastGroup>,
    /// Clone sessions by id.
    pub clone_sessions: BTreeMap<u32, CloneSession>,
    /// Members of value sets, with the layout of their keys.
    pub value_sets: Vec<(entries::KeyLayout, Vec<entries::PackedKey>)>,
    /// Digest messages not yet fetched.
    pub digests: VecDeque<DigestMessage>,
    /// Digest messages and notifications dropped because the queue was full.
    pub lost_messages: u64,
    /// Deadlines of entries: time in nanoseconds, table, slot, generation.
    pub(crate) deadlines: BinaryHeap<Reverse<(u64, u32, u32, u32)>>,
    /// Ports that the packet has taken and that no entry holds yet.
    pub taken_ports: Vec<PortLease>,
    /// Shares of quotas that the packet has taken and that no entry holds yet.
    pub taken_shares: Vec<QuotaShare>,
    /// State of the random numbers.
    pub random: u64,
    /// Last result of `allocate_flow_id`.
    pub flow_id: u32,
    /// State written by the control plane.
    pub state: ControlState,
    /// PNA: idle timeout in nanoseconds of each expire time profile.
    pub expire_times: BTreeMap<u8, u64>,
    /// Whether no entry expires, because another engine will continue with this state.
    pub is_expiry_suspended: bool,
    /// Time of the last packet or `advance_time`, in nanoseconds.
    pub now: u64,
    /// Source of register values; set in an explainer only, where entries and objects are read from
    /// `state` on demand.
    pub(crate) snapshot_registers: Option<Registers>,
}

impl PersistentState {
    /// Creates the memory of a pipeline with its initial entries only.
    pub fn new(pipeline: &Pipeline, state: ControlState, seed: u64) -> PersistentState {
        let set = |(id, _): (ir::ValueSetId, &ir::ValueSet)| (state.value_set_layout(id).clone(), Vec::new());
        let mut memory = PersistentState {
            tables: pipeline.tables.keys().map(|id| ReferenceTable::new(pipeline, id)).collect(),
            objects: pipeline.externs.values().map(|object| new_object(&object.kind, ElementArray::new)).collect(),
            multicast_groups: BTreeMap::new(),
            clone_sessions: BTreeMap::new(),
            value_sets: pipeline.value_sets.iter().map(set).collect(),
            digests: VecDeque::new(),
            lost_messages: 0,
            deadlines: BinaryHeap::new(),
            taken_ports: Vec::new(),
            taken_shares: Vec::new(),
            random: seed,
            flow_id: 0,
            expire_times: state.expire_times().clone(),
            state,
            is_expiry_suspended: false,
            now: 0,
            snapshot_registers: None,
        };
        for (table, is_written) in memory.tables.iter_mut().zip(packet_written_tables(pipeline)) {
            if is_written {
                table.idle_clock = IdleClock::Ticks;
            }
        }
        for id in pipeline.tables.keys() {
            let entries: Vec<StoredEntry> = memory.state.entries(id).cloned().collect();
            for entry in entries {
                memory.tables[id.index()].insert(&entry, Counter::default(), 0);
            }
            memory.set_default(id);
            memory.tables[id.index()].sort_changed_groups();
        }
        memory
    }

    /// Returns the entry in a slot.
    pub fn entry(&self, table: usize, number: u32) -> Option<&StoredEntry> {
        self.tables.get(table)?.slots.get(number as usize)?.entry.as_ref()
    }

    pub(crate) fn set_default(&mut self, id: TableId) {
        let table = &mut self.tables[id.index()];
        let (target, args) = table.target(self.state.default_action(id).packed());
        let args = args.into();
        (table.default, table.default_args) = (target, args);
    }

    /// Carries out the changes of a batch that `self.state` has accepted.
    pub fn apply_changes(&mut self, changes: Vec<StateChange>) {
        let mut touched = Vec::new();
        for change in changes {
            match change {
                StateChange::Inserted(table, entry, counter) => {
                    let slot = self.tables[table.index()].insert(&entry, counter, self.now);
                    self.schedule_expiry(table.0, slot);
                    touched.push(table.index());
                }
                StateChange::Modified(table, old, new, counter) => {
                    if let Some(slot) = self.tables[table.index()].modify(&old, &new, counter, self.now) {
                        if old.idle_timeout_ns() != new.idle_timeout_ns() {
                            self.share_idle_time(table.index(), slot);
                        }
                        self.schedule_expiry(table.0, slot);
                    }
                    touched.push(table.index());
                }
                StateChange::Deleted(table, entry) => {
                    if let Some(twin) = self.remove_with_twin(table.index(), &entry) {
                        self.state.remove_idle(table, &twin);
                    }
                    touched.push(table.index());
                }
                StateChange::DefaultAction(table) => self.set_default(table),
                StateChange::DirectCounter(table, entry, data) => {
                    let table = &mut self.tables[table.index()];
                    if let Some(slot) = table.find(&entry) {
                        table.slots[slot as usize].counter = data;
                    }
                }
                other => self.apply_object_change(other),
            }
        }
        touched.dedup();
        for table in touched {
            self.tables[table].sort_changed_groups();
        }
    }

    /// Carries out a change of an object other than an entry or a default action.
    pub fn apply_object_change(&mut self, change: StateChange) {
        match change {
            StateChange::Member(profile, id) => {
                let action = self.state.profile(profile).and_then(|p| p.members.get(&id)).map(|m| m.action.clone());
                if let Some(ExternState::Members(members)) = self.objects.get_mut(profile.index()) {
                    match action {
                        Some(action) => members.actions.insert(id, action),
                        None => members.actions.remove(&id),
                    };
                }
            }
            StateChange::Group(profile, id) => {
                let places =
                    self.state.profile(profile).and_then(|p| p.groups.get(&id)).map(|g| g.weighted_members().collect());
                if let Some(ExternState::Members(members)) = self.objects.get_mut(profile.index()) {
                    match places {
                        Some(places) => members.groups.insert(id, places),
                        None => members.groups.remove(&id),
                    };
                }
            }
            StateChange::ValueSet(set) => self.value_sets[set.index()].1 = self.state.value_set(set).to_vec(),
            StateChange::Meter(meter, index) => {
                let config = self.state.meter(meter, index).copied();
                if let Some(ExternState::Meter(_, meters)) = self.objects.get_mut(meter.index()) {
                    match config {
                        Some(config) => meters.insert(index, Meter::new(config, self.now)),
                        None => meters.remove(&index),
                    };
                }
            }
            StateChange::Counter(counter, index, data) => {
                if let Some(ExternState::Counter(array)) = self.objects.get_mut(counter.index())
                    && let Some([packets, bytes]) = array.get_mut(index)
                {
                    (*packets, *bytes) = (data.packets, data.bytes);
                }
            }
            StateChange::Register(register, index, values) => {
                if let Some(ExternState::Register(array, types)) = self.objects.get_mut(register.index()) {
                    let mut words = Vec::new();
                    for (ty, value) in types.iter().zip(&values) {
                        entries::push_words(value, words_for(ty.width()), &mut words);
                    }
                    match index {
                        None => array.fill(&words),
                        Some(index) => {
                            if let Some(element) = array.get_mut(index) {
                                element.copy_from_slice(&words);
                            }
                        }
                    }
                }
            }
            StateChange::Multicast(id) => match self.state.multicast_groups().get(&id) {
                Some(group) => drop(self.multicast_groups.insert(id, group.clone())),
                None => drop(self.multicast_groups.remove(&id)),
            },
            StateChange::Clone(id) => match self.state.clone_sessions().get(&id) {
                Some(session) => drop(self.clone_sessions.insert(id, session.clone())),
                None => drop(self.clone_sessions.remove(&id)),
            },
            StateChange::ExpireTime(profile) => {
                match self.state.expire_times().get(&profile) {
                    Some(time) => drop(self.expire_times.insert(profile, *time)),
                    None => drop(self.expire_times.remove(&profile)),
                }
                self.apply_expire_times();
            }
            StateChange::Inserted(..)
            | StateChange::Modified(..)
            | StateChange::Deleted(..)
            | StateChange::DefaultAction(_)
            | StateChange::DirectCounter(..) => {}
        }
    }

    /// PNA: returns the idle timeout in nanoseconds of an expire time profile, or of the table's
    /// default profile if that one has none; 0: entries never expire.
    pub fn expire_time(&self, table: usize, profile: u8) -> u64 {
        let times = &self.expire_times;
        let fallback = || self.tables[table].default_expire_profile.and_then(|profile| times.get(&profile));
        times.get(&profile).or_else(fallback).copied().unwrap_or(0)
    }

    /// Gives an entry, and its twin, an expire time profile, and restarts its idle timer at the time
    /// `now`.
    pub fn set_expire_profile(&mut self, table: usize, slot: u32, profile: u8, now: u64) {
        let timeout_ns = self.expire_time(table, profile);
        let clock = self.tables[table].idle_clock;
        let Some(entry) = self.tables[table].slots.get_mut(slot as usize) else { return };
        entry.set_idle_timeout(timeout_ns, Some(profile));
        entry.idle_since_ns = clock.start(now, timeout_ns);
        self.store_idle_timeout(table, slot);
        self.share_idle_time(table, slot);
        self.schedule_expiry(table as u32, slot);
    }

    /// Writes the idle timeout of an entry of a table that packets write to the control state.
    fn store_idle_timeout(&mut self, table: usize, slot: u32) {
        if self.tables[table].idle_clock != IdleClock::Ticks {
            return;
        }
        let entry = &mut self.tables[table].slots[slot as usize];
        let Some(stored) = &entry.entry else { return };
        if stored.idle_timeout_ns() != entry.idle_timeout_ns {
            let id = TableId::from_index(table);
            let key = stored.key().to_vec();
            if let Some(stored) = self.state.set_idle_timeout(id, &key, entry.idle_timeout_ns) {
                entry.entry = Some(stored);
            }
        }
    }

    /// Gives the twin of an entry the idle time of the entry, which was just set.
    pub fn share_idle_time(&mut self, table: usize, slot: u32) {
        let Some(twin) = self.twin_slot(table, slot) else { return };
        let slots = &mut self.tables[table].slots;
        let entry = &slots[slot as usize];
        let (since_ns, timeout_ns, profile) = (entry.idle_since_ns, entry.idle_timeout_ns, entry.expire_profile);
        let entry = &mut slots[twin as usize];
        if (entry.idle_timeout_ns, entry.expire_profile) == (timeout_ns, profile) {
            entry.idle_since_ns = entry.idle_since_ns.max(since_ns);
            return;
        }
        entry.set_idle_timeout(timeout_ns, profile);
        entry.idle_since_ns = since_ns;
        self.store_idle_timeout(table, twin);
        self.schedule_expiry(table as u32, twin);
    }

    /// Applies the times of all profiles to the entries that have them.
    fn apply_expire_times(&mut self) {
        for table in 0..self.tables.len() {
            let clock = self.tables[table].idle_clock;
            for slot in 0..self.tables[table].slots.len() as u32 {
                let Some(profile) = self.tables[table].slots[slot as usize].expire_profile else { continue };
                let timeout_ns = self.expire_time(table, profile);
                let entry = &mut self.tables[table].slots[slot as usize];
                if entry.idle_timeout_ns != timeout_ns {
                    entry.set_idle_timeout(timeout_ns, Some(profile));
                    // With a longer time, hits were noted less often.
                    entry.idle_since_ns = entry.idle_since_ns.min(clock.start(self.now, timeout_ns));
                    self.store_idle_timeout(table, slot);
                    self.schedule_expiry(table as u32, slot);
                }
            }
        }
    }

    /// Schedules the expiry of an entry.
    pub fn schedule_expiry(&mut self, table: u32, slot: u32) {
        let reference = &mut self.tables[table as usize];
        let clock = reference.idle_clock;
        let entry = &mut reference.slots[slot as usize];
        let deadline = clock.end(entry.idle_since_ns, entry.idle_timeout_ns);
        // Only the earliest deadline of an entry is valid. A later one is scheduled when the
        // earlier one is reached.
        let is_timed = entry.entry.is_some() && entry.idle_timeout_ns != 0 && clock != IdleClock::Elsewhere;
        if is_timed && entry.deadline_ns.is_none_or(|queued| deadline < queued) {
            entry.deadline_ns = Some(deadline);
            self.deadlines.push(Reverse((deadline, table, slot, entry.generation)));
        }
    }

    /// Returns the entries with an expired idle timeout, and removes those of tables with automatic
    /// deletion.
    pub fn expire_entries(&mut self, now: u64, mut note: impl FnMut(TableId, &StoredEntry)) -> Vec<IdleEntry> {
        let mut idle = Vec::new();
        self.end_port_rests(now);
        while let Some((table, slot, kept)) = self.pop_idle_entry(now, |_, _| 0) {
            let deleted = self.tables[table as usize].auto_delete;
            if deleted {
                let twin = self.remove_with_twin(table as usize, &kept);
                self.tables[table as usize].sort_changed_groups();
                for removed in [Some(&kept), twin.as_ref()].into_iter().flatten() {
                    self.state.remove_idle(TableId(table), removed);
                    note(TableId(table), removed);
                }
                if let Some(entry) = twin {
                    self.push_idle(&mut idle, IdleEntry { table: TableId(table), entry, deleted }, MAX_WAITING);
                }
            } else {
                self.report_idle_twin(table, slot, now, &mut idle, MAX_WAITING);
                self.rearm_idle_timer(table, slot, now);
            }
            self.push_idle(&mut idle, IdleEntry { table: TableId(table), entry: kept, deleted }, MAX_WAITING);
        }
        idle
    }

    /// Returns an entry with an expired idle timeout, with its table and slot. The caller removes
    /// the entry or calls [`PersistentState::rearm_idle_timer`]. `last_hit_ns` returns the time of
    /// the last hit of a slot of a table that was recorded elsewhere; 0: none.
    pub fn pop_idle_entry(
        &mut self,
        now: u64,
        last_hit_ns: impl Fn(u32, u32) -> u64,
    ) -> Option<(u32, u32, StoredEntry)> {
        while let Some(Reverse((deadline, table, slot, generation))) = self.deadlines.peek().copied() {
            if deadline > now || self.is_expiry_suspended {
                return None;
            }
            self.deadlines.pop();
            let entry = &mut self.tables[table as usize].slots[slot as usize];
            if entry.generation != generation || entry.deadline_ns != Some(deadline) {
                continue;
            }
            entry.deadline_ns = None;
            if entry.idle_timeout_ns == 0 {
                continue;
            }
            entry.idle_since_ns = entry.idle_since_ns.max(last_hit_ns(table, slot));
            if self.is_idle(table, slot, now) {
                let twin = self.twin_slot(table as usize, slot);
                if let Some(twin) = twin.filter(|twin| !self.is_idle(table, *twin, now)) {
                    // A later hit of the twin counts for both.
                    let slots = &mut self.tables[table as usize].slots;
                    slots[slot as usize].idle_since_ns = slots[twin as usize].idle_since_ns;
                } else if let Some(kept) = self.entry(table as usize, slot).cloned() {
                    return Some((table, slot, kept));
                }
            }
            self.schedule_expiry(table, slot);
        }
        None
    }

    /// Returns whether the idle timeout of an entry is over at the time `now`.
    fn is_idle(&self, table: u32, slot: u32, now: u64) -> bool {
        let reference = &self.tables[table as usize];
        let entry = &reference.slots[slot as usize];
        entry.idle_timeout_ns != 0 && reference.idle_clock.end(entry.idle_since_ns, entry.idle_timeout_ns) <= now
    }

    /// Restarts the idle timer of an entry, so that each further timeout is reported once.
    pub fn rearm_idle_timer(&mut self, table: u32, slot: u32, now: u64) {
        let reference = &mut self.tables[table as usize];
        reference.slots[slot as usize].idle_since_ns = reference.idle_clock.tick_begin(now);
        self.schedule_expiry(table, slot);
    }

    /// Returns members and groups of the profile of a table.
    pub fn members(&self, pipeline: &Pipeline, table: usize) -> Option<&ProfileState> {
        let profile = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.implementation)?;
        match self.objects.get(profile.index()) {
            Some(ExternState::Members(members)) => Some(members),
            _ => None,
        }
    }

    /// Returns the action data of a member of the profile of a table.
    pub fn member_args(&self, pipeline: &Pipeline, table: usize, member: u32) -> &[u64] {
        match self.member_action(pipeline, table, member) {
            Some(StoredAction::Call(_, args)) => args,
            _ => &[],
        }
    }

    /// Applies a hit: restarts the idle timer; v1model: also counts and meters the packet and
    /// returns the color.
    pub fn apply_hit(&mut self, pipeline: &Pipeline, table: usize, slot: u32, length: u32) -> Option<MeterColor> {
        let entries = &mut self.tables[table];
        if entries.restart_on_hit {
            entries.slots[slot as usize].restart_timer((entries.idle_clock, self.now));
        }
        self.count_hit(pipeline, table, slot, length)
    }

    /// Applies the effects of a hit except on the idle timer: v1model counts and meters the packet
    /// and returns the color.
    pub fn count_hit(&mut self, pipeline: &Pipeline, table: usize, slot: u32, length: u32) -> Option<MeterColor> {
        let entries = &mut self.tables[table];
        let entry = &mut entries.slots[slot as usize];
        if entries.count_on_hit {
            entry.counter.packets = entry.counter.packets.wrapping_add(1);
            entry.counter.bytes = entry.counter.bytes.wrapping_add(u64::from(length));
        }
        entries
            .meter_on_hit
            .then(|| self.meter_direct(pipeline, table, Some(slot), MeterColor::Green, u64::from(length)))
    }

    /// Meters `bytes` with an indexed meter (a packet meter: one packet). Returns `before` if the
    /// meter does not exist or is not configured.
    pub fn meter_indexed(
        &mut self,
        pipeline: &Pipeline,
        meter: ExternId,
        index: u64,
        before: MeterColor,
        bytes: u64,
    ) -> MeterColor {
        let size = match pipeline.externs.get(meter).map(|object| &object.kind) {
            Some(ExternKind::Meter { unit: MeterUnit::Packets, .. }) => 1,
            _ => bytes,
        };
        let config = self.snapshot_registers.as_ref().and_then(|_| self.state.meter(meter, index));
        match self.objects.get_mut(meter.index()) {
            Some(ExternState::Meter(_, meters)) if let Some(config) = config => {
                let meter = meters.entry(index).or_insert_with(|| Meter::new(*config, self.now));
                meter.meter_packet(size, before, self.now)
            }
            Some(ExternState::Meter(_, meters)) => {
                meters.get_mut(&index).map_or(before, |m| m.meter_packet(size, before, self.now))
            }
            _ => before,
        }
    }

    /// Meters `bytes` with the direct meter of an entry (a packet meter: one packet). Returns
    /// `before` if there is no entry or its meter is not configured.
    pub fn meter_direct(
        &mut self,
        pipeline: &Pipeline,
        table: usize,
        slot: Option<u32>,
        before: MeterColor,
        bytes: u64,
    ) -> MeterColor {
        let kind = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.direct_meter);
        let kind = kind.and_then(|id| pipeline.externs.get(id)).map(|object| &object.kind);
        let size = match kind {
            Some(ExternKind::DirectMeter { unit: MeterUnit::Packets }) => 1,
            _ => bytes,
        };
        let slots = &mut self.tables[table].slots;
        let meter = slot.and_then(|slot| slots.get_mut(slot as usize)).and_then(|entry| entry.meter.as_mut());
        meter.map_or(before, |meter| meter.meter_packet(size, before, self.now))
    }

    /// Returns the value of an indexed counter.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let ExternState::Counter(array) = self.objects.get(counter.index())? else { return None };
        match array.get(index)? {
            [packets, bytes] => Some(Counter { packets: *packets, bytes: *bytes }),
            _ => None,
        }
    }

    /// Returns the number of elements of a counter, meter or register.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.objects.get(object.index())? {
            ExternState::Counter(array) | ExternState::Register(array, _) => Some(array.len()),
            ExternState::Meter(size, _) => Some(*size),
            _ => None,
        }
    }

    /// Returns the leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let ExternState::Register(array, types) = self.objects.get(register.index())? else { return None };
        let mut words = array.get(index)?;
        let mut leaves = Vec::new();
        for ty in types {
            let (own, rest) = words.split_at_checked(words_for(ty.width()))?;
            leaves.push(entries::big_from_words(own));
            words = rest;
        }
        Some(leaves)
    }

    /// Returns the next random number (SplitMix64).
    pub fn next_random_word(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::algorithm::scramble(self.random)
    }
}

pub(crate) fn new_object(kind: &ExternKind, array: fn(u64, Box<[u64]>) -> ElementArray) -> ExternState {
    match kind {
        ExternKind::Counter { size, .. } => ExternState::Counter(array(*size, Box::new([0, 0]))),
        ExternKind::Meter { size, .. } => ExternState::Meter(*size, HashMap::new()),
        ExternKind::Register { size, elem, initial, .. } => {
            let mut words = Vec::new();
            for (index, ty) in elem.iter().enumerate() {
                let value = initial.get(index).map(|c| c.bits.clone()).unwrap_or_default();
                entries::push_words(&value, words_for(ty.width()), &mut words);
            }
            ExternState::Register(array(*size, words.into()), elem.clone())
        }
        ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds } => {
            ExternState::Ports(PortPool::new(*addresses, *subscribers, *spaces, *rest_seconds))
        }
        ExternKind::EntryQuota { owners } => ExternState::Quota(EntryQuota::new(*owners)),
        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => {
            ExternState::Members(ProfileState::default())
        }
        _ => ExternState::None,
    }
}
