//! One step of a plan: a program with sizes, placed along a pipe path.

use super::report::{HeatRow, Performance, PipeHeat, PlanStep, TableRow};
use asic::demand::{MemoryMatchKind, ResourceDemand};
use asic::memory::{BlockEstimate, estimate};
use asic::place::{Objective, PipePath, Placement, PlacementError, bridged_fields, heuristic};
use asic::target::{ChipTarget, StageResources};

/// Attempt to place a program.
#[derive(Clone, Debug)]
pub struct PlacementAttempt {
    /// Demand of the program.
    pub program: ResourceDemand,
    /// Pipe path of its packets.
    pub path: PipePath,
    /// Placement, or the reason for which there is none.
    pub placed: Result<Placement, PlacementError>,
}

impl PlacementAttempt {
    /// Places a program with the fast heuristic.
    pub fn new(target: &ChipTarget, program: ResourceDemand, path: PipePath, objective: Objective) -> PlacementAttempt {
        let placed = heuristic(target, &program, &path, objective);
        PlacementAttempt { program, path, placed }
    }

    /// Returns the placement, or the nearest attempt.
    pub fn best_placement(&self) -> Option<&Placement> {
        match &self.placed {
            Ok(placement) => Some(placement),
            Err(PlacementError::Full { nearest, .. }) => nearest.as_deref(),
            Err(_) => None,
        }
    }

    /// Returns the step for the report.
    pub fn report_step(&self, target: &ChipTarget, name: &str, what: &str) -> PlanStep {
        let (sram, tcam) = utilization(target, &self.program);
        PlanStep {
            name: name.to_owned(),
            what: what.to_owned(),
            sram,
            tcam,
            placed: self.placed.is_ok(),
            heat: self.best_placement().map(|placement| heat_map(target, placement)).unwrap_or_default(),
        }
    }
}

/// Returns the SRAM and TCAM demand of all tables in percent of a pipe's blocks, estimated as in
/// the literature.
pub fn utilization(target: &ChipTarget, program: &ResourceDemand) -> (f64, f64) {
    let one = |table| estimate(target, table);
    let sum = program.tables.iter().map(one).fold(BlockEstimate::default(), BlockEstimate::plus);
    let of_pipe = |per_stage: u32| 100.0 / f64::from((per_stage * target.stages).max(1));
    (sum.sram * of_pipe(target.per_stage.sram), sum.tcam * of_pipe(target.per_stage.tcam))
}

/// Resource of a heat map, with its name.
type Resource = (&'static str, fn(&StageResources) -> u32);

const RESOURCES: [Resource; 11] = [
    ("SRAM blocks", |u| u.sram),
    ("TCAM blocks", |u| u.tcam),
    ("map RAM blocks", |u| u.map_ram),
    ("logical tables", |u| u.tables),
    ("hash bits", |u| u.hash_bits),
    ("exact crossbar, bytes", |u| u.exact_crossbar),
    ("ternary crossbar, bytes", |u| u.ternary_crossbar),
    ("action bus, bytes", |u| u.action_bus),
    ("gateways", |u| u.gateways),
    ("meter ALUs", |u| u.meter_alus),
    ("statistics ALUs", |u| u.statistics_alus),
];

/// Returns the heat map of a placement.
pub fn heat_map(target: &ChipTarget, placement: &Placement) -> Vec<PipeHeat> {
    let pipe = |pipe: u32| PipeHeat {
        name: format!("pipe {pipe}"),
        rows: RESOURCES.iter().map(|resource| heat_row(target, placement, pipe, resource)).collect(),
    };
    (0..placement.path.pipe_count()).map(pipe).collect()
}

fn heat_row(target: &ChipTarget, placement: &Placement, pipe: u32, (name, of): &Resource) -> HeatRow {
    let stages = 0..target.stages;
    let tables = |stage: u32| {
        let here = placement.tables.iter().filter(|table| {
            let mut pieces = table.pieces.iter();
            pieces.any(|p| {
                let on = placement.path.hops.get(p.hop).is_some_and(|hop| hop.pipe == pipe);
                on && p.stage == stage && of(&p.usage) > 0
            })
        });
        here.map(|table| table.name.clone()).collect()
    };
    HeatRow {
        resource: (*name).to_owned(),
        used: stages.clone().map(|stage| of(&placement.stage_usage(pipe, stage))).collect(),
        of: stages.clone().map(|_| of(&target.per_stage)).collect(),
        tables: stages.map(tables).collect(),
    }
}

/// Returns the tables of an attempt for the report, without action steps and tables without key.
pub fn table_rows(attempt: &PlacementAttempt) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for (n, table) in attempt.program.tables.iter().enumerate().filter(|(_, table)| !table.keys.is_empty()) {
        let placed = attempt.best_placement().and_then(|placement| placement.tables.get(n));
        let pieces = placed.map(|p| p.pieces.as_slice()).unwrap_or_default();
        let sum = |of: fn(&StageResources) -> u32| pieces.iter().map(|p| of(&p.usage)).sum();
        rows.push(TableRow {
            name: table.name.clone(),
            kind: match_kind_name(table.kind),
            key_bits: table.key_bits(),
            entries: table.entries,
            sram: sum(|u| u.sram),
            tcam: sum(|u| u.tcam),
            places: stage_ranges(attempt, pieces),
        });
    }
    rows
}

fn match_kind_name(kind: MemoryMatchKind) -> &'static str {
    match kind {
        MemoryMatchKind::None => "none",
        MemoryMatchKind::Exact => "exact",
        MemoryMatchKind::Ternary => "ternary",
        MemoryMatchKind::Partitioned { .. } => "partitions",
        MemoryMatchKind::Alpm { .. } => "alpm",
    }
}

/// Returns the stages of a table: `pipe 0 ingress: 1-3, pipe 1 egress: 4`.
fn stage_ranges(attempt: &PlacementAttempt, pieces: &[asic::place::StagePlacement]) -> String {
    let mut ranges: Vec<(usize, u32, u32)> = Vec::new();
    for piece in pieces {
        match ranges.last_mut() {
            Some((hop, _, last)) if *hop == piece.hop && piece.stage <= *last + 1 => *last = (*last).max(piece.stage),
            _ => ranges.push((piece.hop, piece.stage, piece.stage)),
        }
    }
    if ranges.is_empty() {
        return "nowhere".to_owned();
    }
    let range_text = |(hop, first, last): (usize, u32, u32)| {
        let hop = &attempt.path.hops[hop];
        let gress = match hop.half {
            asic::place::PipeHalf::Ingress => "ingress",
            asic::place::PipeHalf::Egress => "egress",
        };
        let stages = if first == last { first.to_string() } else { format!("{first}-{last}") };
        format!("pipe {} {gress}: {stages}", hop.pipe)
    };
    ranges.into_iter().map(range_text).collect::<Vec<_>>().join(", ")
}

/// Returns the performance of a placed program.
pub fn performance(target: &ChipTarget, attempt: &PlacementAttempt) -> Option<Performance> {
    let placement = attempt.placed.as_ref().ok()?;
    Some(Performance {
        passes: attempt.path.pass_count(),
        packets_per_second: attempt.path.packets_per_second(target) as f64,
        bits_per_second: attempt.path.bits_per_second(target) as f64,
        latency_ns: attempt.path.latency_ns(target) as f64,
        bridged_bits: bridged_fields(&attempt.program, placement).iter().map(|crossing| crossing.bits).sum(),
        watts: target.power_w,
    })
}
