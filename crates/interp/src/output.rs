//! What became of a packet and its copies.

use packet::{Origin, Verdict};

/// One verdict, with the bytes that leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutPacket {
    /// The packet; empty if it is dropped.
    pub bytes: Vec<u8>,
    /// What becomes of it.
    pub verdict: Verdict,
    /// How it came to be.
    pub origin: Origin,
}

/// The verdicts on one packet and its copies, in the order in which they were reached; at least one.
///
/// Kept and given to [`crate::Interp::process_into`] again, its buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    packets: Vec<OutPacket>,
    live: usize,
}

impl Outputs {
    /// No verdicts.
    pub fn new() -> Outputs {
        Outputs::default()
    }

    /// The verdicts.
    pub fn packets(&self) -> &[OutPacket] {
        &self.packets[..self.live]
    }

    /// What leaves on ports: port and bytes.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.packets().iter().filter_map(|packet| match packet.verdict {
            Verdict::Forward { port } => Some((port.0, packet.bytes.as_slice())),
            _ => None,
        })
    }

    /// Why packets were dropped.
    pub fn drops(&self) -> impl Iterator<Item = packet::DropReason> {
        self.packets().iter().filter_map(|packet| match packet.verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        })
    }

    /// Forgets all, keeps the buffers.
    pub fn clear(&mut self) {
        self.live = 0;
    }

    /// Adds a verdict and returns the buffer for its bytes, empty.
    pub(crate) fn push(&mut self, verdict: Verdict, origin: Origin) -> &mut Vec<u8> {
        if self.live == self.packets.len() {
            self.packets.push(OutPacket { bytes: Vec::new(), verdict, origin });
        }
        let packet = &mut self.packets[self.live];
        (packet.verdict, packet.origin) = (verdict, origin);
        packet.bytes.clear();
        self.live += 1;
        &mut packet.bytes
    }
}

impl PartialEq for Outputs {
    fn eq(&self, other: &Outputs) -> bool {
        self.packets() == other.packets()
    }
}
