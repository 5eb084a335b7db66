//! Brings a packet into the form that a port takes: whole, completed or cut.

use super::headers::Headers;
use super::{SegmentPool, TxOffloads, complete_packet, cut_packet, prepare_for_sending};
use packet::{Packet, PortReason};
use std::ops::Range;

/// Form in which a packet leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinishedPacket {
    /// The packet itself.
    Whole,
    /// These segments of the pool instead.
    Segments(Range<usize>),
    /// It cannot leave.
    Lost(PortReason),
}

impl SegmentPool {
    /// Brings a packet into a form that a port with these abilities can send: unchanged, with its
    /// checksum completed, or cut. Counts what was done in `counts`.
    pub fn finish(
        &mut self,
        packet: &mut Packet,
        abilities: TxOffloads,
        counts: &mut crate::OffloadCounters,
    ) -> FinishedPacket {
        let headers = match prepare_for_sending(packet) {
            Ok(Some(headers)) => headers,
            Ok(None) => return FinishedPacket::Whole,
            Err(reason) => return FinishedPacket::Lost(reason),
        };
        if packet.offload.is_super_frame() {
            let is_tagged = matches!(packet.bytes().get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
            if abilities.take_super_frame(&headers, is_tagged) {
                counts.sent_whole += 1;
                return FinishedPacket::Whole;
            }
            return FinishedPacket::Segments(self.cut(packet, &headers, abilities.checksum, counts));
        }
        if !abilities.checksum {
            complete_packet(packet, &headers);
            counts.checksums += 1;
        }
        FinishedPacket::Whole
    }

    /// Cuts a super-frame and returns the range of its segments in the pool. `leave_open` says that
    /// the port computes the transport checksums.
    fn cut(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        leave_open: bool,
        counts: &mut crate::OffloadCounters,
    ) -> Range<usize> {
        let first = self.packets().len();
        cut_packet(packet, headers, usize::from(packet.offload.segment_payload), leave_open, self);
        counts.cut += 1;
        let end = self.packets().len();
        counts.segments += (end - first) as u64;
        first..end
    }
}
