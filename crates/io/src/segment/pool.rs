//! [`SegmentPool`]: buffers of segments, which outlive the segments in them.

use packet::Packet;

/// Segments of super-frames. Clearing keeps the buffers.
///
/// A [`crate::Runner`] uses it for its ports. A caller that passes received packets to a port
/// itself calls [`SegmentPool::finish`] for each packet that has an [`packet::Offload`].
#[derive(Default)]
pub struct SegmentPool {
    packets: Vec<Packet>,
    live: usize,
}

impl SegmentPool {
    /// Removes all segments.
    pub fn clear(&mut self) {
        self.live = 0;
    }

    /// Returns the segments.
    pub fn packets(&self) -> &[Packet] {
        &self.packets[..self.live]
    }

    pub(crate) fn packets_mut(&mut self) -> &mut [Packet] {
        &mut self.packets[..self.live]
    }

    /// Returns a new segment, empty.
    pub(crate) fn push(&mut self) -> &mut Packet {
        if self.live == self.packets.len() {
            self.packets.push(Packet::new());
        }
        let slot = &mut self.packets[self.live];
        slot.reset();
        self.live += 1;
        slot
    }
}
