//! Repeated list scheduling along a linear program's plan. Tables that did not fit become more
//! urgent in the next round. (Joslin and Clements, "Squeaky wheel optimization", JAIR 10, 1999.)

use super::bounds::PlacementProblem;
use super::list_scheduler::{ScheduleResult, ScheduleSettings, schedule_tables, schedule_with_replanning};
use super::lp_relaxation::{PartialPlacement, RelaxationLimits, RelaxationResult, solve_relaxation};
use super::orders::{next_random, urgency_order};
use std::time::Instant;

/// Rounds without improvement before the orders are shuffled.
const PATIENCE: u32 = 12;

/// Part divisors of the rounds that follow the plan. `None`: a round without plan.
const PART_DIVISORS: [Option<u64>; 5] = [Some(16), Some(6), None, Some(32), Some(0)];

/// Returns a complete schedule, if `rounds` rounds until the deadline `until` find one.
pub(super) fn retry_until(
    problem: &PlacementProblem,
    asked: &RelaxationLimits,
    plan: &[Vec<u64>],
    rounds: u32,
    until: Instant,
) -> Option<ScheduleResult> {
    let half = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
    follow_plan(problem, asked, plan).or_else(|| reorder_and_retry(problem, asked, plan, rounds, half)).or_else(|| {
        REPLAN_SETTINGS.iter().find_map(|(every, grain)| replan_and_place(problem, asked, *every, *grain, until))
    })
}

/// Raises the urgency of tables that did not fit and tries again, up to `rounds` times: with and
/// without the plan, and with random urgencies after several rounds without progress. `None` if no
/// round is complete.
fn reorder_and_retry(
    problem: &PlacementProblem,
    limits: &RelaxationLimits,
    plan: &[Vec<u64>],
    rounds: u32,
    until: Instant,
) -> Option<ScheduleResult> {
    let RelaxationLimits { stages, stage_limits, entries, .. } = limits.clone();
    let count = entries.len();
    let initial_urgency = urgency_order(problem, &entries, 0);
    let mut settings = ScheduleSettings {
        stages,
        stage_limits,
        entries,
        urgency: initial_urgency.clone(),
        diagnose: false,
        planned_entries: None,
        min_part_divisor: 0,
        unsplit_tables: false,
    };
    let (mut best, mut stale_rounds, mut random) = (f64::INFINITY, 0, 1u64);
    for round in 0..rounds {
        let part_divisor = PART_DIVISORS[(round as usize / 2) % PART_DIVISORS.len()];
        settings.planned_entries = part_divisor.map(|_| plan.to_vec());
        settings.min_part_divisor = part_divisor.unwrap_or(0);
        if Instant::now() >= until {
            return None;
        }
        let attempt = schedule_tables(problem, &settings);
        if attempt.is_complete() {
            return Some(attempt);
        }
        let missing = missing_stages(problem, &settings.entries, &attempt);
        (best, stale_rounds) = if missing < best { (missing, 0) } else { (best, stale_rounds + 1) };
        if stale_rounds > PATIENCE {
            let spread = 0.5 + 4.0 * next_random(&mut random);
            settings.urgency =
                initial_urgency.iter().map(|urgency| urgency + spread * next_random(&mut random)).collect();
            (best, stale_rounds) = (f64::INFINITY, 0);
            continue;
        }
        for (n, left) in &attempt.unplaced {
            // A table that only waited for an unplaced predecessor keeps its urgency.
            if problem.predecessors[*n]
                .iter()
                .any(|(predecessor, _)| attempt.unplaced.iter().any(|(other, _)| other == predecessor))
            {
                continue;
            }
            let share = *left as f64 / settings.entries[*n].max(1) as f64;
            settings.urgency[*n] += 1.0 + 2.0 * share * next_random(&mut random);
        }
        // Predecessors are at least as urgent as their successors.
        for n in (0..count).rev() {
            let after_urgency =
                problem.successors[n].iter().map(|(after, distance)| settings.urgency[*after] + f64::from(*distance));
            settings.urgency[n] = after_urgency.fold(settings.urgency[n], f64::max);
        }
    }
    None
}

/// Schedules along a plan (entries of each table by position), with several part divisors and
/// orders.
pub(super) fn follow_plan(
    problem: &PlacementProblem,
    limits: &RelaxationLimits,
    plan: &[Vec<u64>],
) -> Option<ScheduleResult> {
    let RelaxationLimits { stages, stage_limits, entries, .. } = limits.clone();
    let planned_begin = |n: usize| plan[n].iter().position(|share| *share > 0).unwrap_or(0) as f64;
    let tails = urgency_order(problem, &entries, 0);
    let planned: Vec<f64> = (0..entries.len()).map(|n| tails[n] - 2.0 * planned_begin(n)).collect();
    let mut settings = ScheduleSettings {
        stages,
        stage_limits,
        entries,
        urgency: tails,
        diagnose: false,
        planned_entries: None,
        min_part_divisor: 0,
        unsplit_tables: false,
    };
    settings.planned_entries = Some(plan.to_vec());
    for urgency in [settings.urgency.clone(), planned] {
        settings.urgency = urgency;
        for part_divisor in [0, 32, 16, 8, 4] {
            settings.min_part_divisor = part_divisor;
            let attempt = schedule_tables(problem, &settings);
            if attempt.is_complete() {
                return Some(attempt);
            }
        }
    }
    None
}

/// Pairs of positions between replanning and part divisor.
const REPLAN_SETTINGS: [(usize, u64); 6] = [(6, 16), (3, 16), (6, 6), (2, 32), (4, 4), (1, 16)];

/// Schedules along a linear program that is solved again for the unplaced entries after each
/// `interval` positions.  `None` if a table does not fit or time
/// runs out.
fn replan_and_place(
    problem: &PlacementProblem,
    limits: &RelaxationLimits,
    interval: usize,
    part_divisor: u64,
    until: Instant,
) -> Option<ScheduleResult> {
    let RelaxationLimits { stages, stage_limits, entries, .. } = limits.clone();
    let urgency = urgency_order(problem, &entries, 0);
    let settings = ScheduleSettings {
        stages,
        stage_limits,
        entries,
        urgency,
        diagnose: false,
        planned_entries: None,
        min_part_divisor: part_divisor,
        unsplit_tables: false,
    };
    let result = schedule_with_replanning(problem, &settings, interval, &mut |midway| {
        let partial = PartialPlacement { at: midway.at, ends: midway.ends.clone(), free: midway.free.to_vec() };
        let remaining = RelaxationLimits {
            entries: midway.left.to_vec(),
            is_unsplit: false,
            partial: Some(partial),
            ..limits.clone()
        };
        match solve_relaxation(problem, &remaining, until.saturating_duration_since(Instant::now())) {
            RelaxationResult::Possible { plan } if Instant::now() < until => Some(plan),
            _ => None,
        }
    });
    result.filter(ScheduleResult::is_complete)
}

/// Returns the unplaced entries, in stages, plus a small amount per table.
fn missing_stages(problem: &PlacementProblem, entries: &[u64], made: &ScheduleResult) -> f64 {
    let one = |(n, left): &(usize, u64)| {
        let share = *left as f64 / entries[*n].max(1) as f64;
        share * problem.min_stages(*n, entries[*n]) as f64 + 0.01
    };
    made.unplaced.iter().map(one).sum()
}
