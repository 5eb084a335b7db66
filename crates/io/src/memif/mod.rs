//! [`MemifPort`]: packets to and from another process over shared memory, by the memif protocol 2.0
//! (libmemif, VPP, DPDK's memif driver).
//!
//! | item | file |
//! |---|---|
//! | the port | `port.rs` |
//! | its device string | `options.rs` |
//! | control channel: messages, sockets, handshake | `message.rs`, `channel.rs`, `handshake.rs` |
//! | packets: memory, rings, both directions of a connection | `region.rs`, `ring.rs`, `link.rs` |
//!
//! One queue per direction. All data of the other end is validated before use. If it is invalid,
//! the connection is closed, and the port waits for a new one. One risk remains: the other end
//! shares the descriptors of the interrupts and could make them block.
//!
//! Not supported: several interfaces per socket, secrets, the IP and punt modes, zero copy.

mod channel;
mod handshake;
mod link;
mod message;
mod options;
mod port;
mod region;
mod ring;

pub use options::{MemifOptions, MemifRole, PREFIX, SocketAddress};
pub use port::MemifPort;

use thiserror::Error;

/// Reason for the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct ConnectionFault(String);

impl ConnectionFault {
    fn new(why: impl Into<String>) -> ConnectionFault {
        ConnectionFault(why.into())
    }
}
