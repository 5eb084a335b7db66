//! Ports: raw sockets, pcap files, memory. And the runner that moves batches between ports through an engine.
//!
//! This crate answers one question: *how do packets get in and out?* It knows nothing of P4 or of tables.
//! All foreign function calls of the workspace that concern the network are in its module `sys`, the only place with unsafe code.
//!
//! | what | where |
//! |---|---|
//! | [`Port`], what every port can do | `port.rs` |
//! | [`memory::pair`]: two ports wired to each other | `memory.rs` |
//! | [`capture`]: pcap files, [`CapturePort`]: a port that replays one and records to another | `capture.rs`, `capture_port.rs` |
//! | [`RawPort`]: a network interface by an AF_PACKET socket | `raw.rs`, `offload.rs` |
//! | [`Tracer`], [`FaultInjector`]: ports around other ports | `tracer.rs`, `fault.rs` |
//! | [`Runner`]: polls ports, runs the engine, sends | `runner.rs` |
//! | [`Namespace`]: opens ports in another network namespace | `namespace.rs` |
//!
//! Deliberately absent: threads. A runner runs on the thread that calls it; who wants two, calls it on two.

pub mod capture;
mod capture_port;
mod error;
mod fault;
pub mod memory;
mod namespace;
mod offload;
mod port;
mod raw;
mod runner;
mod sys;
mod tracer;

pub use capture_port::CapturePort;
pub use error::PortError;
pub use fault::{FaultInjector, FaultRates};
pub use namespace::{Namespace, NamespaceError};
pub use port::{Port, Readiness, now};
pub use raw::RawPort;
pub use runner::{Attached, RunError, RunReport, Runner, Supervisor};
pub use tracer::Tracer;
