//! What can go wrong with a port as a whole. What goes wrong with a single packet is counted, not returned.

use crate::capture::CaptureError;
use crate::dpdk::DpdkError;
use std::io;
use thiserror::Error;

/// A port could not be opened, or can no longer be used.
#[derive(Debug, Error)]
pub enum PortError {
    /// Raw sockets need privileges that the process does not have.
    #[error(
        "opening a raw socket on `{interface}` is not permitted: run as root, or give the program the capability \
         CAP_NET_RAW (setcap cap_net_raw,cap_net_admin+ep)"
    )]
    NotPermitted {
        /// The interface.
        interface: String,
    },
    /// The interface does not exist in the network namespace of the caller.
    #[error("there is no network interface `{interface}` in this network namespace; `ip link` lists those that exist")]
    NoSuchInterface {
        /// The interface.
        interface: String,
    },
    /// Not an Ethernet interface (for example a tunnel that carries IP directly).
    #[error(
        "`{interface}` is not an Ethernet interface (hardware type {hardware_type}); packets must start with an Ethernet header"
    )]
    NotEthernet {
        /// The interface.
        interface: String,
        /// The ARPHRD number of linux/if_arp.h.
        hardware_type: u16,
    },
    /// The system refused a step of opening the interface.
    #[error("cannot {step} on `{interface}`")]
    Open {
        /// The interface.
        interface: String,
        /// What was tried.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Receiving fails for good.
    #[error("cannot receive from `{port}` any more")]
    Receive {
        /// The port's name.
        port: String,
        /// The system's error.
        source: io::Error,
    },
    /// A capture file cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A DPDK port cannot be opened.
    #[error(transparent)]
    Dpdk(#[from] DpdkError),
    /// The kernel's flow cache cannot be attached.
    #[error(transparent)]
    Xdp(#[from] crate::xdp::XdpError),
    /// Not the name of a memif port.
    #[error(
        "`{device}` is no memif port: {why}; write memif:socket=PATH,role=server (or client), with id=N and ring=LOG2 if need be"
    )]
    BadMemif {
        /// What was given, or the beginning of it.
        device: String,
        /// What is wrong with it.
        why: String,
    },
    /// A port that another process gave cannot be had.
    #[error("`{port}` cannot be taken over: {why}")]
    TakeOver {
        /// The port's name.
        port: String,
        /// What is wrong.
        why: String,
    },
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The operating system refused to make the descriptor on which a port waits.
    #[error("cannot make an event descriptor; is the limit of open files (ulimit -n) reached?")]
    Event(#[source] io::Error),
}

/// A network namespace cannot be opened or entered.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// It does not exist.
    #[error("there is no network namespace `{name}`; `ip netns` lists those that exist")]
    Missing {
        /// Its name.
        name: String,
    },
    /// Not permitted, or another error of the system.
    #[error("cannot enter the network namespace `{name}`; this needs root (CAP_SYS_ADMIN)")]
    Enter {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}
