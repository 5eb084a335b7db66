//! Orders of urgency: attempts at a placement, each with another table first.

use super::attempt::{Attempt, Settings, attempt};
use super::bounds::Ground;
use super::rows;
use crate::target::Usage;

/// Orders of urgency that are tried where the first ones do not do; they count down with the program's size.
pub(super) const ORDERS: usize = 24;

/// Orders that are tried for each step of a search.
pub(super) const FEW: usize = 4;

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

/// Entries of all tables at a scale.
pub(super) fn at_scale(ground: &Ground, scale: f64) -> Vec<u64> {
    ground.program.tables.iter().map(|t| rows(t, scale)).collect()
}
