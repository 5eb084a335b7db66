//! Software fallback for offloads that the kernel leaves to the hardware: checksums, VLAN tags,
//! segmentation.
//!
//! A packet from a virtual interface (veth) can be unfinished: its transport checksum is not
//! computed yet, its VLAN tag is in metadata, and it can contain several TCP segments. The raw
//! socket requests a `virtio_net_hdr` (VIRTIO 1.2, section 5.1.6) with every packet, which
//! describes this.
//!
//! - **Checksum**: computed here, so that the packet equals the one on a wire.
//! - **VLAN tag**: inserted at its original position.
//! - **Segmentation**: refused with the reason `rx_segmentation_offload`, because segmentation is
//!   the sender's work. Turn it off there with `ethtool -K DEVICE tso off gso off tx off`, as the
//!   lab does. TCP still works, slowly, because it retransmits single segments. No packet is
//!   forwarded that could not have been on a wire.

use packet::{Packet, PortReason};

/// Length of an Ethernet header without a VLAN tag, in bytes.
const ETHERNET: usize = 14;
/// Length of a VLAN tag, in bytes.
const VLAN: usize = 4;
/// `ETH_P_8021Q`.
const VLAN_TYPE: [u8; 2] = [0x81, 0x00];

/// Size in bytes of the `virtio_net_hdr` that the socket puts before each packet.
pub(crate) const VNET_HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;

/// A VLAN tag that the kernel removed from a packet; both fields in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VlanTag {
    pub(crate) tpid: u16,
    pub(crate) tci: u16,
}

/// Converts a packet from the kernel to its form on the wire, or returns why that is not possible.
pub(crate) fn undo_offloads(
    packet: &mut Packet,
    vnet_header: &[u8; VNET_HEADER],
    vlan: Option<VlanTag>,
) -> Result<(), PortReason> {
    let field = |offset: usize| usize::from(u16::from_ne_bytes([vnet_header[offset], vnet_header[offset + 1]]));
    if vnet_header[1] != GSO_NONE {
        return Err(PortReason::RxSegmentationOffload);
    }
    if vnet_header[0] & NEEDS_CHECKSUM != 0 {
        complete_checksum(packet.bytes_mut(), field(6), field(8)).ok_or(PortReason::RxBadChecksumOffload)?;
    }
    if let Some(tag) = vlan {
        restore_vlan(packet, tag)?;
    }
    Ok(())
}

/// Computes the Internet checksum (RFC 1071) over all bytes from `start`. The field at `start +
/// offset` contains the sum of the pseudo-header and receives the result. A result of 0 is stored
/// as 0xffff (RFC 768), as in the kernel. `None` if the field is outside the packet.
fn complete_checksum(bytes: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let covered = bytes.get_mut(start..)?;
    let sum = internet_sum(covered);
    let field = covered.get_mut(offset..offset.checked_add(2)?)?;
    let checksum = match !sum {
        0 => 0xffff,
        checksum => checksum,
    };
    field.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// Returns the ones' complement sum of big-endian 16-bit words; an odd last byte is padded with
/// zero.
fn internet_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    // An overflow of 64 bits would need 2^32 bytes; packets have at most 2^14.
    let mut sum: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn restore_vlan(packet: &mut Packet, tag: VlanTag) -> Result<(), PortReason> {
    if packet.len() < 12 {
        return Err(PortReason::RxError);
    }
    packet.prepend(VLAN).map_err(|_| PortReason::RxOversize)?;
    let bytes = packet.bytes_mut();
    bytes.copy_within(VLAN..VLAN + 12, 0);
    bytes[12..14].copy_from_slice(&tag.tpid.to_be_bytes());
    bytes[14..16].copy_from_slice(&tag.tci.to_be_bytes());
    Ok(())
}

/// Returns why a packet cannot be sent on a port with this MTU, or `None`. As in the kernel, one
/// tag of type 0x8100 does not count towards the MTU, but one of type 0x88a8 (Q-in-Q) does.
pub(crate) fn tx_drop_reason(bytes: &[u8], mtu: usize) -> Option<PortReason> {
    if bytes.len() < ETHERNET {
        return Some(PortReason::TxRunt);
    }
    let header = if bytes[12..14] == VLAN_TYPE { ETHERNET + VLAN } else { ETHERNET };
    (bytes.len() > mtu + header).then_some(PortReason::TxMtu)
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn vnet(flags: u8, gso: u8, start: u16, offset: u16) -> [u8; VNET_HEADER] {
        let mut header = [0; VNET_HEADER];
        header[0] = flags;
        header[1] = gso;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    }

    #[test]
    fn partial_checksums_are_completed() {
        for payload in [b"".as_slice(), b"x", b"even", b"odd"] {
            let (partial, complete) = partial_udp(payload);
            assert_ne!(partial, complete);
            let mut packet = Packet::from_bytes(&partial).unwrap();
            undo_offloads(&mut packet, &vnet(1, 0, 34, 6), None).unwrap();
            assert_eq!(packet.bytes(), complete);
        }
    }

    #[test]
    fn a_checksum_outside_the_packet_is_refused() {
        let (partial, _) = partial_udp(b"x");
        for (start, offset) in [(34, 8), (34, 9), (42, 6), (43, 0), (44, 0), (u16::MAX, u16::MAX), (0, u16::MAX)] {
            let mut packet = Packet::from_bytes(&partial).unwrap();
            let outcome = undo_offloads(&mut packet, &vnet(1, 0, start, offset), None);
            let inside = usize::from(start) + usize::from(offset) + 2 <= partial.len();
            assert_eq!(outcome.is_ok(), inside, "{start} {offset}");
            if !inside {
                assert_eq!(outcome, Err(PortReason::RxBadChecksumOffload));
            }
        }
    }

    #[test]
    fn super_packets_are_refused_by_name() {
        for gso in [1, 3, 4, 5, 0x81] {
            let mut packet = Packet::from_bytes(&[0; 100]).unwrap();
            assert_eq!(undo_offloads(&mut packet, &vnet(1, gso, 34, 16), None), Err(PortReason::RxSegmentationOffload));
        }
    }

    #[test]
    fn vlan_tags_come_back() {
        let mut packet = Packet::from_bytes(&[b"ddddddssssss".as_slice(), &[8, 0], b"payload"].concat()).unwrap();
        let tag = VlanTag { tpid: 0x88a8, tci: 0x2005 };
        undo_offloads(&mut packet, &vnet(0, 0, 0, 0), Some(tag)).unwrap();
        let expected = [b"ddddddssssss".as_slice(), &[0x88, 0xa8, 0x20, 0x05, 8, 0], b"payload"].concat();
        assert_eq!(packet.bytes(), expected);
        let mut short = Packet::from_bytes(&[0; 11]).unwrap();
        assert_eq!(undo_offloads(&mut short, &vnet(0, 0, 0, 0), Some(tag)), Err(PortReason::RxError));
    }

    #[test]
    fn the_mtu_does_not_count_headers_and_one_tag() {
        let frame = |len: usize, kind: [u8; 2]| {
            let mut frame = vec![0; len];
            frame[12..14].copy_from_slice(&kind);
            frame
        };
        assert_eq!(tx_drop_reason(&[0; 13], 1500), Some(PortReason::TxRunt));
        assert_eq!(tx_drop_reason(&frame(1514, [8, 0]), 1500), None);
        assert_eq!(tx_drop_reason(&frame(1515, [8, 0]), 1500), Some(PortReason::TxMtu));
        assert_eq!(tx_drop_reason(&frame(1518, [0x81, 0]), 1500), None);
        assert_eq!(tx_drop_reason(&frame(1519, [0x81, 0]), 1500), Some(PortReason::TxMtu));
        assert_eq!(tx_drop_reason(&frame(1515, [0x88, 0xa8]), 1500), Some(PortReason::TxMtu));
    }
}
