//! [`Direct`]: what a table says of the first 24 bits of an address, in one load.
//!
//! A full routing table has prefixes of up to 24 bits, nearly all of them. Once there are many, each value of the first 24 bits has
//! an entry with the number of its value (the idea of DIR-24-8: Gupta, Lin and McKeown, "Routing Lookups in Hardware at Memory
//! Access Speeds", 1998). What is longer stays in the trie alone: where there is something, the entry says [`Direct::ask`].
//!
//! The trie knows everything, so entries are only ever derived from it: a change paints the entries that its prefix covers. That is
//! one entry for most changes and all of them for a default route, some milliseconds. Entries are as narrow as the values' numbers
//! allow, as caches hold more of them: with 254 next hops, 16 MiB.

mod lookup;

use super::address::Address;
use super::forest::Forest;
use super::painter::{Canvas, Painter, covered};
use super::pool::Ref;
use crate::memory::HugeVec;
pub(super) use lookup::lookup;
use std::ops::Range;

/// Bits of an address that choose an entry.
pub(super) const BITS: u32 = 24;
/// With fewer prefixes a table has no entries. They go when there are half as many, so that no single change moves it to and fro.
pub(super) const MANY: usize = if cfg!(test) { 100 } else { 100_000 };

/// An entry for each value of the first [`BITS`] bits.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    /// Each of `1 << size` bytes, least significant first: the number of a value, 0 for none.
    entries: HugeVec<u8>,
    size: u32,
}

fn size_for(number: u32) -> u32 {
    match number {
        0..0xff => 0,
        0xff..0xffff => 1,
        _ => 2,
    }
}

impl Direct {
    /// Of everything below `root`.
    pub(super) fn new<A: Address>(forest: &Forest<A>, root: Ref) -> Direct {
        let size = size_for(forest.values.last());
        let mut direct = Direct { entries: HugeVec::new(), size };
        direct.entries.grow(1 << (BITS + size));
        direct.paint(forest, root, A::from_wide(0), 0);
        direct
    }

    /// The number that means: look into the trie.
    fn ask(size: u32) -> u32 {
        u32::MAX >> (32 - (8 << size))
    }

    /// Brings the entries of a prefix up to date, after it has come or gone.
    pub(super) fn paint<A: Address>(&mut self, forest: &Forest<A>, root: Ref, addr: A, len: u32) {
        self.make_wide_enough(forest.values.last());
        let (range, ask) = (covered(addr, len, BITS), Direct::ask(self.size));
        Painter { forest, canvas: self, bits: BITS, ask, range }.paint(root);
    }

    fn make_wide_enough(&mut self, number: u32) {
        let size = size_for(number);
        if size <= self.size {
            return;
        }
        let mut wider = Direct { entries: HugeVec::new(), size };
        wider.entries.grow(1 << (BITS + size));
        for at in 0..1 << BITS {
            let number = self.number(at);
            let number = if number == Direct::ask(self.size) { Direct::ask(size) } else { number };
            wider.fill(at as u64..at as u64 + 1, number);
        }
        *self = wider;
    }

    fn number(&self, at: usize) -> u32 {
        let width = 1 << self.size;
        let mut bytes = [0; 4];
        bytes[..width].copy_from_slice(&self.entries[at * width..][..width]);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.bytes()
    }
}

impl Canvas for Direct {
    fn fill(&mut self, entries: Range<u64>, number: u32) {
        let bytes = &mut self.entries[(entries.start as usize) << self.size..(entries.end as usize) << self.size];
        match self.size {
            0 => bytes.fill(number as u8),
            1 => bytes.as_chunks_mut().0.fill((number as u16).to_le_bytes()),
            _ => bytes.as_chunks_mut().0.fill(number.to_le_bytes()),
        }
    }
}
