//! The NAT in the form of the control socket.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The NATs of a region, and the machines that use most of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatStatus {
    /// The NATs in the order of the region file.
    pub nats: Vec<NatUse>,
    /// The table of sessions.
    pub sessions: SessionUse,
    /// Packets that the NATs refused, by drop reason, since the node's start or since
    /// [`crate::Node::reset_counters`].
    pub refused: BTreeMap<String, u64>,
    /// The machines with most ports in use, most first.
    pub machines: Vec<MachineUse>,
    /// Blocks of machines or addresses that the region file no longer has.
    pub unnamed_blocks: u64,
    /// Sentences about shortages, with the fix.
    pub notes: Vec<String>,
}

/// How much of a NAT is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatUse {
    /// Name.
    pub name: String,
    /// The public addresses as a prefix.
    pub addresses: String,
    /// `FILE:LINE` in the region file.
    pub source: String,
    /// The VPCs that use it.
    pub vpcs: Vec<String>,
    /// Number of public addresses.
    pub address_count: u32,
    /// Public addresses without a free block.
    pub full_addresses: u32,
    /// Ports that a machine may have for each protocol.
    pub ports_per_vm: u32,
    /// Ports in use by protocol.
    pub ports: Vec<PortUse>,
    /// Blocks that machines have.
    pub blocks: u64,
    /// Blocks of all addresses.
    pub block_capacity: u64,
    /// Machines with a block. Only in [`NatStatus`].
    pub machines: u64,
    /// Machines that have all ports of a protocol that they may have. Only in [`NatStatus`].
    pub machines_at_limit: u64,
    /// Sessions that got no port, by drop reason, as [`NatStatus::refused`].
    pub refused: BTreeMap<String, u64>,
}

/// Ports in use of one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortUse {
    /// `udp`, `tcp` or `icmp`.
    pub protocol: String,
    /// Ports in use.
    pub used: u64,
    /// Ports that can be in use.
    pub capacity: u64,
}

/// The table of sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionUse {
    /// Sessions: pairs of entries.
    pub count: u64,
    /// Sessions that the table takes; `None`: no bound.
    pub size: Option<u64>,
}

/// Blocks and ports of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineUse {
    /// Its VPC; `None`: the region file has no such machine any more.
    pub vpc: Option<String>,
    /// Its address in the VPC.
    pub address: Option<IpAddr>,
    /// Its name in the region file; `None`: the file has no machine at this address.
    pub machine: Option<String>,
    /// Number of the machine in the pool of ports.
    pub subscriber: u32,
    /// Name of the NAT of its public address.
    pub nat: Option<String>,
    /// The public address of its first block.
    pub public_address: Option<Ipv4Addr>,
    /// Blocks that it has.
    pub blocks: u32,
    /// Blocks that it may have.
    pub max_blocks: Option<u32>,
    /// Its ports in use by protocol.
    pub ports: Vec<PortUse>,
    /// Whether it has all ports of a protocol that it may have.
    pub is_at_limit: bool,
}

/// What stands for an address of a machine, or uses a public address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatAddressReport {
    /// The address of the request.
    pub address: Option<IpAddr>,
    /// The port of the request.
    pub port: Option<u16>,
    /// Blocks of ports that machines have of it, or that it has.
    pub blocks: Vec<BlockUse>,
    /// Elastic addresses.
    pub elastic: Vec<AddressUse>,
    /// Port forwards.
    pub forwards: Vec<ForwardUse>,
    /// The answer as sentences.
    pub notes: Vec<String>,
}

/// A block of ports with its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockUse {
    /// Name of the NAT.
    pub nat: Option<String>,
    /// The public address.
    pub public_address: Option<Ipv4Addr>,
    /// First port.
    pub first_port: u16,
    /// Last port.
    pub last_port: u16,
    /// The machine's VPC; `None`: the region file has no such machine any more.
    pub vpc: Option<String>,
    /// The machine's address in the VPC.
    pub address: Option<IpAddr>,
    /// The machine's name in the region file.
    pub machine: Option<String>,
    /// Number of the machine in the pool of ports.
    pub subscriber: u32,
    /// Ports by protocol.
    pub ports: Vec<BlockPorts>,
}

/// Ports of a block in one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPorts {
    /// `udp`, `tcp` or `icmp` (identifiers of echo requests).
    pub protocol: String,
    /// Ports in use, the lowest first.
    pub used: Vec<u16>,
    /// Number of ports that rest before another session gets them.
    pub resting: u32,
}

/// An elastic address with its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressUse {
    /// The public address.
    pub public_address: Ipv4Addr,
    /// The machine's VPC.
    pub vpc: String,
    /// The machine's address.
    pub address: IpAddr,
    /// The machine's name in the region file.
    pub machine: Option<String>,
    /// `FILE:LINE` in the region file.
    pub source: String,
}

/// A port forward with its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardUse {
    /// The public address and the machine.
    #[serde(flatten)]
    pub of: AddressUse,
    /// `udp` or `tcp`.
    pub protocol: String,
    /// Port of the public address.
    pub port: u16,
    /// Port of the machine.
    pub vm_port: u16,
}
