//! [`Levels`]: what a table says of the first 48 bits of an address, in three steps of 16 bits.
//!
//! A full IPv6 routing table has prefixes of up to 48 bits, nearly all of them, and half of them are of 48. Each step reads one cache line, or two:
//!
//! 1. An entry for each value of the first 16 bits: a value's number, or a page.
//! 2. A page has an entry for each value of the next 16 bits: a value's number, or a block. Few pages are needed, as registries hand out neighbouring
//!    addresses: 59 for 160,000 prefixes.
//! 3. A block says where, in the 16 bits that follow, another value begins ([`block`]): in a line if it is in few places, in a tree of lines, or with an entry for
//!    each of 65,536 values.
//!
//! What is longer than 48 bits stays in the trie alone: where there is something, the number is [`ASK`]. As all of it is derived from the trie
//! ([`super::painter`]), a change paints what its prefix covers: a part of a block for most, in some
//! microseconds, and everything for a default route, which takes as long as some ten thousand of these.

mod block;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod lookup;
#[cfg(test)]
mod tests;

use super::address::Address;
use super::forest::Forest;
use super::painter::{Canvas, Painter, covered};
use super::pool::{Pool, Ref};
use crate::memory::HugeVec;
use block::{Block, ENTRIES, Entry, KIND, STEP};
pub(super) use lookup::lookup;
use std::ops::Range;

/// Bits of an address that are answered for.
pub(super) const BITS: u32 = 3 * STEP;

/// With fewer prefixes a table has no levels. They go when there are half as many.
pub(super) const MANY: usize = if cfg!(test) { 300 } else { 10_000 };
/// Bytes that pages may take, and for each prefix more.
const ROOM: usize = 4 << 20;
const PER_PREFIX: usize = 256;

/// The number that means: look into the trie.
const ASK: u32 = 0xffff;

/// Of entries of the first step that name a page.
const PAGE: u32 = 1;

/// The three steps.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    first: HugeVec<Entry>,
    /// Pages, one behind the other.
    pages: HugeVec<Entry>,
    /// Pages that nobody uses.
    free: Vec<u32>,
    /// Lines of blocks.
    pool: Pool,
}

/// Where everything is derived from.
#[derive(Clone, Copy)]
struct Source<'a, A> {
    forest: &'a Forest<A>,
    root: Ref,
}

/// That a table should have no levels: its values or pages are too many.
pub(super) struct TooMany;

/// What two ranges have in common.
fn common(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// A range as seen from `start`.
fn shifted(start: u64, range: &Range<u64>) -> Range<usize> {
    (range.start - start) as usize..(range.end - start) as usize
}

/// The values of `STEP` bits more that begin with `entry`.
fn below(entry: u64) -> Range<u64> {
    entry << STEP..(entry + 1) << STEP
}

/// Numbers of a range, painted one over the other.
struct Numbers {
    start: u64,
    numbers: Vec<u32>,
}

impl Canvas for Numbers {
    fn fill(&mut self, entries: Range<u64>, number: u32) {
        self.numbers[shifted(self.start, &entries)].fill(number);
    }
}

impl<A: Address> Source<'_, A> {
    /// Paints the values of `range`, of so many bits.
    fn paint(&self, bits: u32, range: Range<u64>, canvas: &mut impl Canvas) {
        Painter { forest: self.forest, canvas, bits, ask: ASK, range }.paint(self.root);
    }

    /// The number for each of a range, [`ASK`] where more bits decide.
    fn numbers(&self, bits: u32, range: &Range<u64>) -> Vec<u32> {
        let mut canvas = Numbers { start: range.start, numbers: vec![0; (range.end - range.start) as usize] };
        self.paint(bits, range.clone(), &mut canvas);
        canvas.numbers
    }
}

impl Levels {
    /// Of everything below `root`, for a table of so many prefixes.
    pub(super) fn new<A: Address>(forest: &Forest<A>, root: Ref, prefixes: usize) -> Result<Levels, TooMany> {
        let mut first = HugeVec::new();
        first.grow(ENTRIES);
        let mut levels = Levels { first, pages: HugeVec::new(), free: Vec::new(), pool: Pool::new() };
        levels.paint(forest, root, (A::from_wide(0), 0), prefixes)?;
        Ok(levels)
    }

    /// Brings up to date what a prefix covers, after it has come or gone. After an error nothing here is right any more.
    pub(super) fn paint<A: Address>(
        &mut self,
        forest: &Forest<A>,
        root: Ref,
        (addr, len): (A, u32),
        prefixes: usize,
    ) -> Result<(), TooMany> {
        if forest.values.last() >= ASK {
            return Err(TooMany);
        }
        let source = Source { forest, root };
        let (range, changed) = (covered(addr, len, STEP), covered(addr, len, BITS));
        for (entry, number) in range.clone().zip(source.numbers(STEP, &range)) {
            let page = self.page(entry, number);
            if number != ASK {
                continue;
            }
            let (page, range) = match page {
                Some(page) => (page, common(&covered(addr, len, 2 * STEP), &below(entry))),
                None => (self.new_page(entry, prefixes)?, below(entry)),
            };
            for (entry, number) in range.clone().zip(source.numbers(2 * STEP, &range)) {
                self.entry(&source, page * ENTRIES, (entry, number), &changed);
            }
        }
        Ok(())
    }

    /// The page of an entry of the first step. If there is a number instead, or has come to be one, that is noted, and there is none.
    fn page(&mut self, entry: u64, number: u32) -> Option<usize> {
        let now = self.first[entry as usize];
        let page = (now >> KIND == PAGE).then_some(now as usize % (1 << KIND));
        if number == ASK {
            return page;
        }
        self.first[entry as usize] = number;
        if let Some(page) = page {
            for at in page * ENTRIES..(page + 1) * ENTRIES {
                Block::of(self.pages[at]).inspect(|block| block.give_back(&mut self.pool));
            }
            self.free.push(page as u32);
        }
        None
    }

    /// A page of which no entry is right.
    fn new_page(&mut self, entry: u64, prefixes: usize) -> Result<usize, TooMany> {
        let page = self.free.pop().map_or(self.pages.len() / ENTRIES, |page| page as usize);
        let end = (page + 1) * ENTRIES;
        if end * size_of::<Entry>() > ROOM + PER_PREFIX * prefixes {
            return Err(TooMany);
        }
        self.pages.grow(end);
        self.pages[page * ENTRIES..end].fill(0);
        self.first[entry as usize] = PAGE << KIND | page as u32;
        Ok(page)
    }

    /// Brings an entry of the page that begins at `page` up to date; if it has a block, what was `changed` in that.
    fn entry<A: Address>(
        &mut self,
        source: &Source<'_, A>,
        page: usize,
        (entry, number): (u64, u32),
        changed: &Range<u64>,
    ) {
        let at = page + entry as usize % ENTRIES;
        let now = Block::of(self.pages[at]);
        if number != ASK {
            now.inspect(|block| block.give_back(&mut self.pool));
            self.pages[at] = number;
            return;
        }
        let all = below(entry);
        let mut paint = |values: Range<usize>, canvas: &mut dyn FnMut(Range<usize>, u32)| {
            let range = all.start + values.start as u64..all.start + values.end as u64;
            source.paint(BITS, range, &mut Shifted { start: all.start, canvas });
        };
        self.pages[at] = match now {
            Some(block) => block.repaint(&mut self.pool, shifted(all.start, &common(changed, &all)), &mut paint),
            None => Block::build(&mut self.pool, &mut paint),
        }
        .entry();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.first.bytes() + self.pages.bytes() + self.free.capacity() * 4 + self.pool.memory_bytes()
    }
}

/// Values of 48 bits, as seen from the first of a block.
struct Shifted<'a> {
    start: u64,
    canvas: &'a mut dyn FnMut(Range<usize>, u32),
}

impl Canvas for Shifted<'_> {
    fn fill(&mut self, entries: Range<u64>, number: u32) {
        (self.canvas)(shifted(self.start, &entries), number);
    }
}
