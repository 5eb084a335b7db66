//! Vectoriser: converts a stage's function for one packet to vector code for eight.
//!
//! Blocks are visited once, in topological order. Each computation applies to eight lanes. The mask
//! of a block holds the lanes that would be in it; at a join, each lane takes the value of its
//! predecessor. Side effects are deferred to the end, because only there the lanes are known for
//! which vector code supports the whole path. The other lanes diverge to the scalar function, as if
//! the vector code had not run.

use crate::abi::FrameHeader;
use crate::code::annotations::{InstRole, StageAnnotations};
use crate::code::compiling::CodegenContext;
use crate::lanes::build::VectorBuilder;
use crate::lanes::ir::{LaneCompare, OpId, VectorCode, VectorOp};
use crate::lanes::state::{LaneState, PacketAccess};
use crate::plan::frame_layout::type_bytes;
use crate::plan::stages::StageEntry;
use crate::plan::vector_layout::{VectorLayout, VectorQueue, split_into_words};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::{BlockArg, InstructionData};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::offset_of;

/// A value of the function in eight lanes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LaneValue {
    /// Numbers: the low bits of the value's type; the others are 0.
    Vector(OpId),
    /// A bool.
    Mask(OpId),
    /// An address in the packet's frame, as offset.
    Frame(i64),
    /// An address in the queue, as offset from the packet's entry.
    Place(i64),
    /// An address relative to the context, as offset.
    Context(i64),
    /// An address in the packet, as offset.
    Packet(i64),
    /// An address stored at an offset from the context, plus an offset.
    Pointed(i32, i64),
    /// A lookup result, 0 for a miss.
    Found(LookupResults),
    /// An address in the value of a lookup; the default action's value for a miss.
    Value(LookupResults, i64),
    /// Not supported by vector code.
    Unknown,
}

/// Result list of a lookup.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LookupResults {
    /// Offset of the list of value addresses; the default action's value for a miss.
    pub list: i32,
    /// Offset from the context of the default action's value address.
    pub default: i32,
    /// Number of bytes that can be read of any value.
    pub readable: u32,
}

/// Reason why a stage has no vector code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotVectorizable {
    /// The function has a loop.
    Loop,
    /// Vector code supports no path of the stage.
    NoPath,
}

/// End of a path.
pub(super) struct PathEnd {
    pub mask: OpId,
    pub state: LaneState,
    pub leave: Option<StageExit>,
}

/// Exit to another stage: its index, and words of the keys of its lookup and paired lookup.
pub(super) type StageExit = (usize, Vec<OpId>, Vec<OpId>);

/// Side effect deferred to the end.
pub(super) enum DeferredEffect {
    Tally { cell: usize, mask: OpId, value: OpId },
    Count { mask: OpId, counter: OpId, bytes: OpId },
}

/// State of the vectoriser.
pub struct Vectorizer<'a> {
    pub(super) c: &'a CodegenContext<'a>,
    pub(super) func: &'a cl::Function,
    pub(super) annotations: &'a StageAnnotations,
    pub(super) layout: &'a VectorLayout,
    pub(super) place: &'a VectorQueue,
    pub(super) stage: usize,
    pub(super) start: StageEntry,
    pub(super) packets: PacketAccess,
    pub(super) b: VectorBuilder,
    pub(super) values: HashMap<cl::Value, LaneValue>,
    pub(super) state: LaneState,
    /// Frame contents besides the header: size in bytes by offset.
    pub(super) frame: BTreeMap<u32, u32>,
    /// Lanes in the current block.
    pub(super) mask: OpId,
    pub(super) later: Vec<DeferredEffect>,
    pub(super) ends: Vec<PathEnd>,
}

/// Edges into a block: their lanes, state, and block arguments.
type IncomingEdges = Vec<(OpId, LaneState, Vec<LaneValue>)>;

/// Converts a stage's function to vector code.
///
/// # Errors
/// The reason why there is no vector code.
pub fn vectorize_stage(
    c: &CodegenContext<'_>,
    func: &cl::Function,
    annotations: &StageAnnotations,
    layout: &VectorLayout,
    stage: usize,
) -> Result<VectorCode, NotVectorizable> {
    let queue = layout.stages[stage].as_ref().ok_or(NotVectorizable::NoPath)?;
    let pointers = queue.columns.first().ok_or(NotVectorizable::NoPath)?.list;
    let mut b = VectorBuilder::default();
    let mask = b.active_lanes();
    let start = c.plan.stages[stage].start;
    let packets = PacketAccess { pointers, bytes: layout.packet_bytes };
    let mut vectorizer = Vectorizer {
        c,
        func,
        annotations,
        layout,
        place: queue,
        stage,
        start,
        packets,
        b,
        values: HashMap::new(),
        state: LaneState::default(),
        frame: frame_words(c),
        mask,
        later: Vec::new(),
        ends: Vec::new(),
    };
    vectorizer.convert_blocks()?;
    vectorizer.emit_path_ends()
}

/// Returns the frame contents besides the header: words of slots and values, by offset.
fn frame_words(c: &CodegenContext<'_>) -> BTreeMap<u32, u32> {
    let cells =
        c.layout.slots.iter().enumerate().filter_map(|(index, at)| {
            Some((at.as_ref().copied()?, type_bytes(c.plan.slots.slot_type(c.pipeline, index))))
        });
    let values = c.layout.values.iter().map(|((control, value), at)| {
        let body = &c.pipeline.controls[ir::ControlId(*control as u32)].body;
        (*at, type_bytes(body.value_type(*value)))
    });
    cells.chain(values).flat_map(|(at, bytes)| split_into_words(at, bytes)).collect()
}

impl Vectorizer<'_> {
    /// Returns the blocks in topological order: the reverse postorder of a depth-first search.
    /// Stops at the end of the packet and off the hot path. A loop is an error.
    fn block_order(&self) -> Result<Vec<cl::Block>, NotVectorizable> {
        let (mut done, mut on_path) = (HashSet::new(), HashSet::new());
        let mut order = Vec::new();
        let mut work = vec![(self.annotations.body, false)];
        while let Some((block, is_finished)) = work.pop() {
            if is_finished {
                on_path.remove(&block);
                done.insert(block);
                order.push(block);
                continue;
            }
            if done.contains(&block) || !on_path.insert(block) {
                continue;
            }
            work.push((block, true));
            let is_end =
                |next: &cl::Block| *next == self.annotations.next || self.annotations.off_hot_path.contains(next);
            for next in self.successors(block).into_iter().filter(|next| !is_end(next)) {
                if on_path.contains(&next) {
                    return Err(NotVectorizable::Loop);
                }
                work.push((next, false));
            }
        }
        order.reverse();
        Ok(order)
    }

    fn last_inst(&self, block: cl::Block) -> Option<cl::Inst> {
        self.func.layout.last_inst(block)
    }

    fn successors(&self, block: cl::Block) -> Vec<cl::Block> {
        let Some(last) = self.last_inst(block) else { return Vec::new() };
        let calls =
            self.func.dfg.insts[last].branch_destination(&self.func.dfg.jump_tables, &self.func.dfg.exception_tables);
        calls.iter().map(|call| call.block(&self.func.dfg.value_lists)).collect()
    }

    /// Converts all blocks in order. A block's code runs for the lanes of its incoming edges, which
    /// are joined before it.
    fn convert_blocks(&mut self) -> Result<(), NotVectorizable> {
        let order = self.block_order()?;
        self.values.insert(self.annotations.context, LaneValue::Context(0));
        self.values.insert(
            self.annotations.queue_entry,
            if self.start == StageEntry::Begin { LaneValue::Frame(0) } else { LaneValue::Place(0) },
        );
        let mut edges: HashMap<cl::Block, IncomingEdges> = HashMap::new();
        let all_lanes = self.mask;
        edges.insert(self.annotations.body, vec![(all_lanes, LaneState::default(), Vec::new())]);
        for block in order {
            let Some(incoming) = edges.remove(&block) else { continue };
            if !self.join_edges(block, incoming) {
                continue;
            }
            if let Some(exit) = self.convert_block(block) {
                self.convert_branch(block, exit, &mut edges);
            }
        }
        Ok(())
    }

    /// Joins the edges into a block. Returns false if no lane reaches it.
    fn join_edges(&mut self, block: cl::Block, incoming: IncomingEdges) -> bool {
        let mut edges = incoming.into_iter();
        let Some((mut mask, mut state, mut params)) = edges.next() else { return false };
        let place = self.place;
        for (other, with, args) in edges {
            let mut before = |b: &mut VectorBuilder, at: u32| carried_word(b, place, at);
            state.merge_from(&mut self.b, other, &with, self.packets, &mut before);
            for (param, arg) in params.iter_mut().zip(args) {
                *param = self.select_lane_value(other, arg, *param);
            }
            mask = self.b.mask_or(mask, other);
        }
        (self.mask, self.state) = (mask, state);
        if block != self.annotations.body {
            let names = self.func.dfg.block_params(block).to_vec();
            self.values.extend(names.into_iter().zip(params));
        }
        !self.b.is_empty_mask(mask)
    }

    /// Selects between two values: `one` in lanes of the mask, `two` in others.
    pub(super) fn select_lane_value(&mut self, mask: OpId, one: LaneValue, two: LaneValue) -> LaneValue {
        if one == two {
            return one;
        }
        if let (LaneValue::Mask(one), LaneValue::Mask(two)) = (one, two) {
            return LaneValue::Mask(self.b.select_value(mask, one, two));
        }
        match (self.vector_of(one), self.vector_of(two)) {
            (Some(one), Some(two)) => LaneValue::Vector(self.b.blend(mask, one, two)),
            _ => LaneValue::Unknown,
        }
    }

    /// Converts the instructions of a block, except for its branch. Returns the exit to another
    /// stage, if there is one; `None` if the lanes diverge here, because an instruction has no
    /// vector code.
    fn convert_block(&mut self, block: cl::Block) -> Option<Option<StageExit>> {
        let mut exit = None;
        let last = self.last_inst(block);
        let insts: Vec<cl::Inst> = self.func.layout.block_insts(block).filter(|inst| Some(*inst) != last).collect();
        for inst in insts {
            match self.annotations.roles.get(&inst) {
                Some(InstRole::Part) => {}
                Some(InstRole::Leave { stage, keys, together }) => {
                    self.layout.stages.get(*stage)?.as_ref()?;
                    exit = Some((*stage, self.value_vectors(keys)?, self.value_vectors(together)?));
                }
                Some(InstRole::Tally { cell, hit, more }) => self.defer_stats(*cell, *hit, *more)?,
                Some(InstRole::Count { counter, bytes }) => {
                    let (counter, bytes) = (self.value_vector(*counter)?, self.value_vector(*bytes)?);
                    self.later.push(DeferredEffect::Count { mask: self.mask, counter, bytes });
                }
                Some(InstRole::Remainder { words, crc }) => self.convert_crc_remainder(inst, *words, crc)?,
                Some(InstRole::Value(_)) | None => self.convert_inst(inst)?,
            }
        }
        Some(exit)
    }

    fn value_vectors(&mut self, values: &[cl::Value]) -> Option<Vec<OpId>> {
        values.iter().map(|value| self.value_vector(*value)).collect()
    }

    fn defer_stats(&mut self, cell: usize, hit: cl::Value, more: cl::Value) -> Option<()> {
        let (hit, value) = (self.nonzero_lanes(self.lane_value(hit))?, self.value_vector(more)?);
        let (hits, misses) = (self.b.mask_and(self.mask, hit), self.b.mask_and_not(self.mask, hit));
        for (cell, mask) in [(cell, misses), (cell + 1, hits)] {
            self.later.push(DeferredEffect::Tally { cell, mask, value });
        }
        Some(())
    }

    /// Returns the vector form of a value.
    pub(super) fn lane_value(&self, value: cl::Value) -> LaneValue {
        let value = self.func.dfg.resolve_aliases(value);
        self.values.get(&value).copied().unwrap_or(LaneValue::Unknown)
    }

    // ---- edges ----

    /// Converts the branch at a block's end to masks of the lanes on each edge. Lanes without an
    /// edge diverge. `exit` is the exit to another stage that the block takes.
    fn convert_branch(
        &mut self,
        block: cl::Block,
        exit: Option<StageExit>,
        edges: &mut HashMap<cl::Block, IncomingEdges>,
    ) {
        let Some(last) = self.last_inst(block) else { return };
        let dfg = &self.func.dfg;
        match &dfg.insts[last] {
            InstructionData::Jump { destination, .. } => self.add_edge(self.mask, *destination, exit, edges),
            InstructionData::Brif { arg, blocks, .. } => {
                let Some(cond) = self.nonzero_lanes(self.lane_value(*arg)) else { return };
                let (yes, no) = (self.b.mask_and(self.mask, cond), self.b.mask_and_not(self.mask, cond));
                self.add_edge(yes, blocks[0], exit.clone(), edges);
                self.add_edge(no, blocks[1], exit, edges);
            }
            InstructionData::BranchTable { arg, table, .. } => {
                let Some(number) = self.value_vector(*arg) else { return };
                let table = &dfg.jump_tables[*table];
                let mut remaining = self.mask;
                for (index, call) in table.as_slice().iter().enumerate() {
                    let index = self.b.constant(index as u64);
                    let is_case = self.b.compare(LaneCompare::Equal, number, index);
                    let mask = self.b.mask_and(self.mask, is_case);
                    remaining = self.b.mask_and_not(remaining, is_case);
                    self.add_edge(mask, *call, exit.clone(), edges);
                }
                self.add_edge(remaining, table.default_block(), exit, edges);
            }
            _ => {}
        }
    }

    /// Adds an edge with the lanes in `mask`, or the end of a path. An edge without lanes, or off
    /// the hot path, adds nothing: its lanes diverge.
    fn add_edge(
        &mut self,
        mask: OpId,
        call: cl::BlockCall,
        exit: Option<StageExit>,
        edges: &mut HashMap<cl::Block, IncomingEdges>,
    ) {
        if self.b.is_empty_mask(mask) {
            return;
        }
        let block = call.block(&self.func.dfg.value_lists);
        if self.annotations.off_hot_path.contains(&block) {
            return;
        }
        if block == self.annotations.next {
            return self.end_path(mask, exit);
        }
        let args = call.args(&self.func.dfg.value_lists);
        let args = args.map(|arg| match arg {
            BlockArg::Value(value) => self.lane_value(value),
            _ => LaneValue::Unknown,
        });
        let args = args.collect();
        edges.entry(block).or_default().push((mask, self.state.clone(), args));
    }

    /// Ends a path: for the lanes in `mask` the packet goes to another stage, or is finished. Lanes
    /// whose packet the engine assembles or truncates diverge.
    fn end_path(&mut self, mask: OpId, exit: Option<StageExit>) {
        let word_at = |offset: usize| self.state.frame.get(&(offset as u32)).copied();
        let has_verdict = word_at(offset_of!(FrameHeader, destination)).is_some();
        // Headers that are not in place are assembled by the engine from the packet's frame.
        let assembly = [offset_of!(FrameHeader, output_start), offset_of!(FrameHeader, emitted_count)];
        let needs_assembly = assembly.iter().any(|at| word_at(*at).is_some());
        if exit.is_none() && (!has_verdict || needs_assembly) {
            return;
        }
        let truncate = word_at(offset_of!(FrameHeader, truncate)).filter(|_| exit.is_none());
        let mask = match truncate {
            Some(length) => {
                let whole = self.b.constant(0);
                let is_whole = self.b.compare(LaneCompare::Equal, length, whole);
                self.b.mask_and(mask, is_whole)
            }
            None => mask,
        };
        if !self.b.is_empty_mask(mask) {
            self.ends.push(PathEnd { mask, state: self.state.clone(), leave: exit });
        }
    }
}

/// Returns a word of a frame as it was on entry to the stage, also as part of a longer one.
pub(super) fn carried_word(b: &mut VectorBuilder, place: &VectorQueue, at: u32) -> Option<OpId> {
    let found = place.columns.iter().find(|column| column.frame_offset == at)?;
    let word = b.add_pure(VectorOp::Column(found.list));
    Some(if found.bytes == 8 {
        word
    } else {
        let mask = b.constant(crate::lanes::bound::low_bits(8 * found.bytes));
        b.and(word, mask)
    })
}
