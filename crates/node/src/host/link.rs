//! [`HostLink`]: the host side of one uplink.

use super::counters::{HostCounters, HostCounts};
use super::frame;
use io::KernelFilter;
use io::tap::Tap;
use packet::{Packet, PortId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Frames of the host that wait for their port: more than the replies to a burst of ARP.
const FROM_HOST_RING: usize = 1024;

const DOWN: u8 = 0;
const UP: u8 = 1;
const UNKNOWN: u8 = 2;

/// The interface on the host side of an uplink.
#[derive(Clone, Debug)]
pub(super) enum HostEnd {
    /// A TAP of this node.
    Tap(Arc<Tap>),
    /// The port's own interface. The kernel receives its packets itself.
    Kernel(String),
}

impl HostEnd {
    pub(super) fn name(&self) -> &str {
        match self {
            HostEnd::Tap(tap) => tap.name(),
            HostEnd::Kernel(name) => name,
        }
    }

    pub(super) fn tap(&self) -> Option<&Arc<Tap>> {
        match self {
            HostEnd::Tap(tap) => Some(tap),
            HostEnd::Kernel(_) => None,
        }
    }
}

/// The host side of one uplink, shared by the host thread and the worker of the port.
#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) port: PortId,
    pub(super) end: HostEnd,
    /// Hides packets of the port from the kernel's own stack.
    pub(super) filter: Mutex<Option<KernelFilter>>,
    to_port: SyncSender<Packet>,
    from_host: Mutex<Receiver<Packet>>,
    /// Whether the port is up.
    is_up: AtomicBool,
    /// State of the TAP's carrier: one of [`DOWN`], [`UP`] and [`UNKNOWN`].
    carrier: AtomicU8,
    pub(super) counters: HostCounters,
}

impl HostLink {
    /// Creates a host side whose port is down.
    pub(super) fn new(port: PortId, end: HostEnd) -> HostLink {
        let (to_port, from_host) = sync_channel(FROM_HOST_RING);
        HostLink {
            port,
            end,
            filter: Mutex::default(),
            to_port,
            from_host: Mutex::new(from_host),
            is_up: AtomicBool::new(false),
            carrier: AtomicU8::new(UNKNOWN),
            counters: HostCounters::default(),
        }
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> HostCounts {
        self.counters.read(self.end.name(), self.end.tap().is_some())
    }

    /// Returns whether the port is up.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    pub(super) fn set_up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Relaxed);
    }

    /// Lets the TAP's carrier follow the port. Returns whether it does.
    pub(super) fn update_carrier(&self) -> bool {
        let Some(tap) = self.end.tap() else { return true };
        let wanted = if self.is_up() { UP } else { DOWN };
        if self.carrier.load(Ordering::Relaxed) == wanted {
            return true;
        }
        let followed = tap.set_carrier(wanted == UP).is_ok();
        if followed {
            self.carrier.store(wanted, Ordering::Relaxed);
        }
        followed
    }

    /// Passes a frame of the host to the port's ring. Returns whether it is there.
    pub(super) fn accept_from_host(&self, bytes: &[u8]) -> bool {
        let counters = &self.counters;
        if frame::is_vxlan(bytes) {
            if counters.from_host_vxlan.count_packet(bytes.len()) {
                tracing::warn!(
                    interface = self.end.name(),
                    "the host sends VXLAN (UDP port 4789), which is dropped as `host_vxlan`, because only the gateway may: find the \
                     program or the vxlan device that sends it (ss -lun, ip -d link)"
                );
            }
            return false;
        }
        let Ok(packet) = Packet::from_bytes(bytes) else {
            counters.from_host_too_long.count_packet(bytes.len());
            return false;
        };
        let accepted = self.to_port.try_send(packet).is_ok();
        if !accepted {
            counters.from_host_ring_full.count_packet(bytes.len());
        }
        accepted
    }

    /// Takes up to `most` frames of the host for the port. Called by the port's worker only.
    pub(super) fn take_frames(&self, frames: &mut Vec<Packet>, most: usize) {
        frames.clear();
        frames.extend(self.from_host.lock().try_iter().take(most));
    }
}
