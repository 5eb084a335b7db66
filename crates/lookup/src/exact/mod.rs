//! [`ExactTable`]: equal to a key.
//!
//! Entries lie in buckets of one cache line, keys and values included ([`geometry`]). A hash gives each key two buckets
//! ([`hash`], [`split`]); two of three are in the first of theirs, so a lookup touches 1.3 lines ([`probe`]). An entry whose buckets are both
//! full makes others move ([`displace`]). The table grows bucket by bucket, as entries come ([`growth`]): it is more than nine
//! tenths full, but for small ones, which stay half empty; and no insertion takes long. Values that are too long for a slot lie elsewhere
//! ([`spill`]). The second copy of a table takes over changed buckets from the first ([`follow`]). Many keys are looked up in vectors where the processor has them ([`lanes`], [`quads`], [`pattern`]).
//!
//! Keys that should find no place at all go to a plain hash map, the stash. The secrets of the hash being random, that is next to impossible
//! for any set of keys; but were it to happen, everything would still be right, and only slower.

mod bucket;
mod displace;
mod follow;
mod geometry;
mod growth;
mod hash;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod pattern;
mod probe;
#[cfg(target_arch = "x86_64")]
mod quads;
mod spill;
mod split;
#[cfg(test)]
mod tests;

use super::shape::ValueLayout;
use bucket::{Buckets, Slot};
use geometry::Geometry;
use hash::{Seeds, tag};
use pattern::Pattern;
use spill::Spill;
use split::Split;
use std::collections::HashMap;

/// A full bucket on the way to a free slot.
#[derive(Clone, Copy, Debug)]
struct Visit {
    bucket: u32,
    /// The visit of the bucket from which an entry would move here, and its slot there.
    parent: u16,
    slot: u8,
    /// Entries that would be in their second bucket afterwards, less those that would not be any more.
    away: i8,
}

/// A table of exact matches, for one writer and, while nobody writes, any number of readers.
///
/// Keys are slices of 64-bit words, the least significant first; bits beyond the width of a key must be 0.
/// Values are bytes, all up to the same longest length.
#[derive(Clone, Debug)]
pub struct ExactTable {
    buckets: Buckets,
    pattern: Pattern,
    seeds: Seeds,
    split: Split,
    len: usize,
    longest: usize,
    spill: Spill,
    /// Entries for which there was no place.
    stash: HashMap<Box<[u64]>, Box<[u8]>>,
    /// Buckets that have been asked for.
    wanted: usize,
    /// Room for buckets whose entries are being moved.
    moving: Buckets,
    /// Room for a search.
    visits: Vec<Visit>,
}

impl ExactTable {
    /// An empty table for keys of `key_bits` bits (1..=512) and values of up to `longest_value` bytes. It takes no memory yet.
    ///
    /// # Panics
    /// If `key_bits` is 0 or more than 512.
    pub fn new(key_bits: u32, longest_value: usize) -> ExactTable {
        assert!((1..=512).contains(&key_bits), "a key of {key_bits} bits: exact keys have 1 to 512");
        let geometry = Geometry::new(key_bits, longest_value);
        ExactTable {
            buckets: Buckets::new(geometry),
            pattern: Pattern::new(&geometry),
            seeds: Seeds::random(),
            split: Split::default(),
            len: 0,
            longest: longest_value,
            spill: Spill::new(longest_value),
            stash: HashMap::new(),
            wanted: 0,
            moving: Buckets::new(geometry),
            visits: Vec::new(),
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// 64-bit words of a key.
    pub fn words(&self) -> usize {
        self.buckets.geometry.words
    }

    /// Memory that the table holds, in bytes, whether entries are in it or not.
    pub fn memory_bytes(&self) -> usize {
        let entry = size_of::<(Box<[u64]>, Box<[u8]>)>() + self.words() * 8 + self.longest.max(ValueLayout::LONG);
        let stash = self.stash.len() * entry;
        let search = self.visits.capacity() * size_of::<Visit>();
        let all = self.buckets.memory_bytes() + self.moving.memory_bytes() + self.spill.memory_bytes();
        let all = all + self.pattern.memory_bytes();
        size_of::<ExactTable>() + all + stash + search
    }

    /// Adds an entry, or changes the value of the one that has this key. Says whether there was one. It moves a few other entries at most.
    ///
    /// Who has many to add calls [`ExactTable::reserve`] first and [`ExactTable::prefetch`] some ten keys ahead, which makes it about three
    /// times as fast; removing likewise.
    ///
    /// # Panics
    /// If the key hasn't [`ExactTable::words`] words, or the value is longer than the longest.
    pub fn insert(&mut self, key: &[u64], value: &[u8]) -> bool {
        assert_eq!(key.len(), self.words(), "words of a key");
        assert!(value.len() <= self.longest, "a value of {} bytes: the longest has {}", value.len(), self.longest);
        let hash = self.hash(key);
        if let Some(slot) = self.find(hash, key) {
            self.free_spilled(slot);
            self.write_value(slot, value);
            return true;
        }
        if self.stash.contains_key(key) {
            self.stash_value(key, value);
            return true;
        }
        self.grow_a_little();
        self.add(hash, key, value);
        self.len += 1;
        false
    }

    /// Removes the entry of a key. Says whether there was one. Memory stays, for entries to come.
    pub fn remove(&mut self, key: &[u64]) -> bool {
        if key.len() != self.words() {
            return false;
        }
        if let Some(slot) = self.find(self.hash(key), key) {
            self.free_spilled(slot);
            self.buckets.clear(slot);
        } else if self.stash.remove(key).is_none() {
            return false;
        }
        self.len -= 1;
        true
    }

    /// The value of a key, followed by bytes that mean nothing: as many as there is room for where it lies.
    pub fn get(&self, key: &[u64]) -> Option<&[u8]> {
        if key.len() != self.words() {
            return None;
        }
        let Some(slot) = self.find(self.hash(key), key) else {
            return self.stash.get(key).map(|value| &**value);
        };
        let value = self.buckets.value(slot);
        Some(self.spilled(value).map_or(&value[..self.buckets.geometry.inline], |cell| self.spill.value(cell)))
    }

    #[inline(always)]
    fn hash(&self, key: &[u64]) -> u64 {
        self.seeds.hash(self.words(), |index| key[index])
    }

    fn find(&self, hash: u64, key: &[u64]) -> Option<Slot> {
        if self.split.buckets() == 0 {
            return None;
        }
        let (first, second) = (self.split.first(hash), self.split.second(hash));
        self.prefetch_bucket(second);
        self.buckets.find(first, tag(hash), key).or_else(|| self.buckets.find(second, tag(hash), key))
    }

    /// Puts an entry that isn't there into a slot, or into the stash.
    fn add(&mut self, hash: u64, key: &[u64], value: &[u8]) {
        match self.place(hash) {
            Some(slot) => {
                self.buckets.write_key(slot, tag(hash), key);
                self.write_value(slot, value);
            }
            None => {
                self.stash_value(key, value);
            }
        }
    }

    /// A free slot for an entry, its first bucket preferred.
    fn place(&mut self, hash: u64) -> Option<Slot> {
        let (first, second) = (self.split.first(hash), self.split.second(hash));
        let free = self.buckets.free_slot(first).or_else(|| self.buckets.free_slot(second));
        free.or_else(|| self.displace(first, second))
    }

    fn stash_value(&mut self, key: &[u64], value: &[u8]) {
        let mut room = vec![0; self.longest.max(ValueLayout::LONG)];
        let len = value.len().min(room.len());
        room[..len].copy_from_slice(&value[..len]);
        self.stash.insert(key.into(), room.into());
        self.note_stashed();
    }

    fn write_value(&mut self, slot: Slot, value: &[u8]) {
        let inline = self.buckets.geometry.inline;
        let spilled = value.len() > inline;
        let cell = if spilled { self.spill.insert(value).to_le_bytes() } else { [0; 4] };
        let value = if spilled { &cell[..] } else { value };
        let room = self.buckets.value_mut(slot);
        room[..value.len()].copy_from_slice(value);
        if let Some(mark) = room.get_mut(inline) {
            *mark = u8::from(spilled);
        }
    }

    /// The cell of a slot's value, if it has one.
    fn spilled(&self, value: &[u8]) -> Option<u32> {
        let mark = value.get(self.buckets.geometry.inline);
        let number = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        number.filter(|_| mark.is_some_and(|mark| *mark != 0))
    }

    fn free_spilled(&mut self, slot: Slot) {
        if let Some(cell) = self.spilled(self.buckets.value(slot)) {
            self.spill.remove(cell);
        }
    }
}
