//! Planner: compresses, folds and places a program until it fits, and reports each step.

use super::report::{PlanReport, PlanStep};
use super::step::{PlacementAttempt, performance, table_rows};
use super::steps::{Compression, split_concatenated_keys};
use asic::demand::{DemandError, ResourceDemand};
use asic::emit::{self, EmitError, GressUse};
use asic::place::{
    FoldError, Objective, PipePath, PlacementError, SearchProgress, SolvedPlacement, find_binding, optimum,
};
use asic::target::ChipTarget;
use asic::transform::{TableSizes, TransformError, TransformedPipeline};
use ir::Pipeline;
use std::sync::Arc;
use std::time::Duration;

/// Number of pipes that are folded into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeFolding {
    /// The smallest number with which the program fits.
    Auto,
    /// A fixed number; 1: no folding.
    Pipes(u32),
}

/// Request for a plan.
#[derive(Clone, Debug)]
pub struct PlanRequest {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Entries of tables by control-plane name. Other tables have the program's `size`.
    pub sizes: TableSizes,
    /// Elements of counters, meters and registers by control-plane name. Others have the program's
    /// size.
    pub objects: TableSizes,
    /// The chip.
    pub target: ChipTarget,
    /// Number of pipes that are folded into one.
    pub fold: PipeFolding,
    /// Number of parts that the entries of `divided` tables are split into, each in separate pipes;
    /// 1: no split.
    pub split: u32,
    /// Control-plane names of the tables with split entries.
    pub divided: Vec<String>,
    /// Objective of the placement.
    pub objective: Objective,
    /// Time limit of the search for the best placement. Zero: use the heuristic's placement.
    pub limit: Duration,
    /// Architecture and gresses of the emitted program that is placed. `None`: place the pipeline
    /// as it is.
    pub emitted: Option<(emit::EmitTarget, GressUse)>,
}

impl PlanRequest {
    /// Returns the program before compression, with the entries that one pipe holds if those of
    /// `divided` tables are split into `parts`.
    pub fn initial_pipeline(&self, sizes: &TableSizes, parts: u32) -> TransformedPipeline {
        let parts = u64::from(parts.max(1));
        let share = |name: &String, count: u64| if self.divided.contains(name) { count.div_ceil(parts) } else { count };
        let mut held: TableSizes = sizes.iter().map(|(name, count)| (name.clone(), share(name, *count))).collect();
        held.extend(self.objects.clone());
        TransformedPipeline::unchanged(self.pipeline.clone(), held)
    }

    /// Returns the demand of a program on the chip.
    ///
    /// # Errors
    /// [`PlanError`]: the demand is unknown, or the program cannot be emitted.
    pub fn resource_demand(&self, rewritten: &TransformedPipeline) -> Result<ResourceDemand, PlanError> {
        let TransformedPipeline { pipeline, sizes, .. } = rewritten;
        let Some((target, halves)) = self.emitted else { return Ok(ResourceDemand::from_pipeline(pipeline, sizes)?) };
        let written = split_concatenated_keys(TransformedPipeline::unchanged(pipeline.clone(), sizes.clone()))
            .map_err(|error| PlanError::Rewrite { step: "as emitted".to_owned(), error })?;
        Ok(ResourceDemand::from_pipeline(
            &emit::pipeline_for_planning(&written.pipeline, target, sizes, halves)?,
            sizes,
        )?)
    }
}

/// Reason for which there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The demand of the program is unknown.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// The program cannot be emitted for the chip.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// A requested transformation is not possible.
    #[error("{step}: {error}")]
    Rewrite {
        /// Name of the step.
        step: String,
        /// Reason.
        error: TransformError,
    },
    /// The chip's pipes cannot be folded in this number.
    #[error(transparent)]
    Fold(#[from] FoldError),
}

/// Progress of planning.
pub enum PlanProgress<'a> {
    /// A step starts.
    Step(&'a str),
    /// Progress of the search.
    Search(&'a SearchProgress),
}

/// Plan with the data that it is based on.
pub struct ProgramPlan {
    /// Report of the plan.
    pub report: PlanReport,
    /// The placed program, with the map of writes.
    pub rewritten: TransformedPipeline,
    /// Demand, pipe path, and placement if there is one.
    pub last: PlacementAttempt,
    /// Result of the search, if requested.
    pub solved: Option<SolvedPlacement>,
}

/// Makes a plan with the given compressions, in order.
///
/// # Errors
/// [`PlanError`]. A program that does not fit is a result, not an error.
pub fn make_plan(
    question: &PlanRequest,
    compressions: &[Compression],
    report_progress: &mut dyn FnMut(PlanProgress<'_>),
) -> Result<ProgramPlan, PlanError> {
    let target = &question.target;
    let first_path = match question.fold {
        PipeFolding::Pipes(pipes) => PipePath::folded(target, pipes)?,
        PipeFolding::Auto => PipePath::unfolded(),
    };
    let mut steps: Vec<PlanStep> = Vec::new();
    let mut rewritten = question.initial_pipeline(&question.sizes, 1);
    report_progress(PlanProgress::Step("as written"));
    let try_placement = |rewritten: &TransformedPipeline, path: &PipePath| -> Result<PlacementAttempt, PlanError> {
        let program = question.resource_demand(rewritten)?;
        Ok(PlacementAttempt::new(target, program, path.clone(), Objective::Fits))
    };
    let mut last_attempt = try_placement(&rewritten, &first_path)?;
    steps.push(last_attempt.report_step(
        target,
        "as written",
        "the program's tables with the entries that were asked for",
    ));
    if question.split > 1 {
        rewritten = question.initial_pipeline(&question.sizes, question.split);
        last_attempt = try_placement(&rewritten, &first_path)?;
        let explanation = format!("parallel pipes hold different entries of {} tables", question.divided.len());
        steps.push(last_attempt.report_step(target, &format!("entries split in {}", question.split), &explanation));
    }
    for compression in compressions {
        report_progress(PlanProgress::Step(&compression.name));
        let failed = |error| PlanError::Rewrite { step: compression.name.clone(), error };
        rewritten = rewritten.then(&compression.rewrite).map_err(failed)?;
        last_attempt = try_placement(&rewritten, &first_path)?;
        steps.push(last_attempt.report_step(target, &compression.name, &compression.what));
    }
    if question.fold == PipeFolding::Auto {
        for pipes in [2, 4].into_iter().filter(|pipes| target.pipes.is_multiple_of(*pipes)) {
            if last_attempt.placed.is_ok() {
                break;
            }
            let name = format!("folding {pipes} pipes");
            report_progress(PlanProgress::Step(&name));
            last_attempt = try_placement(&rewritten, &PipePath::folded(target, pipes)?)?;
            let explanation = format!("{pipes} pipes in sequence, with different tables: 1/{pipes} of the throughput");
            steps.push(last_attempt.report_step(target, &name, &explanation));
        }
    }
    let solved = search_optimum(question, &mut last_attempt, report_progress);
    if let (Some(_), Some(step)) = (&solved, steps.last_mut()) {
        step.heat =
            last_attempt.best_placement().map(|placement| super::step::heat_map(target, placement)).unwrap_or_default();
        step.placed = last_attempt.placed.is_ok();
    }
    let report = PlanReport {
        program: question.pipeline.name.clone(),
        target: target.name.clone(),
        fits: last_attempt.placed.is_ok(),
        verdict: verdict_sentence(target, &last_attempt, solved.as_ref()),
        steps,
        tables: table_rows(&last_attempt),
        performance: performance(target, &last_attempt),
        clusters: None,
        sweeps: Vec::new(),
    };
    Ok(ProgramPlan { report, rewritten, last: last_attempt, solved })
}

/// Improves the heuristic's placement within the time limit. `None` if there is no time or no
/// placement; the attempt then keeps the better explanation.
fn search_optimum(
    question: &PlanRequest,
    attempt: &mut PlacementAttempt,
    watch: &mut dyn FnMut(PlanProgress<'_>),
) -> Option<SolvedPlacement> {
    if question.limit.is_zero() {
        return None;
    }
    watch(PlanProgress::Step("searching for the best placement"));
    let mut progress = |progress: &SearchProgress| watch(PlanProgress::Search(progress));
    let PlacementAttempt { program, path, .. } = &*attempt;
    match optimum(&question.target, program, path, question.objective, question.limit, &mut progress) {
        Ok(solved) => {
            attempt.placed = Ok(solved.placement.clone());
            Some(solved)
        }
        Err(error) => {
            if attempt.placed.is_err() {
                attempt.placed = Err(error);
            }
            None
        }
    }
}

/// Returns a sentence on how the program fits, or why it does not.
fn verdict_sentence(target: &ChipTarget, last: &PlacementAttempt, solved: Option<&SolvedPlacement>) -> String {
    let placement = match &last.placed {
        Ok(placement) => placement,
        Err(why @ PlacementError::Full { .. }) => return format!("does not fit: {why}"),
        Err(why) => return format!("cannot fit: {why}"),
    };
    let pipes = match placement.path.pipe_count() {
        1 => "each pipe alike".to_owned(),
        n => format!("{n} pipes folded"),
    };
    let best = match solved {
        Some(solved) if solved.gap <= 1e-9 => ", the optimum".to_owned(),
        Some(solved) => format!(", within {:.1} % of what could be best", 100.0 * solved.gap),
        None => String::new(),
    };
    let used = placement.stages_used();
    let binds = find_binding(target, &last.program, placement);
    format!("fits in {used} of {} stages, {pipes}{best}; {}", target.stages, binds.sentence)
}
