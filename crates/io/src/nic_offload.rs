//! Offloads that the kernel leaves to the hardware on receive: checksums, VLAN tags, segmentation.
//!
//! A packet from a virtual interface (veth) can be unfinished: its transport checksum is not
//! computed yet, its VLAN tag is in metadata, and it can contain several TCP segments. The raw
//! socket requests a `virtio_net_hdr` (VIRTIO 1.2, section 5.1.6) with every packet, which
//! describes this.
//!
//! - **Checksum**: of the innermost TCP or UDP header it stays open ([`Offload`]), because the
//!   receiving kernel takes it as it is; for a port that cannot send it, it is completed
//!   (`segment`). Any other one, for example that of the tunnel's UDP header, is computed here,
//!   because the program writes there.
//! - **VLAN tag**: inserted at its original position.
//! - **Segmentation**: a super-frame of TCP or UDP passes whole. A super-frame of tunnel packets
//!   (the kernel merges them with `rx-udp-gro-forwarding`) is cut into these packets.
//!
//! A header of the kernel can come from a hostile virtual machine, so nothing in it is trusted:
//! offsets are compared with the packet's headers.

use crate::segment::checksum::complete_checksum_at;
use crate::segment::headers::{Headers, IpTransport, Transport};
use crate::segment::{MAX_SEGMENTS, SegmentPool, cut_packet};
use packet::{Offload, Packet, PortReason};

/// Length of an Ethernet header without a VLAN tag, in bytes.
const ETHERNET: usize = 14;
/// Length of a VLAN tag, in bytes.
const VLAN: usize = 4;
/// `ETH_P_8021Q`.
const VLAN_TYPE: [u8; 2] = [0x81, 0x00];

/// Size in bytes of the `virtio_net_hdr` that the socket puts before each packet.
pub(crate) const VNET_HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
/// Values of the field `gso_type`, beside the flag [`GSO_ECN`].
const GSO_NONE: u8 = 0;
const GSO_TCP_IPV4: u8 = 1;
const GSO_TCP_IPV6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The flag of `gso_type` for a TCP super-frame with CWR.
const GSO_ECN: u8 = 0x80;
/// Minimum payload of a segment in bytes. No link's MTU leads to less (RFC 1191: 68 bytes).
const MIN_SEGMENT_PAYLOAD: usize = 48;

/// A VLAN tag that the kernel removed from a packet; both fields in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VlanTag {
    pub(crate) tpid: u16,
    pub(crate) tci: u16,
}

/// Reports whether a `virtio_net_hdr` announces several segments.
pub(crate) fn is_super_frame(vnet_header: &[u8; VNET_HEADER]) -> bool {
    vnet_header[1] != GSO_NONE
}

/// Result of [`accept_offloads`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AcceptedPacket {
    /// The packet, with its offload.
    Whole,
    /// The packets in the pool are in its place: tunnel packets that the kernel had merged.
    Split,
}

/// The fields of a `virtio_net_hdr`.
struct VnetHeader {
    needs_checksum: bool,
    gso_type: u8,
    gso_size: usize,
    checksum_start: usize,
    checksum_offset: usize,
}

impl VnetHeader {
    /// Reads the fields at their offsets in the header, which are in host order.
    fn read(bytes: &[u8; VNET_HEADER]) -> VnetHeader {
        let field = |offset: usize| usize::from(u16::from_ne_bytes([bytes[offset], bytes[offset + 1]]));
        VnetHeader {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            gso_type: bytes[1],
            gso_size: field(4),
            checksum_start: field(6),
            checksum_offset: field(8),
        }
    }

    /// Reports whether the open checksum is that of this header.
    fn is_checksum_of(&self, headers: &IpTransport) -> bool {
        self.checksum_start == headers.transport && self.checksum_offset == headers.protocol.checksum_offset()
    }
}

/// Describes what remains to be done with a packet from the kernel, and restores its VLAN tag. For
/// [`AcceptedPacket::Split`], `split` holds the packets into which the kernel's merged packet was
/// cut; otherwise it is unchanged.
///
/// # Errors
/// The packet is not as its header says, or has a form that is not known here.
pub(crate) fn accept_offloads(
    packet: &mut Packet,
    vnet_header: &[u8; VNET_HEADER],
    vlan: Option<VlanTag>,
    split: &mut SegmentPool,
) -> Result<AcceptedPacket, PortReason> {
    packet.offload = Offload::NONE;
    let header = VnetHeader::read(vnet_header);
    let mut accepted = AcceptedPacket::Whole;
    if header.gso_type != GSO_NONE {
        accepted = accept_super_frame(packet, &header, split)?;
    } else if header.needs_checksum {
        accept_open_checksum(packet, &header)?;
    }
    if let Some(tag) = vlan {
        match accepted {
            AcceptedPacket::Whole => restore_vlan(packet, tag)?,
            AcceptedPacket::Split => split.packets_mut().iter_mut().try_for_each(|piece| restore_vlan(piece, tag))?,
        }
    }
    Ok(accepted)
}

/// Keeps the open checksum of the innermost transport header, and computes any other one.
fn accept_open_checksum(packet: &mut Packet, header: &VnetHeader) -> Result<(), PortReason> {
    let innermost = Headers::parse(packet.bytes()).filter(|headers| header.is_checksum_of(&headers.inner));
    match innermost {
        Some(headers) => {
            packet.offload = Offload::open_checksum(packet.len() - headers.inner.transport, header.checksum_offset);
            Ok(())
        }
        None => complete_checksum_at(packet.bytes_mut(), header.checksum_start, header.checksum_offset)
            .ok_or(PortReason::RxBadChecksumOffload),
    }
}

/// Describes a super-frame in the packet's offload. One that the kernel merged of tunnel packets is
/// cut into these packets instead, which `split` receives.
///
/// # Errors
/// The protocol is not supported, or the description contradicts the packet's headers.
fn accept_super_frame(
    packet: &mut Packet,
    header: &VnetHeader,
    split: &mut SegmentPool,
) -> Result<AcceptedPacket, PortReason> {
    let kind = header.gso_type & !GSO_ECN;
    if !matches!(kind, GSO_TCP_IPV4 | GSO_TCP_IPV6 | GSO_UDP) {
        return Err(PortReason::RxSegmentationOffload);
    }
    let is_outside = header.checksum_start + header.checksum_offset + 2 > packet.len();
    if is_outside || !header.needs_checksum {
        return Err(PortReason::RxBadChecksumOffload);
    }
    let headers = Headers::parse(packet.bytes()).ok_or(PortReason::RxSegmentationOffload)?;
    let outer = headers.tunnel.unwrap_or(headers.inner);
    // A UDP super-frame whose open checksum is the tunnel's has one complete tunnel packet per
    // segment.
    let is_merged_tunnel = kind == GSO_UDP && outer.is_vxlan(packet.bytes()) && header.is_checksum_of(&outer);
    let cut = if is_merged_tunnel { Headers { tunnel: None, inner: outer } } else { headers };
    let is_described = header.is_checksum_of(&cut.inner) && kind == gso_type(&cut.inner);
    let payload = cut.inner.end - cut.inner.payload;
    let (segment_payload, segment_count) = (header.gso_size, payload.div_ceil(header.gso_size.max(1)));
    if !is_described
        || cut.inner.end != packet.len()
        || segment_payload < MIN_SEGMENT_PAYLOAD
        || segment_count > MAX_SEGMENTS
    {
        return Err(PortReason::RxBadSegmentation);
    }
    if is_merged_tunnel {
        split.clear();
        let leave_open = false;
        cut_packet(packet, &cut, segment_payload, leave_open, split);
        return Ok(AcceptedPacket::Split);
    }
    let transport_len = packet.len() - cut.inner.transport;
    packet.offload = Offload::open_checksum(transport_len, header.checksum_offset);
    // A payload of one segment needs no description as a super-frame.
    if payload > segment_payload {
        packet.offload.segment_payload = segment_payload as u16;
        packet.offload.segment_excess = (payload - segment_payload) as u16;
        packet.offload.has_ecn = header.gso_type & GSO_ECN != 0;
    }
    Ok(AcceptedPacket::Whole)
}

/// Returns the value of `gso_type` for a super-frame of this protocol.
fn gso_type(headers: &IpTransport) -> u8 {
    match (headers.protocol, headers.is_ipv6) {
        (Transport::Udp, _) => GSO_UDP,
        (Transport::Tcp, false) => GSO_TCP_IPV4,
        (Transport::Tcp, true) => GSO_TCP_IPV6,
    }
}

/// Returns the `virtio_net_hdr` of a prepared packet for a raw socket, which knows no tunnels. Its
/// numbers are in host order. All zeros for a packet without an offload.
pub(crate) fn vnet_header(packet: &Packet, headers: Option<&Headers>) -> [u8; VNET_HEADER] {
    let mut bytes = [0; VNET_HEADER];
    let Some(headers) = headers.filter(|_| !packet.offload.is_none()) else { return bytes };
    let mut write_u16 =
        |offset: usize, value: usize| bytes[offset..offset + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    // `csum_start` and `csum_offset`; below `hdr_len` and `gso_size`.
    write_u16(6, headers.inner.transport);
    write_u16(8, headers.inner.protocol.checksum_offset());
    if packet.offload.is_super_frame() {
        write_u16(2, headers.inner.payload);
        write_u16(4, usize::from(packet.offload.segment_payload));
        bytes[1] = gso_type(&headers.inner) | if packet.offload.has_ecn { GSO_ECN } else { 0 };
    }
    bytes[0] = NEEDS_CHECKSUM;
    bytes
}

/// Inserts a VLAN tag after the MAC addresses. The error is the reason of a drop.
fn restore_vlan(packet: &mut Packet, tag: VlanTag) -> Result<(), PortReason> {
    // Less than the two MAC addresses.
    if packet.len() < 12 {
        return Err(PortReason::RxError);
    }
    packet.prepend(VLAN).map_err(|_| PortReason::RxOversize)?;
    let bytes = packet.bytes_mut();
    // The two MAC addresses move to the front, before the tag.
    bytes.copy_within(VLAN..VLAN + 12, 0);
    bytes[12..14].copy_from_slice(&tag.tpid.to_be_bytes());
    bytes[14..16].copy_from_slice(&tag.tci.to_be_bytes());
    Ok(())
}

/// Returns why a packet cannot be sent on a port with this MTU, or `None`. As in the kernel, one
/// tag of type 0x8100 does not count towards the MTU, but one of type 0x88a8 (Q-in-Q) does. Of a
/// super-frame, its longest segment has to fit.
pub(crate) fn tx_drop_reason(packet: &Packet, mtu: usize) -> Option<PortReason> {
    let bytes = packet.bytes();
    if bytes.len() < ETHERNET {
        return Some(PortReason::TxRunt);
    }
    let header = if bytes[12..14] == VLAN_TYPE { ETHERNET + VLAN } else { ETHERNET };
    (packet.wire_len() > mtu + header).then_some(PortReason::TxMtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::checksum::{complete_transport_checksum, internet_sum};
    use etherparse::PacketBuilder;

    /// Returns an IPv4/UDP frame with only the pseudo-header's sum in its checksum field, as an
    /// offloading sender leaves it, and the complete frame.
    fn partial_udp(payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut complete = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1000, 2000)
            .write(&mut complete, payload)
            .unwrap();
        let mut pseudo = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 17];
        pseudo.extend_from_slice(&complete[38..40]);
        let mut partial = complete.clone();
        partial[40..42].copy_from_slice(&internet_sum(&pseudo).to_be_bytes());
        (partial, complete)
    }

    fn vnet(flags: u8, gso: u8, size: u16, start: u16, offset: u16) -> [u8; VNET_HEADER] {
        let mut header = [0; VNET_HEADER];
        header[0] = flags;
        header[1] = gso;
        header[4..6].copy_from_slice(&size.to_ne_bytes());
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    }

    fn accept(packet: &mut Packet, header: [u8; VNET_HEADER]) -> Result<AcceptedPacket, PortReason> {
        accept_offloads(packet, &header, None, &mut SegmentPool::default())
    }

    #[test]
    fn an_open_checksum_stays_open() {
        for payload in [b"".as_slice(), b"x", b"even", b"odd"] {
            let (partial, complete) = partial_udp(payload);
            assert_ne!(partial, complete);
            let mut packet = Packet::from_bytes(&partial).unwrap();
            assert_eq!(accept(&mut packet, vnet(1, 0, 0, 34, 6)), Ok(AcceptedPacket::Whole));
            assert_eq!(packet.offload, Offload::open_checksum(8 + payload.len(), 6));
            assert_eq!(packet.bytes(), partial);
            let headers = Headers::parse(packet.bytes()).unwrap();
            complete_transport_checksum(packet.bytes_mut(), &headers.inner);
            assert_eq!(packet.bytes(), complete);
        }
    }

    #[test]
    fn a_checksum_elsewhere_is_computed() {
        let (mut partial, complete) = partial_udp(b"payload");
        // An unknown protocol: the kernel's offsets are the only ones.
        partial[23] = 200;
        let mut packet = Packet::from_bytes(&partial).unwrap();
        assert_eq!(accept(&mut packet, vnet(1, 0, 0, 34, 6)), Ok(AcceptedPacket::Whole));
        assert!(packet.offload.is_none());
        assert_eq!(packet.bytes()[40..], complete[40..]);
    }

    #[test]
    fn a_checksum_outside_the_packet_is_refused() {
        let (partial, _) = partial_udp(b"x");
        for (start, offset) in [(34, 8), (34, 9), (42, 6), (43, 0), (44, 0), (u16::MAX, u16::MAX), (0, u16::MAX)] {
            let mut packet = Packet::from_bytes(&partial).unwrap();
            let outcome = accept(&mut packet, vnet(1, 0, 0, start, offset));
            let inside = usize::from(start) + usize::from(offset) + 2 <= partial.len();
            assert_eq!(outcome.is_ok(), inside, "{start} {offset}");
            if !inside {
                assert_eq!(outcome, Err(PortReason::RxBadChecksumOffload));
            }
        }
    }

    /// A TCP super-frame of 3,000 bytes of payload.
    fn tcp() -> Packet {
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.tcp(1000, 2000, 7, 512).write(&mut bytes, &[5; 3000]).unwrap();
        Packet::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn a_super_frame_is_described() {
        let mut packet = tcp();
        assert_eq!(accept(&mut packet, vnet(1, 0x81, 1448, 34, 16)), Ok(AcceptedPacket::Whole));
        let expected = Offload {
            transport_len: 3020,
            segment_payload: 1448,
            segment_excess: 1552,
            checksum_offset: 16,
            has_ecn: true,
        };
        assert_eq!(packet.offload, expected);
        assert_eq!(packet.wire_len(), 54 + 1448);
        // The payload is exactly one segment.
        let mut packet = tcp();
        assert_eq!(accept(&mut packet, vnet(1, 1, 3000, 34, 16)), Ok(AcceptedPacket::Whole));
        assert_eq!(packet.offload, Offload::open_checksum(3020, 16));
    }

    #[test]
    fn a_hostile_description_is_refused_by_name() {
        let bad = Err(PortReason::RxBadSegmentation);
        let checksum = Err(PortReason::RxBadChecksumOffload);
        for (header, expected) in [
            (vnet(1, 1, 0, 34, 16), &bad),
            (vnet(1, 1, 1, 34, 16), &bad),
            (vnet(1, 1, 47, 34, 16), &bad),
            // IPv6 and UDP, but the packet is TCP over IPv4.
            (vnet(1, 4, 1448, 34, 16), &bad),
            (vnet(1, 5, 1448, 34, 16), &bad),
            (vnet(1, 1, 1448, 34, 17), &bad),
            (vnet(1, 1, 1448, 14, 16), &bad),
            (vnet(1, 1, 1448, 4000, 16), &checksum),
            (vnet(1, 1, 1448, u16::MAX, u16::MAX), &checksum),
            (vnet(0, 1, 1448, 34, 16), &checksum),
            (vnet(1, 3, 1448, 34, 16), &Err(PortReason::RxSegmentationOffload)),
            (vnet(1, 77, 1448, 34, 16), &Err(PortReason::RxSegmentationOffload)),
        ] {
            assert_eq!(accept(&mut tcp(), header), *expected, "{header:?}");
        }
        // More than 128 segments.
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        builder.tcp(1000, 2000, 7, 512).write(&mut bytes, &[5; 48 * 128 + 1]).unwrap();
        assert_eq!(accept(&mut Packet::from_bytes(&bytes).unwrap(), vnet(1, 1, 48, 34, 16)), bad);
        // The IP packet is longer or shorter than the frame; BIG TCP has a length of 0.
        for total in [0u16, 100, 3041, u16::MAX] {
            let mut packet = tcp();
            packet.bytes_mut()[16..18].copy_from_slice(&total.to_be_bytes());
            assert!(accept(&mut packet, vnet(1, 1, 1448, 34, 16)).is_err(), "{total}");
        }
    }

    #[test]
    fn any_header_for_any_bytes_is_safe() {
        let mut rng = fastrand::Rng::with_seed(7);
        let whole = tcp();
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut bytes = whole.bytes()[..rng.usize(..whole.len())].to_vec();
            for _ in 0..rng.usize(..3) {
                let at = rng.usize(..60).min(bytes.len().saturating_sub(1));
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = rng.u8(..));
            }
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            let near = |rng: &mut fastrand::Rng, usual: u16| if rng.bool() { usual } else { rng.u16(..) };
            let (size, start, offset) = (near(&mut rng, 100), near(&mut rng, 34), near(&mut rng, 16));
            let header = vnet(rng.u8(..), [0, 1, 1, 4, 5][rng.usize(..5)], size, start, offset);
            if accept(&mut packet, header).is_ok() {
                accepted += 1;
                let mut pool = SegmentPool::default();
                pool.finish(&mut packet, Default::default(), &mut Default::default());
            }
        }
        assert!(accepted > 100, "{accepted}");
    }

    #[test]
    fn vlan_tags_come_back() {
        let mut packet = Packet::from_bytes(&[b"ddddddssssss".as_slice(), &[8, 0], b"payload"].concat()).unwrap();
        let tag = VlanTag { tpid: 0x88a8, tci: 0x2005 };
        accept_offloads(&mut packet, &vnet(0, 0, 0, 0, 0), Some(tag), &mut SegmentPool::default()).unwrap();
        let expected = [b"ddddddssssss".as_slice(), &[0x88, 0xa8, 0x20, 0x05, 8, 0], b"payload"].concat();
        assert_eq!(packet.bytes(), expected);
        let mut short = Packet::from_bytes(&[0; 11]).unwrap();
        let refused = accept_offloads(&mut short, &vnet(0, 0, 0, 0, 0), Some(tag), &mut SegmentPool::default());
        assert_eq!(refused, Err(PortReason::RxError));
    }

    #[test]
    fn the_mtu_does_not_count_headers_and_one_tag() {
        let frame = |len: usize, kind: [u8; 2]| {
            let mut frame = vec![0; len];
            frame[12..14].copy_from_slice(&kind);
            Packet::from_bytes(&frame).unwrap()
        };
        assert_eq!(tx_drop_reason(&Packet::from_bytes(&[0; 13]).unwrap(), 1500), Some(PortReason::TxRunt));
        assert_eq!(tx_drop_reason(&frame(1514, [8, 0]), 1500), None);
        assert_eq!(tx_drop_reason(&frame(1515, [8, 0]), 1500), Some(PortReason::TxMtu));
        assert_eq!(tx_drop_reason(&frame(1518, [0x81, 0]), 1500), None);
        assert_eq!(tx_drop_reason(&frame(1519, [0x81, 0]), 1500), Some(PortReason::TxMtu));
        assert_eq!(tx_drop_reason(&frame(1515, [0x88, 0xa8]), 1500), Some(PortReason::TxMtu));
    }
}
