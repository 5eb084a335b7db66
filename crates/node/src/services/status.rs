//! Services in the form of the control socket.

use crate::nat::SessionUse;
use region::{Affinity, BackendState, ForwardProtocol};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The services of a region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// The services in the order of the region file.
    pub services: Vec<ServiceUse>,
    /// The table of sessions, which has sessions of NATs, too.
    pub sessions: SessionUse,
    /// Packets to and from services that were dropped, by drop reason, since the node's start or since
    /// [`crate::Node::reset_counters`].
    pub refused: BTreeMap<String, u64>,
    /// Sentences about services that have no backend, with the fix.
    pub notes: Vec<String>,
}

/// A service and its connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceUse {
    /// Name of the VPC.
    pub vpc: String,
    /// Name, unique in the VPC.
    pub name: String,
    /// `FILE:LINE` in the region file.
    pub source: String,
    /// Address in the VPC.
    pub address: Option<Ipv4Addr>,
    /// Public address.
    pub public: Option<Ipv4Addr>,
    /// Protocol.
    pub protocol: ForwardProtocol,
    /// Port of both addresses.
    pub port: u16,
    /// Unit that has one backend.
    pub affinity: Affinity,
    /// The backends in the order of the region file.
    pub backends: Vec<BackendUse>,
    /// Connections of all backends.
    pub connections: u64,
    /// Connections to backends that the region file no longer has. Their next packet moves them.
    pub stale_connections: u64,
}

/// A backend and its connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendUse {
    /// Address of the machine.
    pub address: Ipv4Addr,
    /// Name of the machine in the region file.
    pub machine: Option<String>,
    /// Port of the machine.
    pub port: u16,
    /// Which connections it may have.
    pub state: BackendState,
    /// Its weight.
    pub weight: u16,
    /// Its share of new connections: 0 to 1.
    pub share: f64,
    /// Connections that it has.
    pub connections: u64,
}
