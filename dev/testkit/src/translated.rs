//! IPv4 packets with layer 4, and ICMP errors about them, for tests of address translation.

use crate::frame::{IpPacket, checksum};
use std::net::{IpAddr, Ipv4Addr};

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Flag of TCP: no more data.
pub const FIN: u8 = 1;
/// Flag of TCP: begins a connection.
pub const SYN: u8 = 2;
/// Flag of TCP: ends a connection at once.
pub const RST: u8 = 4;
/// Flag of TCP: acknowledges.
pub const ACK: u8 = 16;

/// One side of a flow: address and port.
pub type Side = (Ipv4Addr, u16);

/// An IPv4 packet with its layer 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Protocol number.
    pub protocol: u8,
    /// Sender. The port of an echo request is the identifier, that of a reply 0.
    pub from: Side,
    /// Receiver. The port of an echo reply is the identifier, that of a request 0.
    pub to: Side,
    /// Flags of TCP.
    pub flags: u8,
    /// TTL.
    pub ttl: u8,
    /// Bytes behind the header of layer 4.
    pub data: Vec<u8>,
}

impl Packet {
    /// Returns a UDP datagram of 16 bytes.
    pub fn udp(from: Side, to: Side) -> Packet {
        Packet { protocol: UDP, from, to, flags: 0, ttl: 64, data: b"sixteen bytes ok".to_vec() }
    }

    /// Returns a TCP segment of 16 bytes.
    pub fn tcp(from: Side, to: Side, flags: u8) -> Packet {
        Packet { protocol: TCP, flags, ..Packet::udp(from, to) }
    }

    /// Returns an echo request; the port of `from` is the identifier.
    pub fn ping(from: Side, to: Ipv4Addr) -> Packet {
        Packet { protocol: ICMP, ..Packet::udp(from, (to, 0)) }
    }

    /// Returns an echo reply; the port of `to` is the identifier.
    pub fn pong(from: Ipv4Addr, to: Side) -> Packet {
        Packet { protocol: ICMP, ..Packet::udp((from, 0), to) }
    }

    /// Returns the answer to a packet.
    pub fn answer(&self, flags: u8) -> Packet {
        Packet { from: self.to, to: self.from, flags, ..self.clone() }
    }

    /// Returns the IP packet with right checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let [source, destination] = [self.from.1, self.to.1].map(u16::to_be_bytes);
        let mut l4 = match self.protocol {
            UDP => [&source[..], &destination, &(8 + self.data.len() as u16).to_be_bytes(), &[0, 0]].concat(),
            TCP => [&source[..], &destination, &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, self.flags, 1, 0, 0, 0, 0, 0]].concat(),
            _ if self.to.1 == 0 => [&[8, 0, 0, 0][..], &source, &[0, 1]].concat(),
            _ => [&[0, 0, 0, 0][..], &destination, &[0, 1]].concat(),
        };
        l4.extend(&self.data);
        // RFC 768: 0 would mean that there is none.
        let sum = match l4_checksum(self.protocol, self.from.0, self.to.0, &l4) {
            0 if self.protocol == UDP => u16::MAX,
            sum => sum,
        };
        let at = checksum_offset(self.protocol);
        l4[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        let (from, to) = (IpAddr::V4(self.from.0), IpAddr::V4(self.to.0));
        IpPacket { ttl: self.ttl, ..IpPacket::new(from, to, self.protocol, l4) }.bytes()
    }

    /// Reads an IP packet, and checks its checksums.
    ///
    /// # Panics
    /// A checksum is wrong, or the packet has no layer 4.
    pub fn read(bytes: &[u8]) -> Packet {
        let bytes = &bytes[..usize::from(u16::from_be_bytes([bytes[2], bytes[3]]))];
        assert_eq!(checksum(&bytes[..20]), 0, "the checksum of the IP header {bytes:02x?}");
        let address = |at: usize| Ipv4Addr::from(u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let (protocol, l4, from, to) = (bytes[9], &bytes[20..], address(12), address(16));
        assert_eq!(l4_checksum(protocol, from, to, l4), 0, "the checksum of layer 4 {bytes:02x?}");
        let (ports, header) = match protocol {
            UDP => ([port(20), port(22)], 8),
            TCP => ([port(20), port(22)], 20),
            _ if bytes[20] == 8 => ([port(24), 0], 8),
            _ => ([0, port(24)], 8),
        };
        let flags = if protocol == TCP { l4[13] } else { 0 };
        let data = l4[header..].to_vec();
        Packet { protocol, from: (from, ports[0]), to: (to, ports[1]), flags, ttl: bytes[8], data }
    }
}

fn checksum_offset(protocol: u8) -> usize {
    match protocol {
        UDP => 6,
        TCP => 16,
        _ => 2,
    }
}

/// Returns the checksum over layer 4, of TCP and UDP with the pseudo-header; 0 if the one in it is
/// right.
fn l4_checksum(protocol: u8, from: Ipv4Addr, to: Ipv4Addr, l4: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    if protocol != ICMP {
        bytes.extend(from.octets());
        bytes.extend(to.octets());
        bytes.extend([0, protocol]);
        bytes.extend((l4.len() as u16).to_be_bytes());
    }
    bytes.extend(l4);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    checksum(&bytes)
}

/// Returns an ICMP error that quotes a packet.
pub fn icmp_error(from: Ipv4Addr, to: Ipv4Addr, [kind, code]: [u8; 2], quoted: &[u8]) -> Vec<u8> {
    let mut l4 = vec![kind, code, 0, 0, 0, 0, 5, 0x78];
    l4.extend(&quoted[..28]);
    let sum = checksum(&l4).to_be_bytes();
    l4[2..4].copy_from_slice(&sum);
    IpPacket::new(from.into(), to.into(), ICMP, l4).bytes()
}
