//! A running process hands its ports and all that it knows to a new one, of another version perhaps, while packets flow: none is lost.
//!
//! This module answers one question: *who has the ports and may write, at each moment, whatever ends when?*
//!
//! | step | the one that runs ("giver") | the new one ("taker") |
//! |---|---|---|
//! | 1 | holds writes; sends pipeline and tables; forwards on | makes code, loads; says that it is ready |
//! | 2 | closes its store | opens its own; says so |
//! | 3 | takes the ports from its workers, between two batches; sends what packets changed meanwhile, counters, levels, what its server held, the ports, the listening sockets | puts all in place; says that it is prepared |
//! | 4 | says "go": from here on it touches nothing | gives its workers the ports; confirms |
//! | 5 | ends, with exit code 0; writes that waited are refused with `UNAVAILABLE` | serves |
//!
//! Until the confirmation has come, the giver goes on by itself as soon as the taker's end of the line is closed, says that it can't, or says nothing for too
//! long; in step 4, where the taker may be at work already, it first ends that process. An acknowledged write is in the giver's store, which is closed
//! whole, before the taker opens it; nobody acknowledges anything between that and the confirmation.
//!
//! | what | where |
//! |---|---|
//! | the messages, and the line that carries them with descriptors | `message.rs`, `line.rs` |
//! | both sides | `give.rs`, `take.rs` |
//! | what packets changed | `changes.rs`; what nobody writes: [`crate::levels`] |

mod changes;
mod give;
mod line;
mod message;
mod take;

pub use give::{Giver, Listening, serve};
pub use take::{Predecessor, Taken, take};

use std::path::PathBuf;
use thiserror::Error;

/// The versions of the protocol that this process speaks, best first.
const PROTOCOLS: &[u32] = &[3, 2, 1];
/// Since this one, levels of meters, idle times, digests and what waits for `COMMIT` go over.
const WITH_LEVELS: u32 = 2;
/// Since this one, the numbers of a region's VPCs and the like go over.
const WITH_NUMBERS: u32 = 3;

/// No take-over; the process that ran goes on as before.
#[derive(Debug, Error)]
pub enum TakeoverError {
    /// Nobody listens.
    #[error("no node can be taken over at {}: {source}; is one running, with this `takeover` in its configuration, and as this user?", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The configuration names no socket.
    #[error(
        "the configuration has no `takeover`: name the Unix socket on which the running node waits to be taken over"
    )]
    NoSocket,
    /// The line broke.
    #[error("the other process has ended, or does not answer: {0}")]
    Line(#[from] std::io::Error),
    /// What came over the line is no message of the protocol, at this point.
    #[error("the other process says what cannot be said here: {0}")]
    Unexpected(String),
    /// The other process can't, or won't.
    #[error("the other process refuses: {0}")]
    Refused(String),
    /// This one can't.
    #[error("{0}")]
    Here(String),
}

impl TakeoverError {
    fn here(error: impl std::fmt::Display) -> TakeoverError {
        TakeoverError::Here(error.to_string())
    }
}
