//! Field cache: registers with the values of valid headers' fields, from a load or store to the
//! next possible change.

use crate::analysis::flow::FlowGraph;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::code::stage::StageBuilder;
use crate::plan::stages::{entry_nodes, successors_in_stage};
use ir::{Entity, Inst, Value, VarKind};
use std::collections::HashMap;

/// Returns whether both nodes are blocks of one body.
fn same_body(flow: &FlowGraph, one: FlowNodeId, other: FlowNodeId) -> bool {
    match (flow.nodes[one], flow.nodes[other]) {
        (NodeKind::Block(one, _), NodeKind::Block(other, _)) => one == other,
        _ => false,
    }
}

impl StageBuilder<'_, '_> {
    /// Returns the nodes with a single predecessor that enters them from its end; the cache of that
    /// predecessor is still valid there.
    pub(super) fn single_predecessors(&self, nodes: &[FlowNodeId]) -> HashMap<FlowNodeId, FlowNodeId> {
        let (pipeline, flow) = (self.c.pipeline, &self.c.plan.flow);
        let mut predecessors: HashMap<FlowNodeId, Vec<Option<FlowNodeId>>> = HashMap::new();
        for entry in entry_nodes(pipeline, flow, self.start) {
            predecessors.entry(entry).or_default().push(None);
        }
        for node in nodes {
            let ends = flow.end_successors(pipeline, *node);
            // A direct meter's result is written after the node.
            let writes_meter_result =
                flow.applied_table(pipeline, *node).is_some_and(|id| pipeline.tables[id].meter_result.is_some());
            for next in successors_in_stage(pipeline, flow, self.start, *node) {
                // The same value ids in another body are different values.
                let from = Some(*node)
                    .filter(|_| ends.contains(&next) && !writes_meter_result && same_body(flow, *node, next));
                predecessors.entry(next).or_default().push(from);
            }
        }
        let single = |(node, from): (FlowNodeId, Vec<Option<FlowNodeId>>)| match *from {
            [Some(from)] => Some((node, from)),
            _ => None,
        };
        predecessors.into_iter().filter_map(single).collect()
    }

    /// Updates the field cache after an instruction: forgets fields that it may change, and notes
    /// the bytes that the stage has written.
    pub(super) fn update_field_cache(&mut self, inst: &Inst, results: &[Value]) {
        let changed = match inst {
            Inst::Load(var) => {
                if let (VarKind::Field(header, index), Some(result)) =
                    (self.c.pipeline.vars[*var].kind, results.first())
                    && self.validity.valid.contains(header.0 as usize)
                {
                    self.field_of_value.insert(*result, (header, index));
                }
                return;
            }
            Inst::Store(var, _) => {
                if let VarKind::Field(header, index) = self.c.pipeline.vars[*var].kind {
                    self.field_of_value.retain(|_, field| *field != (header, index));
                    let field = self.c.plan.headers.fields[header.index()][index as usize];
                    let bytes = field.bit / 8..(field.bit + field.width).div_ceil(8);
                    self.written_bytes.extend(bytes.map(|byte| (header, byte)));
                }
                return;
            }
            Inst::SetValid(header) | Inst::SetInvalid(header) | Inst::CopyHeader { dst: header, .. } => *header,
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.field_of_value.retain(|_, (cached, _)| cached != header);
                self.field_regs.retain(|(cached, _), _| cached != header);
                return;
            }
            _ => return,
        };
        self.field_of_value.retain(|_, (cached, _)| *cached != changed);
        self.field_regs.retain(|(cached, _), _| *cached != changed);
        let bytes = 0..self.c.plan.headers.bytes[changed.index()];
        self.written_bytes.extend(bytes.map(|byte| (changed, byte)));
    }
}
