//! The nodes of the graph ([`crate::analysis::flow`]).

use ir::Block;

/// Index into [`Flow::nodes`].
pub type Node = usize;

/// What the architecture does between two bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glue {
    /// A packet enters: all variables are 0.
    Begin,
    /// PNA: tells a block (0 pre, 1 parser, 2 main) about the packet.
    PnaTell(usize),
    /// PNA: the main control is done; a packet that is dropped needs no deparser.
    PnaVerdict,
    /// v1model: standard metadata before the parser.
    V1Arrive,
    /// v1model: the parser is done.
    V1Parsed,
    /// v1model: checksums are verified.
    V1Verified,
    /// v1model: ingress is done; drops, or goes on to egress.
    V1Traffic,
    /// v1model: egress is done; drops, or goes on.
    V1Leave,
    /// The deparser is done.
    End,
}

/// A node of the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A block of a body: index of the control, block.
    Block(usize, Block),
    /// A step of the architecture.
    Glue(Glue),
}
