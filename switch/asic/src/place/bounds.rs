//! Bounds on any placement: possible positions of each table, and minimum numbers of stages.

use super::{PipeHalf, PipePath, PlacementError, scaled_rows};
use crate::demand::{MemoryMatchKind, ResourceDemand, TableDemand};
use crate::memory::{self, MemoryError};
use crate::target::{ChipTarget, StageResources};
use std::cell::OnceCell;

/// Bits that a gateway compares: 4 bytes individually, and 12 bits after a hash.
const GATEWAY_BITS: u32 = 44;

/// A program to place on a path of a chip, with derived data.
pub(super) struct PlacementProblem<'a> {
    pub target: &'a ChipTarget,
    pub program: &'a ResourceDemand,
    pub path: &'a PipePath,
    /// Resources of a table besides its memories, at its first piece: gateways of the conditions
    /// before it.
    pub overhead: Vec<StageResources>,
    /// Predecessors of each table, with the minimum distance in stages.
    pub predecessors: Vec<Vec<(usize, u32)>>,
    /// Successors of each table, with the minimum distance in stages.
    pub successors: Vec<Vec<(usize, u32)>>,
    /// Entries of each table that an empty stage holds.
    pub capacity: Vec<u64>,
    /// First and last allowed hop of each table.
    pub hops: Vec<(usize, usize)>,
    /// Entries (rows) of each table.
    pub entries: Vec<u64>,
    /// Relative growth of each table's rows when the scale doubles: 1 without spare rows, 0 without
    /// keys.
    pub growth: Vec<f64>,
    least: OnceCell<Vec<LowerBound>>,
}

impl<'a> PlacementProblem<'a> {
    /// Prepares a program for placement.
    ///
    /// # Errors
    /// [`PlacementError::Table`]: no stage can hold any part of a table.
    pub fn new(
        target: &'a ChipTarget,
        program: &'a ResourceDemand,
        path: &'a PipePath,
    ) -> Result<Self, PlacementError> {
        let count = program.tables.len();
        let (mut predecessors, mut successors) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for d in program.dependencies.iter().filter(|d| d.first < d.second && d.second < count) {
            predecessors[d.second].push((d.first, d.kind.min_stage_distance()));
            successors[d.first].push((d.second, d.kind.min_stage_distance()));
        }
        let overhead: Vec<StageResources> = (0..count).map(|n| gateway_overhead(program, n)).collect();
        let mut capacity = Vec::new();
        for (table, overhead) in program.tables.iter().zip(&overhead) {
            capacity.push(stage_capacity(target, table, overhead)?);
        }
        let hops = (0..count).map(|n| hop_range(program, path, n)).collect();
        let entries: Vec<u64> = program.tables.iter().map(|t| scaled_rows(t, 1.0)).collect();
        let doubled = program.tables.iter().map(|t| scaled_rows(t, 2.0));
        let growth = doubled.zip(&entries).map(|(two, base)| (two as f64 - *base as f64) / *base as f64).collect();
        Ok(PlacementProblem {
            target,
            program,
            path,
            overhead,
            predecessors,
            successors,
            capacity,
            hops,
            entries,
            growth,
            least: OnceCell::new(),
        })
    }

    /// Returns the minimum number of stages of a table alone.
    pub fn min_stages(&self, n: usize, entries: u64) -> u64 {
        if self.program.tables[n].kind == MemoryMatchKind::None {
            1
        } else {
            entries.max(1).div_ceil(self.capacity[n].max(1))
        }
    }

    /// Returns for each table the stages from its first piece to the end of the longest chain that
    /// starts with it.
    pub fn tail_lengths(&self, entries: &[u64]) -> Vec<u64> {
        let mut tails = vec![0; entries.len()];
        for n in (0..entries.len()).rev() {
            let rest = self.successors[n].iter().map(|(next, distance)| u64::from(*distance) + tails[*next] - 1).max();
            tails[n] = self.min_stages(n, entries[n]) + rest.unwrap_or(0);
        }
        tails
    }

    /// Returns for each table its earliest position, in stages over all hops.
    pub fn earliest_positions(&self, entries: &[u64]) -> Vec<u64> {
        let mut heads = vec![0; entries.len()];
        for n in 0..entries.len() {
            let from = |(first, distance): &(usize, u32)| {
                heads[*first] + self.min_stages(*first, entries[*first]) - 1 + u64::from(*distance)
            };
            heads[n] = self.predecessors[n].iter().map(from).max().unwrap_or(0);
        }
        heads
    }

    /// Returns the last table of the longest chain and the stages up to its end. Chains that end
    /// too late take precedence.
    pub fn longest_chain(&self, entries: &[u64], stages: u64) -> (usize, u64) {
        let heads = self.earliest_positions(entries);
        let end = |n: usize| heads[n] + self.min_stages(n, entries[n]);
        let late = |n: &usize| end(*n).saturating_sub((self.hops[*n].1 as u64 + 1) * stages);
        let last = (0..entries.len()).max_by_key(|n| (late(n), end(*n)));
        last.map_or((0, 0), |n| (n, end(n)))
    }

    /// Describes the chain that determines the table's earliest position, with the causes of its
    /// dependencies.
    pub fn describe_chain(&self, mut at: usize, entries: &[u64]) -> String {
        let heads = self.earliest_positions(entries);
        let name = |n: usize| self.program.tables.get(n).map_or("", |t| t.name.as_str());
        let mut text = vec![name(at).to_owned()];
        let length = |n: usize| self.min_stages(n, entries[n]);
        while heads.get(at).is_some_and(|h| *h > 0) {
            let from = |(n, distance): &&(usize, u32)| heads[*n] + length(*n) - 1 + u64::from(*distance);
            let Some((before, distance)) = self.predecessors[at].iter().max_by_key(from) else { break };
            let through = self.program.dependencies.iter().find(|d| (d.first, d.second) == (*before, at));
            let through = through.filter(|_| *distance > 0).map_or(String::new(), |d| format!(" by {}", d.through));
            text.push(format!("{} ({} stages{through})", name(*before), length(*before)));
            at = *before;
        }
        text.reverse();
        text.join(", ")
    }

    /// Returns a lower bound on the number of stages of any placement.
    pub fn min_total_stages(&self, entries: &[u64]) -> u64 {
        let count = self.path.hops.len().max(1) as u64;
        let tails = self.tail_lengths(entries);
        let heads = self.earliest_positions(entries);
        // A table restricted to some hops has its preceding chain on the hops up to them, and its
        // following chain on the hops from there.
        let sided = (0..entries.len()).map(|n| {
            let (first, last) = self.hops[n];
            let up_to = (heads[n] + self.min_stages(n, entries[n])).div_ceil(last as u64 + 1);
            up_to.max(tails[n].div_ceil(count - (first as u64).min(count - 1)))
        });
        sided.max().unwrap_or(0).max(self.stages_by_memory(entries, &self.target.per_stage)).max(1)
    }

    /// Returns lower bounds of each table's resources. They are cached because they take many
    /// queries of the memory model.
    pub fn lower_bounds(&self) -> &[LowerBound] {
        self.least.get_or_init(|| {
            let tables = self.program.tables.iter().zip(&self.overhead);
            tables.map(|(t, overhead)| lower_bound(self.target, t, overhead)).collect()
        })
    }

    /// Returns the stages of each pipe whose memories, limited to `caps` each, could together hold
    /// everything.
    pub fn stages_by_memory(&self, entries: &[u64], caps: &StageResources) -> u64 {
        let need = self.min_blocks(entries);
        let has = memory_blocks(caps).map(|m| f64::from(m) * f64::from(self.path.pipe_count().max(1)));
        let stages = need.iter().zip(has).map(|(need, has)| match (need > &1e-9, has > 0.0) {
            (true, true) => (need / has - 1e-9).ceil() as u64,
            (true, false) => u64::MAX,
            _ => 0,
        });
        stages.max().unwrap_or(0)
    }
}

impl PlacementProblem<'_> {
    /// Returns a lower bound on the fullest stage's utilization: all blocks spread evenly, or one
    /// table's smallest part.
    pub fn min_utilization(&self) -> f64 {
        let places = f64::from(self.path.pipe_count().max(1)) * f64::from(self.target.stages.max(1));
        let has = memory_blocks(&self.target.per_stage).map(f64::from);
        let need = self.min_blocks(&self.entries);
        let even = need.iter().zip(has).map(|(need, has)| if has > 0.0 { need / has / places } else { 0.0 });
        let parts = self.lower_bounds().iter().map(|l| super::memory_utilization(&l.min_part, &self.target.per_stage));
        even.chain(parts).fold(0.0, f64::max).min(1.0)
    }

    /// Returns an upper bound on the scale, at which all blocks of all stages are in use.
    pub fn max_scale(&self) -> f64 {
        let places = f64::from(self.path.pipe_count().max(1)) * f64::from(self.target.stages.max(1));
        let has = memory_blocks(&self.target.per_stage).map(|m| f64::from(m) * places);
        let fixed: Vec<u64> =
            self.entries.iter().zip(&self.growth).map(|(e, g)| (*e as f64 * (1.0 - g).max(0.0)) as u64).collect();
        let growing: Vec<u64> = self.entries.iter().zip(&self.growth).map(|(e, g)| (*e as f64 * g) as u64).collect();
        let needs = self.min_blocks(&fixed).into_iter().zip(self.min_blocks(&growing));
        let most =
            needs.zip(has).map(|((fixed, each), has)| if each > 0.0 { (has - fixed) / each } else { f64::INFINITY });
        // Entries are integers, so a slightly larger scale can have the same entries.
        most.fold(f64::INFINITY, f64::min) * (1.0 + 1e-6)
    }

    /// Returns a lower bound on the blocks of SRAM, map RAM and TCAM for `entries`.
    fn min_blocks(&self, entries: &[u64]) -> [f64; 3] {
        let mut need = [0.0f64; 3];
        for (least, entries) in self.lower_bounds().iter().zip(entries) {
            need.iter_mut().zip(least.blocks_per_entry).for_each(|(sum, slope)| *sum += slope * *entries as f64);
        }
        need
    }
}

/// Returns the SRAM, map RAM and TCAM blocks.
pub(super) fn memory_blocks(usage: &StageResources) -> [u32; 3] {
    [usage.sram, usage.map_ram, usage.tcam]
}

/// Lower bounds on the resources of a table, for any division into parts.
pub(super) struct LowerBound {
    /// Blocks of SRAM, map RAM and TCAM per entry. 0 for tables without keys.
    pub blocks_per_entry: [f64; 3],
    /// Resources that every part takes at least.
    pub min_part: StageResources,
    /// Possible parts as (entries, resources), with the most entries for each amount of a memory.
    parts: Vec<(u64, StageResources)>,
}

impl LowerBound {
    /// Returns the maximum number of entries in a stage limited to `caps`, in one part or in two,
    /// because both gresses can have one. `None` if no part fits.
    pub fn max_entries(&self, caps: &StageResources) -> Option<u64> {
        let single = self.parts.iter().filter(|(_, usage)| usage.fits(caps));
        single
            .map(|(entries, usage)| {
                let free = caps.minus(*usage);
                let other = self.parts.iter().filter(|(_, usage)| usage.fits(&free)).map(|(entries, _)| *entries).max();
                entries + other.unwrap_or(0)
            })
            .max()
    }
}

/// Returns lower bounds on the blocks of a table: for each entry, and for any part. They are minima
/// over all parts that fit a stage, in each kind of memory by itself.
fn lower_bound(target: &ChipTarget, table: &TableDemand, overhead: &StageResources) -> LowerBound {
    if table.kind == MemoryMatchKind::None {
        let min_part = memory::fit_in_stage(target, table, table.entries, &target.per_stage.minus(*overhead));
        let min_part = min_part.map_or(StageResources::default(), |p| p.usage);
        return LowerBound { blocks_per_entry: [0.0; 3], min_part, parts: vec![(1, min_part)] };
    }
    let parts = part_options(target, table, overhead);
    let mut per_entry = [f64::INFINITY; 3];
    for min_part in &parts {
        for (per_entry, blocks) in per_entry.iter_mut().zip(memory_blocks(&min_part.usage)) {
            *per_entry = per_entry.min(f64::from(blocks) / min_part.entries.max(1) as f64);
        }
    }
    // Minimum in each resource: `a` minus its excess over `b`.
    let min_part = parts.iter().map(|p| p.usage).reduce(|a, b| a.minus(a.minus(b))).unwrap_or_default();
    let per_entry = per_entry.map(|e| if e.is_finite() { e } else { 0.0 });
    LowerBound {
        blocks_per_entry: per_entry,
        min_part,
        parts: parts.into_iter().map(|min_part| (min_part.entries, min_part.usage)).collect(),
    }
}

/// Returns the parts of a table that fit a stage, for each possible amount of each free memory. A
/// part that another dominates (same use, more entries) is left out.
fn part_options(target: &ChipTarget, table: &TableDemand, overhead: &StageResources) -> Vec<memory::StageAllocation> {
    let empty = target.per_stage.minus(*overhead);
    let mut parts: Vec<memory::StageAllocation> = Vec::new();
    // Only amounts below the use of a full stage limit the part.
    let Some(full_use) = largest_part(target, table, &empty).map(|part| part.usage) else {
        // The table fits one stage as a whole, or none.
        parts.extend(memory::fit_in_stage(target, table, memory::rows_needed(table), &empty));
        return parts;
    };
    let free_options = (1..=full_use.sram).map(|sram| StageResources { sram, ..empty });
    let free_options = free_options.chain((1..=full_use.tcam).map(|tcam| StageResources { tcam, ..empty }));
    let free_options = free_options.chain((1..=full_use.map_ram).map(|map_ram| StageResources { map_ram, ..empty }));
    let free_options = free_options.chain([empty]);
    for free in free_options {
        if let Some(part) = largest_part(target, table, &free)
            && !parts.iter().any(|p| p.usage == part.usage && p.entries >= part.entries)
        {
            parts.push(part);
        }
    }
    parts.extend(memory::fit_in_stage(target, table, 1, &empty));
    parts
}

/// Returns the largest part that fits. A layout chosen for a given number of entries can hold more
/// than one found by filling the free blocks.
fn largest_part(target: &ChipTarget, table: &TableDemand, free: &StageResources) -> Option<memory::StageAllocation> {
    let mut part = memory::fit_in_stage(target, table, u64::from(u32::MAX), free)?;
    while let Some(more) = memory::fit_in_stage(target, table, part.entries + 1, free)
        && more.entries > part.entries
    {
        part = more;
    }
    Some(part)
}

fn stage_capacity(target: &ChipTarget, table: &TableDemand, overhead: &StageResources) -> Result<u64, PlacementError> {
    let empty = target.per_stage.minus(*overhead);
    let wanted = if table.kind == MemoryMatchKind::None { table.entries } else { u64::from(u32::MAX) };
    match memory::fit_in_stage(target, table, wanted, &empty) {
        Some(part) => Ok(part.entries.max(1)),
        None => Err(PlacementError::Table(MemoryError {
            table: table.name.clone(),
            reason: format!(
                "not even a part of it fits into an empty stage of {} ({} bits of key, {} of action data{})",
                target.name,
                table.key_bits(),
                table.data_bits(),
                attached_text(table)
            ),
            help: "make its key, its action data or what is attached to it smaller".to_owned(),
        })),
    }
}

fn attached_text(table: &TableDemand) -> String {
    let of = |a: &crate::demand::AttachedState| match a.size {
        Some(size) => format!(", {} with {size} elements of {} bits", a.name, a.bits),
        None => format!(", {}", a.name),
    };
    table.attached.iter().map(of).collect()
}

/// Returns the resources of the conditions before a table. A logical table has one gateway; each
/// further gateway takes a logical table.
fn gateway_overhead(program: &ResourceDemand, n: usize) -> StageResources {
    let mut gateways = 0u32;
    let mut room = 0u32;
    for gateway in program.gateways.iter().filter(|g| g.table == Some(n)) {
        let bits = gateway.bits.min(GATEWAY_BITS);
        if gateways == 0 || bits > room {
            let more = (bits - room.min(bits)).div_ceil(GATEWAY_BITS).max(u32::from(gateways == 0));
            gateways += more;
            room += more * GATEWAY_BITS;
        }
        room = room.saturating_sub(bits);
    }
    StageResources { gateways, tables: gateways.saturating_sub(1), ..StageResources::default() }
}

fn hop_range(program: &ResourceDemand, path: &PipePath, n: usize) -> (usize, usize) {
    let end = path.hops.len().saturating_sub(1);
    let turn = path.last_ingress();
    let egress = program.egress.contains(&n);
    if egress {
        return ((turn + 1).min(end), end);
    }
    let early = program.ports.contains(&n) || !program.egress.is_empty();
    debug_assert!(path.hops.get(turn).is_none_or(|h| h.half == PipeHalf::Ingress));
    (0, if early { turn } else { end })
}
