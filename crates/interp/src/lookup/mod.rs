//! Tables of the engine: a map by the exact keys, then a scan in order of precedence. This shares
//! no code with the lookups of the crate `entries`, because it checks them.

mod entry_slot;
mod matching;
mod snapshot;

pub use entry_slot::{EntryRuntimeState, EntrySlot, HitTarget};
pub use matching::entry_matches;

use crate::decode;
use crate::idle_clock::IdleClock;
use crate::program::Reg;
use entries::{ControlState, Counter, KeyLayout, PackedKey, StoredActionRef, StoredEntry};
use ir::{Arch, Entity, MatchKey, MatchKind, Pipeline, TableId};
use matching::precedence;
use std::collections::{HashMap, HashSet};

/// Entries with equal exact keys, in order of precedence after
/// [`ReferenceTable::sort_changed_groups`].
#[derive(Clone, Debug, Default)]
struct ExactMatchGroup {
    numbers: Vec<u32>,
    /// Keys of these entries, contiguous, [`KeyLayout::len`] words each.
    keys: Vec<u64>,
}

/// Table with the reference lookup.
#[derive(Clone, Debug)]
pub struct ReferenceTable {
    /// Layout of its key in words.
    pub layout: KeyLayout,
    /// Positions of its selector keys.
    pub selector: Vec<usize>,
    /// Groups by the words of the exact keys.
    groups: HashMap<Vec<u64>, ExactMatchGroup>,
    /// Keys of groups changed since the last [`ReferenceTable::sort_changed_groups`].
    changed_groups: HashSet<Vec<u64>>,
    /// Slots of entries by sequence number.
    slots_by_sequence: HashMap<u64, u32>,
    /// Whether the table holds only entries that packets have hit. Others are looked up in a
    /// control state.
    is_state_backed: bool,
    /// Entries by slot.
    pub slots: Vec<EntrySlot>,
    free: Vec<u32>,
    /// Slots that become free at the next [`ReferenceTable::sort_changed_groups`].
    pending_free: Vec<u32>,
    /// Action data of the entries, `stride` words each.
    args: Vec<u64>,
    stride: usize,
    /// Position of each action in the table's list.
    action_positions: Vec<Option<u32>>,
    /// The default action.
    pub default: HitTarget,
    /// Action data of the default action.
    pub default_args: Box<[u64]>,
    /// For each action of the table's list: packets on a miss, packets on a hit.
    pub action_counters: Vec<[Counter; 2]>,
    /// Last key that was looked up, in the layout of an entry.
    key: Vec<u64>,
    /// Exact words of `key`.
    exact: Vec<u64>,
    /// How idle times are counted.
    pub idle_clock: IdleClock,
    /// Whether a hit restarts the idle timer.
    pub restart_on_hit: bool,
    /// v1model: whether a hit counts with the direct counter.
    pub count_on_hit: bool,
    /// v1model: whether a hit executes the direct meter.
    pub meter_on_hit: bool,
    /// PNA: expire time profile of entries whose own has no time.
    pub default_expire_profile: Option<u8>,
    /// Whether idle entries are deleted instead of only reported.
    pub auto_delete: bool,
}

impl ReferenceTable {
    /// Creates an empty table.
    pub fn new(pipeline: &Pipeline, id: TableId) -> ReferenceTable {
        let declared = &pipeline.tables[id];
        let layout = KeyLayout::new(&declared.keys);
        let mut positions = vec![None; pipeline.actions.len()];
        for (position, listed) in declared.actions.iter().enumerate() {
            if let Some(place) = positions.get_mut(listed.action.index()) {
                *place = Some(position as u32);
            }
        }
        let words = |action: ir::ActionId| {
            entries::action_layout(pipeline, action).last().map_or(0, |field| field.offset + field.words)
        };
        let listed = declared.actions.iter().filter(|a| pipeline.actions.get(a.action).is_some());
        let stride = listed.map(|a| words(a.action)).max().unwrap_or(0);
        let is_selector = |(_, key): &(usize, &MatchKey)| key.kind == MatchKind::Selector;
        let selector = declared.keys.iter().enumerate().filter(is_selector).map(|(position, _)| position).collect();
        let v1model = pipeline.arch == Arch::V1Model;
        let property =
            |name: &str, value: &str| declared.properties.iter().any(|(n, text)| n == name && text.contains(value));
        ReferenceTable {
            key: vec![0; layout.len],
            exact: Vec::new(),
            layout,
            selector,
            groups: HashMap::new(),
            changed_groups: HashSet::new(),
            slots_by_sequence: HashMap::new(),
            is_state_backed: false,
            slots: Vec::new(),
            free: Vec::new(),
            pending_free: Vec::new(),
            args: Vec::new(),
            stride,
            action_positions: positions,
            action_counters: vec![[Counter::default(); 2]; declared.actions.len()],
            default: HitTarget::Arm(0),
            default_args: Box::default(),
            idle_clock: IdleClock::Exact,
            restart_on_hit: true,
            count_on_hit: v1model && declared.direct_counter.is_some(),
            meter_on_hit: v1model && declared.direct_meter.is_some(),
            default_expire_profile: decode::default_expire_profile(declared),
            auto_delete: property("pna_idle_timeout", "AUTO_DELETE")
                || property("idle_timeout_with_auto_delete", "true"),
        }
    }

    /// Creates a table without entries. [`ReferenceTable::lookup`] finds them in the control state
    /// passed to it.
    pub fn with_state_lookup(pipeline: &Pipeline, id: TableId) -> ReferenceTable {
        ReferenceTable { is_state_backed: true, ..ReferenceTable::new(pipeline, id) }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.changed_groups.clear();
        self.slots_by_sequence.clear();
        self.slots.clear();
        self.args.clear();
        self.free.clear();
        self.pending_free.clear();
    }

    /// Looks up a packet's key and returns the slot of the hit entry. `slots` are the packet's
    /// words, `keys` the registers of the key elements.
    ///
    /// The exact words of the key select a group; the first match in it is the result, because its
    /// entries are in the order of precedence. The table of an explainer looks entries up in
    /// `state` under the table id `id`, and inserts them at their first hit with the time `now`.
    pub fn lookup(
        &mut self,
        (state, id): (&ControlState, TableId),
        slots: &[u64],
        keys: &[Reg],
        now: u64,
    ) -> Option<u32> {
        if self.layout.fields.is_empty() {
            return None;
        }
        self.pack_key(slots, keys);
        if self.is_state_backed {
            let entry = snapshot::find_in_state(state, id, &self.layout, &self.key)?;
            return Some(self.find(entry).unwrap_or_else(|| self.insert(entry, Counter::default(), now)));
        }
        self.exact.clear();
        self.exact.extend(self.layout.exact_words(&self.key));
        let group = self.groups.get(&self.exact)?;
        let mut entries = group.keys.chunks_exact(self.layout.len);
        let found = entries.position(|entry| entry_matches(&self.layout, entry, |field| field.value(&self.key)))?;
        Some(group.numbers[found])
    }

    fn pack_key(&mut self, slots: &[u64], keys: &[Reg]) {
        for field in &self.layout.fields {
            let from = keys[field.position].first_word as usize;
            field.value_mut(&mut self.key).copy_from_slice(&slots[from..from + field.words]);
        }
    }

    /// Records a key like [`ReferenceTable::lookup`] and returns the slot of the entry with this
    /// sequence number, which the caller has found.
    pub fn record_known_hit(&mut self, slots: &[u64], keys: &[Reg], sequence: Option<u64>) -> Option<u32> {
        self.pack_key(slots, keys);
        self.slots_by_sequence.get(&sequence?).copied()
    }

    /// Returns the last key that was looked up, in the form of an entry of a table with exact keys
    /// only.
    pub fn missed_key(&self) -> PackedKey {
        PackedKey::from_slice(&self.key)
    }

    /// Returns whether packets can add entries: the table has keys, and all are exact.
    pub fn is_exact(&self) -> bool {
        let fields = &self.layout.fields;
        !fields.is_empty() && fields.iter().all(|field| field.kind == MatchKind::Exact)
    }

    /// Returns the action data of an entry with a direct action.
    pub fn args(&self, slot: u32) -> &[u64] {
        let first = slot as usize * self.stride;
        &self.args[first..first + self.stride]
    }

    /// Returns the position of an action in the table's list.
    pub fn position(&self, action: ir::ActionId) -> Option<u32> {
        self.action_positions.get(action.index()).copied().flatten()
    }

    /// Returns the target of an action and its action data.
    pub fn target<'a>(&self, action: StoredActionRef<'a>) -> (HitTarget, &'a [u64]) {
        match action {
            StoredActionRef::Call(id, args) => (HitTarget::Arm(self.position(id).unwrap_or(0)), args),
            StoredActionRef::Member(id) => (HitTarget::Member(id), &[]),
            StoredActionRef::Group(id) => (HitTarget::Group(id), &[]),
        }
    }

    /// Adds an entry, which packets find after [`ReferenceTable::sort_changed_groups`]. Its idle
    /// timer starts at `now`. Returns its slot.
    pub fn insert(&mut self, entry: &StoredEntry, counter: Counter, now: u64) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(EntrySlot::free());
            self.args.resize(self.slots.len() * self.stride, 0);
            self.slots.len() as u32 - 1
        });
        self.set_action(number, entry);
        self.slots[number as usize].install(entry, counter, (self.idle_clock, now));
        self.slots_by_sequence.insert(entry.sequence(), number);
        if !self.is_state_backed {
            let exact: Vec<u64> = self.layout.exact_words(entry.key()).collect();
            self.groups.entry(exact.clone()).or_default().numbers.push(number);
            self.changed_groups.insert(exact);
        }
        number
    }

    /// Sets target and action data of a slot.
    fn set_action(&mut self, number: u32, entry: &StoredEntry) {
        let (target, args) = self.target(entry.action());
        let first = number as usize * self.stride;
        let room = &mut self.args[first..first + self.stride];
        room.fill(0);
        room[..args.len()].copy_from_slice(args);
        self.slots[number as usize].target = target;
    }

    /// Replaces an entry by one with the same key. The counter is kept unless given. The meter is
    /// kept if its configuration is equal.
    pub fn modify(&mut self, old: &StoredEntry, new: &StoredEntry, counter: Option<Counter>, now: u64) -> Option<u32> {
        let number = self.find(old)?;
        self.set_action(number, new);
        self.slots[number as usize].replace(old, new, counter, (self.idle_clock, now));
        Some(number)
    }

    /// Removes an entry, which packets miss after [`ReferenceTable::sort_changed_groups`].
    pub fn remove(&mut self, entry: &StoredEntry) -> Option<u32> {
        let number = self.slots_by_sequence.remove(&entry.sequence())?;
        self.slots[number as usize].remove();
        self.pending_free.push(number);
        self.changed_groups.insert(self.layout.exact_words(entry.key()).collect());
        Some(number)
    }

    /// Returns the slot of an entry.
    pub fn find(&self, entry: &StoredEntry) -> Option<u32> {
        self.slots_by_sequence.get(&entry.sequence()).copied()
    }

    /// Sorts the changed groups. Must be called after the changes of a batch.
    pub fn sort_changed_groups(&mut self) {
        for exact in self.changed_groups.drain() {
            let Some(group) = self.groups.get_mut(&exact) else { continue };
            let entry = |number: &u32| self.slots[*number as usize].entry.as_ref();
            group.numbers.retain(|number| entry(number).is_some());
            group.numbers.sort_by_cached_key(|number| entry(number).map(|entry| precedence(&self.layout, entry)));
            group.keys.clear();
            group.numbers.iter().filter_map(entry).for_each(|entry| group.keys.extend_from_slice(entry.key()));
            if group.numbers.is_empty() {
                self.groups.remove(&exact);
            }
        }
        self.free.append(&mut self.pending_free);
    }
}
