//! A placed pipeline made ready to run.

use super::bridge::Bridge;
use super::layout::{Layout, MAX_WORDS, Reg, Shape};
use super::live::{Extents, Liveness};
use super::merges::Merges;
use super::placed::{Placed, PlacedError};
use super::schedule::{OrderError, Schedule};
use interp::host::architecture::WellKnown;
use interp::host::{ExternHost, Site, SiteError};
use interp::{Config, LoadError};
use ir::{ControlId, ControlKind, Entity, Inst, Pipeline, Term, Value, VarId, VarKind};
use std::sync::Arc;
use tables::EntryError;
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
    /// Always a bug of what made the pipeline.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A limit of this engine.
    #[error("the program's variables take more than {MAX_WORDS} words: make stacks or varbits smaller")]
    TooLarge,
}

/// Numbers of the errors that the engine itself makes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Errors {
    pub packet_too_short: u32,
    pub header_too_short: u32,
    pub invalid_argument: u32,
}

/// A placed pipeline made ready to run.
pub struct Program {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Settings.
    pub config: Config,
    /// Where its tables are.
    pub placed: Placed,
    /// The pass in which v1model's egress, or PNA's deparser, is.
    pub boundary_pass: u32,
    /// Places of variables and values.
    pub layout: Layout,
    /// The shape of each control.
    pub shapes: Vec<Shape>,
    /// For each control what its blocks' parameters tell of the way.
    pub(super) merges: Vec<Merges>,
    /// For each control, block and instruction the call that it makes.
    pub sites: Vec<Vec<Vec<Option<Site>>>>,
    /// For each control the passes of its code.
    pub schedules: Vec<Schedule>,
    /// For each control and block that applies a table: its number, for [`super::frame::Frame::arms`].
    pub arms: Vec<Vec<Option<usize>>>,
    /// For each control and value whether it is what a variable holds.
    pub loaded: Vec<Vec<bool>>,
    /// How many places apply a table.
    pub apply_sites: usize,
    /// What is carried out of each pass but the last.
    pub bridges: Vec<Bridge>,
    /// Variables that a clone resets.
    pub metadata: Vec<VarId>,
    /// Variables of the architecture.
    pub known: WellKnown<Reg>,
    /// Errors.
    pub errors: Errors,
}

impl Program {
    /// Makes a pipeline ready.
    ///
    /// # Errors
    /// See [`SwitchError`].
    pub fn new(
        pipeline: Arc<Pipeline>,
        config: Config,
        placed: Placed,
        host: &mut ExternHost,
    ) -> Result<Program, SwitchError> {
        placed.check(&pipeline)?;
        let boundary_pass = placed.boundary(&pipeline)?;
        let layout = Layout::new(&pipeline).ok_or(SwitchError::TooLarge)?;
        let shapes: Vec<Shape> = pipeline.controls.values().map(|control| Shape::new(&control.body)).collect();
        let mut sites = Vec::new();
        let mut schedules = Vec::new();
        for (control, shape) in pipeline.controls.values().zip(&shapes) {
            sites.push(control_sites(control, host)?);
            schedules.push(schedule(&pipeline, control, shape, &placed, boundary_pass)?);
        }
        let passes = placed.passes.len() as u32;
        let extents = Extents { schedules: &schedules, boundary: boundary_pass, passes, placed: &placed };
        let liveness = Liveness::new(&pipeline, &extents);
        let (arms, apply_sites) = apply_sites(&pipeline);
        let arm = |control: ControlId, block: usize| {
            let place = arms[control.index()][block].unwrap_or(0);
            let term = pipeline.controls[control].body.blocks.values().nth(block).and_then(|block| block.term.as_ref());
            let actions = match term.map(|term| &term.term) {
                Some(Term::Apply { table, .. }) => pipeline.tables[*table].actions.len(),
                _ => 0,
            };
            // The actions, and that there was none yet.
            (place, usize::BITS - actions.leading_zeros())
        };
        let bridges = liveness
            .passes
            .iter()
            .map(|(live, control)| Bridge::new(&pipeline, &layout, (live, *control), arm))
            .collect();
        let error = |name: &str| pipeline.errors.iter().position(|e| e == name).unwrap_or(0) as u32;
        let errors = Errors {
            packet_too_short: error("PacketTooShort"),
            header_too_short: error("HeaderTooShort"),
            invalid_argument: error("ParserInvalidArgument"),
        };
        let loaded = pipeline.controls.values().map(|control| loaded(&control.body)).collect();
        let metadata = interp::host::architecture::metadata(&pipeline).collect();
        let known = WellKnown::new(&pipeline, |var| layout.var(var));
        Ok(Program {
            config,
            placed,
            boundary_pass,
            layout,
            merges: pipeline
                .controls
                .values()
                .zip(&shapes)
                .map(|(c, shape)| Merges::new(&c.body, &shape.joins))
                .collect(),
            pipeline,
            shapes,
            sites,
            schedules,
            arms,
            loaded,
            apply_sites,
            bridges,
            metadata,
            known,
            errors,
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

    /// Whether a store only gives another name to what a variable holds, as where a control is called: no stage has to write it.
    pub fn is_alias(&self, control: ControlId, to: VarId, value: Value) -> bool {
        self.pipeline.vars[to].kind == VarKind::Local && self.loaded[control.index()][value.index()]
    }

    /// The pass of the last part of a table.
    pub fn last_pass(&self, table: ir::TableId) -> u32 {
        self.placed.tables.get(&table).and_then(|table| table.parts.last()).map_or(0, |part| part.pass)
    }

    /// The first control of a role.
    pub fn control(&self, kind: ControlKind) -> Option<ControlId> {
        self.pipeline.controls.iter().find(|(_, control)| control.kind == kind).map(|(id, _)| id)
    }
}

/// When the code of a control runs.
fn schedule(
    pipeline: &Pipeline,
    control: &ir::Control,
    shape: &Shape,
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
        ControlKind::Ingress | ControlKind::MainControl => Schedule::new(pipeline, control, &shape.joins, placed, 0),
        ControlKind::Egress => Schedule::new(pipeline, control, &shape.joins, placed, boundary as u16),
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

fn control_sites(control: &ir::Control, host: &mut ExternHost) -> Result<Vec<Vec<Option<Site>>>, SiteError> {
    let body = &control.body;
    let mut blocks = Vec::new();
    for block in body.blocks.values() {
        let mut insts = Vec::new();
        for (at, data) in block.insts.iter().enumerate() {
            if let Inst::Extern { .. } = data.inst {
                let results: Vec<ir::Type> = data.results.iter().map(|result| body.value_type(*result)).collect();
                insts.resize_with(at, || None);
                insts.push(Some(host.site(&data.inst, &|value| body.value_type(value), &results)?));
            }
        }
        blocks.push(insts);
    }
    Ok(blocks)
}
