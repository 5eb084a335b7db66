//! Builds the packet of a flow. All packets of a flow are identical.

use super::fields::{Field, Values};
use super::flows::Flow;
use super::vswitch::PacketType;
use etherparse::{ArpPacket, Ipv4Header, Ipv6Header};

/// TTL and hop limit of all packets.
const TTL: u8 = 64;
/// Bytes after the ports: the remainder of a TCP header without options.
const REST: usize = 16;

/// Builds the bytes of a flow's packets: Ethernet, VLAN tag, the headers of the packet type, ports,
/// and the remaining bytes of a TCP header.
pub fn frame(flow: &Flow) -> Vec<u8> {
    let values = &flow.values;
    let number = |field: Field| values[field.index()];
    let mac = |field: Field| number(field).to_be_bytes()[10..].to_vec();
    let mut out = [mac(Field::DlDst), mac(Field::DlSrc)].concat();
    out.extend(0x8100_u16.to_be_bytes());
    out.extend((number(Field::Vlan) as u16).to_be_bytes());
    out.extend((number(Field::EthType) as u16).to_be_bytes());
    match flow.kind {
        PacketType::Ipv4 | PacketType::Multicast => append_ipv4(&mut out, values),
        PacketType::Mpls => {
            for (field, bottom) in [(Field::MplsOuter, 0), (Field::MplsInner, 1)] {
                out.extend((((number(field) as u32) << 12) | (bottom << 8) | u32::from(TTL)).to_be_bytes());
            }
            append_ipv4(&mut out, values);
        }
        PacketType::Ipv6 => append_ipv6(&mut out, values),
        PacketType::Arp => append_arp(&mut out, values),
        PacketType::Control => out.extend([0; 46]),
    }
    out
}

fn l4_bytes(values: &Values) -> Vec<u8> {
    let port = |field: Field| (values[field.index()] as u16).to_be_bytes();
    [&port(Field::TpSrc)[..], &port(Field::TpDst)[..], &[0; REST][..]].concat()
}

fn append_ipv4(out: &mut Vec<u8>, values: &Values) {
    let address = |field: Field| (values[field.index()] as u32).to_be_bytes();
    let rest = l4_bytes(values);
    let mut header = Ipv4Header {
        total_len: Ipv4Header::MIN_LEN_U16 + rest.len() as u16,
        time_to_live: TTL,
        protocol: (values[Field::NwProto.index()] as u8).into(),
        source: address(Field::NwSrc),
        destination: address(Field::NwDst),
        ..Ipv4Header::default()
    };
    header.header_checksum = header.calc_header_checksum();
    out.extend(header.to_bytes());
    out.extend(rest);
}

fn append_ipv6(out: &mut Vec<u8>, values: &Values) {
    let rest = l4_bytes(values);
    let header = Ipv6Header {
        payload_length: rest.len() as u16,
        next_header: 6.into(),
        hop_limit: TTL,
        source: (super::chains::IPV6_SITE | (values[Field::DlSrc.index()] & 0xffff_ffff)).to_be_bytes(),
        destination: values[Field::Ipv6Dst.index()].to_be_bytes(),
        ..Ipv6Header::default()
    };
    out.extend(header.to_bytes());
    out.extend(rest);
}

/// Appends an ARP request (RFC 826) for an address of the network. Addresses follow from the MACs.
fn append_arp(out: &mut Vec<u8>, values: &Values) {
    let mac = |field: Field| {
        let mut mac = [0; 6];
        mac.copy_from_slice(&values[field.index()].to_be_bytes()[10..]);
        mac
    };
    let address = |field: Field| {
        let mac: [u8; 6] = mac(field);
        [10, mac[3], mac[4], mac[5]]
    };
    let packet = ArpPacket::new(
        etherparse::ArpHardwareId::ETHERNET,
        etherparse::EtherType::IPV4,
        etherparse::ArpOperation::REQUEST,
        &mac(Field::DlSrc),
        &address(Field::DlSrc),
        &[0; 6],
        &address(Field::DlDst),
    );
    if let Ok(packet) = packet {
        out.extend(packet.to_bytes());
    }
}
