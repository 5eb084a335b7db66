//! The cheapest combination of rewrites.
//!
//! This module answers one question: *which rewrites make the tables of this program smallest on this chip?* Tables that two rewrites can make one
//! are looked at together, all others alone; groups do not touch each other, so the best of each makes the best of all. What
//! a candidate costs is not computed from a formula of its own: it is applied, and the tables that come out are laid out as the chip would, with their
//! action data ([`Scale`]); where that is alike, [`crate::memory::estimate`] decides. Only the shape of partitions is narrowed down by arithmetic first.
//!
//! A pipe's share: folding gives a table the memory of several pipes, and splitting gives a pipe a part of the entries, so one pipe holds
//! entries / (fold x split) of each large table, and blocks are those of one pipe.

mod score;
mod step;

pub use score::{LaidOut, Scale, blocks, demand_of};
pub use step::Step;

use crate::memory::Estimate;
use crate::rewrite::partitions::{self, Shape};
use crate::rewrite::prefix::Prefix;
use crate::rewrite::{RewriteError, Rewritten, Sizes, alpm, digest, pool, results};
use crate::target::Target;
use ir::{MatchKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The chip.
    pub target: &'a Target,
    /// The program.
    pub pipeline: &'a Arc<Pipeline>,
    /// Entries of its tables, by control-plane name, as one chip holds them; and how many values arguments have ([`results::value_name`]),
    /// where that is known.
    pub sizes: &'a Sizes,
    /// The prefixes that one pipe is to hold, for tables whose entries are known ([`alpm::row`]): the shape of their partitions is measured, not
    /// reckoned.
    pub prefixes: BTreeMap<String, Vec<Prefix>>,
    /// Tables that may be rewritten (control-plane names); none: those that take a hundredth of a pipe's blocks or more.
    pub tables: Vec<String>,
    /// Pipes that a packet passes one after the other.
    pub fold: u32,
    /// Parts that the entries are split into, each in a pipe, or in pipes folded together.
    pub split: u32,
    /// What is accepted.
    pub accept: Accept,
}

/// What is accepted for fewer blocks.
#[derive(Clone, Debug)]
pub struct Accept {
    /// Probability that a key without entry hits one, by its digest; 0: no digests.
    pub false_hits: f64,
    /// What digests start from; choose it at random.
    pub seed: u64,
    /// Share of partitions that entries may fill; the rest is for updates.
    pub fill: f64,
    /// Most entries of a partition, all compared at once.
    pub depth: u32,
}

impl Accept {
    /// One false hit in a thousand unknown keys, partitions of at most 64 entries and nine tenths full.
    pub fn new(seed: u64) -> Accept {
        Accept { false_hits: 1e-3, seed, fill: 0.9, depth: 64 }
    }
}

/// A step with the blocks of one pipe before and after it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The step as text.
    pub step: String,
    /// All tables before it.
    pub before: Estimate,
    /// All tables after it.
    pub after: Estimate,
}

/// The answer.
pub struct Answer {
    /// The steps in order, folding and splitting first.
    pub reports: Vec<Report>,
    /// The rewrites among them: they can be applied to the program again, for other sizes.
    pub steps: Vec<Step>,
    /// How many combinations were looked at.
    pub candidates: usize,
    /// The program with all of them, for a pipe's share of the entries.
    pub rewritten: Rewritten,
}

/// Shapes of partitions that are laid out, of those that are cheapest by arithmetic.
const SHAPES: usize = 16;

/// What decides between combinations: blocks as the chip lays them out, then by arithmetic. One that is on no chip is worse than all others.
type Cost = (u64, f64);

fn cost(scale: &mut Scale, target: &Target, done: &Rewritten) -> Cost {
    let laid_out = scale.program(&done.pipeline, &done.sizes).map_or(u64::MAX, |all| all.blocks());
    let estimate = blocks(target, &done.pipeline, &done.sizes);
    (laid_out, estimate.sram + estimate.tcam)
}

/// Finds the cheapest combination: the fewest SRAM and TCAM blocks together.
///
/// # Errors
/// A table that is named and that the program does not have.
pub fn search(question: &Question<'_>) -> Result<Answer, RewriteError> {
    let (target, sizes) = (question.target, question.share());
    let mut reports = Vec::new();
    let of = |sizes: &Sizes| blocks(target, question.pipeline, sizes);
    let (whole, folded, shared) = (of(question.sizes), of(&question.divided(question.fold)), of(&sizes));
    if question.fold > 1 {
        reports.push(Report { step: format!("fold {} pipes", question.fold), before: whole, after: folded });
    }
    if question.split > 1 {
        reports.push(Report { step: format!("split entries in {}", question.split), before: folded, after: shared });
    }
    let names = tables(question, &sizes)?;
    let mut best = Rewritten::unchanged(question.pipeline.clone(), sizes);
    let (mut steps, mut candidates, mut scale) = (Vec::new(), 0, Scale::new(target));
    for group in groups(question, &names) {
        let mut cheapest: Option<(Cost, Vec<Step>)> = None;
        for recipe in recipes(question, &mut scale, &best, &group) {
            candidates += 1;
            // What a table cannot have is no candidate.
            let Ok(done) = apply(question, &steps, &recipe) else { continue };
            let cost = cost(&mut scale, target, &done);
            if cheapest.as_ref().is_none_or(|(least, _)| cost < *least) {
                cheapest = Some((cost, recipe));
            }
        }
        for step in cheapest.map(|(_, recipe)| recipe).unwrap_or_default() {
            let before = blocks(target, &best.pipeline, &best.sizes);
            best = best.then(|pipeline, sizes| step.apply(pipeline, sizes))?;
            let after = blocks(target, &best.pipeline, &best.sizes);
            reports.push(Report { step: step.to_string(), before, after });
            steps.push(step);
        }
    }
    Ok(Answer { reports, steps, candidates, rewritten: best })
}

/// The program with these steps, from the start: what is there so far cannot be copied, as its map may hold entries.
fn apply(question: &Question<'_>, before: &[Step], more: &[Step]) -> Result<Rewritten, RewriteError> {
    let start = Rewritten::unchanged(question.pipeline.clone(), question.share());
    before.iter().chain(more).try_fold(start, |done, step| done.then(|pipeline, sizes| step.apply(pipeline, sizes)))
}

impl Question<'_> {
    /// What one pipe holds.
    pub fn share(&self) -> Sizes {
        self.divided(self.fold.max(1) * self.split.max(1))
    }

    fn divided(&self, parts: u32) -> Sizes {
        let tables: BTreeSet<&str> = self.pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        // A part of the entries may give all values that there are.
        let share = |name: &str, n: u64| if tables.contains(name) { n.div_ceil(parts.max(1).into()) } else { n };
        self.sizes.iter().map(|(name, n)| (name.clone(), share(name, *n))).collect()
    }
}

/// The tables that may be rewritten.
fn tables(question: &Question<'_>, sizes: &Sizes) -> Result<Vec<String>, RewriteError> {
    for name in &question.tables {
        if !question.pipeline.tables.values().any(|table| table.preamble.name == *name) {
            return Err(RewriteError::new(name, "the program has no such table"));
        }
    }
    if !question.tables.is_empty() {
        return Ok(question.tables.clone());
    }
    let target = question.target;
    let least = f64::from((target.per_stage.sram + target.per_stage.tcam) * target.stages) / 100.0;
    let large = question.pipeline.tables.values().filter(|table| {
        let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
        let cost = crate::memory::estimate(target, &demand_of(question.pipeline, table, entries));
        cost.sram + cost.tcam >= least
    });
    Ok(large.map(|table| table.preamble.name.clone()).collect())
}

/// Tables that can be made one, in pairs; all others alone.
fn groups(question: &Question<'_>, names: &[String]) -> Vec<Vec<String>> {
    let mut left: Vec<&String> = names.iter().collect();
    let mut out = Vec::new();
    while !left.is_empty() {
        let first = left.remove(0);
        let fits = |other: &&String| pool::pool(question.pipeline, question.sizes, [first, other]).is_ok();
        match left.iter().position(fits) {
            Some(at) => out.push(vec![first.clone(), left.remove(at).clone()]),
            None => out.push(vec![first.clone()]),
        }
    }
    out
}

/// What can be done with the tables of a group; nothing is one of it.
fn recipes(question: &Question<'_>, scale: &mut Scale, start: &Rewritten, group: &[String]) -> Vec<Vec<Step>> {
    let digests = |table: &str| {
        let options = digest::Options {
            most_false_hits: question.accept.false_hits,
            ..digest::Options::new(question.accept.seed)
        };
        Step::Digest(table.to_owned(), options)
    };
    let mut parts = |table: &str, entries: u64, done: &Rewritten| {
        let options = shape(question, scale, done, table, entries)?;
        Some(Step::Alpm(table.to_owned(), options))
    };
    let entries = |done: &Rewritten, table: &str| done.sizes.get(table).copied().unwrap_or(0);
    let mut out = vec![Vec::new()];
    // Each table for itself: digests, or partitions, whichever it can have.
    for table in group {
        let more: Vec<Step> =
            [Some(digests(table)), parts(table, entries(start, table), start)].into_iter().flatten().collect();
        let longer: Vec<Vec<Step>> = out
            .iter()
            .flat_map(|recipe: &Vec<Step>| more.iter().map(|step| [recipe.clone(), vec![step.clone()]].concat()))
            .collect();
        out.extend(longer);
    }
    let [first, second] = group else { return with_results(question, start, group, out) };
    let pooled = Step::Pool([first.clone(), second.clone()]);
    let name = pool::pooled_name(first, second);
    let both = entries(start, first) + entries(start, second);
    let alone = out.clone();
    out.extend(alone.into_iter().map(|recipe| [recipe, vec![pooled.clone()]].concat()));
    out.push(vec![pooled.clone(), digests(&name)]);
    let done = pool::pool(&start.pipeline, &start.sizes, [first, second]);
    if let Some(step) = done.ok().and_then(|done| parts(&name, both, &done)) {
        out.push(vec![pooled, step]);
    }
    with_results(question, start, group, out)
}

/// All recipes, and each with results: of the pooled table, or of each table alone. Shared before its keys are parted, where entries are known to have few
/// values; otherwise a result for each entry.
fn with_results(
    question: &Question<'_>,
    start: &Rewritten,
    group: &[String],
    recipes: Vec<Vec<Step>>,
) -> Vec<Vec<Step>> {
    let share = |table: &str, name: &str| {
        let options = results::Options::one(shared_argument(start, table)?, None);
        Some(Step::Results(name.to_owned(), options))
    };
    let more = |recipe: &Vec<Step>| {
        let pooled = recipe.iter().position(|step| matches!(step, Step::Pool(_)));
        let (at, steps): (usize, Vec<Step>) = match (pooled, group) {
            (Some(at), [first, second]) => {
                (at + 1, share(first, &pool::pooled_name(first, second)).into_iter().collect())
            }
            _ => (0, group.iter().filter_map(|table| share(table, table)).collect()),
        };
        let mut longer = recipe.clone();
        longer.splice(at..at, steps.iter().cloned());
        (!steps.is_empty()).then_some(longer)
    };
    let apart = |recipe: &Vec<Step>| {
        let parted = recipe.iter().any(|step| matches!(step, Step::Alpm(..)));
        let name = match group {
            [first, second] if recipe.iter().any(|step| matches!(step, Step::Pool(_))) => {
                pool::pooled_name(first, second)
            }
            [only] => only.clone(),
            _ => return None,
        };
        let entries = group.iter().filter_map(|table| start.sizes.get(table)).sum();
        let step = own_results(question.target, start, group.first()?, &name, entries).filter(|_| !parted)?;
        Some([recipe.clone(), vec![step]].concat())
    };
    let longer: Vec<Vec<Step>> = recipes.iter().flat_map(|recipe| [more(recipe), apart(recipe)]).flatten().collect();
    recipes.into_iter().chain(longer).collect()
}

/// A result for each entry: not fewer values, but values that lie by themselves, so that what is left of an entry takes less than a word. Tables of results are
/// addressed by their numbers, and each is as large as a stage holds. None where the values' number is known to be smaller, or an argument is no word.
fn own_results(target: &Target, start: &Rewritten, table: &str, name: &str, entries: u64) -> Option<Step> {
    let declared = start.pipeline.tables.values().find(|declared| declared.preamble.name == table)?;
    let exact = declared.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let listed = declared.actions.iter().filter(|listed| !listed.default_only);
    let params = listed.flat_map(|listed| &start.pipeline.actions[listed.action].params);
    let widest = params.max_by_key(|param| param.ty.width()).filter(|_| exact)?;
    let words = widest.ty.width() / target.sram.width;
    if words == 0 || shared_argument(start, table).is_some() {
        return None;
    }
    let most = u64::from(target.per_stage.sram / words * target.sram.depth);
    let each = 1 << most.checked_ilog2()?;
    // A change needs a number that is free.
    let options = results::Options { argument: widest.name.clone(), values: Some(entries + 1), each: Some(each) };
    Some(Step::Results(name.to_owned(), options))
}

/// The widest argument of a table's entries that has fewer values than there are entries.
fn shared_argument(start: &Rewritten, table: &str) -> Option<String> {
    let declared = start.pipeline.tables.values().find(|declared| declared.preamble.name == table)?;
    let entries = start.sizes.get(table).copied().or(declared.size)?;
    let listed = declared.actions.iter().filter(|listed| !listed.default_only);
    let params = listed.flat_map(|listed| &start.pipeline.actions[listed.action].params);
    let few = params.filter(|param| {
        results::known(&start.pipeline, &start.sizes, declared, &param.name).is_some_and(|values| values < entries)
    });
    few.max_by_key(|param| param.ty.width()).map(|param| param.name.clone())
}

/// The shape of partitions that takes the fewest blocks; none for a table without prefixes.
fn shape(
    question: &Question<'_>,
    scale: &mut Scale,
    done: &Rewritten,
    table: &str,
    entries: u64,
) -> Option<alpm::Options> {
    let declared = done.pipeline.tables.values().find(|t| t.preamble.name == table)?;
    declared.keys.iter().any(|key| key.kind == MatchKind::Lpm).then_some(())?;
    let mut shapes: Vec<(f64, alpm::Options)> = Vec::new();
    for depth in 8..=question.accept.depth.max(8) {
        for target in [depth - 1, depth * 2 / 3, depth / 2, depth / 3] {
            let options = alpm::Options::Fitted { depth, target, fill: fill(question.accept.fill, depth, target) };
            shapes.push((score::parted(question.target, &done.pipeline, declared, &options.shape(entries)), options));
        }
    }
    shapes.sort_by(|a, b| a.0.total_cmp(&b.0));
    shapes.truncate(SHAPES);
    let laid_out = |(_, options): &(f64, alpm::Options)| {
        scale.parted(&done.pipeline, declared, &options.shape(entries)).map_or(u64::MAX, |all| all.blocks())
    };
    let (_, options) = shapes.into_iter().min_by_key(laid_out)?;
    Some(match question.prefixes.get(table) {
        Some(prefixes) => measured(prefixes, options.shape(entries), entries, question.accept.fill).unwrap_or(options),
        None => options,
    })
}

/// The shape as these prefixes need it, with as much more as there are to be more entries.
fn measured(prefixes: &[Prefix], shape: Shape, entries: u64, fill: f64) -> Option<alpm::Options> {
    let ample = Shape { partitions: 2 * shape.partitions, pivots: 3 * shape.pivots, ..shape };
    let mut placed = partitions::Partitions::new(ample);
    placed.build(prefixes.iter().map(|prefix| (*prefix, ())), &mut Vec::new()).ok()?;
    let more = (entries as f64 / placed.len().max(1) as f64).max(1.0);
    // A pivot more for each tenth: updates cut further ones.
    let pivots = (placed.pivots() as f64 * more * 1.1).ceil() as u32 + 16;
    let filled = placed.held() as f64 / (placed.used().max(1) as f64 * f64::from(shape.depth));
    let partitions = (placed.held() as f64 * more / (f64::from(shape.depth) * filled.min(fill))).ceil() as u32 + 1;
    Some(alpm::Options::Given(Shape { partitions, pivots, ..shape }))
}

/// How full partitions get: several pivots of a partition fill it, a single one leaves what it has not.
fn fill(most: f64, depth: u32, target: u32) -> f64 {
    match depth / target.max(1) {
        0 | 1 => most.min(0.65),
        _ => most,
    }
}
