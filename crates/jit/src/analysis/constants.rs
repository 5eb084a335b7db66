//! Constant values of frame slots before each node; such slots need not be stored or loaded. The
//! parser's position at each extraction also yields the headers with a fixed offset.

use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::{FrameSlot, FrameSlots};
use crate::analysis::headers::{HeaderLayout, HeaderLocation};
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::validity::KnownValidity;
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
    /// Computes the constants by a forward data-flow analysis.
    pub fn new(
        pipeline: &Pipeline,
        flow: &FlowGraph,
        headers: &HeaderLayout,
        cells: &FrameSlots,
        known: &[Option<KnownValidity>],
    ) -> Constants {
        let summary = |node: FlowNodeId| node_transfer(pipeline, flow, headers, cells, (node, known[node].clone()));
        let summaries: Vec<NodeTransfer> = (0..flow.nodes.len()).map(summary).collect();
        let mut before: Vec<Option<SlotConstants>> = vec![None; summaries.len()];
        // All slots are 0 at first.
        before[0] = Some(vec![Some(0); cells.slots.len()]);
        let error = cells.index_of(FrameSlot::ParserError);
        let mut work = vec![0];
        while let Some(node) = work.pop() {
            let Some(mut state) = before[node].clone() else { continue };
            for effect in &summaries[node].effects {
                match effect {
                    SlotEffect::Store(cell, number) => state[*cell] = *number,
                    SlotEffect::CopyFrom { cell, from } => state[*cell] = state[*from],
                    SlotEffect::Add(cell, more) => state[*cell] = state[*cell].map(|number| number + more),
                    SlotEffect::Clobber(all) => all.iter().for_each(|cell| state[*cell] = None),
                    SlotEffect::ParserExit => {
                        let mut left = state.clone();
                        left[error] = None;
                        work.extend(summaries[node].after.filter(|after| merge_constants(&mut before[*after], &left)));
                    }
                }
            }
            let closed = summaries[node].branch.as_ref().and_then(|asks| asks.untaken_target(&state));
            let open = summaries[node].next.iter().filter(|next| Some(**next) != closed);
            work.extend(open.filter(|next| merge_constants(&mut before[**next], &state)));
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
        cells: &FrameSlots,
        headers: &mut HeaderLayout,
    ) {
        let cursor = cells.index_of(FrameSlot::Cursor);
        let mut places: BTreeMap<HeaderId, Option<u64>> = BTreeMap::new();
        for (node, step) in flow.nodes.iter().enumerate() {
            let (NodeKind::Block(control, block), Some(state)) = (*step, &self.0[node]) else { continue };
            let mut at = state[cursor];
            for data in &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts {
                match &data.inst {
                    Inst::Extract(id) => {
                        let place = places.entry(*id).or_insert(at);
                        *place = place.filter(|place| Some(*place) == at);
                        at = at.map(|at| at + u64::from(headers.bytes[id.index()]));
                    }
                    Inst::ExtractVarbit(..) | Inst::Advance(_) => at = None,
                    _ => {}
                }
            }
        }
        for (id, at) in places {
            let stays = !headers.in_frame[id.index()] && headers.varbit[id.index()].is_none();
            if let Some(at) = at.and_then(|at| u32::try_from(at).ok()).filter(|_| stays) {
                headers.locations[id.index()] = HeaderLocation::Fixed(at);
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

fn node_transfer(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    headers: &HeaderLayout,
    cells: &FrameSlots,
    (node, mut known): (FlowNodeId, Option<KnownValidity>),
) -> NodeTransfer {
    let NodeKind::Block(id, block) = flow.nodes[node] else {
        // The first node sets all slots to 0, their initial value.
        let written = if node == 0 { Vec::new() } else { cells.writes[node].ones().collect() };
        let (effects, next) = (vec![SlotEffect::Clobber(written)], flow.end_successors(pipeline, node));
        return NodeTransfer { effects, branch: None, after: None, next };
    };
    let control = &pipeline.controls[ir::ControlId(id as u32)];
    let data = &control.body.blocks[block];
    let mut effects = Vec::new();
    if control.body.entry == Some(block) {
        let sums = cells.slots.iter().enumerate().filter(|(_, cell)| matches!(cell, FrameSlot::Sum(_)));
        effects.extend(sums.map(|(index, _)| SlotEffect::Store(index, Some(0))));
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
        let stays = |id: &HeaderId| known.as_ref().is_some_and(|known| known.valid.contains(id.index()));
        if !matches!(&data.inst, Inst::SetValid(id) if stays(id)) {
            effects.extend(inst_effect(pipeline, headers, cells, &numbers, &data.inst));
        }
        if let Inst::Extract(id) | Inst::ExtractVarbit(id, _) = &data.inst
            && let Some(cell) = cells.index.get(&FrameSlot::HeaderAddr(*id))
        {
            effects.push(SlotEffect::CopyFrom { cell: *cell, from: cells.index_of(FrameSlot::Cursor) });
        }
        if let Some(known) = &mut known {
            known.apply_inst(headers, &data.inst);
        }
        if let Inst::Extract(header) = &data.inst {
            effects.push(SlotEffect::Add(cells.index_of(FrameSlot::Cursor), u64::from(headers.bytes[header.index()])));
        }
    }
    if let Some(table) = flow.applied_table(pipeline, node) {
        effects.push(SlotEffect::Clobber(cells.slots_written_by_table(pipeline, headers, table)));
    }
    let parser = control.kind.is_parser();
    NodeTransfer {
        effects,
        branch: slot_branch(flow, cells, node, data, &numbers),
        after: flow.body_exit(id).filter(|_| parser && !flow.restarts_on_exit_from(node)),
        next: flow.end_successors(pipeline, node),
    }
}

/// Returns the branch of a block on a variable, or on its comparison with a constant.
fn slot_branch(
    flow: &FlowGraph,
    cells: &FrameSlots,
    node: FlowNodeId,
    block: &BlockData,
    numbers: &HashMap<Value, u64>,
) -> Option<SlotBranch> {
    let Terminator::Branch { cond, then, els } = &block.term.as_ref()?.term else { return None };
    let mut targets = [flow.block_node(node, then.block)?, flow.block_node(node, els.block)?];
    let made = |value: Value| block.insts.iter().find(|data| data.results.first() == Some(&value)).map(|d| &d.inst);
    let mut asked = *cond;
    while let Some(Inst::Unary(UnaryOp::LogicalNot, of)) = made(asked) {
        (asked, targets) = (*of, [targets[1], targets[0]]);
    }
    let (var, number) = match made(asked)? {
        Inst::Load(var) => (*var, 1),
        Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) => {
            if *op == BinaryOp::Ne {
                targets.reverse();
            }
            let (of, number) = numbers.get(b).map(|n| (a, *n)).or_else(|| numbers.get(a).map(|n| (b, *n)))?;
            let Inst::Load(var) = made(*of)? else { return None };
            (*var, number)
        }
        _ => return None,
    };
    let cell = *cells.index.get(&FrameSlot::Var(var))?;
    // The slot has the same value at the block's start and end.
    (!cells.writes[node].contains(cell)).then_some(SlotBranch { cell, number, targets })
}

fn inst_effect(
    pipeline: &Pipeline,
    headers: &HeaderLayout,
    cells: &FrameSlots,
    numbers: &HashMap<Value, u64>,
    inst: &Inst,
) -> Option<SlotEffect> {
    let mut written = match inst {
        Inst::Store(var, value) => {
            let cell = cells.index.get(&FrameSlot::Var(*var))?;
            return Some(SlotEffect::Store(*cell, numbers.get(value).copied()));
        }
        inst => cells.slots_written_by(pipeline, headers, inst),
    };
    // A parser instruction sets the error only if it rejects.
    if crate::analysis::facts::may_reject(inst) {
        written.retain(|cell| *cell != cells.index_of(FrameSlot::ParserError));
    }
    // The new position is a separate effect.
    if let Inst::Extract(_) = inst {
        written.retain(|cell| *cell != cells.index_of(FrameSlot::Cursor));
    }
    Some(SlotEffect::Clobber(written)).filter(|effect| !matches!(effect, SlotEffect::Clobber(none) if none.is_empty()))
}

fn constant_value(constant: &Const) -> Option<u64> {
    let fits = constant.ty == Type::Bool || constant.ty.width() <= 64;
    fits.then(|| constant.bits.iter_u64_digits().next().unwrap_or(0))
}
