//! Ports at the tc hook of the flow cache: when it is the better hook, and the path of misses.
//!
//! A program at tc sees socket buffers, which can hold super-frames and open checksums, and passes
//! them on as they are (`bpf/tc.bpf.h`). XDP programs see neither. So this hook is for interfaces
//! whose packets come from a kernel, not from a wire: veth, TAP, virtio.

use super::XdpError;
use super::classifier::attach_classifier;
use super::driver;
use super::kernel::XdpProgram;
use super::refusal::missing_capabilities;
use super::tap::MissTap;
use crate::device_drops::DeviceDrops;
use crate::{PortError, RawPort};
use aya::programs::TcAttachType;
use aya::programs::tc::SchedClassifierLink;
use packet::{Counter, PortCounters, PortReason};

/// Drivers of interfaces whose packets come from a kernel with its offloads.
const UNFINISHED: [&str; 3] = ["veth", "tun", "virtio_net"];

/// Returns whether packets of an interface can be unfinished, so that the tc hook is the better
/// one: its driver is that of a veth, TAP or virtio interface.
pub fn has_unfinished_packets(interface: &str) -> bool {
    driver::driver_name(interface).is_some_and(|driver| UNFINISHED.contains(&driver.as_str()))
}

/// Path of the packets without a flow at the tc hook: a TAP in, a raw socket out.
pub(super) struct TcPath {
    pub tap: MissTap,
    /// Only sends.
    pub sender: RawPort,
    _filter: SchedClassifierLink,
    device: Option<DeviceDrops>,
    /// Sent packets, as of the last query of the device.
    sent: Counter,
    /// Packets that the device dropped, while its link was up and while it was down.
    lost: [Counter; 2],
}

impl TcPath {
    /// Creates the path for an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no tcx or TAP, or the interface cannot be opened.
    pub fn open(kernel: &XdpProgram, interface: &str) -> Result<TcPath, PortError> {
        let unavailable =
            |why: String| PortError::Xdp(XdpError::TcUnavailable { interface: interface.to_owned(), why });
        kernel.tc_refusal().map_or(Ok(()), |why| Err(unavailable(why)))?;
        let sender = RawPort::open_to_send(interface)?;
        let tap_error = |error: std::io::Error| {
            unavailable(format!("/dev/net/tun, which takes packets without a flow: {error}{}", missing_capabilities()))
        };
        let tap = MissTap::create().map_err(tap_error)?;
        // Before it is up, because the kernel then sends packets of its own.
        let filter = attach_classifier(&mut kernel.inner().ebpf, "only_misses", tap.name(), TcAttachType::Egress);
        let filter = filter.map_err(unavailable)?;
        tap.start().map_err(tap_error)?;
        let (sent, lost, device) = (Counter::default(), [Counter::default(); 2], DeviceDrops::of(interface));
        Ok(TcPath { tap, sender, _filter: filter, device, sent, lost })
    }

    /// Moves packets that the device dropped from the sent ones to the drops. `is_up`: the state of
    /// its link. The device also counts drops of other senders, so at most the packets that were
    /// sent since the last call.
    pub fn count_device_drops(&mut self, counters: &mut PortCounters, is_up: bool) {
        let mut fresh = counters.sent.since(self.sent);
        self.sent = counters.sent;
        if let Some(device) = &mut self.device {
            self.lost[usize::from(!is_up)] += fresh.take_packets(device.take_dropped());
        }
        for (reason, lost) in [PortReason::TxQueueFull, PortReason::TxPortDown].into_iter().zip(self.lost) {
            counters.drops.add_counter(reason, lost);
            counters.sent = counters.sent.since(lost);
        }
    }
}

impl XdpProgram {
    /// Returns why the tc hook cannot be used on this machine, if so.
    pub fn tc_refusal(&self) -> Option<String> {
        self.inner().tc.as_ref().err().cloned()
    }
}
