//! Heuristic placement in a fraction of a second: list scheduling with several urgency orders, and
//! a bisection of the objective.

use super::binding_resource::binding_at_scale;
use super::bounds::PlacementProblem;
use super::orders::{FEW_ORDERS, MAX_ORDERS, limit_memories, rows_at_scale, try_orders};
use super::{Objective, PipePath, Placement, PlacementError};
use crate::demand::ResourceDemand;
use crate::target::ChipTarget;

/// Steps of a bisection.
const BISECTION_STEPS: u32 = 12;

/// Returns the best of a few placements.
///
/// # Errors
/// [`PlacementError`]: the binding resource, and the nearest placement that fits.
pub fn heuristic(
    target: &ChipTarget,
    program: &ResourceDemand,
    path: &PipePath,
    objective: Objective,
) -> Result<Placement, PlacementError> {
    let problem = PlacementProblem::new(target, program, path)?;
    best_heuristic(&problem, objective)
}

pub(super) fn best_heuristic(problem: &PlacementProblem, objective: Objective) -> Result<Placement, PlacementError> {
    check_longest_chain(problem)?;
    let (target, stages) = (problem.target, problem.target.stages);
    let any = |stages: u32| {
        try_orders(problem, &problem.entries, stages, target.per_stage, MAX_ORDERS)
            .map(|a| a.into_placement(problem, 1.0))
    };
    let found = match objective {
        Objective::Fits => any(stages),
        Objective::FewestStages => {
            let fewest = problem.min_total_stages(&problem.entries).min(u64::from(stages)) as u32;
            (fewest..=stages).find_map(any)
        }
        Objective::MostHeadroom => maximize_headroom(problem),
        Objective::MostEntries => maximize_entries(problem, 1.0),
    };
    found.ok_or_else(|| full_error(problem))
}

/// Checks that the longest chain of tables fits even if all tables are small.
fn check_longest_chain(problem: &PlacementProblem) -> Result<(), PlacementError> {
    let small = vec![1; problem.entries.len()];
    let stages = u64::from(problem.target.stages);
    let (last, needs) = problem.longest_chain(&small, stages);
    let halves = problem.hops.get(last).map_or(0, |h| h.1 as u64 + 1);
    let has = stages * halves;
    if needs <= has {
        return Ok(());
    }
    Err(PlacementError::Chain { needs, has, halves, chain: problem.describe_chain(last, &small) })
}

fn maximize_headroom(problem: &PlacementProblem) -> Option<Placement> {
    let (target, stages) = (problem.target, problem.target.stages);
    let at = |share: f64, orders| {
        try_orders(problem, &problem.entries, stages, limit_memories(&target.per_stage, share), orders)
    };
    let mut best = at(1.0, MAX_ORDERS)?;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..BISECTION_STEPS {
        let middle = (low + high) / 2.0;
        match at(middle, FEW_ORDERS) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle,
        }
    }
    Some(best.into_placement(problem, 1.0))
}

/// Returns a placement with the largest scale from `min_scale` on, found by doubling and bisection.
/// A `min_scale` of 0 finds the largest scale below 1.
pub(super) fn maximize_entries(problem: &PlacementProblem, min_scale: f64) -> Option<Placement> {
    let try_scale = |scale: f64| {
        let entries = rows_at_scale(problem, scale);
        let orders = if scale == min_scale { MAX_ORDERS } else { FEW_ORDERS };
        try_orders(problem, &entries, problem.target.stages, problem.target.per_stage, orders).map(|a| (a, scale))
    };
    if !problem.program.tables.iter().any(|t| !t.keys.is_empty()) {
        return try_scale(1.0).map(|(a, s)| a.into_placement(problem, s));
    }
    let (mut best, mut high) =
        if min_scale > 0.0 { (Some(try_scale(min_scale)?), 2.0 * min_scale) } else { (None, 1.0) };
    while high > 1.0 && high < 1e6 {
        let Some(result) = try_scale(high) else { break };
        best = Some(result);
        high *= 2.0;
    }
    let mut low = best.as_ref().map_or(0.0, |(_, s)| *s);
    for _ in 0..BISECTION_STEPS {
        let middle = (low + high) / 2.0;
        match try_scale(middle) {
            Some(result) => (best, low) = (Some(result), middle),
            None => high = middle,
        }
    }
    best.map(|(a, scale)| a.into_placement(problem, scale))
}

/// Returns the error for a program that does not fit, with the nearest placement that does.
pub(super) fn full_error(problem: &PlacementProblem) -> PlacementError {
    let nearest = maximize_entries(problem, 0.0).map(Box::new);
    PlacementError::Full { binding: binding_at_scale(problem, 1.0), nearest }
}
