//! Checks a "too big" message of the underlay: is it about a tunnel packet that this gateway sent?
//!
//! Nothing authenticates such a message, so each field of the quoted packet is compared with what
//! the gateway sends (programs/gateway/encap.p4). A message that passes can come only from a device
//! on the path, or from one that sees its packets.

use interp::host::hash;
use ir::HashAlgorithm;
use std::net::IpAddr;

/// What a gateway knows of its tunnels.
pub struct TunnelEnds<'a> {
    /// Own tunnel addresses.
    pub vteps: &'a [IpAddr],
    /// Returns the MTU of the port to a server or remote of the region, in bytes of the IP packet;
    /// `None` for all other addresses.
    pub port_mtu: &'a dyn Fn(IpAddr) -> Option<u16>,
    /// Least MTU that is believed, over IPv4 and over IPv6.
    pub floor: [u16; 2],
    /// Secret of the hash of flows.
    pub flow_secret: u32,
}

/// MTU of the path to a tunnel end point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathMtu {
    /// The end point.
    pub destination: IpAddr,
    /// Longest IP packet that passes, in bytes.
    pub mtu: u16,
    /// Whether the message claimed less than the floor.
    pub is_clamped: bool,
}

/// The first check that a message fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QuoteError {
    /// Not a whole ICMP message of type 3 code 4, or ICMPv6 type 2, with a right checksum.
    NotTooBig,
    /// The quoted packet is not from an own tunnel address to a server or remote.
    NotOurs,
    /// It is no tunnel packet as the gateway sends it: DF, TTL up to 64, UDP to port 4789 without a
    /// checksum. Its identification can be any, because the kernel numbers the segments of a
    /// super-frame.
    NotTunnel,
    /// Its length contradicts itself, the claimed MTU or the port's.
    Length,
    /// Its source port or flow label is not the hash of its flow.
    Hash,
}

impl QuoteError {
    /// All errors, in the order of the checks.
    pub const ALL: [QuoteError; 5] =
        [QuoteError::NotTooBig, QuoteError::NotOurs, QuoteError::NotTunnel, QuoteError::Length, QuoteError::Hash];

    /// Returns the name in counters.
    pub fn name(self) -> &'static str {
        match self {
            QuoteError::NotTooBig => "pmtu_not_too_big",
            QuoteError::NotOurs => "pmtu_not_ours",
            QuoteError::NotTunnel => "pmtu_not_tunnel",
            QuoteError::Length => "pmtu_length",
            QuoteError::Hash => "pmtu_hash",
        }
    }
}

/// MTUs of common links (RFC 1191, section 7.1), for routers that report an MTU of 0.
const PLATEAUS: [u16; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];

const UDP_PORT_VXLAN: u16 = 4789;
/// Least source port of a tunnel packet; the lower 14 bits are those of the flow hash.
const FIRST_PORT: u16 = 0xc000;
const HASH_BITS: u16 = 0x3fff;
/// Bytes between the outer IP header and the inner one: UDP, VXLAN, Ethernet.
const BEFORE_INNER_IP: usize = 30;

/// Checks a frame that was sent to a tunnel address. Returns the path MTU that it reports.
///
/// # Errors
/// The first check that it fails.
pub fn check_too_big(frame: &[u8], ends: &TunnelEnds<'_>) -> Result<PathMtu, QuoteError> {
    let (claimed, quote) = too_big_message(frame).ok_or(QuoteError::NotTooBig)?;
    let quoted = QuotedPacket::parse(quote).ok_or(QuoteError::NotOurs)?;
    let port_mtu = (ends.port_mtu)(quoted.destination).filter(|_| ends.vteps.contains(&quoted.source));
    let port_mtu = port_mtu.ok_or(QuoteError::NotOurs)?;
    if !quoted.is_tunnel {
        return Err(QuoteError::NotTunnel);
    }
    let claimed = match claimed {
        0 => PLATEAUS.into_iter().find(|mtu| usize::from(*mtu) < quoted.length).unwrap_or(68),
        mtu => u16::try_from(mtu).map_err(|_| QuoteError::Length)?,
    };
    let is_longer = quoted.length > usize::from(claimed) && quoted.length <= usize::from(port_mtu);
    if !is_longer || quoted.udp_length + quoted.header != quoted.length {
        return Err(QuoteError::Length);
    }
    let hashed = quoted.source_port & HASH_BITS;
    let labelled = quoted.flow_label.is_none_or(|label| label as u16 & HASH_BITS == hashed);
    let inner = quote.get(quoted.header + BEFORE_INNER_IP..).unwrap_or_default();
    let computed = inner_flow_hash(inner, ends.flow_secret).is_none_or(|hash| hash as u16 & HASH_BITS == hashed);
    if quoted.source_port < FIRST_PORT || !labelled || !computed {
        return Err(QuoteError::Hash);
    }
    let floor = ends.floor[usize::from(quoted.destination.is_ipv6())];
    Ok(PathMtu { destination: quoted.destination, mtu: claimed.max(floor), is_clamped: claimed < floor })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    }
}

/// Returns the one's complement sum of 16-bit words, folded. It is 0xffff over data with a right
/// checksum.
fn folded_sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the claimed MTU and the quoted bytes of a frame with a "too big" message.
fn too_big_message(frame: &[u8]) -> Option<(u32, &[u8])> {
    // In a VLAN, the tag is before the type.
    let tag = if be16(frame, 12)? == 0x8100 { 4 } else { 0 };
    let ip = frame.get(14 + tag..)?;
    match be16(frame, 12 + tag)? {
        0x0800 => {
            let total = usize::from(be16(ip, 2)?);
            let is_whole = ip.first() == Some(&0x45) && be16(ip, 6)? & 0x3fff == 0 && ip.get(9) == Some(&1);
            let icmp = ip.get(20..total).filter(|_| is_whole)?;
            let is_too_big = be16(icmp, 0)? == 0x0304 && folded_sum(&[icmp]) == 0xffff;
            Some((u32::from(be16(icmp, 6)?), icmp.get(8..).filter(|_| is_too_big)?))
        }
        0x86dd => {
            let length = be16(ip, 4)?;
            let icmp = ip.get(40..40 + usize::from(length)).filter(|_| ip[0] >> 4 == 6 && ip[6] == 58)?;
            let pseudo = [&ip[8..40], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 58]].concat();
            let is_too_big = be16(icmp, 0)? == 0x0200 && folded_sum(&[&pseudo, icmp]) == 0xffff;
            Some((be32(icmp, 4)?, icmp.get(8..).filter(|_| is_too_big)?))
        }
        _ => None,
    }
}

/// Outer headers of the packet that a message quotes.
struct QuotedPacket {
    source: IpAddr,
    destination: IpAddr,
    /// Length of the IP header in bytes.
    header: usize,
    /// Length of the packet in bytes.
    length: usize,
    is_tunnel: bool,
    flow_label: Option<u32>,
    source_port: u16,
    udp_length: usize,
}

impl QuotedPacket {
    fn parse(quote: &[u8]) -> Option<QuotedPacket> {
        let v4 = match quote.first()? {
            0x45 => true,
            first if first >> 4 == 6 => false,
            _ => return None,
        };
        let header = if v4 { 20 } else { 40 };
        let udp = quote.get(header..header + 8)?;
        let is_vxlan = be16(udp, 2)? == UDP_PORT_VXLAN && be16(udp, 6)? == 0;
        let addresses = if v4 { 12..20 } else { 8..40 };
        let (source, destination) = quote[addresses.clone()].split_at(addresses.len() / 2);
        Some(QuotedPacket {
            source: address(source)?,
            destination: address(destination)?,
            header,
            length: usize::from(be16(quote, if v4 { 2 } else { 4 })?) + if v4 { 0 } else { 40 },
            // Over IPv4: DF alone, no fragment.
            is_tunnel: is_vxlan
                && match v4 {
                    true => be16(quote, 6)? == 0x4000 && quote[8] <= 64 && quote[9] == 17,
                    false => quote[7] <= 64 && quote[6] == 17,
                },
            flow_label: if v4 { None } else { Some(be32(quote, 0)? & 0xf_ffff) },
            source_port: be16(udp, 0)?,
            udp_length: usize::from(be16(udp, 4)?),
        })
    }
}

/// Returns the hash of a tenant's packet as the gateway computes it
/// (programs/gateway/flow_hash.p4) with a secret; `None` if the quotation does not show its ports directly behind
/// its IP header.
fn inner_flow_hash(inner: &[u8], secret: u32) -> Option<u32> {
    let (addresses, protocol, header) = match inner.first()? {
        0x45 if be16(inner, 6)? & 0x3fff == 0 => (inner.get(12..20)?, *inner.get(9)?, 20),
        first if first >> 4 == 6 => (inner.get(8..40)?, *inner.get(6)?, 40),
        _ => return None,
    };
    let ports = inner.get(header..header + 4)?;
    let ports = match protocol {
        6 | 17 => [ports[0], ports[1], ports[2], ports[3]],
        1 | 58 => [0, ports[0], 0, ports[1]],
        _ => return None,
    };
    let mut flow = [addresses, &[protocol], &ports].concat();
    // The last word of each address, and the ports.
    let (half, length) = (addresses.len() / 2, flow.len());
    for end in [half, 2 * half, length] {
        let word = be32(&flow, end - 4)?.wrapping_add(secret);
        flow[end - 4..end].copy_from_slice(&word.to_be_bytes());
    }
    Some(hash(HashAlgorithm::Crc32, &flow) as u32)
}
