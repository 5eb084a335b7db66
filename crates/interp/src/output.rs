//! Verdicts on a packet and its copies.

use packet::{PacketOrigin, Verdict};

/// Verdict with the bytes that are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutPacket {
    /// Bytes of the packet; empty if it is dropped.
    pub bytes: Vec<u8>,
    /// The verdict.
    pub verdict: Verdict,
    /// Origin: received, or a copy and of which kind.
    pub origin: PacketOrigin,
}

/// Verdicts on one packet and its copies, in the order of the decisions; at least one.
///
/// Reuse it for further calls of [`crate::Interp::process_into`], because its buffers are reused.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    packets: Vec<OutPacket>,
    live: usize,
}

impl Outputs {
    /// Creates an empty list.
    pub fn new() -> Outputs {
        Outputs::default()
    }

    /// Returns the verdicts.
    pub fn packets(&self) -> &[OutPacket] {
        &self.packets[..self.live]
    }

    /// Returns port and bytes of the packets that are sent on ports.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.packets().iter().filter_map(|packet| match packet.verdict {
            Verdict::Forward { port } => Some((port.0, packet.bytes.as_slice())),
            _ => None,
        })
    }

    /// Returns the reasons of the drops.
    pub fn drops(&self) -> impl Iterator<Item = packet::DropReason> {
        self.packets().iter().filter_map(|packet| match packet.verdict {
            Verdict::Drop(reason) => Some(reason),
            _ => None,
        })
    }

    /// Removes all verdicts and keeps the buffers.
    pub fn clear(&mut self) {
        self.live = 0;
    }

    /// Adds a verdict and returns the empty buffer for its bytes.
    pub(crate) fn push(&mut self, verdict: Verdict, origin: PacketOrigin) -> &mut Vec<u8> {
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
