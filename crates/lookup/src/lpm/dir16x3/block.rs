//! [`RunBlock`]: value numbers of 65,536 consecutive entries, most of which equal their neighbours.
//!
//! A **run** is a maximal range of entries with the same number. Blocks consist of 16-bit words:
//!
//! | kind | lines | |
//! |---|---|---|
//! | line | 1 | 16 bounds, then 16 numbers: up to 16 runs |
//! | tree | 1 + a power of two | 32 bounds, then lines as above; a bound per line after the first |
//! | array | 2,049 | a number per entry, followed by the number of runs less 1 |
//!
//! A bound is the first entry of a run, less 1; 0xffff is unused. The run of an entry is found by
//! counting the bounds that are less than the entry. The first run starts at 0 and has no bound.

use super::super::pool::{LineBytes, LinePool};
use std::ops::Range;

/// Bits of a level.
pub(super) const LEVEL_BITS: u32 = 16;
/// Entries of a page, and of the first level.
pub(super) const PAGE_ENTRIES: usize = 1 << LEVEL_BITS;
/// Entry: a kind in the upper two bits, followed by a line or page number. Kind 0: a value number.
pub(super) type IndexEntry = u32;
/// Position of the kind in an entry.
pub(super) const KIND_SHIFT: u32 = 30;

/// Kinds of an [`IndexEntry`], in addition to 0 for a value number.
pub(super) const LINE: u32 = 1;
pub(super) const TREE: u32 = 2;
pub(super) const ARRAY: u32 = 3;

/// 16-bit words of a line.
const LINE_WORDS: usize = 32;
/// Maximum number of runs of a line.
pub(super) const LINE_RUNS: usize = LINE_WORDS / 2;
/// Maximum number of lines below a tree's first.
const MAX_TREE_LINES: usize = LINE_WORDS;
/// Lines of an array's numbers.
const ARRAY_LINES: usize = PAGE_ENTRIES * 2 / 64;
/// Maximum number of runs of a tree.
const MAX_TREE_RUNS: usize = LINE_RUNS * MAX_TREE_LINES;
/// Arrays with fewer runs become trees.
const MIN_ARRAY_RUNS: usize = MAX_TREE_RUNS / 2;

/// 16-bit word, little-endian.
type Word = [u8; 2];

const UNUSED_BOUND: u16 = 0xffff;

/// Kind of a block and its first line in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunBlock {
    kind: u32,
    line: u32,
}

/// Start and number of each run, in ascending order; the first starts at 0.
type RunList = Vec<(u16, u16)>;

/// Callback that expands a range of entries by calling its argument with ranges and their numbers.
type ExpandRange<'a> = &'a mut dyn FnMut(Range<usize>, &mut dyn FnMut(Range<usize>, u32));

impl RunBlock {
    /// Returns the block of an entry.
    pub(super) fn from_entry(entry: IndexEntry) -> Option<RunBlock> {
        (entry >> KIND_SHIFT != 0).then_some(RunBlock { kind: entry >> KIND_SHIFT, line: entry % (1 << KIND_SHIFT) })
    }

    pub(super) fn to_entry(self) -> IndexEntry {
        self.kind << KIND_SHIFT | self.line
    }

    /// Builds a block.
    pub(super) fn build_block(pool: &mut LinePool, paint: ExpandRange<'_>) -> RunBlock {
        let mut runs = vec![(0, 0)];
        paint(0..PAGE_ENTRIES, &mut |values, number| fill_runs(&mut runs, values, number as u16));
        RunBlock::write_block(pool, &runs)
    }

    /// Rewrites a range of entries and returns the block, which may have moved.
    pub(super) fn rewrite_range(self, pool: &mut LinePool, range: Range<usize>, paint: ExpandRange<'_>) -> RunBlock {
        if self.kind == ARRAY {
            return self.rewrite_array_range(pool, range, paint);
        }
        let mut runs = self.decode_runs(pool);
        paint(range, &mut |values, number| fill_runs(&mut runs, values, number as u16));
        if RunBlock::kind_for_runs(runs.len()) == self.current_kind(pool) {
            write_runs(pool, self, &runs);
            return self;
        }
        self.free_block(pool);
        RunBlock::write_block(pool, &runs)
    }

    fn rewrite_array_range(self, pool: &mut LinePool, range: Range<usize>, paint: ExpandRange<'_>) -> RunBlock {
        // Positions where a number may now differ from the previous one.
        let seams = range.start.max(1)..(range.end + 1).min(PAGE_ENTRIES);
        let (numbers, rest) = words_mut(pool, self.line).split_at_mut(PAGE_ENTRIES);
        let count = |numbers: &[Word]| seams.clone().filter(|at| numbers[*at] != numbers[*at - 1]).count();
        let before = count(numbers);
        paint(range, &mut |values, number| numbers[values].fill((number as u16).to_le_bytes()));
        // Excluding the first run.
        let runs = usize::from(u16::from_le_bytes(rest[0])) + count(numbers) - before;
        rest[0] = (runs as u16).to_le_bytes();
        if runs >= MIN_ARRAY_RUNS {
            return self;
        }
        let runs = runs_from_numbers(&numbers.iter().map(|number| u16::from_le_bytes(*number)).collect::<Vec<_>>());
        self.free_block(pool);
        RunBlock::write_block(pool, &runs)
    }

    /// Creates a block with these runs.
    fn write_block(pool: &mut LinePool, runs: &RunList) -> RunBlock {
        let (kind, leaves) = RunBlock::kind_for_runs(runs.len());
        let block = RunBlock { kind, line: pool.allocate_block(block_lines(kind, leaves)) };
        if kind != ARRAY {
            write_runs(pool, block, runs);
            return block;
        }
        let (numbers, rest) = words_mut(pool, block.line).split_at_mut(PAGE_ENTRIES);
        for (at, (start, number)) in runs.iter().enumerate() {
            let end = runs.get(at + 1).map_or(PAGE_ENTRIES, |next| usize::from(next.0));
            numbers[usize::from(*start)..end].fill(number.to_le_bytes());
        }
        rest[0] = ((runs.len() - 1) as u16).to_le_bytes();
        block
    }

    /// Returns the kind of a block with `runs` runs, and the number of lines below a tree's first.
    fn kind_for_runs(runs: usize) -> (u32, usize) {
        if runs <= LINE_RUNS {
            (LINE, 0)
        } else if runs <= MAX_TREE_RUNS {
            (TREE, runs.div_ceil(LINE_RUNS).next_power_of_two())
        } else {
            (ARRAY, 0)
        }
    }

    /// Returns the kind of this block, and the number of lines below a tree's first.
    fn current_kind(self, pool: &LinePool) -> (u32, usize) {
        let leaves =
            if self.kind == TREE { iterate_bounds(pool.line(self.line), MAX_TREE_LINES).count() + 1 } else { 0 };
        (self.kind, leaves)
    }

    pub(super) fn free_block(self, pool: &mut LinePool) {
        let (kind, leaves) = self.current_kind(pool);
        pool.free_block(self.line, block_lines(kind, leaves));
    }

    /// Decodes the runs of a line or tree.
    fn decode_runs(self, pool: &LinePool) -> RunList {
        let (kind, leaves) = self.current_kind(pool);
        if kind == LINE {
            return line_runs(pool.line(self.line), 0).collect();
        }
        let first = pool.line(self.line);
        let starts = std::iter::once(0).chain(iterate_bounds(first, MAX_TREE_LINES).map(|place| place + 1));
        let leaf = |(leaf, start)| line_runs(pool.line(self.line + 1 + leaf), start);
        (0..leaves as u32).zip(starts).flat_map(leaf).collect()
    }
}

/// Returns the number of lines of a block. It is the same for all blocks in a size class of
/// [`LinePool`].
fn block_lines(kind: u32, leaves: usize) -> usize {
    match kind {
        LINE => 1,
        TREE => 1 + leaves,
        _ => ARRAY_LINES + 1,
    }
}

fn read_word(line: &LineBytes, at: usize) -> u16 {
    u16::from_le_bytes(line.as_chunks().0[at])
}

/// Returns the words from a line on.
fn words_mut(pool: &mut LinePool, line: u32) -> &mut [Word] {
    pool.bytes_from_mut(line).as_chunks_mut().0
}

/// Iterates over the bounds in the first `count` words of a line.
fn iterate_bounds(line: &LineBytes, count: usize) -> impl Iterator<Item = u16> {
    (0..count).map(|at| read_word(line, at)).take_while(|place| *place != UNUSED_BOUND)
}

/// Iterates over the runs of a line. The first run starts at `start`.
fn line_runs(line: &LineBytes, start: u16) -> impl Iterator<Item = (u16, u16)> {
    let starts = std::iter::once(start).chain(iterate_bounds(line, LINE_RUNS).map(|place| place + 1));
    starts.enumerate().map(|(at, start)| (start, read_word(line, LINE_RUNS + at)))
}

/// Encodes runs as a line or a tree with evenly distributed lines.
fn write_runs(pool: &mut LinePool, block: RunBlock, runs: &RunList) {
    let (kind, leaves) = RunBlock::kind_for_runs(runs.len());
    let words = words_mut(pool, block.line);
    if kind == LINE {
        return write_line(words, runs);
    }
    let (first, rest) = words.split_at_mut(LINE_WORDS);
    first.fill(UNUSED_BOUND.to_le_bytes());
    for leaf in 0..leaves {
        let part = &runs[runs.len() * leaf / leaves..runs.len() * (leaf + 1) / leaves];
        if leaf > 0 {
            first[leaf - 1] = (part[0].0 - 1).to_le_bytes();
        }
        write_line(&mut rest[LINE_WORDS * leaf..], part);
    }
}

fn write_line(words: &mut [Word], runs: &[(u16, u16)]) {
    words[..LINE_RUNS].fill(UNUSED_BOUND.to_le_bytes());
    for (at, (start, number)) in runs.iter().enumerate() {
        if at > 0 {
            words[at - 1] = (start - 1).to_le_bytes();
        }
        words[LINE_RUNS + at] = number.to_le_bytes();
    }
}

fn runs_from_numbers(numbers: &[u16]) -> RunList {
    let mut runs: RunList = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        if runs.last().is_none_or(|last| last.1 != *number) {
            runs.push((at as u16, *number));
        }
    }
    runs
}

/// Sets the number of a range of entries.
fn fill_runs(runs: &mut RunList, values: Range<usize>, number: u16) {
    let from = runs.partition_point(|run| usize::from(run.0) < values.start);
    let to = runs.partition_point(|run| usize::from(run.0) <= values.end);
    // The run that continues after the range, unless another starts there.
    let behind = runs[..to].last().map(|last| (values.end as u16, last.1)).filter(|_| values.end < PAGE_ENTRIES);
    let before = from.checked_sub(1).map(|at| runs[at].1);
    let new = (before != Some(number)).then_some((values.start as u16, number));
    let behind = behind.filter(|behind| behind.1 != number);
    runs.splice(from..to, new.into_iter().chain(behind));
}

#[cfg(test)]
mod tests {
    use super::super::super::pool::LinePool;
    use super::{ARRAY, LINE, PAGE_ENTRIES, RunBlock, TREE, fill_runs, runs_from_numbers};

    /// Overwritten runs compared with an array of numbers.
    #[test]
    fn runs_are_painted() {
        let mut rng = 7_u64;
        let mut roll = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % below
        };
        let mut numbers = vec![0_u16; PAGE_ENTRIES];
        let mut runs = runs_from_numbers(&numbers);
        for round in 0..4_000 {
            let len = 1 << roll(17).min(roll(17));
            let start = (roll(PAGE_ENTRIES as u64) as usize) / len * len;
            let number = roll(4) as u16;
            fill_runs(&mut runs, start..start + len, number);
            numbers[start..start + len].fill(number);
            if round % 16 == 0 {
                assert_eq!(runs, runs_from_numbers(&numbers), "{start}, {len}");
            }
        }
    }

    /// Blocks take each kind and change back; their memory is reused.
    #[test]
    fn blocks_change_their_kind() {
        let mut pool = LinePool::new();
        let mut numbers = vec![3_u16; PAGE_ENTRIES];
        let mut block = RunBlock::build_block(&mut pool, &mut |values, canvas| canvas(values, 3));
        let mut kinds = std::collections::BTreeSet::new();
        let mut memory = 0;
        for round in 0..3 {
            for step in 0..2_400_usize {
                // Up to 1,200 runs, and back.
                let (at, number) = if step < 1_200 { (step * 53, 4) } else { ((2_399 - step) * 53, 3) };
                let values = at..at + 7;
                block = block.rewrite_range(&mut pool, values.clone(), &mut |values, canvas| canvas(values, number));
                numbers[values.clone()].fill(number as u16);
                kinds.insert(block.kind);
                if step % 100 == 0 && block.kind != ARRAY {
                    assert_eq!(block.decode_runs(&pool), runs_from_numbers(&numbers), "round {round}, step {step}");
                }
            }
            assert_eq!(block.decode_runs(&pool), [(0, 3)]);
            assert_eq!(block.kind, LINE);
            memory = if round == 0 { pool.memory_bytes() } else { memory };
            assert_eq!(memory, pool.memory_bytes(), "round {round}");
        }
        assert_eq!(kinds, [LINE, TREE, ARRAY].into());
    }
}
