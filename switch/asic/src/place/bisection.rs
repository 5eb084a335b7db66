//! Bisection of the objective from both sides: bounds by [`solve_relaxation()`], placements by
//! [`retry_until()`].
//!
//! Both work on single values. The relaxation proves that no placement reaches a value, which
//! bounds the objective. The scheduler finds placements that reach a value.

use super::bounds::PlacementProblem;
use super::list_scheduler::ScheduleResult;
use super::lp_relaxation::{RelaxationLimits, RelaxationResult, solve_relaxation};
use super::optimum::OptimumSearch;
use super::orders::{limit_memories, rows_at_scale};
use super::squeaky_wheel::{follow_plan, retry_until};
use super::{Objective, PipePath, Placement, PlacementError};
use crate::demand::ResourceDemand;
use crate::target::ChipTarget;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Relative step between candidate scales.
const SCALE_STEP: f64 = 0.002;

/// Maximum number of scheduling rounds for one value.
const ROUNDS: u32 = 4000;

/// Candidate values of the objective, worst first.
struct CandidateValues {
    values: Vec<f64>,
    /// Index of the best value reached. Index 0 is reached from the start.
    reached: usize,
    /// Index of the first value proven impossible.
    denied: usize,
}

impl OptimumSearch<'_, '_> {
    /// Bisects the objective with most of the remaining time. Returns whether value and bound meet.
    pub(super) fn bisect_objective(&mut self) -> bool {
        let Some(mut values) = self.candidate_values() else { return false };
        let (start, left) = (Instant::now(), self.time_left());
        self.refute_values(&mut values, start + left / 4);
        self.reach_values(&mut values, start + left / 2);
        self.decide_unsplit(&mut values, start + left * 3 / 4);
        self.is_proven()
    }

    /// Returns the candidate values between the best placement and the bound.
    fn candidate_values(&self) -> Option<CandidateValues> {
        let best = self.objective_value(self.best.as_ref()?);
        let values: Vec<f64> = match self.objective {
            Objective::Fits => return None,
            Objective::FewestStages => (1..=best as u32).rev().map(f64::from).collect(),
            Objective::MostHeadroom => possible_utilizations(self.problem.target, best),
            Objective::MostEntries => {
                let most = self.bound.min(best * 1e3).max(best);
                let steps = ((most / best).ln() / SCALE_STEP.ln_1p()).ceil() as i32;
                (0..=steps).map(|step| best * (1.0 + SCALE_STEP).powi(step)).collect()
            }
        };
        let denied = values.len();
        Some(CandidateValues { values, reached: 0, denied })
    }

    fn limits_for(&self, value: f64) -> RelaxationLimits {
        limits_for_value(self.problem, self.objective, value)
    }

    /// Finds the first impossible value by bisection.
    fn refute_values(&mut self, values: &mut CandidateValues, until: Instant) {
        let mut low = values.reached;
        while low + 1 < values.denied && Instant::now() < until {
            let middle = (low + values.denied) / 2;
            let value = values.values[middle];
            self.report_progress(&format!("whether {value:.3} is possible"));
            let limit = until.saturating_duration_since(Instant::now());
            if matches!(solve_relaxation(self.problem, &self.limits_for(value), limit), RelaxationResult::Impossible) {
                values.denied = middle;
                self.update_bound(values);
            } else {
                low = middle;
            }
        }
    }

    /// Bisects with unsplit tables until a deadline: refutes impossible values and tries placements
    /// along feasible plans. `values` are ordered; those from `denied` on are impossible, those up
    /// to `reached` have a placement.
    fn decide_unsplit(&mut self, values: &mut CandidateValues, until: Instant) {
        let mut low = values.reached;
        while low + 1 < values.denied && Instant::now() < until {
            let middle = (low + values.denied) / 2;
            let value = values.values[middle];
            self.report_progress(&format!("whether {value:.3} is possible with unsplit tables"));
            let limits = RelaxationLimits { is_unsplit: true, ..self.limits_for(value) };
            let time_limit = until.saturating_duration_since(Instant::now()) / 4;
            match solve_relaxation(self.problem, &limits, time_limit) {
                RelaxationResult::Impossible => {
                    values.denied = middle;
                    self.update_bound(values);
                }
                RelaxationResult::Possible { plan } => {
                    if let Some(found) = follow_plan(self.problem, &limits, &plan) {
                        self.record_placement(values, middle, found);
                    }
                    low = middle;
                }
            }
        }
    }

    fn record_placement(&mut self, values: &mut CandidateValues, at: usize, found: ScheduleResult) {
        let scale = if self.objective == Objective::MostEntries { values.values[at] } else { 1.0 };
        self.keep_if_better(found.into_placement(self.problem, scale));
        values.reached = values.reached.max(at);
    }

    /// Updates the bound from the first impossible value.
    fn update_bound(&mut self, values: &CandidateValues) {
        let Some(denied) = values.values.get(values.denied).copied() else { return };
        match self.objective {
            // Scales are continuous, so the impossible value itself is the bound. Stages and shares
            // are discrete, so the next worse value is.
            Objective::MostEntries => self.bound = self.bound.min(denied),
            _ => self.bound = self.bound.max(values.values[values.denied - 1]),
        }
    }

    /// Searches for placements from the best possible value downward.
    fn reach_values(&mut self, values: &mut CandidateValues, until: Instant) {
        let mut high = values.denied;
        while values.reached + 1 < high && Instant::now() < until {
            let middle = (values.reached + high) / 2;
            let value = values.values[middle];
            self.report_progress(&format!("a placement for {value:.3}"));
            let slice = until.saturating_duration_since(Instant::now()) / 3;
            let (asked, end) = (self.limits_for(value), Instant::now() + slice.max(Duration::from_millis(50)));
            let found = match solve_relaxation(self.problem, &asked, slice) {
                RelaxationResult::Impossible => None,
                RelaxationResult::Possible { plan } => retry_until(self.problem, &asked, &plan, ROUNDS, end),
            };
            match found {
                Some(found) => self.record_placement(values, middle, found),
                None => high = middle,
            }
        }
    }

    /// Keeps a placement if it is better than the best one.
    fn keep_if_better(&mut self, found: Placement) {
        let value = self.objective_value(&found);
        let better = |best: &Placement| match self.objective {
            Objective::MostEntries => value > self.objective_value(best),
            _ => value < self.objective_value(best),
        };
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(found);
        }
    }
}

/// Returns all possible utilizations of a stage's memories, from `most` downward.
fn possible_utilizations(target: &ChipTarget, most: f64) -> Vec<f64> {
    let has = &target.per_stage;
    let of = |has: u32| (1..=has).map(move |n| (n, has));
    // Scaled to integers for exact order, because utilizations are fractions of whole blocks.
    let all: BTreeSet<u64> = [has.sram, has.map_ram, has.tcam]
        .into_iter()
        .flat_map(of)
        .map(|(n, has)| (f64::from(n) / f64::from(has) * 1e12).round() as u64)
        .collect();
    let below = all.into_iter().rev().map(|share| share as f64 / 1e12).filter(|share| *share < most - 1e-9);
    std::iter::once(most).chain(below).collect()
}

/// Returns the limits of the relaxation for an objective value.
fn limits_for_value(problem: &PlacementProblem, objective: Objective, value: f64) -> RelaxationLimits {
    let (target, entries) = (problem.target, problem.entries.clone());
    let all = RelaxationLimits {
        stages: target.stages,
        stage_limits: target.per_stage,
        entries,
        is_unsplit: false,
        partial: None,
    };
    match objective {
        Objective::Fits => all,
        Objective::FewestStages => RelaxationLimits { stages: value as u32, ..all },
        Objective::MostHeadroom => RelaxationLimits { stage_limits: limit_memories(&target.per_stage, value), ..all },
        Objective::MostEntries => RelaxationLimits { entries: rows_at_scale(problem, value), ..all },
    }
}

/// Returns whether a placement with this objective value may exist. `false` proves that none does.
///
/// # Errors
/// [`PlacementError::Table`]: no stage can hold any part of a table.
pub fn is_possible(
    target: &ChipTarget,
    program: &ResourceDemand,
    path: &PipePath,
    objective: Objective,
    value: f64,
) -> Result<bool, PlacementError> {
    let problem = PlacementProblem::new(target, program, path)?;
    let asked = |whole| RelaxationLimits { is_unsplit: whole, ..limits_for_value(&problem, objective, value) };
    let impossible = |whole| {
        matches!(solve_relaxation(&problem, &asked(whole), Duration::from_secs(2)), RelaxationResult::Impossible)
    };
    Ok(!impossible(false) && !impossible(true))
}
