//! Why a pipeline cannot be cut.

use super::stop::{MAX_STOPS, Stop};

/// Why a pipeline cannot be cut there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CutError {
    /// The stop is in another control.
    #[error("{why}: it is in `{control}`; only ingress (v1model) and the main control (PNA) can be cut: move it there")]
    Elsewhere {
        /// The control.
        control: String,
        /// Why the upper tier cannot go on.
        why: String,
    },
    /// The place does not exist.
    #[error("there is no such place: {0:?}")]
    NoPlace(Stop),
    /// Too many stops.
    #[error(
        "{0} stops: a bridge header tells {MAX_STOPS} apart; leave more of the program to the lower tier by stopping earlier"
    )]
    TooMany(usize),
    /// What is carried cannot be.
    #[error("`{0}` is needed behind a stop and has no fixed width: a bridge header cannot carry it")]
    Varbit(String),
    /// A packet would have to come back.
    #[error("`{0}` is behind a stop: the packet would have to go through the upper tier again; stop elsewhere")]
    Again(&'static str),
    /// v1model's egress asks for the packet's length.
    #[error(
        "egress asks for `packet_length`, and below a stop the packet has another one: a bridge header and other headers; ask in ingress, and carry it in metadata"
    )]
    Length,
    /// What came out breaks the IR's rules: a bug.
    #[error("the cut made a pipeline that is not sound: {0}")]
    Broken(String),
}
