//! Ports (DPDK devices, raw sockets, pcap files, memory), and the loop that runs an engine on them.
//!
//! This crate answers one question: *how do packets get in and out?* It does not depend on P4 or on
//! tables. All foreign function calls of the workspace that concern the network are in its modules
//! `sys` and `dpdk`. Otherwise, only memory that is shared with other processes (`memif/region.rs`)
//! needs unsafe code.
//!
//! | item | file |
//! |---|---|
//! | [`Port`]: the interface of ports; [`TxBatch`]: a batch to send | `port.rs`, `tx_batch.rs` |
//! | [`dpdk::DpdkPort`]: network cards, DPDK's virtual devices | `dpdk/`, `shim/dpdk.c` |
//! | [`RawPort`]: a network interface, by an AF_PACKET socket | `raw.rs`, `nic_offload.rs`, `gso_tap.rs` |
//! | super-frames and open checksums: finished for ports that cannot | `segment/`, `offload_queues.rs` |
//! | receive queues of a raw port for control traffic | `control_queues.rs` |
//! | [`memif::MemifPort`]: another process, by shared memory, without DPDK | `memif/` |
//! | [`xdp::XdpPort`]: an interface with a flow cache in the kernel | `xdp/`, `bpf/terrace.bpf.c` |
//! | [`tap::Tap`]: an interface of the host | `tap.rs` |
//! | [`KernelInterface`]: hides packets from the kernel's stack | `kernel_filter.rs`, `bpf/hide.bpf.c` |
//! | [`memory::pair`]: two ports that are connected to each other | `memory.rs` |
//! | [`capture`]: pcap files; [`CapturePort`]: a port on them | `capture.rs`, `capture_port.rs` |
//! | [`Tracer`], [`FaultInjector`]: ports that wrap other ports | `tracer.rs`, `fault.rs` |
//! | [`Runner`]: polls ports, runs the engine, sends | `runner.rs` |
//! | [`IdlePolicy`]: polling, sleeping; [`RunnerWaker`]: wakes a runner | `idle.rs`, `waker.rs` |
//! | [`Workers`]: a runner for each processor | `workers.rs` |
//! | [`PortTransfer`]: transfer of a port to another process | `port_transfer.rs`, `take_over.rs` |
//! | [`open_port`]: opens a port by its user-visible name | `interface.rs` |
//! | [`InterfaceProbe`]: state of an interface by its name | `interface_probe.rs` |
//! | [`Namespace`]: opens ports in another network namespace | `namespace.rs` |

pub mod capture;
mod capture_port;
mod control_queues;
mod device_drops;
mod device_offloads;
pub mod dpdk;
mod error;
mod fault;
mod gso_tap;
pub mod guard_pages;
mod idle;
mod interface;
mod interface_probe;
mod kernel_filter;
mod latency;
pub mod memif;
pub mod memory;
mod namespace;
mod nic_offload;
mod offload_counters;
mod offload_queues;
mod port;
mod port_transfer;
mod raw;
mod redirect;
mod run_stats;
mod runner;
mod segment;
mod spill;
mod tx_batch;
mod waker;
// Interfaces are only watched with DPDK.
#[cfg_attr(not(has_dpdk), allow(dead_code))]
mod sys;
mod take_over;
pub mod tap;
mod tap_device;
mod tracer;
mod workers;
pub mod xdp;

pub use capture_port::CapturePort;
pub use error::{NamespaceError, PortError};
pub use fault::{FaultInjector, FaultRates};
pub use idle::IdlePolicy;
pub use interface::{OpenedPort, PortKind, open_port};
pub use interface_probe::InterfaceProbe;
pub use kernel_filter::{HiddenPackets, KernelFilter, KernelFilterError, KernelInterface};
pub use latency::Latency;
pub use namespace::Namespace;
pub use offload_counters::OffloadCounters;
pub use port::{AttachedPort, Port, PortFault, Readiness, now};
pub use port_transfer::PortTransfer;
pub use raw::RawPort;
pub use run_stats::RunStats;
pub use runner::{DetachedPort, RunError, RunHooks, Runner};
pub use segment::{FinishedPacket, SegmentPool, TxOffloads};
pub use sys::{InterfaceState, allowed_cores, pin_current_thread};
pub use take_over::open_transferred;
pub use tracer::Tracer;
pub use tx_batch::TxBatch;
pub use waker::RunnerWaker;
pub use workers::{FinishedWorker, Worker, WorkerError, Workers};
