//! [`Block`]: which number each of 65,536 values has, where neighbours mostly have the same.
//!
//! Values from one on where the number changes, up to the next such, are a **run**. As words of 16 bits:
//!
//! | kind | lines | |
//! |---|---|---|
//! | line | 1 | 16 places, then 16 numbers: up to 16 runs |
//! | tree | 1, then a power of two | 32 places; then lines, as above: the first of the runs in each but the first has its place in front |
//! | array | 2,049 | a number for each value; how many runs follow the first |
//!
//! A place is that of a run's first value, less 1, and 0xffff where there is none. So the run of a value is found by counting those places that are less than the value: none
//! belongs to the first run, which begins at 0.

use super::super::pool::{Line, Pool};
use std::ops::Range;

/// Bits of a step.
pub(super) const STEP: u32 = 16;
/// Entries of a page, and of the first step.
pub(super) const ENTRIES: usize = 1 << STEP;
/// An entry: a kind in the upper two bits, and a number behind them. Of a value, if the kind is 0.
pub(super) type Entry = u32;
/// Where an entry has its kind.
pub(super) const KIND: u32 = 30;

/// What [`Entry`] says is behind it, besides 0 for a number.
pub(super) const LINE: u32 = 1;
pub(super) const TREE: u32 = 2;
pub(super) const ARRAY: u32 = 3;

/// Words of a line.
const WORDS: usize = 32;
/// Runs of a line.
pub(super) const RUNS: usize = WORDS / 2;
/// Lines below a tree's first one, at most.
const LEAVES: usize = WORDS;
/// Lines of an array's numbers.
const ARRAY_LINES: usize = ENTRIES * 2 / 64;
/// Runs of a tree, at most.
const MOST: usize = RUNS * LEAVES;
/// Arrays with fewer runs than this become trees.
const FEW: usize = MOST / 2;

/// 16 bits, least significant byte first.
type Word = [u8; 2];

const NONE: u16 = 0xffff;

/// A block's kind and its first line in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    kind: u32,
    line: u32,
}

/// Where runs begin, and their numbers. In order; the first begins at 0.
type Runs = Vec<(u16, u16)>;

/// Paints a range of values on a canvas, which gets values and their number.
type Paint<'a> = &'a mut dyn FnMut(Range<usize>, &mut dyn FnMut(Range<usize>, u32));

impl Block {
    /// The one that an entry names.
    pub(super) fn of(entry: Entry) -> Option<Block> {
        (entry >> KIND != 0).then_some(Block { kind: entry >> KIND, line: entry % (1 << KIND) })
    }

    pub(super) fn entry(self) -> Entry {
        self.kind << KIND | self.line
    }

    /// A new one.
    pub(super) fn build(pool: &mut Pool, paint: Paint<'_>) -> Block {
        let mut runs = vec![(0, 0)];
        paint(0..ENTRIES, &mut |values, number| fill(&mut runs, values, number as u16));
        Block::write(pool, &runs)
    }

    /// The same values with a range of them painted anew.
    pub(super) fn repaint(self, pool: &mut Pool, range: Range<usize>, paint: Paint<'_>) -> Block {
        if self.kind == ARRAY {
            return self.repaint_array(pool, range, paint);
        }
        let mut runs = self.runs(pool);
        paint(range, &mut |values, number| fill(&mut runs, values, number as u16));
        if Block::shape(runs.len()) == self.shape_now(pool) {
            write_runs(pool, self, &runs);
            return self;
        }
        self.give_back(pool);
        Block::write(pool, &runs)
    }

    fn repaint_array(self, pool: &mut Pool, range: Range<usize>, paint: Paint<'_>) -> Block {
        // Where numbers may come to differ from the one before.
        let seams = range.start.max(1)..(range.end + 1).min(ENTRIES);
        let (numbers, rest) = words_mut(pool, self.line).split_at_mut(ENTRIES);
        let count = |numbers: &[Word]| seams.clone().filter(|at| numbers[*at] != numbers[*at - 1]).count();
        let before = count(numbers);
        paint(range, &mut |values, number| numbers[values].fill((number as u16).to_le_bytes()));
        // But for the first.
        let runs = usize::from(u16::from_le_bytes(rest[0])) + count(numbers) - before;
        rest[0] = (runs as u16).to_le_bytes();
        if runs >= FEW {
            return self;
        }
        let runs = runs_of(&numbers.iter().map(|number| u16::from_le_bytes(*number)).collect::<Vec<_>>());
        self.give_back(pool);
        Block::write(pool, &runs)
    }

    /// A new one with these runs.
    fn write(pool: &mut Pool, runs: &Runs) -> Block {
        let (kind, leaves) = Block::shape(runs.len());
        let block = Block { kind, line: pool.take(lines(kind, leaves)) };
        if kind != ARRAY {
            write_runs(pool, block, runs);
            return block;
        }
        let (numbers, rest) = words_mut(pool, block.line).split_at_mut(ENTRIES);
        for (at, (start, number)) in runs.iter().enumerate() {
            let end = runs.get(at + 1).map_or(ENTRIES, |next| usize::from(next.0));
            numbers[usize::from(*start)..end].fill(number.to_le_bytes());
        }
        rest[0] = ((runs.len() - 1) as u16).to_le_bytes();
        block
    }

    /// The kind of a block with so many runs, and how many lines there are below a tree's first.
    fn shape(runs: usize) -> (u32, usize) {
        if runs <= RUNS {
            (LINE, 0)
        } else if runs <= MOST {
            (TREE, runs.div_ceil(RUNS).next_power_of_two())
        } else {
            (ARRAY, 0)
        }
    }

    /// The same of this one.
    fn shape_now(self, pool: &Pool) -> (u32, usize) {
        let leaves = if self.kind == TREE { places(pool.line(self.line), LEAVES).count() + 1 } else { 0 };
        (self.kind, leaves)
    }

    pub(super) fn give_back(self, pool: &mut Pool) {
        let (kind, leaves) = self.shape_now(pool);
        pool.give_back(self.line, lines(kind, leaves));
    }

    /// Of a line or a tree.
    fn runs(self, pool: &Pool) -> Runs {
        let (kind, leaves) = self.shape_now(pool);
        if kind == LINE {
            return line_runs(pool.line(self.line), 0).collect();
        }
        let first = pool.line(self.line);
        let starts = std::iter::once(0).chain(places(first, LEAVES).map(|place| place + 1));
        let leaf = |(leaf, start)| line_runs(pool.line(self.line + 1 + leaf), start);
        (0..leaves as u32).zip(starts).flat_map(leaf).collect()
    }
}

/// Lines of a block. Those of one class of [`Pool`] are equally many.
fn lines(kind: u32, leaves: usize) -> usize {
    match kind {
        LINE => 1,
        TREE => 1 + leaves,
        _ => ARRAY_LINES + 1,
    }
}

fn word(line: &Line, at: usize) -> u16 {
    u16::from_le_bytes(line.as_chunks().0[at])
}

/// Words from a line on, least significant byte first.
fn words_mut(pool: &mut Pool, line: u32) -> &mut [Word] {
    pool.bytes_mut(line).as_chunks_mut().0
}

/// The places in the first `count` words of a line.
fn places(line: &Line, count: usize) -> impl Iterator<Item = u16> {
    (0..count).map(|at| word(line, at)).take_while(|place| *place != NONE)
}

/// The runs of a line of which the first begins at `start`.
fn line_runs(line: &Line, start: u16) -> impl Iterator<Item = (u16, u16)> {
    let starts = std::iter::once(start).chain(places(line, RUNS).map(|place| place + 1));
    starts.enumerate().map(|(at, start)| (start, word(line, RUNS + at)))
}

/// Writes a line or a tree: of a tree, as many runs to each line.
fn write_runs(pool: &mut Pool, block: Block, runs: &Runs) {
    let (kind, leaves) = Block::shape(runs.len());
    let words = words_mut(pool, block.line);
    if kind == LINE {
        return write_line(words, runs);
    }
    let (first, rest) = words.split_at_mut(WORDS);
    first.fill(NONE.to_le_bytes());
    for leaf in 0..leaves {
        let part = &runs[runs.len() * leaf / leaves..runs.len() * (leaf + 1) / leaves];
        if leaf > 0 {
            first[leaf - 1] = (part[0].0 - 1).to_le_bytes();
        }
        write_line(&mut rest[WORDS * leaf..], part);
    }
}

fn write_line(words: &mut [Word], runs: &[(u16, u16)]) {
    words[..RUNS].fill(NONE.to_le_bytes());
    for (at, (start, number)) in runs.iter().enumerate() {
        if at > 0 {
            words[at - 1] = (start - 1).to_le_bytes();
        }
        words[RUNS + at] = number.to_le_bytes();
    }
}

fn runs_of(numbers: &[u16]) -> Runs {
    let mut runs: Runs = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        if runs.last().is_none_or(|last| last.1 != *number) {
            runs.push((at as u16, *number));
        }
    }
    runs
}

/// Gives some values another number.
fn fill(runs: &mut Runs, values: Range<usize>, number: u16) {
    let from = runs.partition_point(|run| usize::from(run.0) < values.start);
    let to = runs.partition_point(|run| usize::from(run.0) <= values.end);
    // What goes on behind the values, unless a run begins there.
    let behind = runs[..to].last().map(|last| (values.end as u16, last.1)).filter(|_| values.end < ENTRIES);
    let before = from.checked_sub(1).map(|at| runs[at].1);
    let new = (before != Some(number)).then_some((values.start as u16, number));
    let behind = behind.filter(|behind| behind.1 != number);
    runs.splice(from..to, new.into_iter().chain(behind));
}

#[cfg(test)]
mod tests {
    use super::super::super::pool::Pool;
    use super::{ARRAY, Block, ENTRIES, LINE, TREE, fill, runs_of};

    /// Runs painted over, against an array of numbers.
    #[test]
    fn runs_are_painted() {
        let mut rng = 7_u64;
        let mut roll = |below: u64| {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % below
        };
        let mut numbers = vec![0_u16; ENTRIES];
        let mut runs = runs_of(&numbers);
        for round in 0..4_000 {
            let len = 1 << roll(17).min(roll(17));
            let start = (roll(ENTRIES as u64) as usize) / len * len;
            let number = roll(4) as u16;
            fill(&mut runs, start..start + len, number);
            numbers[start..start + len].fill(number);
            if round % 16 == 0 {
                assert_eq!(runs, runs_of(&numbers), "{start}, {len}");
            }
        }
    }

    /// Blocks come to be each kind and go back; their memory is used again.
    #[test]
    fn blocks_change_their_kind() {
        let mut pool = Pool::new();
        let mut numbers = vec![3_u16; ENTRIES];
        let mut block = Block::build(&mut pool, &mut |values, canvas| canvas(values, 3));
        let mut kinds = std::collections::BTreeSet::new();
        let mut memory = 0;
        for round in 0..3 {
            for step in 0..2_400_usize {
                // Up to 1,200 runs, and down again.
                let (at, number) = if step < 1_200 { (step * 53, 4) } else { ((2_399 - step) * 53, 3) };
                let values = at..at + 7;
                block = block.repaint(&mut pool, values.clone(), &mut |values, canvas| canvas(values, number));
                numbers[values.clone()].fill(number as u16);
                kinds.insert(block.kind);
                if step % 100 == 0 && block.kind != ARRAY {
                    assert_eq!(block.runs(&pool), runs_of(&numbers), "round {round}, step {step}");
                }
            }
            assert_eq!(block.runs(&pool), [(0, 3)]);
            assert_eq!(block.kind, LINE);
            memory = if round == 0 { pool.memory_bytes() } else { memory };
            assert_eq!(memory, pool.memory_bytes(), "round {round}");
        }
        assert_eq!(kinds, [LINE, TREE, ARRAY].into());
    }
}
