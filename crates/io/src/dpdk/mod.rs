//! DPDK ports: network cards by PCI address, and DPDK's virtual devices (AF_PACKET, AF_XDP, memif, vhost, pcap files, null, ring).
//!
//! ```no_run
//! use io::dpdk::{DpdkOptions, DpdkPort};
//! use io::{Attached, Runner};
//!
//! let device = "0000:01:00.0";
//! let port = DpdkPort::open(device, &DpdkOptions::default())?;
//! let runner = Runner::new(vec![Attached::new(1, port)])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Two processes over memif
//!
//! [`crate::open_port`] takes [`crate::memif::MemifPort`] for a `net_memif` with the arguments that both have. What is said here is of DPDK's own driver,
//! which is needed for `zero-copy=yes`, `secret=`, `bsize=` and several queues.
//!
//! A memif is a pair of rings in memory that two processes share. One end is the server, which makes the socket, the other the client; either
//! can start first, and either can be started again: the port then goes on by itself ([`crate::Port::trouble`] tells meanwhile). Both name
//! the same `socket` and `id` (0 if left out). `socket-abstract=no` takes a path of the file system, whose directory must exist. `rsize=11` makes rings of
//! 2^11 packets; `bsize` is the size of a slot, over several of which longer packets are spread. `zero-copy=yes` at the client lets the
//! server read the client's packet buffers themselves: it needs huge pages. Each process should have a processor of its own, and both want
//! huge pages: `sysctl -w vm.nr_hugepages=512`.
//!
//! # No copies
//!
//! The buffer into which a device wrote (an mbuf) is lent to a packet of the batch ([`packet::Loan`]), the engine rewrites it there, and where the
//! packet leaves for the last time the buffer is given to the device that sends it. Copied are only: packets that leave again elsewhere,
//! packets that did not come from a DPDK port or outgrew their buffer (counted in [`packet::PortCounters::copied`]), and packets that came in several
//! segments that do not fit into the first (in [`packet::PortCounters::linearised`]).
//!
//! # Limits
//!
//! - DPDK's environment starts once in a process, with the options of the first port, and stays until the process ends.
//! - When the peer of a `net_memif` goes, DPDK 22.11 unmaps the rings in a thread of its own, whether or not a worker is receiving from them at that
//!   moment; if one is, the process ends (SIGSEGV).
//! - Drivers trust the other end of a shared memory to some degree. Let the peer of a `net_memif` or vhost be as trusted as this process.
//! - AF_PACKET and AF_XDP give packets as the kernel has them: turn off segmentation and checksum offload at the sending end
//!   (`ethtool -K DEVICE tx off tso off gso off gro off`). [`crate::RawPort`] needs that less.

// Without DPDK device strings are only read.
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
