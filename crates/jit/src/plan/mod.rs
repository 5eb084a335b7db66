//! What code is made from: how a program is cut into stages, which path has a copy, and where everything lies in memory. All of it is data.

pub mod lanes;
pub mod layout;
pub mod lists;
pub mod memory;
pub mod onward;
pub mod places;
pub mod plain;
pub mod stages;
pub mod together;
pub mod trace;

use crate::analysis::cells::{Cell, Cells};
use crate::analysis::constants::Constants;
use crate::analysis::copies::{Onward, Trace};
use crate::analysis::facts::has_loop;
use crate::analysis::flow::Flow;
use crate::analysis::headers::Headers;
use crate::analysis::node::Node;
use crate::analysis::validity::Known;
use crate::analysis::{tiling, validity};
use crate::unsupported::Unsupported;
use fixedbitset::FixedBitSet;
use ir::{Inst, Pipeline, Type};
use stages::{Stage, Start};
use std::collections::BTreeSet;

/// The plan of a pipeline.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The graph.
    pub flow: Flow,
    /// The headers.
    pub headers: Headers,
    /// What packets carry.
    pub cells: Cells,
    /// What cells hold before each node, where that is certain.
    pub constants: Constants,
    /// What is known of headers before each node.
    pub known: Vec<Option<Known>>,
    /// In which order the parser takes headers.
    pub order: tiling::Order,
    /// Where stages can begin, of which copies count as one.
    pub starts: Vec<Start>,
    /// The stages, each before those that it leads to.
    pub stages: Vec<Stage>,
}

impl Plan {
    /// Looks a pipeline through that passes [`check`]. `traced`: the way of most packets is there by itself. `states_count`: how many
    /// states a packet's parser has entered is counted in its frame. `small`: for each table, whether its entries may be a handful with keys of a word.
    pub fn new(pipeline: &Pipeline, traced: bool, states_count: bool, small: &[bool]) -> Result<Plan, Unsupported> {
        let mut flow = Flow::new(pipeline)?;
        let mut headers = Headers::new(pipeline)?;
        let cells = Cells::new(pipeline, &flow, &headers);
        let mut known = validity::validity(pipeline, &flow, &headers);
        Constants::new(pipeline, &flow, &headers, &cells, &known).fix_places(pipeline, &flow, &cells, &mut headers);
        let emits = pipeline.insts().filter(|data| matches!(data.inst, Inst::Emit(_))).count();
        let stages = stages::cut(pipeline, &flow)?;
        flow.cut_deparser = stages::lead_to_deparser(pipeline, &flow, &stages) * emits > MOST_INLINE_EMITS;
        if traced && let Some(trace) = Trace::find(pipeline, &flow, &headers) {
            flow.follow(&trace);
            flow.turns_back &= !states_count;
            known = validity::validity(pipeline, &flow, &headers);
            flow.go_on(&Onward::find(pipeline, &flow, &headers, &known));
            onward::look_up_in_place(pipeline, &mut flow, small);
            together::look_up_together(pipeline, &mut flow, &cells);
            known = validity::validity(pipeline, &flow, &headers);
        }
        // Headers at fixed places need no cells.
        let cells = Cells::new(pipeline, &flow, &headers);
        let constants = Constants::new(pipeline, &flow, &headers, &cells, &known);
        let stages = stages::cut(pipeline, &flow)?;
        let order = tiling::Order::new(pipeline, &flow, &headers, &known);
        let starts = stages::starts(pipeline, &flow);
        Ok(Plan { flow, headers, cells, constants, known, order, starts, stages })
    }

    /// Which of the places where stages can begin this is.
    pub fn slot(&self, start: Start) -> usize {
        stages::slot(&self.flow, &self.starts, start)
    }

    /// What the cell holds before the node, if that is certain.
    pub fn constant(&self, pipeline: &Pipeline, node: Node, index: usize) -> Option<u64> {
        match self.cells.list[index] {
            Cell::Valid(word) => self.known[node].as_ref()?.valid_word(word, pipeline.headers.len()),
            _ => self.constants.before(node, index),
        }
    }

    /// The cells that hold something certain before each of these nodes.
    pub fn certain(&self, pipeline: &Pipeline, nodes: &[Node]) -> FixedBitSet {
        let mut certain = FixedBitSet::with_capacity(self.cells.list.len());
        for index in 0..self.cells.list.len() {
            let mut reached = nodes.iter().filter(|node| self.known[**node].is_some());
            if reached.all(|node| self.constant(pipeline, *node, index).is_some()) {
                certain.insert(index);
            }
        }
        certain
    }

    /// The stages that one leads to.
    pub fn leads_to(&self, pipeline: &Pipeline, number: usize) -> BTreeSet<usize> {
        let stage = &self.stages[number];
        let starts = stage.nodes.iter().flat_map(|node| stages::leads_to(pipeline, &self.flow, stage.start, *node));
        starts.filter_map(|start| self.stages.iter().position(|stage| stage.start == start)).collect()
    }

    /// The cells whose value is needed before some of these nodes.
    pub fn live(&self, nodes: &[Node]) -> FixedBitSet {
        let mut live = FixedBitSet::with_capacity(self.cells.list.len());
        for node in nodes {
            live.union_with(&self.cells.live[*node]);
        }
        live
    }

    /// The cells that packets carry from one stage to another in their frames.
    pub fn carried(&self, pipeline: &Pipeline) -> FixedBitSet {
        let mut carried = FixedBitSet::with_capacity(self.cells.list.len());
        for stage in self.stages.iter().filter(|stage| !matches!(stage.start, Start::Begin | Start::Again)) {
            let entries = stages::entries(pipeline, &self.flow, stage.start);
            let mut live = self.live(&entries);
            live.difference_with(&self.certain(pipeline, &entries));
            carried.union_with(&live);
        }
        carried
    }
}

/// The deparser's code stands in each stage that leads to it if that makes no more emissions than this.
const MOST_INLINE_EMITS: usize = 32;

/// The widest value in bits that native code keeps in registers.
const WIDEST: u32 = 2048;

fn has_varbit(pipeline: &Pipeline, header: ir::HeaderId) -> bool {
    pipeline.headers[header].fields.iter().any(|var| matches!(pipeline.vars[*var].ty, Type::Varbit(_)))
}

/// Values that native code has no registers for.
fn check_values(control: &ir::Control) -> Result<(), Unsupported> {
    for ty in control.body.values.values() {
        match ty {
            Type::Varbit(_) => return Err(Unsupported::Varbit),
            ty if ty.width() > WIDEST => return Err(Unsupported::TooLarge),
            _ => {}
        }
    }
    for data in control.body.blocks.values().flat_map(|block| &block.insts) {
        let Inst::Extern { args, .. } = &data.inst else { continue };
        let leaves: usize = args.iter().map(|arg| if let ir::Arg::Values(v) = arg { v.len() } else { 1 }).sum();
        if leaves * (WIDEST as usize / 64 + 1) > crate::abi::AREA_WORDS {
            return Err(Unsupported::TooLarge);
        }
    }
    Ok(())
}

/// What native code does not do, whatever the packet.
pub fn check(pipeline: &Pipeline) -> Result<(), Unsupported> {
    use ir::ExternFn::*;
    let multicast = pipeline.intrinsics.get("standard_metadata.mcast_grp");
    for control in pipeline.controls.values() {
        for data in control.body.blocks.values().flat_map(|block| &block.insts) {
            match &data.inst {
                Inst::Extern { func, .. } => match func {
                    Clone => return Err(Unsupported::Clone),
                    Resubmit => return Err(Unsupported::Resubmit),
                    Recirculate | PnaRecirculate => return Err(Unsupported::Recirculate),
                    MirrorPacket => return Err(Unsupported::Mirror),
                    AddEntry => return Err(Unsupported::AddOnMiss),
                    SetEntryExpireTime | RestartExpireTimer => return Err(Unsupported::IdleTimeout),
                    _ => {}
                },
                Inst::CopyHeader { dst, .. } if has_varbit(pipeline, *dst) => return Err(Unsupported::VarbitCopy),
                Inst::Store(var, _) if Some(var) == multicast => return Err(Unsupported::Multicast),
                _ => {}
            }
        }
    }
    for control in pipeline.controls.values() {
        check_values(control)?;
        if !control.kind.is_parser() && has_loop(&control.body) {
            return Err(Unsupported::LoopInControl);
        }
    }
    for table in pipeline.tables.values() {
        let selector = table.keys.iter().filter(|key| key.kind == ir::MatchKind::Selector);
        let words: usize = selector.map(|key| entries::words_for(key.ty.width())).sum();
        if words * 8 > crate::abi::AUX_BYTES || table.keys.iter().any(|key| key.ty.width() > WIDEST) {
            return Err(Unsupported::TooLarge);
        }
        if table.idle_timeout {
            return Err(Unsupported::IdleTimeout);
        }
        if table.add_on_miss {
            return Err(Unsupported::AddOnMiss);
        }
        let entry_state = table.direct_counter.is_some() || table.direct_meter.is_some();
        if table.implementation.is_some() && entry_state {
            return Err(Unsupported::ProfileWithEntryState);
        }
        if table.actions.len() > lookup::ValueLayout::MAX_ARMS {
            return Err(Unsupported::TooLarge);
        }
    }
    Ok(())
}
