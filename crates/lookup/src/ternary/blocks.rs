//! Blocks of up to four rules, column by column, so that one vector instruction compares a word of all of them; and chains of
//! blocks, strongest rule first.
//!
//! | lines of 32 bytes | what |
//! |---|---|
//! | [`Shape::words`] | a word of all four values |
//! | [`Shape::words`] | a word of all four masks |
//! | 1 | ranks; 0 where there is no rule |
//! | 1 | [`Info`]: record numbers, the next block, which rules have ranges to compare |
//! | two for each narrow range field | lower bounds, upper bounds |
//!
//! It is an even number of lines, so that a block starts at a cache line. Most buckets hold three rules or fewer, and with many rules
//! a lookup waits for cache lines: blocks of eight would be twice as many, half empty.

use super::head::NUMBERS;
use super::records::Records;
use super::rule::Shape;
use crate::memory::HugeVec;

/// Half a cache line: a word of each of four rules.
pub type Line = [u64; LANES];

/// Rules of a block.
pub const LANES: usize = 4;

/// Blocks in which an addition or removal moves rules to keep a chain dense.
const MOST_MOVED: usize = 16;

/// A pool of blocks. A block is named by the number of its first line; 0 is no block.
#[derive(Clone, Debug)]
pub struct Blocks {
    lines: HugeVec<Line>,
    stride: usize,
    words: usize,
    /// Of narrow ranges: first word of the bounds in a rule.
    bounds: Vec<usize>,
    free: Vec<u32>,
}

/// What a block's info line says. Words 0 and 1: record numbers, two in each.
pub struct Info;

impl Info {
    /// Word of next block (lower half), ranged lanes (bits 32..40), lanes with wide ranges (bits 40..48) and count (bits 48..).
    pub const NEXT: usize = LANES / 2;

    /// The lanes that have ranges to compare, of a word [`Info::NEXT`].
    #[inline(always)]
    pub fn ranged(word: u64) -> u32 {
        (word >> 32 | word >> 40) as u32 & ((1 << LANES) - 1)
    }

    #[inline(always)]
    pub fn id(info: &Line, lane: usize) -> u32 {
        (info[lane / 2] >> (32 * (lane % 2))) as u32
    }
}

/// A rule's place while a block is rearranged.
struct Lane {
    columns: smallvec::SmallVec<[u64; 12]>,
    id: u32,
    ranged: bool,
    wide: bool,
}

impl Blocks {
    pub fn new(shape: &Shape) -> Blocks {
        let bounds: Vec<usize> = shape.narrow.iter().map(|field| field.bounds).collect();
        let stride = 2 * shape.words + 2 + 2 * bounds.len();
        let mut lines = HugeVec::new();
        lines.grow(stride);
        Blocks { lines, stride, words: shape.words, bounds, free: Vec::new() }
    }

    /// All lines: for lookups.
    pub fn raw(&self) -> *const Line {
        self.lines.as_ptr()
    }

    pub fn memory_bytes(&self) -> usize {
        self.lines.bytes() + self.free.capacity() * 4
    }

    fn rank_line(&self, block: u32) -> usize {
        block as usize + 2 * self.words
    }

    fn info(&self, block: u32) -> &Line {
        &self.lines[self.rank_line(block) + 1]
    }

    pub fn next(&self, block: u32) -> u32 {
        self.info(block)[Info::NEXT] as u32
    }

    fn set_next(&mut self, block: u32, next: u32) {
        let at = self.rank_line(block) + 1;
        let word = &mut self.lines[at][Info::NEXT];
        *word = *word >> 32 << 32 | u64::from(next);
    }

    pub fn count(&self, block: u32) -> usize {
        (self.info(block)[Info::NEXT] >> 48) as usize
    }

    pub fn ranks(&self, block: u32) -> &Line {
        &self.lines[self.rank_line(block)]
    }

    pub fn id(&self, block: u32, lane: usize) -> u32 {
        Info::id(self.info(block), lane)
    }

    fn take(&mut self) -> u32 {
        let block = self.free.pop().unwrap_or_else(|| {
            let start = self.lines.len();
            self.lines.grow(start + self.stride);
            assert!(start < NUMBERS, "{start} lines: more than 32 GiB of rules in one table");
            start as u32
        });
        self.lines[block as usize..block as usize + self.stride].fill([0; LANES]);
        block
    }

    /// The line of column `column` of a rule: values, masks, rank, then (behind the info line) bounds.
    fn column(&self, column: usize) -> usize {
        if column <= 2 * self.words { column } else { column + 1 }
    }

    fn read(&self, block: u32, lane: usize) -> Lane {
        let word = |column| self.lines[block as usize + self.column(column)][lane];
        let flags = self.info(block)[Info::NEXT];
        Lane {
            columns: (0..self.stride - 1).map(word).collect(),
            id: self.id(block, lane),
            ranged: flags >> (32 + lane) & 1 == 1,
            wide: flags >> (40 + lane) & 1 == 1,
        }
    }

    fn write(&mut self, block: u32, lane: usize, from: &Lane) {
        for (column, word) in from.columns.iter().enumerate() {
            let line = block as usize + self.column(column);
            self.lines[line][lane] = *word;
        }
        let at = self.rank_line(block) + 1;
        let info = &mut self.lines[at];
        let shift = 32 * (lane % 2);
        info[lane / 2] = info[lane / 2] & !(0xffff_ffff << shift) | u64::from(from.id) << shift;
        let bits = u64::from(from.ranged) << (32 + lane) | u64::from(from.wide) << (40 + lane);
        info[Info::NEXT] = info[Info::NEXT] & !(1 << (32 + lane) | 1 << (40 + lane)) | bits;
    }

    fn set_count(&mut self, block: u32, count: usize) {
        let at = self.rank_line(block) + 1;
        for lane in count..LANES {
            self.lines[at - 1][lane] = 0;
        }
        let word = &mut self.lines[at][Info::NEXT];
        *word = *word & !(0xffff << 48) | (count as u64) << 48;
    }

    /// Puts a rule at `lane`; the ones from there on move. The block must not be full.
    fn put(&mut self, block: u32, lane: usize, rule: &Lane) {
        let count = self.count(block);
        for from in (lane..count).rev() {
            let moved = self.read(block, from);
            self.write(block, from + 1, &moved);
        }
        self.write(block, lane, rule);
        self.set_count(block, count + 1);
    }

    fn cut(&mut self, block: u32, lane: usize) {
        let count = self.count(block);
        for from in lane + 1..count {
            let moved = self.read(block, from);
            self.write(block, from - 1, &moved);
        }
        self.set_count(block, count - 1);
    }

    /// Whether the rule in a lane is stronger than one of this rank and sequence.
    fn stronger(&self, records: &Records, block: u32, lane: usize, rule: &[u64]) -> bool {
        let rank = self.ranks(block)[lane];
        rank > rule[0] || rank == rule[0] && records.rule(self.id(block, lane))[1] <= rule[1]
    }

    /// Adds a rule to the chain that starts at `first` (0: an empty one). Gives the new first block and the chain's number of blocks.
    pub fn add(&mut self, shape: &Shape, records: &Records, first: u32, id: u32) -> (u32, usize) {
        let rule = records.rule(id);
        let lane = self.lane(shape, rule, id);
        if first == 0 {
            let block = self.take();
            self.put(block, 0, &lane);
            return (block, 1);
        }
        // The last block that starts with a stronger rule, or else the first.
        let (mut block, mut blocks) = (first, 1);
        while self.next(block) != 0 && self.stronger(records, self.next(block), 0, rule) {
            block = self.next(block);
            blocks += 1;
        }
        let at = (0..self.count(block)).find(|&at| !self.stronger(records, block, at, rule));
        self.put_or_move(block, at.unwrap_or(self.count(block)), lane);
        while self.next(block) != 0 {
            block = self.next(block);
            blocks += 1;
        }
        (first, blocks)
    }

    fn lane(&self, shape: &Shape, rule: &[u64], id: u32) -> Lane {
        let mut columns = smallvec::SmallVec::new();
        columns.extend_from_slice(shape.value(rule));
        columns.extend_from_slice(shape.mask(rule));
        columns.push(rule[0]);
        for bounds in &self.bounds {
            columns.extend_from_slice(&rule[*bounds..*bounds + 2]);
        }
        Lane { columns, id, ranged: shape.is_ranged(rule), wide: shape.is_wide(rule) }
    }

    /// Puts a rule at `at` of a block that may be full: then the last one moves to the next block, and so on, and what is left over
    /// after some blocks gets a new one. So chains are dense, and lookups read fewer blocks.
    fn put_or_move(&mut self, mut block: u32, mut at: usize, mut lane: Lane) {
        for moved in 1.. {
            if self.count(block) < LANES {
                return self.put(block, at, &lane);
            }
            if at < LANES {
                let last = self.read(block, LANES - 1);
                self.cut(block, LANES - 1);
                self.put(block, at, &lane);
                lane = last;
            }
            if self.next(block) == 0 || moved == MOST_MOVED {
                break;
            }
            (block, at) = (self.next(block), 0);
        }
        let new = self.take();
        self.set_next(new, self.next(block));
        self.set_next(block, new);
        self.put(new, 0, &lane);
    }

    /// The rule of a chain that is equal to this one but for its sequence: its record.
    pub fn find(&self, records: &Records, first: u32, rule: &[u64]) -> Option<u32> {
        self.place(records, first, rule).map(|(_, block, lane)| self.id(block, lane))
    }

    /// Removes a rule, equal but for its sequence, from a chain. Gives the new first block (0: it is empty now) and the rule's record.
    pub fn remove(&mut self, records: &Records, first: u32, rule: &[u64]) -> Option<(u32, u32)> {
        let (before, block, lane) = self.place(records, first, rule)?;
        let id = self.id(block, lane);
        let start = self.remove_at(first, before, block, lane);
        if self.count(block) > 0 {
            self.close_up(block);
        }
        Some((start, id))
    }

    /// Removes the weakest rule of the chain's first block. Gives the new first block and the rule's record.
    pub fn pop(&mut self, first: u32) -> (u32, u32) {
        let lane = self.count(first) - 1;
        let id = self.id(first, lane);
        (self.remove_at(first, 0, first, lane), id)
    }

    /// The block before, the block and the lane of a rule.
    fn place(&self, records: &Records, first: u32, rule: &[u64]) -> Option<(u32, u32, usize)> {
        let (mut before, mut block) = (0, first);
        while block != 0 && self.ranks(block)[0] >= rule[0] {
            for lane in 0..self.count(block) {
                let same = || {
                    let other = records.rule(self.id(block, lane));
                    other[Shape::VALUE..] == rule[Shape::VALUE..]
                };
                if self.ranks(block)[lane] == rule[0] && same() {
                    return Some((before, block, lane));
                }
            }
            (before, block) = (block, self.next(block));
        }
        None
    }

    fn remove_at(&mut self, first: u32, before: u32, block: u32, lane: usize) -> u32 {
        self.cut(block, lane);
        let next = self.next(block);
        if self.count(block) == 0 {
            self.free.push(block);
            if before == 0 {
                return next;
            }
            self.set_next(before, next);
            return first;
        }
        first
    }

    /// Fills a block from the next ones, each from the one behind it, as far as some blocks.
    fn close_up(&mut self, mut block: u32) {
        for _ in 0..MOST_MOVED {
            let next = self.next(block);
            if next == 0 {
                return;
            }
            while self.count(block) < LANES && self.count(next) > 0 {
                let moved = self.read(next, 0);
                self.put(block, self.count(block), &moved);
                self.cut(next, 0);
            }
            if self.count(next) == 0 {
                self.set_next(block, self.next(next));
                self.free.push(next);
            } else {
                block = next;
            }
        }
    }

    /// Calls `each` with the records of a chain until it says `false`.
    pub fn each(&self, first: u32, each: &mut impl FnMut(u32) -> bool) -> bool {
        let mut block = first;
        while block != 0 {
            for lane in 0..self.count(block) {
                if !each(self.id(block, lane)) {
                    return false;
                }
            }
            block = self.next(block);
        }
        true
    }
}
