//! The layouts that a table in SRAM can have, and what each takes for so many entries.

use super::data::{self, Beside, DataFormat};
use super::key::{self, KeyBytes};
use super::pack::{self, Form, Overhead};
use super::ways::{self, Ways};
use crate::demand::{Match, Table};
use crate::target::Target;
use std::cell::RefCell;
use std::collections::HashMap;

/// A table in SRAM: a hash table, or the partitions of an algorithmic TCAM.
pub(super) struct InSram<'a> {
    pub target: &'a Target,
    pub table: &'a Table,
    pub key: KeyBytes,
    /// Partitions; none for a hash table.
    pub partitions: Option<u64>,
    action_bits: u32,
    pointers: u32,
    packed: RefCell<HashMap<(u32, u32, u32, u32), bool>>,
}

/// A layout and what it takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Candidate {
    /// Entries in a row.
    pub entries_per_row: u32,
    /// Words that a row is wide.
    pub words: u32,
    /// Where action data is.
    pub data: DataFormat,
    /// Whether it has been made wider than its bits ask for.
    pub widened: bool,
    /// Blocks deep, all ways together: of a partition, the rows that are looked at together.
    pub depth: u32,
    /// Ways of a hash table.
    pub ways: Ways,
    /// Entries that there is room for.
    pub entries: u64,
    /// SRAM blocks, as the compiler first reckons them: without spare blocks where it shrinks a table.
    pub sram: u32,
}

/// Bits of a partition's number.
pub(super) fn number_bits(partitions: u64) -> u32 {
    64 - (partitions.max(2) - 1).leading_zeros()
}

impl<'a> InSram<'a> {
    pub fn new(target: &'a Target, table: &'a Table) -> InSram<'a> {
        let partitions = match table.kind {
            Match::Partitioned { partitions, .. } => Some(partitions.max(1)),
            _ => None,
        };
        let key = match partitions {
            Some(partitions) => key::of_partition(target, table, number_bits(partitions)),
            None => key::of_exact(target, table),
        };
        let (action_bits, pointers) = (data::action_bits(table), data::pointer_bits(table));
        InSram { target, table, key, partitions, action_bits, pointers, packed: RefCell::default() }
    }

    /// Blocks that lie side by side to hold all partitions' rows of one number.
    pub fn lookups(&self) -> u32 {
        let depth = u64::from(self.target.sram.depth);
        self.partitions.map_or(1, |p| u32::try_from(p.div_ceil(depth)).unwrap_or(u32::MAX))
    }

    /// All packings whose bits fit: up to nine entries in up to eight words, each with each way to split action data
    /// (`table_layout.cpp`, exact match). Packings that are another one several times over are left out.
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut out = Vec::new();
        for data in data::formats(self.target, self.table) {
            for entries in 1..=self.target.formats.max_pack {
                let Some(words) = self.words_for(entries, data) else { break };
                let (large, small) = (words.max(entries), words.min(entries));
                if large % small == 0 && small != 1 {
                    continue;
                }
                if words > self.target.formats.max_words {
                    break;
                }
                out.push(Candidate { entries_per_row: entries, words, data, ..Candidate::default() });
            }
        }
        out
    }

    /// Words that so many entries take by their bits; none if ranked entries cannot have their overhead in one word.
    fn words_for(&self, entries: u32, data: DataFormat) -> Option<u32> {
        let (target, ranked) = (self.target, self.partitions.is_some());
        let ghosts = if ranked { 0 } else { target.sram.depth.ilog2() };
        let overhead = self.action_bits + data::reckoned_pointer_bits(self.table) + data.immediate;
        let bits = overhead + target.formats.version_bits + self.key.bits.saturating_sub(ghosts);
        let by_bits = (entries * bits).div_ceil(target.sram.width);
        let by_bytes = (entries * self.compared_bytes(ghosts)).div_ceil(target.word_bytes() as u32);
        let by_overhead = (entries * overhead).div_ceil(target.formats.overhead_bits);
        let by_entries = entries.div_ceil(target.formats.max_per_word);
        if ranked && (by_overhead > 1 || entries > target.formats.max_per_word) {
            return None;
        }
        Some(by_bits.max(by_bytes).max(by_overhead).max(by_entries))
    }

    fn compared_bytes(&self, mut ghosts: u32) -> u32 {
        let mut widths: Vec<u32> = self.key.bytes.iter().map(|b| b.bits.count_ones()).collect();
        widths.sort_unstable();
        widths.retain(|w| {
            let gone = ghosts >= *w;
            ghosts -= if gone { *w } else { 0 };
            !gone
        });
        widths.len() as u32
    }

    /// Whether a candidate's row can be formed, byte by byte.
    pub fn formed(&self, c: &Candidate) -> bool {
        let ghosts = if self.partitions.is_some() { 0 } else { self.target.sram.depth.ilog2() + c.ways.smallest() };
        let known = (c.entries_per_row, c.words, ghosts, c.data.immediate);
        if let Some(yes) = self.packed.borrow().get(&known) {
            return *yes;
        }
        let overhead = Overhead { action: self.action_bits, pointers: self.pointers, immediate: c.data.immediate };
        let (entries, words) = (c.entries_per_row, c.words);
        let ranked = self.partitions.is_some();
        let yes = pack::packs(&Form { target: self.target, key: &self.key, entries, words, ghosts, overhead, ranked });
        self.packed.borrow_mut().insert(known, yes);
        yes
    }

    /// What grows with the entries of a candidate.
    pub fn beside(&self, c: &Candidate) -> Vec<Beside> {
        let own = self.table.attached.iter().filter(|a| a.size.is_none());
        own.map(|a| data::state(self.target, a)).chain(data::action_ram(self.target, c.data.bytes)).collect()
    }

    /// Entries of a depth.
    pub fn entries(&self, c: &Candidate, depth: u32) -> u64 {
        let row = u64::from(self.target.sram.depth) * u64::from(c.entries_per_row);
        row.saturating_mul(u64::from(depth)).saturating_mul(u64::from(self.lookups()))
    }

    /// Makes a candidate hold `wanted` entries (`resource_estimate.cpp`: options to ways, to partitions, attached RAMs).
    pub fn size(&self, c: &mut Candidate, wanted: u64) {
        let rows = match self.partitions {
            None => wanted.div_ceil(u64::from(c.entries_per_row) * u64::from(self.target.sram.depth)),
            Some(partitions) => wanted.div_ceil(partitions).div_ceil(u64::from(c.entries_per_row)),
        };
        // What is deeper than any chip fails later on; the number only has to stay one.
        self.set_depth(c, u32::try_from(rows.min(1 << 20)).unwrap_or(1 << 20).max(1));
        let spare = self.table.attached.iter().filter(|a| a.size.is_none()).count() as u32;
        c.sram = self.blocks(c).saturating_add(spare);
    }

    fn set_depth(&self, c: &mut Candidate, depth: u32) {
        if self.partitions.is_none() {
            c.ways = ways::ways(self.target, depth, c.entries_per_row, self.key.bits, c.data.bytes > 0);
            c.depth = if c.ways.identity { c.ways.depth() } else { depth.max(self.target.formats.min_ways) };
        } else {
            c.depth = depth;
        }
        c.entries = self.entries(c, c.depth);
    }

    /// SRAM blocks of a candidate with its depth.
    fn blocks(&self, c: &Candidate) -> u32 {
        let matched = c.depth.saturating_mul(self.lookups()).saturating_mul(c.words);
        let beside = self.beside(c).into_iter().filter(|b| b.sram);
        beside.fold(matched, |sum, b| sum.saturating_add(b.blocks(self.target, c.entries)))
    }

    /// Makes a candidate as deep as `sram` blocks allow (`resource_estimate.cpp`, unknown SRAMs needed). Fixed state comes off first.
    pub fn grow(&self, c: &mut Candidate, sram: u32) {
        let fixed: u32 = self.fixed();
        let mut depth = 0;
        loop {
            let mut next = c.clone();
            next.depth = depth + 1;
            next.entries = self.entries(c, depth + 1);
            if self.blocks(&next).saturating_add(fixed) > sram {
                break;
            }
            depth += 1;
        }
        (c.depth, c.entries, c.sram, c.ways) = (0, 0, 0, Ways::default());
        if depth > 0 {
            self.set_depth(c, depth);
            c.sram = self.blocks(c).saturating_add(fixed);
        }
    }

    /// SRAM of state that does not grow with the entries.
    fn fixed(&self) -> u32 {
        let sized = self.table.attached.iter().filter_map(|a| Some((data::state(self.target, a), a.size?)));
        sized.filter(|(b, _)| b.sram).fold(0, |sum, (b, n)| sum.saturating_add(b.blocks(self.target, n)))
    }
}
