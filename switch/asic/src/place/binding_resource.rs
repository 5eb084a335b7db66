//! Binding resource: the resource that prevents more entries, with an explanation.

use super::bounds::PlacementProblem;
use super::list_scheduler::{ScheduleSettings, schedule_tables};
use super::orders::{FEW_ORDERS, rows_at_scale, try_orders, urgency_order};
use super::{PipePath, Placement};
use crate::demand::{MemoryMatchKind, ResourceDemand, TableDemand};
use crate::target::{ChipTarget, StageResources};
use serde::{Deserialize, Serialize};

/// The binding resource of a placement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct BindingResource {
    /// Name in [`StageResources`], or `stages`.
    pub resource: String,
    /// Share in use over all stages that a packet passes, from 0 to 1.
    pub taken: f64,
    /// Tables that take the most of it, with their shares of the used amount, largest first.
    pub tables: Vec<(String, f64)>,
    /// Explanation for users, with remedies.
    pub sentence: String,
}

/// Finds the resource that prevents more entries: the shortage at a scale that no longer fits. If
/// no table can grow, the resource with the highest utilization.
pub fn find_binding(target: &ChipTarget, program: &ResourceDemand, placement: &Placement) -> BindingResource {
    if let Ok(problem) = PlacementProblem::new(target, program, &placement.path)
        && let Some(scale) = smallest_failing_scale(&problem, placement.scale)
    {
        let mut binding = binding_at_scale(&problem, scale);
        binding.sentence = format!("at {scale:.1} times the entries {}", binding.sentence);
        return binding;
    }
    let at = (0..13)
        .max_by(|a, b| utilization(target, placement, *a).total_cmp(&utilization(target, placement, *b)))
        .unwrap_or(0);
    let described = ResourceUse::new(target, program, placement, at);
    let help = described.remedies(None);
    described.binding_of(utilization(target, placement, at), help)
}

/// Returns the utilization of resource number `at` over all stages.
fn utilization(target: &ChipTarget, placement: &Placement, at: usize) -> f64 {
    let has = f64::from(target.per_stage.fields()[at].1) * placement.stages.len() as f64;
    let taken: u64 = placement.stages.iter().map(|s| u64::from(s.usage.fields()[at].1)).sum();
    if has > 0.0 { taken as f64 / has } else { 0.0 }
}

/// Returns a failing scale not far above the largest fitting one.
fn smallest_failing_scale(problem: &PlacementProblem, fits: f64) -> Option<f64> {
    let fails = |scale: f64| {
        try_orders(problem, &rows_at_scale(problem, scale), problem.target.stages, problem.target.per_stage, 1)
            .is_none()
    };
    let (mut low, mut high) = (fits, fits * 2.0);
    while !fails(high) {
        if high > 1e6 {
            return None;
        }
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..4 {
        let middle = (low + high) / 2.0;
        if fails(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns the binding resource at a failing scale: the one that kept the most tables waiting.
pub(super) fn binding_at_scale(problem: &PlacementProblem, scale: f64) -> BindingResource {
    let entries = rows_at_scale(problem, scale);
    let settings = ScheduleSettings {
        stages: problem.target.stages,
        stage_limits: problem.target.per_stage,
        urgency: urgency_order(problem, &entries, 0),
        entries,
        diagnose: true,
        planned_entries: None,
        min_part_divisor: 0,
        unsplit_tables: false,
    };
    let attempt = schedule_tables(problem, &settings);
    let shortages = attempt.shortages;
    let unplaced = attempt.unplaced.clone();
    // 13: the number of resources of a stage. The first of equal ones wins.
    let binding = (0..13).rev().max_by_key(|n| shortages[*n]).filter(|n| shortages[*n] > 0);
    let placement = attempt.into_placement(problem, scale);
    let Some(binding) = binding else { return late_binding(problem, &unplaced) };
    let resource_use = ResourceUse::new(problem.target, problem.program, &placement, binding);
    let largest = resource_use.tables.first().filter(|_| scale == 1.0);
    let fewer = largest.and_then(|(n, _)| max_fitting_entries(problem, *n));
    let remedies = resource_use.remedies(fewer);
    resource_use.binding_of(utilization(problem.target, &placement, binding), remedies)
}

/// Describes a failure without shortages: the tables became ready too late.
fn late_binding(problem: &PlacementProblem, left: &[(usize, u64)]) -> BindingResource {
    let names: Vec<&str> = left.iter().take(3).map(|(n, _)| problem.program.tables[*n].name.as_str()).collect();
    let (last, needs) = problem.longest_chain(&problem.entries, u64::from(problem.target.stages));
    let sentence = format!(
        "there are too few stages before {} can begin: one chain takes {needs} of them ({}), and the path has {} stages on each of {} gresses; \
         smaller tables early in the chain, or more pipes in a row, make room",
        names.join(", "),
        problem.describe_chain(last, &problem.entries),
        problem.target.stages,
        problem.path.hops.len()
    );
    BindingResource { resource: "stages".to_owned(), taken: 1.0, tables: Vec::new(), sentence }
}

/// Returns the maximum number of entries of one table with which the program fits, all others
/// unchanged.
fn max_fitting_entries(problem: &PlacementProblem, n: usize) -> Option<u64> {
    let with = |count: u64| {
        let mut entries = problem.entries.clone();
        entries[n] = count;
        try_orders(problem, &entries, problem.target.stages, problem.target.per_stage, FEW_ORDERS).is_some()
    };
    if problem.program.tables[n].kind == MemoryMatchKind::None || !with(1) {
        return None;
    }
    let (mut low, mut high) = (1, problem.entries[n]);
    while high - low > (problem.entries[n] / 256).max(1) {
        let middle = low + (high - low) / 2;
        if with(middle) { low = middle } else { high = middle }
    }
    // Rows differ from entries for tables with ranges.
    Some((u128::from(low) * u128::from(problem.program.tables[n].entries) / u128::from(problem.entries[n])) as u64)
}

/// Use of one resource by tables and stages.
struct ResourceUse<'a> {
    program: &'a ResourceDemand,
    target: &'a ChipTarget,
    path: &'a PipePath,
    at: usize,
    /// Tables with their used amounts, largest first.
    tables: Vec<(usize, u64)>,
    full: Vec<(u32, u32)>,
}

impl<'a> ResourceUse<'a> {
    fn new(target: &'a ChipTarget, program: &'a ResourceDemand, placement: &'a Placement, at: usize) -> Self {
        let taken = |usage: &StageResources| u64::from(usage.fields()[at].1);
        let of = |(n, t): (usize, &super::TablePlacement)| (n, t.pieces.iter().map(|p| taken(&p.usage)).sum::<u64>());
        let mut tables: Vec<(usize, u64)> =
            placement.tables.iter().enumerate().map(of).filter(|(_, t)| *t > 0).collect();
        tables.sort_by_key(|(n, taken)| (std::cmp::Reverse(*taken), *n));
        let has = u64::from(target.per_stage.fields()[at].1);
        // A stage counts as full at 85 %, because parts do not fit into a few remaining blocks.
        let full = placement.stages.iter().filter(|s| taken(&s.usage) * 100 >= has * 85);
        let full = full.map(|s| (s.pipe, s.stage)).collect();
        ResourceUse { program, target, path: &placement.path, at, tables, full }
    }

    fn resource_name(&self) -> &'static str {
        self.target.per_stage.fields()[self.at].0
    }

    fn binding_of(&self, taken: f64, help: String) -> BindingResource {
        let all: u64 = self.tables.iter().map(|(_, t)| t).sum::<u64>().max(1);
        let share = |(n, t): &(usize, u64)| (self.program.tables[*n].name.clone(), *t as f64 / all as f64);
        let tables: Vec<(String, f64)> = self.tables.iter().take(5).map(share).collect();
        let mut sentence = format!("{} {}", self.resource_phrase(), self.stages_phrase());
        if let Some((name, share)) = tables.first() {
            sentence += &format!("; table {name} takes {:.0} % of the used amount", share * 100.0);
        }
        sentence += &help;
        BindingResource { resource: self.resource_name().to_owned(), taken, tables, sentence }
    }

    fn resource_phrase(&self) -> &'static str {
        match self.resource_name() {
            "sram" => "SRAM is",
            "tcam" => "TCAM is",
            "map_ram" => "map RAM is",
            "tables" => "the number of logical tables is",
            "ternary_tables" => "the number of ternary tables is",
            "hash_bits" => "the hash is",
            "exact_crossbar" => "the exact match crossbar is",
            "ternary_crossbar" => "the ternary match crossbar is",
            "action_bus" => "the action bus is",
            "gateways" => "the number of gateways is",
            "meter_alus" => "the number of meter and stateful ALUs is",
            "statistics_alus" => "the number of statistics ALUs is",
            _ => "the number of instructions is",
        }
    }

    fn stages_phrase(&self) -> String {
        if self.full.is_empty() {
            return "the most used resource".to_owned();
        }
        let pipes = (0..self.path.pipe_count()).filter_map(|pipe| {
            let stages: Vec<u32> = self.full.iter().filter(|(p, _)| *p == pipe).map(|(_, s)| *s).collect();
            (!stages.is_empty()).then(|| match self.path.pipe_count() {
                1 => format_ranges(&stages),
                _ => format!("{} of pipe {pipe}", format_ranges(&stages)),
            })
        });
        let list: Vec<String> = pipes.collect();
        format!("full in stages {}", list.join(", "))
    }

    /// Describes remedies that free the resource. `fewer` is the number of entries of the largest
    /// table with which everything fits.
    fn remedies(&self, fewer: Option<u64>) -> String {
        let Some((n, _)) = self.tables.first() else { return String::new() };
        let table = &self.program.tables[*n];
        let mut remedies: Vec<String> = Vec::new();
        match (self.resource_name(), table.kind) {
            ("tcam" | "ternary_crossbar" | "ternary_tables", MemoryMatchKind::Ternary) if has_prefix_masks(table) => {
                remedies.push("moving it to SRAM by ALPM".to_owned());
            }
            ("sram" | "exact_crossbar" | "hash_bits", MemoryMatchKind::Exact) if table.key_bits() > 64 => {
                remedies.push(format!("a digest of its {} bits of key", table.key_bits()));
            }
            _ => {}
        }
        if self.target.pipes > self.path.pipe_count() {
            remedies.push("folding more pipes into one".to_owned());
            if matches!(self.resource_name(), "sram" | "tcam" | "map_ram") {
                remedies.push("splitting its entries between pipes".to_owned());
            }
        }
        if let Some(fewer) = fewer {
            remedies.push(format!("{} entries fewer (then {fewer})", table.entries.saturating_sub(fewer)));
        }
        if remedies.is_empty() {
            return String::new();
        }
        let effect = if fewer.is_some() { "makes it fit" } else { "makes room" };
        format!("; {} {effect}", remedies.join(", or "))
    }
}

/// Returns whether a table's masks can be prefixes: no key element is a range, and exactly one is
/// not exact.
fn has_prefix_masks(table: &TableDemand) -> bool {
    table.keys.iter().all(|k| !k.range) && table.keys.iter().filter(|k| !k.exact).count() == 1
}

/// Formats `[0, 1, 2, 5]` as `0-2, 5`.
fn format_ranges(stages: &[u32]) -> String {
    let mut list: Vec<(u32, u32)> = Vec::new();
    for &stage in stages {
        match list.last_mut() {
            Some((_, end)) if *end + 1 == stage => *end = stage,
            _ => list.push((stage, stage)),
        }
    }
    let text = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    list.iter().map(text).collect::<Vec<String>>().join(", ")
}
