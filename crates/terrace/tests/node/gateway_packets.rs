//! Packets of machines to the Internet in VXLAN, and packets from the Internet.

use std::net::Ipv4Addr;

pub const UDP: u8 = 17;
pub const TCP: u8 = 6;
pub const ICMP: u8 = 1;

/// One side of a flow: address and port. The port of an echo request is its identifier.
pub type Side = (Ipv4Addr, u16);

/// The first packet of a session, without a checksum of layer 4 where it may lack.
pub fn ip_packet(protocol: u8, from: Side, to: Side) -> Vec<u8> {
    let [source, destination] = [from.1, to.1].map(u16::to_be_bytes);
    let l4 = match protocol {
        UDP => [&source[..], &destination, &[0, 16, 0, 0]].concat(),
        TCP => [&source[..], &destination, &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]].concat(),
        _ => [&[8, 0, 0, 0][..], &source, &[0, 1]].concat(),
    };
    let l4 = [&l4[..], &[7; 8]].concat();
    ipv4(protocol, from.0, to.0, &l4)
}

fn ipv4(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, content: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + content.len() as u16).to_be_bytes();
    let mut header = [&[0x45, 0, high, low, 0, 1, 0, 0, 64, protocol, 0, 0][..], &from.octets(), &to.octets()].concat();
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&header[..], content].concat()
}

fn ethernet(to: [u8; 6], from: [u8; 6], content: &[u8]) -> Vec<u8> {
    [&to[..], &from, &[8, 0], content].concat()
}

/// Returns a frame that a server of `examples/lab.yaml` sends to the gateway by the uplink `uplink`, for a
/// machine of the VPC with this VNI.
pub fn from_server(uplink: u8, server: Ipv4Addr, vni: u32, packet: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = vni.to_be_bytes();
    let inner = ethernet([2, 0, 0x5e, 0, 0, 1], [2, 0, 0, 0x10, 0, 0x0a], packet);
    let vxlan = [&[8, 0, 0, 0, a, b, c, 0][..], &inner].concat();
    let [high, low] = (8 + vxlan.len() as u16).to_be_bytes();
    let udp = [&[0xc3, 0x50, 0x12, 0xb5, high, low, 0, 0][..], &vxlan].concat();
    let outer = ipv4(UDP, server, Ipv4Addr::new(192, 0, 2, 1), &udp);
    ethernet([2, 0, 0, uplink, 0, 1], [2, 0, 0, uplink, 0, 2], &outer)
}

/// Returns a frame that the Internet sends to the gateway by the uplink `uplink`.
pub fn from_internet(uplink: u8, packet: &[u8]) -> Vec<u8> {
    ethernet([2, 0, 0, uplink, 0, 1], [2, 0, 0, uplink, 0, 2], packet)
}

/// Returns protocol and both sides of a frame that the gateway sent to the Internet.
pub fn read_sent(frame: &[u8]) -> (u8, Side, Side) {
    let ip = &frame[14..];
    let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).expect("four bytes"));
    let port = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    match ip[9] {
        ICMP => (ICMP, (address(12), port(24)), (address(16), 0)),
        protocol => (protocol, (address(12), port(20)), (address(16), port(22))),
    }
}
