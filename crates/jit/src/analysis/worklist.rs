//! [`Worklist`]: nodes that a forward data-flow analysis has yet to visit.

use crate::analysis::flow::FlowGraph;
use crate::analysis::node::FlowNodeId;
use ir::Pipeline;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes to visit, predecessors first: in reverse postorder. So a graph without loops is done after
/// one visit of each node. In another order, all nodes behind a join are visited again for each path
/// to it.
pub struct Worklist {
    /// Position of each node in reverse postorder.
    ranks: Vec<usize>,
    queue: BinaryHeap<Reverse<(usize, FlowNodeId)>>,
    is_queued: Vec<bool>,
}

impl Worklist {
    /// Creates a list with the first node of the graph.
    pub fn new(pipeline: &Pipeline, flow: &FlowGraph) -> Worklist {
        let count = flow.nodes.len();
        let mut ranks = vec![count; count];
        let order = reverse_postorder(flow, vec![0], |node| flow.successors(pipeline, node));
        order.into_iter().enumerate().for_each(|(rank, node)| ranks[node] = rank);
        let mut list = Worklist { ranks, queue: BinaryHeap::new(), is_queued: vec![false; count] };
        list.push(0);
        list
    }

    /// Adds a node, unless it is in the list.
    pub fn push(&mut self, node: FlowNodeId) {
        if !std::mem::replace(&mut self.is_queued[node], true) {
            self.queue.push(Reverse((self.ranks[node], node)));
        }
    }

    /// Takes the next node.
    pub fn pop(&mut self) -> Option<FlowNodeId> {
        let Reverse((_, node)) = self.queue.pop()?;
        self.is_queued[node] = false;
        Some(node)
    }
}

/// Returns the nodes reachable from `first` along the edges of `edges`, in reverse postorder.
pub fn reverse_postorder(
    flow: &FlowGraph,
    first: Vec<FlowNodeId>,
    edges: impl Fn(FlowNodeId) -> Vec<FlowNodeId>,
) -> Vec<FlowNodeId> {
    let (mut seen, mut nodes) = (vec![false; flow.nodes.len()], Vec::new());
    // A node popped for the second time has all its successors in `nodes`.
    let mut work: Vec<(FlowNodeId, bool)> = first.into_iter().map(|node| (node, false)).collect();
    while let Some((node, again)) = work.pop() {
        if again {
            nodes.push(node);
        } else if !std::mem::replace(&mut seen[node], true) {
            work.push((node, true));
            work.extend(edges(node).into_iter().map(|node| (node, false)));
        }
    }
    nodes.reverse();
    nodes
}
