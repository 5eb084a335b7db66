//! Blocks of up to four rules, stored so that one vector instruction compares a word of all of
//! them; and chains of blocks in order of precedence.
//!
//! | rows of 32 bytes | content |
//! |---|---|
//! | [`RuleLayout::key_words`] | a word of all four values |
//! | [`RuleLayout::key_words`] | a word of all four masks |
//! | 1 | ranks; 0 without a rule |
//! | 1 | [`BlockHeader`]: record numbers, the next block, which rules have ranges to compare |
//! | two for each range field of at most 64 bits | lower bounds, upper bounds |
//!
//! The number of rows is even, so that a block starts at a cache line. Blocks hold four rules
//! because most buckets hold three or fewer, and large tables are bound by cache misses: blocks of
//! eight would be twice as large and half empty.

use super::bucket_head::MAX_NUMBERS;
use super::records::RuleSlab;
use super::rule::RuleLayout;
use crate::memory::HugeVec;

/// Half a cache line: a word of each of four rules.
pub type RuleRow = [u64; BLOCK_RULES];

/// Rules of a block.
pub const BLOCK_RULES: usize = 4;

/// Maximum number of blocks between which a change moves rules to keep a chain dense.
const MAX_MOVED_BLOCKS: usize = 16;

/// Pool of blocks. A block is identified by the number of its first row; 0 means no block.
#[derive(Clone, Debug)]
pub struct RuleBlocks {
    rows: HugeVec<RuleRow>,
    block_rows: usize,
    key_words: usize,
    /// For each range field of at most 64 bits, the first word of the bounds in a rule.
    range_bound_words: Vec<usize>,
    free: Vec<u32>,
}

/// Layout of a block's header row. Words 0 and 1 hold two record numbers each.
pub struct BlockHeader;

impl BlockHeader {
    /// Word with the next block (lower half), lanes with ranges (bits 32..40), lanes with wide
    /// ranges (bits 40..48) and the number of rules (bits 48..).
    pub const STATE_WORD: usize = BLOCK_RULES / 2;

    /// Returns the lanes with ranges to compare, from a [`BlockHeader::STATE_WORD`].
    #[inline(always)]
    pub fn lanes_with_ranges(word: u64) -> u32 {
        (word >> 32 | word >> 40) as u32 & ((1 << BLOCK_RULES) - 1)
    }

    #[inline(always)]
    pub fn record_id(info: &RuleRow, lane: usize) -> u32 {
        (info[lane / 2] >> (32 * (lane % 2))) as u32
    }
}

/// Rule of a block while the block is rearranged.
struct RuleColumn {
    columns: smallvec::SmallVec<[u64; 12]>,
    id: u32,
    has_ranges: bool,
    has_wide_ranges: bool,
}

impl RuleBlocks {
    pub fn new(shape: &RuleLayout) -> RuleBlocks {
        let bounds: Vec<usize> = shape.range_fields.iter().map(|field| field.bounds).collect();
        let stride = 2 * shape.key_words + 2 + 2 * bounds.len();
        let mut lines = HugeVec::new();
        lines.grow(stride);
        RuleBlocks {
            rows: lines,
            block_rows: stride,
            key_words: shape.key_words,
            range_bound_words: bounds,
            free: Vec::new(),
        }
    }

    /// Returns the address of all rows, for lookups.
    pub fn rows_ptr(&self) -> *const RuleRow {
        self.rows.as_ptr()
    }

    pub fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + self.free.capacity() * 4
    }

    fn rank_row(&self, block: u32) -> usize {
        block as usize + 2 * self.key_words
    }

    fn block_header(&self, block: u32) -> &RuleRow {
        &self.rows[self.rank_row(block) + 1]
    }

    pub fn next_block(&self, block: u32) -> u32 {
        self.block_header(block)[BlockHeader::STATE_WORD] as u32
    }

    fn set_next_block(&mut self, block: u32, next: u32) {
        let at = self.rank_row(block) + 1;
        let word = &mut self.rows[at][BlockHeader::STATE_WORD];
        *word = *word >> 32 << 32 | u64::from(next);
    }

    pub fn rule_count(&self, block: u32) -> usize {
        (self.block_header(block)[BlockHeader::STATE_WORD] >> 48) as usize
    }

    pub fn block_ranks(&self, block: u32) -> &RuleRow {
        &self.rows[self.rank_row(block)]
    }

    pub fn record_of_lane(&self, block: u32, lane: usize) -> u32 {
        BlockHeader::record_id(self.block_header(block), lane)
    }

    fn allocate_block(&mut self) -> u32 {
        let block = self.free.pop().unwrap_or_else(|| {
            let start = self.rows.len();
            self.rows.grow(start + self.block_rows);
            assert!(start < MAX_NUMBERS, "{start} lines: more than 32 GiB of rules in one table");
            start as u32
        });
        self.rows[block as usize..block as usize + self.block_rows].fill([0; BLOCK_RULES]);
        block
    }

    /// Returns the row of column `column` of a rule: values, masks, rank, and, after the header
    /// row, bounds.
    fn row_of_column(&self, column: usize) -> usize {
        if column <= 2 * self.key_words { column } else { column + 1 }
    }

    fn read_column(&self, block: u32, lane: usize) -> RuleColumn {
        let word = |column| self.rows[block as usize + self.row_of_column(column)][lane];
        let flags = self.block_header(block)[BlockHeader::STATE_WORD];
        RuleColumn {
            columns: (0..self.block_rows - 1).map(word).collect(),
            id: self.record_of_lane(block, lane),
            has_ranges: flags >> (32 + lane) & 1 == 1,
            has_wide_ranges: flags >> (40 + lane) & 1 == 1,
        }
    }

    fn write_column(&mut self, block: u32, lane: usize, from: &RuleColumn) {
        for (column, word) in from.columns.iter().enumerate() {
            let line = block as usize + self.row_of_column(column);
            self.rows[line][lane] = *word;
        }
        let at = self.rank_row(block) + 1;
        let info = &mut self.rows[at];
        let shift = 32 * (lane % 2);
        info[lane / 2] = info[lane / 2] & !(0xffff_ffff << shift) | u64::from(from.id) << shift;
        let bits = u64::from(from.has_ranges) << (32 + lane) | u64::from(from.has_wide_ranges) << (40 + lane);
        info[BlockHeader::STATE_WORD] = info[BlockHeader::STATE_WORD] & !(1 << (32 + lane) | 1 << (40 + lane)) | bits;
    }

    fn set_count(&mut self, block: u32, count: usize) {
        let at = self.rank_row(block) + 1;
        for lane in count..BLOCK_RULES {
            self.rows[at - 1][lane] = 0;
        }
        let word = &mut self.rows[at][BlockHeader::STATE_WORD];
        *word = *word & !(0xffff << 48) | (count as u64) << 48;
    }

    /// Inserts a rule at `lane` and shifts the following ones. The block must not be full.
    fn insert_column(&mut self, block: u32, lane: usize, rule: &RuleColumn) {
        let count = self.rule_count(block);
        for from in (lane..count).rev() {
            let moved = self.read_column(block, from);
            self.write_column(block, from + 1, &moved);
        }
        self.write_column(block, lane, rule);
        self.set_count(block, count + 1);
    }

    fn remove_column(&mut self, block: u32, lane: usize) {
        let count = self.rule_count(block);
        for from in lane + 1..count {
            let moved = self.read_column(block, from);
            self.write_column(block, from - 1, &moved);
        }
        self.set_count(block, count - 1);
    }

    /// Returns whether the rule in a lane takes precedence over `rule`.
    fn is_stronger(&self, records: &RuleSlab, block: u32, lane: usize, rule: &[u64]) -> bool {
        let rank = self.block_ranks(block)[lane];
        rank > rule[0] || rank == rule[0] && records.rule(self.record_of_lane(block, lane))[1] <= rule[1]
    }

    /// Adds a rule to the chain that starts at `first` (0: empty). Returns the new first block and
    /// the number of blocks. A chain is in the order of precedence, so that its first match
    /// decides.
    pub fn add_to_chain(&mut self, layout: &RuleLayout, records: &RuleSlab, first: u32, id: u32) -> (u32, usize) {
        let rule = records.rule(id);
        let column = self.column_of_rule(layout, rule, id);
        if first == 0 {
            let block = self.allocate_block();
            self.insert_column(block, 0, &column);
            return (block, 1);
        }
        // The last block that starts with a rule of higher precedence, otherwise the first block.
        let (mut block, mut blocks) = (first, 1);
        while self.next_block(block) != 0 && self.is_stronger(records, self.next_block(block), 0, rule) {
            block = self.next_block(block);
            blocks += 1;
        }
        let position = (0..self.rule_count(block)).find(|&position| !self.is_stronger(records, block, position, rule));
        self.insert_shifting(block, position.unwrap_or(self.rule_count(block)), column);
        while self.next_block(block) != 0 {
            block = self.next_block(block);
            blocks += 1;
        }
        (first, blocks)
    }

    fn column_of_rule(&self, shape: &RuleLayout, rule: &[u64], id: u32) -> RuleColumn {
        let mut columns = smallvec::SmallVec::new();
        columns.extend_from_slice(shape.value_words(rule));
        columns.extend_from_slice(shape.mask_words(rule));
        columns.push(rule[0]);
        for bounds in &self.range_bound_words {
            columns.extend_from_slice(&rule[*bounds..*bounds + 2]);
        }
        RuleColumn { columns, id, has_ranges: shape.has_range_check(rule), has_wide_ranges: shape.has_wide_range(rule) }
    }

    /// Inserts a rule at `position` of a block that may be full. If so, its last rule moves to the
    /// next block, and so on; after some blocks a remaining rule gets a new block. This keeps
    /// chains dense, so that lookups read fewer blocks.
    fn insert_shifting(&mut self, mut block: u32, mut position: usize, mut column: RuleColumn) {
        for moved in 1.. {
            if self.rule_count(block) < BLOCK_RULES {
                return self.insert_column(block, position, &column);
            }
            if position < BLOCK_RULES {
                let last = self.read_column(block, BLOCK_RULES - 1);
                self.remove_column(block, BLOCK_RULES - 1);
                self.insert_column(block, position, &column);
                column = last;
            }
            if self.next_block(block) == 0 || moved == MAX_MOVED_BLOCKS {
                break;
            }
            (block, position) = (self.next_block(block), 0);
        }
        let new_block = self.allocate_block();
        self.set_next_block(new_block, self.next_block(block));
        self.set_next_block(block, new_block);
        self.insert_column(new_block, 0, &column);
    }

    /// Returns the record of the rule in a chain that equals this one except for its sequence
    /// number.
    pub fn find_in_chain(&self, records: &RuleSlab, first: u32, rule: &[u64]) -> Option<u32> {
        self.locate_rule(records, first, rule).map(|(_, block, lane)| self.record_of_lane(block, lane))
    }

    /// Removes the rule that equals this one except for its sequence number from a chain. Returns
    /// the new first block (0: empty) and the rule's record.
    pub fn remove_from_chain(&mut self, records: &RuleSlab, first: u32, rule: &[u64]) -> Option<(u32, u32)> {
        let (before, block, lane) = self.locate_rule(records, first, rule)?;
        let id = self.record_of_lane(block, lane);
        let start = self.remove_lane(first, before, block, lane);
        if self.rule_count(block) > 0 {
            self.refill_blocks(block);
        }
        Some((start, id))
    }

    /// Removes the rule of lowest precedence in the chain's first block. Returns the new first
    /// block and the record.
    pub fn pop_from_chain(&mut self, first: u32) -> (u32, u32) {
        let lane = self.rule_count(first) - 1;
        let id = self.record_of_lane(first, lane);
        (self.remove_lane(first, 0, first, lane), id)
    }

    /// Returns the previous block, the block and the lane of a rule.
    fn locate_rule(&self, records: &RuleSlab, first: u32, rule: &[u64]) -> Option<(u32, u32, usize)> {
        let (mut before, mut block) = (0, first);
        while block != 0 && self.block_ranks(block)[0] >= rule[0] {
            for lane in 0..self.rule_count(block) {
                let same = || {
                    let other = records.rule(self.record_of_lane(block, lane));
                    other[RuleLayout::VALUE_WORD..] == rule[RuleLayout::VALUE_WORD..]
                };
                if self.block_ranks(block)[lane] == rule[0] && same() {
                    return Some((before, block, lane));
                }
            }
            (before, block) = (block, self.next_block(block));
        }
        None
    }

    fn remove_lane(&mut self, first: u32, before: u32, block: u32, lane: usize) -> u32 {
        self.remove_column(block, lane);
        let next = self.next_block(block);
        if self.rule_count(block) == 0 {
            self.free.push(block);
            if before == 0 {
                return next;
            }
            self.set_next_block(before, next);
            return first;
        }
        first
    }

    /// Fills a block from the next one, and that one from its successor, up to a maximum number of
    /// blocks.
    fn refill_blocks(&mut self, mut block: u32) {
        for _ in 0..MAX_MOVED_BLOCKS {
            let next = self.next_block(block);
            if next == 0 {
                return;
            }
            while self.rule_count(block) < BLOCK_RULES && self.rule_count(next) > 0 {
                let moved = self.read_column(next, 0);
                self.insert_column(block, self.rule_count(block), &moved);
                self.remove_column(next, 0);
            }
            if self.rule_count(next) == 0 {
                self.set_next_block(block, self.next_block(next));
                self.free.push(next);
            } else {
                block = next;
            }
        }
    }

    /// Calls `each` with the records of a chain until it returns `false`.
    pub fn visit_records(&self, first: u32, each: &mut impl FnMut(u32) -> bool) -> bool {
        let mut block = first;
        while block != 0 {
            for lane in 0..self.rule_count(block) {
                if !each(self.record_of_lane(block, lane)) {
                    return false;
                }
            }
            block = self.next_block(block);
        }
        true
    }
}
