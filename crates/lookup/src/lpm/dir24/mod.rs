//! [`Dir24`]: direct index by the first 24 bits of an address, resolved in one load.
//!
//! Nearly all prefixes of a full routing table have up to 24 bits. In a large table each value of
//! the first 24 bits has an entry with a value number (as DIR-24-8: Gupta, Lin and McKeown,
//! "Routing Lookups in Hardware at Memory Access Speeds", 1998). Longer prefixes are only in the
//! trie; an entry that they affect holds [`Dir24::fallback_number`].
//!
//! Entries are derived from the trie, which holds all prefixes: a change rewrites the entries that
//! its prefix covers. That is one entry for most changes, and all entries for a default route,
//! which takes some milliseconds. Entries are as narrow as the value numbers allow, because more of
//! them then fit in the caches: 16 MiB with 254 next hops.

mod lookup;

use super::address::AddressBits;
use super::forest::TrieForest;
use super::pool::BlockRef;
use super::prefix_expansion::{ExpansionTarget, PrefixExpander, covered_entries};
use crate::memory::HugeVec;
pub(super) use lookup::lookup_batch;
use std::ops::Range;

/// Address bits that choose an entry.
pub(super) const BITS: u32 = 24;
/// Minimum number of prefixes for building the index. It is dropped at half of that, so that no
/// single change toggles it.
pub(super) const INDEX_MIN_PREFIXES: usize = if cfg!(test) { 100 } else { 100_000 };

/// Direct index with an entry for each value of the first [`BITS`] bits.
#[derive(Clone, Debug)]
pub(super) struct Dir24 {
    /// Entries of `1 << size` bytes, little-endian: a value number, 0 for none.
    entries: HugeVec<u8>,
    entry_size_log2: u32,
}

fn min_entry_size(number: u32) -> u32 {
    match number {
        0..0xff => 0,
        0xff..0xffff => 1,
        _ => 2,
    }
}

impl Dir24 {
    /// Builds the index of the trie below `root`.
    pub(super) fn new<A: AddressBits>(forest: &TrieForest<A>, root: BlockRef) -> Dir24 {
        let size = min_entry_size(forest.values.max_number());
        let mut direct = Dir24 { entries: HugeVec::new(), entry_size_log2: size };
        direct.entries.grow(1 << (BITS + size));
        direct.update_entries(forest, root, A::from_left_u128(0), 0);
        direct
    }

    /// Returns the number of entries that need a lookup in the trie.
    fn fallback_number(size: u32) -> u32 {
        u32::MAX >> (32 - (8 << size))
    }

    /// Updates the entries of a prefix after its insertion or removal.
    pub(super) fn update_entries<A: AddressBits>(&mut self, forest: &TrieForest<A>, root: BlockRef, addr: A, len: u32) {
        self.widen_entries(forest.values.max_number());
        let (range, ask) = (covered_entries(addr, len, BITS), Dir24::fallback_number(self.entry_size_log2));
        PrefixExpander { forest, target: self, bits: BITS, fallback_number: ask, range }.expand(root);
    }

    fn widen_entries(&mut self, number: u32) {
        let size = min_entry_size(number);
        if size <= self.entry_size_log2 {
            return;
        }
        let mut wider = Dir24 { entries: HugeVec::new(), entry_size_log2: size };
        wider.entries.grow(1 << (BITS + size));
        for at in 0..1 << BITS {
            let number = self.read_number(at);
            let number = if number == Dir24::fallback_number(self.entry_size_log2) {
                Dir24::fallback_number(size)
            } else {
                number
            };
            wider.fill_entries(at as u64..at as u64 + 1, number);
        }
        *self = wider;
    }

    fn read_number(&self, at: usize) -> u32 {
        let width = 1 << self.entry_size_log2;
        let mut bytes = [0; 4];
        bytes[..width].copy_from_slice(&self.entries[at * width..][..width]);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }
}

impl ExpansionTarget for Dir24 {
    fn fill_entries(&mut self, entries: Range<u64>, number: u32) {
        let bytes = &mut self.entries
            [(entries.start as usize) << self.entry_size_log2..(entries.end as usize) << self.entry_size_log2];
        match self.entry_size_log2 {
            0 => bytes.fill(number as u8),
            1 => bytes.as_chunks_mut().0.fill((number as u16).to_le_bytes()),
            _ => bytes.as_chunks_mut().0.fill(number.to_le_bytes()),
        }
    }
}
