//! Fits an SRAM table into a stage, in the order of the compiler (`table_placement.cpp`, try place
//! table).

use super::data;
use super::key;
use super::layouts::{LayoutCandidate, SramTable, partition_number_bits};
use super::rows::{self, StageDemand};
use super::{StageAllocation, TableLayout};
use crate::demand::{AttachedKind, TableDemand};
use crate::target::{ChipTarget, StageResources};
use std::cmp::Ordering;

/// Returns the largest allocation, up to `wanted` entries, that fits into `free`.
pub(super) fn fit_sram(
    target: &ChipTarget,
    table: &TableDemand,
    wanted: u64,
    free: &StageResources,
) -> Option<StageAllocation> {
    if key::exceeds_crossbar(table, target.per_stage.exact_crossbar) || data::has_too_wide_action(target, table) {
        return None;
    }
    if let Some(part) = fit_key_addressed(target, table, wanted, free) {
        return Some(part);
    }
    let of = SramTable::new(target, table);
    let mut choice = LayoutCandidates { of: &of, all: of.candidates(), preferred: 0 };
    choice.fit_all(wanted, free).or_else(|| choice.fit_partial(free))
}

/// Fits a table with an entry for every key value and one action. The key addresses action data and
/// state and is not compared (`table_layout.cpp`, hash action). Such a table is not split over
/// stages: `None` if not all of the `wanted` entries fit.
fn fit_key_addressed(
    target: &ChipTarget,
    table: &TableDemand,
    wanted: u64,
    free: &StageResources,
) -> Option<StageAllocation> {
    let bits = table.key_bits();
    let has_idle_timeout = table.attached.iter().any(|a| a.kind == AttachedKind::Idle);
    if !table.is_key_addressed() || wanted != table.entries || has_idle_timeout {
        return None;
    }
    let format = *data::action_data_formats(target, table).first()?;
    let (state_blocks, map_ram, largest_state) = data::state_blocks(target, table, wanted);
    let action_blocks = data::action_ram(target, format.bytes).map_or(0, |ram| ram.blocks_for(target, wanted));
    let usage = StageResources {
        sram: action_blocks.saturating_add(state_blocks),
        map_ram,
        tables: 1,
        hash_bits: bits,
        exact_crossbar: key::exact_key_bytes(target, table).crossbar,
        ..data::stage_units(table, format)
    };
    let demand = StageDemand { anywhere: action_blocks, state: state_blocks, largest_state, ..StageDemand::default() };
    let description = "nothing is compared: the key is the address of data and state".to_owned();
    let layout = TableLayout { entries_per_row: 1, description, ..TableLayout::default() };
    (usage.fits(free) && rows::fits_empty_stage(target, &demand)).then_some(StageAllocation {
        entries: wanted,
        usage,
        layout,
    })
}

/// Remaining layouts, best first.
struct LayoutCandidates<'a> {
    of: &'a SramTable<'a>,
    all: Vec<LayoutCandidate>,
    preferred: usize,
}

impl LayoutCandidates<'_> {
    /// Fits all entries into one stage. After a layout that packs but does not fit, the next ones
    /// must hold its capacity, which exceeds the requested number.
    fn fit_all(&mut self, mut wanted: u64, free: &StageResources) -> Option<StageAllocation> {
        self.size_all(wanted);
        while self.preferred < self.all.len() && self.find_packable(wanted) {
            if let Some(part) = self.allocate_preferred(free) {
                return Some(part);
            }
            wanted = self.all[self.preferred].entries;
            self.preferred += 1;
        }
        None
    }

    /// Fits the largest part into the stage: makes each layout as deep as blocks allow, then
    /// shrinks the best one until its blocks fit.
    fn fit_partial(&mut self, free: &StageResources) -> Option<StageAllocation> {
        for c in &mut self.all {
            self.of.grow_to_blocks(c, free.sram);
        }
        self.all.retain(|c| c.entries > 0);
        self.all.sort_by(|a, b| most_entries(a, b, Some(free.sram)));
        self.preferred = 0;
        loop {
            let entries = self.all.first()?.entries;
            if !self.find_packable(entries) {
                return None;
            }
            if let Some(part) = self.allocate_preferred(free) {
                return Some(part);
            }
            self.shrink_preferred();
        }
    }

    /// Sizes all layouts for `wanted` entries and sorts them by fewest blocks.
    fn size_all(&mut self, wanted: u64) {
        for c in &mut self.all {
            self.of.size_for_entries(c, wanted);
        }
        self.all.sort_by(fewest_blocks);
        self.preferred = 0;
    }

    /// Advances to a layout with a packable row. An unpackable one is made a word wider, once
    /// (`resource_estimate.cpp`, adjust choices).
    fn find_packable(&mut self, wanted: u64) -> bool {
        while let Some(c) = self.all.get_mut(self.preferred) {
            if self.of.can_pack(c) {
                return true;
            }
            let wider = c.words + 1;
            let several = c.entries_per_row != 1 && wider.is_multiple_of(c.entries_per_row);
            if c.widened || several {
                self.all.remove(self.preferred);
            } else {
                (c.words, c.widened) = (wider, true);
            }
            self.size_all(wanted);
        }
        false
    }

    /// Takes at least one block from the best layout and sorts the layouts again.
    fn shrink_preferred(&mut self) {
        let Some(c) = self.all.get_mut(self.preferred) else { return };
        let before = c.sram;
        for less in (1..before).rev() {
            self.of.grow_to_blocks(c, less);
            if c.sram < before {
                break;
            }
        }
        if c.sram >= before || c.sram == 0 {
            self.all.remove(self.preferred);
        }
        self.all.sort_by(|a, b| most_entries(a, b, None));
        self.preferred = 0;
    }

    /// Returns the allocation of the preferred layout, if its blocks fit.
    fn allocate_preferred(&self, free: &StageResources) -> Option<StageAllocation> {
        let candidate = self.all.get(self.preferred)?;
        let (candidates, target) = (self.of, self.of.target);
        let lookups = candidates.blocks_per_row();
        let match_blocks = candidate.depth.saturating_mul(lookups).saturating_mul(candidate.words);
        if match_blocks > free.sram {
            return None;
        }
        let partitions = logical_tables(candidates, candidate);
        let (state_blocks, map_ram, largest_state) = data::state_blocks(target, candidates.table, candidate.entries);
        let action_blocks = data::action_ram(target, candidate.data.bytes).map_or(0, |ram| match partitions.first() {
            // Each logical table has its own action RAM, of the size that the first one needs.
            Some(first) => {
                ram.blocks_for(target, candidates.entry_capacity(candidate, *first)) * partitions.len() as u32
            }
            None => ram.blocks_for(target, candidate.entries),
        });
        let table_blocks = partitions.iter().flat_map(|size| std::iter::repeat_n(*size, lookups as usize)).collect();
        let (words, depth) = (candidate.words, candidate.depth * lookups);
        let demand = StageDemand {
            words,
            depth,
            partitions: table_blocks,
            anywhere: action_blocks,
            state: state_blocks,
            largest_state,
        };
        let usage = StageResources {
            sram: match_blocks.saturating_add(action_blocks).saturating_add(state_blocks),
            map_ram,
            tables: partitions.len().max(1) as u32,
            hash_bits: if partitions.is_empty() {
                candidate.ways.hash_bits
            } else {
                partition_number_bits(candidates.partitions?)
            },
            exact_crossbar: candidates.key.crossbar * candidate.ways.groups.max(1),
            ..data::stage_units(candidates.table, candidate.data)
        };
        (usage.fits(free) && rows::fits_empty_stage(target, &demand)).then(|| StageAllocation {
            entries: candidate.entries,
            usage,
            layout: describe_layout(candidate, &partitions),
        })
    }
}

/// Returns the rows that each logical table of an algorithmic TCAM compares in parallel: as even as
/// possible, and few enough to fit half a row of blocks. With many partitions each table has one
/// (`resource_estimate.cpp`, partition sizes).
fn logical_tables(of: &SramTable, c: &LayoutCandidate) -> Vec<u32> {
    let Some(partitions) = of.partitions else { return Vec::new() };
    let most = of.target.formats.max_ranked_blocks;
    let tables = if partitions > 4096 { c.depth } else { c.depth.div_ceil(most) };
    (0..tables).map(|i| c.depth / tables + u32::from(i < c.depth % tables)).collect()
}

/// Returns a layout with its description. `partitions` has the sizes of the logical tables of an
/// ALPM table; empty for others.
fn describe_layout(candidate: &LayoutCandidate, partitions: &[u32]) -> TableLayout {
    let (entries, words) = (candidate.entries_per_row, candidate.words);
    let plural = |n: u32, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    let row_text = format!("{} in {}", plural(entries, "entry", "entries"), plural(words, "word", "words"));
    let ways_text = if candidate.ways.identity {
        "the key is the place".to_owned()
    } else if partitions.is_empty() {
        plural(candidate.ways.sizes.len() as u32, "way", "ways")
    } else {
        plural(partitions.len() as u32, "ranked table", "ranked tables")
    };
    let data_text = match (candidate.data.bytes, candidate.data.immediate) {
        (0, 0) => String::new(),
        (0, bits) => format!(", {bits} bits of action data in the entry"),
        (bytes, 0) => format!(", {bytes} bytes of action data in blocks of their own"),
        (bytes, bits) => format!(", {bits} bits of action data in the entry, {bytes} bytes in blocks of their own"),
    };
    let way_sizes = if partitions.is_empty() { candidate.ways.sizes.clone() } else { partitions.to_vec() };
    TableLayout {
        ways: way_sizes,
        entries_per_row: entries,
        words,
        description: format!("{row_text}, {ways_text}{data_text}"),
        ..TableLayout::default()
    }
}

/// Compares layouts when all entries must fit (`resource_estimate.cpp`, best option).
fn fewest_blocks(a: &LayoutCandidate, b: &LayoutCandidate) -> Ordering {
    let packing = if a.entries == b.entries { a.entries_per_row.cmp(&b.entries_per_row) } else { Ordering::Equal };
    let data = (a.data.bytes > 0, a.data.bytes).cmp(&(b.data.bytes > 0, b.data.bytes));
    (a.sram, a.words).cmp(&(b.sram, b.words)).then(packing).then(data).then(b.entries.cmp(&a.entries))
}

/// Compares layouts when a stage takes the largest possible part (`resource_estimate.cpp`, SRAMs
/// left and most entries).
fn most_entries(a: &LayoutCandidate, b: &LayoutCandidate, left: Option<u32>) -> Ordering {
    let blocks = match left {
        Some(left) => (a.sram > left).cmp(&(b.sram > left)),
        None => Ordering::Equal,
    };
    let fewer = if left.is_none() { a.sram.cmp(&b.sram) } else { Ordering::Equal };
    let rest = |c: &LayoutCandidate| (c.words, c.entries_per_row, c.data.bytes > 0, c.data.bytes);
    blocks.then(b.entries.cmp(&a.entries)).then(fewer).then(rest(a).cmp(&rest(b)))
}
