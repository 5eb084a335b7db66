//! A flow cache in the kernel. An eBPF program on the ports rewrites packets in the driver, and
//! AF_XDP sockets receive the packets without a flow.
//!
//! This module answers one question: *how do decisions about a flow get into the kernel, and its
//! counters back?* It does not depend on P4 programs or tables. [`XdpProgram`] stores flows in the
//! layout of [`maps`], which its owner creates. A packet without a flow goes to the port's
//! [`XdpPort`]. Without any flows, it is therefore a normal port for any engine.
//!
//! | item | file |
//! |---|---|
//! | the eBPF program at XDP | `bpf/terrace.bpf.c`, `bpf/flow.bpf.h`, compiled by `build.rs` if clang is installed |
//! | the eBPF program at tc | `bpf/tc.bpf.h`, in the same object; `classifier.rs`, `tc.rs`, `tap.rs` |
//! | its auxiliary programs: device probe, generator | `other_programs.rs` |
//! | its maps and attached interfaces | `kernel.rs`, `hook.rs`, `attached.rs`, `mapped.rs` |
//! | drops of the kernel after the program | `bpf/lost.bpf.c`, `lost.rs` |
//! | counters of packets that the program handled itself | `slot_counters.rs` |
//! | layouts of the maps | `maps.rs` |
//! | AF_XDP sockets | `socket.rs`, `rings.rs` |
//! | an interface as a port | `port.rs`, `driver.rs` |

mod attached;
mod classifier;
mod driver;
mod hook;
mod kernel;
mod lost;
mod mapped;
pub mod maps;
mod other_programs;
mod port;
mod refusal;
mod rings;
mod slot_counters;
mod socket;
mod tap;
mod tc;
mod test_run;

pub use attached::XdpMode;
pub use classifier::TcStats;
pub use kernel::{FlowCounters, PORTS, REUSE_DELAY, XdpProgram, XdpStats};
pub use port::{XdpPort, refuses};
pub(crate) use refusal::error_chain;
pub use tc::has_unfinished_packets;
pub use test_run::TcRun;

use std::io;
use thiserror::Error;

/// Whether this build contains the eBPF program.
pub const BUILT_IN: bool = cfg!(has_bpf);

/// Error of the kernel's flow cache.
#[derive(Debug, Error)]
pub enum XdpError {
    /// The program was built without clang.
    #[error("this build has no XDP program: install clang and build again")]
    NotBuilt,
    /// The kernel refuses the eBPF program or its maps.
    #[error(
        "the kernel refuses the XDP program: {0}; this needs Linux 5.18 or later with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and root (CAP_BPF, CAP_NET_ADMIN)"
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
        /// The system's reason.
        why: String,
    },
    /// The tc program cannot run on the interface.
    #[error("the tc hook is not available on `{interface}`: {why}")]
    TcUnavailable {
        /// The interface.
        interface: String,
        /// The system's reason.
        why: String,
    },
    /// More ports than the program supports.
    #[error("the XDP program supports at most {PORTS} ports; use another engine for the others")]
    TooManyPorts,
    /// A map refuses an entry.
    #[error("a map of the XDP program is full, or refuses an entry: {0}")]
    Map(String),
    /// Another system call failed.
    #[error("cannot {step}")]
    System {
        /// The operation that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
