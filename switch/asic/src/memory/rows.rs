//! Whether blocks can lie in the rows and columns of a stage's SRAM.
//!
//! `tofino/memories.cpp` of the back-end places blocks one by one. What decides in the end is geometry: a word of several blocks takes the same
//! column of as many rows, so that rows left over hold none; state needs blocks with a map RAM in the same row, and reaches its unit
//! over a few rows only; a partition lies in one half of a row.

use crate::target::Target;

/// What is to be placed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Demand {
    /// Blocks that a word is wide.
    pub words: u32,
    /// How many such words' depths there are.
    pub depth: u32,
    /// Depths that must lie together in a half of a row each (algorithmic TCAM), by logical table; empty for hash tables.
    pub partitions: Vec<u32>,
    /// Blocks that can lie anywhere: action data, ternary indirection.
    pub anywhere: u32,
    /// Blocks of all state.
    pub state: u32,
    /// Blocks of the largest state.
    pub largest_state: u32,
}

/// Whether an empty stage has room.
pub(super) fn hold(target: &Target, demand: &Demand) -> bool {
    let (rows, columns) = (target.sram.rows, target.sram.columns);
    let matched = u64::from(demand.words) * u64::from(demand.depth);
    let cells = matched + u64::from(demand.anywhere) + u64::from(demand.state);
    if cells > u64::from(rows * columns) || demand.words > rows {
        return false;
    }
    if !demand.partitions.is_empty() {
        return halves(target, demand);
    }
    if demand.depth == 0 {
        return state_fits(target, demand, &vec![0; rows as usize]);
    }
    let groups = rows / demand.words;
    let least = demand.depth.div_ceil(groups);
    (least..=columns).any(|limit| state_fits(target, demand, &taken(target, demand, limit)))
}

/// Columns taken in each row when each group of rows takes up to `limit`.
fn taken(target: &Target, demand: &Demand, limit: u32) -> Vec<u32> {
    let mut left = demand.depth;
    let mut out = vec![0; target.sram.rows as usize];
    for group in out.chunks_mut(demand.words as usize) {
        let here = left.min(limit);
        group.fill(here);
        left -= here;
    }
    out
}

/// Whether state finds blocks with map RAM that a unit reaches. Columns without map RAM are taken first by everything else.
fn state_fits(target: &Target, demand: &Demand, taken: &[u32]) -> bool {
    let plain = target.sram.columns - target.map_ram.columns;
    let mut right: Vec<u32> =
        taken.iter().map(|t| target.map_ram.columns - t.saturating_sub(plain).min(target.map_ram.columns)).collect();
    let all: u32 = right.iter().sum();
    right.sort_unstable_by(|a, b| b.cmp(a));
    let reach: u32 = right.iter().take(target.formats.state_rows as usize).sum();
    demand.largest_state <= reach && demand.state <= all
}

/// Whether partitions find halves of rows: one that is there for a logical table takes more of the same.
fn halves(target: &Target, demand: &Demand) -> bool {
    let half = target.sram.columns / 2;
    let slots = (target.sram.rows / demand.words * 2) as usize;
    let mut room = vec![(half, 0usize); slots];
    let mut partitions: Vec<(u32, usize)> = demand.partitions.iter().copied().zip(1..).collect();
    partitions.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (size, table) in partitions {
        let same = room.iter().position(|(left, of)| *of == table && *left >= size);
        let Some(at) = same.or_else(|| room.iter().position(|(left, of)| *of == 0 && *left >= size)) else {
            // A half that another table has begun takes this one on its second bus.
            let Some(at) = room.iter().position(|(left, _)| *left >= size) else { return false };
            room[at].0 -= size;
            continue;
        };
        room[at] = (room[at].0 - size, table);
    }
    true
}
