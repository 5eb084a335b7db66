//! [`NextHopTable`]: the values of prefixes, each stored once, because many prefixes share few next
//! hops.

use super::hash::SeededHash;
use crate::memory::HugeVec;
use hashbrown::HashTable;

/// Reference-counted values by number. Number 0 means no value.
#[derive(Clone, Debug)]
pub(super) struct NextHopTable {
    /// `stride` bytes each: the value and padding zeros.
    bytes: HugeVec<u8>,
    stride: usize,
    /// Number of prefixes with each value.
    use_counts: Vec<u32>,
    /// Unused numbers below `use_counts.len()`.
    free: Vec<u32>,
    numbers_by_value: HashTable<u32>,
    hash: SeededHash,
}

/// Bits of a value number in a trie slot.
pub(super) const VALUE_NUMBER_BITS: u32 = 28;

impl NextHopTable {
    pub(super) fn new(longest: usize) -> NextHopTable {
        // A short value never straddles a cache line, and any value can be read eight bytes at a
        // time.
        let stride = if longest <= 64 { longest.next_power_of_two().max(8) } else { longest.next_multiple_of(16) };
        let mut bytes = HugeVec::new();
        bytes.grow(stride);
        NextHopTable {
            bytes,
            stride,
            use_counts: vec![0],
            free: Vec::new(),
            numbers_by_value: HashTable::new(),
            hash: SeededHash::new(),
        }
    }

    /// Returns the distance between values in bytes; all of them may be read.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Returns the address of value number 0.
    pub(super) fn base_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Returns a value's bytes and its padding zeros.
    pub(super) fn get(&self, number: u32) -> &[u8] {
        &self.bytes[number as usize * self.stride..][..self.stride]
    }

    /// Returns the approximate number of values.
    pub(super) fn len(&self) -> usize {
        self.use_counts.len() - self.free.len()
    }

    /// Returns the upper bound of all value numbers.
    pub(super) fn max_number(&self) -> u32 {
        self.use_counts.len() as u32 - 1
    }

    /// Returns the number of a value, and adds a reference for a prefix. Ignores bytes beyond
    /// [`NextHopTable::stride`].
    pub(super) fn acquire(&mut self, value: &[u8]) -> u32 {
        let stride = self.stride;
        let mut padded = smallvec::SmallVec::<[u8; 64]>::from_elem(0, stride);
        let len = value.len().min(stride);
        padded[..len].copy_from_slice(&value[..len]);
        let hash = self.hash.hash_bytes(&padded);
        let bytes = &self.bytes;
        let is_same_value = |&number: &u32| bytes[number as usize * stride..][..stride] == padded[..];
        if let Some(&number) = self.numbers_by_value.find(hash, is_same_value) {
            self.use_counts[number as usize] += 1;
            return number;
        }
        let number = self.free.pop().unwrap_or(self.use_counts.len() as u32);
        assert!(number < 1 << VALUE_NUMBER_BITS, "more than 2^{VALUE_NUMBER_BITS} different values in one table");
        if number as usize == self.use_counts.len() {
            self.use_counts.push(0);
            self.bytes.grow(self.use_counts.len() * stride);
        }
        self.use_counts[number as usize] = 1;
        self.bytes[number as usize * stride..][..stride].copy_from_slice(&padded);
        let (bytes, hasher) = (&self.bytes, self.hash);
        let rehash = |&number: &u32| hasher.hash_bytes(&bytes[number as usize * stride..][..stride]);
        self.numbers_by_value.insert_unique(hash, number, rehash);
        number
    }

    /// Drops the reference of a prefix to a value.
    pub(super) fn release(&mut self, number: u32) {
        let uses = &mut self.use_counts[number as usize];
        *uses -= 1;
        if *uses == 0 {
            let hash = self.hash.hash_bytes(self.get(number));
            if let Ok(entry) = self.numbers_by_value.find_entry(hash, |&other| other == number) {
                entry.remove();
            }
            self.free.push(number);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes()
            + (self.use_counts.capacity() + self.free.capacity()) * 4
            + self.numbers_by_value.allocation_size()
    }
}
