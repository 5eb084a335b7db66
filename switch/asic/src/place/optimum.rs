//! The best placement, or one with a bound of how much better any other could be.

use super::attempt::{Settings, attempt};
use super::bounds::Ground;
use super::heuristic::{best, full};
use super::model::{Ask, Model};
use super::orders::{at_scale, capped, urgency};
use super::solve::{Answer, solve};
use super::{Objective, Path, Placement, Unplaced};
use crate::demand::{Match, Program};
use crate::target::Target;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How far the search is.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// Time since the search began.
    pub elapsed: Duration,
    /// Time that it may take.
    pub limit: Duration,
    /// Value of the best placement so far: stages, share or scale, as the objective says.
    pub best: Option<f64>,
    /// What no placement is better than, so far.
    pub bound: f64,
    /// What is being tried.
    pub doing: String,
}

/// The best placement found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Solved {
    /// The placement.
    pub placement: Placement,
    /// Its value: stages used, share of the fullest stage, or scale.
    pub value: f64,
    /// What no placement is better than.
    pub bound: f64,
    /// Distance of value and bound as a share of the larger one: 0 for an optimum.
    pub gap: f64,
    /// Whether the search ended because time was over.
    pub out_of_time: bool,
}

/// The best placement that is found within `limit`, beginning with [`super::heuristic()`]'s.
///
/// # Errors
/// [`Unplaced`]: nothing fits, or nothing was found in time.
pub fn optimum(
    target: &Target,
    program: &Program,
    path: &Path,
    objective: Objective,
    limit: Duration,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Solved, Unplaced> {
    let ground = Ground::new(target, program, path)?;
    let search = Search { ground: &ground, objective, start: Instant::now(), limit, progress, bound: 0.0, best: None };
    search.run()
}

pub(super) struct Search<'a, 'g> {
    pub(super) ground: &'a Ground<'g>,
    pub(super) objective: Objective,
    start: Instant,
    limit: Duration,
    progress: &'a mut dyn FnMut(&Progress),
    pub(super) bound: f64,
    pub(super) best: Option<Placement>,
}

impl Search<'_, '_> {
    fn run(mut self) -> Result<Solved, Unplaced> {
        let ground = self.ground;
        self.bound = match self.objective {
            Objective::FewestStages => ground.fewest(&ground.entries) as f64,
            Objective::MostEntries => ground.most_scale(),
            Objective::MostHeadroom => ground.least_share(),
            Objective::Fits => 0.0,
        };
        self.tell("list scheduling");
        match best(ground, self.objective) {
            Ok(placement) => self.best = Some(placement),
            Err(unplaced @ Unplaced::Full { .. }) => {
                // Not found is not impossible: the integer program knows.
                self.any(ground.target.stages, 1);
                if self.best.is_none() {
                    return Err(unplaced);
                }
            }
            Err(other) => return Err(other),
        }
        // Bounds first, then placements up to them; what is left is for the integer program.
        let done = self.proven() || self.narrow();
        match self.objective {
            _ if done => {}
            Objective::Fits => {}
            Objective::FewestStages => self.stages(),
            Objective::MostHeadroom => self.share(),
            Objective::MostEntries => self.scale(),
        }
        self.solved()
    }

    pub(super) fn value(&self, placement: &Placement) -> f64 {
        match self.objective {
            Objective::Fits | Objective::FewestStages => f64::from(placement.stages_used()),
            Objective::MostHeadroom => placement.fullest(self.ground.target),
            Objective::MostEntries => placement.scale,
        }
    }

    /// Whether the best placement is as good as the bound already.
    pub(super) fn proven(&self) -> bool {
        self.best.as_ref().is_some_and(|p| (self.value(p) - self.bound).abs() < 1e-9)
    }

    fn solved(mut self) -> Result<Solved, Unplaced> {
        let out_of_time = self.left().is_zero();
        // The bound as it is, also where it would be better than what was found.
        self.tell("done");
        let Some(placement) = self.best.take() else { return Err(full(self.ground)) };
        let value = self.value(&placement);
        let bound = match self.objective {
            Objective::Fits => value,
            Objective::MostEntries => self.bound.max(value),
            _ => self.bound.min(value),
        };
        let larger = value.max(bound);
        let gap = if larger > 0.0 && larger.is_finite() { (value - bound).abs() / larger } else { 1.0 };
        let gap = if gap < 1e-9 { 0.0 } else { gap };
        Ok(Solved { placement, value, bound, gap, out_of_time })
    }

    pub(super) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    pub(super) fn tell(&mut self, doing: &str) {
        let best = self.best.as_ref().map(|p| self.value(p));
        let (elapsed, limit, bound) = (self.start.elapsed(), self.limit, self.bound);
        (self.progress)(&Progress { elapsed, limit, best, bound, doing: doing.to_owned() });
    }

    /// Solves, with a share of the time that is left.
    fn ask(&mut self, stages: u32, ask: Ask, share: u32, doing: &str) -> (Answer, Vec<Vec<Option<usize>>>) {
        self.tell(doing);
        if self.left().is_zero() {
            return (Answer::Nothing { bound: None }, Vec::new());
        }
        let ready = Model::ready(self.ground, stages, ask);
        let amounts = ready.amounts.clone();
        let limit = self.left() / share;
        let answer = solve(ready.problem, limit, &mut || self.tell(doing));
        (answer, amounts)
    }

    /// Whether a number of stages suffices: `None` where it is not known.
    fn any(&mut self, stages: u32, share: u32) -> Option<bool> {
        let (answer, amounts) = self.ask(stages, Ask::Any, share, &format!("{stages} stages"));
        match answer {
            Answer::Impossible => Some(false),
            Answer::Nothing { .. } => None,
            Answer::Found { columns, .. } => {
                let found = self.real(stages, &columns, &amounts, 1.0, 1.0)?;
                self.best = Some(found);
                Some(true)
            }
        }
    }

    /// Fewer stages, from the bound on, until some number suffices.
    fn stages(&mut self) {
        let Some(most) = self.best.as_ref().map(Placement::stages_used) else { return };
        for stages in (self.bound as u32).max(1)..most {
            // A number that is not decided in time leaves time for larger ones, which are easier. Where one does not suffice, no smaller
            // one does.
            match self.any(stages, if stages + 1 == most { 1 } else { 2 }) {
                Some(false) => self.bound = f64::from(stages + 1),
                Some(true) => break,
                None => {}
            }
        }
    }

    fn share(&mut self) {
        let stages = self.ground.target.stages;
        let (answer, amounts) = self.ask(stages, Ask::Share, 1, "the least share of each stage");
        if let Answer::Found { bound, .. } | Answer::Nothing { bound: Some(bound) } = &answer {
            self.bound = bound.max(self.bound);
        }
        let Answer::Found { columns, .. } = answer else { return };
        // What the program rounds down, a placement needs whole: so a little more than its share.
        let Some(share) = columns.first().copied() else { return };
        for more in [0.0, 0.01, 0.02, 0.04, 0.08] {
            let Some(found) = self.real(stages, &columns, &amounts, 1.0, share + more) else { continue };
            if self.best.as_ref().is_none_or(|b| self.value(&found) < self.value(b)) {
                self.best = Some(found);
            }
            return;
        }
    }

    fn scale(&mut self) {
        let stages = self.ground.target.stages;
        let least = self.best.as_ref().map_or(1.0, |p| p.scale);
        let (answer, amounts) = self.ask(stages, Ask::Scale(least), 1, "the largest scale");
        if let Answer::Found { bound, .. } | Answer::Nothing { bound: Some(bound) } = &answer {
            self.bound = bound.min(self.bound);
        }
        if answer == Answer::Impossible {
            self.bound = least;
        }
        let Answer::Found { columns, .. } = answer else { return };
        let Some(most) = columns.first().copied() else { return };
        for step in 0..8 {
            let scale = most - (most - least) * f64::from(step) / 8.0;
            if let Some(found) = self.real(stages, &columns, &amounts, scale, 1.0) {
                self.best = Some(found);
                return;
            }
        }
    }

    /// A placement along a solution: with its amounts, or at least in its order.
    fn real(
        &self,
        stages: u32,
        columns: &[f64],
        amounts: &[Vec<Option<usize>>],
        scale: f64,
        share: f64,
    ) -> Option<Placement> {
        let ground = self.ground;
        let entries = at_scale(ground, scale);
        let value = |n: usize, at: usize| amounts[n][at].and_then(|c| columns.get(c)).copied().unwrap_or(0.0);
        let positions = ground.path.hops.len() * stages as usize;
        let shares: Vec<Vec<u64>> = (0..entries.len())
            .map(|n| {
                let keyless = ground.program.tables[n].kind == Match::None;
                let of =
                    |amount: f64| if keyless { entries[n] } else { (amount * ground.entries[n] as f64).ceil() as u64 };
                (0..positions).map(|at| value(n, at)).map(|a| if a > 1e-6 { of(a) } else { 0 }).collect()
            })
            .collect();
        let tails = urgency(ground, &entries, 0);
        let begins = |n: usize| shares[n].iter().position(|s| *s > 0).unwrap_or(positions) as f64;
        let order: Vec<f64> = (0..entries.len()).map(|n| tails[n] / 1e4 - begins(n)).collect();
        let caps = if share < 1.0 { capped(&ground.target.per_stage, share) } else { ground.target.per_stage };
        let mut settings = Settings {
            stages,
            caps,
            entries,
            urgency: order,
            diagnose: false,
            shares: Some(shares),
            grain: 0,
            whole: false,
        };
        let along = attempt(ground, &settings);
        if along.fits() {
            return Some(along.placement(ground, scale));
        }
        settings.shares = None;
        Some(attempt(ground, &settings)).filter(|a| a.fits()).map(|a| a.placement(ground, scale))
    }
}
