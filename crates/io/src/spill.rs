//! [`SpillBuffers`]: memory for the received bytes that a packet's slot does not have.

use packet::MAX_LEN;

/// Maximum number of packets per system call.
pub(crate) const VECTOR: usize = 64;

/// Number of slots that have space for a super-frame after one has arrived. A vector of
/// super-frames is seldom longer, because 16 of them have a megabyte.
const LARGE_SLOTS: usize = 16;

/// Number of receive calls without a super-frame after which slots are small again.
const PATIENCE: u32 = 64;

/// Decides where a received packet is written to.
///
/// A packet of the interface's MTU fits into its slot. A super-frame (64 KiB) does not, and slots
/// of its size would take a port's buffers out of the processor's caches. So its end goes to a
/// spill buffer first and is then copied, and the first slots become large while super-frames
/// arrive, which saves the copy.
///
/// The memory of the spill buffers is used only once a super-frame is written to it, because the
/// kernel provides zeroed pages on first use.
pub(crate) struct SpillBuffers {
    bytes: Vec<u8>,
    /// Number of receive calls for which the first slots stay large.
    large_for: u32,
}

impl SpillBuffers {
    pub(crate) fn new() -> SpillBuffers {
        SpillBuffers { bytes: vec![0; VECTOR * MAX_LEN], large_for: 0 }
    }

    /// Returns the number of bytes to offer in slot `index`, at least `space`, and the spill buffer
    /// for the bytes after them.
    pub(crate) fn space_of(&mut self, index: usize, space: usize) -> (usize, &mut [u8]) {
        if index < LARGE_SLOTS && self.large_for > 0 {
            return (MAX_LEN, &mut []);
        }
        let from = index * MAX_LEN;
        (space, &mut self.bytes[from..from + MAX_LEN - space])
    }

    /// Notes whether a receive call that returned packets had super-frames among them.
    pub(crate) fn note_received(&mut self, has_super_frames: bool) {
        self.large_for = if has_super_frames { PATIENCE } else { self.large_for.saturating_sub(1) };
    }
}
