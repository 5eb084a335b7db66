//! Paired lookups: independent lookups that are made together.
//!
//! Two tables applied one after the other form two stages, even if the second key is known before
//! the first lookup, for example routes and ACLs on the same packet fields. Each stage has costs:
//! queues, frames, cache misses. Therefore the second key is computed together with the first one,
//! both tables are looked up, and the stage after them continues with the result of the second
//! where that table is applied.
//!
//! A lookup that few packets need is not paired: one after a comparison that rarely holds. (Ball
//! and Larus, "Branch prediction for free", 1993: two numbers are rarely equal.)

use crate::analysis::flow::{FlowGraph, lookup_at_end};
use crate::analysis::frame_slots::{FrameSlot, FrameSlots};
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::path_clones::PairedLookup;
use crate::plan::stages::{StageEntry, entry_nodes, stage_nodes, successors_in_stage};
use fixedbitset::FixedBitSet;
use ir::packet_written_tables;
use ir::{BinaryOp, Entity, Inst, InstData, Pipeline, Terminator, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of instructions that compute the key of a paired lookup.
const MAX_KEY_INSTS: usize = 64;

/// Chooses the lookups to pair and sets them on the first lookup of each pair. `cells`: frame slots
/// of the original pipeline.
pub fn choose_paired_lookups(pipeline: &Pipeline, flow: &mut FlowGraph, cells: &FrameSlots) {
    let alone = |flow: &FlowGraph, node: FlowNodeId| flow.starts_lookup_stage(node) && !flow.looks_up_in_place(node);
    let written = packet_written_tables(pipeline);
    let copies = flow.original_nodes().end..flow.nodes.len();
    for node in copies.filter(|node| alone(flow, *node)).collect::<Vec<_>>() {
        let Some(table) = lookup_at_end(pipeline, flow, node) else { continue };
        let start = StageEntry::Table(node, table);
        let nodes = stage_nodes(pipeline, flow, start);
        let likely = likely_stage_nodes(pipeline, flow, start, &nodes);
        // Entries that packets add would show too late or too early in a lookup made ahead.
        let is_written = |node: FlowNodeId| lookup_at_end(pipeline, flow, node).is_some_and(|t| written[t.index()]);
        let found = nodes.iter().filter(|there| likely.contains(there) && alone(flow, **there) && !is_written(**there));
        let found = found.filter_map(|there| find_paired_lookup(pipeline, flow, cells, (start, &nodes), *there));
        // Among several candidates, the table declared for the most entries.
        let size = |it: &PairedLookup| pipeline.tables[it.table].size.unwrap_or(0);
        let best = found.reduce(|best, other| if size(&other) > size(&best) { other } else { best });
        if let Some(best) = best {
            flow.set_paired_lookup(node, best);
        }
    }
}

/// Returns the nodes of a stage that most packets reach. `nodes` must be in topological order.
fn likely_stage_nodes(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    start: StageEntry,
    nodes: &[FlowNodeId],
) -> BTreeSet<FlowNodeId> {
    likely_nodes(pipeline, flow, (entry_nodes(pipeline, flow, start), nodes), |node| {
        successors_in_stage(pipeline, flow, start, node)
    })
}

/// Returns the nodes that most packets reach from the first ones. `nodes` must be in topological
/// order.
///
/// A branch without a lookup is unlikely, because a program ends processing early for faulty
/// packets. If both branches have lookups, the branch of a comparison that rarely holds is
/// unlikely.
pub(super) fn likely_nodes(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    (first, nodes): (Vec<FlowNodeId>, &[FlowNodeId]),
    edges: impl Fn(FlowNodeId) -> Vec<FlowNodeId>,
) -> BTreeSet<FlowNodeId> {
    // Nodes from which a lookup can be reached.
    let mut before_lookup = BTreeSet::new();
    for node in nodes.iter().rev() {
        if lookup_at_end(pipeline, flow, *node).is_some()
            || edges(*node).iter().any(|next| before_lookup.contains(next))
        {
            before_lookup.insert(*node);
        }
    }
    let mut likely: BTreeSet<FlowNodeId> = first.into_iter().collect();
    for node in nodes.iter().filter(|node| before_lookup.contains(node)) {
        if likely.contains(node) {
            let successors: Vec<FlowNodeId> =
                edges(*node).into_iter().filter(|next| before_lookup.contains(next)).collect();
            let unlikely = unlikely_successor(pipeline, flow, *node).filter(|_| successors.len() > 1);
            likely.extend(successors.into_iter().filter(|next| Some(*next) != unlikely));
        }
    }
    likely
}

/// Returns the unlikely successor of a node.
fn unlikely_successor(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> Option<FlowNodeId> {
    let NodeKind::Block(control, block) = flow.nodes[node] else { return None };
    let block = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
    let Some(Terminator::Branch { cond, then, els }) = block.term.as_ref().map(|term| &term.term) else { return None };
    let equal = |value: Value| {
        let made = block.insts.iter().find(|data| data.results.first() == Some(&value))?;
        match made.inst {
            Inst::Binary(BinaryOp::Eq, ..) => Some(true),
            Inst::Binary(BinaryOp::Ne, ..) => Some(false),
            _ => None,
        }
    };
    let either = block.insts.iter().find(|data| data.results.first() == Some(cond)).and_then(|data| match data.inst {
        Inst::Binary(BinaryOp::Or, a, b) => (equal(a)? && equal(b)?).then_some(true),
        _ => None,
    });
    let way = if equal(*cond).or(either)? { then } else { els };
    flow.block_node(node, way.block)
}

/// Returns the lookup at the end of `to`, a node of the stage that starts at `start`, if its key is
/// known before the lookup that precedes the stage.
fn find_paired_lookup(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    slots: &FrameSlots,
    (start, nodes): (StageEntry, &[FlowNodeId]),
    to: FlowNodeId,
) -> Option<PairedLookup> {
    let table = lookup_at_end(pipeline, flow, to)?;
    let NodeKind::Block(control, block) = flow.nodes[to] else { return None };
    let body = &pipeline.controls[ir::ControlId(control as u32)].body;
    let Some(Terminator::Apply { keys, .. }) = body.blocks[block].term.as_ref().map(|term| &term.term) else {
        return None;
    };
    // Members of profiles have keys of their own.
    let has_plain_result =
        pipeline.tables[table].implementation.is_none() && pipeline.tables[table].direct_meter.is_none();
    let mut slice = KeySlice::between_lookups(pipeline, flow, slots, (start, nodes), to)?;
    (has_plain_result && keys.iter().all(|key| slice.add_value(*key))).then(|| PairedLookup {
        node: to,
        table,
        keys: keys.clone(),
        insts: slice.taken,
    })
}

/// Instructions between two lookups, and those that the second key depends on (program slice).
struct KeySlice<'a> {
    pipeline: &'a Pipeline,
    cells: &'a FrameSlots,
    /// Defining instruction of each value.
    made: BTreeMap<Value, &'a InstData>,
    /// Slots that may be written in between.
    written: FixedBitSet,
    /// Header fields that may be written in between.
    fields: BTreeSet<VarId>,
    done: BTreeSet<Value>,
    taken: Vec<InstData>,
}

impl<'a> KeySlice<'a> {
    /// Collects the instructions between two lookups, and the slots and fields that they may write;
    /// `None` if they are in different bodies. `nodes` are those of the stage in topological order.
    fn between_lookups(
        pipeline: &'a Pipeline,
        flow: &FlowGraph,
        cells: &'a FrameSlots,
        (start, nodes): (StageEntry, &[FlowNodeId]),
        to: FlowNodeId,
    ) -> Option<KeySlice<'a>> {
        let NodeKind::Block(control, _) = flow.nodes[to] else { return None };
        let (written, fields) = (FixedBitSet::with_capacity(cells.slots.len()), BTreeSet::new());
        let (made, done, taken) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        let mut slice = KeySlice { pipeline, cells, made, written, fields, done, taken };
        // `nodes` are in topological order.
        let mut leading_nodes = BTreeSet::from([to]);
        for node in nodes.iter().rev() {
            if successors_in_stage(pipeline, flow, start, *node).iter().any(|next| leading_nodes.contains(next)) {
                leading_nodes.insert(*node);
            }
        }
        let StageEntry::Table(first, _) = start else { return None };
        for node in leading_nodes.iter().chain([&first]) {
            let table = flow.applied_table(pipeline, *node);
            slice.fields.extend(table.and_then(|table| pipeline.tables[table].meter_result));
            slice.written.union_with(&cells.writes[flow.original_of(*node)]);
        }
        for node in leading_nodes {
            let NodeKind::Block(other_control, block) = flow.nodes[node] else { return None };
            if other_control != control {
                return None;
            }
            for data in &pipeline.controls[ir::ControlId(other_control as u32)].body.blocks[block].insts {
                if let Inst::Store(var, _) = data.inst {
                    slice.fields.insert(var);
                }
                slice.made.extend(data.results.iter().map(|result| (*result, data)));
            }
        }
        Some(slice)
    }

    /// Returns whether header validity may change.
    fn changes_validity(&self) -> bool {
        let mut cells = self.cells.slots.iter().enumerate();
        cells.any(|(number, cell)| matches!(cell, FrameSlot::Valid(_)) && self.written.contains(number))
    }

    /// Adds the instructions that compute a value. Returns false if the value may differ before the
    /// first lookup, or if it takes too many instructions.
    fn add_value(&mut self, value: Value) -> bool {
        if self.done.contains(&value) {
            return true;
        }
        let Some(data) = self.made.get(&value).copied() else { return false };
        let is_unchanged = match &data.inst {
            Inst::Load(var) => match self.pipeline.vars[*var].kind {
                VarKind::Field(..) => !(self.fields.contains(var) || self.changes_validity()),
                _ => !self.written.contains(self.cells.index_of(FrameSlot::Var(*var))),
            },
            Inst::IsValid(_) => !self.changes_validity(),
            // Division is guarded by a check for 0, and value sets are searched by a call.
            Inst::Binary(BinaryOp::Div | BinaryOp::Mod, ..) | Inst::InValueSet(..) => false,
            inst => inst.is_pure(),
        };
        let mut operands = Vec::new();
        data.inst.for_each_use(|operand| operands.push(operand));
        if !is_unchanged || !operands.into_iter().all(|operand| self.add_value(operand)) {
            return false;
        }
        self.done.insert(value);
        self.taken.push(data.clone());
        self.taken.len() <= MAX_KEY_INSTS
    }
}
