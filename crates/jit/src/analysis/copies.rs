//! What the graph has twice, and what is looked up together: plain data, which [`crate::plan::trace`], [`crate::plan::onward`] and
//! [`crate::plan::together`] find, and [`crate::analysis::flow::Flow`] keeps.

use crate::analysis::node::Node;
use ir::{InstData, TableId, Value};

/// A way through the first stage.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its nodes, the first behind a packet's arrival in front; then those of ways that turn off and come back.
    pub nodes: Vec<Node>,
    /// The ways between them, from node to node.
    pub ways: Vec<(Node, Node)>,
    /// What its extractions and lookaheads need of a packet, in bytes.
    pub bytes: u32,
    /// Whether a packet that turns off can begin once more, as if it had never been there.
    pub leaves_no_mark: bool,
}

/// Nodes behind a trace.
#[derive(Clone, Debug, Default)]
pub struct Onward {
    /// What the copies are copies of. The first one is the flow's next node, and so on.
    pub nodes: Vec<Node>,
    /// From a copy, the way to a node leads to another copy: from, to, instead.
    pub ways: Vec<(Node, Node, Node)>,
    /// The copies whose lookups begin stages of their own.
    pub lookups: Vec<Node>,
}

/// A lookup that is made together with another one in front of it.
#[derive(Clone, Debug)]
pub struct Companion {
    /// The node that applies the table.
    pub node: Node,
    /// The table.
    pub table: TableId,
    /// The values of its keys.
    pub keys: Vec<Value>,
    /// What makes them: instructions that leave no mark.
    pub insts: Vec<InstData>,
}
