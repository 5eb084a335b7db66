//! Finishes packets that a sender left to a network card: cuts super-frames into segments, and
//! completes open checksums.
//!
//! This is the one place that does so. The runner calls it for each port that cannot take such a
//! packet ([`crate::TxOffloads`]), so that no port has to. All offsets come from the packet's
//! headers as they are on the way out, because the program may have changed each of them; nothing
//! that the sender said about offsets is used.

pub(crate) mod checksum;
mod cut;
mod finish;
pub(crate) mod headers;
mod pool;

pub(crate) use cut::{MAX_SEGMENTS, cut_packet, has_checksum};
pub use finish::FinishedPacket;
pub use pool::SegmentPool;

use checksum::{complete_checksum_at, complete_transport_checksum, open_checksum};
use headers::{Headers, Transport};
use packet::{Offload, Packet, PortReason};

/// What a port can send without help. The default is that of most ports: complete packets only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TxOffloads {
    /// Packets with an open checksum.
    pub checksum: bool,
    /// Super-frames of TCP that are not in a tunnel.
    pub plain_tcp: bool,
    /// Super-frames of TCP that are in a VXLAN tunnel.
    pub tunnelled_tcp: bool,
}

impl TxOffloads {
    /// Reports whether the port can send a super-frame with these headers, behind a VLAN tag or not.
    fn take_super_frame(&self, headers: &Headers, is_tagged: bool) -> bool {
        // The kernel does not cut a tunnel behind a VLAN tag that is in the packet's bytes.
        if is_tagged {
            return false;
        }
        let has_kind = if headers.tunnel.is_some() { self.tunnelled_tcp } else { self.plain_tcp };
        has_kind && headers.inner.protocol == Transport::Tcp
    }
}

/// Brings the description of a packet up to date after an engine, and returns its headers if it
/// still has an offload.
///
/// The checksum field receives the sum of the pseudo-header of the present addresses, so an engine
/// may have written anything there. The description is void if the engine put another packet in
/// place of this one, for example an ICMP error.
///
/// # Errors
/// A super-frame whose TCP or UDP header is not found any more, because of headers that are not
/// known here.
pub(crate) fn prepare_for_sending(packet: &mut Packet) -> Result<Option<Headers>, PortReason> {
    let offload = packet.offload;
    if offload.is_none() {
        return Ok(None);
    }
    let found = Headers::parse(packet.bytes());
    let transport_offset = packet.len().checked_sub(usize::from(offload.transport_len));
    match found {
        Some(headers) if transport_offset == Some(headers.inner.transport) => {
            open_checksum(packet.bytes_mut(), &headers.inner);
            if let Some(tunnel) = headers.tunnel
                && offload.is_super_frame()
                && has_checksum(packet.bytes(), &tunnel)
            {
                open_checksum(packet.bytes_mut(), &tunnel);
            }
            return Ok(Some(headers));
        }
        Some(_) => {}
        // A header before the packet that is not known here, for example a tier's bridge header.
        None if !is_ip(packet.bytes()) && offload.is_super_frame() => return Err(PortReason::TxSegmentation),
        None if !is_ip(packet.bytes()) => complete_behind_unknown(packet),
        None => {}
    }
    packet.offload = Offload::NONE;
    Ok(None)
}

/// Completes the checksum of a packet behind a header that is not known here. The field holds the
/// pseudo-header's sum as received, because no header can be found.
fn complete_behind_unknown(packet: &mut Packet) {
    let offload = packet.offload;
    if let Some(start) = packet.len().checked_sub(usize::from(offload.transport_len)) {
        // The field is within the packet, because it was on receive.
        let _ = complete_checksum_at(packet.bytes_mut(), start, usize::from(offload.checksum_offset));
    }
}

/// Reports whether the Ethernet header says IPv4 or IPv6, behind VLAN tags or not.
fn is_ip(bytes: &[u8]) -> bool {
    matches!(bytes.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd] | [0x81, 0x00] | [0x88, 0xa8]))
}

/// Completes the open checksum of a prepared packet of one segment.
pub(crate) fn complete_packet(packet: &mut Packet, headers: &Headers) {
    complete_transport_checksum(packet.bytes_mut(), &headers.inner);
    packet.offload = Offload::NONE;
}
