//! Independent check of a placement: completeness, order, and capacity.
//!
//! This check does not trust the algorithm that made the placement, and shares no code with it.

use super::{PipeHalf, Placement, StagePlacement};
use crate::demand::{DependencyKind, MemoryMatchKind, ResourceDemand, TableDemand};
use crate::memory;
use crate::target::{ChipTarget, StageResources};
use std::collections::BTreeMap;

/// Error in a placement.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlacementViolation {
    /// The placement belongs to another program.
    #[error("the placement has {placed} tables, the program {wanted}, or other names")]
    Tables {
        /// Tables in the placement.
        placed: usize,
        /// Tables of the program.
        wanted: usize,
    },
    /// A piece has a position outside the chip.
    #[error("{table}: there is no stage {stage} on hop {hop}")]
    Outside {
        /// Name of the table.
        table: String,
        /// Hop.
        hop: usize,
        /// Stage.
        stage: u32,
    },
    /// Some entries are not placed.
    #[error("{table}: {placed} entries are placed, {wanted} are required")]
    Entries {
        /// Name of the table.
        table: String,
        /// Placed entries.
        placed: u64,
        /// Required entries.
        wanted: u64,
    },
    /// A piece claims fewer resources than it needs.
    #[error("{table}: {entries} entries do not fit the resources of the piece at hop {hop}, stage {stage}")]
    Understated {
        /// Name of the table.
        table: String,
        /// Hop.
        hop: usize,
        /// Stage.
        stage: u32,
        /// Claimed number of entries.
        entries: u64,
    },
    /// The pieces exceed a resource of a stage.
    #[error("pipe {pipe}, stage {stage}: {taken} of {has} {resource} are taken")]
    Capacity {
        /// Pipe.
        pipe: u32,
        /// Stage.
        stage: u32,
        /// Name of the resource.
        resource: &'static str,
        /// Used amount.
        taken: u32,
        /// Available amount.
        has: u32,
    },
    /// A stage's total differs from the sum of its pieces.
    #[error("pipe {pipe}, stage {stage}: the total differs from the sum of the pieces")]
    Total {
        /// Pipe.
        pipe: u32,
        /// Stage.
        stage: u32,
    },
    /// A table is too close to one that it depends on.
    #[error("{second} must be {distance} stages after {first} ({kind:?} through {through}), and is not")]
    Order {
        /// Table that comes first.
        first: String,
        /// Table that depends on it.
        second: String,
        /// Kind of dependency.
        kind: DependencyKind,
        /// Field or condition that causes it.
        through: String,
        /// Required distance in stages.
        distance: u32,
    },
    /// A table is on the wrong side of the traffic manager.
    #[error("{table}: {rule}")]
    Side {
        /// Name of the table.
        table: String,
        /// Violated rule.
        rule: &'static str,
    },
}

/// Checks a placement against the demand of its program and the chip: entries, gress, capacities and
/// order. It shares no code with the search for placements.
///
/// # Errors
/// Returns all violations; if the tables are not those of the program, this one alone.
pub fn check_placement(
    target: &ChipTarget,
    program: &ResourceDemand,
    placement: &Placement,
) -> Result<(), Vec<PlacementViolation>> {
    let mut found = Vec::new();
    let has_same_tables = program.tables.iter().map(|t| &t.name).eq(placement.tables.iter().map(|t| &t.name));
    if !has_same_tables {
        return Err(vec![PlacementViolation::Tables { placed: placement.tables.len(), wanted: program.tables.len() }]);
    }
    for (n, table) in program.tables.iter().enumerate() {
        check_entries(placement, n, table, &mut found);
        for (index, piece) in placement.tables[n].pieces.iter().enumerate() {
            // The conditions before a table are evaluated in the stage of its first piece.
            let gateways = if index == 0 { condition_gateways(program, n) } else { (0, 0) };
            check_piece(target, placement, table, piece, gateways, &mut found);
        }
        check_gress(program, placement, n, &mut found);
    }
    check_capacities(target, placement, &mut found);
    check_order(program, placement, &mut found);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn check_entries(placement: &Placement, n: usize, table: &TableDemand, found: &mut Vec<PlacementViolation>) {
    let placed = &placement.tables[n];
    let count: u64 = placed.pieces.iter().map(|p| p.entries).sum();
    let factor = if table.keys.is_empty() { 1.0 } else { placement.scale };
    let wanted =
        memory::rows_needed(&TableDemand { entries: (table.entries as f64 * factor).floor() as u64, ..table.clone() });
    let enough = if table.kind == MemoryMatchKind::None { placed.pieces.len() == 1 } else { count >= wanted.max(1) };
    if !enough {
        found.push(PlacementViolation::Entries { table: table.name.clone(), placed: count, wanted });
    }
}

/// Returns the gateways and logical tables that a table's conditions take. A logical table has one
/// gateway, and a gateway compares 44 bits.
fn condition_gateways(program: &ResourceDemand, n: usize) -> (u32, u32) {
    let conditions = program.gateways.iter().filter(|g| g.table == Some(n));
    let (count, bits) = conditions.fold((0u32, 0u32), |(c, b), g| (c + 1, b.saturating_add(g.bits.min(44))));
    let gateways = bits.div_ceil(44).min(count).max(u32::from(count > 0));
    (gateways, gateways.saturating_sub(1))
}

/// Checks that the piece's entries fit its claimed resources by the memory model. The gateways and
/// logical tables before the piece are part of the claim.
fn check_piece(
    target: &ChipTarget,
    placement: &Placement,
    table: &TableDemand,
    piece: &StagePlacement,
    (gateways, tables): (u32, u32),
    found: &mut Vec<PlacementViolation>,
) {
    let name = || table.name.clone();
    if piece.hop >= placement.path.hops.len() || piece.stage >= target.stages {
        found.push(PlacementViolation::Outside { table: name(), hop: piece.hop, stage: piece.stage });
        return;
    }
    let has_gateways = piece.usage.gateways >= gateways && piece.usage.tables >= tables;
    let for_entries = piece.usage.minus(StageResources { gateways, tables, ..StageResources::default() });
    let entries = if table.kind == MemoryMatchKind::None { table.entries } else { piece.entries };
    let part = memory::fit_in_stage(target, table, entries, &for_entries);
    let holds_entries = part.is_some_and(|part| table.kind == MemoryMatchKind::None || part.entries >= piece.entries);
    if !(has_gateways && holds_entries) {
        found.push(PlacementViolation::Understated {
            table: name(),
            hop: piece.hop,
            stage: piece.stage,
            entries: piece.entries,
        });
    }
}

fn check_gress(program: &ResourceDemand, placement: &Placement, n: usize, found: &mut Vec<PlacementViolation>) {
    let last = placement.path.hops.iter().rposition(|h| h.half == PipeHalf::Ingress).unwrap_or(0);
    let hops = || placement.tables[n].pieces.iter().map(|p| p.hop);
    let mut broken = |rule| found.push(PlacementViolation::Side { table: program.tables[n].name.clone(), rule });
    let (egress, ports) = (program.egress.contains(&n), program.ports.contains(&n));
    if egress && hops().any(|h| h <= last) {
        broken("the program has it after the traffic manager");
    }
    if !egress && !program.egress.is_empty() && hops().any(|h| h > last) {
        broken("the program has it before the traffic manager");
    }
    if ports && !egress && hops().any(|h| h > last) {
        broken("it decides the output port, which the last traffic manager must know");
    }
}

fn check_capacities(target: &ChipTarget, placement: &Placement, found: &mut Vec<PlacementViolation>) {
    let mut taken: BTreeMap<(u32, u32), StageResources> = BTreeMap::new();
    for piece in placement.tables.iter().flat_map(|t| &t.pieces) {
        let Some(hop) = placement.path.hops.get(piece.hop) else { continue };
        let total = taken.entry((hop.pipe, piece.stage)).or_default();
        *total = total.plus(piece.usage);
    }
    for ((pipe, stage), usage) in taken {
        for ((resource, taken), (_, has)) in usage.fields().into_iter().zip(target.per_stage.fields()) {
            if taken > has {
                found.push(PlacementViolation::Capacity { pipe, stage, resource, taken, has });
            }
        }
        let told = placement.stages.iter().find(|s| s.pipe == pipe && s.stage == stage);
        if told.is_none_or(|t| t.usage != usage) {
            found.push(PlacementViolation::Total { pipe, stage });
        }
    }
}

fn check_order(program: &ResourceDemand, placement: &Placement, found: &mut Vec<PlacementViolation>) {
    for d in &program.dependencies {
        let pieces = |n: usize| placement.tables.get(n).map_or(&[][..], |t| &t.pieces);
        let end = pieces(d.first).iter().map(StagePlacement::position).max();
        let start = pieces(d.second).iter().map(StagePlacement::position).min();
        let (Some(end), Some(start)) = (end, start) else { continue };
        let far = if d.kind.min_stage_distance() == 0 { start >= end } else { start > end };
        if !far {
            let name = |n: usize| program.tables[n].name.clone();
            found.push(PlacementViolation::Order {
                first: name(d.first),
                second: name(d.second),
                kind: d.kind,
                through: d.through.clone(),
                distance: d.kind.min_stage_distance(),
            });
        }
    }
}
