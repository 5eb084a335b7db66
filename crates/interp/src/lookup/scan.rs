//! Ternary, range, optional and several lpm keys: under the exact keys, entries are tried one after the other, strongest first.

use super::exact::WordMap;
use super::shape::{Place, Shape, prefix_mask};
use ir::MatchKind;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use tables::fast::soon;
use tables::{Entry, KeyLayout};

/// Entries with the same exact keys.
#[derive(Clone, Debug, Default)]
struct Group {
    /// Strongest first, once it is sorted.
    entries: Vec<(u32, Entry)>,
    /// What each entry asks, one after the other: (mask, value) for each masked word, then bounds of ranges.
    rules: Vec<u64>,
}

/// The strongest matching entry wins: greatest priority, then longest prefix, then first inserted.
#[derive(Clone, Debug)]
pub struct Scan {
    exact: usize,
    masked_end: usize,
    ranges: Vec<Place>,
    stride: usize,
    groups: WordMap,
    members: Vec<Group>,
    /// Groups that have to be sorted before the next lookup.
    dirty: BTreeSet<u32>,
    by_sequence: HashMap<u64, (u32, u32)>,
}

impl Scan {
    /// For a table of this shape.
    pub fn new(shape: &Shape) -> Scan {
        let ranges: Vec<Place> = shape.places.iter().filter(|p| p.kind == MatchKind::Range).copied().collect();
        Scan {
            exact: shape.exact,
            masked_end: shape.masked_end,
            stride: 2 * (shape.total - shape.exact),
            ranges,
            groups: WordMap::new(shape.exact),
            members: Vec::new(),
            dirty: BTreeSet::new(),
            by_sequence: HashMap::new(),
        }
    }

    /// The entry for a packet's key.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<u32> {
        self.get_in(self.groups.get(&key[..self.exact])?, key)
    }

    /// As [`Scan::get`], for many keys of `words` words: what lies in memory is asked for before it is read, all keys at a time.
    pub fn get_many(&self, keys: &[u64], words: usize, room: &mut Vec<u64>, mut found: impl FnMut(Option<u32>)) {
        let keys = || keys.chunks_exact(words);
        room.clear();
        room.extend(keys().map(|key| self.groups.soon(&key[..self.exact])));
        for (group, key) in room.iter_mut().zip(keys()) {
            let number = self.groups.get_hashed(&key[..self.exact], *group);
            *group = number.map_or(u64::MAX, u64::from);
            soon(&self.members, *group as usize);
        }
        for group in room.iter().filter_map(|group| self.members.get(*group as usize)) {
            soon(&group.rules, 0);
            soon(&group.entries, 0);
        }
        for (group, key) in room.iter().zip(keys()) {
            found(if *group == u64::MAX { None } else { self.get_in(*group as u32, key) });
        }
    }

    fn get_in(&self, group: u32, key: &[u64]) -> Option<u32> {
        let group = &self.members[group as usize];
        let masked = &key[self.exact..self.masked_end];
        let mut entries = group.entries.iter();
        if self.stride == 0 {
            return entries.next().map(|(slot, _)| *slot);
        }
        for rule in group.rules.chunks_exact(self.stride) {
            let slot = entries.next()?.0;
            let (asked, bounds) = rule.split_at(2 * masked.len());
            let fits = |(word, asked): (&u64, &[u64])| word & asked[0] == asked[1];
            if masked.iter().zip(asked.chunks_exact(2)).all(fits) && self.in_ranges(key, bounds) {
                return Some(slot);
            }
        }
        None
    }

    fn in_ranges(&self, key: &[u64], mut bounds: &[u64]) -> bool {
        for place in &self.ranges {
            let value = &key[place.word..place.word + place.words];
            let (lo, rest) = bounds.split_at(place.words);
            let (hi, rest) = rest.split_at(place.words);
            bounds = rest;
            let order = |a: &[u64], b: &[u64]| ordered(place, a, b);
            if !(order(lo, value) && order(value, hi)) {
                return false;
            }
        }
        true
    }

    /// Adds an entry; [`Scan::settle`] makes it count.
    pub fn insert(&mut self, shape: &Shape, layout: &KeyLayout, entry: &Entry, slot: u32) {
        let key = shape.pack_entry(layout, entry);
        let exact = &key[..self.exact];
        let group = self.groups.get(exact).unwrap_or_else(|| {
            let group = self.members.len() as u32;
            self.members.push(Group::default());
            self.groups.insert(exact, group);
            group
        });
        self.members[group as usize].entries.push((slot, entry.clone()));
        self.by_sequence.insert(entry.sequence(), (group, slot));
        self.dirty.insert(group);
    }

    /// Takes an entry out and returns its number; [`Scan::settle`] makes it count.
    pub fn remove(&mut self, entry: &Entry) -> Option<u32> {
        let (group, slot) = self.by_sequence.remove(&entry.sequence())?;
        self.dirty.insert(group);
        Some(slot)
    }

    /// The number of an entry.
    pub fn find(&self, entry: &Entry) -> Option<u32> {
        self.by_sequence.get(&entry.sequence()).map(|(_, slot)| *slot)
    }

    /// Sorts what has changed. Call it after the changes of a batch.
    pub fn settle(&mut self, shape: &Shape, layout: &KeyLayout) {
        for index in std::mem::take(&mut self.dirty) {
            let alive = &self.by_sequence;
            let group = &mut self.members[index as usize];
            // A modified entry is there twice, under one sequence number: the one with the slot in use counts, and the later.
            let mut seen = BTreeSet::new();
            group.entries.reverse();
            group.entries.retain(|(slot, entry)| {
                alive.get(&entry.sequence()).is_some_and(|(_, current)| current == slot)
                    && seen.insert(entry.sequence())
            });
            let prefix = |entry: &Entry| {
                let lpm = layout.fields.iter().filter(|f| f.kind == MatchKind::Lpm);
                lpm.map(|f| f.second(entry.key())[0]).sum::<u64>()
            };
            group.entries.sort_by_key(|(_, e)| (Reverse(e.priority()), Reverse(prefix(e)), e.sequence()));
            group.rules.clear();
            for (_, entry) in &group.entries {
                push_rule(shape, layout, entry, &mut group.rules);
            }
        }
    }
}

/// Whether `a <= b` in the order of the key's type; most significant word last.
pub fn ordered(place: &Place, a: &[u64], b: &[u64]) -> bool {
    let flip = if place.signed && place.width > 0 { 1 << ((place.width - 1) % 64) } else { 0 };
    for index in (0..a.len()).rev() {
        let sign = if index + 1 == a.len() { flip } else { 0 };
        let (x, y) = (a[index] ^ sign, b[index] ^ sign);
        if x != y {
            return x < y;
        }
    }
    true
}

/// Appends what an entry asks.
fn push_rule(shape: &Shape, layout: &KeyLayout, entry: &Entry, out: &mut Vec<u64>) {
    for place in shape.places.iter().filter(|p| p.kind != MatchKind::Exact) {
        let field = &layout.fields[place.field];
        let (value, second) = (field.value(entry.key()), field.second(entry.key()));
        let mask = match place.kind {
            MatchKind::Ternary => second.to_vec(),
            MatchKind::Lpm => prefix_mask(place.width, second[0] as u32, place.words),
            MatchKind::Optional if second[0] == 0 => vec![0; place.words],
            MatchKind::Optional => prefix_mask(place.width, place.width, place.words),
            _ => {
                out.extend_from_slice(value);
                out.extend_from_slice(second);
                continue;
            }
        };
        for (value, mask) in value.iter().zip(&mask) {
            out.extend([*mask, value & mask]);
        }
    }
}
