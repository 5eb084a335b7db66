//! Possible layouts of a table in SRAM, with the resources that each needs for a number of entries.

use super::data::{self, ActionDataFormat, PerEntryMemory};
use super::key::{self, KeyBytes};
use super::pack::{self, EntryOverhead, RowFormat};
use super::ways::{self, HashWays};
use crate::demand::{MemoryMatchKind, TableDemand};
use crate::target::ChipTarget;
use std::cell::RefCell;
use std::collections::HashMap;

/// A table in SRAM: a hash table, or the partitions of an algorithmic TCAM.
pub(super) struct SramTable<'a> {
    pub target: &'a ChipTarget,
    pub table: &'a TableDemand,
    pub key: KeyBytes,
    /// Number of partitions. `None` for a hash table.
    pub partitions: Option<u64>,
    action_bits: u32,
    pointers: u32,
    pack_results: RefCell<HashMap<(u32, u32, u32, u32), bool>>,
}

/// Candidate layout with its resources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct LayoutCandidate {
    /// Entries per row.
    pub entries_per_row: u32,
    /// Words per row.
    pub words: u32,
    /// Split of action data.
    pub data: ActionDataFormat,
    /// Whether it is wider than its bits require.
    pub widened: bool,
    /// Depth in blocks, all ways together. For partitions: the rows compared in parallel.
    pub depth: u32,
    /// Ways of a hash table.
    pub ways: HashWays,
    /// Capacity in entries.
    pub entries: u64,
    /// SRAM blocks as the compiler first estimates them, without spare blocks when it shrinks a
    /// table.
    pub sram: u32,
}

/// Returns the bits of a partition number.
pub(super) fn partition_number_bits(partitions: u64) -> u32 {
    64 - (partitions.max(2) - 1).leading_zeros()
}

impl<'a> SramTable<'a> {
    pub fn new(target: &'a ChipTarget, table: &'a TableDemand) -> SramTable<'a> {
        let partitions = match table.kind {
            MemoryMatchKind::Partitioned { partitions, .. } => Some(partitions.max(1)),
            _ => None,
        };
        let key = match partitions {
            Some(partitions) => key::partition_key_bytes(target, table, partition_number_bits(partitions)),
            None => key::exact_key_bytes(target, table),
        };
        let (action_bits, pointers) = (data::action_bits(table), data::pointer_bits(table));
        SramTable { target, table, key, partitions, action_bits, pointers, pack_results: RefCell::default() }
    }

    /// Returns the blocks side by side that hold the rows with one index, for all partitions.
    pub fn blocks_per_row(&self) -> u32 {
        let depth = u64::from(self.target.sram.depth);
        self.partitions.map_or(1, |p| u32::try_from(p.div_ceil(depth)).unwrap_or(u32::MAX))
    }

    /// Returns all packings whose bits fit: up to nine entries in up to eight words, each with
    /// every split of action data (`table_layout.cpp`, exact match). Multiples of a smaller packing
    /// are left out.
    pub fn candidates(&self) -> Vec<LayoutCandidate> {
        let mut out = Vec::new();
        for data in data::action_data_formats(self.target, self.table) {
            for entries in 1..=self.target.formats.max_pack {
                let Some(words) = self.words_needed(entries, data) else { break };
                let (large, small) = (words.max(entries), words.min(entries));
                if large % small == 0 && small != 1 {
                    continue;
                }
                if words > self.target.formats.max_words {
                    break;
                }
                out.push(LayoutCandidate { entries_per_row: entries, words, data, ..LayoutCandidate::default() });
            }
        }
        out
    }

    /// Returns the words for `entries` entries by their bits. `None` if ranked entries do not fit
    /// their overhead into one word.
    fn words_needed(&self, entries: u32, data: ActionDataFormat) -> Option<u32> {
        let (target, ranked) = (self.target, self.partitions.is_some());
        let ghosts = if ranked { 0 } else { target.sram.depth.ilog2() };
        let overhead = self.action_bits + data::estimated_pointer_bits(self.table) + data.immediate;
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

    /// Returns whether a candidate's row can be packed, byte by byte. Results are kept, because
    /// many candidates share a row format.
    pub fn can_pack(&self, candidate: &LayoutCandidate) -> bool {
        // The hash address determines these key bits, so an entry does not store them.
        let ghost_bits =
            if self.partitions.is_some() { 0 } else { self.target.sram.depth.ilog2() + candidate.ways.min_way_log2() };
        let format_key = (candidate.entries_per_row, candidate.words, ghost_bits, candidate.data.immediate);
        if let Some(is_packable) = self.pack_results.borrow().get(&format_key) {
            return *is_packable;
        }
        let overhead =
            EntryOverhead { action: self.action_bits, pointers: self.pointers, immediate: candidate.data.immediate };
        let (entries, words) = (candidate.entries_per_row, candidate.words);
        let ranked = self.partitions.is_some();
        let is_packable = pack::is_packable(&RowFormat {
            target: self.target,
            key: &self.key,
            entries,
            words,
            ghost_bits,
            overhead,
            ranked,
        });
        self.pack_results.borrow_mut().insert(format_key, is_packable);
        is_packable
    }

    /// Returns the memories of a candidate that grow with the entries.
    pub fn per_entry_memories(&self, c: &LayoutCandidate) -> Vec<PerEntryMemory> {
        let own = self.table.attached.iter().filter(|a| a.size.is_none());
        own.map(|a| data::state_memory(self.target, a)).chain(data::action_ram(self.target, c.data.bytes)).collect()
    }

    /// Returns the capacity in entries at `depth`.
    pub fn entry_capacity(&self, c: &LayoutCandidate, depth: u32) -> u64 {
        let row = u64::from(self.target.sram.depth) * u64::from(c.entries_per_row);
        row.saturating_mul(u64::from(depth)).saturating_mul(u64::from(self.blocks_per_row()))
    }

    /// Sizes a candidate for `wanted` entries (`resource_estimate.cpp`: options to ways, to
    /// partitions, attached RAMs).
    pub fn size_for_entries(&self, c: &mut LayoutCandidate, wanted: u64) {
        let rows = match self.partitions {
            None => wanted.div_ceil(u64::from(c.entries_per_row) * u64::from(self.target.sram.depth)),
            Some(partitions) => wanted.div_ceil(partitions).div_ceil(u64::from(c.entries_per_row)),
        };
        // Larger depths are clamped to prevent overflow; they exceed any chip and fail later.
        self.set_depth(c, u32::try_from(rows.min(1 << 20)).unwrap_or(1 << 20).max(1));
        let spare = self.table.attached.iter().filter(|a| a.size.is_none()).count() as u32;
        c.sram = self.sram_blocks(c).saturating_add(spare);
    }

    fn set_depth(&self, c: &mut LayoutCandidate, depth: u32) {
        if self.partitions.is_none() {
            c.ways = ways::choose_ways(self.target, depth, c.entries_per_row, self.key.bits, c.data.bytes > 0);
            c.depth = if c.ways.identity { c.ways.depth() } else { depth.max(self.target.formats.min_ways) };
        } else {
            c.depth = depth;
        }
        c.entries = self.entry_capacity(c, c.depth);
    }

    /// Returns the SRAM blocks of a candidate at its depth.
    fn sram_blocks(&self, c: &LayoutCandidate) -> u32 {
        let matched = c.depth.saturating_mul(self.blocks_per_row()).saturating_mul(c.words);
        let beside = self.per_entry_memories(c).into_iter().filter(|b| b.sram);
        beside.fold(matched, |sum, b| sum.saturating_add(b.blocks_for(self.target, c.entries)))
    }

    /// Makes a candidate as deep as `sram` blocks allow, after subtracting fixed state
    /// (`resource_estimate.cpp`, unknown SRAMs needed).
    pub fn grow_to_blocks(&self, c: &mut LayoutCandidate, sram: u32) {
        let fixed: u32 = self.fixed_state_blocks();
        let mut depth = 0;
        loop {
            let mut next = c.clone();
            next.depth = depth + 1;
            next.entries = self.entry_capacity(c, depth + 1);
            if self.sram_blocks(&next).saturating_add(fixed) > sram {
                break;
            }
            depth += 1;
        }
        (c.depth, c.entries, c.sram, c.ways) = (0, 0, 0, HashWays::default());
        if depth > 0 {
            self.set_depth(c, depth);
            c.sram = self.sram_blocks(c).saturating_add(fixed);
        }
    }

    /// Returns the SRAM of state that does not grow with the entries.
    fn fixed_state_blocks(&self) -> u32 {
        let sized = self.table.attached.iter().filter_map(|a| Some((data::state_memory(self.target, a), a.size?)));
        sized.filter(|(b, _)| b.sram).fold(0, |sum, (b, n)| sum.saturating_add(b.blocks_for(self.target, n)))
    }
}
