//! A placed pipeline, prepared for execution.

use super::attached::AttachedLayout;
use super::bridge::PassBridge;
use super::control_dependence::MergeDependence;
use super::joins::join_blocks;
use super::live::{PassExtents, PassLiveness};
use super::order_error::OrderError;
use super::placed::{PlacementMap, PlacementMapError};
use super::schedule::PassSchedule;
use entries::EntryError;
use interp::LoadError;
use interp::block_hook::{BlockCode, BlockExit, InstIndex};
use ir::{Block, Body, ControlId, ControlKind, Entity, Inst, Pipeline, Terminator, Value, VarId, VarKind};
use packet::EngineReason;
use std::sync::Arc;
use thiserror::Error;

/// Reason why the emulated switch cannot run a pipeline.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The interpreter refuses the pipeline.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The placement is invalid.
    #[error(transparent)]
    PlacementMap(#[from] PlacementMapError),
    /// The placement contradicts the program's order.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The program's const entries do not fit.
    #[error("the program's own entries do not fit: {0}")]
    Entries(#[from] Box<EntryError>),
}

/// A placed pipeline, prepared for execution.
pub struct SwitchProgram {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Decoded program of the interpreter, one instruction per IR instruction.
    pub decoded: Arc<interp::block_hook::DecodedProgram>,
    /// Placement of the tables.
    pub placed: PlacementMap,
    /// First pass of v1model's egress, or of PNA's deparser.
    pub boundary_pass: u32,
    /// Layout of the words attached to a packet.
    pub attached: AttachedLayout,
    /// For each control and decoded instruction, the block that starts there.
    pub starts: Vec<Vec<Option<Block>>>,
    /// For each control and block, the join of its outgoing paths. `None`: only at the end.
    pub joins: Vec<Vec<Option<Block>>>,
    /// For each control, the dependence of block parameters on decisions.
    pub(super) merges: Vec<MergeDependence>,
    /// For each control, the passes of its code.
    pub schedules: Vec<PassSchedule>,
    /// For each control and applying block, its number for [`AttachedLayout::arm_word`].
    pub arms: Vec<Vec<Option<usize>>>,
    /// For each control and value, whether it is loaded from a variable.
    pub loaded: Vec<Vec<bool>>,
    /// For each pass except the last, the state that it passes on.
    pub bridges: Vec<PassBridge>,
}

impl SwitchProgram {
    /// Prepares a decoded pipeline.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn new(
        pipeline: Arc<Pipeline>,
        decoded: Arc<interp::block_hook::DecodedProgram>,
        placed: PlacementMap,
    ) -> Result<SwitchProgram, SwitchError> {
        placed.check_pipeline(&pipeline)?;
        let boundary_pass = placed.boundary_pass(&pipeline)?;
        let controls = || pipeline.controls.values();
        let joins: Vec<Vec<Option<Block>>> = controls().map(|control| join_blocks(&control.body)).collect();
        let mut schedules = Vec::new();
        for (control, joins) in controls().zip(&joins) {
            schedules.push(schedule_control(&pipeline, control, joins, &placed, boundary_pass)?);
        }
        let passes = placed.passes.len() as u32;
        let extents = PassExtents { schedules: &schedules, boundary: boundary_pass, passes, placed: &placed };
        let liveness = PassLiveness::new(&pipeline, &extents);
        let (arms, sites) = apply_sites(&pipeline);
        let attached = AttachedLayout::new(sites, decoded.tables, decoded.initial.len(), decoded.headers.len());
        // The bridge between passes carries the arm that a table chose: its word and its number of
        // bits.
        let arm_slot = |control: ControlId, block: usize| {
            let word = attached.arm_word(arms[control.index()][block].unwrap_or(0));
            let term = pipeline.controls[control].body.blocks.values().nth(block).and_then(|block| block.term.as_ref());
            let actions = match term.map(|term| &term.term) {
                Some(Terminator::Apply { table, .. }) => pipeline.tables[*table].actions.len(),
                _ => 0,
            };
            // All actions, and a value for none yet.
            (word, usize::BITS - actions.leading_zeros())
        };
        let bridges = liveness.passes.iter();
        let bridges =
            bridges.map(|(live, control)| PassBridge::new(&pipeline, &decoded, (live, *control), arm_slot)).collect();
        Ok(SwitchProgram {
            boundary_pass,
            attached,
            starts: decoded.codes.iter().map(block_starts).collect(),
            merges: controls().zip(&joins).map(|(control, joins)| MergeDependence::new(&control.body, joins)).collect(),
            loaded: controls().map(|control| loaded_values(&control.body)).collect(),
            joins,
            schedules,
            arms,
            bridges,
            placed,
            decoded,
            pipeline,
        })
    }

    /// Removes the first scalar of each bridge and the first field of each header, for tests.
    pub fn drop_bridge_fields(&mut self) {
        for bridge in &mut self.bridges {
            if !bridge.scalars.is_empty() {
                bridge.scalars.remove(0);
            }
            let firsts = bridge.complete_headers.iter_mut().filter_map(|(_, fields)| fields.first_mut());
            firsts.for_each(|(_, needed)| *needed = false);
        }
    }

    /// Returns whether a store only renames a variable's value, as at the call of a control. Such a
    /// store takes no stage.
    pub fn is_alias(&self, control: usize, to: VarId, value: Value) -> bool {
        self.pipeline.vars[to].kind == VarKind::Local && self.loaded[control][value.index()]
    }

    /// Returns the pass of a table's last part.
    pub fn last_pass(&self, table: ir::TableId) -> u32 {
        self.placed.tables.get(&table).and_then(|table| table.parts.last()).map_or(0, |part| part.pass)
    }
}

/// Lookups while a packet runs.
impl SwitchProgram {
    pub(super) fn code(&self, code: usize) -> &BlockCode {
        &self.decoded.codes[code]
    }

    pub(super) fn body(&self, code: usize) -> &Body {
        &self.pipeline.controls[ControlId::from_index(code)].body
    }

    pub(super) fn term(&self, code: usize, block: Block) -> Option<&Terminator> {
        self.body(code).blocks[block].term.as_ref().map(|term| &term.term)
    }

    /// Returns the word with the chosen action of a block's table.
    pub(super) fn arm_word(&self, code: usize, block: Block) -> usize {
        self.attached.arm_word(self.arms[code][block.index()].unwrap_or(0))
    }

    /// Returns the block of an action of the table that a block applies.
    pub(super) fn action_block(&self, code: usize, block: Block, action: usize) -> Option<Block> {
        let Some(Terminator::Apply { table, arms, .. }) = self.term(code, block) else { return None };
        let action = self.pipeline.tables[*table].actions.get(action)?.action;
        arms.iter().find(|arm| arm.action == action).map(|arm| arm.block)
    }

    pub(super) fn block_pc(&self, code: usize, block: Block) -> Result<InstIndex, BlockExit> {
        self.code(code).blocks[block.index()].ok_or(BlockExit::Abort(EngineReason::EngineBug))
    }

    /// Returns the join of a block's outgoing paths, or the end.
    pub(super) fn join_pc(&self, code: usize, block: Block) -> Result<InstIndex, BlockExit> {
        self.joins[code][block.index()].map_or(Err(BlockExit::Return), |join| self.block_pc(code, join))
    }
}

/// Returns for each instruction the block that starts there.
fn block_starts(code: &BlockCode) -> Vec<Option<Block>> {
    let mut starts = vec![None; code.ops.len()];
    for (block, pc) in code.blocks.iter().enumerate().filter_map(|(block, pc)| Some((block, (*pc)?))) {
        starts[pc as usize] = Some(Block::from_index(block));
    }
    starts
}

/// Schedules the code of a control.
fn schedule_control(
    pipeline: &Pipeline,
    control: &ir::Control,
    joins: &[Option<Block>],
    placed: &PlacementMap,
    boundary: u32,
) -> Result<PassSchedule, OrderError> {
    let last = placed.passes.len() as u16 - 1;
    match control.kind {
        ControlKind::Parser | ControlKind::VerifyChecksum | ControlKind::MainParser | ControlKind::PreControl => {
            Ok(PassSchedule::single_pass(&control.body, 0))
        }
        ControlKind::ComputeChecksum | ControlKind::Deparser | ControlKind::MainDeparser => {
            Ok(PassSchedule::single_pass(&control.body, last))
        }
        ControlKind::Ingress | ControlKind::MainControl => PassSchedule::new(pipeline, control, joins, placed, 0),
        ControlKind::Egress => PassSchedule::new(pipeline, control, joins, placed, boundary as u16),
    }
}

/// Numbers the apply sites by control and block. Also returns their count.
fn apply_sites(pipeline: &Pipeline) -> (Vec<Vec<Option<usize>>>, usize) {
    let mut count = 0;
    let mut number = |block: &ir::BlockData| match block.term.as_ref().map(|term| &term.term) {
        Some(Terminator::Apply { .. }) => {
            count += 1;
            Some(count - 1)
        }
        _ => None,
    };
    let sites =
        pipeline.controls.values().map(|control| control.body.blocks.values().map(&mut number).collect()).collect();
    (sites, count)
}

/// Returns for each value of a body whether it is loaded from a variable.
fn loaded_values(body: &ir::Body) -> Vec<bool> {
    let mut loaded = vec![false; body.values.len()];
    let loads = body.blocks.values().flat_map(|block| &block.insts).filter(|data| matches!(data.inst, Inst::Load(_)));
    loads.flat_map(|data| &data.results).for_each(|result| loaded[result.index()] = true);
    loaded
}
