//! Parses a packet: detects malformed packets, and extracts the inner flow.

use crate::frame::checksum;
use std::net::IpAddr;

/// Position of the inner packet in its datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Fragment {
    Whole,
    First,
    Later,
}

/// Outer headers, and inner headers if the packet is VXLAN.
#[derive(Clone, Debug)]
pub struct ParsedPacket {
    /// Outer Ethernet destination.
    pub mac: [u8; 6],
    /// VLAN of the frame, if it has a tag.
    pub vlan: Option<u16>,
    /// Outer EtherType, after a tag.
    pub ether_type: u16,
    /// Outer IP source, if it is IP.
    pub source: Option<IpAddr>,
    /// Outer IP destination, if it is IP.
    pub destination: Option<IpAddr>,
    /// Outer IPv4 protocol or IPv6 next header.
    pub protocol: u8,
    /// Outer IPv4 packet with options.
    pub options: bool,
    /// Outer IPv4 packet that is a fragment.
    pub fragment: bool,
    /// Outer TTL or hop limit.
    pub outer_ttl: u8,
    /// First four bytes of the outer layer 4, of TCP, UDP, ICMP and ICMPv6.
    pub outer_l4: Option<[u8; 4]>,
    /// Whether a UDP header was parsed.
    pub udp: bool,
    /// Length of the outer IP header, in bytes.
    pub outer_ip: usize,
    /// Outer DSCP and ECN.
    pub tos: (u8, u8),
    /// VNI, if it is VXLAN.
    pub vni: Option<u32>,
    /// Inner Ethernet destination and source.
    pub inner_macs: [[u8; 6]; 2],
    /// Inner EtherType.
    pub inner_type: u16,
    /// The inner packet, if it is IP.
    pub inner: Option<InnerPacket>,
}

/// The inner IP packet.
#[derive(Clone, Debug)]
pub struct InnerPacket {
    /// Offset of its IP header, in bytes.
    pub at: usize,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol after all extension headers.
    pub protocol: u8,
    /// Ports, ICMP type and code, or zeros.
    pub ports: (u16, u16),
    /// Position in the datagram.
    pub fragment: Fragment,
    /// Kinds of options and extension headers before layer 4, a bit for each
    /// ([`region::Extension::bit`]).
    pub extensions: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// ECN.
    pub ecn: u8,
}

impl InnerPacket {
    /// Returns whether the packet is a neighbour solicitation.
    pub(super) fn is_solicitation(&self) -> bool {
        self.source.is_ipv6() && self.protocol == 58 && self.ports.0 == 135
    }
}

fn be16(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

fn mac_at(packet: &[u8], at: usize) -> [u8; 6] {
    packet[at..at + 6].try_into().expect("six bytes")
}

fn v4_at(packet: &[u8], at: usize) -> IpAddr {
    let bytes: [u8; 4] = packet[at..at + 4].try_into().expect("four bytes");
    IpAddr::from(bytes)
}

fn v6_at(packet: &[u8], at: usize) -> IpAddr {
    let bytes: [u8; 16] = packet[at..at + 16].try_into().expect("sixteen bytes");
    IpAddr::from(bytes)
}

/// Parses a packet. The error is its drop reason.
///
/// # Errors
/// The drop reason of a malformed packet.
pub fn parse(packet: &[u8]) -> Result<ParsedPacket, &'static str> {
    let require_len = |n: usize, reason| if packet.len() < n { Err(reason) } else { Ok(()) };
    require_len(14, "underlay_truncated")?;
    let mut parsed = ParsedPacket {
        mac: mac_at(packet, 0),
        vlan: None,
        ether_type: be16(packet, 12),
        source: None,
        destination: None,
        protocol: 0,
        options: false,
        fragment: false,
        outer_ttl: 0,
        outer_l4: None,
        udp: false,
        outer_ip: 0,
        tos: (0, 0),
        vni: None,
        inner_macs: [[0; 6]; 2],
        inner_type: 0,
        inner: None,
    };
    match parsed.ether_type {
        0x0800 => outer_v4(packet, &mut parsed)?,
        0x86dd => outer_v6(packet, &mut parsed)?,
        _ => return Ok(parsed),
    }
    let l4 = 14 + parsed.outer_ip;
    let icmp = if parsed.ether_type == 0x0800 { 1 } else { 58 };
    if !parsed.options && !parsed.fragment && (matches!(parsed.protocol, 6 | 17) || parsed.protocol == icmp) {
        // Of ICMP, the program reads only the type.
        require_len(l4 + if parsed.protocol == icmp { 1 } else { 4 }, "underlay_truncated")?;
        let mut first = [0; 4];
        first.iter_mut().zip(&packet[l4..]).for_each(|(to, byte)| *to = *byte);
        parsed.outer_l4 = Some(first);
    }
    if parsed.protocol == 17 && !parsed.options && !parsed.fragment {
        let udp_offset = l4;
        require_len(udp_offset + 8, "underlay_truncated")?;
        parsed.udp = true;
        if be16(packet, udp_offset + 2) == 4789 {
            require_len(udp_offset + 16, "underlay_truncated")?;
            parsed.vni = Some(u32::from_be_bytes([
                0,
                packet[udp_offset + 12],
                packet[udp_offset + 13],
                packet[udp_offset + 14],
            ]));
            require_len(udp_offset + 30, "inner_truncated")?;
            parsed.inner_macs = [16, 22].map(|offset| mac_at(packet, udp_offset + offset));
            parsed.inner_type = be16(packet, udp_offset + 28);
            parsed.inner = match parsed.inner_type {
                0x0800 => Some(inner_v4(packet, udp_offset + 30)?),
                0x86dd => Some(inner_v6(packet, udp_offset + 30)?),
                _ => None,
            };
        }
    }
    Ok(parsed)
}

/// Parses the outer IPv4 header. A header with options, or of a fragment, is not parsed further by
/// the gateway, which then does not check its sum.
fn outer_v4(packet: &[u8], parsed: &mut ParsedPacket) -> Result<(), &'static str> {
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
    parsed.outer_ttl = packet[22];
    parsed.tos = (packet[15] >> 2, packet[15] & 3);
    parsed.source = Some(v4_at(packet, 26));
    parsed.destination = Some(v4_at(packet, 30));
    parsed.outer_ip = 20;
    Ok(())
}

fn outer_v6(packet: &[u8], parsed: &mut ParsedPacket) -> Result<(), &'static str> {
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
    parsed.outer_ttl = packet[21];
    parsed.tos = (class >> 2, class & 3);
    parsed.source = Some(v6_at(packet, 22));
    parsed.destination = Some(v6_at(packet, 38));
    parsed.outer_ip = 40;
    Ok(())
}

/// Parses the inner IPv4 packet at offset `at` and its headers up to layer 4.
fn inner_v4(packet: &[u8], at: usize) -> Result<InnerPacket, &'static str> {
    if packet.len() < at + 20 {
        return Err("inner_truncated");
    }
    let ihl = packet[at] & 15;
    if packet[at] >> 4 != 4 || ihl < 5 {
        return Err("inner_ipv4_header");
    }
    let (length, header) = (usize::from(be16(packet, at + 2)), usize::from(ihl) * 4);
    if length < header {
        return Err("inner_length");
    }
    if packet.len() < at + header {
        return Err("inner_truncated");
    }
    if checksum(&packet[at..at + header]) != 0 {
        return Err("inner_ipv4_checksum");
    }
    let fragment = match be16(packet, at + 6) & 0x3fff {
        0 => Fragment::Whole,
        0x2000 => Fragment::First,
        _ => Fragment::Later,
    };
    let mut cursor = HeaderCursor {
        protocol: packet[at + 9],
        ports: (0, 0),
        fragment,
        extensions: u8::from(ihl > 5),
        at: header - 20,
        left: length - header,
    };
    cursor.parse_headers(packet, at + 20, false)?;
    let (source, destination) = (v4_at(packet, at + 12), v4_at(packet, at + 16));
    let HeaderCursor { protocol, ports, fragment, extensions, .. } = cursor;
    let (ttl, ecn) = (packet[at + 8], packet[at + 1] & 3);
    Ok(InnerPacket { at, source, destination, protocol, ports, fragment, extensions, ttl, ecn })
}

fn inner_v6(packet: &[u8], at: usize) -> Result<InnerPacket, &'static str> {
    if packet.len() < at + 40 {
        return Err("inner_truncated");
    }
    if packet[at] >> 4 != 6 {
        return Err("inner_ipv6_header");
    }
    let (protocol, left) = (packet[at + 6], usize::from(be16(packet, at + 4)));
    let mut behind = HeaderCursor { protocol, ports: (0, 0), fragment: Fragment::Whole, extensions: 0, at: 0, left };
    behind.parse_headers(packet, at + 40, true)?;
    let (source, destination) = (v6_at(packet, at + 8), v6_at(packet, at + 24));
    let HeaderCursor { protocol, ports, fragment, extensions, .. } = behind;
    let (ttl, ecn) = (packet[at + 7], packet[at + 1] >> 4 & 3);
    Ok(InnerPacket { at, source, destination, protocol, ports, fragment, extensions, ttl, ecn })
}

/// State of the parser after the fixed part of an IP header.
struct HeaderCursor {
    /// Next protocol, or the last one parsed.
    protocol: u8,
    ports: (u16, u16),
    fragment: Fragment,
    /// Kinds of headers parsed up to here.
    extensions: u8,
    /// Offset from the end of the fixed part, in bytes.
    at: usize,
    /// Remaining bytes of the datagram.
    left: usize,
}

impl HeaderCursor {
    /// Parses header after header, up to layer 4 or an unknown header. `from` is the end of the
    /// fixed part. More than 64 bytes of headers are refused.
    fn parse_headers(&mut self, packet: &[u8], from: usize, v6: bool) -> Result<(), &'static str> {
        while self.fragment != Fragment::Later {
            let is_icmp = self.protocol == if v6 { 58 } else { 1 };
            let is_layer_4 = is_icmp || matches!(self.protocol, 6 | 17 | 33 | 132 | 136);
            let is_extension = self.protocol == 51 || v6 && matches!(self.protocol, 0 | 43 | 44 | 60 | 135 | 139 | 140);
            if !is_layer_4 && !is_extension {
                break;
            }
            if self.left < 4 {
                return Err("inner_length");
            }
            if self.at > 64 {
                return Err("inner_headers_too_long");
            }
            if is_layer_4 {
                if packet.len() < from + self.layer_4_bytes(&packet[from.min(packet.len())..], v6) {
                    return Err("inner_truncated");
                }
                self.ports = self::layer_4(packet, from + self.at, is_icmp)?;
                break;
            }
            self.parse_extension(packet, from + self.at)?;
        }
        Ok(())
    }

    /// Returns how many bytes of layer 4 the program reads, from `rest` on. Behind other headers it
    /// reads the ports. Directly behind the IP header it reads all that a NAT or a security group
    /// needs, as far as the datagram has it.
    fn layer_4_bytes(&self, rest: &[u8], v6: bool) -> usize {
        let byte = |at: usize| rest.get(at).copied().unwrap_or_default();
        match (self.protocol, self.left) {
            // A fragment header directly behind IPv6, with the first fragment's TCP or ICMPv6.
            (6, 20..) if self.is_behind_fragment_header() => 8 + 20,
            (58, 8..) if self.is_behind_fragment_header() => 8 + 8,
            _ if self.at != 0 => 0,
            (6 | 17, 20..) => 20,
            (17, 8..) => 8,
            // An error with a quoted packet, of which 8 bytes of layer 4 are read.
            (58, 56..) if matches!(byte(0), 1..=4) => 48 + if matches!(byte(14), 6 | 17 | 58) { 8 } else { 0 },
            (58, 8..) => 8,
            _ if v6 => 0,
            (33 | 132 | 136, 8..) => 8,
            (1, 36..) if matches!(byte(0), 3 | 11 | 12) => {
                let is_first = u16::from_be_bytes([byte(14), byte(15)]) & 0x1fff == 0;
                28 + if byte(8) & 15 == 5 && is_first && matches!(byte(17), 1 | 6 | 17) { 8 } else { 0 }
            }
            (1, 8..) => 8,
            _ => 0,
        }
    }

    /// Returns whether a fragment header is the only one parsed.
    fn is_behind_fragment_header(&self) -> bool {
        self.at == 8 && self.extensions == 0 && self.fragment == Fragment::First
    }

    /// Parses one extension header or AH at offset `here`: notes its kind, and moves to the next
    /// header.
    fn parse_extension(&mut self, packet: &[u8], here: usize) -> Result<(), &'static str> {
        if packet.len() < here + 4 {
            return Err("inner_truncated");
        }
        let length = usize::from(packet[here + 1]);
        let (kind_bit, bytes) = match self.protocol {
            0 if self.at != 0 => return Err("inner_ipv6_extension"),
            44 if self.fragment != Fragment::Whole => return Err("inner_ipv6_extension"),
            43 if packet[here + 2] == 0 => return Err("inner_source_route"),
            0 => (0x02, 8 * length + 8),
            60 => (0x04, 8 * length + 8),
            43 => (0x08, 8 * length + 8),
            51 => (0x10, 4 * length + 8),
            135 => (0x20, 8 * length + 8),
            139 => (0x40, 8 * length + 8),
            140 => (0x80, 8 * length + 8),
            _ => (0, 8),
        };
        if self.left < bytes {
            return Err("inner_length");
        }
        if self.protocol == 44 {
            let is_later = be16(packet, here + 2) >> 3 != 0;
            self.fragment = if is_later { Fragment::Later } else { Fragment::First };
        }
        self.extensions |= kind_bit;
        self.protocol = packet[here];
        self.at += bytes;
        self.left -= bytes;
        Ok(())
    }
}

fn layer_4(packet: &[u8], at: usize, icmp: bool) -> Result<(u16, u16), &'static str> {
    if packet.len() < at + 4 {
        return Err("inner_truncated");
    }
    Ok(if icmp { (packet[at].into(), packet[at + 1].into()) } else { (be16(packet, at), be16(packet, at + 2)) })
}
