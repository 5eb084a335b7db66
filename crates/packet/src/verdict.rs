//! What becomes of a packet.

use crate::{CpuReason, DropReason};
use std::fmt;

/// The number of a port of a node, as the program sees it. Which device it is, the node's configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortId(pub u32);

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.0)
    }
}

/// Which packet an emission is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketRef {
    /// The packet with this index in the batch that was processed.
    Input(u16),
    /// The packet with this index among those that the engine made (see [`crate::Output::add`]).
    Extra(u16),
}

/// What becomes of a packet. Recirculation, resubmission, the look-up of multicast groups and clone sessions happen inside an
/// engine and do not appear here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It leaves on a port.
    Forward {
        /// The port.
        port: PortId,
    },
    /// It goes to the control plane of the node (a packet-in), or to the next lower tier.
    ToCpu {
        /// Why.
        reason: CpuReason,
    },
    /// It is dropped.
    Drop(DropReason),
}

/// How a packet came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Origin {
    /// It is the packet that was received, rewritten or not.
    #[default]
    Received,
    /// A replica made for a multicast group.
    Multicast {
        /// The group.
        group: u32,
        /// The replica's instance (v1model's and PNA's `instance`, `egress_rid`).
        instance: u32,
    },
    /// A copy made for a clone or mirror session.
    Clone {
        /// The session.
        session: u32,
    },
    /// Made by the engine itself, not from one received packet.
    Generated,
}

/// One verdict on one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Emission {
    /// The packet.
    pub packet: PacketRef,
    /// How it came to be.
    pub origin: Origin,
    /// What becomes of it.
    pub verdict: Verdict,
}
