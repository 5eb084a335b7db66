//! Take-over: a running process hands its ports and state to a new process, possibly of another
//! version, while packets flow and without losing any.
//!
//! This module answers one question: *which process owns the ports and accepts writes at each
//! moment, whatever fails?*
//!
//! 1. The old process blocks writes, and sends pipeline and tables. It continues to forward. The
//!    new process generates code, loads the tables, and reports `Ready`.
//! 2. The old process closes its store. The new process opens its own, and reports `StoreOpen`.
//! 3. The old process takes the ports from its workers, between two batches. It sends the changes
//!    made by packets, counters, dynamic state, the server's state, ports and listening sockets.
//!    The new process restores all of it, and reports `Prepared`.
//! 4. The old process sends `Go`, and touches nothing afterwards. The new process gives its workers
//!    the ports, and reports `Confirmed`.
//! 5. The old process ends with exit code 0, and refuses blocked writes with `UNAVAILABLE`. The new
//!    process serves.
//!
//! Until the confirmation, the old process resumes as soon as the new one closes the connection,
//! aborts, or exceeds a time limit. In step 4 it first kills the new process, which may already
//! process packets. Every acknowledged write is in the old process's store, which is closed before
//! the new process opens it. No write is acknowledged between that and the confirmation.
//!
//! | concern | location |
//! |---|---|
//! | the messages | `message.rs` |
//! | the channel for messages and descriptors | `fd_channel.rs` |
//! | the old and the new process's side | `outgoing.rs`, `incoming.rs` |
//! | changes made by packets | `changes.rs`; meters and idle times: [`crate::dynamic_state`]; sessions: [`crate::session_transfer`] |

mod changes;
mod fd_channel;
mod incoming;
mod message;
mod outgoing;

pub use incoming::{Predecessor, TakeoverResult, take};
pub use outgoing::{ListeningSocket, TakeoverListener, serve};

use std::path::PathBuf;
use thiserror::Error;

/// Supported protocol versions, best first.
const PROTOCOLS: &[u32] = &[7, 5, 4, 3, 2, 1];
/// First version that transfers meter levels, idle times, digests, and batches that wait for
/// `COMMIT`.
const WITH_LEVELS: u32 = 2;
/// First version that transfers the numbers of a region's objects such as VPCs.
const WITH_NUMBERS: u32 = 3;
/// First version that transfers the TAPs of uplinks' host sides.
const WITH_HOST: u32 = 4;
/// First version that transfers the counts of tables to which packets add entries.
const WITH_FLOW_TABLES: u32 = 5;
/// First version that transfers the twins of sessions, and what they hold. Version 6, without shares of
/// quotas, was in no release.
const WITH_SESSIONS: u32 = 7;

/// A take-over failed; the old process continues.
#[derive(Debug, Error)]
pub enum TakeoverError {
    /// No node listens on the socket.
    #[error("no node can be taken over at {}: {source}; is one running, with this `takeover_socket` in its configuration, and as this user?", path.display())]
    NotListening {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The configuration names no socket.
    #[error(
        "the configuration has no `takeover_socket`: name the Unix socket on which the running node waits to be taken over"
    )]
    NoSocket,
    /// The connection failed.
    #[error("the other process has ended, or does not answer: {0}")]
    Channel(#[from] std::io::Error),
    /// A message is invalid at this point of the protocol.
    #[error("unexpected message from the other process: {0}")]
    Unexpected(String),
    /// The other process aborted.
    #[error("the other process refuses: {0}")]
    Refused(String),
    /// This process failed.
    #[error("{0}")]
    Local(String),
}

impl TakeoverError {
    fn local(error: impl std::fmt::Display) -> TakeoverError {
        TakeoverError::Local(error.to_string())
    }
}
