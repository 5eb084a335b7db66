//! The lab: a whole region on one machine, of network namespaces and the kernel's own VXLAN.
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
//! - Each **server** is a namespace. Per VPC it has a bridge and a VXLAN device whose only remote is the gateway: whatever is not on this
//!   server goes to the gateway, also to machines of the same subnet.
//! - Servers answer **ARP and neighbour discovery** for machines elsewhere and for the VPC's router, as a vSwitch does: the bridge's
//!   `neigh_suppress` with permanent neighbours and forwarding entries. Nothing but unicast packets reaches the gateway,
//!   so its drop counters show what the tenants did and no noise.
//! - Machines have their subnet on the link and a default route to the VPC's **router**, an address that is not given to any machine
//!   and has the gateway's MAC.
//! - A **remote** (an IDC, another region) is a namespace with the tunnel end point, and one namespace per VNI that it expects, with the
//!   hosts behind it. The tunnels' underlay stays in the first: a VXLAN device that moves keeps its sockets.
//! - The **gateway** is a process with the `portN` interfaces as its ports, by DPDK or by raw sockets; nothing of the kernel's network stack is
//!   involved; it runs in a namespace of its own. Segmentation and checksum offload is off where packets enter the underlay, so that what the gateway
//!   sees could have been on a wire.
//!
//! What exists is all in namespaces whose names start with the lab's; deleting them deletes everything. [`up`] returns a guard
//! that does so, also when it fails half-way; [`down`] does it later, or after a crash.
//!
//! Order of use: [`permitted`], [`Topology::from_region`], [`up`], the gateway, [`ping_all`], [`Lab::down`].

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
pub use down::{Removed, down};
pub use endpoints::{Endpoint, EndpointKind};
pub use error::LabError;
pub use permission::permitted;
pub use ping::{Ping, PingOutcome, ping, ping_all};
pub use signals::stop_on_signals;
pub use state::{Process, State, control_socket, running};
pub use status::{NamespaceStatus, Status, status};
pub use steps::{Step, steps};
pub use topology::{
    Gateway, MAX_MACHINES, Mac, Network, Remote, Return, Server, Topology, TopologyError, Uplink, Vm, VmAddress,
};
pub use up::{Lab, up};
