//! Steps of compression as command lines and configurations name them.

use asic::rewrite::apart::{apart, put_together};
use asic::rewrite::{RewriteError, Rewritten, Sizes, alpm, digest, results};
use asic::search::{Accept, Question, Step, search};
use asic::target::Target;
use ir::Pipeline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rewrite of a pipeline with sizes.
pub type Rewrite = Box<dyn Fn(&Arc<Pipeline>, &Sizes) -> Result<Rewritten, RewriteError>>;

/// A step of compression: its name, what it does in a sentence, and the rewrite.
pub struct Compression {
    /// `pooling of vm_nc_v4 and vm_nc_v6`.
    pub name: String,
    /// What it does.
    pub what: String,
    /// Makes it.
    pub rewrite: Rewrite,
}

/// Entries of a partition, unless the step says otherwise.
const DEPTH: u32 = 28;

/// The steps that a text names: `auto`, `none`, or `pool:A+B,digest:C,alpm:D,alpm:D*24,results:E.server*65536,pieces:F*3`. A table has its control-plane name, or the
/// end of it. `seed` is what digests start from: where entries are made by it, take one that nobody knows.
///
/// # Errors
/// What is no step, and what would be; for `auto`, why nothing can be looked for.
pub fn compressions(
    text: &str,
    pipeline: &Arc<Pipeline>,
    sizes: &Sizes,
    target: &Target,
    seed: u64,
) -> Result<Vec<Compression>, String> {
    let steps = match text {
        "none" => Vec::new(),
        "auto" => cheapest(pipeline, sizes, target, seed)?,
        steps => steps.split(',').map(|step| named(step.trim(), pipeline, sizes, seed)).collect::<Result<_, _>>()?,
    };
    Ok(steps.into_iter().map(compression).collect())
}

/// The cheapest combination. The entries that a plan is made for are not known, so partitions have the shape that prefixes on the Internet ask for.
fn cheapest(pipeline: &Arc<Pipeline>, sizes: &Sizes, target: &Target, seed: u64) -> Result<Vec<Step>, String> {
    let question = Question {
        target,
        pipeline,
        sizes,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 1,
        split: 1,
        accept: Accept::new(seed),
    };
    search(&question).map(|answer| answer.steps).map_err(|error| error.to_string())
}

fn compression(step: Step) -> Compression {
    let what = match &step {
        Step::Pool(_) => "one table for both families: what one does not need, the other one has",
        Step::Digest(..) => "wide keys become short ones; the few that collide are in a table of their own",
        Step::Alpm(..) => "pivots in TCAM, prefixes in partitions in SRAM",
        Step::Results(..) => "what many entries give alike is kept once, and entries have its number",
        Step::Pieces(..) => "looked up one after the other, so that each may be in another pipe",
    };
    Compression {
        name: step.to_string(),
        what: what.to_owned(),
        rewrite: Box::new(move |pipeline, sizes| step.apply(pipeline, sizes)),
    }
}

/// What is left to do behind the steps before a program is written for a chip: keys that a chip has no step to put together are taken apart.
///
/// # Errors
/// [`RewriteError`]: a rewrite that does not go, which would be a bug.
pub fn for_a_chip(rewritten: Rewritten) -> Result<Rewritten, RewriteError> {
    let tables = put_together(&rewritten.pipeline);
    tables
        .iter()
        .try_fold(rewritten, |rewritten, table| rewritten.then(|pipeline, sizes| apart(pipeline, sizes, table)))
}

fn named(step: &str, pipeline: &Pipeline, sizes: &Sizes, seed: u64) -> Result<Step, String> {
    let form = || {
        format!(
            "`{step}` is no step; write pool:TABLE+TABLE, digest:TABLE, alpm:TABLE*DEPTH, results:TABLE.ARGUMENT*VALUES (or *VALUES/2^n for tables of 2^n) or pieces:TABLE*N"
        )
    };
    let (kind, rest) = step.split_once(':').ok_or_else(form)?;
    // How many results each table has, where several have them.
    let (rest, each) = match rest.split_once('/').filter(|_| kind == "results") {
        Some((rest, each)) => (rest, Some(each.parse::<u64>().ok().filter(|n| n.is_power_of_two()).ok_or_else(form)?)),
        None => (rest, None),
    };
    let (tables, number) = match rest.split_once('*') {
        Some((tables, number)) => (tables, Some(number.parse::<u32>().map_err(|_| form())?)),
        None => (rest, None),
    };
    let full = |name: &str| full_name(pipeline, name);
    match (kind, number) {
        ("pool", None) => {
            let (a, b) = tables.split_once('+').ok_or_else(form)?;
            Ok(Step::Pool([full(a)?, full(b)?]))
        }
        ("digest", None) => Ok(Step::Digest(full(tables)?, digest::Options::new(seed))),
        ("alpm", depth) => Ok(Step::Alpm(full(tables)?, alpm::Options::new(depth.unwrap_or(DEPTH)))),
        ("results", values) => {
            let (table, argument) = tables.rsplit_once('.').ok_or_else(form)?;
            let values = values.map(u64::from);
            Ok(Step::Results(full(table)?, results::Options { argument: argument.to_owned(), values, each }))
        }
        ("pieces", Some(count)) if (2..=64).contains(&count) => {
            let table = full(tables)?;
            let declared = pipeline.tables.values().find(|declared| declared.preamble.name == table);
            let size = sizes.get(&table).copied().or(declared.and_then(|declared| declared.size)).unwrap_or(1024);
            Ok(Step::Pieces(table, vec![size.div_ceil(u64::from(count)); count as usize]))
        }
        _ => Err(form()),
    }
}

/// The full name of a table. One that a step before makes is not in the pipeline yet: its name is taken as it is.
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
