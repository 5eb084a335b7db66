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
    let ground = PlacementProblem::new(target, program, path)?;
    best_heuristic(&ground, objective)
}

pub(super) fn best_heuristic(ground: &PlacementProblem, objective: Objective) -> Result<Placement, PlacementError> {
    check_longest_chain(ground)?;
    let (target, stages) = (ground.target, ground.target.stages);
    let any = |stages: u32| {
        try_orders(ground, &ground.entries, stages, target.per_stage, MAX_ORDERS).map(|a| a.into_placement(ground, 1.0))
    };
    let found = match objective {
        Objective::Fits => any(stages),
        Objective::FewestStages => {
            let fewest = ground.min_total_stages(&ground.entries).min(u64::from(stages)) as u32;
            (fewest..=stages).find_map(any)
        }
        Objective::MostHeadroom => maximize_headroom(ground),
        Objective::MostEntries => maximize_entries(ground, 1.0),
    };
    found.ok_or_else(|| full_error(ground))
}

/// Checks that the longest chain of tables fits even if all tables are small.
fn check_longest_chain(ground: &PlacementProblem) -> Result<(), PlacementError> {
    let small = vec![1; ground.entries.len()];
    let stages = u64::from(ground.target.stages);
    let (last, needs) = ground.longest_chain(&small, stages);
    let halves = ground.hops.get(last).map_or(0, |h| h.1 as u64 + 1);
    let has = stages * halves;
    if needs <= has {
        return Ok(());
    }
    Err(PlacementError::Chain { needs, has, halves, chain: ground.describe_chain(last, &small) })
}

fn maximize_headroom(ground: &PlacementProblem) -> Option<Placement> {
    let (target, stages) = (ground.target, ground.target.stages);
    let at = |share: f64, orders| {
        try_orders(ground, &ground.entries, stages, limit_memories(&target.per_stage, share), orders)
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
    Some(best.into_placement(ground, 1.0))
}

/// Returns a placement with the largest scale from `least` on, found by doubling and bisection. A
/// `least` of 0 finds the largest scale below 1.
pub(super) fn maximize_entries(ground: &PlacementProblem, least: f64) -> Option<Placement> {
    let at = |scale: f64| {
        let entries = rows_at_scale(ground, scale);
        let orders = if scale == least { MAX_ORDERS } else { FEW_ORDERS };
        try_orders(ground, &entries, ground.target.stages, ground.target.per_stage, orders).map(|a| (a, scale))
    };
    if !ground.program.tables.iter().any(|t| !t.keys.is_empty()) {
        return at(1.0).map(|(a, s)| a.into_placement(ground, s));
    }
    let (mut best, mut high) = if least > 0.0 { (Some(at(least)?), 2.0 * least) } else { (None, 1.0) };
    while high > 1.0 && high < 1e6 {
        let Some(found) = at(high) else { break };
        best = Some(found);
        high *= 2.0;
    }
    let mut low = best.as_ref().map_or(0.0, |(_, s)| *s);
    for _ in 0..BISECTION_STEPS {
        let middle = (low + high) / 2.0;
        match at(middle) {
            Some(found) => (best, low) = (Some(found), middle),
            None => high = middle,
        }
    }
    best.map(|(a, scale)| a.into_placement(ground, scale))
}

/// Returns the error for a program that does not fit, with the nearest placement that does.
pub(super) fn full_error(ground: &PlacementProblem) -> PlacementError {
    let nearest = maximize_entries(ground, 0.0).map(Box::new);
    PlacementError::Full { binding: binding_at_scale(ground, 1.0), nearest }
}
