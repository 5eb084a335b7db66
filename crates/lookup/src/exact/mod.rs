//! [`ExactTable`]: exact match in a cuckoo hash table.
//!
//! Entries, with their keys and values, are stored in buckets of one cache line
//! ([`bucket_layout`]). A hash gives each key two buckets ([`hash`], [`linear_hashing`]). Two of
//! three keys are in their first bucket, so a lookup touches 1.3 lines on average ([`probe`]). If
//! both buckets of a new entry are full, other entries are displaced ([`cuckoo`]). The table grows
//! by one bucket at a time ([`growth`]), so it is more than nine tenths full and no insertion takes
//! long; small tables stay half empty. Values that are too long for a slot are stored elsewhere
//! ([`overflow`]). The second copy of a table copies dirty buckets from the first ([`dirty_sync`]).
//! Batch lookups use vectors where the processor has them ([`avx512`], [`avx2`], [`pattern`]).
//!
//! Entries that find no slot go to a plain hash map, the stash. That is practically impossible for
//! any set of keys, because the secrets of the hash are random. A used stash makes lookups slower
//! but not wrong.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bucket;
mod bucket_layout;
mod cuckoo;
mod dirty_sync;
mod growth;
mod hash;
mod linear_hashing;
mod overflow;
mod pattern;
mod probe;
#[cfg(test)]
mod tests;

use super::lookup_layout::ValueLayout;
use bucket::{BucketArray, BucketSlot};
use bucket_layout::BucketLayout;
use hash::{HashSeeds, hash_tag};
use linear_hashing::LinearHashing;
use overflow::OverflowValues;
use pattern::BucketCompare;
use std::collections::HashMap;

/// Full bucket in the search for a cuckoo path to a free slot.
#[derive(Clone, Copy, Debug)]
struct CuckooPathNode {
    bucket: u32,
    /// The node of the bucket from which an entry would move here, and its slot there.
    parent: u16,
    slot: u8,
    /// Change, along the path, in the number of entries that are in their second bucket.
    second_bucket_delta: i8,
}

/// Exact match table with a single writer. Readers need external synchronisation with the writer.
///
/// Keys are slices of 64-bit words, least significant first; bits beyond the key width must be 0.
/// Values are byte strings up to a fixed maximum length.
#[derive(Clone, Debug)]
pub struct ExactTable {
    buckets: BucketArray,
    bucket_compare: BucketCompare,
    seeds: HashSeeds,
    hashing: LinearHashing,
    len: usize,
    max_value_len: usize,
    overflow: OverflowValues,
    /// Entries that found no slot.
    stash: HashMap<Box<[u64]>, Box<[u8]>>,
    /// Number of buckets that `reserve` has requested.
    reserve_target: usize,
    /// Scratch bucket for entries that a split moves.
    split_scratch: BucketArray,
    /// Scratch memory of the cuckoo search.
    cuckoo_nodes: Vec<CuckooPathNode>,
}

impl ExactTable {
    /// Creates an empty table for keys of `key_bits` bits (1..=512) and values of up to
    /// `longest_value` bytes, without allocating.
    ///
    /// # Panics
    /// If `key_bits` is 0 or more than 512.
    pub fn new(key_bits: u32, longest_value: usize) -> ExactTable {
        assert!((1..=512).contains(&key_bits), "a key of {key_bits} bits; exact keys have 1 to 512");
        let layout = BucketLayout::new(key_bits, longest_value);
        ExactTable {
            buckets: BucketArray::new(layout),
            bucket_compare: BucketCompare::new(&layout),
            seeds: HashSeeds::random(),
            hashing: LinearHashing::default(),
            len: 0,
            max_value_len: longest_value,
            overflow: OverflowValues::new(longest_value),
            stash: HashMap::new(),
            reserve_target: 0,
            split_scratch: BucketArray::new(layout),
            cuckoo_nodes: Vec::new(),
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of 64-bit words of a key.
    pub fn key_words(&self) -> usize {
        self.buckets.layout.key_words
    }

    /// Returns the allocated memory in bytes, free slots included.
    pub fn memory_bytes(&self) -> usize {
        let entry =
            size_of::<(Box<[u64]>, Box<[u8]>)>() + self.key_words() * 8 + self.max_value_len.max(ValueLayout::LONG);
        let stash = self.stash.len() * entry;
        let search = self.cuckoo_nodes.capacity() * size_of::<CuckooPathNode>();
        let all = self.buckets.memory_bytes() + self.split_scratch.memory_bytes() + self.overflow.memory_bytes();
        let all = all + self.bucket_compare.memory_bytes();
        size_of::<ExactTable>() + all + stash + search
    }

    /// Inserts an entry, or replaces the value of the entry with this key. Returns whether there
    /// was one. Moves few other entries.
    ///
    /// For bulk insertion or removal, call [`ExactTable::reserve`] first and
    /// [`ExactTable::prefetch`] about ten keys ahead, because this is about three times as fast.
    ///
    /// # Panics
    /// If the key does not have [`ExactTable::key_words`] words, or the value is longer than the
    /// maximum.
    pub fn insert(&mut self, key: &[u64], value: &[u8]) -> bool {
        assert_eq!(key.len(), self.key_words(), "words of a key");
        assert!(
            value.len() <= self.max_value_len,
            "a value of {} bytes exceeds the maximum of {}",
            value.len(),
            self.max_value_len
        );
        let hash = self.hash_key(key);
        if let Some(slot) = self.find_slot(hash, key) {
            self.free_overflow_cell(slot);
            self.write_value(slot, value);
            return true;
        }
        if self.stash.contains_key(key) {
            self.insert_into_stash(key, value);
            return true;
        }
        self.grow_incrementally();
        self.insert_new(hash, key, value);
        self.len += 1;
        false
    }

    /// Removes the entry of a key. Returns whether there was one. The memory is kept for later
    /// entries.
    pub fn remove(&mut self, key: &[u64]) -> bool {
        if key.len() != self.key_words() {
            return false;
        }
        if let Some(slot) = self.find_slot(self.hash_key(key), key) {
            self.free_overflow_cell(slot);
            self.buckets.clear_slot(slot);
        } else if self.stash.remove(key).is_none() {
            return false;
        }
        self.len -= 1;
        true
    }

    /// Returns the value of a key, followed by unspecified bytes up to the end of its storage.
    pub fn get(&self, key: &[u64]) -> Option<&[u8]> {
        if key.len() != self.key_words() {
            return None;
        }
        let Some(slot) = self.find_slot(self.hash_key(key), key) else {
            return self.stash.get(key).map(|value| &**value);
        };
        let value = self.buckets.value_bytes(slot);
        Some(
            self.overflow_cell(value)
                .map_or(&value[..self.buckets.layout.inline_bytes], |cell| self.overflow.cell_value(cell)),
        )
    }

    #[inline(always)]
    fn hash_key(&self, key: &[u64]) -> u64 {
        self.seeds.hash(self.key_words(), |index| key[index])
    }

    fn find_slot(&self, hash: u64, key: &[u64]) -> Option<BucketSlot> {
        if self.hashing.bucket_count() == 0 {
            return None;
        }
        let (first, second) = (self.hashing.first_bucket(hash), self.hashing.second_bucket(hash));
        self.prefetch_bucket(second);
        self.buckets.find_key(first, hash_tag(hash), key).or_else(|| self.buckets.find_key(second, hash_tag(hash), key))
    }

    /// Inserts an entry with a new key into a slot, or into the stash.
    fn insert_new(&mut self, hash: u64, key: &[u64], value: &[u8]) {
        match self.find_or_make_free_slot(hash) {
            Some(slot) => {
                self.buckets.write_key(slot, hash_tag(hash), key);
                self.write_value(slot, value);
            }
            None => {
                self.insert_into_stash(key, value);
            }
        }
    }

    /// Returns a free slot for an entry, preferably in its first bucket.
    fn find_or_make_free_slot(&mut self, hash: u64) -> Option<BucketSlot> {
        let (first, second) = (self.hashing.first_bucket(hash), self.hashing.second_bucket(hash));
        let free = self.buckets.free_slot(first).or_else(|| self.buckets.free_slot(second));
        free.or_else(|| self.displace_entry(first, second))
    }

    fn insert_into_stash(&mut self, key: &[u64], value: &[u8]) {
        let mut room = vec![0; self.max_value_len.max(ValueLayout::LONG)];
        let len = value.len().min(room.len());
        room[..len].copy_from_slice(&value[..len]);
        self.stash.insert(key.into(), room.into());
        self.limit_tracked_stash();
    }

    fn write_value(&mut self, slot: BucketSlot, value: &[u8]) {
        let inline = self.buckets.layout.inline_bytes;
        let spilled = value.len() > inline;
        let cell = if spilled { self.overflow.insert(value).to_le_bytes() } else { [0; 4] };
        let value = if spilled { &cell[..] } else { value };
        let room = self.buckets.value_bytes_mut(slot);
        room[..value.len()].copy_from_slice(value);
        if let Some(mark) = room.get_mut(inline) {
            *mark = u8::from(spilled);
        }
    }

    /// Returns the overflow cell of a slot's value, if it has one.
    fn overflow_cell(&self, value: &[u8]) -> Option<u32> {
        let mark = value.get(self.buckets.layout.inline_bytes);
        let number = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        number.filter(|_| mark.is_some_and(|mark| *mark != 0))
    }

    fn free_overflow_cell(&mut self, slot: BucketSlot) {
        if let Some(cell) = self.overflow_cell(self.buckets.value_bytes(slot)) {
            self.overflow.free_cell(cell);
        }
    }
}
