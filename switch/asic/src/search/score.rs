//! What tables cost: blocks of one pipe, by the arithmetic of [`crate::memory::estimate`], and as a chip lays them out.

use crate::demand;
use crate::memory::{Estimate, alone, estimate};
use crate::rewrite::{Sizes, alpm, partitions::Shape};
use crate::target::Target;
use ir::{MatchKind, Pipeline, Table};
use std::collections::HashMap;

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

/// Blocks that tables take as a chip lays them out: whole rows, ways and blocks, with action data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaidOut {
    /// SRAM blocks.
    pub sram: u64,
    /// TCAM blocks.
    pub tcam: u64,
    /// Stages' parts: as many stages as it takes if no two tables share one.
    pub parts: u64,
}

impl LaidOut {
    /// SRAM and TCAM blocks together.
    pub fn blocks(&self) -> u64 {
        self.sram + self.tcam
    }
}

/// What tables cost as a chip lays them out, each alone in stages of its own. It remembers what it has seen: candidates have most tables in common.
pub struct Scale<'a> {
    target: &'a Target,
    seen: HashMap<String, Option<LaidOut>>,
}

impl<'a> Scale<'a> {
    /// For a chip.
    pub fn new(target: &'a Target) -> Scale<'a> {
        Scale { target, seen: HashMap::new() }
    }

    /// A table; none if it is on no stage of the chip.
    pub fn table(&mut self, table: &demand::Table) -> Option<LaidOut> {
        let same = format!("{:?} {:?} {} {:?}", table.kind, table.keys, table.entries, table.actions);
        let target = self.target;
        *self.seen.entry(same).or_insert_with(|| {
            let parts = alone(target, table).ok()?;
            let sum = |of: fn(&crate::target::Usage) -> u32| parts.iter().map(|part| u64::from(of(&part.usage))).sum();
            Some(LaidOut { sram: sum(|usage| usage.sram), tcam: sum(|usage| usage.tcam), parts: parts.len() as u64 })
        })
    }

    /// All tables that the program applies and that have entries; none if one of them is on no stage of the chip.
    pub fn program(&mut self, pipeline: &Pipeline, sizes: &Sizes) -> Option<LaidOut> {
        let mut sum = LaidOut::default();
        for table in pipeline.tables.values() {
            let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
            if entries > 0 {
                let one = self.table(&demand_of(pipeline, table, entries))?;
                sum = LaidOut { sram: sum.sram + one.sram, tcam: sum.tcam + one.tcam, parts: sum.parts + one.parts };
            }
        }
        Some(sum)
    }

    /// A prefix table's pivots and partitions.
    pub(super) fn parted(&mut self, pipeline: &Pipeline, table: &Table, shape: &Shape) -> Option<LaidOut> {
        let [pivots, rest] = halves(pipeline, table, shape);
        let (pivots, rest) = (self.table(&pivots)?, self.table(&rest)?);
        Some(LaidOut { sram: pivots.sram + rest.sram, tcam: pivots.tcam + rest.tcam, parts: pivots.parts + rest.parts })
    }
}

/// The tables of a prefix table's pivots and partitions.
fn halves(pipeline: &Pipeline, table: &Table, shape: &Shape) -> [demand::Table; 2] {
    let whole = demand_of(pipeline, table, u64::from(shape.pivots));
    let bits = (32 - (shape.partitions.max(2) - 1).leading_zeros()).max(1);
    let partition = demand::Action { name: "partition".to_owned(), params: vec![bits], default_only: false };
    let keys: u32 = whole.keys.iter().map(|key| key.bits).sum();
    let row = demand::Key { name: "pivot".to_owned(), bits: keys, exact: false, range: false };
    let pivots =
        demand::Table { kind: demand::Match::Ternary, keys: vec![row], actions: vec![partition], ..whole.clone() };
    let partitioned = demand::Match::Partitioned { partitions: shape.partitions.into(), depth: shape.depth };
    let rest =
        demand::Table { kind: partitioned, entries: u64::from(shape.partitions) * u64::from(shape.depth), ..whole };
    [pivots, rest]
}

/// Blocks of a prefix table's pivots and partitions, SRAM and TCAM together.
pub(super) fn parted(target: &Target, pipeline: &Pipeline, table: &Table, shape: &Shape) -> f64 {
    let [pivots, rest] = halves(pipeline, table, shape);
    let cost = estimate(target, &pivots).plus(estimate(target, &rest));
    cost.sram + cost.tcam
}
