//! Results of the path analyses: cloned nodes and paired lookups. [`crate::plan::hot_path`],
//! [`crate::plan::hot_path_tail`] and [`crate::plan::paired_lookups`] compute them;
//! [`crate::analysis::flow::FlowGraph`] stores them.

use crate::analysis::node::FlowNodeId;
use ir::{InstData, TableId, Value};

/// Hot path through the first stage.
#[derive(Clone, Debug)]
pub struct HotPath {
    /// Its nodes in order, from the first after a packet's arrival; then the nodes of side exits
    /// that rejoin it.
    pub nodes: Vec<FlowNodeId>,
    /// Edges between its nodes.
    pub edges: Vec<(FlowNodeId, FlowNodeId)>,
    /// Bytes that the parser on the hot path reads.
    pub bytes: u32,
    /// Whether a packet that leaves the hot path can restart, because the path has no side effect.
    pub is_side_effect_free: bool,
}

/// Nodes after the hot path that are cloned for its packets.
#[derive(Clone, Debug, Default)]
pub struct HotPathTail {
    /// Original node of each clone. The first clone becomes the graph's next node, and so on.
    pub nodes: Vec<FlowNodeId>,
    /// Redirected edges of clones: from, original target, clone of the target.
    pub edges: Vec<(FlowNodeId, FlowNodeId, FlowNodeId)>,
    /// Clones that end with a lookup and start a stage of their own after it.
    pub lookups: Vec<FlowNodeId>,
}

/// A lookup that is made together with an earlier one.
#[derive(Clone, Debug)]
pub struct PairedLookup {
    /// Node that applies the table.
    pub node: FlowNodeId,
    /// The table.
    pub table: TableId,
    /// Values of its keys.
    pub keys: Vec<Value>,
    /// Instructions that compute the keys; none has a side effect.
    pub insts: Vec<InstData>,
}
