//! Narrowing down the best value from both sides: bounds by [`relaxed()`], placements by [`insist()`].
//!
//! Both are asked for single values: whether anything at all could be as good as that, and whether a placement is found that is. Values of which the first
//! is denied bound the objective, values of which the second is granted are reached.

use super::attempt::Attempt;
use super::bounds::Ground;
use super::insist::{follow, insist};
use super::optimum::Search;
use super::orders::{at_scale, capped};
use super::relaxed::{Asked, Relaxed, relaxed};
use super::{Objective, Path, Placement, Unplaced};
use crate::demand::Program;
use crate::target::Target;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Steps of a scale between what is reached and what could be, as a share of it.
const GRAIN: f64 = 0.002;

/// Attempts at one value.
const ROUNDS: u32 = 4000;

/// Values of an objective that are worth a distinction, the worst first; each is asked for as it is.
struct Values {
    values: Vec<f64>,
    /// The last of them is not reached yet, or nothing is better; the first one is reached.
    reached: usize,
    /// From this one on there is nothing.
    denied: usize,
}

impl Search<'_, '_> {
    /// Narrows the objective down, with most of the time that is left. True if nothing is left between value and bound.
    pub(super) fn narrow(&mut self) -> bool {
        let Some(mut values) = self.values() else { return false };
        let (start, left) = (Instant::now(), self.left());
        self.deny(&mut values, start + left / 4);
        self.reach(&mut values, start + left / 2);
        self.decide(&mut values, start + left * 3 / 4);
        self.proven()
    }

    /// The values between what is reached and what could be.
    fn values(&self) -> Option<Values> {
        let best = self.value(self.best.as_ref()?);
        let values: Vec<f64> = match self.objective {
            Objective::Fits => return None,
            Objective::FewestStages => (1..=best as u32).rev().map(f64::from).collect(),
            Objective::MostHeadroom => shares(self.ground.target, best),
            Objective::MostEntries => {
                let most = self.bound.min(best * 1e3).max(best);
                let steps = ((most / best).ln() / GRAIN.ln_1p()).ceil() as i32;
                (0..=steps).map(|step| best * (1.0 + GRAIN).powi(step)).collect()
            }
        };
        let denied = values.len();
        Some(Values { values, reached: 0, denied })
    }

    fn asked(&self, value: f64) -> Asked {
        asked(self.ground, self.objective, value)
    }

    /// Finds the first value that there cannot be, by halving.
    fn deny(&mut self, values: &mut Values, until: Instant) {
        let mut low = values.reached;
        while low + 1 < values.denied && Instant::now() < until {
            let middle = (low + values.denied) / 2;
            let value = values.values[middle];
            self.tell(&format!("whether {value:.3} can be"));
            let limit = until.saturating_duration_since(Instant::now());
            if matches!(relaxed(self.ground, &self.asked(value), limit), Relaxed::Impossible) {
                values.denied = middle;
                self.bounded(values);
            } else {
                low = middle;
            }
        }
    }

    /// The same with whole tables: what cannot be is denied, and a plan may lead to a placement.
    fn decide(&mut self, values: &mut Values, until: Instant) {
        let mut low = values.reached;
        while low + 1 < values.denied && Instant::now() < until {
            let middle = (low + values.denied) / 2;
            let value = values.values[middle];
            self.tell(&format!("whether {value:.3} can be with whole tables"));
            let asked = Asked { whole: true, ..self.asked(value) };
            let slice = until.saturating_duration_since(Instant::now()) / 4;
            match relaxed(self.ground, &asked, slice) {
                Relaxed::Impossible => {
                    values.denied = middle;
                    self.bounded(values);
                }
                Relaxed::Possible { plan } => {
                    if let Some(found) = follow(self.ground, &asked, &plan) {
                        self.found(values, middle, found);
                    }
                    low = middle;
                }
            }
        }
    }

    fn found(&mut self, values: &mut Values, at: usize, found: Attempt) {
        let scale = if self.objective == Objective::MostEntries { values.values[at] } else { 1.0 };
        self.take(found.placement(self.ground, scale));
        values.reached = values.reached.max(at);
    }

    /// The bound that follows from the first value that there cannot be.
    fn bounded(&mut self, values: &Values) {
        let Some(denied) = values.values.get(values.denied).copied() else { return };
        match self.objective {
            // Any scale from there on, and only the next better number of stages, or share.
            Objective::MostEntries => self.bound = self.bound.min(denied),
            _ => self.bound = self.bound.max(values.values[values.denied - 1]),
        }
    }

    /// Looks for placements from the best value that could be on downwards.
    fn reach(&mut self, values: &mut Values, until: Instant) {
        let mut high = values.denied;
        while values.reached + 1 < high && Instant::now() < until {
            let middle = (values.reached + high) / 2;
            let value = values.values[middle];
            self.tell(&format!("a placement for {value:.3}"));
            let slice = until.saturating_duration_since(Instant::now()) / 3;
            let (asked, end) = (self.asked(value), Instant::now() + slice.max(Duration::from_millis(50)));
            let found = match relaxed(self.ground, &asked, slice) {
                Relaxed::Impossible => None,
                Relaxed::Possible { plan } => insist(self.ground, &asked, &plan, ROUNDS, end),
            };
            match found {
                Some(found) => self.found(values, middle, found),
                None => high = middle,
            }
        }
    }

    /// Keeps a placement if it is better.
    fn take(&mut self, found: Placement) {
        let value = self.value(&found);
        let better = |best: &Placement| match self.objective {
            Objective::MostEntries => value > self.value(best),
            _ => value < self.value(best),
        };
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(found);
        }
    }
}

/// All shares of a stage's memories that blocks can be, from `most` on downwards.
fn shares(target: &Target, most: f64) -> Vec<f64> {
    let has = &target.per_stage;
    let of = |has: u32| (1..=has).map(move |n| (n, has));
    // In order of what they are, exactly: a share is a fraction of whole blocks.
    let all: BTreeSet<u64> = [has.sram, has.map_ram, has.tcam]
        .into_iter()
        .flat_map(of)
        .map(|(n, has)| (f64::from(n) / f64::from(has) * 1e12).round() as u64)
        .collect();
    let below = all.into_iter().rev().map(|share| share as f64 / 1e12).filter(|share| *share < most - 1e-9);
    std::iter::once(most).chain(below).collect()
}

/// What is asked of the chip for a value.
fn asked(ground: &Ground, objective: Objective, value: f64) -> Asked {
    let (target, entries) = (ground.target, ground.entries.clone());
    let all = Asked { stages: target.stages, caps: target.per_stage, entries, whole: false, begun: None };
    match objective {
        Objective::Fits => all,
        Objective::FewestStages => Asked { stages: value as u32, ..all },
        Objective::MostHeadroom => Asked { caps: capped(&target.per_stage, value), ..all },
        Objective::MostEntries => Asked { entries: at_scale(ground, value), ..all },
    }
}

/// Whether nothing is known against a placement whose value is as good as this one: `false` is a proof that there is none.
///
/// # Errors
/// A table that no stage can hold a part of.
pub fn possible(
    target: &Target,
    program: &Program,
    path: &Path,
    objective: Objective,
    value: f64,
) -> Result<bool, Unplaced> {
    let ground = Ground::new(target, program, path)?;
    let asked = |whole| Asked { whole, ..asked(&ground, objective, value) };
    let impossible = |whole| matches!(relaxed(&ground, &asked(whole), Duration::from_secs(2)), Relaxed::Impossible);
    Ok(!impossible(false) && !impossible(true))
}
