//! [`SegmentPool`]: buffers of segments, which outlive the segments in them.

use packet::{Packet, PacketPool};

/// Segments of super-frames. Clearing keeps the buffers.
///
/// A [`crate::Runner`] uses it for its ports. A caller that passes received packets to a port
/// itself calls [`SegmentPool::finish`] for each packet that has an [`packet::Offload`].
#[derive(Default)]
pub struct SegmentPool(PacketPool);

impl SegmentPool {
    /// Removes all segments.
    pub fn clear(&mut self) {
        self.0.truncate(0);
    }

    /// Returns the segments.
    pub fn packets(&self) -> &[Packet] {
        self.0.as_slice()
    }

    pub(crate) fn packets_mut(&mut self) -> &mut [Packet] {
        self.0.as_mut_slice()
    }

    /// Returns a new segment, empty.
    pub(crate) fn push(&mut self) -> &mut Packet {
        self.0.push_empty()
    }
}
