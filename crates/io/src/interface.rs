//! From what a user calls a port to the port: a network interface, a memif, or a DPDK device.

use crate::dpdk::{BUILT_IN, DpdkDevice, DpdkOptions, DpdkPort};
use crate::memif::{self, MemifPort, Options};
use crate::{Port, PortError, RawPort};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// By which means a network interface is a port. DPDK devices need none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortKind {
    /// By DPDK's AF_PACKET driver if DPDK is there and starts, else by a raw socket.
    #[default]
    Auto,
    /// By DPDK's AF_PACKET driver: rings that are shared with the kernel.
    AfPacket,
    /// By DPDK's AF_XDP driver: before the kernel's network stack. Frames of at most about 3,500 bytes.
    AfXdp,
    /// By a raw socket.
    Raw,
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortKind::Auto => "auto",
            PortKind::AfPacket => "af-packet",
            PortKind::AfXdp => "af-xdp",
            PortKind::Raw => "raw",
        })
    }
}

/// A port, and what its owner should know of it.
pub struct OpenedPort {
    /// The port.
    pub port: Box<dyn Port>,
    /// Why it is not of the kind that is tried first.
    pub note: Option<String>,
}

impl OpenedPort {
    fn new(port: impl Port + 'static) -> OpenedPort {
        OpenedPort { port: Box::new(port), note: None }
    }
}

/// Opens `what`: a memif if it begins with [`memif::PREFIX`], a DPDK device if it is one by its name ([`DpdkDevice::recognise`]), else the network interface
/// of this name in the network namespace of the calling thread, by the means of `kind`.
///
/// A `net_memif` is a port of our own ([`MemifPort`]) unless it asks for what only DPDK's driver does: a peer that goes cannot end this process then, as
/// it can with DPDK 22.11 ([`crate::dpdk`], "Limits"), and it is faster. The note says when it is DPDK's.
///
/// # Errors
/// If it does not exist or cannot be opened.
pub fn open_port(what: &str, kind: PortKind, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    if what.starts_with(memif::PREFIX) {
        return MemifPort::open(what).map(OpenedPort::new);
    }
    if DpdkDevice::recognise(what) {
        return open_device(what, options);
    }
    match kind {
        PortKind::Raw => RawPort::open(what).map(OpenedPort::new),
        PortKind::AfPacket => by_dpdk("net_af_packet", what, options),
        PortKind::AfXdp => by_dpdk("net_af_xdp", what, options),
        PortKind::Auto if !BUILT_IN => RawPort::open(what).map(OpenedPort::new),
        PortKind::Auto => match by_dpdk("net_af_packet", what, options) {
            // What is wrong with DPDK may be no obstacle for a socket; what is wrong with the interface is one for both.
            Err(PortError::Dpdk(error)) => {
                let note = Some(format!("`{what}` is a raw socket, as DPDK cannot have it: {error}"));
                RawPort::open(what).map(|port| OpenedPort { port: Box::new(port), note })
            }
            outcome => outcome,
        },
    }
}

/// A device that has DPDK's name for it.
fn open_device(what: &str, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    let device = DpdkDevice::parse(what)?;
    if let Some(memif) = Options::of_device(&device) {
        return MemifPort::open_as(device.name().to_owned(), memif).map(OpenedPort::new);
    }
    let port = DpdkPort::open(what, options)?;
    let note = (device.driver() == Some("net_memif")).then(|| {
        format!(
            "`{}` is DPDK's memif: a peer that goes while packets are received can end this process; without zero-copy=yes, secret= and \
             bsize= it cannot",
            device.name()
        )
    });
    Ok(OpenedPort { port: Box::new(port), note })
}

/// The interface by a driver of DPDK's, under the interface's own name.
fn by_dpdk(driver: &str, interface: &str, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    // Another namespace may have another interface of the same name.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if interface.contains(',') || interface.is_empty() {
        return Err(PortError::NoSuchInterface { interface: interface.to_owned() });
    }
    let device = format!("{driver}_i{number},iface={interface}");
    DpdkPort::open(&device, options).map(|port| OpenedPort::new(port.named(interface)))
}
