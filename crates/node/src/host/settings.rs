//! What a region wants as host sides, and why they cannot be opened.

use super::link::HostEnd;
use io::tap::{Tap, TapError};
use io::{HiddenPackets, KernelFilterError, KernelInterface};
use std::sync::Arc;
use thiserror::Error;

/// The interface that a region wants on the host side of an uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WantedInterface {
    /// A TAP of this name.
    Tap(String),
    /// The port's own interface.
    Kernel(String),
}

/// The host side of an uplink, as a region wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostSetting {
    /// Name of the uplink.
    pub uplink: String,
    /// Number of its port.
    pub port: u32,
    /// MAC address of the uplink.
    pub mac: [u8; 6],
    /// Largest IP packet of the uplink in bytes.
    pub mtu: usize,
    /// The interface.
    pub interface: WantedInterface,
}

/// The host side of an uplink cannot be opened.
#[derive(Debug, Error)]
pub enum HostError {
    /// A TAP cannot be created.
    #[error("the host side of the uplink `{uplink}` cannot be opened: {source}")]
    Tap {
        /// Name of the uplink.
        uplink: String,
        /// The reason.
        #[source]
        source: TapError,
    },
    /// The kernel's stack does not receive the packets of the port.
    #[error(
        "the uplink `{uplink}` cannot have `host: {{interface: {interface}}}`, because the kernel does not receive the packets of its \
         port {port}: write `host: {{tap: NAME}}` for DPDK, AF_XDP and memif"
    )]
    NotShared {
        /// Name of the uplink.
        uplink: String,
        /// Name of the interface.
        interface: String,
        /// Number of the port.
        port: u32,
    },
    /// The port is another interface.
    #[error(
        "the uplink `{uplink}` has `host: {{interface: {interface}}}`, but its port {port} is `{device}`: write that name, or \
         `host: {{tap: NAME}}`"
    )]
    OtherInterface {
        /// Name of the uplink.
        uplink: String,
        /// Name of the interface.
        interface: String,
        /// Number of the port.
        port: u32,
        /// Name of the port's interface.
        device: String,
    },
    /// Packets cannot be hidden from the kernel.
    #[error(transparent)]
    Filter(#[from] KernelFilterError),
    /// The host thread cannot start.
    #[error("the thread of the host sides cannot start: {0}; raise the limits of open files and threads (ulimit)")]
    Thread(#[source] std::io::Error),
}

/// Returns the packets of a port that the kernel's own stack must not see. With a TAP, the stack
/// gets its packets there, and would else answer twice.
pub(super) fn hidden_packets(end: &HostEnd) -> HiddenPackets {
    match end {
        HostEnd::Tap(_) => HiddenPackets::All,
        HostEnd::Kernel(_) => HiddenPackets::Vxlan,
    }
}

/// Creates a TAP, or sets up the present one of this name.
pub(super) fn open_tap(
    name: &str,
    setting: &HostSetting,
    port_mtu: Option<usize>,
    present: Option<&Arc<Tap>>,
) -> Result<Arc<Tap>, HostError> {
    let failed = |source| HostError::Tap { uplink: setting.uplink.clone(), source };
    let mtu = port_mtu.map_or(setting.mtu, |mtu| mtu.min(setting.mtu));
    if let Some(tap) = present {
        tap.configure(setting.mac, mtu).map_err(failed)?;
        return Ok(tap.clone());
    }
    let (tap, refused) = Tap::create(name, setting.mac, mtu).map_err(failed)?;
    for why in refused {
        tracing::warn!(interface = name, why, "a setting of the host side is refused");
    }
    Ok(Arc::new(tap))
}

/// Checks that a port is the kernel's interface of this name. A port that is not open yet is not
/// checked.
pub(super) fn check_kernel_interface(
    name: &str,
    setting: &HostSetting,
    is_open: bool,
    interface: Option<&KernelInterface>,
) -> Result<(), HostError> {
    let (uplink, number) = (setting.uplink.clone(), setting.port);
    match (is_open, interface) {
        (false, _) => Ok(()),
        (true, None) => Err(HostError::NotShared { uplink, interface: name.to_owned(), port: number }),
        (true, Some(interface)) if interface.name() != name => {
            let device = interface.name().to_owned();
            Err(HostError::OtherInterface { uplink, interface: name.to_owned(), port: number, device })
        }
        (true, Some(_)) => Ok(()),
    }
}
