//! A good placement in a fraction of a second: list scheduling with some orders of urgency, and a search over what the objective bounds.

use super::binding::lacking;
use super::bounds::Ground;
use super::orders::{FEW, ORDERS, at_scale, capped, tries};
use super::{Objective, Path, Placement, Unplaced};
use crate::demand::Program;
use crate::target::Target;

/// Steps of a search for the best factor; each halves what is open.
const HALVINGS: u32 = 12;

/// The best of a few placements, or why there is none.
///
/// # Errors
/// [`Unplaced`]: what binds, and the nearest thing that fits.
pub fn heuristic(target: &Target, program: &Program, path: &Path, objective: Objective) -> Result<Placement, Unplaced> {
    let ground = Ground::new(target, program, path)?;
    best(&ground, objective)
}

pub(super) fn best(ground: &Ground, objective: Objective) -> Result<Placement, Unplaced> {
    possible(ground)?;
    let (target, stages) = (ground.target, ground.target.stages);
    let any = |stages: u32| {
        tries(ground, &ground.entries, stages, target.per_stage, ORDERS).map(|a| a.placement(ground, 1.0))
    };
    let found = match objective {
        Objective::Fits => any(stages),
        Objective::FewestStages => {
            let fewest = ground.fewest(&ground.entries).min(u64::from(stages)) as u32;
            (fewest..=stages).find_map(any)
        }
        Objective::MostHeadroom => headroom(ground),
        Objective::MostEntries => entries(ground, 1.0),
    };
    found.ok_or_else(|| full(ground))
}

/// Whether the longest chain of tables is short enough, were all tables small.
fn possible(ground: &Ground) -> Result<(), Unplaced> {
    let small = vec![1; ground.entries.len()];
    let stages = u64::from(ground.target.stages);
    let (last, needs) = ground.chain(&small, stages);
    let halves = ground.hops.get(last).map_or(0, |h| h.1 as u64 + 1);
    let has = stages * halves;
    if needs <= has {
        return Ok(());
    }
    Err(Unplaced::Chain { needs, has, halves, chain: ground.described(last, &small) })
}

fn headroom(ground: &Ground) -> Option<Placement> {
    let (target, stages) = (ground.target, ground.target.stages);
    let at = |share: f64, orders| tries(ground, &ground.entries, stages, capped(&target.per_stage, share), orders);
    let mut best = at(1.0, ORDERS)?;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match at(middle, FEW) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle,
        }
    }
    Some(best.placement(ground, 1.0))
}

/// The largest scale from `least` on, found by doubling and halving; below 1, a `least` of 0 asks for what comes nearest.
pub(super) fn entries(ground: &Ground, least: f64) -> Option<Placement> {
    let at = |scale: f64| {
        let entries = at_scale(ground, scale);
        let orders = if scale == least { ORDERS } else { FEW };
        tries(ground, &entries, ground.target.stages, ground.target.per_stage, orders).map(|a| (a, scale))
    };
    if !ground.program.tables.iter().any(|t| !t.keys.is_empty()) {
        return at(1.0).map(|(a, s)| a.placement(ground, s));
    }
    let (mut best, mut high) = if least > 0.0 { (Some(at(least)?), 2.0 * least) } else { (None, 1.0) };
    while high > 1.0 && high < 1e6 {
        let Some(found) = at(high) else { break };
        best = Some(found);
        high *= 2.0;
    }
    let mut low = best.as_ref().map_or(0.0, |(_, s)| *s);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match at(middle) {
            Some(found) => (best, low) = (Some(found), middle),
            None => high = middle,
        }
    }
    best.map(|(a, scale)| a.placement(ground, scale))
}

/// Why nothing fits, and what comes nearest.
pub(super) fn full(ground: &Ground) -> Unplaced {
    let nearest = entries(ground, 0.0).map(Box::new);
    Unplaced::Full { binding: lacking(ground, 1.0), nearest }
}
