//! [`Fresh`]: which segments a change of a table makes stale, and no others.
//!
//! A segment was made from lookups ([`Asked`]). It is stale if one of them would now find another entry, or the same one with another action: if its entry was
//! changed or deleted; or if a new entry matches some packet of the segment and is stronger than what was found. Segments are indexed by table and exact
//! keys, so that a change of one tenant's route looks at that tenant's segments only.

use crate::segment::{Asked, Segment};
use crate::witness::Witness;
use ir::MatchKind;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use tables::{Entry, KeyField};

type Fast = foldhash::fast::RandomState;

/// Where a segment is: number of its store, and place.
pub type Place = (u32, u32);

/// Segments by what they asked.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    /// By hash of table and exact keys. Two keys may share a place: whoever looks there checks each segment.
    by_key: HashMap<u64, HashSet<Place, Fast>, Fast>,
    /// By table: segments for which nothing was found, for changes of the default action.
    missed: HashMap<u32, HashSet<Place, Fast>, Fast>,
    hasher: Fast,
}

impl Fresh {
    fn hash(&self, table: u32, exact: &[u64]) -> u64 {
        self.hasher.hash_one((table, exact))
    }

    /// A segment is kept.
    pub fn insert(&mut self, witnesses: &[Witness], segment: &Segment, place: Place) {
        self.insert_asked(witnesses, &segment.asked, place);
    }

    /// As [`Fresh::insert`], of what was made from these lookups.
    pub fn insert_asked(&mut self, witnesses: &[Witness], asked: &[Asked], place: Place) {
        for asked in asked {
            let key = self.hash(asked.table, &witnesses[asked.table as usize].exact_of(&asked.key));
            self.by_key.entry(key).or_default().insert(place);
            if asked.found.is_none() {
                self.missed.entry(asked.table).or_default().insert(place);
            }
        }
    }

    /// A segment is gone.
    pub fn remove(&mut self, witnesses: &[Witness], segment: &Segment, place: Place) {
        self.remove_asked(witnesses, &segment.asked, place);
    }

    /// As [`Fresh::remove`], of what was made from these lookups.
    pub fn remove_asked(&mut self, witnesses: &[Witness], asked: &[Asked], place: Place) {
        for asked in asked {
            let key = self.hash(asked.table, &witnesses[asked.table as usize].exact_of(&asked.key));
            if let Some(places) = self.by_key.get_mut(&key) {
                places.remove(&place);
                if places.is_empty() {
                    self.by_key.remove(&key);
                }
            }
            if let Some(places) = self.missed.get_mut(&asked.table).filter(|_| asked.found.is_none()) {
                places.remove(&place);
            }
        }
    }

    /// Segments that asked a table under the exact keys of an entry.
    pub fn under(&self, witness: &Witness, table: u32, entry: &Entry) -> impl Iterator<Item = Place> + '_ {
        let key = self.hash(table, &witness.exact_of_entry(entry));
        self.by_key.get(&key).into_iter().flatten().copied()
    }

    /// Segments that found nothing in a table.
    pub fn missed(&self, table: u32) -> impl Iterator<Item = Place> + '_ {
        self.missed.get(&table).into_iter().flatten().copied()
    }
}

/// Whether an entry matches some key of what was asked.
pub fn may_match(witness: &Witness, asked: &Asked, entry: &Entry) -> bool {
    witness.fields().all(|(field, at)| {
        let (key, mask) = (&asked.key[at..at + field.words], &asked.mask[at..at + field.words]);
        field_may_match(field, key, mask, entry)
    })
}

fn field_may_match(field: &KeyField, key: &[u64], mask: &[u64], entry: &Entry) -> bool {
    let (value, second) = (field.value(entry.key()), field.second(entry.key()));
    let agree = |asked: &dyn Fn(usize) -> u64| {
        (0..field.words).all(|word| (key[word] ^ value[word]) & mask[word] & asked(word) == 0)
    };
    match field.kind {
        MatchKind::Ternary => agree(&|word| second[word]),
        MatchKind::Lpm => {
            let host = field.width.saturating_sub(second[0] as u32);
            agree(&|word| {
                let below = host.saturating_sub(word as u32 * 64);
                if below >= 64 { 0 } else { u64::MAX << below }
            })
        }
        MatchKind::Optional if second[0] == 0 => true,
        // A signed or wide range: it may.
        MatchKind::Range if field.words > 1 || field.signed => true,
        MatchKind::Range => {
            let (lowest, open) = (key[0] & mask[0], !mask[0]);
            let highest = lowest | if field.width >= 64 { open } else { open & ((1 << field.width) - 1) };
            lowest <= second[0] && highest >= value[0]
        }
        _ => agree(&|_| u64::MAX),
    }
}
