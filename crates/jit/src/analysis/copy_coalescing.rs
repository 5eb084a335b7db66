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
    let slots = FrameSlots::new(pipeline, &flow, &headers);
    let count = slots.slots.len();
    let plain_variables = plain_vars(pipeline, &slots);
    let mut plain = FixedBitSet::with_capacity(count);
    plain_variables.iter().for_each(|var| plain.insert(slots.index_of(FrameSlot::Var(*var))));
    // Variables with a reason are read when the packet leaves, so they keep their names.
    let mut reported = FixedBitSet::with_capacity(count);
    reason_vars(pipeline).into_iter().flatten().for_each(|var| reported.insert(slots.index_of(FrameSlot::Var(var))));
    let interferences = vec![FixedBitSet::with_capacity(count); count];
    let mut coalescing = CopyCoalescing { pipeline, cells: &slots, plain, reported, interferences, copies: Vec::new() };
    for node in 0..flow.nodes.len() {
        coalescing.scan_node(&flow, node);
    }
    let class = coalescing.merge_classes();
    let representative = |var: VarId| match pipeline.vars[var].kind {
        VarKind::Field(..) => var,
        _ => match slots.slots[class[slots.index_of(FrameSlot::Var(var))]] {
            FrameSlot::Var(first) => first,
            _ => var,
        },
    };
    let mut shared = rename_vars(pipeline, representative);
    redundant_stores::remove_redundant_stores(&mut shared, &plain_variables);
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

    /// Scans a node backwards from its live-out variables: a store interferes with all variables
    /// that are live after it, except for the source of a copy, which has the same value.
    fn scan_node(&mut self, flow: &FlowGraph, node: FlowNodeId) {
        // Architecture steps access only variables with a special meaning.
        let NodeKind::Block(control, block) = flow.nodes[node] else { return };
        let data = &self.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
        let mut live_out = FixedBitSet::with_capacity(self.cells.slots.len());
        for next in flow.successors(self.pipeline, node) {
            live_out.union_with(&self.cells.live[next]);
        }
        live_out.intersect_with(&self.plain);
        let mut live = live_out.clone();
        let sources = self.copy_sources(data);
        for (index, inst) in data.insts.iter().enumerate().rev() {
            if may_reject(&inst.inst) {
                // The parser may reject here, so variables live after the body are live.
                live.union_with(&live_out);
            }
            match &inst.inst {
                Inst::Store(var, _) => {
                    let Some(to) = self.slot_index(*var) else { continue };
                    let from =
                        sources[index].filter(|from| self.pipeline.vars[*from].ty == self.pipeline.vars[*var].ty);
                    let source = from.and_then(|from| self.slot_index(from));
                    for other in live.ones().filter(|other| *other != to && Some(*other) != source) {
                        self.interferences[to].insert(other);
                        self.interferences[other].insert(to);
                    }
                    live.remove(to);
                    if let (Some(from), Some(_)) = (from, source) {
                        self.copies.push(VarCopy { from, to: *var });
                    }
                }
                Inst::Load(var) => {
                    if let Some(number) = self.slot_index(*var) {
                        live.insert(number);
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

    /// Merges copies that do not interfere; returns for each slot the representative of its class.
    /// A class has at most one variable with a reason, which then represents it.
    fn merge_classes(mut self) -> Vec<usize> {
        let mut class: Vec<usize> = (0..self.cells.slots.len()).collect();
        for VarCopy { from, to } in std::mem::take(&mut self.copies) {
            let (Some(from), Some(to)) = (self.slot_index(from), self.slot_index(to)) else { continue };
            let (mut kept_class, mut merged_class) = (class[from].min(class[to]), class[from].max(class[to]));
            if self.reported.contains(merged_class) {
                (kept_class, merged_class) = (merged_class, kept_class);
            }
            if self.reported.contains(merged_class) {
                continue;
            }
            let interferes = (0..class.len())
                .any(|slot| class[slot] == merged_class && self.interferences[kept_class].contains(slot));
            if kept_class == merged_class || interferes {
                continue;
            }
            let merged_interferences = self.interferences[merged_class].clone();
            self.interferences[kept_class].union_with(&merged_interferences);
            class
                .iter_mut()
                .filter(|class_of_slot| **class_of_slot == merged_class)
                .for_each(|class_of_slot| *class_of_slot = kept_class);
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
