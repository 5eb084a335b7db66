//! Optimal placement, or the best one found with a bound on any other.

use super::bounds::PlacementProblem;
use super::heuristic::{best_heuristic, full_error};
use super::list_scheduler::{ScheduleSettings, schedule_tables};
use super::model::{ModelGoal, PlacementModel};
use super::orders::{limit_memories, rows_at_scale, urgency_order};
use super::solve::{SolveResult, solve_with_limit};
use super::{Objective, PipePath, Placement, PlacementError};
use crate::demand::{MemoryMatchKind, ResourceDemand};
use crate::target::ChipTarget;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Progress of the search.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchProgress {
    /// Time since the search began.
    pub elapsed: Duration,
    /// Time limit.
    pub limit: Duration,
    /// Value of the current best placement: stages, share or scale, depending on the objective.
    pub best: Option<f64>,
    /// Current bound on the value of any placement.
    pub bound: f64,
    /// Description of the current step.
    pub activity: String,
}

/// The best placement found, with its bound.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SolvedPlacement {
    /// The placement.
    pub placement: Placement,
    /// Objective value: stages used, share of the fullest stage, or scale.
    pub value: f64,
    /// Bound on the value of any placement.
    pub bound: f64,
    /// Relative distance of value and bound. 0 for an optimum.
    pub gap: f64,
    /// Whether the search ended at its time limit.
    pub out_of_time: bool,
}

/// Searches for the best placement within `limit`, starting with the one of [`super::heuristic()`].
///
/// # Errors
/// [`PlacementError`]: no placement exists, or none was found in time.
pub fn optimum(
    target: &ChipTarget,
    program: &ResourceDemand,
    path: &PipePath,
    objective: Objective,
    limit: Duration,
    progress: &mut dyn FnMut(&SearchProgress),
) -> Result<SolvedPlacement, PlacementError> {
    let problem = PlacementProblem::new(target, program, path)?;
    let search =
        OptimumSearch { problem: &problem, objective, start: Instant::now(), limit, progress, bound: 0.0, best: None };
    search.run_search()
}

pub(super) struct OptimumSearch<'a, 'g> {
    pub(super) problem: &'a PlacementProblem<'g>,
    pub(super) objective: Objective,
    start: Instant,
    limit: Duration,
    progress: &'a mut dyn FnMut(&SearchProgress),
    pub(super) bound: f64,
    pub(super) best: Option<Placement>,
}

impl OptimumSearch<'_, '_> {
    /// Runs the search: a bound, a heuristic placement, bisection of the objective, and the integer
    /// program for the remaining time.
    fn run_search(mut self) -> Result<SolvedPlacement, PlacementError> {
        let problem = self.problem;
        self.bound = match self.objective {
            Objective::FewestStages => problem.min_total_stages(&problem.entries) as f64,
            Objective::MostEntries => problem.max_scale(),
            Objective::MostHeadroom => problem.min_utilization(),
            Objective::Fits => 0.0,
        };
        self.report_progress("list scheduling");
        match best_heuristic(problem, self.objective) {
            Ok(placement) => self.best = Some(placement),
            Err(unplaced @ PlacementError::Full { .. }) => {
                // The heuristic can fail although a placement exists, so the integer program
                // decides.
                self.try_stage_count(problem.target.stages, 1);
                if self.best.is_none() {
                    return Err(unplaced);
                }
            }
            Err(other) => return Err(other),
        }
        // Bounds first, then placements up to them. The integer program gets the remaining time.
        let is_done = self.is_proven() || self.bisect_objective();
        match self.objective {
            _ if is_done => {}
            Objective::Fits => {}
            Objective::FewestStages => self.minimize_stages(),
            Objective::MostHeadroom => self.minimize_utilization(),
            Objective::MostEntries => self.maximize_scale(),
        }
        self.into_solved()
    }

    pub(super) fn objective_value(&self, placement: &Placement) -> f64 {
        match self.objective {
            Objective::Fits | Objective::FewestStages => f64::from(placement.stages_used()),
            Objective::MostHeadroom => placement.max_utilization(self.problem.target),
            Objective::MostEntries => placement.scale,
        }
    }

    /// Returns whether the best placement reaches the bound.
    pub(super) fn is_proven(&self) -> bool {
        self.best.as_ref().is_some_and(|p| (self.objective_value(p) - self.bound).abs() < 1e-9)
    }

    fn into_solved(mut self) -> Result<SolvedPlacement, PlacementError> {
        let out_of_time = self.time_left().is_zero();
        // Report the bound before it is clamped to the value.
        self.report_progress("done");
        let Some(placement) = self.best.take() else { return Err(full_error(self.problem)) };
        let value = self.objective_value(&placement);
        let bound = match self.objective {
            Objective::Fits => value,
            Objective::MostEntries => self.bound.max(value),
            _ => self.bound.min(value),
        };
        let larger = value.max(bound);
        let gap = if larger > 0.0 && larger.is_finite() { (value - bound).abs() / larger } else { 1.0 };
        let gap = if gap < 1e-9 { 0.0 } else { gap };
        Ok(SolvedPlacement { placement, value, bound, gap, out_of_time })
    }

    pub(super) fn time_left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    pub(super) fn report_progress(&mut self, doing: &str) {
        let best = self.best.as_ref().map(|p| self.objective_value(p));
        let (elapsed, limit, bound) = (self.start.elapsed(), self.limit, self.bound);
        (self.progress)(&SearchProgress { elapsed, limit, best, bound, activity: doing.to_owned() });
    }

    /// Solves the integer program with a share (1/`share`) of the remaining time.
    fn solve_model(
        &mut self,
        stages: u32,
        ask: ModelGoal,
        share: u32,
        doing: &str,
    ) -> (SolveResult, Vec<Vec<Option<usize>>>) {
        self.report_progress(doing);
        if self.time_left().is_zero() {
            return (SolveResult::Unknown { bound: None }, Vec::new());
        }
        let ready = PlacementModel::build_model(self.problem, stages, ask);
        let amounts = ready.amounts.clone();
        let limit = self.time_left() / share;
        let answer = solve_with_limit(ready.problem, limit, &mut || self.report_progress(doing));
        (answer, amounts)
    }

    /// Returns whether a number of stages suffices. `None` if undecided.
    fn try_stage_count(&mut self, stages: u32, share: u32) -> Option<bool> {
        let (answer, amounts) = self.solve_model(stages, ModelGoal::Any, share, &format!("{stages} stages"));
        match answer {
            SolveResult::Impossible => Some(false),
            SolveResult::Unknown { .. } => None,
            SolveResult::Found { columns, .. } => {
                let found = self.realize_solution(stages, &columns, &amounts, 1.0, 1.0)?;
                self.best = Some(found);
                Some(true)
            }
        }
    }

    /// Tries increasing numbers of stages from the bound, until one suffices.
    fn minimize_stages(&mut self) {
        let Some(most) = self.best.as_ref().map(Placement::stages_used) else { return };
        for stages in (self.bound as u32).max(1)..most {
            // A number that is undecided in time leaves time for larger ones, which are easier. If
            // a number does not suffice, no smaller one does.
            match self.try_stage_count(stages, if stages + 1 == most { 1 } else { 2 }) {
                Some(false) => self.bound = f64::from(stages + 1),
                Some(true) => break,
                None => {}
            }
        }
    }

    fn minimize_utilization(&mut self) {
        let stages = self.problem.target.stages;
        let (answer, amounts) = self.solve_model(stages, ModelGoal::Share, 1, "the least share of each stage");
        if let SolveResult::Found { bound, .. } | SolveResult::Unknown { bound: Some(bound) } = &answer {
            self.bound = bound.max(self.bound);
        }
        let SolveResult::Found { columns, .. } = answer else { return };
        // The program rounds blocks down, but a placement needs whole blocks, so slightly larger
        // shares are tried.
        let Some(share) = columns.first().copied() else { return };
        for more in [0.0, 0.01, 0.02, 0.04, 0.08] {
            let Some(found) = self.realize_solution(stages, &columns, &amounts, 1.0, share + more) else { continue };
            if self.best.as_ref().is_none_or(|b| self.objective_value(&found) < self.objective_value(b)) {
                self.best = Some(found);
            }
            return;
        }
    }

    /// Maximizes the scale by the integer program. The heuristic then tries its solution at eight
    /// scales from the largest down, because rounding can make it infeasible.
    fn maximize_scale(&mut self) {
        let stages = self.problem.target.stages;
        let current_scale = self.best.as_ref().map_or(1.0, |p| p.scale);
        let (answer, amounts) = self.solve_model(stages, ModelGoal::Scale(current_scale), 1, "the largest scale");
        if let SolveResult::Found { bound, .. } | SolveResult::Unknown { bound: Some(bound) } = &answer {
            self.bound = bound.min(self.bound);
        }
        if answer == SolveResult::Impossible {
            self.bound = current_scale;
        }
        let SolveResult::Found { columns, .. } = answer else { return };
        let Some(max_scale) = columns.first().copied() else { return };
        for step in 0..8 {
            let scale = max_scale - (max_scale - current_scale) * f64::from(step) / 8.0;
            if let Some(found) = self.realize_solution(stages, &columns, &amounts, scale, 1.0) {
                self.best = Some(found);
                return;
            }
        }
    }

    /// Turns a solution into a placement at a scale: with its amounts, or else only in its order.
    /// `columns` has the solution's values, `amounts` the column of each table at each position; a
    /// share below 1 limits the memories of each stage. `None` if neither order fits.
    fn realize_solution(
        &self,
        stages: u32,
        columns: &[f64],
        amounts: &[Vec<Option<usize>>],
        scale: f64,
        share: f64,
    ) -> Option<Placement> {
        let problem = self.problem;
        let entries = rows_at_scale(problem, scale);
        let value =
            |n: usize, position: usize| amounts[n][position].and_then(|c| columns.get(c)).copied().unwrap_or(0.0);
        let positions = problem.path.hops.len() * stages as usize;
        let shares: Vec<Vec<u64>> = (0..entries.len())
            .map(|n| {
                let has_no_key = problem.program.tables[n].kind == MemoryMatchKind::None;
                let entries_at = |amount: f64| {
                    if has_no_key { entries[n] } else { (amount * problem.entries[n] as f64).ceil() as u64 }
                };
                (0..positions)
                    .map(|position| value(n, position))
                    .map(|a| if a > 1e-6 { entries_at(a) } else { 0 })
                    .collect()
            })
            .collect();
        let urgency = urgency_order(problem, &entries, 0);
        let first_position = |n: usize| shares[n].iter().position(|s| *s > 0).unwrap_or(positions) as f64;
        let urgency_by_position: Vec<f64> = (0..entries.len()).map(|n| urgency[n] / 1e4 - first_position(n)).collect();
        let limits =
            if share < 1.0 { limit_memories(&problem.target.per_stage, share) } else { problem.target.per_stage };
        let mut settings = ScheduleSettings {
            stages,
            stage_limits: limits,
            entries,
            urgency: urgency_by_position,
            diagnose: false,
            planned_entries: Some(shares),
            min_part_divisor: 0,
            unsplit_tables: false,
        };
        let planned = schedule_tables(problem, &settings);
        if planned.is_complete() {
            return Some(planned.into_placement(problem, scale));
        }
        settings.planned_entries = None;
        Some(schedule_tables(problem, &settings)).filter(|a| a.is_complete()).map(|a| a.into_placement(problem, scale))
    }
}
