//! Nodes of the flow graph ([`crate::analysis::flow`]).

use ir::Block;

/// Index into [`FlowGraph::nodes`](crate::analysis::flow::FlowGraph::nodes).
pub type FlowNodeId = usize;

/// A step of the architecture between two bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchStep {
    /// A packet enters: all variables are 0.
    Begin,
    /// PNA: sets the standard metadata of a block (0 pre, 1 parser, 2 main).
    PnaStdMetadata(usize),
    /// PNA: the main control is done; a dropped packet skips the deparser.
    PnaVerdict,
    /// v1model: sets the standard metadata before the parser.
    V1Arrive,
    /// v1model: the parser is done.
    V1Parsed,
    /// v1model: checksums are verified.
    V1Verified,
    /// v1model: ingress is done; drops or continues with egress.
    V1Traffic,
    /// v1model: egress is done; drops or continues.
    V1Leave,
    /// The deparser is done.
    End,
}

/// A node of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// A block of a body: index of the control, block.
    Block(usize, Block),
    /// A step of the architecture.
    ArchStep(ArchStep),
}
