//! [`Values`]: the values of prefixes, each kept once however many prefixes have it (next hops are few).

use super::hash::Hash;
use crate::memory::HugeVec;
use hashbrown::HashTable;

/// Values by number. Number 0 is none.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// `stride` bytes each: the value, then zeros.
    bytes: HugeVec<u8>,
    stride: usize,
    /// By number: how many prefixes have it.
    uses: Vec<u32>,
    /// Numbers that nobody uses, below `uses.len()`.
    free: Vec<u32>,
    known: HashTable<u32>,
    hash: Hash,
}

/// A slot of a trie has this many bits for a number.
pub(super) const NUMBER_BITS: u32 = 28;

impl Values {
    pub(super) fn new(longest: usize) -> Values {
        // A short value never straddles a cache line, and any can be read eight bytes at a time.
        let stride = if longest <= 64 { longest.next_power_of_two().max(8) } else { longest.next_multiple_of(16) };
        let mut bytes = HugeVec::new();
        bytes.grow(stride);
        Values { bytes, stride, uses: vec![0], free: Vec::new(), known: HashTable::new(), hash: Hash::new() }
    }

    /// Bytes from one value to the next; all of them may be read.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The first byte of number 0.
    pub(super) fn start(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The value's bytes and the zeros behind them.
    pub(super) fn get(&self, number: u32) -> &[u8] {
        &self.bytes[number as usize * self.stride..][..self.stride]
    }

    /// About how many there are.
    pub(super) fn len(&self) -> usize {
        self.uses.len() - self.free.len()
    }

    /// No number is higher than this.
    pub(super) fn last(&self) -> u32 {
        self.uses.len() as u32 - 1
    }

    /// The number of a value, for one more prefix. Of the value, at most [`Values::stride`] bytes count.
    pub(super) fn take(&mut self, value: &[u8]) -> u32 {
        let stride = self.stride;
        let mut padded = smallvec::SmallVec::<[u8; 64]>::from_elem(0, stride);
        let len = value.len().min(stride);
        padded[..len].copy_from_slice(&value[..len]);
        let hash = self.hash.bytes(&padded);
        let bytes = &self.bytes;
        let same = |&number: &u32| bytes[number as usize * stride..][..stride] == padded[..];
        if let Some(&number) = self.known.find(hash, same) {
            self.uses[number as usize] += 1;
            return number;
        }
        let number = self.free.pop().unwrap_or(self.uses.len() as u32);
        assert!(number < 1 << NUMBER_BITS, "more than 2^{NUMBER_BITS} different values in one table");
        if number as usize == self.uses.len() {
            self.uses.push(0);
            self.bytes.grow(self.uses.len() * stride);
        }
        self.uses[number as usize] = 1;
        self.bytes[number as usize * stride..][..stride].copy_from_slice(&padded);
        let (bytes, hasher) = (&self.bytes, self.hash);
        let rehash = |&number: &u32| hasher.bytes(&bytes[number as usize * stride..][..stride]);
        self.known.insert_unique(hash, number, rehash);
        number
    }

    /// One prefix less has this value.
    pub(super) fn release(&mut self, number: u32) {
        let uses = &mut self.uses[number as usize];
        *uses -= 1;
        if *uses == 0 {
            let hash = self.hash.bytes(self.get(number));
            if let Ok(entry) = self.known.find_entry(hash, |&other| other == number) {
                entry.remove();
            }
            self.free.push(number);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.bytes() + (self.uses.capacity() + self.free.capacity()) * 4 + self.known.allocation_size()
    }
}
