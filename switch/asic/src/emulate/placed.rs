//! [`Placed`]: where the tables of a pipeline are, as far as the emulated switch needs to know.

use crate::demand::Program;
use crate::place::{Half, Hop, Piece, Placement};
use crate::target::Target;
use ir::{Arch, ControlKind, Pipeline, TableId, Term};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// The half of a pipe that a pass goes through. Both halves use the same stages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Gress {
    /// Between a port (or the loopback) and the traffic manager.
    Ingress,
    /// Between the traffic manager and a port (or the loopback).
    Egress,
}

/// One way of a packet through the stages of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PassAt {
    /// The pipe, from 0.
    pub pipe: u32,
    /// Which half.
    pub gress: Gress,
}

/// Entries of a table that lie in one stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PlacedPart {
    /// Index in [`Placed::passes`].
    pub pass: u32,
    /// The stage of that pipe, from 0.
    pub stage: u32,
    /// Entries that it holds at most; in each of the pipes, where a table is split between parallel pipes.
    pub capacity: u64,
}

/// How packets and entries are spread over parallel pipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Spread {
    /// Low bits of the key's value, shifted right by so many bits.
    Bit(u32),
    /// Parity of all bits of the value: of two pipes.
    Parity,
    /// CRC-32 of the value's bytes, in network order.
    Hash,
}

/// A table whose entries are in one of several parallel pipes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Split {
    /// Position in [`ir::Table::keys`] of the key that decides. An entry that does not say the value of this key (a prefix, a mask) is in all
    /// pipes.
    pub key: usize,
    /// By what of it.
    pub by: Spread,
    /// How many pipes, from 1.
    pub pipes: u32,
}

/// A table's places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlacedTable {
    /// Where its entries are, in the order in which a packet meets them: passes do not fall, and within a pass stages rise.
    pub parts: Vec<PlacedPart>,
    /// Whether it is split between parallel pipes.
    pub split: Option<Split>,
}

/// Where the tables of a pipeline are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// Stages of a pipe.
    pub stages: u32,
    /// The passes of a packet in their order. The first is an ingress and the last an egress, and they alternate: out of an ingress goes the
    /// traffic manager, out of an egress that is not the last a loopback.
    pub passes: Vec<PassAt>,
    /// The tables. One that is applied and is not here has no place: the chip does not run the program.
    pub tables: BTreeMap<TableId, PlacedTable>,
}

/// A placement that no chip can run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PlacedError {
    /// The passes do not alternate.
    #[error("the passes are no way through a chip: they begin with an ingress, end with an egress, and alternate")]
    Passes,
    /// A table without a place.
    #[error("table {table} is applied, but has no place on the chip; place it, or cut it off for the tier below")]
    NoPlace {
        /// Its name.
        table: String,
    },
    /// A part out of range or out of order.
    #[error("table {table}: its part in pass {pass}, stage {stage} {what}")]
    Part {
        /// Its name.
        table: String,
        /// The pass.
        pass: u32,
        /// The stage.
        stage: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A split by a key that is not there.
    #[error(
        "table {table} is split by key {key} between {pipes} pipes; it has {keys} keys, and there is at least one pipe"
    )]
    Split {
        /// Its name.
        table: String,
        /// The key.
        key: usize,
        /// Pipes.
        pipes: u32,
        /// Keys that it has.
        keys: usize,
    },
    /// An egress table before an ingress one.
    #[error(
        "v1model: table {egress} of egress is in pass {egress_pass}, and {ingress} of ingress in pass {ingress_pass}: no traffic manager is between"
    )]
    Boundary {
        /// Table of egress.
        egress: String,
        /// Its first pass.
        egress_pass: u32,
        /// Table of ingress.
        ingress: String,
        /// Its last pass.
        ingress_pass: u32,
    },
}

impl Placed {
    /// The passes when `folds` pipes stand one behind the other (1: a packet passes one pipe): out of ingress 0 into egress 1, through its loopback into
    /// ingress 1, and so on, and at last out of egress 0.
    pub fn passes(folds: u32) -> Vec<PassAt> {
        let folds = folds.max(1);
        let pass = |index: u32| match index % 2 {
            0 => PassAt { pipe: index / 2, gress: Gress::Ingress },
            _ => PassAt { pipe: (index / 2 + 1) % folds, gress: Gress::Egress },
        };
        (0..2 * folds).map(pass).collect()
    }

    /// Whether a chip could be like this, for this pipeline.
    ///
    /// # Errors
    /// See [`PlacedError`].
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), PlacedError> {
        let wanted = |index: usize| if index.is_multiple_of(2) { Gress::Ingress } else { Gress::Egress };
        let alternate = self.passes.iter().enumerate().all(|(index, pass)| pass.gress == wanted(index));
        if self.passes.is_empty() || self.passes.len() % 2 == 1 || !alternate {
            return Err(PlacedError::Passes);
        }
        for table in applied(pipeline, |_| true) {
            let name = || pipeline.tables[table].preamble.name.clone();
            match self.tables.get(&table) {
                Some(placed) if !placed.parts.is_empty() => self.check_table(pipeline, table, placed)?,
                _ => return Err(PlacedError::NoPlace { table: name() }),
            }
        }
        for table in applied(pipeline, |kind| kind == ControlKind::PreControl) {
            if let Some(part) = self.tables[&table].parts.iter().find(|part| part.pass != 0) {
                let (table, what) = (
                    pipeline.tables[table].preamble.name.clone(),
                    "is needed before the parser: only the first pass can have it",
                );
                return Err(PlacedError::Part { table, pass: part.pass, stage: part.stage, what });
            }
        }
        self.boundary(pipeline).map(drop)
    }

    fn check_table(&self, pipeline: &Pipeline, id: TableId, placed: &PlacedTable) -> Result<(), PlacedError> {
        let declared = &pipeline.tables[id];
        let wrong = |part: &PlacedPart, what| PlacedError::Part {
            table: declared.preamble.name.clone(),
            pass: part.pass,
            stage: part.stage,
            what,
        };
        let mut before = None;
        for part in &placed.parts {
            if part.pass as usize >= self.passes.len() {
                return Err(wrong(part, "is in a pass that there is not"));
            }
            if part.stage >= self.stages {
                return Err(wrong(part, "is beyond the last stage"));
            }
            if before.is_some_and(|before| before >= (part.pass, part.stage)) {
                return Err(wrong(part, "comes after one that a packet meets later"));
            }
            before = Some((part.pass, part.stage));
        }
        match placed.split {
            Some(Split { key, pipes, .. }) if key >= declared.keys.len() || pipes == 0 => {
                Err(PlacedError::Split { table: declared.preamble.name.clone(), key, pipes, keys: declared.keys.len() })
            }
            _ => Ok(()),
        }
    }

    /// The pass in which v1model's egress begins; of PNA, the last one, in which the deparser is.
    ///
    /// # Errors
    /// A table of egress comes before one of ingress.
    pub fn boundary(&self, pipeline: &Pipeline) -> Result<u32, PlacedError> {
        let last = self.passes.len() as u32 - 1;
        if pipeline.arch == Arch::Pna {
            return Ok(last);
        }
        let end = |kind, pick: fn(&PlacedTable) -> Option<u32>| {
            applied(pipeline, move |k| k == kind)
                .into_iter()
                .filter_map(move |table| Some((pick(self.tables.get(&table)?)?, table)))
        };
        let first = end(ControlKind::Egress, |t| t.parts.first().map(|p| p.pass)).min();
        let ingress = end(ControlKind::Ingress, |t| t.parts.last().map(|p| p.pass)).max();
        let Some((egress_pass, egress)) = first else { return Ok(last) };
        // Egress begins behind a traffic manager: in the egress half at or before its first table.
        let begins = if egress_pass % 2 == 1 { Some(egress_pass) } else { egress_pass.checked_sub(1) };
        match (begins, ingress) {
            (Some(begins), None) => Ok(begins),
            (Some(begins), Some((ingress_pass, _))) if ingress_pass < begins => Ok(begins),
            (_, ingress) => {
                let name = |table: TableId| pipeline.tables[table].preamble.name.clone();
                Err(PlacedError::Boundary {
                    egress: name(egress),
                    egress_pass,
                    ingress: ingress.map_or_else(String::new, |(_, table)| name(table)),
                    ingress_pass: ingress.map_or(0, |(pass, _)| pass),
                })
            }
        }
    }
}

/// The tables that are applied in controls of the given kinds.
pub fn applied(pipeline: &Pipeline, of: impl Fn(ControlKind) -> bool) -> BTreeSet<TableId> {
    let controls = pipeline.controls.values().filter(|control| of(control.kind));
    let terms = controls.flat_map(|control| control.body.blocks.values()).filter_map(|block| block.term.as_ref());
    terms.filter_map(|term| if let Term::Apply { table, .. } = term.term { Some(table) } else { None }).collect()
}

impl Spread {
    /// Which of `pipes` a value (words, least significant first, of `width` bits) belongs to.
    pub fn pipe(self, value: &[u64], width: u32, pipes: u32) -> u32 {
        let pipes = u64::from(pipes.max(1));
        let number = match self {
            Spread::Bit(by) => {
                let word = value.get(by as usize / 64).copied().unwrap_or(0);
                let next = value.get(by as usize / 64 + 1).copied().unwrap_or(0);
                let both = u128::from(word) | u128::from(next) << 64;
                (both >> (by % 64)) as u64
            }
            Spread::Parity => u64::from(value.iter().map(|word| word.count_ones()).sum::<u32>() & 1),
            Spread::Hash => {
                let bytes = width.div_ceil(8) as usize;
                let all: Vec<u8> = value.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
                let all: Vec<u8> = all.into_iter().rev().collect();
                interp::host::hash(ir::HashAlgorithm::Crc32, &all)
            }
        };
        (number % pipes) as u32
    }
}

impl Placed {
    /// The placement that was found for a program's demand, as the switch runs it. Steps of code between tables are not in it: the switch runs code where
    /// what it needs is there.
    ///
    /// # Errors
    /// The placement is of another program.
    pub fn of(target: &Target, program: &Program, placement: &Placement) -> Result<Placed, PlacedError> {
        let pass = |hop: &Hop| PassAt {
            pipe: hop.pipe,
            gress: if hop.half == Half::Ingress { Gress::Ingress } else { Gress::Egress },
        };
        let mut tables = BTreeMap::new();
        for (n, table) in program.tables.iter().enumerate() {
            let Some(id) = table.id else { continue };
            let found = placement.tables.get(n).filter(|placed| placed.name == table.name);
            let found = found.ok_or_else(|| PlacedError::NoPlace { table: table.name.clone() })?;
            let part =
                |piece: &Piece| PlacedPart { pass: piece.hop as u32, stage: piece.stage, capacity: piece.entries };
            tables.insert(id, PlacedTable { parts: found.pieces.iter().map(part).collect(), split: None });
        }
        Ok(Placed { stages: target.stages, passes: placement.path.hops.iter().map(pass).collect(), tables })
    }
}
