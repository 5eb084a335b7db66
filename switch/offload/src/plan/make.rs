//! Makes a plan: compresses, folds and places until the program fits, and tells each step.

use super::report::{Report, Step};
use super::step::{Attempt, performance, tables};
use super::steps::{Compression, for_a_chip};
use asic::demand::{DemandError, Program};
use asic::emit::{self, EmitError, Halves};
use asic::place::{FoldError, Objective, Path, Progress, Solved, Unplaced, binding, optimum};
use asic::rewrite::{RewriteError, Rewritten, Sizes};
use asic::target::Target;
use ir::Pipeline;
use std::sync::Arc;
use std::time::Duration;

/// How many pipes are folded into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// As few as it takes.
    Auto,
    /// So many; 1 is none.
    Pipes(u32),
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Entries of its tables, by control-plane name; others have the program's `size`.
    pub sizes: Sizes,
    /// Elements of counters, meters and registers, by control-plane name; others have what the program says.
    pub objects: Sizes,
    /// The chip.
    pub target: Target,
    /// How many pipes are folded into one.
    pub fold: Fold,
    /// Parts that the entries of `divided` tables are split into, each in pipes of its own; 1 is none.
    pub split: u32,
    /// Tables (control-plane names) whose entries are split.
    pub divided: Vec<String>,
    /// What makes one placement better than another.
    pub objective: Objective,
    /// Time for the search of the best placement; zero: the fast heuristic's is taken.
    pub limit: Duration,
    /// What is placed is the program as it is written for this architecture, over these halves of a pipe; none: as it is.
    pub emitted: Option<(emit::Target, Halves)>,
}

impl Question {
    /// The program before any compression, with what one pipe holds of so many entries if those of `divided` tables are split into `parts`.
    pub fn start(&self, sizes: &Sizes, parts: u32) -> Rewritten {
        let parts = u64::from(parts.max(1));
        let share = |name: &String, count: u64| if self.divided.contains(name) { count.div_ceil(parts) } else { count };
        let mut held: Sizes = sizes.iter().map(|(name, count)| (name.clone(), share(name, *count))).collect();
        held.extend(self.objects.clone());
        Rewritten::unchanged(self.pipeline.clone(), held)
    }

    /// What a program asks of the chip.
    ///
    /// # Errors
    /// [`PlanError`]: it has no demand, or cannot be written.
    pub fn demand(&self, rewritten: &Rewritten) -> Result<Program, PlanError> {
        let Rewritten { pipeline, sizes, .. } = rewritten;
        let Some((target, halves)) = self.emitted else { return Ok(Program::of(pipeline, sizes)?) };
        let written = for_a_chip(Rewritten::unchanged(pipeline.clone(), sizes.clone()))
            .map_err(|error| PlanError::Rewrite { step: "as emitted".to_owned(), error })?;
        Ok(Program::of(&emit::laid_out(&written.pipeline, target, sizes, halves)?, sizes)?)
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// What the program asks for cannot be told.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// The program cannot be written for the chip.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A rewrite that was asked for does not go.
    #[error("{step}: {error}")]
    Rewrite {
        /// The step.
        step: String,
        /// Why not.
        error: RewriteError,
    },
    /// The chip's pipes cannot be folded so.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// What is going on, for whoever waits.
pub enum Doing<'a> {
    /// A step begins.
    Step(&'a str),
    /// The search goes on.
    Search(&'a Progress),
}

/// A plan with what it was made of.
pub struct Plan {
    /// What it says.
    pub report: Report,
    /// The program as it is placed, with the map of writes.
    pub rewritten: Rewritten,
    /// Its demand, its way, and its placement if there is one.
    pub last: Attempt,
    /// What the search says, if it was asked.
    pub solved: Option<Solved>,
}

/// Makes a plan with these compressions, in their order.
///
/// # Errors
/// [`PlanError`]. That the program does not fit is no error but an answer.
pub fn make(
    question: &Question,
    compressions: &[Compression],
    watch: &mut dyn FnMut(Doing<'_>),
) -> Result<Plan, PlanError> {
    let target = &question.target;
    let first_path = match question.fold {
        Fold::Pipes(pipes) => Path::folded(target, pipes)?,
        Fold::Auto => Path::unfolded(),
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut rewritten = question.start(&question.sizes, 1);
    watch(Doing::Step("as written"));
    let attempt = |rewritten: &Rewritten, path: &Path| -> Result<Attempt, PlanError> {
        let program = question.demand(rewritten)?;
        Ok(Attempt::new(target, program, path.clone(), Objective::Fits))
    };
    let mut last = attempt(&rewritten, &first_path)?;
    steps.push(last.step(target, "as written", "the program's tables with the entries that were asked for"));
    if question.split > 1 {
        rewritten = question.start(&question.sizes, question.split);
        last = attempt(&rewritten, &first_path)?;
        let what = format!("parallel pipes hold different entries of {} tables", question.divided.len());
        steps.push(last.step(target, &format!("entries split in {}", question.split), &what));
    }
    for compression in compressions {
        watch(Doing::Step(&compression.name));
        let failed = |error| PlanError::Rewrite { step: compression.name.clone(), error };
        rewritten = rewritten.then(&compression.rewrite).map_err(failed)?;
        last = attempt(&rewritten, &first_path)?;
        steps.push(last.step(target, &compression.name, &compression.what));
    }
    if question.fold == Fold::Auto {
        for pipes in [2, 4].into_iter().filter(|pipes| target.pipes.is_multiple_of(*pipes)) {
            if last.placed.is_ok() {
                break;
            }
            let name = format!("folding {pipes} pipes");
            watch(Doing::Step(&name));
            last = attempt(&rewritten, &Path::folded(target, pipes)?)?;
            let what =
                format!("{pipes} pipes, one behind the other, with different tables: 1/{pipes} of the throughput");
            steps.push(last.step(target, &name, &what));
        }
    }
    let solved = search(question, &mut last, watch);
    if let (Some(_), Some(step)) = (&solved, steps.last_mut()) {
        step.heat = last.shown().map(|placement| super::step::heat(target, placement)).unwrap_or_default();
        step.placed = last.placed.is_ok();
    }
    let report = Report {
        program: question.pipeline.name.clone(),
        target: target.name.clone(),
        fits: last.placed.is_ok(),
        verdict: verdict(target, &last, solved.as_ref()),
        steps,
        tables: tables(&last),
        performance: performance(target, &last),
        clusters: None,
        sweeps: Vec::new(),
    };
    Ok(Plan { report, rewritten, last, solved })
}

/// Goes on from the heuristic's placement to the best one, if there is time for that.
fn search(question: &Question, last: &mut Attempt, watch: &mut dyn FnMut(Doing<'_>)) -> Option<Solved> {
    if question.limit.is_zero() {
        return None;
    }
    watch(Doing::Step("searching for the best placement"));
    let mut progress = |progress: &Progress| watch(Doing::Search(progress));
    let Attempt { program, path, .. } = &*last;
    match optimum(&question.target, program, path, question.objective, question.limit, &mut progress) {
        Ok(solved) => {
            last.placed = Ok(solved.placement.clone());
            Some(solved)
        }
        Err(why) => {
            if last.placed.is_err() {
                last.placed = Err(why);
            }
            None
        }
    }
}

/// How it fits, or why not, in a sentence.
fn verdict(target: &Target, last: &Attempt, solved: Option<&Solved>) -> String {
    let placement = match &last.placed {
        Ok(placement) => placement,
        Err(why @ Unplaced::Full { .. }) => return format!("does not fit: {why}"),
        Err(why) => return format!("cannot fit: {why}"),
    };
    let pipes = match placement.path.pipes() {
        1 => "each pipe alike".to_owned(),
        n => format!("{n} pipes folded"),
    };
    let best = match solved {
        Some(solved) if solved.gap <= 1e-9 => ", the best there is".to_owned(),
        Some(solved) => format!(", within {:.1} % of what could be best", 100.0 * solved.gap),
        None => String::new(),
    };
    let used = placement.stages_used();
    let binds = binding(target, &last.program, placement);
    format!("fits in {used} of {} stages, {pipes}{best}; {}", target.stages, binds.sentence)
}
