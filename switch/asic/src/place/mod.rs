//! Where a program's tables go on a chip.
//!
//! A [`Placement`] says which entries of which table lie in which stage of which pipe. [`heuristic()`] finds one in a fraction of a second,
//! [`optimum()`] goes on to the best one, or says how far off the best can be. [`check()`] shares no code with either: whatever it passes,
//! fits. [`binding()`] says what stands in the way of more.

mod attempt;
mod binding;
mod bounds;
mod bridge;
mod check;
mod heuristic;
mod insist;
mod model;
mod narrow;
mod optimum;
mod orders;
mod path;
mod relaxed;
mod solve;

pub use binding::{Binding, binding};
pub use bridge::{Bridged, bridged};
pub use check::{Violation, check};
pub use heuristic::heuristic;
pub use narrow::possible;
pub use optimum::{Progress, Solved, optimum};
pub use path::{FoldError, Half, Hop, Path};

use crate::demand::{Program, Table};
use crate::memory::{self, Layout, MemoryError};
use crate::target::{Target, Usage};
use serde::{Deserialize, Serialize};

/// What makes one placement better than another. Each of them fits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Any that fits.
    Fits,
    /// The highest stage used is low: [`Placement::stages_used`].
    FewestStages,
    /// The fullest stage is the least full: [`Placement::fullest`].
    MostHeadroom,
    /// Tables could hold this many times their entries: [`Placement::scale`].
    MostEntries,
}

/// Entries of a table in one stage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// Index in [`Path::hops`].
    pub hop: usize,
    /// Stage, from 0.
    pub stage: u32,
    /// Entries that it has room for; rows, where an entry is several (ranges).
    pub entries: u64,
    /// What it takes of the stage, gateways included.
    pub usage: Usage,
    /// How the entries lie.
    pub layout: Layout,
}

impl Piece {
    /// When a packet meets it: hop, then stage.
    pub fn position(&self) -> (usize, u32) {
        (self.hop, self.stage)
    }
}

/// A table with the pieces of it, in the order in which a packet meets them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// Control-plane name, or that of a step of code.
    pub name: String,
    /// Entries that it must hold.
    pub entries: u64,
    /// Its pieces.
    pub pieces: Vec<Piece>,
}

/// What is taken of one stage of one pipe, by both halves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageTotal {
    /// Pipe.
    pub pipe: u32,
    /// Stage, from 0.
    pub stage: u32,
    /// What is taken.
    pub usage: Usage,
}

/// Where a program's tables are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Placement {
    /// The chip.
    pub target: String,
    /// The way of a packet.
    pub path: Path,
    /// How many times its entries each table holds; 1 unless more were asked for.
    pub scale: f64,
    /// For each of [`Program::tables`], where it is.
    pub tables: Vec<Placed>,
    /// Totals of all stages of all pipes of the path, pipe by pipe.
    pub stages: Vec<StageTotal>,
}

impl Placement {
    /// Puts pieces together and adds up. `pieces` has a list for each table.
    fn new(target: &Target, program: &Program, path: &Path, scale: f64, pieces: Vec<Vec<Piece>>) -> Placement {
        let tables = program.tables.iter().zip(pieces).map(|(table, mut pieces)| {
            pieces.sort_by_key(Piece::position);
            Placed { name: table.name.clone(), entries: scaled(table, scale), pieces }
        });
        let mut placement = Placement {
            target: target.name.clone(),
            path: path.clone(),
            scale,
            tables: tables.collect(),
            stages: Vec::new(),
        };
        placement.stages = totals(target, path, &placement.tables);
        placement
    }

    /// The stages that it needs a pipe to have.
    pub fn stages_used(&self) -> u32 {
        let pieces = self.tables.iter().flat_map(|t| &t.pieces);
        pieces.map(|p| p.stage + 1).max().unwrap_or(0)
    }

    /// The largest share of SRAM, map RAM or TCAM that is taken of any stage, from 0 to 1.
    pub fn fullest(&self, target: &Target) -> f64 {
        self.stages.iter().map(|s| fullness(&s.usage, &target.per_stage)).fold(0.0, f64::max)
    }

    /// What is taken of a stage.
    pub fn total(&self, pipe: u32, stage: u32) -> Usage {
        self.stages.iter().find(|s| s.pipe == pipe && s.stage == stage).map_or(Usage::default(), |s| s.usage)
    }
}

/// The largest share that is taken of a stage's memories.
fn fullness(taken: &Usage, has: &Usage) -> f64 {
    let share = |taken: u32, has: u32| if has == 0 { 0.0 } else { f64::from(taken) / f64::from(has) };
    share(taken.sram, has.sram).max(share(taken.map_ram, has.map_ram)).max(share(taken.tcam, has.tcam))
}

/// Entries that a table must hold at a scale.
fn scaled(table: &Table, scale: f64) -> u64 {
    if table.keys.is_empty() || scale == 1.0 {
        table.entries
    } else {
        ((table.entries as f64) * scale).ceil().max(1.0) as u64
    }
}

/// Rows of memory for that: more than entries where a range is several rows, or spare ones are needed.
fn rows(table: &Table, scale: f64) -> u64 {
    memory::wanted(&Table { entries: scaled(table, scale), ..table.clone() }).max(1)
}

fn totals(target: &Target, path: &Path, tables: &[Placed]) -> Vec<StageTotal> {
    let stages = (0..path.pipes()).flat_map(|pipe| (0..target.stages).map(move |stage| (pipe, stage)));
    let mut all: Vec<StageTotal> =
        stages.map(|(pipe, stage)| StageTotal { pipe, stage, usage: Usage::default() }).collect();
    for piece in tables.iter().flat_map(|t| &t.pieces) {
        let pipe = path.hops.get(piece.hop).map_or(u32::MAX, |h| h.pipe);
        if let Some(total) = all.iter_mut().find(|s| s.pipe == pipe && s.stage == piece.stage) {
            total.usage = total.usage.plus(piece.usage);
        }
    }
    all
}

/// Why a program has no placement, and what comes nearest.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Unplaced {
    /// A table does not go on this chip at any place.
    #[error(transparent)]
    Table(#[from] MemoryError),
    /// The order of tables alone takes more stages than there are.
    #[error(
        "a chain of tables takes {needs} stages, one behind the other, and the packet passes {has} up to where its last one may be \
         ({halves} halves of pipes): {chain}; fold more pipes into one, or shorten the chain"
    )]
    Chain {
        /// Stages that it takes.
        needs: u64,
        /// Stages on the path up to the last half that may have its last table.
        has: u64,
        /// Halves of pipes up to there.
        halves: u64,
        /// The chain's tables.
        chain: String,
    },
    /// There is not enough of something. (Or no placement was found in time, where none is known to be impossible.)
    #[error("{}{}", binding.sentence, nearest_text(nearest))]
    Full {
        /// What binds.
        binding: Binding,
        /// The most of all tables' entries that was seen to fit: its scale is below 1.
        nearest: Option<Box<Placement>>,
    },
}

fn nearest_text(nearest: &Option<Box<Placement>>) -> String {
    match nearest {
        Some(p) => format!("; {:.0} % of each table's entries fit", (p.scale * 100.0).floor()),
        None => "; not even a small part of each table's entries was seen to fit".to_owned(),
    }
}
