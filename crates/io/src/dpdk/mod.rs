//! DPDK ports: network cards by PCI address, and DPDK's virtual devices (AF_PACKET, AF_XDP, memif,
//! vhost, pcap files, null, ring).
//!
//! ```no_run
//! use io::dpdk::{DpdkOptions, DpdkPort};
//! use io::{AttachedPort, Runner};
//!
//! let device = "0000:01:00.0";
//! let port = DpdkPort::open(device, &DpdkOptions::default())?;
//! let runner = Runner::new(vec![AttachedPort::new(1, port)])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Two processes over memif
//!
//! [`crate::open_port`] uses [`crate::memif::MemifPort`] for a `net_memif` if it supports all its
//! arguments. This section describes DPDK's own driver, which is needed for `zero-copy=yes`,
//! `secret=`, `bsize=` and several queues.
//!
//! A memif is a pair of rings in memory that two processes share. One end is the server, which
//! creates the socket, the other the client. They can start in any order and be restarted; the port
//! then reconnects, and [`crate::Port::port_fault`] reports the interruption. Both use the same
//! `socket` and `id` (default 0). `socket-abstract=no` selects a path of the file system, whose
//! directory must exist. `rsize=11` creates rings of 2^11 packets. `bsize` is the size of a slot;
//! longer packets use several slots. With `zero-copy=yes` at the client, the server reads the
//! client's packet buffers directly; this needs huge pages. Give each process its own processor and
//! huge pages: `sysctl -w vm.nr_hugepages=512`.
//!
//! # No copies
//!
//! The buffer that a device wrote (an mbuf) becomes the external buffer of a packet of the batch
//! ([`packet::ExternalBuf`]), the engine rewrites it in place, and at the packet's last
//! transmission the sending device gets it. Only three kinds of packets are copied: packets with a
//! later transmission, packets that did not come from a DPDK port or outgrew their buffer (counted
//! in [`packet::PortCounters::copied`]), and packets of several segments that do not fit in the
//! first one (in [`packet::PortCounters::linearised`]).
//!
//! # Limits
//!
//! - DPDK's environment starts once per process, with the options of the first port, and runs until
//!   the process ends.
//! - When the peer of a `net_memif` exits, DPDK 22.11 unmaps the rings on its own thread, even
//!   while a worker is receiving from them. The process then ends (SIGSEGV).
//! - Drivers partly trust the other end of shared memory. Only use peers of a `net_memif` or vhost
//!   that are as trusted as this process.
//! - AF_PACKET and AF_XDP deliver packets as the kernel has them: turn off segmentation and
//!   checksum offload at the sender (`ethtool -K DEVICE tx off tso off gso off gro off`).
//!   [`crate::RawPort`] computes checksums itself.

// Without DPDK, device strings are only parsed.
#[cfg_attr(not(has_dpdk), allow(dead_code))]
mod device;
mod error;
mod options;

pub use device::DpdkDevice;
pub use error::DpdkError;
pub use options::{DpdkOptions, EalOptions, HugePages};

#[cfg(has_dpdk)]
mod eal;
#[cfg(has_dpdk)]
mod eth;
#[cfg(has_dpdk)]
mod ffi;
#[cfg(has_dpdk)]
mod mbuf;
#[cfg(has_dpdk)]
mod open;
#[cfg(has_dpdk)]
mod port;
#[cfg(has_dpdk)]
mod ring_drops;
#[cfg(has_dpdk)]
pub use port::DpdkPort;

#[cfg(not(has_dpdk))]
mod absent;
#[cfg(not(has_dpdk))]
pub use absent::DpdkPort;

/// Whether this program was built with DPDK.
pub const BUILT_IN: bool = cfg!(has_dpdk);
