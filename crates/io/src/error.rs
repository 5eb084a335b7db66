//! Errors of a port as a whole. Errors of single packets are counted, not returned.

use crate::capture::CaptureError;
use crate::dpdk::DpdkError;
use std::io;
use thiserror::Error;

/// Error of opening or using a port.
#[derive(Debug, Error)]
pub enum PortError {
    /// The process lacks the privileges for raw sockets.
    #[error(
        "opening a raw socket on `{interface}` is not permitted: run as root, or give the program the capability \
         CAP_NET_RAW (setcap cap_net_raw,cap_net_admin+ep)"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// The interface does not exist in the caller's network namespace.
    #[error("there is no network interface `{interface}` in this network namespace; `ip link` lists those that exist")]
    NoSuchInterface {
        /// The interface.
        interface: String,
    },
    /// The interface is not Ethernet (for example a tunnel that carries IP directly).
    #[error(
        "`{interface}` is not an Ethernet interface (hardware type {hardware_type}); packets must start with an Ethernet header"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
        /// The ARPHRD number of linux/if_arp.h.
        hardware_type: u16,
    },
    /// The system refused an operation while the interface was opened.
    #[error("cannot {step} on `{interface}`")]
    Open {
        /// The interface.
        interface: String,
        /// The operation that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The port can no longer receive.
    #[error("cannot receive from `{port}` any more")]
    Receive {
        /// The port's name.
        port: String,
        /// The system's error.
        source: io::Error,
    },
    /// Error of reading or writing a capture file.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A DPDK port cannot be opened.
    #[error(transparent)]
    Dpdk(#[from] DpdkError),
    /// The kernel's flow cache cannot be attached.
    #[error(transparent)]
    Xdp(#[from] crate::xdp::XdpError),
    /// The name of a memif port is invalid.
    #[error(
        "`{device}` is no memif port: {why}; write memif:socket=PATH,role=server (or client), with id=N and ring=LOG2 if need be"
    )]
    BadMemif {
        /// The name as given, or its start.
        device: String,
        /// The problem of the name.
        why: String,
    },
    /// A port that another process transferred cannot be opened.
    #[error("`{port}` cannot be taken over: {why}")]
    TakeOver {
        /// The port's name.
        port: String,
        /// The reason.
        why: String,
    },
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The operating system refused the event descriptor on which a port waits.
    #[error("cannot make an event descriptor; is the limit of open files (ulimit -n) reached?")]
    Event(#[source] io::Error),
}

/// Error of opening or entering a network namespace.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// The namespace does not exist.
    #[error("there is no network namespace `{name}`; `ip netns` lists those that exist")]
    Missing {
        /// Name of the namespace.
        name: String,
    },
    /// Entering is not permitted, or failed with another system error.
    #[error("cannot enter the network namespace `{name}`; this needs root (CAP_SYS_ADMIN)")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}
