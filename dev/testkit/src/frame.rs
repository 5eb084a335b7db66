//! Builds VXLAN frames field by field, valid or deliberately invalid.

use std::net::IpAddr;

/// Appends an Ethernet header.
fn ethernet(out: &mut Vec<u8>, destination: [u8; 6], source: [u8; 6], ether_type: u16) {
    out.extend(destination);
    out.extend(source);
    out.extend(ether_type.to_be_bytes());
}

/// Returns the RFC 1071 checksum of an even number of bytes.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks_exact(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An IP packet. Its addresses determine its family and must have the same family.
#[derive(Clone, Debug)]
pub struct IpPacket {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// IPv4 protocol, or IPv6 next header after a fragment header.
    pub protocol: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// ECN, 2 bits.
    pub ecn: u8,
    /// More-fragments flag, and offset in units of 8 bytes.
    pub fragment: Option<(bool, u16)>,
    /// IPv4 options, a multiple of 4 bytes up to 40.
    pub options: Vec<u8>,
    /// Payload after the IP header.
    pub payload: Vec<u8>,
}

impl IpPacket {
    /// Creates a packet with TTL 64 and default values for the other fields.
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8, payload: Vec<u8>) -> IpPacket {
        IpPacket {
            source,
            destination,
            protocol,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            fragment: None,
            options: Vec::new(),
            payload,
        }
    }

    /// Returns the EtherType of the packet.
    pub fn ether_type(&self) -> u16 {
        if self.destination.is_ipv4() { 0x0800 } else { 0x86dd }
    }

    /// Returns the bytes of the packet.
    ///
    /// # Panics
    /// If source and destination are of different families.
    pub fn bytes(&self) -> Vec<u8> {
        match (self.source, self.destination) {
            (IpAddr::V4(s), IpAddr::V4(d)) => self.v4(s.octets(), d.octets()),
            (IpAddr::V6(s), IpAddr::V6(d)) => self.v6(s.octets(), d.octets()),
            _ => panic!("source and destination are of different families"),
        }
    }

    fn v4(&self, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
        let (more, offset) = self.fragment.unwrap_or_default();
        let header = 20 + self.options.len();
        let mut out = vec![0x40 | (header / 4) as u8, self.dscp << 2 | self.ecn];
        out.extend(((header + self.payload.len()) as u16).to_be_bytes());
        out.extend([0x12, 0x34]);
        out.extend((u16::from(more) << 13 | offset).to_be_bytes());
        out.extend([self.ttl, self.protocol, 0, 0]);
        out.extend(source);
        out.extend(destination);
        out.extend(&self.options);
        let sum = checksum(&out).to_be_bytes();
        out[10..12].copy_from_slice(&sum);
        out.extend(&self.payload);
        out
    }

    fn v6(&self, source: [u8; 16], destination: [u8; 16]) -> Vec<u8> {
        let extra = if self.fragment.is_some() { 8 } else { 0 };
        let first = 6u32 << 28 | u32::from(self.dscp) << 22 | u32::from(self.ecn) << 20 | 0x54321;
        let mut out = first.to_be_bytes().to_vec();
        out.extend((extra + self.payload.len() as u16).to_be_bytes());
        out.extend([if extra > 0 { 44 } else { self.protocol }, self.ttl]);
        out.extend(source);
        out.extend(destination);
        if let Some((more, offset)) = self.fragment {
            out.extend([self.protocol, 0]);
            out.extend((offset << 3 | u16::from(more)).to_be_bytes());
            out.extend([0, 0, 0, 9]);
        }
        out.extend(&self.payload);
        out
    }
}

/// Returns a UDP or TCP segment with the ports and `length` bytes in total.
pub fn segment(source: u16, destination: u16, length: usize) -> Vec<u8> {
    let mut out = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    out.resize(length.max(4), 0x5a);
    out
}

/// A tenant's frame as its server sends it to the gateway.
#[derive(Clone, Debug)]
pub struct VxlanFrame {
    /// Outer addresses.
    pub outer: (IpAddr, IpAddr),
    /// Outer DSCP and ECN.
    pub outer_tos: (u8, u8),
    /// VNI.
    pub vni: u32,
    /// VXLAN flags; 8 is valid.
    pub flags: u8,
    /// Outer Ethernet destination.
    pub mac: [u8; 6],
    /// Inner Ethernet destination and source.
    pub inner_macs: [[u8; 6]; 2],
    /// Inner EtherType; `None`: that of the inner packet.
    pub inner_type: Option<u16>,
    /// Inner packet.
    pub inner: IpPacket,
    /// Bytes after the inner Ethernet header in place of the inner packet.
    pub content: Option<Vec<u8>>,
}

/// Source MAC address of inner frames.
pub const VM_MAC: [u8; 6] = [2, 0, 0, 0x77, 0, 1];
/// Source MAC address of outer frames.
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0x66, 0, 1];
/// Default destination MAC address of frames.
pub const GATEWAY_MAC: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];

impl VxlanFrame {
    /// Creates a frame with default values for the other fields.
    pub fn new(outer: (IpAddr, IpAddr), vni: u32, inner: IpPacket) -> VxlanFrame {
        let inner_macs = [GATEWAY_MAC, VM_MAC];
        VxlanFrame {
            outer,
            outer_tos: (0, 0),
            vni,
            flags: 8,
            mac: GATEWAY_MAC,
            inner_macs,
            inner_type: None,
            inner,
            content: None,
        }
    }

    /// Returns the bytes of the frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        let [to, from] = self.inner_macs;
        ethernet(&mut frame, to, from, self.inner_type.unwrap_or(self.inner.ether_type()));
        frame.extend(self.content.clone().unwrap_or_else(|| self.inner.bytes()));
        let mut udp = [50000u16.to_be_bytes(), 4789u16.to_be_bytes()].concat();
        udp.extend((16 + frame.len() as u16).to_be_bytes());
        udp.extend([0, 0, self.flags, 0, 0, 0]);
        udp.extend(&self.vni.to_be_bytes()[1..]);
        udp.push(0);
        udp.extend(frame);
        let mut outer = IpPacket::new(self.outer.0, self.outer.1, 17, udp);
        (outer.dscp, outer.ecn) = self.outer_tos;
        let mut out = Vec::new();
        ethernet(&mut out, self.mac, SERVER_MAC, outer.ether_type());
        out.extend(outer.bytes());
        out
    }
}
