//! [`Dir16x3`]: direct index by the first 48 bits of an address, in three levels of 16 bits.
//!
//! Nearly all prefixes of a full IPv6 routing table have up to 48 bits, and half of them exactly
//! 48. Each level reads one or two cache lines:
//!
//! 1. An entry for each value of the first 16 bits: a value number or a page.
//! 2. A page has an entry for each value of the next 16 bits: a value number or a block. Few pages
//!    are needed, because registries allocate neighbouring addresses: 59 for 160,000 prefixes.
//! 3. A block maps the next 16 bits to value numbers ([`block`]): as a line with few runs, a tree
//!    of lines, or an array of 65,536 numbers.
//!
//! Prefixes longer than 48 bits are only in the trie; where they exist, the number is
//! [`FALLBACK_NUMBER`]. All levels are derived from the trie ([`super::prefix_expansion`]). A
//! change rewrites the range that its prefix covers: for most, a part of a block in some
//! microseconds; for a default route everything, which takes as long as some ten thousand other
//! changes.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod lookup;
#[cfg(test)]
mod tests;

use super::address::AddressBits;
use super::forest::TrieForest;
use super::pool::{BlockRef, LinePool};
use super::prefix_expansion::{ExpansionTarget, PrefixExpander, covered_entries};
use crate::memory::HugeVec;
use block::{IndexEntry, KIND_SHIFT, LEVEL_BITS, PAGE_ENTRIES, RunBlock};
pub(super) use lookup::lookup_batch;
use std::ops::Range;

/// Address bits that the index covers.
pub(super) const BITS: u32 = 3 * LEVEL_BITS;

/// Minimum number of prefixes for building the index. It is dropped at half of that.
pub(super) const INDEX_MIN_PREFIXES: usize = if cfg!(test) { 300 } else { 10_000 };
/// Maximum bytes of pages, and additional bytes per prefix.
const PAGES_BASE_BYTES: usize = 4 << 20;
const PAGES_BYTES_PER_PREFIX: usize = 256;

/// Number of entries that need a lookup in the trie.
const FALLBACK_NUMBER: u32 = 0xffff;

/// Kind of first-level entries that refer to a page.
const PAGE_KIND: u32 = 1;

/// Direct index of three levels.
#[derive(Clone, Debug)]
pub(super) struct Dir16x3 {
    first_level: HugeVec<IndexEntry>,
    /// Consecutive pages.
    pages: HugeVec<IndexEntry>,
    /// Free pages.
    free_pages: Vec<u32>,
    /// Lines of blocks.
    pool: LinePool,
}

/// Trie that the index is derived from.
#[derive(Clone, Copy)]
struct TrieSource<'a, A> {
    forest: &'a TrieForest<A>,
    root: BlockRef,
}

/// Error: the table has too many values or pages for this index.
pub(super) struct LevelsTooLarge;

/// Returns the intersection of two ranges.
fn intersect_ranges(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.max(other.start)..one.end.min(other.end)
}

/// Returns a range relative to `start`.
fn relative_range(start: u64, range: &Range<u64>) -> Range<usize> {
    (range.start - start) as usize..(range.end - start) as usize
}

/// Returns the values with `STEP` more bits that start with `entry`.
fn next_level_values(entry: u64) -> Range<u64> {
    entry << LEVEL_BITS..(entry + 1) << LEVEL_BITS
}

/// Value numbers of a range, written by an expansion.
struct NumberRange {
    start: u64,
    numbers: Vec<u32>,
}

impl ExpansionTarget for NumberRange {
    fn fill_entries(&mut self, entries: Range<u64>, number: u32) {
        self.numbers[relative_range(self.start, &entries)].fill(number);
    }
}

impl<A: AddressBits> TrieSource<'_, A> {
    /// Expands the trie into the values of `range`, of `bits` bits.
    fn expand_range(&self, bits: u32, range: Range<u64>, canvas: &mut impl ExpansionTarget) {
        PrefixExpander { forest: self.forest, target: canvas, bits, fallback_number: FALLBACK_NUMBER, range }
            .expand(self.root);
    }

    /// Returns the number of each value in a range, [`FALLBACK_NUMBER`] where more bits decide.
    fn expand_numbers(&self, bits: u32, range: &Range<u64>) -> Vec<u32> {
        let mut canvas = NumberRange { start: range.start, numbers: vec![0; (range.end - range.start) as usize] };
        self.expand_range(bits, range.clone(), &mut canvas);
        canvas.numbers
    }
}

impl Dir16x3 {
    /// Builds the index of the trie below `root`, for a table of `prefixes` prefixes.
    pub(super) fn new<A: AddressBits>(
        forest: &TrieForest<A>,
        root: BlockRef,
        prefixes: usize,
    ) -> Result<Dir16x3, LevelsTooLarge> {
        let mut first = HugeVec::new();
        first.grow(PAGE_ENTRIES);
        let mut levels =
            Dir16x3 { first_level: first, pages: HugeVec::new(), free_pages: Vec::new(), pool: LinePool::new() };
        levels.update_range(forest, root, (A::from_left_u128(0), 0), prefixes)?;
        Ok(levels)
    }

    /// Updates the range that a prefix covers after its insertion or removal. After an error the
    /// index is invalid and must be dropped.
    pub(super) fn update_range<A: AddressBits>(
        &mut self,
        forest: &TrieForest<A>,
        root: BlockRef,
        (addr, len): (A, u32),
        prefixes: usize,
    ) -> Result<(), LevelsTooLarge> {
        if forest.values.max_number() >= FALLBACK_NUMBER {
            return Err(LevelsTooLarge);
        }
        let source = TrieSource { forest, root };
        let (range, changed) = (covered_entries(addr, len, LEVEL_BITS), covered_entries(addr, len, BITS));
        for (entry, number) in range.clone().zip(source.expand_numbers(LEVEL_BITS, &range)) {
            let page = self.update_first_level(entry, number);
            if number != FALLBACK_NUMBER {
                continue;
            }
            let (page, range) = match page {
                Some(page) => {
                    (page, intersect_ranges(&covered_entries(addr, len, 2 * LEVEL_BITS), &next_level_values(entry)))
                }
                None => (self.allocate_page(entry, prefixes)?, next_level_values(entry)),
            };
            for (entry, number) in range.clone().zip(source.expand_numbers(2 * LEVEL_BITS, &range)) {
                self.update_page_entry(&source, page * PAGE_ENTRIES, (entry, number), &changed);
            }
        }
        Ok(())
    }

    /// Updates an entry of the first level and returns its page. Without a page, or if `number`
    /// replaces it, stores the number and returns `None`.
    fn update_first_level(&mut self, entry: u64, number: u32) -> Option<usize> {
        let now = self.first_level[entry as usize];
        let page = (now >> KIND_SHIFT == PAGE_KIND).then_some(now as usize % (1 << KIND_SHIFT));
        if number == FALLBACK_NUMBER {
            return page;
        }
        self.first_level[entry as usize] = number;
        if let Some(page) = page {
            for at in page * PAGE_ENTRIES..(page + 1) * PAGE_ENTRIES {
                RunBlock::from_entry(self.pages[at]).inspect(|block| block.free_block(&mut self.pool));
            }
            self.free_pages.push(page as u32);
        }
        None
    }

    /// Allocates a page without valid entries.
    fn allocate_page(&mut self, entry: u64, prefixes: usize) -> Result<usize, LevelsTooLarge> {
        let page = self.free_pages.pop().map_or(self.pages.len() / PAGE_ENTRIES, |page| page as usize);
        let end = (page + 1) * PAGE_ENTRIES;
        if end * size_of::<IndexEntry>() > PAGES_BASE_BYTES + PAGES_BYTES_PER_PREFIX * prefixes {
            return Err(LevelsTooLarge);
        }
        self.pages.grow(end);
        self.pages[page * PAGE_ENTRIES..end].fill(0);
        self.first_level[entry as usize] = PAGE_KIND << KIND_SHIFT | page as u32;
        Ok(page)
    }

    /// Updates an entry of the page that starts at `page`. If it remains a block, updates its
    /// `changed` part.
    fn update_page_entry<A: AddressBits>(
        &mut self,
        source: &TrieSource<'_, A>,
        page: usize,
        (entry, number): (u64, u32),
        changed: &Range<u64>,
    ) {
        let index = page + entry as usize % PAGE_ENTRIES;
        let old_block = RunBlock::from_entry(self.pages[index]);
        if number != FALLBACK_NUMBER {
            old_block.inspect(|block| block.free_block(&mut self.pool));
            self.pages[index] = number;
            return;
        }
        let values_of_entry = next_level_values(entry);
        let mut paint = |values: Range<usize>, canvas: &mut dyn FnMut(Range<usize>, u32)| {
            let range = values_of_entry.start + values.start as u64..values_of_entry.start + values.end as u64;
            source.expand_range(BITS, range, &mut RelativeTarget { start: values_of_entry.start, target: canvas });
        };
        self.pages[index] = match old_block {
            Some(block) => block.rewrite_range(
                &mut self.pool,
                relative_range(values_of_entry.start, &intersect_ranges(changed, &values_of_entry)),
                &mut paint,
            ),
            None => RunBlock::build_block(&mut self.pool, &mut paint),
        }
        .to_entry();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.first_level.memory_bytes()
            + self.pages.memory_bytes()
            + self.free_pages.capacity() * 4
            + self.pool.memory_bytes()
    }
}

/// Expansion target for the 48-bit values of a block, relative to its first.
struct RelativeTarget<'a> {
    start: u64,
    target: &'a mut dyn FnMut(Range<usize>, u32),
}

impl ExpansionTarget for RelativeTarget<'_> {
    fn fill_entries(&mut self, entries: Range<u64>, number: u32) {
        (self.target)(relative_range(self.start, &entries), number);
    }
}
