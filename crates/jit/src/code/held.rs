//! What fields of valid headers hold and which values they are, from where they are read or written to where that may have changed.

use crate::analysis::flow::Flow;
use crate::analysis::node::{Node, Step};
use crate::code::stage::StageCode;
use crate::plan::stages::{entries, inside};
use ir::{Entity, Inst, Value, VarKind};
use std::collections::HashMap;

/// Whether both are blocks of one body.
fn same_body(flow: &Flow, one: Node, other: Node) -> bool {
    match (flow.nodes[one], flow.nodes[other]) {
        (Step::Block(one, _), Step::Block(other, _)) => one == other,
        _ => false,
    }
}

impl StageCode<'_, '_> {
    /// The nodes that only one leads to, at its end, with that one: there all is as it was.
    pub(super) fn only_ways(&self, nodes: &[Node]) -> HashMap<Node, Node> {
        let (pipeline, flow) = (self.c.pipeline, &self.c.plan.flow);
        let mut ways: HashMap<Node, Vec<Option<Node>>> = HashMap::new();
        for entry in entries(pipeline, flow, self.start) {
            ways.entry(entry).or_default().push(None);
        }
        for node in nodes {
            let ends = flow.ends(pipeline, *node);
            // What a table tells of its meters is written behind the node.
            let told = flow.applies(pipeline, *node).is_some_and(|id| pipeline.tables[id].meter_result.is_some());
            for next in inside(pipeline, flow, self.start, *node) {
                // In another body the same numbers are other values.
                let from = Some(*node).filter(|_| ends.contains(&next) && !told && same_body(flow, *node, next));
                ways.entry(next).or_default().push(from);
            }
        }
        let only = |(node, from): (Node, Vec<Option<Node>>)| match *from {
            [Some(from)] => Some((node, from)),
            _ => None,
        };
        ways.into_iter().filter_map(only).collect()
    }

    /// Keeps up which values are what a field holds.
    pub(super) fn follow_fields(&mut self, inst: &Inst, results: &[Value]) {
        let changed = match inst {
            Inst::Load(var) => {
                if let (VarKind::Field(header, index), Some(result)) =
                    (self.c.pipeline.vars[*var].kind, results.first())
                    && self.known.valid.contains(header.0 as usize)
                {
                    self.fresh.insert(*result, (header, index));
                }
                return;
            }
            Inst::Store(var, _) => {
                if let VarKind::Field(header, index) = self.c.pipeline.vars[*var].kind {
                    self.fresh.retain(|_, field| *field != (header, index));
                    let place = self.c.plan.headers.fields[header.index()][index as usize];
                    let bytes = place.bit / 8..(place.bit + place.width).div_ceil(8);
                    self.written.extend(bytes.map(|byte| (header, byte)));
                }
                return;
            }
            Inst::SetValid(header) | Inst::SetInvalid(header) | Inst::CopyHeader { dst: header, .. } => *header,
            Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                self.fresh.retain(|_, (of, _)| of != header);
                self.held.retain(|(of, _), _| of != header);
                return;
            }
            _ => return,
        };
        self.fresh.retain(|_, (of, _)| *of != changed);
        self.held.retain(|(of, _), _| *of != changed);
        let bytes = 0..self.c.plan.headers.bytes[changed.index()];
        self.written.extend(bytes.map(|byte| (changed, byte)));
    }
}
