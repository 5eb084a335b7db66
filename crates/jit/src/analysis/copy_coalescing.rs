//! Copy coalescing: merges variables that are copies of each other, because an `inout` argument is
//! copied in, changed and copied out, and a packet would carry both.
//!
//! Two variables can be merged if one is stored the value of the other, and neither is written
//! while the other is live with a different value. (Register coalescing: Chaitin, "Register
//! allocation and spilling via graph coloring", 1982.)

use crate::analysis::facts::{may_reject, reason_vars};
use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::{FrameSlot, FrameSlots};
use crate::analysis::headers::HeaderLayout;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::redundant_stores;
use crate::fallback_reason::FallbackReason;
use fixedbitset::FixedBitSet;
use ir::{BlockData, ExternArg, Inst, Pipeline, Value, VarId, VarKind};
use std::collections::{BTreeSet, HashMap};

/// A store of another variable's value.
struct VarCopy {
    from: VarId,
    to: VarId,
}

/// Search for variables to merge.
struct CopyCoalescing<'a> {
    pipeline: &'a Pipeline,
    cells: &'a FrameSlots,
    /// Slots of variables that only loads and stores access.
    plain: FixedBitSet,
    /// Slots of variables that the verdict reads by name.
    reported: FixedBitSet,
    /// For each slot, the slots that interfere with it.
    interferences: Vec<FixedBitSet>,
    copies: Vec<VarCopy>,
}

/// Returns the pipeline with coalesced variables. Value ids and blocks are unchanged.
///
/// # Errors
/// A feature that native code does not support.
pub fn coalesce_copies(pipeline: &Pipeline) -> Result<Pipeline, FallbackReason> {
    let flow = FlowGraph::new(pipeline)?;
    let headers = HeaderLayout::new(pipeline)?;
    let cells = FrameSlots::new(pipeline, &flow, &headers);
    let count = cells.slots.len();
    let kept = plain_vars(pipeline, &cells);
    let mut plain = FixedBitSet::with_capacity(count);
    kept.iter().for_each(|var| plain.insert(cells.index_of(FrameSlot::Var(*var))));
    let mut reported = FixedBitSet::with_capacity(count);
    reason_vars(pipeline).into_iter().flatten().for_each(|var| reported.insert(cells.index_of(FrameSlot::Var(var))));
    let interferences = vec![FixedBitSet::with_capacity(count); count];
    let mut sharing = CopyCoalescing { pipeline, cells: &cells, plain, reported, interferences, copies: Vec::new() };
    for node in 0..flow.nodes.len() {
        sharing.scan_node(&flow, node);
    }
    let class = sharing.merge_classes();
    let of = |var: VarId| match pipeline.vars[var].kind {
        VarKind::Field(..) => var,
        _ => match cells.slots[class[cells.index_of(FrameSlot::Var(var))]] {
            FrameSlot::Var(first) => first,
            _ => var,
        },
    };
    let mut shared = rename_vars(pipeline, of);
    redundant_stores::remove_redundant_stores(&mut shared, &kept);
    Ok(shared)
}

/// Returns the variables that only loads, stores and the final verdict access: those without a
/// meaning for the architecture, tables or externs.
fn plain_vars(pipeline: &Pipeline, cells: &FrameSlots) -> BTreeSet<VarId> {
    let mut special: BTreeSet<VarId> = pipeline.intrinsics.values().copied().collect();
    special.extend(pipeline.field_lists.values().flatten());
    special.extend(pipeline.tables.values().filter_map(|table| table.meter_result));
    for data in pipeline.insts() {
        let Inst::Extern { args, .. } = &data.inst else { continue };
        special.extend(args.iter().flat_map(|arg| if let ExternArg::Vars(vars) = arg { vars.as_slice() } else { &[] }));
    }
    let vars = cells.slots.iter().filter_map(|cell| if let FrameSlot::Var(var) = cell { Some(*var) } else { None });
    vars.filter(|var| !special.contains(var)).collect()
}

impl CopyCoalescing<'_> {
    fn slot_index(&self, var: VarId) -> Option<usize> {
        if matches!(self.pipeline.vars[var].kind, VarKind::Field(..)) {
            return None;
        }
        Some(self.cells.index_of(FrameSlot::Var(var))).filter(|number| self.plain.contains(*number))
    }

    /// Scans a node backwards from its live-out variables.
    fn scan_node(&mut self, flow: &FlowGraph, node: FlowNodeId) {
        // Architecture steps access only variables with a special meaning.
        let NodeKind::Block(control, block) = flow.nodes[node] else { return };
        let data = &self.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
        let mut behind = FixedBitSet::with_capacity(self.cells.slots.len());
        for next in flow.successors(self.pipeline, node) {
            behind.union_with(&self.cells.live[next]);
        }
        behind.intersect_with(&self.plain);
        let mut needed = behind.clone();
        let sources = self.copy_sources(data);
        for (at, inst) in data.insts.iter().enumerate().rev() {
            if may_reject(&inst.inst) {
                // The parser may reject here, so variables live after the body are live.
                needed.union_with(&behind);
            }
            match &inst.inst {
                Inst::Store(var, _) => {
                    let Some(to) = self.slot_index(*var) else { continue };
                    let from = sources[at].filter(|from| self.pipeline.vars[*from].ty == self.pipeline.vars[*var].ty);
                    let source = from.and_then(|from| self.slot_index(from));
                    for other in needed.ones().filter(|other| *other != to && Some(*other) != source) {
                        self.interferences[to].insert(other);
                        self.interferences[other].insert(to);
                    }
                    needed.remove(to);
                    if let (Some(from), Some(_)) = (from, source) {
                        self.copies.push(VarCopy { from, to: *var });
                    }
                }
                Inst::Load(var) => {
                    if let Some(number) = self.slot_index(*var) {
                        needed.insert(number);
                    }
                }
                _ => {}
            }
        }
    }

    /// For each store of another variable's value, returns that variable.
    fn copy_sources(&self, data: &BlockData) -> Vec<Option<VarId>> {
        let mut holds: HashMap<Value, VarId> = HashMap::new();
        let source = |inst: &ir::InstData| match &inst.inst {
            Inst::Load(var) => {
                holds.extend(inst.results.first().map(|result| (*result, *var)));
                None
            }
            Inst::Store(var, value) => {
                let source = holds.get(value).copied();
                holds.retain(|_, held| held != var);
                source
            }
            _ => None,
        };
        data.insts.iter().map(source).collect()
    }

    /// Merges copies; returns for each slot the representative of its class.
    fn merge_classes(mut self) -> Vec<usize> {
        let mut class: Vec<usize> = (0..self.cells.slots.len()).collect();
        for VarCopy { from, to } in std::mem::take(&mut self.copies) {
            let (Some(from), Some(to)) = (self.slot_index(from), self.slot_index(to)) else { continue };
            let (mut one, mut other) = (class[from].min(class[to]), class[from].max(class[to]));
            if self.reported.contains(other) {
                (one, other) = (other, one);
            }
            if self.reported.contains(other) {
                continue;
            }
            let clash = (0..class.len()).any(|at| class[at] == other && self.interferences[one].contains(at));
            if one == other || clash {
                continue;
            }
            let more = self.interferences[other].clone();
            self.interferences[one].union_with(&more);
            class.iter_mut().filter(|of| **of == other).for_each(|of| *of = one);
        }
        class
    }
}

/// Renames the variables in loads and stores.
fn rename_vars(pipeline: &Pipeline, of: impl Fn(VarId) -> VarId) -> Pipeline {
    let mut pipeline = pipeline.clone();
    for data in pipeline.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
        for inst in &mut data.insts {
            if let Inst::Load(var) | Inst::Store(var, _) = &mut inst.inst {
                *var = of(*var);
            }
        }
    }
    pipeline
}
