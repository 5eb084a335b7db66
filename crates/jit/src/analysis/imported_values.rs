//! Values that code uses and other code computes: a packet carries them in its frame.

use crate::analysis::flow::FlowGraph;
use crate::analysis::node::{FlowNodeId, NodeKind};
use ir::{Pipeline, Value};
use std::collections::BTreeSet;

/// Returns the values that these nodes use but do not compute.
pub fn imported_values(pipeline: &Pipeline, flow: &FlowGraph, nodes: &[FlowNodeId]) -> BTreeSet<(usize, Value)> {
    let (mut used, mut defined) = (BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        let NodeKind::Block(control, block) = flow.nodes[*node] else { continue };
        let data = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
        defined.extend(data.params.iter().map(|v| (control, *v)));
        for inst in &data.insts {
            inst.inst.for_each_use(|v| {
                used.insert((control, v));
            });
            defined.extend(inst.results.iter().map(|v| (control, *v)));
        }
        if let Some(term) = &data.term {
            term.term.for_each_use(|v| {
                used.insert((control, v));
            });
        }
    }
    used.difference(&defined).copied().collect()
}
