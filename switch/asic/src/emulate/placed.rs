//! [`PlacementMap`]: placement of a pipeline's tables, as the emulated switch needs it.

use crate::demand::ResourceDemand;
use crate::place::{GressHop, PipeHalf, Placement, StagePlacement};
use crate::target::ChipTarget;
use ir::{Arch, ControlKind, Pipeline, TableId, Terminator};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Gress of a pass. Both gresses use the same stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Gress {
    /// Between a port (or the loopback) and the traffic manager.
    Ingress,
    /// Between the traffic manager and a port (or the loopback).
    Egress,
}

/// One pass of a packet through the stages of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PipePass {
    /// Pipe, from 0.
    pub pipe: u32,
    /// Gress.
    pub gress: Gress,
}

/// Entries of a table in one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PlacedPart {
    /// Index in [`PlacementMap::passes`].
    pub pass: u32,
    /// Stage of the pipe, from 0.
    pub stage: u32,
    /// Capacity in entries, in each of the parallel pipes if the table is split.
    pub capacity: u64,
}

/// Function that spreads packets and entries over parallel pipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PipeSpread {
    /// Low bits of the key's value, shifted right by this number of bits.
    Bit(u32),
    /// Parity of all bits of the value, for two pipes.
    Parity,
    /// CRC-32 of the value's bytes in network order.
    Hash,
}

/// Split of a table's entries between parallel pipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ParallelSplit {
    /// Position in [`ir::Table::keys`] of the deciding key. An entry with wildcard bits in this key
    /// (a prefix, a mask) is in all pipes.
    pub key: usize,
    /// Function of the key's value.
    pub by: PipeSpread,
    /// Number of pipes, at least 1.
    pub pipes: u32,
}

/// Placement of one table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlacedTable {
    /// Parts in packet order: passes do not decrease, and stages increase within a pass.
    pub parts: Vec<PlacedPart>,
    /// Split between parallel pipes, if any.
    pub split: Option<ParallelSplit>,
}

/// Placement of a pipeline's tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlacementMap {
    /// Stages of a pipe.
    pub stages: u32,
    /// Passes of a packet in order. They alternate, starting with an ingress and ending with an
    /// egress. An ingress is followed by the traffic manager, an egress other than the last by a
    /// loopback.
    pub passes: Vec<PipePass>,
    /// Placement by table. A program with an applied table that is missing here is refused.
    pub tables: BTreeMap<TableId, PlacedTable>,
}

/// Reason why no chip can run a placement.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlacementMapError {
    /// The passes do not alternate.
    #[error("the passes are no path through a chip: they begin with an ingress, end with an egress, and alternate")]
    Passes,
    /// A table is not placed.
    #[error("table {table} is applied, but has no place on the chip; place it, or cut it off for the tier below")]
    NoPlace {
        /// Name of the table.
        table: String,
    },
    /// A part is out of range or out of order.
    #[error("table {table}: its part in pass {pass}, stage {stage} {what}")]
    Part {
        /// Name of the table.
        table: String,
        /// The pass.
        pass: u32,
        /// The stage.
        stage: u32,
        /// Description of the error.
        what: &'static str,
    },
    /// A table is split by a key that does not exist.
    #[error(
        "table {table} is split by key {key} between {pipes} pipes; it has {keys} keys, and there is at least one pipe"
    )]
    Split {
        /// Name of the table.
        table: String,
        /// Position of the key.
        key: usize,
        /// Number of pipes.
        pipes: u32,
        /// Number of keys of the table.
        keys: usize,
    },
    /// An egress table comes before an ingress table.
    #[error(
        "v1model: table {egress} of egress is in pass {egress_pass}, and {ingress} of ingress in pass {ingress_pass}: no traffic manager is between"
    )]
    Boundary {
        /// Egress table.
        egress: String,
        /// Its first pass.
        egress_pass: u32,
        /// Ingress table.
        ingress: String,
        /// Its last pass.
        ingress_pass: u32,
    },
}

impl PlacementMap {
    /// Returns the passes of `folds` pipes in sequence (1: a packet passes one pipe): ingress 0,
    /// egress 1 with its loopback, ingress 1, and so on, and finally egress 0.
    pub fn folded_passes(folds: u32) -> Vec<PipePass> {
        let folds = folds.max(1);
        let pass = |index: u32| match index % 2 {
            0 => PipePass { pipe: index / 2, gress: Gress::Ingress },
            _ => PipePass { pipe: (index / 2 + 1) % folds, gress: Gress::Egress },
        };
        (0..2 * folds).map(pass).collect()
    }

    /// Checks that a chip can run this placement of the pipeline.
    ///
    /// # Errors
    /// [`PlacementMapError`].
    pub fn check_pipeline(&self, pipeline: &Pipeline) -> Result<(), PlacementMapError> {
        let expected = |index: usize| if index.is_multiple_of(2) { Gress::Ingress } else { Gress::Egress };
        let is_alternating = self.passes.iter().enumerate().all(|(index, pass)| pass.gress == expected(index));
        if self.passes.is_empty() || self.passes.len() % 2 == 1 || !is_alternating {
            return Err(PlacementMapError::Passes);
        }
        for table in applied_tables(pipeline, |_| true) {
            let name = || pipeline.tables[table].preamble.name.clone();
            match self.tables.get(&table) {
                Some(placed) if !placed.parts.is_empty() => self.check_table(pipeline, table, placed)?,
                _ => return Err(PlacementMapError::NoPlace { table: name() }),
            }
        }
        for table in applied_tables(pipeline, |kind| kind == ControlKind::PreControl) {
            if let Some(part) = self.tables[&table].parts.iter().find(|part| part.pass != 0) {
                let (table, reason) = (
                    pipeline.tables[table].preamble.name.clone(),
                    "is needed before the parser: only the first pass can have it",
                );
                return Err(PlacementMapError::Part { table, pass: part.pass, stage: part.stage, what: reason });
            }
        }
        self.boundary_pass(pipeline).map(drop)
    }

    /// Checks that the parts of a table are in existing passes and stages, in the order in which a
    /// packet meets them, and that a split names an existing key.
    fn check_table(&self, pipeline: &Pipeline, id: TableId, placed: &PlacedTable) -> Result<(), PlacementMapError> {
        let declared = &pipeline.tables[id];
        let part_error = |part: &PlacedPart, reason| PlacementMapError::Part {
            table: declared.preamble.name.clone(),
            pass: part.pass,
            stage: part.stage,
            what: reason,
        };
        let mut last = None;
        for part in &placed.parts {
            if part.pass as usize >= self.passes.len() {
                return Err(part_error(part, "is in a pass that does not exist"));
            }
            if part.stage >= self.stages {
                return Err(part_error(part, "is beyond the last stage"));
            }
            if last.is_some_and(|last| last >= (part.pass, part.stage)) {
                return Err(part_error(part, "comes after one that a packet meets later"));
            }
            last = Some((part.pass, part.stage));
        }
        match placed.split {
            Some(ParallelSplit { key, pipes, .. }) if key >= declared.keys.len() || pipes == 0 => {
                Err(PlacementMapError::Split {
                    table: declared.preamble.name.clone(),
                    key,
                    pipes,
                    keys: declared.keys.len(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns the first pass of v1model's egress, or for PNA the last pass, which has the
    /// deparser.
    ///
    /// # Errors
    /// [`PlacementMapError::Boundary`]: an egress table comes before an ingress table.
    pub fn boundary_pass(&self, pipeline: &Pipeline) -> Result<u32, PlacementMapError> {
        let last = self.passes.len() as u32 - 1;
        if pipeline.arch == Arch::Pna {
            return Ok(last);
        }
        let passes_of = |kind, select_pass: fn(&PlacedTable) -> Option<u32>| {
            applied_tables(pipeline, move |k| k == kind)
                .into_iter()
                .filter_map(move |table| Some((select_pass(self.tables.get(&table)?)?, table)))
        };
        let first = passes_of(ControlKind::Egress, |t| t.parts.first().map(|p| p.pass)).min();
        let ingress = passes_of(ControlKind::Ingress, |t| t.parts.last().map(|p| p.pass)).max();
        let Some((egress_pass, egress)) = first else { return Ok(last) };
        // Egress begins after a traffic manager, in the egress at or before its first table.
        let egress_begin = if egress_pass % 2 == 1 { Some(egress_pass) } else { egress_pass.checked_sub(1) };
        match (egress_begin, ingress) {
            (Some(egress_begin), None) => Ok(egress_begin),
            (Some(egress_begin), Some((ingress_pass, _))) if ingress_pass < egress_begin => Ok(egress_begin),
            (_, ingress) => {
                let name = |table: TableId| pipeline.tables[table].preamble.name.clone();
                Err(PlacementMapError::Boundary {
                    egress: name(egress),
                    egress_pass,
                    ingress: ingress.map_or_else(String::new, |(_, table)| name(table)),
                    ingress_pass: ingress.map_or(0, |(pass, _)| pass),
                })
            }
        }
    }
}

/// Returns the tables that are applied in controls of the given kinds.
pub fn applied_tables(pipeline: &Pipeline, of: impl Fn(ControlKind) -> bool) -> BTreeSet<TableId> {
    let controls = pipeline.controls.values().filter(|control| of(control.kind));
    let terms = controls.flat_map(|control| control.body.blocks.values()).filter_map(|block| block.term.as_ref());
    terms.filter_map(|term| if let Terminator::Apply { table, .. } = term.term { Some(table) } else { None }).collect()
}

impl PipeSpread {
    /// Returns the pipe of a value (words, least significant first, of `width` bits).
    pub fn pipe_of(self, value: &[u64], width: u32, pipes: u32) -> u32 {
        let pipes = u64::from(pipes.max(1));
        let number = match self {
            PipeSpread::Bit(by) => {
                let word = value.get(by as usize / 64).copied().unwrap_or(0);
                let next = value.get(by as usize / 64 + 1).copied().unwrap_or(0);
                let both = u128::from(word) | u128::from(next) << 64;
                (both >> (by % 64)) as u64
            }
            PipeSpread::Parity => u64::from(value.iter().map(|word| word.count_ones()).sum::<u32>() & 1),
            PipeSpread::Hash => {
                let bytes = width.div_ceil(8) as usize;
                let all: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
                let all: Vec<u8> = all.into_iter().rev().collect();
                interp::host::hash(ir::HashAlgorithm::Crc32, &all)
            }
        };
        (number % pipes) as u32
    }
}

impl PlacementMap {
    /// Converts the placement of a resource demand. Code steps between tables are excluded, because
    /// the switch runs code as soon as its inputs are available.
    ///
    /// # Errors
    /// [`PlacementMapError::NoPlace`]: the placement belongs to another program.
    pub fn from_placement(
        target: &ChipTarget,
        program: &ResourceDemand,
        placement: &Placement,
    ) -> Result<PlacementMap, PlacementMapError> {
        let pass = |hop: &GressHop| PipePass {
            pipe: hop.pipe,
            gress: if hop.half == PipeHalf::Ingress { Gress::Ingress } else { Gress::Egress },
        };
        let mut tables = BTreeMap::new();
        for (n, table) in program.tables.iter().enumerate() {
            let Some(id) = table.id else { continue };
            let placed = placement.tables.get(n).filter(|placed| placed.name == table.name);
            let placed = placed.ok_or_else(|| PlacementMapError::NoPlace { table: table.name.clone() })?;
            let part = |piece: &StagePlacement| PlacedPart {
                pass: piece.hop as u32,
                stage: piece.stage,
                capacity: piece.entries,
            };
            tables.insert(id, PlacedTable { parts: placed.pieces.iter().map(part).collect(), split: None });
        }
        Ok(PlacementMap { stages: target.stages, passes: placement.path.hops.iter().map(pass).collect(), tables })
    }
}
