//! Placement of a program's tables on a chip.
//!
//! A [`Placement`] assigns each table's entries to stages of pipes. [`heuristic()`] finds one in a
//! fraction of a second. [`optimum()`] continues to the best one, or to a bound on the best.
//! [`check_placement()`] shares no code with either and verifies that a placement fits.
//! [`find_binding()`] reports the resource that prevents more entries.

mod binding_resource;
mod bisection;
mod bounds;
mod bridge;
mod check;
mod heuristic;
mod list_scheduler;
mod lp_relaxation;
mod model;
mod optimum;
mod orders;
mod path;
mod solve;
mod squeaky_wheel;

pub use binding_resource::{BindingResource, find_binding};
pub use bisection::is_possible;
pub use bridge::{BridgedFields, bridged_fields};
pub use check::{PlacementViolation, check_placement};
pub use heuristic::heuristic;
pub use optimum::{SearchProgress, SolvedPlacement, optimum};
pub use path::{FoldError, GressHop, PipeHalf, PipePath};

use crate::demand::{ResourceDemand, TableDemand};
use crate::memory::{self, MemoryError, TableLayout};
use crate::target::{ChipTarget, StageResources};
use serde::{Deserialize, Serialize};

/// Objective by which placements that fit are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Any placement that fits.
    Fits,
    /// Minimize the number of stages: [`Placement::stages_used`].
    FewestStages,
    /// Minimize the fullest stage's utilization: [`Placement::max_utilization`].
    MostHeadroom,
    /// Maximize the factor by which tables can grow: [`Placement::scale`].
    MostEntries,
}

/// Entries of a table in one stage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StagePlacement {
    /// Index in [`PipePath::hops`].
    pub hop: usize,
    /// Stage, from 0.
    pub stage: u32,
    /// Capacity in entries, or in rows if an entry takes several (ranges).
    pub entries: u64,
    /// Resources of the stage in use, including gateways.
    pub usage: StageResources,
    /// Layout of the entries.
    pub layout: TableLayout,
}

impl StagePlacement {
    /// Returns the position in packet order: hop, then stage.
    pub fn position(&self) -> (usize, u32) {
        (self.hop, self.stage)
    }
}

/// A table with its pieces, in packet order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TablePlacement {
    /// Control-plane name, or name of a code step.
    pub name: String,
    /// Required number of entries.
    pub entries: u64,
    /// Pieces in packet order.
    pub pieces: Vec<StagePlacement>,
}

/// Resources of one stage of one pipe in use by both gresses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageTotal {
    /// Pipe.
    pub pipe: u32,
    /// Stage, from 0.
    pub stage: u32,
    /// Resources in use.
    pub usage: StageResources,
}

/// Assignment of a program's tables to stages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Placement {
    /// The chip.
    pub target: String,
    /// Path of a packet.
    pub path: PipePath,
    /// Factor by which each table's entries are multiplied. 1 unless a larger scale was requested.
    pub scale: f64,
    /// Placement of each of [`ResourceDemand::tables`].
    pub tables: Vec<TablePlacement>,
    /// Totals of all stages of the path's pipes, pipe by pipe.
    pub stages: Vec<StageTotal>,
}

impl Placement {
    /// Creates a placement and computes the totals. `pieces` has a list for each table.
    fn new(
        target: &ChipTarget,
        program: &ResourceDemand,
        path: &PipePath,
        scale: f64,
        pieces: Vec<Vec<StagePlacement>>,
    ) -> Placement {
        let tables = program.tables.iter().zip(pieces).map(|(table, mut pieces)| {
            pieces.sort_by_key(StagePlacement::position);
            TablePlacement { name: table.name.clone(), entries: scaled_entries(table, scale), pieces }
        });
        let mut placement = Placement {
            target: target.name.clone(),
            path: path.clone(),
            scale,
            tables: tables.collect(),
            stages: Vec::new(),
        };
        placement.stages = stage_totals(target, path, &placement.tables);
        placement
    }

    /// Returns the number of stages that each pipe needs.
    pub fn stages_used(&self) -> u32 {
        let pieces = self.tables.iter().flat_map(|t| &t.pieces);
        pieces.map(|p| p.stage + 1).max().unwrap_or(0)
    }

    /// Returns the highest utilization of SRAM, map RAM or TCAM in any stage, from 0 to 1.
    pub fn max_utilization(&self, target: &ChipTarget) -> f64 {
        self.stages.iter().map(|s| memory_utilization(&s.usage, &target.per_stage)).fold(0.0, f64::max)
    }

    /// Returns the resources of a stage in use.
    pub fn stage_usage(&self, pipe: u32, stage: u32) -> StageResources {
        self.stages.iter().find(|s| s.pipe == pipe && s.stage == stage).map_or(StageResources::default(), |s| s.usage)
    }
}

/// Returns the highest utilization of a stage's memories.
fn memory_utilization(taken: &StageResources, has: &StageResources) -> f64 {
    let share = |taken: u32, has: u32| if has == 0 { 0.0 } else { f64::from(taken) / f64::from(has) };
    share(taken.sram, has.sram).max(share(taken.map_ram, has.map_ram)).max(share(taken.tcam, has.tcam))
}

/// Returns the entries that a table must hold at a scale.
fn scaled_entries(table: &TableDemand, scale: f64) -> u64 {
    if table.keys.is_empty() || scale == 1.0 {
        table.entries
    } else {
        ((table.entries as f64) * scale).ceil().max(1.0) as u64
    }
}

/// Returns the rows that a table needs at a scale. They exceed the entries if ranges take several
/// rows or spare rows are needed.
fn scaled_rows(table: &TableDemand, scale: f64) -> u64 {
    memory::rows_needed(&TableDemand { entries: scaled_entries(table, scale), ..table.clone() }).max(1)
}

fn stage_totals(target: &ChipTarget, path: &PipePath, tables: &[TablePlacement]) -> Vec<StageTotal> {
    let stages = (0..path.pipe_count()).flat_map(|pipe| (0..target.stages).map(move |stage| (pipe, stage)));
    let mut all: Vec<StageTotal> =
        stages.map(|(pipe, stage)| StageTotal { pipe, stage, usage: StageResources::default() }).collect();
    for piece in tables.iter().flat_map(|t| &t.pieces) {
        let pipe = path.hops.get(piece.hop).map_or(u32::MAX, |h| h.pipe);
        if let Some(total) = all.iter_mut().find(|s| s.pipe == pipe && s.stage == piece.stage) {
            total.usage = total.usage.plus(piece.usage);
        }
    }
    all
}

/// Reason why a program has no placement, with the nearest one.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PlacementError {
    /// A table does not fit any stage of this chip.
    #[error(transparent)]
    Table(#[from] MemoryError),
    /// The longest chain of tables exceeds the stages.
    #[error(
        "a chain of dependent tables takes {needs} stages, and the packet passes {has} up to the last allowed gress of its last table \
         ({halves} gresses): {chain}; fold more pipes into one, or shorten the chain"
    )]
    Chain {
        /// Stages that the chain needs.
        needs: u64,
        /// Stages on the path up to the last allowed hop of its last table.
        has: u64,
        /// Hops up to there.
        halves: u64,
        /// Tables of the chain.
        chain: String,
    },
    /// A resource is exhausted, or the search ran out of time without a placement.
    #[error("{}{}", binding.sentence, nearest_text(nearest))]
    Full {
        /// Binding resource.
        binding: BindingResource,
        /// The placement with the largest fitting scale, below 1.
        nearest: Option<Box<Placement>>,
    },
}

fn nearest_text(nearest: &Option<Box<Placement>>) -> String {
    match nearest {
        Some(p) => format!("; {:.0} % of each table's entries fit", (p.scale * 100.0).floor()),
        None => "; not even a small part of each table's entries was seen to fit".to_owned(),
    }
}
