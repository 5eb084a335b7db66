//! Hot set: the entries of a table that are on the switch, if it can hold only some of them.
//!
//! A packet that hits an entry of the hot set must hit the same entry in the whole table. An entry
//! is therefore in the set only together with every entry that shadows it: longer prefixes within
//! its own and overlapping rules of higher priority. [`HotSet`] maintains this invariant when
//! entries are selected by hits and when the table changes: a new entry evicts the entries that it
//! shadows.
//!
//! An entry stays in the set until another one has clearly more hits ([`STICKINESS_PERCENT`]), so
//! that entries with similar hits do not alternate.

use entries::{ControlState, KeyLayout, StoredEntry};
use ir::{Pipeline, TableId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Weight in percent of the hits of an entry that is already on the switch.
pub const STICKINESS_PERCENT: u64 = 125;

/// Maximum number of comparisons of a selection. A table of many overlapping rules gets fewer hot
/// entries instead of more time.
const STEP_BUDGET: usize = 20_000_000;

/// Identity of an entry: the words of its key, and its priority.
pub type EntryIdentity = (Box<[u64]>, i32);

/// Words of a key's exact fields.
type ExactKey = Box<[u64]>;

/// Entries of a table that are on the switch.
pub struct HotSet {
    table: TableId,
    layout: KeyLayout,
    capacity: u64,
    /// Selected entries by exact fields.
    chosen: HashMap<ExactKey, Vec<StoredEntry>>,
    count: u64,
}

/// Change of a hot set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HotSetDelta {
    /// Entries to remove from the switch.
    pub removed: Vec<StoredEntry>,
    /// Entries to add, in the order in which they were written.
    pub added: Vec<StoredEntry>,
}

impl HotSet {
    /// Returns an empty set with a capacity in entries.
    pub fn new(pipeline: &Pipeline, table: TableId, room: u64) -> HotSet {
        let layout = KeyLayout::new(&pipeline.tables[table].keys);
        HotSet { table, layout, capacity: room, chosen: HashMap::new(), count: 0 }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the capacity in entries.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns whether an entry is in the set.
    pub fn contains(&self, key: &[u64], priority: i32) -> bool {
        self.chosen
            .get(&self.exact_key(key))
            .is_some_and(|all| all.iter().any(|entry| has_identity(entry, key, priority)))
    }

    /// Returns the entries.
    pub fn entries(&self) -> impl Iterator<Item = &StoredEntry> {
        self.chosen.values().flatten()
    }

    /// Adds an entry of an exact table, if there is capacity. Returns whether it was added.
    pub fn add(&mut self, entry: &StoredEntry) -> bool {
        let has_room = self.count < self.capacity && !self.contains(entry.key(), entry.priority());
        if has_room {
            self.insert(entry.clone());
        }
        has_room
    }

    /// Inserts an entry that is not in the set.
    fn insert(&mut self, entry: StoredEntry) {
        self.chosen.entry(self.exact_key(entry.key())).or_default().push(entry);
        self.count += 1;
    }

    /// Handles a new entry in the table: removes the entries that it shadows, those that these
    /// shadow, and so on. Returns them.
    pub fn on_insert(&mut self, new: &StoredEntry) -> Vec<StoredEntry> {
        let exact = self.exact_key(new.key());
        let (layout, Some(all)) = (&self.layout, self.chosen.get_mut(&exact)) else { return Vec::new() };
        let mut out: Vec<StoredEntry> = all.extract_if(.., |entry| can_shadow(layout, new, entry)).collect();
        let mut at = 0;
        while let Some(gone) = out.get(at).cloned() {
            out.extend(all.extract_if(.., |entry| can_shadow(layout, &gone, entry)));
            at += 1;
        }
        self.count -= out.len() as u64;
        out
    }

    /// Handles a modified entry with unchanged key and priority. Returns whether it is in the set.
    pub fn on_modify(&mut self, entry: &StoredEntry) -> bool {
        let exact = self.exact_key(entry.key());
        let all = self.chosen.get_mut(&exact);
        let found = all.and_then(|all| all.iter_mut().find(|old| has_identity(old, entry.key(), entry.priority())));
        match found {
            Some(old) => {
                *old = entry.clone();
                true
            }
            None => false,
        }
    }

    /// Handles a deleted entry. Returns whether it was in the set.
    pub fn on_delete(&mut self, key: &[u64], priority: i32) -> bool {
        let exact = self.exact_key(key);
        let Some(all) = self.chosen.get_mut(&exact) else { return false };
        let before = all.len();
        all.retain(|entry| !has_identity(entry, key, priority));
        let gone = before != all.len();
        if all.is_empty() {
            self.chosen.remove(&exact);
        }
        self.count -= u64::from(gone);
        gone
    }

    /// Restores an entry after a change was rolled back.
    pub(crate) fn restore(&mut self, entry: StoredEntry) {
        if !self.on_modify(&entry) {
            self.insert(entry);
        }
    }

    /// Clears the set, because the switch's entries are unknown.
    pub fn clear(&mut self) {
        self.chosen.clear();
        self.count = 0;
    }

    /// Selects the entries with most hits since the last selection, as `hits` returns them. Entries
    /// without hits are not added, but stay if there is capacity.
    pub fn reselect(&mut self, state: &ControlState, hits: impl Fn(&StoredEntry) -> u64) -> HotSetDelta {
        let mut groups: HashMap<ExactKey, Vec<&StoredEntry>> = HashMap::new();
        let mut candidates: Vec<(u64, &StoredEntry)> = Vec::new();
        for entry in state.entries(self.table) {
            let (hits, is_present) = (hits(entry), self.contains(entry.key(), entry.priority()));
            if hits > 0 || is_present {
                // A present entry counts more than its hits, so that entries of equal rates do not
                // alternate.
                candidates.push((hits.saturating_mul(if is_present { STICKINESS_PERCENT } else { 100 }), entry));
            }
            groups.entry(self.exact_key(entry.key())).or_default().push(entry);
        }
        candidates.sort_by_key(|(weight, entry)| (Reverse(*weight), entry.sequence()));
        let mut selection =
            HotSetSelection { layout: &self.layout, groups, taken: HashSet::new(), step_budget: STEP_BUDGET };
        for (_, entry) in candidates {
            selection.select_with_shadowing(entry, self.capacity);
        }
        let taken = selection.taken;
        let is_selected = |entry: &StoredEntry| taken.contains(&entry_identity(entry));
        let removed: Vec<StoredEntry> = self.entries().filter(|entry| !is_selected(entry)).cloned().collect();
        let is_new = |entry: &&StoredEntry| is_selected(entry) && !self.contains(entry.key(), entry.priority());
        let mut added: Vec<StoredEntry> = state.entries(self.table).filter(is_new).cloned().collect();
        added.sort_by_key(StoredEntry::sequence);
        for entry in &removed {
            self.on_delete(entry.key(), entry.priority());
        }
        added.iter().for_each(|entry| self.insert(entry.clone()));
        HotSetDelta { removed, added }
    }

    /// Removes entries that the switch refused for lack of capacity.
    pub fn remove_refused(&mut self, entries: &[StoredEntry]) {
        for entry in entries {
            self.on_delete(entry.key(), entry.priority());
        }
    }

    fn exact_key(&self, key: &[u64]) -> ExactKey {
        self.layout.exact_words(key).collect()
    }
}

/// Selection in progress.
struct HotSetSelection<'a> {
    layout: &'a KeyLayout,
    groups: HashMap<ExactKey, Vec<&'a StoredEntry>>,
    taken: HashSet<EntryIdentity>,
    step_budget: usize,
}

impl HotSetSelection<'_> {
    /// Selects an entry with all entries that shadow it, if capacity permits.
    fn select_with_shadowing(&mut self, entry: &StoredEntry, capacity: u64) {
        if self.taken.contains(&entry_identity(entry)) {
            return;
        }
        // Shadowing is not transitive: an entry of higher precedence need not overlap with the
        // first one.
        let group = self
            .groups
            .get(&*self.layout.exact_words(entry.key()).collect::<ExactKey>())
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut added: BTreeMap<EntryIdentity, &StoredEntry> = BTreeMap::from([(entry_identity(entry), entry)]);
        let mut unvisited = vec![entry];
        while let Some(shadowed) = unvisited.pop() {
            if group.len() > self.step_budget || self.taken.len() + added.len() > capacity as usize {
                return;
            }
            self.step_budget -= if group.len() == 1 { 0 } else { group.len() };
            for shadowing in group.iter().filter(|other| can_shadow(self.layout, other, shadowed)) {
                let id = entry_identity(shadowing);
                if !self.taken.contains(&id) && added.insert(id, shadowing).is_none() {
                    unvisited.push(shadowing);
                }
            }
        }
        self.taken.extend(added.into_keys());
    }
}

/// Returns a hash of an entry's key and priority that is equal in all processes with the same
/// program (FNV-1a, 64 bits). Collisions are harmless, because it is only used for hit counts.
pub fn entry_fingerprint(entry: &StoredEntry) -> u64 {
    let mix = |hash: u64, word: u64| {
        word.to_be_bytes().iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    mix(entry.key().iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, *word)), entry.priority() as u64)
}

/// Returns the identity of an entry.
pub fn entry_identity(entry: &StoredEntry) -> EntryIdentity {
    (entry.key().into(), entry.priority())
}

fn has_identity(entry: &StoredEntry, key: &[u64], priority: i32) -> bool {
    entry.priority() == priority && entry.key() == key
}

/// Returns whether some packet would match `strong` instead of `weak`. Both must have the same
/// exact fields.
fn can_shadow(layout: &KeyLayout, strong: &StoredEntry, weak: &StoredEntry) -> bool {
    let overlap = || layout.fields.iter().all(|field| field.overlaps(strong.key(), weak.key()));
    layout.match_precedence(strong) < layout.match_precedence(weak) && overlap()
}
