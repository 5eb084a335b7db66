//! [`CutPoint`]: program point at which the upper half ends.

use ir::{Block, ControlId};

/// Maximum number of cut points. The bridge header has a byte for them, of which
/// [`super::RETURNED`], [`super::PROBE`] and [`super::HITS`] are reserved.
pub const MAX_CUT_POINTS: usize = 253;

/// Point in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum PointInBlock {
    /// Before this instruction.
    Inst(usize),
    /// Before the terminator: a table application.
    Term,
}

/// Program point that the upper tier cannot pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutPoint {
    /// Control: v1model's ingress or PNA's main control.
    pub control: ControlId,
    /// The block.
    pub block: Block,
    /// Point in the block.
    pub at: PointInBlock,
    /// For a table application: the upper tier looks up the table, and only packets that miss
    /// leave. If that would separate state that must be on one side, all packets leave.
    pub is_hot_miss: bool,
    /// Reason, as a sentence.
    pub reason: String,
}
