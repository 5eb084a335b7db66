//! Cost of tables: blocks of one pipe by the arithmetic of [`crate::memory::estimate`], and as a
//! chip lays them out.

use crate::demand;
use crate::memory::{BlockEstimate, allocate_alone, estimate};
use crate::target::ChipTarget;
use crate::transform::{TableSizes, alpm, partitions::PartitionLimits};
use ir::{MatchKind, Pipeline, Table};
use std::collections::HashMap;

/// Estimates the match memory of all tables that the program applies, in blocks.
pub fn estimate_blocks(target: &ChipTarget, pipeline: &Pipeline, sizes: &TableSizes) -> BlockEstimate {
    let one = |table: &Table| {
        let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
        estimate(target, &table_demand(pipeline, table, entries))
    };
    pipeline.tables.values().map(one).fold(BlockEstimate::default(), BlockEstimate::plus)
}

/// Returns a table's memory demand. The partition number is excluded from the key because it only
/// addresses the entry.
pub fn table_demand(pipeline: &Pipeline, table: &Table, entries: u64) -> demand::TableDemand {
    let partitioned = alpm::partition_dimensions(table);
    let keys: Vec<demand::KeyDemand> = table
        .match_keys()
        .skip(usize::from(partitioned.is_some()))
        .map(|(_, key)| demand::KeyDemand {
            name: key.name.clone(),
            bits: key.ty.width(),
            exact: key.kind == MatchKind::Exact,
            range: key.kind == MatchKind::Range,
        })
        .collect();
    let kind = match partitioned {
        Some((partitions, depth)) => demand::MemoryMatchKind::Partitioned { partitions: partitions.into(), depth },
        None if keys.is_empty() => demand::MemoryMatchKind::None,
        None if keys.iter().all(|key| key.exact) => demand::MemoryMatchKind::Exact,
        None => demand::MemoryMatchKind::Ternary,
    };
    let actions = table.actions.iter().map(|listed| {
        let action = &pipeline.actions[listed.action];
        demand::ActionDemand {
            name: action.preamble.name.clone(),
            params: action.params.iter().map(|param| param.ty.width()).collect(),
            default_only: listed.default_only,
        }
    });
    demand::TableDemand {
        name: table.preamble.name.clone(),
        id: None,
        kind,
        keys,
        entries,
        actions: actions.collect(),
        attached: Vec::new(),
    }
}

/// Blocks of tables as a chip lays them out: whole rows, ways and blocks, with action data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LayoutCost {
    /// SRAM blocks.
    pub sram: u64,
    /// TCAM blocks.
    pub tcam: u64,
    /// Number of stages if no two tables share one.
    pub stage_count: u64,
}

impl LayoutCost {
    /// Returns SRAM and TCAM blocks together.
    pub fn total_blocks(&self) -> u64 {
        self.sram + self.tcam
    }
}

/// Cache of layout costs, each table alone in stages of its own. Candidates have most tables in
/// common, so the costs are cached.
pub struct LayoutCostCache<'a> {
    target: &'a ChipTarget,
    cost_by_table: HashMap<String, Option<LayoutCost>>,
}

impl<'a> LayoutCostCache<'a> {
    /// Creates an empty cache for a chip.
    pub fn new(target: &'a ChipTarget) -> LayoutCostCache<'a> {
        LayoutCostCache { target, cost_by_table: HashMap::new() }
    }

    /// Returns the cost of a table, or `None` if it fits no stage of the chip.
    pub fn table_cost(&mut self, table: &demand::TableDemand) -> Option<LayoutCost> {
        let same = format!("{:?} {:?} {} {:?}", table.kind, table.keys, table.entries, table.actions);
        let target = self.target;
        *self.cost_by_table.entry(same).or_insert_with(|| {
            let parts = allocate_alone(target, table).ok()?;
            let sum = |of: fn(&crate::target::StageResources) -> u32| {
                parts.iter().map(|part| u64::from(of(&part.usage))).sum()
            };
            Some(LayoutCost {
                sram: sum(|usage| usage.sram),
                tcam: sum(|usage| usage.tcam),
                stage_count: parts.len() as u64,
            })
        })
    }

    /// Returns the cost of all applied tables that have entries, or `None` if one of them fits no
    /// stage of the chip.
    pub fn program_cost(&mut self, pipeline: &Pipeline, sizes: &TableSizes) -> Option<LayoutCost> {
        let mut sum = LayoutCost::default();
        for table in pipeline.tables.values() {
            let entries = sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
            if entries > 0 {
                let one = self.table_cost(&table_demand(pipeline, table, entries))?;
                sum = LayoutCost {
                    sram: sum.sram + one.sram,
                    tcam: sum.tcam + one.tcam,
                    stage_count: sum.stage_count + one.stage_count,
                };
            }
        }
        Some(sum)
    }

    /// Returns the cost of a prefix table's pivots and partitions.
    pub(super) fn partitioned_cost(
        &mut self,
        pipeline: &Pipeline,
        table: &Table,
        shape: &PartitionLimits,
    ) -> Option<LayoutCost> {
        let [pivots, rest] = pivot_and_partition_demands(pipeline, table, shape);
        let (pivots, rest) = (self.table_cost(&pivots)?, self.table_cost(&rest)?);
        Some(LayoutCost {
            sram: pivots.sram + rest.sram,
            tcam: pivots.tcam + rest.tcam,
            stage_count: pivots.stage_count + rest.stage_count,
        })
    }
}

/// Returns the demands of a prefix table's pivots and partitions.
fn pivot_and_partition_demands(
    pipeline: &Pipeline,
    table: &Table,
    shape: &PartitionLimits,
) -> [demand::TableDemand; 2] {
    let table_part = table_demand(pipeline, table, u64::from(shape.pivots));
    let bits = (32 - (shape.partitions.max(2) - 1).leading_zeros()).max(1);
    let partition = demand::ActionDemand { name: "partition".to_owned(), params: vec![bits], default_only: false };
    let key_bits: u32 = table_part.keys.iter().map(|key| key.bits).sum();
    let pivot_key = demand::KeyDemand { name: "pivot".to_owned(), bits: key_bits, exact: false, range: false };
    let pivots = demand::TableDemand {
        kind: demand::MemoryMatchKind::Ternary,
        keys: vec![pivot_key],
        actions: vec![partition],
        ..table_part.clone()
    };
    let partitioned = demand::MemoryMatchKind::Partitioned { partitions: shape.partitions.into(), depth: shape.depth };
    let partition_table = demand::TableDemand {
        kind: partitioned,
        entries: u64::from(shape.partitions) * u64::from(shape.depth),
        ..table_part
    };
    [pivots, partition_table]
}

/// Estimates the blocks of a prefix table's pivots and partitions, SRAM and TCAM together.
pub(super) fn estimate_partitioned(
    target: &ChipTarget,
    pipeline: &Pipeline,
    table: &Table,
    shape: &PartitionLimits,
) -> f64 {
    let [pivots, rest] = pivot_and_partition_demands(pipeline, table, shape);
    let cost = estimate(target, &pivots).plus(estimate(target, &rest));
    cost.sram + cost.tcam
}
