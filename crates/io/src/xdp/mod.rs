//! A flow cache in the kernel: one eBPF program, attached to the ports, that rewrites packets in the driver; and AF_XDP sockets for those that it does not know.
//!
//! This module answers one question: *how does what somebody decided about a flow get into the kernel, and back out what it did?* It knows no programs and no tables:
//! [`Kernel`] holds flows of the form in [`form`], which somebody else makes. A packet that has none goes to the port's [`XdpPort`], as all do
//! while there are none: so such a port is one for any engine.
//!
//! | what | where |
//! |---|---|
//! | the kernel's program | `bpf/terrace.bpf.c`, compiled by `build.rs` if clang is there |
//! | its other programs: what asks a device whether it takes packets, a generator | `other_programs.rs` |
//! | its maps, and to which interfaces it is attached | `kernel.rs`, `mapped.rs` |
//! | what the kernel loses behind it | `bpf/lost.bpf.c`, `lost.rs` |
//! | what went through a port without coming here | `passage.rs` |
//! | what is in the maps | `form.rs` |
//! | AF_XDP sockets | `socket.rs`, `rings.rs` |
//! | an interface as a port | `port.rs`, `driver.rs` |

mod driver;
pub mod form;
mod kernel;
mod lost;
mod mapped;
mod other_programs;
mod passage;
mod port;
mod rings;
mod socket;
mod test_run;

pub use kernel::{Kernel, Outcomes, PORTS, REST, Tally};
pub use port::{Mode, XdpPort, refuses};

use std::io;
use thiserror::Error;

/// Whether this build has the kernel's program.
pub const BUILT_IN: bool = cfg!(has_bpf);

/// The kernel's flow cache cannot be had, or does not take something.
#[derive(Debug, Error)]
pub enum XdpError {
    /// There was no clang when this was built.
    #[error("this build has no XDP program: install clang and build again")]
    NotBuilt,
    /// The kernel refuses the program or its maps.
    #[error(
        "the kernel does not take the XDP program: {0}; it must be Linux 5.18 or later with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and the program root (CAP_BPF, CAP_NET_ADMIN)"
    )]
    Refused(String),
    /// The interface does not exist.
    #[error("there is no network interface `{0}` in this network namespace; `ip link` lists those that exist")]
    NoSuchInterface(String),
    /// The program cannot be attached.
    #[error(
        "the XDP program cannot be attached to `{interface}`: {why}; `ip link` shows whether another one is, and its MTU must be 3,498 at most"
    )]
    Attach {
        /// The interface.
        interface: String,
        /// The system's words.
        why: String,
    },
    /// More ports than the program knows.
    #[error("more than {PORTS} ports: the XDP program knows no more; leave some to another engine")]
    TooManyPorts,
    /// A map does not take an entry.
    #[error("a map of the XDP program is full, or refuses an entry: {0}")]
    Map(String),
    /// The system refuses something else.
    #[error("cannot {step}")]
    System {
        /// What was tried.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
