//! The lab: a whole region on one machine, built from network namespaces and the kernel's VXLAN.
//!
//! ```text
//!  namespace LAB-red-a            namespace LAB-s1                          namespace LAB-gw
//! ┌──────────────────┐  veth   ┌─────────────────────────────────┐  veth   ┌────────────────────┐
//! │ VM   eth0 ───────┼─────────┼─ vm0 ─┐                         │         │                    │
//! └──────────────────┘         │       ├ br100 ─ vx100 ─┐        │         │  the gateway's     │
//!  namespace LAB-blue-a        │                      VXLAN up1 ─┼─────────┼─ port1   raw       │
//! ┌──────────────────┐  veth   │       ┌ br200 ─ vx200 ─┘        │         │  port2   sockets   │
//! │ VM   eth0 ───────┼─────────┼─ vm1 ─┘                         │         │  ...               │
//! └──────────────────┘         └─────────────────────────────────┘         └────────────────────┘
//!  namespace LAB-hq-5000          namespace LAB-hq                           up4 ─ port4
//! ┌──────────────────┐         (VXLAN of vx5000 and vx100 starts
//! │ IDC  vx5000 vx100│          and ends here)
//! └──────────────────┘
//! ```
//!
//! - Each **server** is a namespace. Per VPC it has a bridge and a VXLAN device with the gateway
//!   as its only remote. Every packet for another server goes to the gateway, also to VMs of the
//!   same subnet.
//! - Servers answer **ARP and neighbour discovery** for VMs on other servers, for the VPC's router and
//!   for services, as a vSwitch does: the bridge's `neigh_suppress` with permanent neighbours and
//!   forwarding entries. Only unicast packets reach the gateway, so its drop counters show only the
//!   tenants' traffic.
//! - VMs have their subnet on the link and a default route to the VPC's **router**, an unused
//!   address of the subnet with the gateway's MAC.
//! - A **remote** (an IDC, another region) is a namespace with the tunnel end point, and one
//!   namespace with a host per VNI that it expects. The tunnels' underlay stays in the first
//!   namespace, because a VXLAN device that moves keeps its sockets.
//! - The **Internet** is a router on the uplinks that lead there, and a host behind it, if the region has a
//!   way to it.
//! - The **gateway** is a process in a namespace of its own, with the `portN` interfaces as its
//!   ports, by DPDK or raw sockets. The kernel's network stack is not involved. Segmentation and
//!   checksum offload is off where packets enter the underlay, so that the gateway receives packets
//!   in their form on a wire.
//!
//! All objects of a lab are in namespaces named with the lab's name as prefix; deleting these
//! deletes everything. [`up`] returns a guard that does so, also when it fails half-way. [`down`]
//! does it later, or after a crash.
//!
//! Order of use: [`permitted`], [`Topology::from_region`], [`up`], the gateway, [`ping_all`],
//! [`Lab::down`].

mod command;
mod down;
mod endpoints;
mod error;
mod from_region;
mod permission;
mod ping;
mod signals;
mod state;
mod status;
mod steps;
#[cfg(test)]
mod tests;
mod topology;
#[cfg(test)]
mod topology_tests;
mod up;

pub use command::exec;
pub(crate) use command::{program, run as run_program};
pub use down::{RemovedLab, down};
pub use endpoints::{Endpoint, EndpointKind};
pub use error::LabError;
pub use permission::permitted;
pub use ping::{Ping, PingOutcome, ping, ping_all};
pub use signals::stop_on_signals;
pub use state::{LabState, Process, control_socket, running_labs};
pub use status::{LabStatus, NamespaceStatus, status};
pub use steps::{LabStep, steps};
pub use topology::{
    Gateway, Internet, MAX_MACHINES, Mac, Network, Remote, ReturnPath, Server, Topology, TopologyError, Uplink, Vm,
    VmAddress,
};
pub use up::{Lab, up};
