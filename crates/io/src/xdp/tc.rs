//! The tc hook of the flow cache: attached programs, the path of misses, and counters that only this
//! hook has.
//!
//! A program at tc sees socket buffers, which can hold super-frames and open checksums, and passes
//! them on as they are (`bpf/tc.bpf.h`). XDP programs see neither. So this hook is for interfaces
//! whose packets come from a kernel, not from a wire: veth, TAP, virtio.

use super::XdpError;
use super::driver;
use super::kernel::{XdpProgram, error_chain};
use super::rights::missing_capabilities;
use super::tap::MissTap;
use crate::device_drops::DeviceDrops;
use crate::{PortError, RawPort};
use aya::Ebpf;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::{SchedClassifier, TcAttachType};
use packet::{Counter, PortCounters, PortReason};

/// Drivers of interfaces whose packets come from a kernel with its offloads.
const UNFINISHED: [&str; 3] = ["veth", "tun", "virtio_net"];

/// Packets of the tc program, by what only this hook meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcStats {
    /// Super-frames that were forwarded whole.
    pub super_frames: u64,
    /// Segments in them.
    pub segments: u64,
    /// Misses, because the VLAN tag is outside of the packet's bytes.
    pub tagged: u64,
    /// Super-frames that miss, because they are not TCP, or their headers do not have the layout of
    /// VXLAN.
    pub unknown_super_frames: u64,
    /// Super-frames that miss, because the flow changes the length of their header.
    pub resized_super_frames: u64,
    /// Misses, because the flow changes a checksum that is open.
    pub open_checksums: u64,
    /// Open checksums of tunnel headers that were withdrawn, because the flow writes 0.
    pub withdrawn_checksums: u64,
    /// Dropped, because they are longer than the MTU of the output device.
    pub too_long: u64,
}

/// Returns whether packets of an interface can be unfinished, so that the tc hook is the better
/// one: its driver is that of a veth, TAP or virtio interface.
pub fn has_unfinished_packets(interface: &str) -> bool {
    driver::driver_name(interface).is_some_and(|driver| UNFINISHED.contains(&driver.as_str()))
}

pub(super) fn classifier<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut SchedClassifier, String> {
    let program = ebpf.program_mut(name).ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|error: aya::programs::ProgramError| error_chain(&error))
}

/// Loads the programs of this hook. Returns the reason if the kernel refuses them.
pub(super) fn load_classifiers(ebpf: &mut Ebpf) -> Result<(), String> {
    for name in ["terrace_tc", "only_misses"] {
        classifier(ebpf, name)?.load().map_err(|error| error_chain(&error) + &missing_capabilities())?;
    }
    Ok(())
}

/// Attaches a program to an interface of the calling thread's network namespace, by a link that
/// ends with its descriptor (tcx).
pub(super) fn attach_classifier(
    ebpf: &mut Ebpf,
    name: &str,
    interface: &str,
    side: TcAttachType,
) -> Result<SchedClassifierLink, String> {
    let failed = |error: aya::programs::ProgramError| {
        format!("{}; this needs Linux 6.6 or later with tcx{}", error_chain(&error), missing_capabilities())
    };
    let program = classifier(ebpf, name)?;
    let options = TcAttachOptions::TcxOrder(LinkOrder::first());
    program.attach_with_options(interface, side, options).and_then(|id| program.take_link(id)).map_err(failed)
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
        let failed = |error: std::io::Error| {
            unavailable(format!("/dev/net/tun, which takes packets without a flow: {error}{}", missing_capabilities()))
        };
        let tap = MissTap::create().map_err(failed)?;
        // Before it is up, because the kernel then sends packets of its own.
        let filter = attach_classifier(&mut kernel.inner().ebpf, "only_misses", tap.name(), TcAttachType::Egress);
        let filter = filter.map_err(unavailable)?;
        tap.start().map_err(failed)?;
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
