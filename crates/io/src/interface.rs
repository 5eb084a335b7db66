//! Opens ports by their user-visible names: network interfaces, memifs, DPDK devices.

use crate::device_offloads::offload_source;
use crate::dpdk::{BUILT_IN, DpdkDevice, DpdkOptions, DpdkPort};
use crate::memif::{self, MemifOptions, MemifPort};
use crate::{Port, PortError, RawPort};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Method by which a network interface is opened as a port. DPDK devices need none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PortKind {
    /// A raw socket where the kernel merges packets or leaves checksums open, because DPDK's
    /// AF_PACKET driver does not see this: on virtual interfaces (veth, TAP, virtio) and on cards
    /// with GRO or LRO. On other cards DPDK's AF_PACKET driver if DPDK is built in and starts,
    /// otherwise a raw socket.
    #[default]
    Auto,
    /// DPDK's AF_PACKET driver, with rings that are shared with the kernel.
    AfPacket,
    /// DPDK's AF_XDP driver, before the kernel's network stack. Frames of at most about 3,500
    /// bytes.
    AfXdp,
    /// A raw socket.
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

/// A port, with a note for its owner.
pub struct OpenedPort {
    /// The port.
    pub port: Box<dyn Port>,
    /// Reason why the first choice of method was not used.
    pub note: Option<String>,
    /// The method that [`PortKind::Auto`] chose, with its reason, and how super-frames leave.
    pub method: Option<String>,
}

impl OpenedPort {
    fn new(port: impl Port + 'static) -> OpenedPort {
        OpenedPort { port: Box::new(port), note: None, method: None }
    }

    /// Opens an interface as a raw socket. `why` is the reason for this choice.
    fn raw(interface: &str, why: &str) -> Result<OpenedPort, PortError> {
        let port = RawPort::open(interface)?;
        let method = Some(format!("`{interface}` is a raw socket{why}; {}", port.describe_offloads()));
        Ok(OpenedPort { port: Box::new(port), note: None, method })
    }
}

/// Opens the port of this name: a memif if it starts with [`memif::PREFIX`]; a DPDK device if its
/// name is one ([`DpdkDevice::recognise`]); otherwise, by the method `kind`, the network interface
/// of this name in the calling thread's network namespace.
///
/// A `net_memif` is opened as [`MemifPort`] unless it needs features of DPDK's driver. It is
/// faster, and a peer that exits cannot end this process, as it can with DPDK 22.11
/// ([`crate::dpdk`], "Limits"). The note reports when DPDK's driver is used.
///
/// # Errors
/// The port does not exist or cannot be opened.
pub fn open_port(name: &str, kind: PortKind, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    if name.starts_with(memif::PREFIX) {
        return MemifPort::open(name).map(OpenedPort::new);
    }
    if DpdkDevice::recognise(name) {
        return open_device(name, options);
    }
    match kind {
        PortKind::Raw => OpenedPort::raw(name, ""),
        PortKind::AfPacket => open_with_dpdk("net_af_packet", name, options),
        PortKind::AfXdp => open_with_dpdk("net_af_xdp", name, options),
        PortKind::Auto => open_automatically(name, options),
    }
}

/// Opens an interface by the method that suits it: see [`PortKind::Auto`].
fn open_automatically(interface: &str, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    if let Some(why) = offload_source(interface) {
        return OpenedPort::raw(interface, &format!(", because {why}"));
    }
    if !BUILT_IN {
        return OpenedPort::raw(interface, ", because this build has no DPDK");
    }
    match open_with_dpdk("net_af_packet", interface, options) {
        // Problems of DPDK do not affect a raw socket. Problems of the interface itself affect
        // both.
        Err(PortError::Dpdk(error)) => {
            let note = format!("`{interface}` is opened as a raw socket, because DPDK cannot open it: {error}");
            OpenedPort::raw(interface, "").map(|opened| OpenedPort { note: Some(note), ..opened })
        }
        Ok(opened) => {
            let method =
                format!("`{interface}` is opened by DPDK's AF_PACKET driver, because it is a card without GRO");
            Ok(OpenedPort { method: Some(method), ..opened })
        }
        Err(error) => Err(error),
    }
}

/// Opens a device by its DPDK name. A memif is opened by [`MemifPort`] if its arguments allow it.
fn open_device(name: &str, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    let device = DpdkDevice::parse(name)?;
    if let Some(memif) = MemifOptions::of_device(&device) {
        return MemifPort::open_as(device.name().to_owned(), memif).map(OpenedPort::new);
    }
    let port = DpdkPort::open(name, options)?;
    let note = (device.driver() == Some("net_memif")).then(|| {
        format!(
            "`{}` uses DPDK's memif driver: a peer that exits while packets are received can end this process; without zero-copy=yes, secret= and \
             bsize= the native driver is used, and it cannot",
            device.name()
        )
    });
    Ok(OpenedPort { port: Box::new(port), note, method: None })
}

/// Opens an interface with a DPDK driver, under the interface's own name.
fn open_with_dpdk(driver: &str, interface: &str, options: &DpdkOptions) -> Result<OpenedPort, PortError> {
    // The number makes device names unique, because another namespace can have an interface of this
    // name.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    if interface.contains(',') || interface.is_empty() {
        return Err(PortError::NoSuchInterface { interface: interface.to_owned() });
    }
    let device = format!("{driver}_i{number},iface={interface}");
    DpdkPort::open(&device, options).map(|port| OpenedPort::new(port.named(interface)))
}
