//! An explainer's lookups: entries are found in the control plane's state when a packet asks. It holds none but those that were hit, so
//! it costs nothing to begin with.
//!
//! Exact keys are one probe of the state's index, one lpm key is a probe for each prefix length in use, all else a scan.

use super::scan::ordered;
use super::shape::{Place, Shape, prefix_mask};
use ir::{MatchKind, TableId};
use std::cmp::Reverse;
use std::collections::HashMap;
use tables::{Entry, KeyField, KeyLayout, PackedKey, State};

/// How entries are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Exact,
    /// The field of the only key that is not exact.
    Prefix(usize),
    Scan,
}

/// The entries that packets have hit, by number.
#[derive(Clone, Debug)]
pub struct Asked {
    way: Way,
    /// By sequence number.
    numbers: HashMap<u64, u32>,
}

impl Asked {
    /// For a table of this shape.
    pub fn new(shape: &Shape, layout: &KeyLayout) -> Asked {
        let mut others = (0..).zip(&layout.fields).filter(|(_, field)| field.kind != MatchKind::Exact);
        let way = match (others.next(), others.next()) {
            (None, _) => Way::Exact,
            (Some((at, field)), None) if field.kind == MatchKind::Lpm => Way::Prefix(at),
            _ => Way::Scan,
        };
        debug_assert_eq!(shape.places.len(), layout.fields.len());
        Asked { way, numbers: HashMap::new() }
    }

    /// No entry has been hit.
    pub fn forget(&mut self) {
        self.numbers.clear();
    }

    /// An entry has a number.
    pub fn insert(&mut self, entry: &Entry, number: u32) {
        self.numbers.insert(entry.sequence(), number);
    }

    /// An entry has no number any more.
    pub fn remove(&mut self, entry: &Entry) -> Option<u32> {
        self.numbers.remove(&entry.sequence())
    }

    /// The number of an entry that has one.
    pub fn number(&self, entry: &Entry) -> Option<u32> {
        self.numbers.get(&entry.sequence()).copied()
    }

    /// The entry for a packet's key.
    pub fn find<'a>(
        &self,
        state: &'a State,
        table: TableId,
        shape: &Shape,
        layout: &KeyLayout,
        words: &[u64],
    ) -> Option<&'a Entry> {
        let mut key = shape.unpack(layout, words);
        match self.way {
            Way::Exact => state.find(table, &key, 0),
            Way::Prefix(field) => longest(state, table, &layout.fields[field], &mut key),
            Way::Scan => {
                let fits = |entry: &&Entry| {
                    let one = |place| fits(place, &layout.fields[place.field], entry.key(), &key);
                    shape.places.iter().all(one)
                };
                state.entries(table).filter(fits).min_by_key(|entry| rank(layout, entry))
            }
        }
    }
}

/// The entry with the longest prefix. The words of the lpm key in `key` are lost.
fn longest<'a>(state: &'a State, table: TableId, field: &KeyField, key: &mut PackedKey) -> Option<&'a Entry> {
    for len in state.prefix_lens(table) {
        // Lengths become shorter: a bit once gone is not needed again.
        for (word, mask) in field.value_mut(key).iter_mut().zip(prefix_mask(field.width, len, field.words)) {
            *word &= mask;
        }
        field.second_mut(key)[0] = u64::from(len);
        let found = state.find(table, key, 0);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Least for the strongest entry: greatest priority, then longest prefix, then first inserted.
fn rank(layout: &KeyLayout, entry: &Entry) -> impl Ord + use<> {
    let lpm = layout.fields.iter().filter(|field| field.kind == MatchKind::Lpm);
    let prefix = lpm.map(|field| field.second(entry.key())[0]).sum::<u64>();
    (Reverse(entry.priority()), Reverse(prefix), entry.sequence())
}

/// Whether a packet's value, which lies in `key` as an entry's would, is one that the entry asks for.
fn fits(place: &Place, field: &KeyField, entry: &[u64], key: &[u64]) -> bool {
    let (value, want, second) = (field.value(key), field.value(entry), field.second(entry));
    let masked =
        |mask: &[u64]| value.iter().zip(want).zip(mask).all(|((value, want), mask)| (value ^ want) & mask == 0);
    match field.kind {
        MatchKind::Exact => value == want,
        MatchKind::Ternary => masked(second),
        MatchKind::Lpm => masked(&prefix_mask(field.width, second[0] as u32, field.words)),
        MatchKind::Optional => second[0] == 0 || value == want,
        MatchKind::Range => ordered(place, want, value) && ordered(place, value, second),
        MatchKind::Selector => true,
    }
}
