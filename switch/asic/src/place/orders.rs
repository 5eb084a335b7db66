//! Urgency orders: list scheduling attempts with different priorities.

use super::bounds::PlacementProblem;
use super::list_scheduler::{ScheduleResult, ScheduleSettings, schedule_tables};
use super::scaled_rows;
use crate::target::StageResources;

/// Maximum number of urgency orders to try. Large programs try fewer.
pub(super) const MAX_ORDERS: usize = 24;

/// Urgency orders to try for each step of a bisection.
pub(super) const FEW_ORDERS: usize = 4;

/// Returns the first complete schedule among at most `orders` urgency orders.
pub(super) fn try_orders(
    problem: &PlacementProblem,
    entries: &[u64],
    stages: u32,
    stage_limits: StageResources,
    orders: usize,
) -> Option<ScheduleResult> {
    if problem.min_total_stages(entries) > u64::from(stages)
        || problem.stages_by_memory(entries, &stage_limits) > u64::from(stages)
    {
        return None;
    }
    let max_orders = (MAX_ORDERS * 100 / entries.len().max(100)).max(3);
    let has_key_addressed = problem.program.tables.iter().any(|table| table.is_key_addressed());
    let try_order = |order, is_unsplit| {
        let urgency = urgency_order(problem, entries, order);
        let entries = entries.to_vec();
        let settings = ScheduleSettings {
            stages,
            stage_limits,
            entries,
            urgency,
            diagnose: false,
            planned_entries: None,
            min_part_divisor: 0,
            unsplit_tables: is_unsplit,
        };
        Some(schedule_tables(problem, &settings)).filter(ScheduleResult::is_complete)
    };
    (0..orders.min(max_orders)).find_map(|order| {
        try_order(order, has_key_addressed).or_else(|| has_key_addressed.then(|| try_order(order, false))?)
    })
}

/// Returns an urgency order: by the length of a table's chain; by the chain with each table as one
/// stage; by the table's size; or reproducible random mixtures.
pub(super) fn urgency_order(problem: &PlacementProblem, entries: &[u64], order: usize) -> Vec<f64> {
    let count = entries.len();
    let tails = |entries: &[u64]| problem.tail_lengths(entries).into_iter().map(|t| t as f64).collect::<Vec<f64>>();
    let lengths: Vec<f64> = (0..count).map(|n| problem.min_stages(n, entries[n]) as f64).collect();
    let full = tails(entries);
    match order {
        0 => (0..count).map(|n| full[n] + lengths[n] / 1e6).collect(),
        1 => tails(&vec![1; count]).iter().zip(&lengths).map(|(t, l)| t + l / 1e6).collect(),
        2 => lengths.iter().zip(&full).map(|(l, t)| l + t / 1e6).collect(),
        _ => {
            let mut random = order as u64;
            let spread = 0.5 + (order % 4) as f64;
            full.iter().zip(&lengths).map(|(t, l)| t + l / 1e6 + spread * next_random(&mut random)).collect()
        }
    }
}

/// Returns the next SplitMix64 number, scaled to 0 to 1.
pub(super) fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a stage limited to a share of its memories.
pub(super) fn limit_memories(has: &StageResources, share: f64) -> StageResources {
    let part = |n: u32| (f64::from(n) * share + 1e-9).floor() as u32;
    StageResources { sram: part(has.sram), map_ram: part(has.map_ram), tcam: part(has.tcam), ..*has }
}

/// Returns the rows of all tables at a scale.
pub(super) fn rows_at_scale(problem: &PlacementProblem, scale: f64) -> Vec<u64> {
    problem.program.tables.iter().map(|t| scaled_rows(t, scale)).collect()
}
