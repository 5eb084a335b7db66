//! Cuts a super-frame into the segments that a card would send (TCP: RFC 9293; UDP: RFC 768).

use super::SegmentPool;
use super::checksum::{complete_ipv4_checksum, complete_transport_checksum, open_checksum};
use super::headers::{Headers, IpTransport, Transport};
use packet::{Offload, Packet};

/// Maximum number of segments of a super-frame. A longer one is refused on receive.
pub(crate) const MAX_SEGMENTS: usize = 128;

/// TCP flags that only the last segment keeps: FIN and PSH.
const LAST_ONLY: u8 = 0x01 | 0x08;
/// TCP flag that only the first segment keeps: CWR (RFC 3168, section 6.1.2).
const FIRST_ONLY: u8 = 0x80;

/// Cuts a super-frame at `segment_payload` bytes of transport payload, and adds the segments to
/// `pool`, in order. All of them have the headers of the super-frame, except for:
///
/// - lengths of IP and UDP, the identification of IPv4 (counted up from the super-frame's, as Linux
///   does), and the IPv4 header checksum, in the tunnel and in the inner packet;
/// - TCP's sequence number; FIN and PSH, which the last segment has, and CWR, which the first has;
/// - the transport checksums. The tunnel's stays 0 if it is 0. With `leave_open`, the inner one is
///   left to the port ([`Offload::open_checksum`]).
///
/// `headers` are those of the packet.
pub(crate) fn cut_packet(
    packet: &Packet,
    headers: &Headers,
    segment_payload: usize,
    leave_open: bool,
    pool: &mut SegmentPool,
) {
    let bytes = packet.bytes();
    let (header, payload) = (&bytes[..headers.inner.payload], &bytes[headers.inner.payload..headers.inner.end]);
    let has_tunnel_checksum = headers.tunnel.is_some_and(|tunnel| has_checksum(bytes, &tunnel));
    let leave_open = leave_open && !has_tunnel_checksum;
    let count = payload.len().div_ceil(segment_payload.max(1)).max(1);
    for (index, chunk) in payload.chunks(segment_payload.max(1)).enumerate() {
        let slot = pool.push();
        let segment_len = header.len() + chunk.len();
        // Does not fail, because the super-frame is longer.
        let Ok(space) = slot.receive_space(segment_len) else { continue };
        space[..header.len()].copy_from_slice(header);
        space[header.len()..].copy_from_slice(chunk);
        slot.set_received_len(segment_len);
        slot.ingress_port = packet.ingress_port;
        slot.rx_time_ns = packet.rx_time_ns;
        let segment = Segment { index, is_last: index + 1 == count, removed: payload.len() - chunk.len() };
        let segment_headers = segment.adjust_headers(slot.bytes_mut(), headers, segment_payload);
        if leave_open {
            open_checksum(slot.bytes_mut(), &segment_headers.inner);
            let protocol = segment_headers.inner.protocol;
            slot.offload =
                Offload::open_checksum(segment_len - segment_headers.inner.transport, protocol.checksum_offset());
        } else {
            complete_transport_checksum(slot.bytes_mut(), &segment_headers.inner);
            if let Some(tunnel) = segment_headers.tunnel.filter(|_| has_tunnel_checksum) {
                complete_transport_checksum(slot.bytes_mut(), &tunnel);
            }
        }
    }
}

/// Reports whether the checksum field of a header is in use.
pub(crate) fn has_checksum(bytes: &[u8], headers: &IpTransport) -> bool {
    let at = headers.checksum_at();
    bytes.get(at..at + 2).is_some_and(|field| field != [0, 0])
}

/// One segment of a super-frame.
struct Segment {
    index: usize,
    is_last: bool,
    /// Bytes by which it is shorter than the super-frame.
    removed: usize,
}

impl Segment {
    /// Changes the fields that differ from those of the super-frame, except transport checksums.
    /// Returns the headers of the segment.
    fn adjust_headers(&self, bytes: &mut [u8], headers: &Headers, segment_payload: usize) -> Headers {
        let inner = self.shorten(bytes, &headers.inner);
        if inner.protocol == Transport::Tcp {
            let tcp = inner.transport;
            let sequence = u32::from_be_bytes([bytes[tcp + 4], bytes[tcp + 5], bytes[tcp + 6], bytes[tcp + 7]]);
            let sequence = sequence.wrapping_add((self.index * segment_payload) as u32);
            bytes[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
            let cleared_flags = if self.is_last { 0 } else { LAST_ONLY } | if self.index == 0 { 0 } else { FIRST_ONLY };
            // Byte 13 of the TCP header has the flags.
            bytes[tcp + 13] &= !cleared_flags;
        }
        Headers { tunnel: headers.tunnel.map(|tunnel| self.shorten(bytes, &tunnel)), inner }
    }

    /// Adapts the length fields of an IP header, and of the UDP header behind it, to the segment,
    /// and in IPv4 the identification and the header checksum. Returns the header with its new end.
    fn shorten(&self, bytes: &mut [u8], headers: &IpTransport) -> IpTransport {
        let network = headers.network;
        if headers.is_ipv6 {
            subtract_u16(bytes, network + 4, self.removed);
        } else {
            subtract_u16(bytes, network + 2, self.removed);
            let identification = u16::from_be_bytes([bytes[network + 4], bytes[network + 5]]);
            let identification = identification.wrapping_add(self.index as u16);
            bytes[network + 4..network + 6].copy_from_slice(&identification.to_be_bytes());
            complete_ipv4_checksum(bytes, network);
        }
        if headers.protocol == Transport::Udp {
            subtract_u16(bytes, headers.transport + 4, self.removed);
        }
        IpTransport { end: headers.end - self.removed, ..*headers }
    }
}

/// Subtracts `less` from the number at byte `at`, in network order.
fn subtract_u16(bytes: &mut [u8], at: usize, less: usize) {
    let value = u16::from_be_bytes([bytes[at], bytes[at + 1]]).wrapping_sub(less as u16);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
