//! [`Stop`]: where the upper part of a program ends.

use ir::{Block, ControlId};

/// Most stops of one cut: the bridge header has a byte for them, less [`super::BACK`], [`super::HELLO`] and [`super::HITS`].
pub const MAX_STOPS: usize = 253;

/// Where a stop is in a body.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum At {
    /// Before this instruction of the block.
    Inst(usize),
    /// Before the block's terminator: a table application.
    Term,
}

/// A place that the upper tier cannot go beyond.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The control: v1model's ingress, or PNA's main control.
    pub control: ControlId,
    /// The block.
    pub block: Block,
    /// Where in the block.
    pub at: At,
    /// At a table application: the upper tier looks the table up, and only packets that find nothing stop. Where that would part what must
    /// be in one place, all stop.
    pub hot: bool,
    /// Why, in a sentence.
    pub why: String,
}
