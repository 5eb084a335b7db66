//! What tables cost: blocks of one pipe, by the arithmetic of [`crate::memory::estimate`].

use crate::demand;
use crate::memory::{Estimate, estimate};
use crate::rewrite::{Sizes, alpm, partitions::Shape};
use crate::target::Target;
use ir::{MatchKind, Pipeline, Table};

/// Match memory of all tables that the program applies, in blocks.
pub fn blocks(target: &Target, pipeline: &Pipeline, sizes: &Sizes) -> Estimate {
    let one = |table: &Table| {
        let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
        estimate(target, &demand_of(pipeline, table, entries))
    };
    pipeline.tables.values().map(one).fold(Estimate::default(), Estimate::plus)
}

/// A table as memories see it. The number of a partition is no key: it is where the entry lies.
pub fn demand_of(pipeline: &Pipeline, table: &Table, entries: u64) -> demand::Table {
    let partitioned = alpm::partitioned(table);
    let keys: Vec<demand::Key> = table
        .match_keys()
        .skip(usize::from(partitioned.is_some()))
        .map(|(_, key)| demand::Key {
            name: key.name.clone(),
            bits: key.ty.width(),
            exact: key.kind == MatchKind::Exact,
            range: key.kind == MatchKind::Range,
        })
        .collect();
    let kind = match partitioned {
        Some((partitions, depth)) => demand::Match::Partitioned { partitions: partitions.into(), depth },
        None if keys.is_empty() => demand::Match::None,
        None if keys.iter().all(|key| key.exact) => demand::Match::Exact,
        None => demand::Match::Ternary,
    };
    let actions = table.actions.iter().map(|listed| {
        let action = &pipeline.actions[listed.action];
        demand::Action {
            name: action.preamble.name.clone(),
            params: action.params.iter().map(|param| param.ty.width()).collect(),
            default_only: listed.default_only,
        }
    });
    demand::Table {
        name: table.preamble.name.clone(),
        id: None,
        kind,
        keys,
        entries,
        actions: actions.collect(),
        attached: Vec::new(),
    }
}

/// Blocks of a prefix table's pivots and partitions, SRAM and TCAM together.
pub(super) fn parted(target: &Target, pipeline: &Pipeline, table: &Table, shape: &Shape) -> f64 {
    let whole = demand_of(pipeline, table, u64::from(shape.pivots));
    let partitioned = demand::Match::Partitioned { partitions: shape.partitions.into(), depth: shape.depth };
    let pivots = demand::Table { kind: demand::Match::Ternary, ..whole.clone() };
    let rest =
        demand::Table { kind: partitioned, entries: u64::from(shape.partitions) * u64::from(shape.depth), ..whole };
    let cost = estimate(target, &pivots).plus(estimate(target, &rest));
    cost.sram + cost.tcam
}
