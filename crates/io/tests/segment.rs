//! Compares the cutter with segments that are built one by one from their fields.

use etherparse::{EtherType, Ethernet2Header, IpHeaders, IpNumber, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};
use io::{FinishedPacket, OffloadCounters, SegmentPool, TxOffloads};
use packet::{Offload, Packet, PortReason};

/// The fields of a TCP or UDP packet, in a tunnel or not.
#[derive(Clone)]
struct Fields {
    outer_ipv6: Option<bool>,
    /// Whether the tunnel's UDP header has a checksum.
    outer_checksum: bool,
    inner_ipv6: bool,
    is_udp: bool,
    sequence: u32,
    /// FIN, PSH, CWR.
    flags: [bool; 3],
    identification: u16,
    /// The tunnel's.
    outer_identification: u16,
    payload: Vec<u8>,
}

fn ip_header(is_ipv6: bool, number: IpNumber, len: usize, identification: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    if is_ipv6 {
        let mut header = Ipv6Header { next_header: number, hop_limit: 64, ..Default::default() };
        (header.source[15], header.destination[15], header.payload_length) = (1, 2, len as u16);
        header.write(&mut bytes).unwrap();
    } else {
        let mut header = Ipv4Header::new(len as u16, 64, number, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        header.identification = identification;
        header.write(&mut bytes).unwrap();
    }
    bytes
}

fn ip_headers(bytes: &[u8]) -> IpHeaders {
    // Lengths in headers of an incomplete packet are those of the complete one.
    IpHeaders::from_slice_lax(bytes).unwrap().0
}

impl Fields {
    fn ethernet(&self, is_ipv6: bool) -> Vec<u8> {
        let ether_type = if is_ipv6 { EtherType::IPV6 } else { EtherType::IPV4 };
        Ethernet2Header { source: [2; 6], destination: [4; 6], ether_type }.to_bytes().to_vec()
    }

    /// Returns the packet with complete checksums.
    fn build(&self) -> Vec<u8> {
        let number = if self.is_udp { IpNumber::UDP } else { IpNumber::TCP };
        let header = if self.is_udp { 8 } else { 32 };
        let ip = ip_header(self.inner_ipv6, number, header + self.payload.len(), self.identification);
        let headers = ip_headers(&ip);
        let mut transport = Vec::new();
        if self.is_udp {
            let mut udp =
                UdpHeader { source_port: 9, destination_port: 10, length: 8 + self.payload.len() as u16, checksum: 0 };
            udp.checksum = udp_checksum(&udp, &headers, &self.payload);
            udp.write(&mut transport).unwrap();
        } else {
            let mut tcp = TcpHeader::new(9, 10, self.sequence, 512);
            tcp.set_options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
            (tcp.ack, tcp.acknowledgment_number) = (true, 77);
            [tcp.fin, tcp.psh, tcp.cwr] = self.flags;
            tcp.checksum = match &headers {
                IpHeaders::Ipv4(ip, _) => tcp.calc_checksum_ipv4(ip, &self.payload),
                IpHeaders::Ipv6(ip, _) => tcp.calc_checksum_ipv6(ip, &self.payload),
            }
            .unwrap();
            tcp.write(&mut transport).unwrap();
        }
        let inner = [self.ethernet(self.inner_ipv6), ip, transport, self.payload.clone()].concat();
        match self.outer_ipv6 {
            None => inner,
            Some(is_ipv6) => self.encapsulate(is_ipv6, &inner),
        }
    }

    fn encapsulate(&self, is_ipv6: bool, inner: &[u8]) -> Vec<u8> {
        let content = [&[8, 0, 0, 0, 0, 0, 100, 0], inner].concat();
        let ip = ip_header(is_ipv6, IpNumber::UDP, 8 + content.len(), self.outer_identification);
        let mut udp =
            UdpHeader { source_port: 50_000, destination_port: 4789, length: 8 + content.len() as u16, checksum: 0 };
        if self.outer_checksum {
            udp.checksum = udp_checksum(&udp, &ip_headers(&ip), &content);
        }
        [self.ethernet(is_ipv6), ip, udp.to_bytes().to_vec(), content].concat()
    }
}

fn udp_checksum(udp: &UdpHeader, ip: &IpHeaders, payload: &[u8]) -> u16 {
    match ip {
        IpHeaders::Ipv4(ip, _) => udp.calc_checksum_ipv4(ip, payload),
        IpHeaders::Ipv6(ip, _) => udp.calc_checksum_ipv6(ip, payload),
    }
    .unwrap()
}

impl Fields {
    /// Returns the offset of the transport header.
    fn transport(&self) -> usize {
        let ip = |is_ipv6| if is_ipv6 { 40 } else { 20 };
        self.outer_ipv6.map_or(0, |is_ipv6| 14 + ip(is_ipv6) + 16) + 14 + ip(self.inner_ipv6)
    }

    fn checksum_offset(&self) -> usize {
        if self.is_udp { 6 } else { 16 }
    }
}

/// Returns the packet with an offload, and with another value in the field that is open.
fn open(fields: &Fields, segment_payload: usize) -> Packet {
    let mut packet = Packet::from_bytes(&fields.build()).unwrap();
    let transport = fields.transport();
    packet.offload = Offload::open_checksum(packet.len() - transport, fields.checksum_offset());
    if fields.payload.len() > segment_payload {
        packet.offload.segment_payload = segment_payload as u16;
        packet.offload.segment_excess = (fields.payload.len() - segment_payload) as u16;
    }
    let at = transport + fields.checksum_offset();
    packet.bytes_mut()[at..at + 2].copy_from_slice(&[0xab, 0xcd]);
    packet
}

/// Returns the packets that leave on a port with these abilities.
fn finish(mut packet: Packet, port: TxOffloads) -> Result<Vec<Packet>, PortReason> {
    let mut pool = SegmentPool::default();
    match pool.finish(&mut packet, port, &mut OffloadCounters::default()) {
        FinishedPacket::Whole => Ok(vec![packet]),
        FinishedPacket::Segments(range) => Ok(pool.packets()[range].to_vec()),
        FinishedPacket::Lost(reason) => Err(reason),
    }
}

/// All forms of packets, with a payload of this length.
fn forms(payload: usize) -> impl Iterator<Item = Fields> {
    let tunnels = [(None, false), (Some(false), false), (Some(true), false), (Some(false), true), (Some(true), true)];
    tunnels.into_iter().flat_map(move |(outer_ipv6, outer_checksum)| {
        (0..4).map(move |kind| Fields {
            outer_ipv6,
            outer_checksum,
            inner_ipv6: kind & 1 != 0,
            is_udp: kind & 2 != 0,
            sequence: 0xffff_ff00,
            flags: [true; 3],
            identification: 0xfffe,
            outer_identification: 0x5550,
            payload: (0..payload).map(|at| (at * 7) as u8).collect(),
        })
    })
}

#[test]
fn segments_equal_those_built_from_their_fields() {
    // Several segments with a shorter last one, of one byte, exactly full, and a single one.
    for payload in [4000, 2001, 3000, 1000, 999] {
        for whole in forms(payload) {
            let cut = finish(open(&whole, 1000), TxOffloads::default()).unwrap();
            let count = payload.div_ceil(1000);
            assert_eq!(cut.len(), count);
            for (index, (segment, piece)) in cut.iter().zip(whole.payload.chunks(1000)).enumerate() {
                let is_last = index + 1 == count;
                let mut expected = whole.clone();
                expected.payload = piece.to_vec();
                expected.sequence = whole.sequence.wrapping_add(index as u32 * 1000);
                expected.flags = [is_last, is_last, index == 0];
                expected.identification = whole.identification.wrapping_add(index as u16);
                expected.outer_identification += index as u16;
                assert_eq!(segment.bytes(), expected.build(), "{payload} {index} of {count}");
                assert!(segment.offload.is_none());
            }
        }
    }
}

#[test]
fn a_port_that_completes_checksums_gets_them_open() {
    for whole in forms(2500) {
        let complete = finish(open(&whole, 1000), TxOffloads::default()).unwrap();
        let port = TxOffloads { checksum: true, ..TxOffloads::default() };
        let left_open = finish(open(&whole, 1000), port).unwrap();
        assert_eq!(left_open.len(), 3);
        for (open, complete) in left_open.into_iter().zip(complete) {
            // A tunnel's checksum covers the inner one, which is complete then.
            assert_eq!(open.offload.is_none(), whole.outer_checksum);
            assert_eq!(open.bytes() == complete.bytes(), whole.outer_checksum);
            assert_eq!(finish(open, TxOffloads::default()).unwrap()[0].bytes(), complete.bytes());
        }
    }
}

#[test]
fn a_port_that_cuts_gets_the_super_frame() {
    let port = TxOffloads { checksum: true, plain_tcp: true, tunnelled_tcp: true };
    for whole in forms(2500) {
        let left = finish(open(&whole, 1000), port).unwrap();
        // No port cuts UDP.
        assert_eq!(left.len(), if whole.is_udp { 3 } else { 1 });
        assert_eq!(left[0].offload.is_super_frame(), !whole.is_udp);
    }
}

/// The kernel does not cut a tunnel behind a VLAN tag.
#[test]
fn a_super_frame_in_a_vlan_is_cut() {
    let abilities = TxOffloads { checksum: true, plain_tcp: true, tunnelled_tcp: true };
    for fields in forms(3000) {
        let whole = open(&fields, 1000);
        let untagged = finish(whole.clone(), TxOffloads::default()).unwrap();
        let mut tagged = whole;
        tagged.prepend(4).unwrap();
        tagged.bytes_mut().copy_within(4..16, 0);
        tagged.bytes_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 100]);
        let segments = finish(tagged, abilities).unwrap();
        assert_eq!(segments.len(), untagged.len());
        for (segment, untagged) in segments.iter().zip(&untagged) {
            assert_eq!(segment.bytes()[12..16], [0x81, 0, 0, 100]);
            assert_eq!(segment.len(), untagged.len() + 4);
        }
    }
}

#[test]
fn changed_headers_are_found_again() {
    for whole in forms(2500).filter(|fields| fields.outer_ipv6 == Some(false) && !fields.outer_checksum) {
        // The tunnel goes over IPv6 from now on, and the payload's last byte stays in place.
        let mut grown = whole.clone();
        grown.outer_ipv6 = Some(true);
        let mut packet = open(&whole, 1000);
        let offload = packet.offload;
        packet.set_bytes(&grown.build()).unwrap();
        packet.offload = offload;
        let segments = finish(packet, TxOffloads::default()).unwrap();
        assert_eq!(segments.len(), 3);
        assert_eq!(segments[0].bytes(), finish(open(&grown, 1000), TxOffloads::default()).unwrap()[0].bytes());
        // Without its tunnel.
        let mut packet = open(&whole, 1000);
        packet.trim_front(50).unwrap();
        let plain = Fields { outer_ipv6: None, ..whole.clone() };
        let expected = finish(open(&plain, 1000), TxOffloads::default()).unwrap();
        assert_eq!(finish(packet, TxOffloads::default()).unwrap(), expected);
    }
}

#[test]
fn another_packet_in_its_place_is_sent_as_it_is() {
    for whole in forms(2500) {
        let mut packet = open(&whole, 1000);
        // An ICMP error that quotes the first bytes.
        let icmp = [
            &[2; 12],
            &[8, 0][..],
            &ip_header(false, IpNumber::ICMP, 8 + 64, 1),
            &[3, 4, 1, 2, 0, 0, 5, 0],
            &whole.build()[..64],
        ];
        packet.replace_front(packet.len(), &icmp.concat()).unwrap();
        let left = finish(packet, TxOffloads::default()).unwrap();
        assert_eq!(left[0].bytes(), icmp.concat());
        assert!(left[0].offload.is_none());
        // A truncated copy.
        let mut packet = open(&whole, 1000);
        packet.truncate(200);
        assert!(packet.offload.is_none());
    }
}

#[test]
fn behind_an_unknown_header_a_checksum_is_completed_and_a_super_frame_is_refused() {
    for whole in forms(100) {
        // A port that takes open checksums gets the sum of the pseudo-header.
        let port = TxOffloads { checksum: true, ..TxOffloads::default() };
        let mut packet = finish(open(&whole, 1000), port).unwrap().remove(0);
        let unknown = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xb6, 1, 2];
        packet.replace_front(0, &unknown).unwrap();
        let left = finish(packet, TxOffloads::default()).unwrap();
        assert_eq!(left[0].bytes(), [&unknown[..], &whole.build()].concat());
        let mut packet = open(&Fields { payload: vec![1; 5000], ..whole }, 1000);
        packet.replace_front(0, &unknown).unwrap();
        assert_eq!(finish(packet, TxOffloads::default()), Err(PortReason::TxSegmentation));
    }
}
