//! Entries of a table in the chip's memories. Each entry is in one part, and no part exceeds its
//! capacity.

use entries::{KeyLayout, MatchPrecedence, StoredEntry};
use ir::MatchKind;
use std::collections::{BTreeMap, HashMap};

/// One part: rows of hash ways or of a TCAM in one stage.
#[derive(Clone, Debug, Default)]
pub struct StageMemory {
    /// Capacity in entries.
    pub capacity: u64,
    ranks: BTreeMap<MatchPrecedence, StoredEntry>,
    /// Sequence numbers by mask and masked key. A lookup does one hash lookup per mask.
    masks: HashMap<Box<[u64]>, MaskGroup>,
}

type MaskGroup = HashMap<Box<[u64]>, BTreeMap<MatchPrecedence, u64>>;

impl StageMemory {
    /// Creates an empty part.
    pub fn new(capacity: u64) -> StageMemory {
        StageMemory { capacity, ..StageMemory::default() }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.ranks.len() as u64
    }

    fn has_capacity(&self) -> bool {
        self.len() < self.capacity
    }

    fn insert_ranked(&mut self, layout: &KeyLayout, rank: MatchPrecedence, entry: StoredEntry) {
        let (mask, value) = masked_key(layout, entry.key());
        self.masks.entry(mask).or_default().entry(value).or_default().insert(rank, entry.sequence());
        self.ranks.insert(rank, entry);
    }

    fn remove_ranked(&mut self, layout: &KeyLayout, rank: &MatchPrecedence) -> Option<StoredEntry> {
        let entry = self.ranks.remove(rank)?;
        let (mask, value) = masked_key(layout, entry.key());
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

    /// Returns the sequence number of the matching entry of highest precedence. `key` has the
    /// values of all match keys, each in whole words.
    pub fn lookup(&self, layout: &KeyLayout, key: &[u64]) -> Option<u64> {
        let mut best: Option<(&MatchPrecedence, u64)> = None;
        let mut masked = Vec::with_capacity(key.len());
        for (mask, values) in &self.masks {
            masked.clear();
            masked.extend(key.iter().zip(mask).map(|(word, mask)| word & mask));
            let Some(ranks) = values.get(masked.as_slice()) else { continue };
            let fits = |rank: &MatchPrecedence| {
                self.ranks.get(rank).is_some_and(|entry| matches_ranges(layout, entry.key(), key))
            };
            if let Some((rank, number)) = ranks.iter().find(|(rank, _)| fits(rank))
                && best.is_none_or(|(other, _)| rank < other)
            {
                best = Some((rank, *number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// Returns mask and masked value of all key words. Ranges have mask 0 because they are checked
/// later.
fn masked_key(layout: &KeyLayout, key: &[u64]) -> (Box<[u64]>, Box<[u64]>) {
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

fn matches_ranges(layout: &KeyLayout, entry: &[u64], key: &[u64]) -> bool {
    let mut at = 0;
    layout.fields.iter().all(|field| {
        let value = &key[at..at + field.words];
        at += field.words;
        field.kind != MatchKind::Range || field.matches(entry, value)
    })
}

/// Parts of one table in one pipe, in packet order.
#[derive(Clone, Debug)]
pub struct TableMemory {
    /// The parts.
    pub parts: Vec<StageMemory>,
    /// Whether earlier parts must have higher match precedence. False if all keys are exact.
    ordered: bool,
    /// Part of each entry.
    part_of_entry: HashMap<MatchPrecedence, usize>,
    /// Number of entries moved between parts to keep the order.
    pub moves: u64,
}

impl TableMemory {
    /// Creates empty parts.
    pub fn new(layout: &KeyLayout, capacities: impl Iterator<Item = u64>) -> TableMemory {
        let ordered = layout.fields.iter().any(|field| field.kind != MatchKind::Exact);
        TableMemory {
            parts: capacities.map(StageMemory::new).collect(),
            ordered,
            part_of_entry: HashMap::new(),
            moves: 0,
        }
    }

    /// Returns the capacity of all parts in entries.
    pub fn capacity(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.capacity))
    }

    /// Returns the number of entries in all parts.
    pub fn len(&self) -> u64 {
        self.part_of_entry.len() as u64
    }

    /// Inserts an entry. Returns false, without changes, if all parts are full. In an ordered
    /// table, entries of higher precedence are in earlier parts, so parts between the entry's home
    /// and the free capacity each pass on one entry.
    pub fn insert(&mut self, layout: &KeyLayout, entry: &StoredEntry) -> bool {
        let rank = layout.match_precedence(entry);
        let Some(free_part) = self.nearest_free_part(&rank) else { return false };
        let home_part_index = if self.ordered { self.home_part(&rank) } else { free_part };
        let mut carried = (rank, entry.clone());
        let mut part = home_part_index;
        // Toward the part with capacity, each part passes on its first or last entry.
        loop {
            let (rank, entry) = carried;
            self.part_of_entry.insert(rank, part);
            self.parts[part].insert_ranked(layout, rank, entry);
            if part == free_part {
                return true;
            }
            let ranks = &self.parts[part].ranks;
            // The entry that leaves is the one next to the neighbour in the order.
            let leaving = if free_part > part { ranks.last_key_value() } else { ranks.first_key_value() };
            let Some(leaving) = leaving.map(|(rank, _)| *rank) else { return true };
            let Some(entry) = self.parts[part].remove_ranked(layout, &leaving) else { return true };
            carried = (leaving, entry);
            self.moves += 1;
            part = if free_part > part { part + 1 } else { part - 1 };
        }
    }

    /// Returns the part for an entry of this precedence: the first with an entry of lower
    /// precedence, or the last non-empty one.
    fn home_part(&self, rank: &MatchPrecedence) -> usize {
        let weaker = |part: &StageMemory| part.ranks.last_key_value().is_some_and(|(last, _)| last > rank);
        let first = self.parts.iter().position(weaker);
        first.or_else(|| self.parts.iter().rposition(|part| part.len() > 0)).unwrap_or(0)
    }

    /// Returns the part with capacity that is nearest to the entry's own part.
    fn nearest_free_part(&self, rank: &MatchPrecedence) -> Option<usize> {
        if !self.ordered {
            return self.parts.iter().position(StageMemory::has_capacity);
        }
        let home = self.home_part(rank);
        let with_room = (0..self.parts.len()).filter(|part| self.parts[*part].has_capacity());
        with_room.min_by_key(|part| part.abs_diff(home))
    }

    /// Removes an entry.
    pub fn remove(&mut self, layout: &KeyLayout, entry: &StoredEntry) {
        let rank = layout.match_precedence(entry);
        if let Some(part) = self.part_of_entry.remove(&rank) {
            self.parts[part].remove_ranked(layout, &rank);
        }
    }

    /// Replaces an entry by one with the same key and precedence.
    pub fn replace(&mut self, layout: &KeyLayout, old: &StoredEntry, new: &StoredEntry) {
        let (before, after) = (layout.match_precedence(old), layout.match_precedence(new));
        if let Some(part) = self.part_of_entry.remove(&before) {
            self.parts[part].remove_ranked(layout, &before);
            self.part_of_entry.insert(after, part);
            self.parts[part].insert_ranked(layout, after, new.clone());
        }
    }
}
