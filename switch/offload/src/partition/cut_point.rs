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

/// How the lower tier goes on with a packet of a cut point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Resumption {
    /// At the cut point, with the variables that the bridge header carries.
    #[default]
    Continue,
    /// At the start of the program, with the packet as it arrived: nothing is carried. If the upper
    /// tier cannot reproduce the packet, or has counted before, the packet continues instead.
    Restart,
}

/// Cut points of a partition at which packets restart, by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestartPoints(Vec<bool>);

impl RestartPoints {
    /// Collects how the lower tier goes on at each cut point, in the order of their numbers.
    pub fn new(resumptions: impl Iterator<Item = Resumption>) -> RestartPoints {
        RestartPoints(resumptions.map(|resumption| resumption == Resumption::Restart).collect())
    }

    /// Returns whether packets of a cut point restart.
    pub fn contains(&self, cut_point: u8) -> bool {
        self.0.get(usize::from(cut_point)).copied().unwrap_or(false)
    }
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
    /// How the lower tier goes on.
    pub resumption: Resumption,
    /// Reason, as a sentence.
    pub reason: String,
}

/// Block of the split control that starts at a cut point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutBlock {
    /// The block.
    pub block: Block,
    /// Whether it is a table application at which only missing packets leave.
    pub is_hot_miss: bool,
    /// How the lower tier goes on.
    pub resumption: Resumption,
}

impl CutBlock {
    /// Returns whether packets restart below.
    pub fn is_restart(&self) -> bool {
        self.resumption == Resumption::Restart
    }
}
