//! A good placement in a fraction of a second: list scheduling with some orders of urgency, and a search over what the objective bounds.

use super::attempt::{Attempt, Settings, attempt};
use super::binding::lacking;
use super::bounds::Ground;
use super::{Objective, Path, Placement, Unplaced, rows};
use crate::demand::Program;
use crate::target::{Target, Usage};

/// Orders of urgency that are tried where the first ones do not do; they count down with the program's size.
const ORDERS: usize = 24;

/// Orders that are tried for each step of a search.
pub(super) const FEW: usize = 4;

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

/// The first attempt that fits, of so many orders of urgency at most.
pub(super) fn tries(ground: &Ground, entries: &[u64], stages: u32, caps: Usage, orders: usize) -> Option<Attempt> {
    if ground.fewest(entries) > u64::from(stages) || ground.volume(entries, &caps) > u64::from(stages) {
        return None;
    }
    let most = (ORDERS * 100 / entries.len().max(100)).max(3);
    let by_key = ground.program.tables.iter().any(|table| table.is_by_key());
    let with = |order, whole| {
        let urgency = urgency(ground, entries, order);
        let entries = entries.to_vec();
        let settings = Settings { stages, caps, entries, urgency, diagnose: false, shares: None, grain: 0, whole };
        Some(attempt(ground, &settings)).filter(Attempt::fits)
    };
    (0..orders.min(most)).find_map(|order| with(order, by_key).or_else(|| by_key.then(|| with(order, false))?))
}

/// An order of urgency: by what hangs on a table; by that, counting each table as one stage; by its size; and mixtures, which are the same
/// ones each time.
pub(super) fn urgency(ground: &Ground, entries: &[u64], order: usize) -> Vec<f64> {
    let count = entries.len();
    let tails = |entries: &[u64]| ground.tails(entries).into_iter().map(|t| t as f64).collect::<Vec<f64>>();
    let lengths: Vec<f64> = (0..count).map(|n| ground.length(n, entries[n]) as f64).collect();
    let full = tails(entries);
    match order {
        0 => (0..count).map(|n| full[n] + lengths[n] / 1e6).collect(),
        1 => tails(&vec![1; count]).iter().zip(&lengths).map(|(t, l)| t + l / 1e6).collect(),
        2 => lengths.iter().zip(&full).map(|(l, t)| l + t / 1e6).collect(),
        _ => {
            let mut random = order as u64;
            let spread = 0.5 + (order % 4) as f64;
            full.iter().zip(&lengths).map(|(t, l)| t + l / 1e6 + spread * next(&mut random)).collect()
        }
    }
}

/// SplitMix64, as a number from 0 to 1.
pub(super) fn next(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A stage with no more than a share of its memories.
pub(super) fn capped(has: &Usage, share: f64) -> Usage {
    let part = |n: u32| (f64::from(n) * share + 1e-9).floor() as u32;
    Usage { sram: part(has.sram), map_ram: part(has.map_ram), tcam: part(has.tcam), ..*has }
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

/// Entries of all tables at a scale.
pub(super) fn at_scale(ground: &Ground, scale: f64) -> Vec<u64> {
    ground.program.tables.iter().map(|t| rows(t, scale)).collect()
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
