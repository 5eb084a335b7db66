//! Which entries of a table are on the switch, where it has room for a few.
//!
//! A packet that finds an entry of these few must find the same one in the whole table. So an entry may be among them only if all are that are stronger and
//! that a packet could match as well: longer prefixes within its own, rules before it that overlap. [`Hot`] holds to that when entries are chosen by how
//! often packets hit them, and when the table changes: a new entry sends those away that it hides in part.
//!
//! An entry that is among them stays until another is hit a good deal more ([`STAY`]), so that two that are hit alike do not take turns.

use entries::{Entry, KeyLayout, State};
use ir::{Pipeline, TableId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How much the hits of an entry count that is on the switch already, in percent of those of one that is not.
pub const STAY: u64 = 125;

/// Comparisons of a choice: a table of many rules that overlap gets fewer hot entries rather than more time.
const PATIENCE: usize = 20_000_000;

/// An entry by its identity: the words of its key, and its priority.
pub type Id = (Box<[u64]>, i32);

/// The words of the exact fields of a key.
type Exact = Box<[u64]>;

/// The entries of a table that are on the switch.
pub struct Hot {
    table: TableId,
    layout: KeyLayout,
    room: u64,
    /// By exact keys.
    chosen: HashMap<Exact, Vec<Entry>>,
    count: u64,
}

/// What a choice changes on the switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moves {
    /// Entries that go.
    pub out: Vec<Entry>,
    /// Entries that come, in the order in which they were written.
    pub new: Vec<Entry>,
}

impl Hot {
    /// None yet, with room for so many.
    pub fn new(pipeline: &Pipeline, table: TableId, room: u64) -> Hot {
        let layout = KeyLayout::new(&pipeline.tables[table].keys);
        Hot { table, layout, room, chosen: HashMap::new(), count: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many there may be.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Whether an entry is among them.
    pub fn has(&self, key: &[u64], priority: i32) -> bool {
        self.chosen.get(&self.exact(key)).is_some_and(|all| all.iter().any(|entry| is(entry, key, priority)))
    }

    /// The entries.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.chosen.values().flatten()
    }

    /// An entry is new in the table: those that it hides in part may not stay, nor those that these hid, and so on.
    pub fn inserted(&mut self, new: &Entry) -> Vec<Entry> {
        let exact = self.exact(new.key());
        let (layout, Some(all)) = (&self.layout, self.chosen.get_mut(&exact)) else { return Vec::new() };
        let mut out: Vec<Entry> = all.extract_if(.., |entry| hides(layout, new, entry)).collect();
        let mut at = 0;
        while let Some(gone) = out.get(at).cloned() {
            out.extend(all.extract_if(.., |entry| hides(layout, &gone, entry)));
            at += 1;
        }
        self.count -= out.len() as u64;
        out
    }

    /// An entry is another one now, with the same key and priority; whether it is among them.
    pub fn modified(&mut self, entry: &Entry) -> bool {
        let exact = self.exact(entry.key());
        let all = self.chosen.get_mut(&exact);
        let found = all.and_then(|all| all.iter_mut().find(|old| is(old, entry.key(), entry.priority())));
        match found {
            Some(old) => {
                *old = entry.clone();
                true
            }
            None => false,
        }
    }

    /// An entry is gone from the table; whether it was among them.
    pub fn deleted(&mut self, key: &[u64], priority: i32) -> bool {
        let exact = self.exact(key);
        let Some(all) = self.chosen.get_mut(&exact) else { return false };
        let before = all.len();
        all.retain(|entry| !is(entry, key, priority));
        let gone = before != all.len();
        if all.is_empty() {
            self.chosen.remove(&exact);
        }
        self.count -= u64::from(gone);
        gone
    }

    /// An entry is among them again, or is what it was: a change was taken back.
    pub(crate) fn restore(&mut self, entry: Entry) {
        if self.modified(&entry) {
            return;
        }
        self.chosen.entry(self.exact(entry.key())).or_default().push(entry);
        self.count += 1;
    }

    /// None any more: what is on the switch is not known.
    pub fn clear(&mut self) {
        self.chosen.clear();
        self.count = 0;
    }

    /// Chooses anew: those that were hit most since the last time, of which `hits` tells. Entries that nobody hit do not come, but stay if there is room.
    pub fn choose(&mut self, state: &State, hits: impl Fn(&Entry) -> u64) -> Moves {
        let mut groups: HashMap<Exact, Vec<&Entry>> = HashMap::new();
        let mut wanted: Vec<(u64, &Entry)> = Vec::new();
        for entry in state.entries(self.table) {
            let (hits, stays) = (hits(entry), self.has(entry.key(), entry.priority()));
            if hits > 0 || stays {
                wanted.push((hits.saturating_mul(if stays { STAY } else { 100 }), entry));
            }
            groups.entry(self.exact(entry.key())).or_default().push(entry);
        }
        wanted.sort_by_key(|(weight, entry)| (Reverse(*weight), entry.sequence()));
        let mut choice = Choice { layout: &self.layout, groups, taken: HashSet::new(), patience: PATIENCE };
        for (_, entry) in wanted {
            choice.take(entry, self.room);
        }
        let taken = choice.taken;
        let stays = |entry: &Entry| taken.contains(&id(entry));
        let out: Vec<Entry> = self.entries().filter(|entry| !stays(entry)).cloned().collect();
        let comes = |entry: &&Entry| stays(entry) && !self.has(entry.key(), entry.priority());
        let mut new: Vec<Entry> = state.entries(self.table).filter(comes).cloned().collect();
        new.sort_by_key(Entry::sequence);
        for entry in &out {
            self.deleted(entry.key(), entry.priority());
        }
        for entry in &new {
            self.chosen.entry(self.exact(entry.key())).or_default().push(entry.clone());
        }
        self.count += new.len() as u64;
        Moves { out, new }
    }

    /// Entries that did not come after all: the switch had no room.
    pub fn forget(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.deleted(entry.key(), entry.priority());
        }
    }

    fn exact(&self, key: &[u64]) -> Exact {
        self.layout.exact_words(key).collect()
    }
}

/// A choice on the way.
struct Choice<'a> {
    layout: &'a KeyLayout,
    groups: HashMap<Exact, Vec<&'a Entry>>,
    taken: HashSet<Id>,
    patience: usize,
}

impl Choice<'_> {
    /// Takes an entry with all that it needs, if there is room for them.
    fn take(&mut self, entry: &Entry, room: u64) {
        if self.taken.contains(&id(entry)) {
            return;
        }
        // What is stronger than something stronger is stronger, but need not overlap with the first.
        let group = self
            .groups
            .get(&*self.layout.exact_words(entry.key()).collect::<Exact>())
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut more: BTreeMap<Id, &Entry> = BTreeMap::from([(id(entry), entry)]);
        let mut open = vec![entry];
        while let Some(weak) = open.pop() {
            if group.len() > self.patience || self.taken.len() + more.len() > room as usize {
                return;
            }
            self.patience -= if group.len() == 1 { 0 } else { group.len() };
            for strong in group.iter().filter(|other| hides(self.layout, other, weak)) {
                let id = id(strong);
                if !self.taken.contains(&id) && more.insert(id, strong).is_none() {
                    open.push(strong);
                }
            }
        }
        self.taken.extend(more.into_keys());
    }
}

/// A number for an entry that is the same in all processes with the same program: of its key and priority (FNV-1a over their words, 64 bits). Two entries may have the same:
/// it says which entries are hit, and nothing else hangs on it.
pub fn fingerprint(entry: &Entry) -> u64 {
    let mix = |hash: u64, word: u64| {
        word.to_be_bytes().iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    mix(entry.key().iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| mix(hash, *word)), entry.priority() as u64)
}

/// What identifies an entry.
pub fn id(entry: &Entry) -> Id {
    (entry.key().into(), entry.priority())
}

fn is(entry: &Entry, key: &[u64], priority: i32) -> bool {
    entry.priority() == priority && entry.key() == key
}

/// Whether there are packets that would find `strong` rather than `weak`, of entries under the same exact keys.
fn hides(layout: &KeyLayout, strong: &Entry, weak: &Entry) -> bool {
    let overlap = || layout.fields.iter().all(|field| field.overlap(strong.key(), weak.key()));
    layout.strength(strong) < layout.strength(weak) && overlap()
}
