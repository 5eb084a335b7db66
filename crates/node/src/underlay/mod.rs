//! The underlay as the kernel sees it: the links of the ports, and what their change does to paths.
//!
//! This module answers one question: *by which ports can packets leave now?* One thread per node
//! (`agent.rs`) watches the interfaces of the ports. It wakes at the kernel's link messages and asks
//! each interface for its carrier every 5 ms, because the kernel may hold a message back for a second
//! or swallow two changes. The decisions are pure logic of `crates/underlay`; the entries are those of
//! the region with the present states of ports (`region/paths.rs`).

mod agent;
mod netlink_socket;
mod port_states;
mod watched_port;

pub(crate) use agent::{AgentSettings, start_agent};
pub use port_states::PortLinkStatus;
pub(crate) use port_states::PortStatesKeeper;
