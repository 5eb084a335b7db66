//! [`RarePaths`]: branches whose one side has much code and leads to a table that packets write.
//!
//! A stage behind such a table processes packets in order, so it is not among the clones for the hot
//! path. Clones of the code before it gain little, and they cost much: a gateway's paths through NAT,
//! services, fragments and security groups are most of its program, while most packets take none of them.

use crate::analysis::flow::{FlowGraph, lookup_at_end};
use crate::analysis::node::FlowNodeId;
use crate::analysis::worklist::reverse_postorder;
use fixedbitset::FixedBitSet;
use ir::{Entity, Pipeline, Terminator, packet_written_tables};

/// Number of nodes up to which the code of a side is cloned in any case.
const MAX_SMALL_SIDE_NODES: usize = 64;

/// The rare sides of branches.
pub struct RarePaths {
    /// For each node, the nodes that it reaches, itself included.
    reached: Vec<FixedBitSet>,
    /// Nodes with a lookup.
    lookups: FixedBitSet,
    /// Nodes with a lookup in a table that packets write.
    written_lookups: FixedBitSet,
}

impl RarePaths {
    /// Analyses a graph without clones behind the hot path.
    pub fn new(pipeline: &Pipeline, flow: &FlowGraph) -> RarePaths {
        let (count, written) = (flow.nodes.len(), packet_written_tables(pipeline));
        let mut lookups = FixedBitSet::with_capacity(count);
        let mut written_lookups = FixedBitSet::with_capacity(count);
        for node in 0..count {
            let table = lookup_at_end(pipeline, flow, node);
            lookups.set(node, table.is_some());
            written_lookups.set(node, table.is_some_and(|table| written[table.index()]));
        }
        let mut reached = vec![FixedBitSet::with_capacity(count); count];
        if !written_lookups.is_clear() {
            let order = reverse_postorder(flow, vec![0], |node| flow.successors(pipeline, node));
            for node in order.into_iter().rev() {
                let mut nodes = FixedBitSet::with_capacity(count);
                nodes.insert(node);
                flow.successors(pipeline, node).iter().for_each(|next| nodes.union_with(&reached[*next]));
                reached[node] = nodes;
            }
        }
        RarePaths { reached, lookups, written_lookups }
    }

    /// Returns the successor of a branch that few packets take; `None` if both are usual.
    pub fn rare_successor(&self, pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> Option<FlowNodeId> {
        let term = &flow.block_data(pipeline, node)?.term.as_ref()?.term;
        let Terminator::Branch { then, els, .. } = term else { return None };
        let (then, els) = (flow.block_node(node, then.block)?, flow.block_node(node, els.block)?);
        match [self.is_long_written_side(then, els), self.is_long_written_side(els, then)] {
            [true, false] => Some(then),
            [false, true] => Some(els),
            _ => None,
        }
    }

    /// Returns whether nodes that only `side` reaches are many, and one of them looks up a table that
    /// packets write. If the other side looks nothing up, it ends the processing of a faulty packet, so
    /// `side` is the usual one.
    fn is_long_written_side(&self, side: FlowNodeId, other: FlowNodeId) -> bool {
        if self.reached[other].is_disjoint(&self.lookups) {
            return false;
        }
        let mut own = self.reached[side].clone();
        own.difference_with(&self.reached[other]);
        own.count_ones(..) > MAX_SMALL_SIDE_NODES && !own.is_disjoint(&self.written_lookups)
    }
}
