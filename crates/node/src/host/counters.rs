//! Counters of a host side, which workers and the host thread share.

use super::kind::PuntKind;
use packet::Counter;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes, counted by several threads.
#[derive(Debug, Default)]
pub(super) struct SharedCounter {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl SharedCounter {
    pub(super) fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a packet. Returns whether it is the first one.
    pub(super) fn count_packet(&self, len: usize) -> bool {
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.packets.fetch_add(1, Ordering::Relaxed) == 0
    }

    fn get(&self) -> Counter {
        Counter { packets: self.packets.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

/// Counters of the host side of one uplink.
#[derive(Debug, Default)]
pub(super) struct HostCounters {
    /// Packets that arrived at the host, by kind.
    pub(super) to_host: [SharedCounter; PuntKind::ALL.len()],
    /// Packets for the host that found the ring of their kind full.
    pub(super) ring_full: [SharedCounter; PuntKind::ALL.len()],
    /// Packets above the rate of their kind.
    pub(super) limited: [SharedCounter; PuntKind::ALL.len()],
    /// Packets that the interface did not accept, because it is down.
    pub(super) interface_down: SharedCounter,
    /// Frames of the host that were handed to the port.
    pub(super) from_host: SharedCounter,
    /// Frames of the host that found the port's ring full.
    pub(super) from_host_ring_full: SharedCounter,
    /// VXLAN of the host, which is refused.
    pub(super) from_host_vxlan: SharedCounter,
    /// Frames of the host that are longer than a packet can be.
    pub(super) from_host_too_long: SharedCounter,
}

/// Counts of the host side of one uplink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Interface on the host side.
    pub interface: String,
    /// Whether the interface is a TAP of this node; otherwise it is the kernel's.
    pub is_tap: bool,
    /// Packets that arrived at the host, by kind: the gateway's punt reason.
    pub to_host: Vec<(&'static str, Counter)>,
    /// Frames of the host that were handed to the port.
    pub from_host: Counter,
    /// Lost packets by reason and kind; frames of the host have the kind `from_host`.
    pub drops: Vec<(&'static str, &'static str, Counter)>,
}

/// Kind of frames that the host sends.
const FROM_HOST: &str = "from_host";

impl HostCounters {
    /// Returns the counts that are not 0.
    pub(super) fn read(&self, interface: &str, is_tap: bool) -> HostCounts {
        let kinds = |counters: &[SharedCounter]| -> Vec<(&'static str, Counter)> {
            let all = PuntKind::ALL.iter().zip(counters).map(|(kind, counter)| (kind.name(), counter.get()));
            all.filter(|(_, counter)| !counter.is_zero()).collect()
        };
        let full = kinds(&self.ring_full).into_iter().map(|(kind, counter)| ("host_ring_full", kind, counter));
        let limited = kinds(&self.limited).into_iter().map(|(kind, counter)| ("punt_rate_limited", kind, counter));
        let others = [
            ("host_interface_down", "to_host", &self.interface_down),
            ("host_ring_full", FROM_HOST, &self.from_host_ring_full),
            ("host_vxlan", FROM_HOST, &self.from_host_vxlan),
            ("host_too_long", FROM_HOST, &self.from_host_too_long),
        ];
        let others = others.map(|(reason, kind, counter)| (reason, kind, counter.get()));
        HostCounts {
            interface: interface.to_owned(),
            is_tap,
            to_host: kinds(&self.to_host),
            from_host: self.from_host.get(),
            drops: full.chain(limited).chain(others.into_iter().filter(|(_, _, counter)| !counter.is_zero())).collect(),
        }
    }
}
