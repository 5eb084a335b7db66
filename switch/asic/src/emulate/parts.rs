//! The entries of one table as they lie in the chip: each in one part, and no part with more than it can hold.

use entries::{Entry, KeyLayout, Strength};
use ir::MatchKind;
use std::collections::{BTreeMap, HashMap};

/// One part: rows of hash ways or of a TCAM in one stage.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Entries that it can hold.
    pub capacity: u64,
    ranks: BTreeMap<Strength, Entry>,
    /// By mask the entries' sequence numbers, by what they ask of the masked key: a lookup is one for each mask.
    masks: HashMap<Box<[u64]>, Mask>,
}

type Mask = HashMap<Box<[u64]>, BTreeMap<Strength, u64>>;

impl Part {
    /// An empty part.
    pub fn new(capacity: u64) -> Part {
        Part { capacity, ..Part::default() }
    }

    /// Entries in it.
    pub fn len(&self) -> u64 {
        self.ranks.len() as u64
    }

    fn has_room(&self) -> bool {
        self.len() < self.capacity
    }

    fn put(&mut self, layout: &KeyLayout, rank: Strength, entry: Entry) {
        let (mask, value) = asked(layout, entry.key());
        self.masks.entry(mask).or_default().entry(value).or_default().insert(rank, entry.sequence());
        self.ranks.insert(rank, entry);
    }

    fn take(&mut self, layout: &KeyLayout, rank: &Strength) -> Option<Entry> {
        let entry = self.ranks.remove(rank)?;
        let (mask, value) = asked(layout, entry.key());
        if let Some(values) = self.masks.get_mut(&mask) {
            if let Some(ranks) = values.get_mut(&value) {
                ranks.remove(rank);
                if ranks.is_empty() {
                    values.remove(&value);
                }
            }
            if values.is_empty() {
                self.masks.remove(&mask);
            }
        }
        Some(entry)
    }

    /// The sequence number of the strongest entry that matches: `key` are the values of all match keys, each in whole words.
    pub fn lookup(&self, layout: &KeyLayout, key: &[u64]) -> Option<u64> {
        let mut best: Option<(&Strength, u64)> = None;
        let mut masked = Vec::with_capacity(key.len());
        for (mask, values) in &self.masks {
            masked.clear();
            masked.extend(key.iter().zip(mask).map(|(word, mask)| word & mask));
            let Some(ranks) = values.get(masked.as_slice()) else { continue };
            let fits = |rank: &Strength| self.ranks.get(rank).is_some_and(|entry| in_ranges(layout, entry.key(), key));
            if let Some((rank, number)) = ranks.iter().find(|(rank, _)| fits(rank))
                && best.is_none_or(|(other, _)| rank < other)
            {
                best = Some((rank, *number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// Mask and masked value of all words of a packet's key; a range is asked later, its mask is 0.
fn asked(layout: &KeyLayout, key: &[u64]) -> (Box<[u64]>, Box<[u64]>) {
    let (mut masks, mut values) = (Vec::new(), Vec::new());
    for field in &layout.fields {
        let pattern = field.pattern(key);
        for (index, value) in field.value(key).iter().enumerate() {
            let mask = pattern.mask(field.width, index);
            masks.push(mask);
            values.push(value & mask);
        }
    }
    (masks.into(), values.into())
}

fn in_ranges(layout: &KeyLayout, entry: &[u64], key: &[u64]) -> bool {
    let mut at = 0;
    layout.fields.iter().all(|field| {
        let value = &key[at..at + field.words];
        at += field.words;
        field.kind != MatchKind::Range || field.matches(entry, value)
    })
}

/// Parts of one table, in one pipe, in the order in which packets meet them.
#[derive(Clone, Debug)]
pub struct Column {
    /// The parts.
    pub parts: Vec<Part>,
    /// Whether entries of an earlier part must be stronger: not where all keys are exact.
    ordered: bool,
    /// The part of each entry.
    places: HashMap<Strength, usize>,
    /// Entries that were moved from part to part to keep the order.
    pub moves: u64,
}

impl Column {
    /// Empty parts.
    pub fn new(layout: &KeyLayout, capacities: impl Iterator<Item = u64>) -> Column {
        let ordered = layout.fields.iter().any(|field| field.kind != MatchKind::Exact);
        Column { parts: capacities.map(Part::new).collect(), ordered, places: HashMap::new(), moves: 0 }
    }

    /// Entries that all parts can hold.
    pub fn capacity(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.capacity))
    }

    /// Entries in all parts.
    pub fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// Puts an entry where it belongs; false, and nothing has changed, if all parts are full.
    pub fn insert(&mut self, layout: &KeyLayout, entry: &Entry) -> bool {
        let rank = layout.strength(entry);
        let Some(room) = self.room(&rank) else { return false };
        let home = if self.ordered { self.home(&rank) } else { room };
        let mut carried = (rank, entry.clone());
        let mut at = home;
        // On the way to the part with room, each part gives its strongest (or weakest) entry on.
        loop {
            let (rank, entry) = carried;
            self.places.insert(rank, at);
            self.parts[at].put(layout, rank, entry);
            if at == room {
                return true;
            }
            let ranks = &self.parts[at].ranks;
            let leaves = if room > at { ranks.last_key_value() } else { ranks.first_key_value() };
            let Some(leaves) = leaves.map(|(rank, _)| *rank) else { return true };
            let Some(entry) = self.parts[at].take(layout, &leaves) else { return true };
            carried = (leaves, entry);
            self.moves += 1;
            at = if room > at { at + 1 } else { at - 1 };
        }
    }

    /// The part in which an entry of this strength belongs: the first that has a weaker one, or the last that has any.
    fn home(&self, rank: &Strength) -> usize {
        let weaker = |part: &Part| part.ranks.last_key_value().is_some_and(|(last, _)| last > rank);
        let first = self.parts.iter().position(weaker);
        first.or_else(|| self.parts.iter().rposition(|part| part.len() > 0)).unwrap_or(0)
    }

    /// The part with room that is nearest to where the entry belongs.
    fn room(&self, rank: &Strength) -> Option<usize> {
        if !self.ordered {
            return self.parts.iter().position(Part::has_room);
        }
        let home = self.home(rank);
        let with_room = (0..self.parts.len()).filter(|part| self.parts[*part].has_room());
        with_room.min_by_key(|part| part.abs_diff(home))
    }

    /// Takes an entry out.
    pub fn remove(&mut self, layout: &KeyLayout, entry: &Entry) {
        let rank = layout.strength(entry);
        if let Some(part) = self.places.remove(&rank) {
            self.parts[part].take(layout, &rank);
        }
    }

    /// Puts an entry in the place of one of the same key and strength.
    pub fn replace(&mut self, layout: &KeyLayout, old: &Entry, new: &Entry) {
        let (before, after) = (layout.strength(old), layout.strength(new));
        if let Some(part) = self.places.remove(&before) {
            self.parts[part].take(layout, &before);
            self.places.insert(after, part);
            self.parts[part].put(layout, after, new.clone());
        }
    }
}
