//! Tables as the engine keeps them: a map by the exact keys, then a scan, strongest entry first. On
//! purpose nothing of the lookups in the crate `entries`.

mod matching;
mod slot;
mod snapshot;

pub use matching::entry_matches;
pub use slot::{EntryLevel, EntrySlot, Target};

use crate::program::Reg;
use entries::{Counter, Entry, KeyLayout, PackedAction, PackedKey, State};
use ir::{Arch, Entity, Key, MatchKind, Pipeline, TableId};
use matching::precedence;
use std::collections::{HashMap, HashSet};

/// Entries with the same exact keys, strongest first once [`Table::settle`] was called.
#[derive(Clone, Debug, Default)]
struct Group {
    numbers: Vec<u32>,
    /// The keys of these entries one behind the other, [`KeyLayout::len`] words each.
    keys: Vec<u64>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// How its keys lie in words.
    pub layout: KeyLayout,
    /// Which of its keys are selector keys.
    pub selector: Vec<usize>,
    /// By the words of the exact keys.
    groups: HashMap<Vec<u64>, Group>,
    /// Those of them that have changed since [`Table::settle`].
    changed: HashSet<Vec<u64>>,
    /// The numbers of entries, by their sequence numbers.
    numbers: HashMap<u64, u32>,
    /// It holds no entries but those that packets have hit: others are looked up in a state.
    in_state: bool,
    /// Entries by number.
    pub slots: Vec<EntrySlot>,
    free: Vec<u32>,
    /// Numbers that are free once [`Table::settle`] was called.
    freed: Vec<u32>,
    /// Arguments of the entries, `stride` words each.
    args: Vec<u64>,
    stride: usize,
    /// Position of each action in the table's list.
    positions: Vec<Option<u32>>,
    /// What the default action is.
    pub default: Target,
    /// Its arguments.
    pub default_args: Box<[u64]>,
    /// For each action of the table's list: packets without a hit, packets with one.
    pub applied: Vec<[Counter; 2]>,
    /// The last key that was looked up, laid out as an entry's.
    key: Vec<u64>,
    /// Its exact words.
    exact: Vec<u64>,
    /// Whether a hit restarts the idle time.
    pub restart_on_hit: bool,
    /// v1model: a hit counts and meters by itself.
    pub count_on_hit: bool,
    /// As `count_on_hit`.
    pub meter_on_hit: bool,
    /// Whether idle entries are deleted, or only reported.
    pub auto_delete: bool,
}

impl Table {
    /// An empty table.
    pub fn new(pipeline: &Pipeline, id: TableId) -> Table {
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
        let is_selector = |(_, key): &(usize, &Key)| key.kind == MatchKind::Selector;
        let selector = declared.keys.iter().enumerate().filter(is_selector).map(|(position, _)| position).collect();
        let v1model = pipeline.arch == Arch::V1Model;
        let property =
            |name: &str, value: &str| declared.properties.iter().any(|(n, text)| n == name && text.contains(value));
        Table {
            key: vec![0; layout.len],
            exact: Vec::new(),
            layout,
            selector,
            groups: HashMap::new(),
            changed: HashSet::new(),
            numbers: HashMap::new(),
            in_state: false,
            slots: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            args: Vec::new(),
            stride,
            positions,
            applied: vec![[Counter::default(); 2]; declared.actions.len()],
            default: Target::Arm(0),
            default_args: Box::default(),
            restart_on_hit: true,
            count_on_hit: v1model && declared.direct_counter.is_some(),
            meter_on_hit: v1model && declared.direct_meter.is_some(),
            auto_delete: property("pna_idle_timeout", "AUTO_DELETE")
                || property("idle_timeout_with_auto_delete", "true"),
        }
    }

    /// A table that holds no entries: [`Table::lookup`] finds them in the state that it is given.
    pub fn in_state(pipeline: &Pipeline, id: TableId) -> Table {
        Table { in_state: true, ..Table::new(pipeline, id) }
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.groups.clear();
        self.changed.clear();
        self.numbers.clear();
        self.slots.clear();
        self.args.clear();
        self.free.clear();
        self.freed.clear();
    }

    /// Looks a packet's key up: the number of the entry that is hit. `slots` are the packet's; `id`
    /// is this table, of which an explainer looks for entries in `state`, where they are hit for
    /// the first time at `now`.
    pub fn lookup(&mut self, (state, id): (&State, TableId), slots: &[u64], keys: &[Reg], now: u64) -> Option<u32> {
        if self.layout.fields.is_empty() {
            return None;
        }
        self.lay_out(slots, keys);
        if self.in_state {
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

    fn lay_out(&mut self, slots: &[u64], keys: &[Reg]) {
        for field in &self.layout.fields {
            let from = keys[field.position].slot as usize;
            field.value_mut(&mut self.key).copy_from_slice(&slots[from..from + field.words]);
        }
    }

    /// As [`Table::lookup`], where it is known which entry is hit: the number of the one with that sequence number.
    pub fn look_up_known(&mut self, slots: &[u64], keys: &[Reg], sequence: Option<u64>) -> Option<u32> {
        self.lay_out(slots, keys);
        self.numbers.get(&sequence?).copied()
    }

    /// The key that was looked up last, in the form of an entry of a table whose keys are all
    /// exact.
    pub fn missed_key(&self) -> PackedKey {
        PackedKey::from_slice(&self.key)
    }

    /// Whether packets can add entries: there are keys, and all are exact.
    pub fn is_exact(&self) -> bool {
        let fields = &self.layout.fields;
        !fields.is_empty() && fields.iter().all(|field| field.kind == MatchKind::Exact)
    }

    /// The arguments of an entry with a direct action.
    pub fn args(&self, slot: u32) -> &[u64] {
        let first = slot as usize * self.stride;
        &self.args[first..first + self.stride]
    }

    /// The position of an action in the table's list.
    pub fn position(&self, action: ir::ActionId) -> Option<u32> {
        self.positions.get(action.index()).copied().flatten()
    }

    /// What an action leads to, and its arguments.
    pub fn target<'a>(&self, action: PackedAction<'a>) -> (Target, &'a [u64]) {
        match action {
            PackedAction::Call(id, args) => (Target::Arm(self.position(id).unwrap_or(0)), args),
            PackedAction::Member(id) => (Target::Member(id), &[]),
            PackedAction::Group(id) => (Target::Group(id), &[]),
        }
    }

    /// Adds an entry; [`Table::settle`] makes packets find it. `now` begins its idle time.
    pub fn insert(&mut self, entry: &Entry, counter: Counter, now: u64) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(EntrySlot::free());
            self.args.resize(self.slots.len() * self.stride, 0);
            self.slots.len() as u32 - 1
        });
        self.set_action(number, entry);
        self.slots[number as usize].begin(entry, counter, now);
        self.numbers.insert(entry.sequence(), number);
        if !self.in_state {
            let exact: Vec<u64> = self.layout.exact_words(entry.key()).collect();
            self.groups.entry(exact.clone()).or_default().numbers.push(number);
            self.changed.insert(exact);
        }
        number
    }

    /// The action of a slot.
    fn set_action(&mut self, number: u32, entry: &Entry) {
        let (target, args) = self.target(entry.action());
        let first = number as usize * self.stride;
        let room = &mut self.args[first..first + self.stride];
        room.fill(0);
        room[..args.len()].copy_from_slice(args);
        self.slots[number as usize].target = target;
    }

    /// Replaces an entry by one with the same key. Its counter goes on; its meter does if the configuration is the same.
    pub fn modify(&mut self, old: &Entry, new: &Entry, counter: Option<Counter>, now: u64) -> Option<u32> {
        let number = self.find(old)?;
        self.set_action(number, new);
        self.slots[number as usize].replace(old, new, counter, now);
        Some(number)
    }

    /// Takes an entry out; [`Table::settle`] makes packets miss it.
    pub fn remove(&mut self, entry: &Entry) -> Option<u32> {
        let number = self.numbers.remove(&entry.sequence())?;
        self.slots[number as usize].end();
        self.freed.push(number);
        self.changed.insert(self.layout.exact_words(entry.key()).collect());
        Some(number)
    }

    /// The number of an entry.
    pub fn find(&self, entry: &Entry) -> Option<u32> {
        self.numbers.get(&entry.sequence()).copied()
    }

    /// Brings groups that have changed in order. Call it after the changes of a batch.
    pub fn settle(&mut self) {
        for exact in self.changed.drain() {
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
        self.free.append(&mut self.freed);
    }
}
