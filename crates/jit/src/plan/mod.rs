//! Inputs of code generation: stages, the hot path and its clones, and memory layouts. All of it is
//! data.

pub mod frame_layout;
pub mod hot_path;
pub mod hot_path_tail;
pub mod in_place_forward;
pub mod join_stages;
pub mod memory_layout;
pub mod miss_paths;
pub mod paired_lookups;
pub mod pool_prefetch;
pub mod record_layout;
pub mod stages;
pub mod stats_layout;
pub mod vector_layout;

use crate::analysis::constants::Constants;
use crate::analysis::facts::has_loop;
use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::{FrameSlot, FrameSlots};
use crate::analysis::headers::HeaderLayout;
use crate::analysis::node::FlowNodeId;
use crate::analysis::path_clones::{HotPath, HotPathTail};
use crate::analysis::validity::KnownValidity;
use crate::analysis::{header_adjacency, validity};
use crate::fallback_reason::FallbackReason;
use fixedbitset::FixedBitSet;
use ir::{Entity, ExternArg, Inst, Pipeline, TableId, Type};
use stages::{Stage, StageEntry};
use std::collections::BTreeSet;

/// Result of the analyses of a pipeline, split into stages.
#[derive(Clone, Debug)]
pub struct StagePlan {
    /// Control-flow graph.
    pub flow: FlowGraph,
    /// Header layout.
    pub headers: HeaderLayout,
    /// Frame slots.
    pub slots: FrameSlots,
    /// Constant slots before each node.
    pub constants: Constants,
    /// Header validity known before each node.
    pub validity: Vec<Option<KnownValidity>>,
    /// Order in which the parser extracts headers.
    pub adjacency: header_adjacency::HeaderAdjacency,
    /// Points at which stages start; clones are not counted separately.
    pub entries: Vec<StageEntry>,
    /// The stages in topological order.
    pub stages: Vec<Stage>,
}

impl StagePlan {
    /// Analyses a pipeline that passes [`check_supported`]. `traced`: whether the hot path is
    /// specialised. `states_count`: whether parser states are counted in the frame. `small`: for
    /// each table, whether it has a one-word key and may have few entries. `max_copied_insts`: see
    /// [`join_stages::choose_join_stages`].
    ///
    /// # Errors
    /// A feature that native code does not support.
    pub fn new(
        pipeline: &Pipeline,
        traced: bool,
        states_count: bool,
        small: &[bool],
        max_copied_insts: usize,
    ) -> Result<StagePlan, FallbackReason> {
        let mut flow = FlowGraph::new(pipeline)?;
        let mut headers = HeaderLayout::new(pipeline)?;
        let slots = FrameSlots::new(pipeline, &flow, &headers);
        let mut validity = validity::analyze_validity(pipeline, &flow, &headers);
        Constants::new(pipeline, &flow, &headers, &slots, &validity).fix_header_offsets(
            pipeline,
            &flow,
            &slots,
            &mut headers,
        );
        // Many emits inlined after many predecessors are too much code; then the deparser is a
        // stage.
        let emits = pipeline.insts().filter(|data| matches!(data.inst, Inst::Emit(_))).count();
        let stages = stages::split_into_stages(pipeline, &flow)?;
        flow.has_deparser_stage =
            stages::count_deparser_predecessors(pipeline, &flow, &stages) * emits > MAX_INLINE_EMITS;
        join_stages::choose_join_stages(pipeline, &mut flow, max_copied_insts)?;
        if traced && let Some(hot_path) = HotPath::find(pipeline, &flow, &headers) {
            flow.clone_hot_path(&hot_path);
            flow.restarts_on_exit &= !states_count;
            // The clones are new nodes, so validity is computed again after each cloning.
            validity = validity::analyze_validity(pipeline, &flow, &headers);
            flow.clone_tail(&HotPathTail::find(pipeline, &flow, &headers, &validity));
            hot_path_tail::choose_in_place_lookups(pipeline, &mut flow, small);
            paired_lookups::choose_paired_lookups(pipeline, &mut flow, &slots);
            validity = validity::analyze_validity(pipeline, &flow, &headers);
        }
        // Headers with a fixed offset need no slots.
        let slots = FrameSlots::new(pipeline, &flow, &headers);
        let constants = Constants::new(pipeline, &flow, &headers, &slots, &validity);
        let stages = stages::split_into_stages(pipeline, &flow)?;
        let adjacency = header_adjacency::HeaderAdjacency::new(pipeline, &flow, &headers, &validity);
        let entries = stages::stage_entries(pipeline, &flow);
        Ok(StagePlan { flow, headers, slots, constants, validity, adjacency, entries, stages })
    }

    /// Returns the index of the stage entry; clones share that of their original.
    pub fn slot(&self, start: StageEntry) -> usize {
        stages::entry_slot(&self.flow, &self.entries, start)
    }

    /// Returns the constant value of the slot before the node.
    pub fn slot_constant(&self, pipeline: &Pipeline, node: FlowNodeId, index: usize) -> Option<u64> {
        match self.slots.slots[index] {
            FrameSlot::Valid(word) => self.validity[node].as_ref()?.valid_word(word, pipeline.headers.len()),
            _ => self.constants.before(node, index),
        }
    }

    /// Returns the slots that are constant before each of these nodes.
    pub fn constant_slots(&self, pipeline: &Pipeline, nodes: &[FlowNodeId]) -> FixedBitSet {
        let mut certain = FixedBitSet::with_capacity(self.slots.slots.len());
        for index in 0..self.slots.slots.len() {
            let mut reached = nodes.iter().filter(|node| self.validity[**node].is_some());
            if reached.all(|node| self.slot_constant(pipeline, *node, index).is_some()) {
                certain.insert(index);
            }
        }
        certain
    }

    /// Returns the successors of a stage.
    pub fn next_stages(&self, pipeline: &Pipeline, number: usize) -> BTreeSet<usize> {
        self.stages_behind(pipeline, number, &self.stages[number].nodes)
    }

    /// Returns the successors of a stage behind some of its nodes.
    fn stages_behind(&self, pipeline: &Pipeline, number: usize, nodes: &[FlowNodeId]) -> BTreeSet<usize> {
        let start = self.stages[number].start;
        let starts = nodes.iter().flat_map(|node| stages::exit_stages(pipeline, &self.flow, start, *node));
        starts.filter_map(|start| self.stages.iter().position(|stage| stage.start == start)).collect()
    }

    /// Returns the slots that are live before any of these nodes.
    pub fn live_slots(&self, nodes: &[FlowNodeId]) -> FixedBitSet {
        let mut live = FixedBitSet::with_capacity(self.slots.slots.len());
        for node in nodes {
            live.union_with(&self.slots.live[*node]);
        }
        live
    }

    /// Returns whether a stage has only code for packets of the hot path.
    pub fn is_hot_stage(&self, stage: &Stage) -> bool {
        matches!(stage.start, StageEntry::Table(node, _) if self.flow.starts_lookup_stage(node))
    }

    /// Returns the slots that packets carry in their frames to these stages.
    pub fn carried_slots<'s>(&self, pipeline: &Pipeline, stages: impl Iterator<Item = &'s Stage>) -> FixedBitSet {
        let mut carried = FixedBitSet::with_capacity(self.slots.slots.len());
        for stage in stages.filter(|stage| !matches!(stage.start, StageEntry::Begin | StageEntry::Restart)) {
            let entries = stages::entry_nodes(pipeline, &self.flow, stage.start);
            let mut live = self.live_slots(&entries);
            live.difference_with(&self.constant_slots(pipeline, &entries));
            carried.union_with(&live);
        }
        carried
    }
}

/// Maximum number of emissions if the deparser's code is duplicated in each stage that reaches it.
const MAX_INLINE_EMITS: usize = 32;

/// Maximum width in bits of a value in registers.
const MAX_VALUE_BITS: u32 = 2048;

fn has_varbit(pipeline: &Pipeline, header: ir::HeaderId) -> bool {
    pipeline.headers[header].fields.iter().any(|var| matches!(pipeline.vars[*var].ty, Type::Varbit(_)))
}

/// Checks that all values fit in registers.
fn check_values(control: &ir::Control) -> Result<(), FallbackReason> {
    for ty in control.body.values.values() {
        match ty {
            Type::Varbit(_) => return Err(FallbackReason::Varbit),
            ty if ty.width() > MAX_VALUE_BITS => return Err(FallbackReason::TooLarge),
            _ => {}
        }
    }
    for data in control.body.blocks.values().flat_map(|block| &block.insts) {
        let Inst::Extern { args, .. } = &data.inst else { continue };
        let leaves: usize = args.iter().map(|arg| if let ir::ExternArg::Values(v) = arg { v.len() } else { 1 }).sum();
        if leaves * (MAX_VALUE_BITS as usize / 64 + 1) > crate::abi::CALL_AREA_WORDS {
            return Err(FallbackReason::TooLarge);
        }
    }
    Ok(())
}

/// Returns whether `recirculate` is the last verdict on each path that calls it. It replaces the
/// other verdicts, so native code needs no state of its own for it.
fn recirculates_last(body: &ir::Body) -> bool {
    use ir::ExternFn::*;
    let is_verdict =
        |inst: &ir::InstData| matches!(inst.inst, Inst::Extern { func: DropPacket | SendToPort | Truncate, .. });
    let has_verdict: Vec<bool> = body.blocks.values().map(|block| block.insts.iter().any(is_verdict)).collect();
    body.blocks.iter().all(|(id, block)| {
        let recirculates = |inst: &ir::InstData| matches!(inst.inst, Inst::Extern { func: PnaRecirculate, .. });
        let Some(at) = block.insts.iter().position(recirculates) else { return true };
        let overruled = |(other, _): (ir::Block, _)| has_verdict[other.index()] && body.can_reach(id, other);
        !block.insts[at..].iter().any(is_verdict) && !body.blocks.iter().any(overruled)
    })
}

/// Checks for features that native code does not support. `records`: whether the code records
/// packets, for a cache that does not know idle times.
pub fn check_supported(
    pipeline: &Pipeline,
    records: bool,
    is_written: impl Fn(TableId) -> bool,
) -> Result<(), FallbackReason> {
    use ir::ExternFn::*;
    let multicast = pipeline.intrinsics.get("standard_metadata.mcast_grp");
    // Records have no idle times of entries; packets of tables that packets write are not recorded.
    let is_timed_by_host =
        |args: &[ExternArg]| !args.iter().any(|arg| matches!(arg, ExternArg::Table(table) if is_written(*table)));
    for control in pipeline.controls.values() {
        for data in control.body.blocks.values().flat_map(|block| &block.insts) {
            match &data.inst {
                Inst::Extern { func, args, .. } => match func {
                    Clone => return Err(FallbackReason::Clone),
                    Resubmit => return Err(FallbackReason::Resubmit),
                    Recirculate => return Err(FallbackReason::Recirculate),
                    PnaRecirculate if !recirculates_last(&control.body) => return Err(FallbackReason::Recirculate),
                    MirrorPacket => return Err(FallbackReason::Mirror),
                    SetEntryExpireTime | RestartExpireTimer if records && is_timed_by_host(args) => {
                        return Err(FallbackReason::IdleTimeout);
                    }
                    _ => {}
                },
                Inst::CopyHeader { dst, .. } if has_varbit(pipeline, *dst) => return Err(FallbackReason::VarbitCopy),
                Inst::Store(var, _) if Some(var) == multicast => return Err(FallbackReason::Multicast),
                _ => {}
            }
        }
    }
    for control in pipeline.controls.values() {
        check_values(control)?;
        if !control.kind.is_parser() && has_loop(&control.body) {
            return Err(FallbackReason::LoopInControl);
        }
    }
    for (id, table) in pipeline.tables.iter() {
        let selector_keys = table.keys.iter().filter(|key| key.kind == ir::MatchKind::Selector);
        let words: usize = selector_keys.map(|key| entries::words_for(key.ty.width())).sum();
        if words * 8 > crate::abi::SELECTOR_KEY_BYTES || table.keys.iter().any(|key| key.ty.width() > MAX_VALUE_BITS) {
            return Err(FallbackReason::TooLarge);
        }
        if table.idle_timeout && records && !is_written(id) {
            return Err(FallbackReason::IdleTimeout);
        }
        let entry_state =
            table.direct_counter.is_some() || table.direct_meter.is_some() || table.idle_timeout || table.add_on_miss;
        if table.implementation.is_some() && entry_state {
            return Err(FallbackReason::ProfileWithEntryState);
        }
        if table.actions.len() > lookup::ValueLayout::MAX_ARMS {
            return Err(FallbackReason::TooLarge);
        }
    }
    Ok(())
}
