//! One step of a plan: a program with its sizes, placed along a way through the pipes.

use super::report::{HeatRow, Performance, PipeHeat, Step, TableRow};
use asic::demand::{Match, Program};
use asic::memory::{Estimate, estimate};
use asic::place::{Objective, Path, Placement, Unplaced, bridged, heuristic};
use asic::target::{Target, Usage};

/// A program on its way onto a chip.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What it asks for.
    pub program: Program,
    /// The way of its packets.
    pub path: Path,
    /// Where its tables are, or why they are not.
    pub placed: Result<Placement, Unplaced>,
}

impl Attempt {
    /// Places a program by the fast heuristic.
    pub fn new(target: &Target, program: Program, path: Path, objective: Objective) -> Attempt {
        let placed = heuristic(target, &program, &path, objective);
        Attempt { program, path, placed }
    }

    /// The placement, or the nearest thing to one.
    pub fn shown(&self) -> Option<&Placement> {
        match &self.placed {
            Ok(placement) => Some(placement),
            Err(Unplaced::Full { nearest, .. }) => nearest.as_deref(),
            Err(_) => None,
        }
    }

    /// The step as a report shows it.
    pub fn step(&self, target: &Target, name: &str, what: &str) -> Step {
        let (sram, tcam) = shares(target, &self.program);
        Step {
            name: name.to_owned(),
            what: what.to_owned(),
            sram,
            tcam,
            placed: self.placed.is_ok(),
            heat: self.shown().map(|placement| heat(target, placement)).unwrap_or_default(),
        }
    }
}

/// SRAM and TCAM that all tables ask for, by papers' arithmetic, in per cent of a pipe's blocks.
pub fn shares(target: &Target, program: &Program) -> (f64, f64) {
    let one = |table| estimate(target, table);
    let sum = program.tables.iter().map(one).fold(Estimate::default(), Estimate::plus);
    let of_pipe = |per_stage: u32| 100.0 / f64::from((per_stage * target.stages).max(1));
    (sum.sram * of_pipe(target.per_stage.sram), sum.tcam * of_pipe(target.per_stage.tcam))
}

/// The resources that a heat map shows, with their names for people.
type Resource = (&'static str, fn(&Usage) -> u32);

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

/// The heat map of a placement.
pub fn heat(target: &Target, placement: &Placement) -> Vec<PipeHeat> {
    let pipe = |pipe: u32| PipeHeat {
        name: format!("pipe {pipe}"),
        rows: RESOURCES.iter().map(|resource| row(target, placement, pipe, resource)).collect(),
    };
    (0..placement.path.pipes()).map(pipe).collect()
}

fn row(target: &Target, placement: &Placement, pipe: u32, (name, of): &Resource) -> HeatRow {
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
        used: stages.clone().map(|stage| of(&placement.total(pipe, stage))).collect(),
        of: stages.clone().map(|_| of(&target.per_stage)).collect(),
        tables: stages.map(tables).collect(),
    }
}

/// The tables of an attempt as a report lists them. Steps of code and tables without key are left out.
pub fn tables(attempt: &Attempt) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for (n, table) in attempt.program.tables.iter().enumerate().filter(|(_, table)| !table.keys.is_empty()) {
        let placed = attempt.shown().and_then(|placement| placement.tables.get(n));
        let pieces = placed.map(|p| p.pieces.as_slice()).unwrap_or_default();
        let sum = |of: fn(&Usage) -> u32| pieces.iter().map(|p| of(&p.usage)).sum();
        rows.push(TableRow {
            name: table.name.clone(),
            kind: kind(table.kind),
            key_bits: table.key_bits(),
            entries: table.entries,
            sram: sum(|u| u.sram),
            tcam: sum(|u| u.tcam),
            places: places(attempt, pieces),
        });
    }
    rows
}

fn kind(kind: Match) -> &'static str {
    match kind {
        Match::None => "none",
        Match::Exact => "exact",
        Match::Ternary => "ternary",
        Match::Partitioned { .. } => "partitions",
        Match::Alpm { .. } => "alpm",
    }
}

/// `pipe 0 ingress: 1-3, pipe 1 egress: 4`.
fn places(attempt: &Attempt, pieces: &[asic::place::Piece]) -> String {
    let mut parts: Vec<(usize, u32, u32)> = Vec::new();
    for piece in pieces {
        match parts.last_mut() {
            Some((hop, _, last)) if *hop == piece.hop && piece.stage <= *last + 1 => *last = (*last).max(piece.stage),
            _ => parts.push((piece.hop, piece.stage, piece.stage)),
        }
    }
    if parts.is_empty() {
        return "nowhere".to_owned();
    }
    let one = |(hop, first, last): (usize, u32, u32)| {
        let hop = &attempt.path.hops[hop];
        let half = match hop.half {
            asic::place::Half::Ingress => "ingress",
            asic::place::Half::Egress => "egress",
        };
        let stages = if first == last { first.to_string() } else { format!("{first}-{last}") };
        format!("pipe {} {half}: {stages}", hop.pipe)
    };
    parts.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a placed program does per second.
pub fn performance(target: &Target, attempt: &Attempt) -> Option<Performance> {
    let placement = attempt.placed.as_ref().ok()?;
    Some(Performance {
        passes: attempt.path.passes(),
        packets_per_second: attempt.path.packets_per_second(target) as f64,
        bits_per_second: attempt.path.bits_per_second(target) as f64,
        latency_ns: attempt.path.latency_ns(target) as f64,
        bridged_bits: bridged(&attempt.program, placement).iter().map(|crossing| crossing.bits).sum(),
        watts: target.power_w,
    })
}
