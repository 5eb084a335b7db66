//! Compression steps as named in command lines and configurations.

use asic::search::{SearchLimits, SearchRequest, TransformStep, find_cheapest_steps};
use asic::target::ChipTarget;
use asic::transform::split_prefix::{split_prefix_key, tables_with_concatenated_prefix};
use asic::transform::{TableSizes, TransformError, TransformedPipeline, alpm, digest, share_results};
use ir::Pipeline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Transformation of a pipeline with sizes.
pub type PlanTransform = Box<dyn Fn(&Arc<Pipeline>, &TableSizes) -> Result<TransformedPipeline, TransformError>>;

/// Compression step: name, description and transformation.
pub struct Compression {
    /// Name: `pooling of vm_nc_v4 and vm_nc_v6`.
    pub name: String,
    /// Effect, as a sentence.
    pub what: String,
    /// Transformation.
    pub rewrite: PlanTransform,
}

/// Default number of entries of a partition.
const DEFAULT_PARTITION_DEPTH: u32 = 28;

/// Parses compression steps: `auto`, `none`, or
/// `pool:A+B,digest:C,alpm:D,alpm:D*24,results:E.server*65536,pieces:F*3`. A table is named by its
/// control-plane name or the end of it. `seed` is the seed of key digests; use a secret one if it
/// determines entries.
///
/// # Errors
/// The text that is no step, with the syntax; for `auto`, the reason for which the search is not
/// possible.
pub fn compressions(
    text: &str,
    pipeline: &Arc<Pipeline>,
    sizes: &TableSizes,
    target: &ChipTarget,
    seed: u64,
) -> Result<Vec<Compression>, String> {
    let steps = match text {
        "none" => Vec::new(),
        "auto" => cheapest_steps(pipeline, sizes, target, seed)?,
        steps => {
            steps.split(',').map(|step| parse_step(step.trim(), pipeline, sizes, seed)).collect::<Result<_, _>>()?
        }
    };
    Ok(steps.into_iter().map(describe_step).collect())
}

/// Returns the cheapest combination of steps. The entries are unknown, so partitions are shaped for
/// prefixes of the Internet.
fn cheapest_steps(
    pipeline: &Arc<Pipeline>,
    sizes: &TableSizes,
    target: &ChipTarget,
    seed: u64,
) -> Result<Vec<TransformStep>, String> {
    let question = SearchRequest {
        target,
        pipeline,
        sizes,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 1,
        split: 1,
        limits: SearchLimits::new(seed),
    };
    find_cheapest_steps(&question).map(|answer| answer.steps).map_err(|error| error.to_string())
}

fn describe_step(step: TransformStep) -> Compression {
    let what = match &step {
        TransformStep::Pool(_) => "one table for both families, which share its capacity",
        TransformStep::Digest(..) => "wide keys become short ones; the few that collide are in a separate table",
        TransformStep::Alpm(..) => "pivots in TCAM, prefixes in partitions in SRAM",
        TransformStep::ShareResults(..) => {
            "results that many entries share are stored once, and entries hold their index"
        }
        TransformStep::SplitTable(..) => "looked up one after the other, so that each can be in another pipe",
    };
    Compression {
        name: step.to_string(),
        what: what.to_owned(),
        rewrite: Box::new(move |pipeline, sizes| step.apply(pipeline, sizes)),
    }
}

/// Splits concatenated keys, because a chip has no step that concatenates them. The last
/// transformation before a program is emitted.
///
/// # Errors
/// [`RewriteError`]: a transformation that is not possible, which would be a bug.
pub fn split_concatenated_keys(rewritten: TransformedPipeline) -> Result<TransformedPipeline, TransformError> {
    let tables = tables_with_concatenated_prefix(&rewritten.pipeline);
    tables.iter().try_fold(rewritten, |rewritten, table| {
        rewritten.then(|pipeline, sizes| split_prefix_key(pipeline, sizes, table))
    })
}

/// Parses one step: its kind, the tables, and a number after `*`. Table names can be suffixes of
/// control-plane names; `sizes` has the entries of each table.
fn parse_step(step: &str, pipeline: &Pipeline, sizes: &TableSizes, seed: u64) -> Result<TransformStep, String> {
    let usage_error = || {
        format!(
            "`{step}` is no step; write pool:TABLE+TABLE, digest:TABLE, alpm:TABLE*DEPTH, results:TABLE.ARGUMENT*VALUES (or *VALUES/2^n for tables of 2^n) or pieces:TABLE*N"
        )
    };
    let (kind, rest) = step.split_once(':').ok_or_else(usage_error)?;
    // Number of results for each table, if several tables have them.
    let (rest, results_per_table) = match rest.split_once('/').filter(|_| kind == "results") {
        Some((rest, results_per_table)) => {
            (rest, Some(results_per_table.parse::<u64>().ok().filter(|n| n.is_power_of_two()).ok_or_else(usage_error)?))
        }
        None => (rest, None),
    };
    let (tables, number) = match rest.split_once('*') {
        Some((tables, number)) => (tables, Some(number.parse::<u32>().map_err(|_| usage_error())?)),
        None => (rest, None),
    };
    let resolve_table = |name: &str| full_name(pipeline, name);
    match (kind, number) {
        ("pool", None) => {
            let (a, b) = tables.split_once('+').ok_or_else(usage_error)?;
            Ok(TransformStep::Pool([resolve_table(a)?, resolve_table(b)?]))
        }
        ("digest", None) => Ok(TransformStep::Digest(resolve_table(tables)?, digest::DigestOptions::new(seed))),
        ("alpm", depth) => Ok(TransformStep::Alpm(
            resolve_table(tables)?,
            alpm::AlpmOptions::new(depth.unwrap_or(DEFAULT_PARTITION_DEPTH)),
        )),
        ("results", values) => {
            let (table, argument) = tables.rsplit_once('.').ok_or_else(usage_error)?;
            let values = values.map(u64::from);
            Ok(TransformStep::ShareResults(
                resolve_table(table)?,
                share_results::ResultOptions { argument: argument.to_owned(), values, results_per_table },
            ))
        }
        ("pieces", Some(count)) if (2..=64).contains(&count) => {
            let table = resolve_table(tables)?;
            let declared = pipeline.tables.values().find(|declared| declared.preamble.name == table);
            let size = sizes.get(&table).copied().or(declared.and_then(|declared| declared.size)).unwrap_or(1024);
            Ok(TransformStep::SplitTable(table, vec![size.div_ceil(u64::from(count)); count as usize]))
        }
        _ => Err(usage_error()),
    }
}

/// Returns the full name of a table. An unknown name is returned unchanged, because an earlier step
/// may create the table.
fn full_name(pipeline: &Pipeline, name: &str) -> Result<String, String> {
    let all: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
    match entries::find_name(all.iter().copied(), name) {
        Ok(at) => Ok(all[at].to_owned()),
        Err(ends) if ends.is_empty() => Ok(name.to_owned()),
        Err(ends) => {
            Err(format!("`{name}` is the end of several tables' names: {}; write more of it", ends.join(", ")))
        }
    }
}
