//! List scheduling again and again, along what a linear program would do, where whoever found no place is served sooner the next time. (Joslin and
//! Clements, "Squeaky wheel optimization", JAIR 10, 1999.)

use super::attempt::{Attempt, Settings, attempt, attempt_along};
use super::bounds::Ground;
use super::orders::{next, urgency};
use super::relaxed::{Asked, Begun, Relaxed, relaxed};
use std::time::Instant;

/// Rounds without an improvement after which the orders are shuffled.
const PATIENCE: u32 = 12;

/// With what grain a round follows the linear program, or that it does not.
const WAYS: [Option<u64>; 5] = [Some(16), Some(6), None, Some(32), Some(0)];

/// An attempt that fits, if there is one among so many or until then.
pub(super) fn insist(
    ground: &Ground,
    asked: &Asked,
    plan: &[Vec<u64>],
    rounds: u32,
    until: Instant,
) -> Option<Attempt> {
    let half = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
    follow(ground, asked, plan)
        .or_else(|| squeak(ground, asked, plan, rounds, half))
        .or_else(|| DIVES.iter().find_map(|(every, grain)| dive(ground, asked, *every, *grain, until)))
}

/// Serves those sooner the next time that found no place.
fn squeak(ground: &Ground, asked: &Asked, plan: &[Vec<u64>], rounds: u32, until: Instant) -> Option<Attempt> {
    let Asked { stages, caps, entries, .. } = asked.clone();
    let count = entries.len();
    let first = urgency(ground, &entries, 0);
    let mut settings = Settings {
        stages,
        caps,
        entries,
        urgency: first.clone(),
        diagnose: false,
        shares: None,
        grain: 0,
        whole: false,
    };
    let (mut best, mut since, mut random) = (f64::INFINITY, 0, 1u64);
    for round in 0..rounds {
        let way = WAYS[(round as usize / 2) % WAYS.len()];
        settings.shares = way.map(|_| plan.to_vec());
        settings.grain = way.unwrap_or(0);
        if Instant::now() >= until {
            return None;
        }
        let made = attempt(ground, &settings);
        if made.fits() {
            return Some(made);
        }
        let missing = missing(ground, &settings.entries, &made);
        (best, since) = if missing < best { (missing, 0) } else { (best, since + 1) };
        if since > PATIENCE {
            let spread = 0.5 + 4.0 * next(&mut random);
            settings.urgency = first.iter().map(|urgency| urgency + spread * next(&mut random)).collect();
            (best, since) = (f64::INFINITY, 0);
            continue;
        }
        for (n, left) in &made.left {
            // Who only waited for one that found no place is not to blame.
            if ground.before[*n].iter().any(|(before, _)| made.left.iter().any(|(other, _)| other == before)) {
                continue;
            }
            let share = *left as f64 / settings.entries[*n].max(1) as f64;
            settings.urgency[*n] += 1.0 + 2.0 * share * next(&mut random);
        }
        // Those that it waits for are as urgent as it is, and more.
        for n in (0..count).rev() {
            let behind =
                ground.behind[n].iter().map(|(after, distance)| settings.urgency[*after] + f64::from(*distance));
            settings.urgency[n] = behind.fold(settings.urgency[n], f64::max);
        }
    }
    None
}

/// An attempt along a plan, with some grains and orders.
pub(super) fn follow(ground: &Ground, asked: &Asked, plan: &[Vec<u64>]) -> Option<Attempt> {
    let Asked { stages, caps, entries, .. } = asked.clone();
    let begins = |n: usize| plan[n].iter().position(|share| *share > 0).unwrap_or(0) as f64;
    let tails = urgency(ground, &entries, 0);
    let planned: Vec<f64> = (0..entries.len()).map(|n| tails[n] - 2.0 * begins(n)).collect();
    let mut settings =
        Settings { stages, caps, entries, urgency: tails, diagnose: false, shares: None, grain: 0, whole: false };
    settings.shares = Some(plan.to_vec());
    for urgency in [settings.urgency.clone(), planned] {
        settings.urgency = urgency;
        for grain in [0, 32, 16, 8, 4] {
            settings.grain = grain;
            let made = attempt(ground, &settings);
            if made.fits() {
                return Some(made);
            }
        }
    }
    None
}

/// Positions after which the linear program is asked again, and the grain between.
const DIVES: [(usize, u64); 6] = [(6, 16), (3, 16), (6, 6), (2, 32), (4, 4), (1, 16)];

/// An attempt along a linear program that is asked again and again for what is left to be placed.
fn dive(ground: &Ground, asked: &Asked, every: usize, grain: u64, until: Instant) -> Option<Attempt> {
    let Asked { stages, caps, entries, .. } = asked.clone();
    let urgency = urgency(ground, &entries, 0);
    let settings = Settings { stages, caps, entries, urgency, diagnose: false, shares: None, grain, whole: false };
    let made = attempt_along(ground, &settings, every, &mut |midway| {
        let begun = Begun { at: midway.at, ends: midway.ends.clone(), free: midway.free.to_vec() };
        let rest = Asked { entries: midway.left.to_vec(), whole: false, begun: Some(begun), ..asked.clone() };
        match relaxed(ground, &rest, until.saturating_duration_since(Instant::now())) {
            Relaxed::Possible { plan } if Instant::now() < until => Some(plan),
            _ => None,
        }
    });
    made.filter(Attempt::fits)
}

/// How much found no place: stages' worth of entries, and a little for each table.
fn missing(ground: &Ground, entries: &[u64], made: &Attempt) -> f64 {
    let one = |(n, left): &(usize, u64)| {
        let share = *left as f64 / entries[*n].max(1) as f64;
        share * ground.length(*n, entries[*n]) as f64 + 0.01
    };
    made.left.iter().map(one).sum()
}
