//! Errors of partitioning.

use super::cut_point::{CutPoint, MAX_CUT_POINTS};

/// Reason for which a pipeline cannot be partitioned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PartitionError {
    /// The cut point is in another control.
    #[error(
        "{why}: it is in `{control}`; only ingress (v1model) and the main control (PNA) can be partitioned: move it there"
    )]
    WrongControl {
        /// Name of the control.
        control: String,
        /// Reason of the cut point.
        why: String,
    },
    /// The program point does not exist.
    #[error("no such program point: {0:?}")]
    NoSuchPoint(CutPoint),
    /// Too many cut points.
    #[error(
        "{0} cut points: a bridge header distinguishes {MAX_CUT_POINTS}; leave more of the program to the lower tier by cutting earlier"
    )]
    TooManyCutPoints(usize),
    /// A live variable cannot be carried.
    #[error("`{0}` is needed after a cut point and has no fixed width: a bridge header cannot carry it")]
    Varbit(String),
    /// The packet would have to pass the upper tier again.
    #[error("`{0}` follows a cut point: the packet would have to pass the upper tier again; cut elsewhere")]
    SecondPass(&'static str),
    /// v1model's egress reads the packet's length.
    #[error(
        "egress reads `packet_length`, which differs after a cut point because of the bridge header; read it in ingress and carry it in metadata"
    )]
    EgressLength,
    /// The result violates invariants of the IR: a bug.
    #[error("partitioning produced an invalid pipeline: {0}")]
    Unsound(String),
}
