//! [`MemifPort`]: packets to and from another process over shared memory, by the memif protocol 2.0 (libmemif, VPP, DPDK's memif driver).
//!
//! | what | where |
//! |---|---|
//! | the port | `port.rs` |
//! | how it is named | `options.rs` |
//! | the control channel: messages, sockets, how two ends come together | `message.rs`, `channel.rs`, `meeting.rs` |
//! | packets: memory, rings, both directions of a connection | `region.rs`, `ring.rs`, `link.rs` |
//!
//! One queue each way. All that the other end writes is looked at before it is used; if it makes no sense, the connection is closed, and the port goes on
//! without a peer until one connects. What is left to its goodwill: it shares the descriptors of the interrupts, and could make them block.
//!
//! Deliberately absent: several interfaces behind one socket, secrets, the IP and punt modes, zero copy.

mod channel;
mod link;
mod meeting;
mod message;
mod options;
mod port;
mod region;
mod ring;

pub use options::{Address, Options, PREFIX, Role};
pub use port::MemifPort;

use thiserror::Error;

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Fault(String);

impl Fault {
    fn new(why: impl Into<String>) -> Fault {
        Fault(why.into())
    }
}
