//! Reading a packet: what is malformed, and the inner flow.

use crate::frame::checksum;
use std::net::IpAddr;

/// Which part of its datagram the inner packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Fragment {
    Whole,
    First,
    Later,
}

/// The outer headers, and the inner ones if it is VXLAN.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Outer EtherType.
    pub ether_type: u16,
    /// Outer IP destination, if it is IP.
    pub destination: Option<IpAddr>,
    /// Outer IPv4 protocol or IPv6 next header.
    pub protocol: u8,
    /// Outer IPv4 packet with options.
    pub options: bool,
    /// Outer IPv4 packet that is a fragment.
    pub fragment: bool,
    /// Whether UDP was reached.
    pub udp: bool,
    /// Length of the outer IP header, in bytes.
    pub outer_ip: usize,
    /// Outer DSCP and ECN.
    pub tos: (u8, u8),
    /// VNI, if it is VXLAN.
    pub vni: Option<u32>,
    /// Inner EtherType.
    pub inner_type: u16,
    /// The inner packet, if it is IP.
    pub inner: Option<Inner>,
}

/// The inner IP packet.
#[derive(Clone, Debug)]
pub struct Inner {
    /// Where its IP header begins.
    pub at: usize,
    /// Source.
    pub source: IpAddr,
    /// Destination.
    pub destination: IpAddr,
    /// Protocol, behind a fragment header if there is one.
    pub protocol: u8,
    /// Ports, ICMP type and code, or zeros.
    pub ports: (u16, u16),
    /// Which part.
    pub fragment: Fragment,
    /// TTL or hop limit.
    pub ttl: u8,
    /// ECN.
    pub ecn: u8,
}

fn be16(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn v4_at(packet: &[u8], at: usize) -> IpAddr {
    let bytes: [u8; 4] = packet[at..at + 4].try_into().expect("four bytes");
    IpAddr::from(bytes)
}

fn v6_at(packet: &[u8], at: usize) -> IpAddr {
    let bytes: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
    IpAddr::from(bytes)
}

/// Reads a packet. The error is the reason for which it is dropped.
///
/// # Errors
/// The drop reason of a malformed packet.
pub fn parse(packet: &[u8]) -> Result<Parsed, &'static str> {
    let need = |n: usize, reason| if packet.len() < n { Err(reason) } else { Ok(()) };
    need(14, "underlay_truncated")?;
    let mut parsed = Parsed {
        ether_type: be16(packet, 12),
        destination: None,
        protocol: 0,
        options: false,
        fragment: false,
        udp: false,
        outer_ip: 0,
        tos: (0, 0),
        vni: None,
        inner_type: 0,
        inner: None,
    };
    match parsed.ether_type {
        0x0800 => outer_v4(packet, &mut parsed)?,
        0x86dd => outer_v6(packet, &mut parsed)?,
        _ => return Ok(parsed),
    }
    if parsed.protocol == 17 && !parsed.options && !parsed.fragment {
        let udp = 14 + parsed.outer_ip;
        need(udp + 8, "underlay_truncated")?;
        parsed.udp = true;
        if be16(packet, udp + 2) == 4789 {
            need(udp + 16, "underlay_truncated")?;
            parsed.vni = Some(u32::from_be_bytes([0, packet[udp + 12], packet[udp + 13], packet[udp + 14]]));
            need(udp + 30, "inner_truncated")?;
            parsed.inner_type = be16(packet, udp + 28);
            parsed.inner = match parsed.inner_type {
                0x0800 => Some(inner_v4(packet, udp + 30)?),
                0x86dd => Some(inner_v6(packet, udp + 30)?),
                _ => None,
            };
        }
    }
    Ok(parsed)
}

fn outer_v4(packet: &[u8], parsed: &mut Parsed) -> Result<(), &'static str> {
    if packet.len() < 34 {
        return Err("underlay_truncated");
    }
    let ihl = packet[14] & 15;
    let length = usize::from(be16(packet, 16));
    if packet[14] >> 4 != 4 || ihl < 5 || length < 20 {
        return Err("underlay_ipv4_header");
    }
    if length + 14 > packet.len() {
        return Err("underlay_truncated");
    }
    parsed.options = ihl > 5;
    if !parsed.options && checksum(&packet[14..34]) != 0 {
        return Err("underlay_ipv4_checksum");
    }
    parsed.fragment = be16(packet, 20) & 0x3fff != 0;
    parsed.protocol = packet[23];
    parsed.tos = (packet[15] >> 2, packet[15] & 3);
    parsed.destination = Some(v4_at(packet, 30));
    parsed.outer_ip = 20;
    Ok(())
}

fn outer_v6(packet: &[u8], parsed: &mut Parsed) -> Result<(), &'static str> {
    if packet.len() < 54 {
        return Err("underlay_truncated");
    }
    if packet[14] >> 4 != 6 {
        return Err("underlay_ipv6_header");
    }
    if usize::from(be16(packet, 18)) + 54 > packet.len() {
        return Err("underlay_truncated");
    }
    let class = (packet[14] & 15) << 4 | packet[15] >> 4;
    parsed.protocol = packet[20];
    parsed.tos = (class >> 2, class & 3);
    parsed.destination = Some(v6_at(packet, 38));
    parsed.outer_ip = 40;
    Ok(())
}

fn inner_v4(packet: &[u8], at: usize) -> Result<Inner, &'static str> {
    if packet.len() < at + 20 {
        return Err("inner_truncated");
    }
    let ihl = packet[at] & 15;
    if packet[at] >> 4 != 4 || ihl < 5 {
        return Err("inner_ipv4_header");
    }
    if ihl > 5 {
        return Err("inner_ipv4_options");
    }
    let length = be16(packet, at + 2);
    if length < 20 {
        return Err("inner_length");
    }
    if checksum(&packet[at..at + 20]) != 0 {
        return Err("inner_ipv4_checksum");
    }
    let fragment = match be16(packet, at + 6) & 0x3fff {
        0 => Fragment::Whole,
        0x2000 => Fragment::First,
        _ => Fragment::Later,
    };
    let protocol = packet[at + 9];
    let mut ports = (0, 0);
    if fragment != Fragment::Later && matches!(protocol, 1 | 6 | 17) {
        if length < 24 {
            return Err("inner_length");
        }
        ports = layer_4(packet, at + 20, protocol == 1)?;
    }
    let (source, destination) = (v4_at(packet, at + 12), v4_at(packet, at + 16));
    Ok(Inner { at, source, destination, protocol, ports, fragment, ttl: packet[at + 8], ecn: packet[at + 1] & 3 })
}

fn inner_v6(packet: &[u8], at: usize) -> Result<Inner, &'static str> {
    if packet.len() < at + 40 {
        return Err("inner_truncated");
    }
    if packet[at] >> 4 != 6 {
        return Err("inner_ipv6_header");
    }
    let length = be16(packet, at + 4);
    let mut protocol = packet[at + 6];
    let (mut layer, mut fragment, mut before) = (at + 40, Fragment::Whole, 0);
    if protocol == 44 {
        if packet.len() < at + 48 {
            return Err("inner_truncated");
        }
        protocol = packet[at + 40];
        if length < 8 {
            return Err("inner_length");
        }
        let later = be16(packet, at + 42) >> 3 != 0;
        fragment = if later { Fragment::Later } else { Fragment::First };
        if !later && length < 12 {
            return Err("inner_length");
        }
        (layer, before) = (at + 48, 8);
    }
    let mut ports = (0, 0);
    if fragment != Fragment::Later {
        match protocol {
            0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 => return Err("inner_ipv6_extension"),
            6 | 17 | 58 => {
                if length < before.max(4) {
                    return Err("inner_length");
                }
                ports = layer_4(packet, layer, protocol == 58)?;
            }
            _ => {}
        }
    }
    let ecn = packet[at + 1] >> 4 & 3;
    let (source, destination) = (v6_at(packet, at + 8), v6_at(packet, at + 24));
    Ok(Inner { at, source, destination, protocol, ports, fragment, ttl: packet[at + 7], ecn })
}

fn layer_4(packet: &[u8], at: usize, icmp: bool) -> Result<(u16, u16), &'static str> {
    let need = if icmp { 2 } else { 4 };
    if packet.len() < at + need {
        return Err("inner_truncated");
    }
    Ok(if icmp { (packet[at].into(), packet[at + 1].into()) } else { (be16(packet, at), be16(packet, at + 2)) })
}
