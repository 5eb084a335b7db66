//! Constant values of frame slots before each node; such slots need not be stored or loaded. The
//! parser's position at each extraction also yields the headers with a fixed offset.

use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::{FrameSlot, FrameSlots};
use crate::analysis::headers::{HeaderLayout, HeaderLocation};
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::validity::KnownValidity;
use crate::analysis::worklist::Worklist;
use ir::{BinaryOp, BlockData, Const, Entity, HeaderId, Inst, Pipeline, Terminator, Type, UnaryOp, Value};
use std::collections::{BTreeMap, HashMap};

/// Constant value of each slot, `None` if unknown.
type SlotConstants = Vec<Option<u64>>;

/// Constant values of all slots before each node. `None` for unreachable nodes.
#[derive(Clone, Debug)]
pub struct Constants(Vec<Option<SlotConstants>>);

/// Effect of an instruction on slots.
enum SlotEffect {
    /// Sets the slot to a constant, or to an unknown value.
    Store(usize, Option<u64>),
    /// Copies another slot.
    CopyFrom { cell: usize, from: usize },
    /// Adds a constant to the slot.
    Add(usize, u64),
    /// Sets the slots to unknown values.
    Clobber(Vec<usize>),
    /// The parser may reject here.
    ParserExit,
}

/// Transfer function of a node, computed once for all iterations.
struct NodeTransfer {
    effects: Vec<SlotEffect>,
    /// Branch at the node's end, if it depends on one slot.
    branch: Option<SlotBranch>,
    /// Successor if the parser rejects.
    after: Option<FlowNodeId>,
    next: Vec<FlowNodeId>,
}

/// Branch on a slot that its node does not change.
struct SlotBranch {
    cell: usize,
    number: u64,
    /// Successors if the slot has the value, and if not.
    targets: [FlowNodeId; 2],
}

impl SlotBranch {
    /// Returns the successor that is never taken, if the slot is constant.
    fn untaken_target(&self, state: &SlotConstants) -> Option<FlowNodeId> {
        let [equal, other] = self.targets;
        let closed = if state[self.cell]? == self.number { other } else { equal };
        (equal != other).then_some(closed)
    }
}

impl Constants {
    /// Computes the constants by a forward data-flow analysis. A slot is constant before a node if
    /// all reachable paths to it agree on the value. `known` is the header validity before each
    /// node.
    pub fn new(
        pipeline: &Pipeline,
        flow: &FlowGraph,
        headers: &HeaderLayout,
        slots: &FrameSlots,
        known: &[Option<KnownValidity>],
    ) -> Constants {
        let summary = |node: FlowNodeId| node_transfer(pipeline, flow, headers, slots, (node, known[node].clone()));
        let summaries: Vec<NodeTransfer> = (0..flow.nodes.len()).map(summary).collect();
        let mut before: Vec<Option<SlotConstants>> = vec![None; summaries.len()];
        // All slots are 0 at first.
        before[0] = Some(vec![Some(0); slots.slots.len()]);
        let error_slot = slots.index_of(FrameSlot::ParserError);
        let mut work = Worklist::new(pipeline, flow);
        while let Some(node) = work.pop() {
            let Some(mut state) = before[node].clone() else { continue };
            for effect in &summaries[node].effects {
                match effect {
                    SlotEffect::Store(slot, number) => state[*slot] = *number,
                    SlotEffect::CopyFrom { cell: slot, from } => state[*slot] = state[*from],
                    SlotEffect::Add(slot, more) => state[*slot] = state[*slot].map(|number| number + more),
                    SlotEffect::Clobber(all) => all.iter().for_each(|slot| state[*slot] = None),
                    SlotEffect::ParserExit => {
                        let mut at_exit = state.clone();
                        at_exit[error_slot] = None;
                        if let Some(after) = summaries[node].after
                            && merge_constants(&mut before[after], &at_exit)
                        {
                            work.push(after);
                        }
                    }
                }
            }
            let untaken = summaries[node].branch.as_ref().and_then(|branch| branch.untaken_target(&state));
            let taken = summaries[node].next.iter().filter(|next| Some(**next) != untaken);
            taken.filter(|next| merge_constants(&mut before[**next], &state)).for_each(|next| work.push(*next));
        }
        Constants(before)
    }

    /// Returns the constant value of a slot before a node. For the address of a header this is its
    /// offset in bytes from the start of the packet.
    pub fn before(&self, node: FlowNodeId, cell: usize) -> Option<u64> {
        self.0[node].as_ref()?[cell]
    }

    /// Marks headers that are only ever extracted, always at the same offset, as fixed.
    pub fn fix_header_offsets(
        &self,
        pipeline: &Pipeline,
        flow: &FlowGraph,
        slots: &FrameSlots,
        headers: &mut HeaderLayout,
    ) {
        let cursor = slots.index_of(FrameSlot::Cursor);
        let mut offsets: BTreeMap<HeaderId, Option<u64>> = BTreeMap::new();
        for (node, step) in flow.nodes.iter().enumerate() {
            let (NodeKind::Block(control, block), Some(state)) = (*step, &self.0[node]) else { continue };
            let mut offset = state[cursor];
            for data in &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts {
                match &data.inst {
                    Inst::Extract(id) => {
                        // A second extraction at another offset, or at one that is not constant,
                        // rules the header out.
                        let seen = offsets.entry(*id).or_insert(offset);
                        *seen = seen.filter(|seen| Some(*seen) == offset);
                        offset = offset.map(|offset| offset + u64::from(headers.bytes[id.index()]));
                    }
                    Inst::ExtractVarbit(..) | Inst::Advance(_) => offset = None,
                    _ => {}
                }
            }
        }
        for (id, offset) in offsets {
            let may_be_fixed = !headers.in_frame[id.index()] && headers.varbit[id.index()].is_none();
            if let Some(offset) = offset.and_then(|offset| u32::try_from(offset).ok()).filter(|_| may_be_fixed) {
                headers.locations[id.index()] = HeaderLocation::Fixed(offset);
            }
        }
    }
}

/// Merges a state into that of a successor; returns whether the latter changed.
fn merge_constants(there: &mut Option<SlotConstants>, state: &SlotConstants) -> bool {
    let Some(there) = there else {
        *there = Some(state.clone());
        return true;
    };
    let mut changed = false;
    for (there, new) in there.iter_mut().zip(state) {
        if there.is_some() && there != new {
            (*there, changed) = (None, true);
        }
    }
    changed
}

/// Summarises a node for the analysis: its effects on the slots in order, the branch at its end if
/// it tests a slot, and the nodes after it. `known` is the header validity before the node.
fn node_transfer(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    headers: &HeaderLayout,
    slots: &FrameSlots,
    (node, mut known): (FlowNodeId, Option<KnownValidity>),
) -> NodeTransfer {
    let NodeKind::Block(id, block) = flow.nodes[node] else {
        // The first node sets all slots to 0, their initial value.
        let written = if node == 0 { Vec::new() } else { slots.writes[node].ones().collect() };
        let (effects, next) = (vec![SlotEffect::Clobber(written)], flow.end_successors(pipeline, node));
        return NodeTransfer { effects, branch: None, after: None, next };
    };
    let control = &pipeline.controls[ir::ControlId(id as u32)];
    let data = &control.body.blocks[block];
    let mut effects = Vec::new();
    if control.body.entry == Some(block) {
        let checksums = slots.slots.iter().enumerate().filter(|(_, slot)| matches!(slot, FrameSlot::Sum(_)));
        effects.extend(checksums.map(|(index, _)| SlotEffect::Store(index, Some(0))));
    }
    let mut numbers: HashMap<Value, u64> = HashMap::new();
    for data in &data.insts {
        if crate::analysis::facts::may_reject(&data.inst) {
            effects.push(SlotEffect::ParserExit);
        }
        if let (Inst::Const(constant), Some(result)) = (&data.inst, data.results.first()) {
            numbers.extend(constant_value(constant).map(|number| (*result, number)));
        }
        // `setValid` of a valid header does not move it.
        let is_valid = |id: &HeaderId| known.as_ref().is_some_and(|known| known.valid.contains(id.index()));
        if !matches!(&data.inst, Inst::SetValid(id) if is_valid(id)) {
            effects.extend(inst_effect(pipeline, headers, slots, &numbers, &data.inst));
        }
        if let Inst::Extract(id) | Inst::ExtractVarbit(id, _) = &data.inst
            && let Some(cell) = slots.index.get(&FrameSlot::HeaderAddr(*id))
        {
            effects.push(SlotEffect::CopyFrom { cell: *cell, from: slots.index_of(FrameSlot::Cursor) });
        }
        if let Some(known) = &mut known {
            known.apply_inst(headers, &data.inst);
        }
        if let Inst::Extract(header) = &data.inst {
            effects.push(SlotEffect::Add(slots.index_of(FrameSlot::Cursor), u64::from(headers.bytes[header.index()])));
        }
    }
    if let Some(table) = flow.applied_table(pipeline, node) {
        effects.push(SlotEffect::Clobber(slots.slots_written_by_table(pipeline, headers, table)));
    }
    let parser = control.kind.is_parser();
    NodeTransfer {
        effects,
        branch: slot_branch(flow, slots, node, data, &numbers),
        after: flow.body_exit(id).filter(|_| parser && !flow.restarts_on_exit_from(node)),
        next: flow.end_successors(pipeline, node),
    }
}

/// Returns the branch of a block on a variable, or on its comparison with a constant, if the block
/// does not write the variable's slot. `numbers` are the constants that the block defines.
fn slot_branch(
    flow: &FlowGraph,
    slots: &FrameSlots,
    node: FlowNodeId,
    block: &BlockData,
    numbers: &HashMap<Value, u64>,
) -> Option<SlotBranch> {
    let Terminator::Branch { cond, then, els } = &block.term.as_ref()?.term else { return None };
    let mut targets = [flow.block_node(node, then.block)?, flow.block_node(node, els.block)?];
    let defining_inst =
        |value: Value| block.insts.iter().find(|data| data.results.first() == Some(&value)).map(|d| &d.inst);
    let mut condition = *cond;
    while let Some(Inst::Unary(UnaryOp::LogicalNot, operand)) = defining_inst(condition) {
        (condition, targets) = (*operand, [targets[1], targets[0]]);
    }
    let (var, number) = match defining_inst(condition)? {
        Inst::Load(var) => (*var, 1),
        Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) => {
            if *op == BinaryOp::Ne {
                targets.reverse();
            }
            let (operand, number) = numbers.get(b).map(|n| (a, *n)).or_else(|| numbers.get(a).map(|n| (b, *n)))?;
            let Inst::Load(var) = defining_inst(*operand)? else { return None };
            (*var, number)
        }
        _ => return None,
    };
    let cell = *slots.index.get(&FrameSlot::Var(var))?;
    // The slot has the same value at the block's start and end.
    (!slots.writes[node].contains(cell)).then_some(SlotBranch { cell, number, targets })
}

/// Returns the effect of an instruction on the slots: a store of a constant or of an unknown value,
/// or all slots that it may change. `None`: it changes no slot.
fn inst_effect(
    pipeline: &Pipeline,
    headers: &HeaderLayout,
    slots: &FrameSlots,
    numbers: &HashMap<Value, u64>,
    inst: &Inst,
) -> Option<SlotEffect> {
    let mut written = match inst {
        Inst::Store(var, value) => {
            let cell = slots.index.get(&FrameSlot::Var(*var))?;
            return Some(SlotEffect::Store(*cell, numbers.get(value).copied()));
        }
        inst => slots.slots_written_by(pipeline, headers, inst),
    };
    // A parser instruction sets the error only if it rejects.
    if crate::analysis::facts::may_reject(inst) {
        written.retain(|cell| *cell != slots.index_of(FrameSlot::ParserError));
    }
    // The new position is a separate effect.
    if let Inst::Extract(_) = inst {
        written.retain(|cell| *cell != slots.index_of(FrameSlot::Cursor));
    }
    Some(SlotEffect::Clobber(written)).filter(|effect| !matches!(effect, SlotEffect::Clobber(none) if none.is_empty()))
}

fn constant_value(constant: &Const) -> Option<u64> {
    let fits = constant.ty == Type::Bool || constant.ty.width() <= 64;
    fits.then(|| constant.bits.iter_u64_digits().next().unwrap_or(0))
}
