//! Ports: DPDK devices, raw sockets, pcap files, memory. And what moves batches between ports through an engine.
//!
//! This crate answers one question: *how do packets get in and out?* It knows nothing of P4 or of tables.
//! All foreign function calls of the workspace that concern the network are in its modules `sys` and `dpdk`; beside them only memory that is shared
//! with other processes (`memif/region.rs`) takes unsafe code.
//!
//! | what | where |
//! |---|---|
//! | [`Port`], what every port can do; [`Outgoing`], what it is given to send | `port.rs`, `outgoing.rs` |
//! | [`dpdk::DpdkPort`]: network cards and DPDK's virtual devices, without copies | `dpdk/`, `shim/dpdk.c` |
//! | [`RawPort`]: a network interface by an AF_PACKET socket | `raw.rs`, `offload.rs` |
//! | [`memif::MemifPort`]: another process, by shared memory, without DPDK | `memif/` |
//! | [`xdp::XdpPort`]: a network interface with a flow cache in the kernel, and AF_XDP for what that does not know | `xdp/`, `bpf/terrace.bpf.c` |
//! | [`memory::pair`]: two ports wired to each other | `memory.rs` |
//! | [`capture`]: pcap files, [`CapturePort`]: a port that replays one and records to another | `capture.rs`, `capture_port.rs` |
//! | [`Tracer`], [`FaultInjector`]: ports around other ports | `tracer.rs`, `fault.rs` |
//! | [`Runner`]: polls ports, runs the engine, sends; [`Idle`]: what it does when nothing comes; [`Call`]: how it is woken | `runner.rs`, `idle.rs`, `call.rs` |
//! | [`Workers`]: a runner for each processor | `workers.rs` |
//! | [`HandOver`], [`take_over`]: a port goes from one process to another | `hand_over.rs` |
//! | [`open_port`]: a port from what a user calls it | `interface.rs` |
//! | [`Namespace`]: opens ports in another network namespace | `namespace.rs` |

mod call;
pub mod capture;
mod capture_port;
pub mod dpdk;
mod dropped;
mod error;
mod fault;
pub mod guarded;
mod hand_over;
mod idle;
mod interface;
mod latency;
pub mod memif;
pub mod memory;
mod namespace;
mod offload;
mod outgoing;
mod port;
mod raw;
mod report;
mod runner;
// Without DPDK nobody watches interfaces.
#[cfg_attr(not(has_dpdk), allow(dead_code))]
mod sys;
mod take_over;
mod tracer;
mod workers;
pub mod xdp;

pub use call::Call;
pub use capture_port::CapturePort;
pub use error::{NamespaceError, PortError};
pub use fault::{FaultInjector, FaultRates};
pub use hand_over::HandOver;
pub use idle::Idle;
pub use interface::{OpenedPort, PortKind, open_port};
pub use latency::Latency;
pub use namespace::Namespace;
pub use outgoing::Outgoing;
pub use port::{Attached, Port, Readiness, Trouble, now};
pub use raw::RawPort;
pub use report::RunReport;
pub use runner::{Detached, RunError, Runner, Supervisor};
pub use sys::{allowed_cores, stay_on};
pub use take_over::take_over;
pub use tracer::Tracer;
pub use workers::{Finished, Worker, WorkerError, Workers};
