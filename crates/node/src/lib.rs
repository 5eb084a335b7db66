//! A node: workers that forward packets with a program, and the control plane of these workers.
//!
//! This crate answers one question: *how does a program run for months on a machine while
//! controllers change its tables and the program itself?* It connects the parts; each part has its
//! own crate.
//!
//! | concern | location |
//! |---|---|
//! | the node as one device that P4Runtime controls | `device/` |
//! | the engines that run programs, behind one trait | `engine/` |
//! | the emulated switch, tiers and flow caches, which a binary adds | `wings.rs` |
//! | the workers and their switch to another program | `data_plane.rs`, `worker_engine.rs` |
//! | the port between workers and the controller | `cpu_port.rs` |
//! | the host's own stack beside the program: ARP, BGP, BFD | `host/` |
//! | the process and its configuration file | `daemon/`, `config/` |
//! | take-over by a new process while packets flow | `takeover/` |
//! | statistics by name, and how they are shown | `counts.rs`, `observe/`, `status.rs` |
//! | access from outside | `admin/`: the control socket; `metrics/`: Prometheus |
//! | explanations of single packets | `explain/` |
//! | sessions: entries that packets have added | `sessions/` |
//! | the NAT: ports in use, machines, log of blocks | `nat/` |
//! | state that survives a restart | `store.rs`, `store_format.rs` |
//! | tables that follow a region file | `region/` |
//! | links of ports, and the paths that are left | `underlay/` |
//! | moving state to another pipeline or process | `migrate.rs`, `dynamic_state.rs` |

pub mod admin;
pub mod config;
mod counts;
mod cpu_port;
pub mod daemon;
mod data_plane;
mod device;
mod dynamic_state;
pub mod engine;
pub mod explain;
pub mod host;
mod link_watch;
pub mod log;
pub mod metrics;
mod migrate;
pub mod nat;
pub mod observe;
pub mod path_mtu;
pub mod region;
pub mod services;
mod session_transfer;
pub mod sessions;
pub mod status;
mod store;
pub mod store_format;
pub mod takeover;
pub mod underlay;
pub mod wings;
mod worker_engine;

pub use counts::{PortCounts, WorkerCounts};
pub use cpu_port::{PuntSink, PuntedPacket};
pub use data_plane::{DataPlane, DataPlaneError, PausedPort, WorkerSpec};
pub use device::{Node, NodeParts, StartError};
pub use link_watch::LinkWatch;
pub use migrate::state_to_batches;
pub use store::{Store, StoreError, StoredConfig, StoredDigest};
pub use worker_engine::WorkerEngine;
