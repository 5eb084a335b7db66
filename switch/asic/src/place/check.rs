//! Whether a placement is one: everything is there, in order, and nothing is taken twice.
//!
//! This does not trust whoever made the placement, and shares no code with it.

use super::{Half, Piece, Placement};
use crate::demand::{DependencyKind, Match, Program, Table};
use crate::memory;
use crate::target::{Target, Usage};
use std::collections::BTreeMap;

/// What is wrong with a placement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Violation {
    /// The placement is not of this program.
    #[error("the placement has {placed} tables, the program {wanted}, or other names")]
    Tables {
        /// Tables in the placement.
        placed: usize,
        /// Tables of the program.
        wanted: usize,
    },
    /// A piece lies nowhere on the chip.
    #[error("{table}: there is no stage {stage} on hop {hop}")]
    Outside {
        /// The table.
        table: String,
        /// Hop.
        hop: usize,
        /// Stage.
        stage: u32,
    },
    /// Not all entries have a place.
    #[error("{table}: {placed} entries have a place, {wanted} are wanted")]
    Entries {
        /// The table.
        table: String,
        /// Entries with a place.
        placed: u64,
        /// Entries wanted.
        wanted: u64,
    },
    /// A piece says that it takes less than it does.
    #[error("{table}: {entries} entries do not lie in what the piece at hop {hop}, stage {stage} takes")]
    Untrue {
        /// The table.
        table: String,
        /// Hop.
        hop: usize,
        /// Stage.
        stage: u32,
        /// Entries that it is said to hold.
        entries: u64,
    },
    /// More is taken of a stage than it has.
    #[error("pipe {pipe}, stage {stage}: {taken} of {has} {resource} are taken")]
    Capacity {
        /// Pipe.
        pipe: u32,
        /// Stage.
        stage: u32,
        /// What there is too little of.
        resource: &'static str,
        /// What is taken.
        taken: u32,
        /// What there is.
        has: u32,
    },
    /// The totals are not the sums.
    #[error("pipe {pipe}, stage {stage}: the total is not what the pieces take")]
    Total {
        /// Pipe.
        pipe: u32,
        /// Stage.
        stage: u32,
    },
    /// A table is not far enough behind one that it depends on.
    #[error("{second} must be {distance} stages behind {first} ({kind:?} through {through}), and is not")]
    Order {
        /// Which must come first.
        first: String,
        /// Which must come behind.
        second: String,
        /// Why.
        kind: DependencyKind,
        /// Through what.
        through: String,
        /// Stages between.
        distance: u32,
    },
    /// A table is on the wrong side of the traffic manager.
    #[error("{table}: {rule}")]
    Side {
        /// The table.
        table: String,
        /// What it breaks.
        rule: &'static str,
    },
}

/// Checks a placement against program and chip.
///
/// # Errors
/// All that is wrong with it.
pub fn check(target: &Target, program: &Program, placement: &Placement) -> Result<(), Vec<Violation>> {
    let mut found = Vec::new();
    let names = program.tables.iter().map(|t| &t.name).eq(placement.tables.iter().map(|t| &t.name));
    if !names {
        return Err(vec![Violation::Tables { placed: placement.tables.len(), wanted: program.tables.len() }]);
    }
    for (n, table) in program.tables.iter().enumerate() {
        entries(placement, n, table, &mut found);
        for (first, piece) in placement.tables[n].pieces.iter().enumerate() {
            let gateways = if first == 0 { gateways(program, n) } else { (0, 0) };
            holds(target, placement, table, piece, gateways, &mut found);
        }
        sides(program, placement, n, &mut found);
    }
    capacities(target, placement, &mut found);
    order(program, placement, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn entries(placement: &Placement, n: usize, table: &Table, found: &mut Vec<Violation>) {
    let placed = &placement.tables[n];
    let count: u64 = placed.pieces.iter().map(|p| p.entries).sum();
    let factor = if table.keys.is_empty() { 1.0 } else { placement.scale };
    let wanted = memory::wanted(&Table { entries: (table.entries as f64 * factor).floor() as u64, ..table.clone() });
    let enough = if table.kind == Match::None { placed.pieces.len() == 1 } else { count >= wanted.max(1) };
    if !enough {
        found.push(Violation::Entries { table: table.name.clone(), placed: count, wanted });
    }
}

/// Gateways and logical tables that a table's conditions take: a logical table has one gateway, and a gateway compares 44 bits.
fn gateways(program: &Program, n: usize) -> (u32, u32) {
    let conditions = program.gateways.iter().filter(|g| g.table == Some(n));
    let (count, bits) = conditions.fold((0u32, 0u32), |(c, b), g| (c + 1, b.saturating_add(g.bits.min(44))));
    let gateways = bits.div_ceil(44).min(count).max(u32::from(count > 0));
    (gateways, gateways.saturating_sub(1))
}

/// Whether the memory model puts as many entries into what the piece takes.
fn holds(
    target: &Target,
    placement: &Placement,
    table: &Table,
    piece: &Piece,
    (gateways, tables): (u32, u32),
    found: &mut Vec<Violation>,
) {
    let name = || table.name.clone();
    if piece.hop >= placement.path.hops.len() || piece.stage >= target.stages {
        found.push(Violation::Outside { table: name(), hop: piece.hop, stage: piece.stage });
        return;
    }
    let enough = piece.usage.gateways >= gateways && piece.usage.tables >= tables;
    let rest = piece.usage.minus(Usage { gateways, tables, ..Usage::default() });
    let wanted = if table.kind == Match::None { table.entries } else { piece.entries };
    let there = memory::fit(target, table, wanted, &rest);
    let true_ = there.is_some_and(|part| table.kind == Match::None || part.entries >= piece.entries);
    if !(enough && true_) {
        found.push(Violation::Untrue { table: name(), hop: piece.hop, stage: piece.stage, entries: piece.entries });
    }
}

fn sides(program: &Program, placement: &Placement, n: usize, found: &mut Vec<Violation>) {
    let last = placement.path.hops.iter().rposition(|h| h.half == Half::Ingress).unwrap_or(0);
    let hops = || placement.tables[n].pieces.iter().map(|p| p.hop);
    let mut broken = |rule| found.push(Violation::Side { table: program.tables[n].name.clone(), rule });
    let (egress, ports) = (program.egress.contains(&n), program.ports.contains(&n));
    if egress && hops().any(|h| h <= last) {
        broken("the program has it behind the traffic manager");
    }
    if !egress && !program.egress.is_empty() && hops().any(|h| h > last) {
        broken("the program has it before the traffic manager");
    }
    if ports && !egress && hops().any(|h| h > last) {
        broken("it decides the output port, which the last traffic manager must know");
    }
}

fn capacities(target: &Target, placement: &Placement, found: &mut Vec<Violation>) {
    let mut taken: BTreeMap<(u32, u32), Usage> = BTreeMap::new();
    for piece in placement.tables.iter().flat_map(|t| &t.pieces) {
        let Some(hop) = placement.path.hops.get(piece.hop) else { continue };
        let total = taken.entry((hop.pipe, piece.stage)).or_default();
        *total = total.plus(piece.usage);
    }
    for ((pipe, stage), usage) in taken {
        for ((resource, taken), (_, has)) in usage.fields().into_iter().zip(target.per_stage.fields()) {
            if taken > has {
                found.push(Violation::Capacity { pipe, stage, resource, taken, has });
            }
        }
        let told = placement.stages.iter().find(|s| s.pipe == pipe && s.stage == stage);
        if told.is_none_or(|t| t.usage != usage) {
            found.push(Violation::Total { pipe, stage });
        }
    }
}

fn order(program: &Program, placement: &Placement, found: &mut Vec<Violation>) {
    for d in &program.dependencies {
        let pieces = |n: usize| placement.tables.get(n).map_or(&[][..], |t| &t.pieces);
        let end = pieces(d.first).iter().map(Piece::position).max();
        let start = pieces(d.second).iter().map(Piece::position).min();
        let (Some(end), Some(start)) = (end, start) else { continue };
        let far = if d.kind.distance() == 0 { start >= end } else { start > end };
        if !far {
            let name = |n: usize| program.tables[n].name.clone();
            found.push(Violation::Order {
                first: name(d.first),
                second: name(d.second),
                kind: d.kind,
                through: d.through.clone(),
                distance: d.kind.distance(),
            });
        }
    }
}
