//! What lives longer than a packet: tables, counters, meters, registers, digests, groups and sessions.

use crate::array::Array;
use crate::lookup::Table;
use crate::meter::{Colour, Meter};
use crate::registers::Registers;
use entries::{Action, Change, CloneSession, Counter, Entry, MulticastGroup, State, words_for};
use ir::{Entity, ExternId, ExternKind, MeterUnit, Pipeline, TableId, Type};
use num_bigint::BigUint;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// The most digest messages and notifications that wait for the control plane.
pub const MAX_WAITING: usize = 1 << 16;

/// An action profile or selector as packets use it.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Each member's action.
    pub actions: HashMap<u32, Action>,
    /// The list that a group's hash picks from.
    pub groups: HashMap<u32, Box<[u32]>>,
}

/// State of an extern object.
#[derive(Clone, Debug)]
pub enum Object {
    /// Packets and bytes by index.
    Counter(Array),
    /// Configured meters by index.
    Meter(u64, HashMap<u64, Meter>),
    /// Register elements with the types of their leaves.
    Register(Array, Vec<Type>),
    /// Profile or selector.
    Members(Members),
    /// Nothing that outlives a packet.
    None,
}

/// A message for the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DigestMessage {
    /// The digest object.
    pub digest: ExternId,
    /// The leaves of the message.
    pub values: Vec<BigUint>,
}

/// An entry that was idle for its time.
#[derive(Clone, PartialEq, Debug)]
pub struct IdleEntry {
    /// Its table.
    pub table: TableId,
    /// The entry.
    pub entry: Entry,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// Everything that outlives a packet.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Tables by number.
    pub tables: Vec<Table>,
    /// Extern objects by number.
    pub objects: Vec<Object>,
    /// Groups by number.
    pub multicast: BTreeMap<u32, MulticastGroup>,
    /// Sessions by number.
    pub clones: BTreeMap<u32, CloneSession>,
    /// Members of value sets, with the layout of their keys.
    pub value_sets: Vec<(entries::KeyLayout, Vec<entries::PackedKey>)>,
    /// Digest messages that nobody has fetched.
    pub digests: VecDeque<DigestMessage>,
    /// Digest messages and notifications that were lost because too many waited.
    pub lost: u64,
    /// Deadlines of entries: time, table, slot, generation.
    pub(crate) deadlines: BinaryHeap<Reverse<(u64, u32, u32, u32)>>,
    /// State of the random numbers.
    pub random: u64,
    /// What `allocate_flow_id` gave last.
    pub flow_id: u32,
    /// The control plane's words.
    pub state: State,
    /// PNA: idle time in nanoseconds of each expire time profile.
    pub expire_times: BTreeMap<u8, u64>,
    /// No entry grows too old while this is so: another engine is to go on with it.
    pub hold_idle: bool,
    /// Nanoseconds, as given with the last packet or `advance_time`.
    pub now: u64,
    /// An explainer's: nothing is held of what `state` has, and registers are read here.
    pub(crate) present: Option<Registers>,
}

impl Memory {
    /// The memory of a pipeline to which nobody has written.
    pub fn new(pipeline: &Pipeline, state: State, seed: u64) -> Memory {
        let set = |(id, _): (ir::ValueSetId, &ir::ValueSet)| (state.value_set_layout(id).clone(), Vec::new());
        let mut memory = Memory {
            tables: pipeline.tables.keys().map(|id| Table::new(pipeline, id)).collect(),
            objects: pipeline.externs.values().map(|object| new_object(&object.kind, Array::new)).collect(),
            multicast: BTreeMap::new(),
            clones: BTreeMap::new(),
            value_sets: pipeline.value_sets.iter().map(set).collect(),
            digests: VecDeque::new(),
            lost: 0,
            deadlines: BinaryHeap::new(),
            random: seed,
            flow_id: 0,
            expire_times: state.expire_times().clone(),
            state,
            hold_idle: false,
            now: 0,
            present: None,
        };
        for id in pipeline.tables.keys() {
            let entries: Vec<Entry> = memory.state.entries(id).cloned().collect();
            for entry in entries {
                memory.tables[id.index()].insert(&entry, Counter::default(), 0);
            }
            memory.set_default(id);
            memory.tables[id.index()].settle();
        }
        memory
    }

    /// The entry of a number, if there is one.
    pub fn entry(&self, table: usize, number: u32) -> Option<&Entry> {
        self.tables.get(table)?.slots.get(number as usize)?.entry.as_ref()
    }

    pub(crate) fn set_default(&mut self, id: TableId) {
        let table = &mut self.tables[id.index()];
        let (target, args) = table.target(self.state.default_action(id).packed());
        let args = args.into();
        (table.default, table.default_args) = (target, args);
    }

    /// Carries out the changes of a batch that `self.state` has accepted.
    pub fn carry_out(&mut self, changes: Vec<Change>) {
        let mut touched = Vec::new();
        for change in changes {
            match change {
                Change::Inserted(table, entry, counter) => {
                    let slot = self.tables[table.index()].insert(&entry, counter, self.now);
                    self.watch(table.0, slot);
                    touched.push(table.index());
                }
                Change::Modified(table, old, new, counter) => {
                    if let Some(slot) = self.tables[table.index()].modify(&old, &new, counter, self.now) {
                        self.watch(table.0, slot);
                    }
                    touched.push(table.index());
                }
                Change::Deleted(table, entry) => {
                    self.tables[table.index()].remove(&entry);
                    touched.push(table.index());
                }
                Change::DefaultAction(table) => self.set_default(table),
                Change::DirectCounter(table, entry, data) => {
                    let table = &mut self.tables[table.index()];
                    if let Some(slot) = table.find(&entry) {
                        table.slots[slot as usize].counter = data;
                    }
                }
                other => self.carry_out_object(other),
            }
        }
        touched.dedup();
        for table in touched {
            self.tables[table].settle();
        }
    }

    /// Carries out a change that concerns no entry and no default action.
    pub fn carry_out_object(&mut self, change: Change) {
        match change {
            Change::Member(profile, id) => {
                let action = self.state.profile(profile).and_then(|p| p.members.get(&id)).map(|m| m.action.clone());
                if let Some(Object::Members(members)) = self.objects.get_mut(profile.index()) {
                    match action {
                        Some(action) => members.actions.insert(id, action),
                        None => members.actions.remove(&id),
                    };
                }
            }
            Change::Group(profile, id) => {
                let places = self.state.profile(profile).and_then(|p| p.groups.get(&id)).map(|g| g.places().collect());
                if let Some(Object::Members(members)) = self.objects.get_mut(profile.index()) {
                    match places {
                        Some(places) => members.groups.insert(id, places),
                        None => members.groups.remove(&id),
                    };
                }
            }
            Change::ValueSet(set) => self.value_sets[set.index()].1 = self.state.value_set(set).to_vec(),
            Change::Meter(meter, index) => {
                let config = self.state.meter(meter, index).copied();
                if let Some(Object::Meter(_, meters)) = self.objects.get_mut(meter.index()) {
                    match config {
                        Some(config) => meters.insert(index, Meter::new(config, self.now)),
                        None => meters.remove(&index),
                    };
                }
            }
            Change::Counter(counter, index, data) => {
                if let Some(Object::Counter(array)) = self.objects.get_mut(counter.index())
                    && let Some([packets, bytes]) = array.get_mut(index)
                {
                    (*packets, *bytes) = (data.packets, data.bytes);
                }
            }
            Change::Register(register, index, values) => {
                if let Some(Object::Register(array, types)) = self.objects.get_mut(register.index()) {
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
            Change::Multicast(id) => match self.state.multicast_groups().get(&id) {
                Some(group) => drop(self.multicast.insert(id, group.clone())),
                None => drop(self.multicast.remove(&id)),
            },
            Change::Clone(id) => match self.state.clone_sessions().get(&id) {
                Some(session) => drop(self.clones.insert(id, session.clone())),
                None => drop(self.clones.remove(&id)),
            },
            Change::ExpireTime(profile) => match self.state.expire_times().get(&profile) {
                Some(time) => drop(self.expire_times.insert(profile, *time)),
                None => drop(self.expire_times.remove(&profile)),
            },
            Change::Inserted(..)
            | Change::Modified(..)
            | Change::Deleted(..)
            | Change::DefaultAction(_)
            | Change::DirectCounter(..) => {}
        }
    }

    /// Keeps an eye on an entry's idle time.
    pub fn watch(&mut self, table: u32, slot: u32) {
        let entry = &mut self.tables[table as usize].slots[slot as usize];
        let deadline = entry.active.saturating_add(entry.timeout);
        // Of an entry's places in the queue only the earliest counts; a later deadline is found out when that comes.
        if entry.timeout != 0 && entry.queued.is_none_or(|queued| deadline < queued) {
            entry.queued = Some(deadline);
            self.deadlines.push(Reverse((deadline, table, slot, entry.generation)));
        }
    }

    /// The entries whose idle time has passed; those of tables with auto delete are gone.
    pub fn expire(&mut self, now: u64, mut note: impl FnMut(TableId, &Entry)) -> Vec<IdleEntry> {
        let mut idle = Vec::new();
        while let Some((table, slot, kept)) = self.next_idle(now) {
            let deleted = self.tables[table as usize].auto_delete;
            if deleted {
                self.tables[table as usize].remove(&kept);
                self.tables[table as usize].settle();
                self.state.remove_idle(TableId(table), &kept);
                note(TableId(table), &kept);
            } else {
                self.tell_again(table, slot, now);
            }
            if idle.len() < MAX_WAITING {
                idle.push(IdleEntry { table: TableId(table), entry: kept, deleted });
            } else {
                self.lost += 1;
            }
        }
        idle
    }

    /// An entry whose idle time has passed, with its table and slot. Either it is removed or [`Memory::tell_again`] is called.
    pub fn next_idle(&mut self, now: u64) -> Option<(u32, u32, Entry)> {
        while let Some(Reverse((deadline, table, slot, generation))) = self.deadlines.peek().copied() {
            if deadline > now || self.hold_idle {
                return None;
            }
            self.deadlines.pop();
            let entry = &mut self.tables[table as usize].slots[slot as usize];
            if entry.generation != generation || entry.queued != Some(deadline) {
                continue;
            }
            entry.queued = None;
            if entry.timeout == 0 {
                continue;
            }
            if entry.active.saturating_add(entry.timeout) > now {
                self.watch(table, slot);
                continue;
            }
            if let Some(kept) = entry.entry.clone() {
                return Some((table, slot, kept));
            }
        }
        None
    }

    /// The idle time of an entry begins anew: it is told of once for each time that it passes.
    pub fn tell_again(&mut self, table: u32, slot: u32, now: u64) {
        self.tables[table as usize].slots[slot as usize].active = now;
        self.watch(table, slot);
    }

    /// Members and groups of the profile that a table uses.
    pub fn members(&self, pipeline: &Pipeline, table: usize) -> Option<&Members> {
        let profile = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.implementation)?;
        match self.objects.get(profile.index()) {
            Some(Object::Members(members)) => Some(members),
            _ => None,
        }
    }

    /// The arguments of a member's action, of the profile that a table uses.
    pub fn member_args(&self, pipeline: &Pipeline, table: usize, member: u32) -> &[u64] {
        match self.member_action(pipeline, table, member) {
            Some(Action::Call(_, args)) => args,
            _ => &[],
        }
    }

    /// What a hit does: it restarts the idle time; v1model: it counts and meters, the colour then is given.
    pub fn hit(&mut self, pipeline: &Pipeline, table: usize, slot: u32, length: u32) -> Option<Colour> {
        let now = self.now;
        let entries = &mut self.tables[table];
        let entry = &mut entries.slots[slot as usize];
        if entries.restart_on_hit {
            entry.active = now;
        }
        if entries.count_on_hit {
            entry.counter.packets = entry.counter.packets.wrapping_add(1);
            entry.counter.bytes = entry.counter.bytes.wrapping_add(u64::from(length));
        }
        entries.meter_on_hit.then(|| self.mark_direct(pipeline, table, Some(slot), Colour::Green, u64::from(length)))
    }

    /// Meters `bytes` with an indexed meter (a packet meter: one packet); one that isn't configured or doesn't exist leaves the
    /// colour as it was.
    pub fn mark(&mut self, pipeline: &Pipeline, meter: ExternId, index: u64, before: Colour, bytes: u64) -> Colour {
        let size = match pipeline.externs.get(meter).map(|object| &object.kind) {
            Some(ExternKind::Meter { unit: MeterUnit::Packets, .. }) => 1,
            _ => bytes,
        };
        let config = self.present.as_ref().and_then(|_| self.state.meter(meter, index));
        match self.objects.get_mut(meter.index()) {
            Some(Object::Meter(_, meters)) if let Some(config) = config => {
                let meter = meters.entry(index).or_insert_with(|| Meter::new(*config, self.now));
                meter.mark(size, before, self.now)
            }
            Some(Object::Meter(_, meters)) => meters.get_mut(&index).map_or(before, |m| m.mark(size, before, self.now)),
            _ => before,
        }
    }

    /// Meters `bytes` with the direct meter of an entry (a packet meter: one packet); the colour stays as it was if there
    /// is no entry or its meter is not configured.
    pub fn mark_direct(
        &mut self,
        pipeline: &Pipeline,
        table: usize,
        slot: Option<u32>,
        before: Colour,
        bytes: u64,
    ) -> Colour {
        let kind = pipeline.tables.get(TableId(table as u32)).and_then(|t| t.direct_meter);
        let kind = kind.and_then(|id| pipeline.externs.get(id)).map(|object| &object.kind);
        let size = match kind {
            Some(ExternKind::DirectMeter { unit: MeterUnit::Packets }) => 1,
            _ => bytes,
        };
        let slots = &mut self.tables[table].slots;
        let meter = slot.and_then(|slot| slots.get_mut(slot as usize)).and_then(|entry| entry.meter.as_mut());
        meter.map_or(before, |meter| meter.mark(size, before, self.now))
    }

    /// The value of an indexed counter.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        let Object::Counter(array) = self.objects.get(counter.index())? else { return None };
        match array.get(index)? {
            [packets, bytes] => Some(Counter { packets: *packets, bytes: *bytes }),
            _ => None,
        }
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        match self.objects.get(object.index())? {
            Object::Counter(array) | Object::Register(array, _) => Some(array.len()),
            Object::Meter(size, _) => Some(*size),
            _ => None,
        }
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        let Object::Register(array, types) = self.objects.get(register.index())? else { return None };
        let mut words = array.get(index)?;
        let mut leaves = Vec::new();
        for ty in types {
            let (own, rest) = words.split_at_checked(words_for(ty.width()))?;
            leaves.push(entries::big_from_words(own));
            words = rest;
        }
        Some(leaves)
    }

    /// The next random number (SplitMix64).
    pub fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        crate::algorithm::scramble(self.random)
    }
}

pub(crate) fn new_object(kind: &ExternKind, array: fn(u64, Box<[u64]>) -> Array) -> Object {
    match kind {
        ExternKind::Counter { size, .. } => Object::Counter(array(*size, Box::new([0, 0]))),
        ExternKind::Meter { size, .. } => Object::Meter(*size, HashMap::new()),
        ExternKind::Register { size, elem, initial, .. } => {
            let mut words = Vec::new();
            for (index, ty) in elem.iter().enumerate() {
                let value = initial.get(index).map(|c| c.bits.clone()).unwrap_or_default();
                entries::push_words(&value, words_for(ty.width()), &mut words);
            }
            Object::Register(array(*size, words.into()), elem.clone())
        }
        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => Object::Members(Members::default()),
        _ => Object::None,
    }
}
