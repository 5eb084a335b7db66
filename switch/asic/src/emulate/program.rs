//! A placed pipeline made ready to run.

use super::attached::Attached;
use super::bridge::Bridge;
use super::joins::joins;
use super::live::{Extents, Liveness};
use super::merges::Merges;
use super::placed::{Placed, PlacedError};
use super::schedule::{OrderError, Schedule};
use entries::EntryError;
use interp::LoadError;
use interp::walk::{Code, Outcome, Pc};
use ir::{Block, Body, ControlId, ControlKind, Entity, Inst, Pipeline, Term, Value, VarId, VarKind};
use packet::EngineReason;
use std::sync::Arc;
use thiserror::Error;

/// A pipeline that the emulated switch cannot run.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The interpreter refuses it.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The placement is none.
    #[error(transparent)]
    Placed(#[from] PlacedError),
    /// The program's order does not allow it.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The program's own entries do not fit.
    #[error("the program's own entries do not fit: {0}")]
    Entries(#[from] Box<EntryError>),
}

/// A placed pipeline made ready to run.
pub struct Program {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// What the interpreter runs of it: an instruction for each of the IR.
    pub decoded: Arc<interp::walk::Program>,
    /// Where its tables are.
    pub placed: Placed,
    /// The pass in which v1model's egress, or PNA's deparser, is.
    pub boundary_pass: u32,
    /// Where the words are that the chip keeps of a packet.
    pub attached: Attached,
    /// For each control and instruction that is decoded the block that starts there.
    pub starts: Vec<Vec<Option<Block>>>,
    /// For each control and block where the paths out of it join; none: only at the end.
    pub joins: Vec<Vec<Option<Block>>>,
    /// For each control what its blocks' parameters tell of the path.
    pub(super) merges: Vec<Merges>,
    /// For each control the passes of its code.
    pub schedules: Vec<Schedule>,
    /// For each control and block that applies a table: its number, for [`Attached::arm`].
    pub arms: Vec<Vec<Option<usize>>>,
    /// For each control and value whether it is what a variable holds.
    pub loaded: Vec<Vec<bool>>,
    /// What is carried out of each pass but the last.
    pub bridges: Vec<Bridge>,
}

impl Program {
    /// Makes a pipeline ready that is decoded so.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn new(
        pipeline: Arc<Pipeline>,
        decoded: Arc<interp::walk::Program>,
        placed: Placed,
    ) -> Result<Program, SwitchError> {
        placed.check(&pipeline)?;
        let boundary_pass = placed.boundary(&pipeline)?;
        let controls = || pipeline.controls.values();
        let joins: Vec<Vec<Option<Block>>> = controls().map(|control| joins(&control.body)).collect();
        let mut schedules = Vec::new();
        for (control, joins) in controls().zip(&joins) {
            schedules.push(schedule(&pipeline, control, joins, &placed, boundary_pass)?);
        }
        let passes = placed.passes.len() as u32;
        let extents = Extents { schedules: &schedules, boundary: boundary_pass, passes, placed: &placed };
        let liveness = Liveness::new(&pipeline, &extents);
        let (arms, sites) = apply_sites(&pipeline);
        let attached = Attached::new(sites, decoded.tables, decoded.initial.len(), decoded.headers.len());
        let arm = |control: ControlId, block: usize| {
            let place = attached.arm(arms[control.index()][block].unwrap_or(0));
            let term = pipeline.controls[control].body.blocks.values().nth(block).and_then(|block| block.term.as_ref());
            let actions = match term.map(|term| &term.term) {
                Some(Term::Apply { table, .. }) => pipeline.tables[*table].actions.len(),
                _ => 0,
            };
            // The actions, and that there was none yet.
            (place, usize::BITS - actions.leading_zeros())
        };
        let bridges = liveness.passes.iter();
        let bridges = bridges.map(|(live, control)| Bridge::new(&pipeline, &decoded, (live, *control), arm)).collect();
        Ok(Program {
            boundary_pass,
            attached,
            starts: decoded.codes.iter().map(starts).collect(),
            merges: controls().zip(&joins).map(|(control, joins)| Merges::new(&control.body, joins)).collect(),
            loaded: controls().map(|control| loaded(&control.body)).collect(),
            joins,
            schedules,
            arms,
            bridges,
            placed,
            decoded,
            pipeline,
        })
    }

    /// Bridges carry the first of their scalars and the first field of each header no more.
    pub fn forget(&mut self) {
        for bridge in &mut self.bridges {
            if !bridge.scalars.is_empty() {
                bridge.scalars.remove(0);
            }
            let firsts = bridge.whole.iter_mut().filter_map(|(_, fields)| fields.first_mut());
            firsts.for_each(|(_, needed)| *needed = false);
        }
    }

    /// Whether a store only gives another name to what a variable holds, as where a control is
    /// called: no stage has to write it.
    pub fn is_alias(&self, control: usize, to: VarId, value: Value) -> bool {
        self.pipeline.vars[to].kind == VarKind::Local && self.loaded[control][value.index()]
    }

    /// The pass of the last part of a table.
    pub fn last_pass(&self, table: ir::TableId) -> u32 {
        self.placed.tables.get(&table).and_then(|table| table.parts.last()).map_or(0, |part| part.pass)
    }
}

/// Looked up while a packet runs.
impl Program {
    pub(super) fn code(&self, code: usize) -> &Code {
        &self.decoded.codes[code]
    }

    pub(super) fn body(&self, code: usize) -> &Body {
        &self.pipeline.controls[ControlId::from_index(code)].body
    }

    pub(super) fn term(&self, code: usize, block: Block) -> Option<&Term> {
        self.body(code).blocks[block].term.as_ref().map(|term| &term.term)
    }

    /// Where the word of the action is that a block's table led to.
    pub(super) fn arm(&self, code: usize, block: Block) -> usize {
        self.attached.arm(self.arms[code][block.index()].unwrap_or(0))
    }

    /// The block of an action of the table that a block applies.
    pub(super) fn action_block(&self, code: usize, block: Block, action: usize) -> Option<Block> {
        let Some(Term::Apply { table, arms, .. }) = self.term(code, block) else { return None };
        let action = self.pipeline.tables[*table].actions.get(action)?.action;
        arms.iter().find(|arm| arm.action == action).map(|arm| arm.block)
    }

    pub(super) fn go_to(&self, code: usize, block: Block) -> Result<Pc, Outcome> {
        self.code(code).blocks[block.index()].ok_or(Outcome::Abort(EngineReason::EngineFault))
    }

    /// Where the paths out of a block join; the end, if they do nowhere.
    pub(super) fn join(&self, code: usize, block: Block) -> Result<Pc, Outcome> {
        self.joins[code][block.index()].map_or(Err(Outcome::Return), |join| self.go_to(code, join))
    }
}

/// For each instruction the block that starts there.
fn starts(code: &Code) -> Vec<Option<Block>> {
    let mut starts = vec![None; code.ops.len()];
    for (block, pc) in code.blocks.iter().enumerate().filter_map(|(block, pc)| Some((block, (*pc)?))) {
        starts[pc as usize] = Some(Block::from_index(block));
    }
    starts
}

/// When the code of a control runs.
fn schedule(
    pipeline: &Pipeline,
    control: &ir::Control,
    joins: &[Option<Block>],
    placed: &Placed,
    boundary: u32,
) -> Result<Schedule, OrderError> {
    let last = placed.passes.len() as u16 - 1;
    match control.kind {
        ControlKind::Parser | ControlKind::VerifyChecksum | ControlKind::MainParser | ControlKind::PreControl => {
            Ok(Schedule::one(&control.body, 0))
        }
        ControlKind::ComputeChecksum | ControlKind::Deparser | ControlKind::MainDeparser => {
            Ok(Schedule::one(&control.body, last))
        }
        ControlKind::Ingress | ControlKind::MainControl => Schedule::new(pipeline, control, joins, placed, 0),
        ControlKind::Egress => Schedule::new(pipeline, control, joins, placed, boundary as u16),
    }
}

/// Numbers of the places that apply a table, by control and block; and how many there are.
fn apply_sites(pipeline: &Pipeline) -> (Vec<Vec<Option<usize>>>, usize) {
    let mut count = 0;
    let mut number = |block: &ir::BlockData| match block.term.as_ref().map(|term| &term.term) {
        Some(Term::Apply { .. }) => {
            count += 1;
            Some(count - 1)
        }
        _ => None,
    };
    let sites =
        pipeline.controls.values().map(|control| control.body.blocks.values().map(&mut number).collect()).collect();
    (sites, count)
}

/// Which values of a body are loaded from a variable.
fn loaded(body: &ir::Body) -> Vec<bool> {
    let mut loaded = vec![false; body.values.len()];
    let loads = body.blocks.values().flat_map(|block| &block.insts).filter(|data| matches!(data.inst, Inst::Load(_)));
    loads.flat_map(|data| &data.results).for_each(|result| loaded[result.index()] = true);
    loaded
}
