//! [`OffloadCounters`]: work that a runner did in place of network cards.

use std::ops::AddAssign;

/// Counts of packets with an [`packet::Offload`]. A super-frame counts as one packet wherever
/// packets are counted before it is cut: at the ingress port and in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadCounters {
    /// Super-frames that were received.
    pub received: u64,
    /// Super-frames that left whole, because the port takes them.
    pub sent_whole: u64,
    /// Super-frames that were cut.
    pub cut: u64,
    /// Segments into which they were cut.
    pub segments: u64,
    /// Checksums of packets of one segment that were completed.
    pub checksums: u64,
}

impl OffloadCounters {
    /// Returns the number of packets that cutting added.
    pub(crate) fn added_packets(&self) -> i64 {
        self.segments as i64 - self.cut as i64
    }
}

impl AddAssign<&OffloadCounters> for OffloadCounters {
    fn add_assign(&mut self, other: &OffloadCounters) {
        self.received += other.received;
        self.sent_whole += other.sent_whole;
        self.cut += other.cut;
        self.segments += other.segments;
        self.checksums += other.checksums;
    }
}
