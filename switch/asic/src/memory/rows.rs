//! Geometry of a stage's SRAM: feasibility of an arrangement in rows and columns of blocks.
//!
//! `tofino/memories.cpp` of the back-end places blocks one by one. Geometry decides feasibility: a
//! word of n blocks takes the same column of n rows, so remaining rows stay empty. State needs
//! blocks with a map RAM in the same row, and its ALU reaches only a few rows. A partition must be
//! in one half of a row.

use crate::target::ChipTarget;

/// Blocks to place in a stage.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct StageDemand {
    /// Blocks per word.
    pub words: u32,
    /// Depth of the match memory, in units of one block's depth.
    pub depth: u32,
    /// Depths that must be together in half a row each (algorithmic TCAM), by logical table. Empty
    /// for hash tables.
    pub partitions: Vec<u32>,
    /// Blocks without restriction: action data, ternary indirection.
    pub anywhere: u32,
    /// Blocks of all state.
    pub state: u32,
    /// Blocks of the largest state object.
    pub largest_state: u32,
}

/// Returns whether the blocks fit an empty stage.
pub(super) fn fits_empty_stage(target: &ChipTarget, demand: &StageDemand) -> bool {
    let (rows, columns) = (target.sram.rows, target.sram.columns);
    let matched = u64::from(demand.words) * u64::from(demand.depth);
    let cells = matched + u64::from(demand.anywhere) + u64::from(demand.state);
    if cells > u64::from(rows * columns) || demand.words > rows {
        return false;
    }
    if !demand.partitions.is_empty() {
        return partitions_fit(target, demand);
    }
    if demand.depth == 0 {
        return state_fits(target, demand, &vec![0; rows as usize]);
    }
    let groups = rows / demand.words;
    let least = demand.depth.div_ceil(groups);
    (least..=columns).any(|limit| state_fits(target, demand, &columns_taken(target, demand, limit)))
}

/// Returns the columns taken in each row if each group of rows takes up to `limit`.
fn columns_taken(target: &ChipTarget, demand: &StageDemand, limit: u32) -> Vec<u32> {
    let mut left = demand.depth;
    let mut out = vec![0; target.sram.rows as usize];
    for group in out.chunks_mut(demand.words as usize) {
        let here = left.min(limit);
        group.fill(here);
        left -= here;
    }
    out
}

/// Returns whether blocks with map RAM remain for the state within reach of an ALU. Other blocks
/// take columns without map RAM first.
fn state_fits(target: &ChipTarget, demand: &StageDemand, taken: &[u32]) -> bool {
    let plain = target.sram.columns - target.map_ram.columns;
    let mut right: Vec<u32> =
        taken.iter().map(|t| target.map_ram.columns - t.saturating_sub(plain).min(target.map_ram.columns)).collect();
    let all: u32 = right.iter().sum();
    right.sort_unstable_by(|a, b| b.cmp(a));
    let reach: u32 = right.iter().take(target.formats.state_rows as usize).sum();
    demand.largest_state <= reach && demand.state <= all
}

/// Returns whether half rows remain for the partitions. A half row prefers more partitions of its
/// logical table.
fn partitions_fit(target: &ChipTarget, demand: &StageDemand) -> bool {
    let half = target.sram.columns / 2;
    let slots = (target.sram.rows / demand.words * 2) as usize;
    let mut room = vec![(half, 0usize); slots];
    let mut partitions: Vec<(u32, usize)> = demand.partitions.iter().copied().zip(1..).collect();
    partitions.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (size, table) in partitions {
        let same = room.iter().position(|(left, of)| *of == table && *left >= size);
        let Some(at) = same.or_else(|| room.iter().position(|(left, of)| *of == 0 && *left >= size)) else {
            // A half row of another table takes this one on its second bus.
            let Some(at) = room.iter().position(|(left, _)| *left >= size) else { return false };
            room[at].0 -= size;
            continue;
        };
        room[at] = (room[at].0 - size, table);
    }
    true
}
