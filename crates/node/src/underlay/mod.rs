//! The underlay as the kernel sees it: the links of the ports, and what their change does to paths.
//!
//! This module answers one question: *by which ports can packets leave now?* One thread per node
//! (`agent.rs`) watches the interfaces of the ports. It wakes at the kernel's link messages and asks
//! each interface for its carrier every 5 ms, because the kernel may hold a message back for a second
//! or swallow two changes. The decisions are pure logic of `crates/underlay`; the entries are those of
//! the region with the present states of ports (`region/paths.rs`).
//!
//! With `underlay: kernel` in the region, a second thread (`kernel_agent.rs`) follows the kernel's
//! neighbours and routes, and keeps the neighbours of next hops resolved (`neighbour_requests.rs`).

mod agent;
mod kernel_agent;
mod kernel_paths;
mod neighbour_requests;
mod netlink_socket;
mod port_states;
mod watched_port;

pub(crate) use agent::{AgentSettings, ReadyAgent, observe_ports};
pub(crate) use kernel_paths::{KernelPaths, KernelUnderlay, ResyncReason, list_addresses};
pub use port_states::PortLinkStatus;
pub(crate) use port_states::PortStatesKeeper;
