//! Search for the cheapest combination of transforms.
//!
//! This module answers one question: *which transforms make the tables of this program smallest on
//! this chip?* Tables that can be pooled are searched together, all others alone. The groups are
//! independent, so the best choice of each group is the best choice overall. The search measures
//! the cost of a candidate instead of estimating it: it applies the transforms and lays out the
//! resulting tables with their action data ([`LayoutCostCache`]). [`crate::memory::estimate`]
//! breaks ties. Only partition shapes are preselected by arithmetic.
//!
//! Folding gives a table the memory of several pipes, and splitting gives a pipe a part of the
//! entries. One pipe therefore holds entries / (fold x split) of each large table. All block counts
//! are those of one pipe.

mod score;
mod step;

pub use score::{LayoutCost, LayoutCostCache, estimate_blocks, table_demand};
pub use step::TransformStep;

use crate::memory::BlockEstimate;
use crate::target::ChipTarget;
use crate::transform::partitions::{self, PartitionLimits};
use crate::transform::prefix::KeyPrefix;
use crate::transform::{TableSizes, TransformError, TransformedPipeline, alpm, digest, pool, share_results};
use ir::{MatchKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Input of the search.
#[derive(Clone, Debug)]
pub struct SearchRequest<'a> {
    /// The chip.
    pub target: &'a ChipTarget,
    /// The program.
    pub pipeline: &'a Arc<Pipeline>,
    /// Entries of each table on one chip, by control-plane name, and the number of distinct values
    /// of arguments ([`share_results::value_name`]), where known.
    pub sizes: &'a TableSizes,
    /// Prefixes that one pipe must hold, for tables with known entries ([`alpm::entry_prefix`]).
    /// The shape of their partitions is measured instead of estimated.
    pub prefixes: BTreeMap<String, Vec<KeyPrefix>>,
    /// Control-plane names of the tables to transform. Empty: all that take at least a hundredth of
    /// a pipe's blocks.
    pub tables: Vec<String>,
    /// Pipes that a packet passes one after the other.
    pub fold: u32,
    /// Parts into which entries are split. Each part has a pipe, or several pipes folded together.
    pub split: u32,
    /// Limits on accuracy and fill.
    pub limits: SearchLimits,
}

/// Limits on accuracy and fill within which the search saves blocks.
#[derive(Clone, Debug)]
pub struct SearchLimits {
    /// Maximum probability that a key without entry hits the digest of another one. 0: no digests.
    pub max_false_hit_probability: f64,
    /// Seed of digests. Choose it at random.
    pub seed: u64,
    /// Maximum share of partitions that entries fill. The remainder is for updates.
    pub max_fill: f64,
    /// Maximum number of entries in a partition, all compared in parallel.
    pub max_depth: u32,
}

impl SearchLimits {
    /// Returns the default limits: one false hit per thousand unknown keys, partitions of at most
    /// 64 entries, nine tenths full.
    pub fn new(seed: u64) -> SearchLimits {
        SearchLimits { max_false_hit_probability: 1e-3, seed, max_fill: 0.9, max_depth: 64 }
    }
}

/// Cost of one pipe before and after a step.
#[derive(Clone, Debug)]
pub struct StepCost {
    /// Description of the step.
    pub step: String,
    /// Cost of all tables before the step.
    pub before: BlockEstimate,
    /// Cost of all tables after the step.
    pub after: BlockEstimate,
}

/// Result of the search.
pub struct SearchResult {
    /// The steps with their costs, folding and splitting first.
    pub step_costs: Vec<StepCost>,
    /// The transforms among the steps. They can be applied to the program again, for other sizes.
    pub steps: Vec<TransformStep>,
    /// Number of combinations tried.
    pub candidates: usize,
    /// The transformed program, for a pipe's share of the entries.
    pub rewritten: TransformedPipeline,
}

/// Number of partition shapes to lay out, the cheapest ones by arithmetic.
const MAX_LAID_OUT_SHAPES: usize = 16;

/// Cost of a combination: blocks as the chip lays them out, then estimated blocks. A combination
/// that does not fit a chip has the maximum.
type CandidateCost = (u64, f64);

fn candidate_cost(scale: &mut LayoutCostCache, target: &ChipTarget, done: &TransformedPipeline) -> CandidateCost {
    let laid_out = scale.program_cost(&done.pipeline, &done.sizes).map_or(u64::MAX, |all| all.total_blocks());
    let estimate = estimate_blocks(target, &done.pipeline, &done.sizes);
    (laid_out, estimate.sram + estimate.tcam)
}

/// Finds the combination with the fewest SRAM and TCAM blocks together.
///
/// # Errors
/// [`TransformError`]: the request names a table that the program does not have.
pub fn find_cheapest_steps(question: &SearchRequest<'_>) -> Result<SearchResult, TransformError> {
    let (target, sizes) = (question.target, question.sizes_per_pipe());
    let mut reports = Vec::new();
    let blocks_of = |sizes: &TableSizes| estimate_blocks(target, question.pipeline, sizes);
    let (unfolded, folded, per_pipe) =
        (blocks_of(question.sizes), blocks_of(&question.divided_sizes(question.fold)), blocks_of(&sizes));
    if question.fold > 1 {
        reports.push(StepCost { step: format!("fold {} pipes", question.fold), before: unfolded, after: folded });
    }
    if question.split > 1 {
        reports.push(StepCost {
            step: format!("split entries in {}", question.split),
            before: folded,
            after: per_pipe,
        });
    }
    let names = candidate_tables(question, &sizes)?;
    let mut best = TransformedPipeline::unchanged(question.pipeline.clone(), sizes);
    let (mut steps, mut candidates, mut layout_costs) = (Vec::new(), 0, LayoutCostCache::new(target));
    for group in poolable_groups(question, &names) {
        let mut cheapest: Option<(CandidateCost, Vec<TransformStep>)> = None;
        for recipe in candidate_recipes(question, &mut layout_costs, &best, &group) {
            candidates += 1;
            // A transform that does not support the table is skipped.
            let Ok(candidate) = apply_steps(question, &steps, &recipe) else { continue };
            let cost = candidate_cost(&mut layout_costs, target, &candidate);
            if cheapest.as_ref().is_none_or(|(least, _)| cost < *least) {
                cheapest = Some((cost, recipe));
            }
        }
        for step in cheapest.map(|(_, recipe)| recipe).unwrap_or_default() {
            let before = estimate_blocks(target, &best.pipeline, &best.sizes);
            best = best.then(|pipeline, sizes| step.apply(pipeline, sizes))?;
            let after = estimate_blocks(target, &best.pipeline, &best.sizes);
            reports.push(StepCost { step: step.to_string(), before, after });
            steps.push(step);
        }
    }
    Ok(SearchResult { step_costs: reports, steps, candidates, rewritten: best })
}

/// Applies steps to the original program. It starts from the original because entry maps can hold
/// entries and are not cloned.
fn apply_steps(
    question: &SearchRequest<'_>,
    before: &[TransformStep],
    more: &[TransformStep],
) -> Result<TransformedPipeline, TransformError> {
    let start = TransformedPipeline::unchanged(question.pipeline.clone(), question.sizes_per_pipe());
    before.iter().chain(more).try_fold(start, |done, step| done.then(|pipeline, sizes| step.apply(pipeline, sizes)))
}

impl SearchRequest<'_> {
    /// Returns the sizes that one pipe holds.
    pub fn sizes_per_pipe(&self) -> TableSizes {
        self.divided_sizes(self.fold.max(1) * self.split.max(1))
    }

    fn divided_sizes(&self, parts: u32) -> TableSizes {
        let tables: BTreeSet<&str> = self.pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        // Counts of argument values are not divided, because a part of the entries can use all
        // values.
        let share = |name: &str, n: u64| if tables.contains(name) { n.div_ceil(parts.max(1).into()) } else { n };
        self.sizes.iter().map(|(name, n)| (name.clone(), share(name, *n))).collect()
    }
}

/// Returns the names of the tables to transform.
fn candidate_tables(question: &SearchRequest<'_>, sizes: &TableSizes) -> Result<Vec<String>, TransformError> {
    for name in &question.tables {
        if !question.pipeline.tables.values().any(|table| table.preamble.name == *name) {
            return Err(TransformError::new(name, "the program has no such table"));
        }
    }
    if !question.tables.is_empty() {
        return Ok(question.tables.clone());
    }
    let target = question.target;
    let least = f64::from((target.per_stage.sram + target.per_stage.tcam) * target.stages) / 100.0;
    let large = question.pipeline.tables.values().filter(|table| {
        let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
        let cost = crate::memory::estimate(target, &table_demand(question.pipeline, table, entries));
        cost.sram + cost.tcam >= least
    });
    Ok(large.map(|table| table.preamble.name.clone()).collect())
}

/// Groups tables in pairs that can be pooled; all others are alone.
fn poolable_groups(question: &SearchRequest<'_>, names: &[String]) -> Vec<Vec<String>> {
    let mut left: Vec<&String> = names.iter().collect();
    let mut out = Vec::new();
    while !left.is_empty() {
        let first = left.remove(0);
        let fits = |other: &&String| pool::pool_tables(question.pipeline, question.sizes, [first, other]).is_ok();
        match left.iter().position(fits) {
            Some(at) => out.push(vec![first.clone(), left.remove(at).clone()]),
            None => out.push(vec![first.clone()]),
        }
    }
    out
}

/// Returns the candidate step lists for a group, including the empty list.
fn candidate_recipes(
    question: &SearchRequest<'_>,
    layout_costs: &mut LayoutCostCache,
    start: &TransformedPipeline,
    group: &[String],
) -> Vec<Vec<TransformStep>> {
    let digest_step = |table: &str| {
        let options = digest::DigestOptions {
            max_false_hit_probability: question.limits.max_false_hit_probability,
            ..digest::DigestOptions::new(question.limits.seed)
        };
        TransformStep::Digest(table.to_owned(), options)
    };
    let mut alpm_step = |table: &str, entries: u64, done: &TransformedPipeline| {
        let options = cheapest_shape(question, layout_costs, done, table, entries)?;
        Some(TransformStep::Alpm(table.to_owned(), options))
    };
    let entries = |done: &TransformedPipeline, table: &str| done.sizes.get(table).copied().unwrap_or(0);
    let mut out = vec![Vec::new()];
    // Each table by itself: digests or partitions, as its keys allow.
    for table in group {
        let steps: Vec<TransformStep> =
            [Some(digest_step(table)), alpm_step(table, entries(start, table), start)].into_iter().flatten().collect();
        let longer: Vec<Vec<TransformStep>> = out
            .iter()
            .flat_map(|recipe: &Vec<TransformStep>| {
                steps.iter().map(|step| [recipe.clone(), vec![step.clone()]].concat())
            })
            .collect();
        out.extend(longer);
    }
    let [first, second] = group else { return with_shared_results(question, start, group, out) };
    let pooled = TransformStep::Pool([first.clone(), second.clone()]);
    let name = pool::pooled_name(first, second);
    let pooled_entries = entries(start, first) + entries(start, second);
    let unpooled = out.clone();
    out.extend(unpooled.into_iter().map(|recipe| [recipe, vec![pooled.clone()]].concat()));
    out.push(vec![pooled.clone(), digest_step(&name)]);
    let done = pool::pool_tables(&start.pipeline, &start.sizes, [first, second]);
    if let Some(step) = done.ok().and_then(|done| alpm_step(&name, pooled_entries, &done)) {
        out.push(vec![pooled, step]);
    }
    with_shared_results(question, start, group, out)
}

/// Adds up to two variants of each recipe (a list of transforms for the tables of `group`). A result
/// is action data that moves from the entries into a table of its own, which entries address by
/// number. The first variant stores equal results once, after pooling, or at the start without
/// pooling. The second stores one result for each entry, at the end, unless prefixes are partitioned.
fn with_shared_results(
    request: &SearchRequest<'_>,
    start: &TransformedPipeline,
    group: &[String],
    recipes: Vec<Vec<TransformStep>>,
) -> Vec<Vec<TransformStep>> {
    let share = |table: &str, name: &str| {
        let options = share_results::ResultOptions::for_argument(shared_argument(start, table)?, None);
        Some(TransformStep::ShareResults(name.to_owned(), options))
    };
    let with_shared = |recipe: &Vec<TransformStep>| {
        let pooled = recipe.iter().position(|step| matches!(step, TransformStep::Pool(_)));
        let (at, steps): (usize, Vec<TransformStep>) = match (pooled, group) {
            (Some(at), [first, second]) => {
                (at + 1, share(first, &pool::pooled_name(first, second)).into_iter().collect())
            }
            _ => (0, group.iter().filter_map(|table| share(table, table)).collect()),
        };
        let mut longer = recipe.clone();
        longer.splice(at..at, steps.iter().cloned());
        (!steps.is_empty()).then_some(longer)
    };
    let with_result_per_entry = |recipe: &Vec<TransformStep>| {
        let has_partitions = recipe.iter().any(|step| matches!(step, TransformStep::Alpm(..)));
        let name = match group {
            [first, second] if recipe.iter().any(|step| matches!(step, TransformStep::Pool(_))) => {
                pool::pooled_name(first, second)
            }
            [only] => only.clone(),
            _ => return None,
        };
        let entries = group.iter().filter_map(|table| start.sizes.get(table)).sum();
        let step =
            per_entry_results(request.target, start, group.first()?, &name, entries).filter(|_| !has_partitions)?;
        Some([recipe.clone(), vec![step]].concat())
    };
    let variants: Vec<Vec<TransformStep>> =
        recipes.iter().flat_map(|recipe| [with_shared(recipe), with_result_per_entry(recipe)]).flatten().collect();
    recipes.into_iter().chain(variants).collect()
}

/// Returns the step that gives each entry its own result. The number of values is unchanged, but
/// the values move out of the entries, so that the remainder of an entry takes less than a word.
/// Result tables are addressed by number, and each has the largest size that fits a stage. `table`
/// is the original table, `name` the one that now has its entries. `None` if the number of values
/// is known to be smaller, or if no argument is as wide as a word.
fn per_entry_results(
    target: &ChipTarget,
    start: &TransformedPipeline,
    table: &str,
    name: &str,
    entries: u64,
) -> Option<TransformStep> {
    let declared = start.pipeline.tables.values().find(|declared| declared.preamble.name == table)?;
    let is_exact = declared.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let listed = declared.actions.iter().filter(|listed| !listed.default_only);
    let params = listed.flat_map(|listed| &start.pipeline.actions[listed.action].params);
    let widest = params.max_by_key(|param| param.ty.width()).filter(|_| is_exact)?;
    let words = widest.ty.width() / target.sram.width;
    if words == 0 || shared_argument(start, table).is_some() {
        return None;
    }
    let max_results = u64::from(target.per_stage.sram / words * target.sram.depth);
    let results_per_table = 1 << max_results.checked_ilog2()?;
    // An update needs a free number.
    let options = share_results::ResultOptions {
        argument: widest.name.clone(),
        values: Some(entries + 1),
        results_per_table: Some(results_per_table),
    };
    Some(TransformStep::ShareResults(name.to_owned(), options))
}

/// Returns the widest argument of a table's entries with fewer distinct values than entries.
fn shared_argument(start: &TransformedPipeline, table: &str) -> Option<String> {
    let declared = start.pipeline.tables.values().find(|declared| declared.preamble.name == table)?;
    let entries = start.sizes.get(table).copied().or(declared.size)?;
    let listed = declared.actions.iter().filter(|listed| !listed.default_only);
    let params = listed.flat_map(|listed| &start.pipeline.actions[listed.action].params);
    let few = params.filter(|param| {
        share_results::known_value_count(&start.pipeline, &start.sizes, declared, &param.name)
            .is_some_and(|values| values < entries)
    });
    few.max_by_key(|param| param.ty.width()).map(|param| param.name.clone())
}

/// Returns the partition shape with the fewest blocks, or `None` for a table without prefixes. The
/// estimate orders all shapes; only the best ones are laid out in memory. Known prefixes
/// (`question.prefixes`) then replace the expected fill by the measured one.
fn cheapest_shape(
    question: &SearchRequest<'_>,
    layout_costs: &mut LayoutCostCache,
    start: &TransformedPipeline,
    table: &str,
    entries: u64,
) -> Option<alpm::AlpmOptions> {
    let declared = start.pipeline.tables.values().find(|t| t.preamble.name == table)?;
    declared.keys.iter().any(|key| key.kind == MatchKind::Lpm).then_some(())?;
    let mut shapes: Vec<(f64, alpm::AlpmOptions)> = Vec::new();
    for depth in 8..=question.limits.max_depth.max(8) {
        for target in [depth - 1, depth * 2 / 3, depth / 2, depth / 3] {
            let options = alpm::AlpmOptions::Fitted {
                depth,
                target,
                fill: expected_fill(question.limits.max_fill, depth, target),
            };
            shapes.push((
                score::estimate_partitioned(
                    question.target,
                    &start.pipeline,
                    declared,
                    &options.partition_limits(entries),
                ),
                options,
            ));
        }
    }
    shapes.sort_by(|a, b| a.0.total_cmp(&b.0));
    shapes.truncate(MAX_LAID_OUT_SHAPES);
    let laid_out = |(_, options): &(f64, alpm::AlpmOptions)| {
        layout_costs
            .partitioned_cost(&start.pipeline, declared, &options.partition_limits(entries))
            .map_or(u64::MAX, |all| all.total_blocks())
    };
    let (_, options) = shapes.into_iter().min_by_key(laid_out)?;
    Some(match question.prefixes.get(table) {
        Some(prefixes) => {
            measured_shape(prefixes, options.partition_limits(entries), entries, question.limits.max_fill)
                .unwrap_or(options)
        }
        None => options,
    })
}

/// Measures the shape for these prefixes and scales it to the number of entries.
fn measured_shape(
    prefixes: &[KeyPrefix],
    shape: PartitionLimits,
    entries: u64,
    fill: f64,
) -> Option<alpm::AlpmOptions> {
    let ample = PartitionLimits { partitions: 2 * shape.partitions, pivots: 3 * shape.pivots, ..shape };
    let mut placed = partitions::Partitions::new(ample);
    placed.build_partitions(prefixes.iter().map(|prefix| (*prefix, ())), &mut Vec::new()).ok()?;
    let more = (entries as f64 / placed.len().max(1) as f64).max(1.0);
    // A tenth more pivots, because updates split further ones.
    let pivots = (placed.pivot_count() as f64 * more * 1.1).ceil() as u32 + 16;
    let filled = placed.stored_entries() as f64 / (placed.used_partitions().max(1) as f64 * f64::from(shape.depth));
    let partitions =
        (placed.stored_entries() as f64 * more / (f64::from(shape.depth) * filled.min(fill))).ceil() as u32 + 1;
    Some(alpm::AlpmOptions::Given(PartitionLimits { partitions, pivots, ..shape }))
}

/// Returns the expected fill of partitions. Several pivots fill a partition; a single one leaves
/// the remainder unused.
fn expected_fill(most: f64, depth: u32, target: u32) -> f64 {
    match depth / target.max(1) {
        0 | 1 => most.min(0.65),
        _ => most,
    }
}
