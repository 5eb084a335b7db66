//! Builds the bytes of a packet from its layer description (`layers.rs`). Lengths, types and
//! checksums are computed unless given.

use super::layers::{PacketLayer, PacketSyntaxError, parse_layers};
use etherparse::checksum::Sum16BitWords;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Names of all layers.
const LAYERS: &str = "eth, vlan, arp, ipv4, ipv6, icmp, icmpv6, tcp, udp, vxlan, payload";
const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SOURCE_V4: [u8; 4] = [10, 0, 0, 1];
const OTHER_V4: [u8; 4] = [10, 0, 0, 2];
const SOURCE_V6: u128 = 0xfd00 << 112 | 1;
const OTHER_V6: u128 = 0xfd00 << 112 | 2;
/// Default source port of TCP and UDP.
const EPHEMERAL: u32 = 49152;
/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u32 = 4789;
const FLAGS: &[(&str, u32)] =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32), ("ece", 64), ("cwr", 128)];

/// Pseudo-header in the checksum of TCP, UDP or ICMPv6 (RFC 9293, section 3.1; RFC 8200, section
/// 8.1).
#[derive(Clone, Copy)]
enum PseudoHeader {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Builds the bytes of a described packet.
///
/// # Errors
/// If the description is invalid; the error has its location and the fix.
pub fn packet(text: &str) -> Result<Vec<u8>, PacketSyntaxError> {
    let layers = parse_layers(text)?;
    let bytes = build_layers(&layers, None)?;
    if bytes.len() > packet::MAX_WIRE_LEN {
        let what = format!("the packet has {} bytes; the longest has {}", bytes.len(), packet::MAX_WIRE_LEN);
        return Err(layers[0].bad(what));
    }
    Ok(bytes)
}

/// Builds the bytes of the layers from outside to inside. `around` are the addresses of the IP
/// header around them, for the checksums of TCP, UDP and ICMPv6.
fn build_layers(layers: &[PacketLayer<'_>], around: Option<PseudoHeader>) -> Result<Vec<u8>, PacketSyntaxError> {
    let Some((layer, inner)) = layers.split_first() else { return Ok(Vec::new()) };
    let next = inner.first();
    let bytes = match layer.name() {
        "eth" => build_ethernet(layer, inner, next),
        "vlan" => build_vlan(layer, inner, next),
        "arp" => build_arp(layer, inner),
        "ipv4" => build_ipv4(layer, inner, next),
        "ipv6" => build_ipv6(layer, inner, next),
        "icmp" => build_icmp(layer, inner, None, 8),
        "icmpv6" => build_icmp(layer, inner, around, 128),
        "tcp" => build_tcp(layer, inner, around),
        "udp" => build_udp(layer, inner, next, around),
        "vxlan" => build_vxlan(layer, inner),
        "payload" => build_payload(layer, inner),
        other => return Err(layer.bad(format!("`{other}` is no layer; there are {LAYERS}"))),
    }?;
    layer.refuse_unknown_fields(layer.name() == "payload")?;
    Ok(bytes)
}

/// Returns the number that identifies the next header: the value of `field` if given, else that of
/// the next layer in `known`, else `most`, the largest number of the field.
fn next_header_number(
    layer: &PacketLayer<'_>,
    field: &'static str,
    most: u32,
    next: Option<&PacketLayer<'_>>,
    known: &[(&str, u32)],
) -> Result<u32, PacketSyntaxError> {
    if let Some(number) = layer.number(field, most)? {
        return Ok(number);
    }
    let Some(next) = next else { return Ok(most) };
    let found = known.iter().find(|(name, _)| *name == next.name()).map(|(_, number)| *number);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).filter(|name| *name != "payload").collect();
    let name = layer.name();
    found.ok_or_else(|| match LAYERS.split(", ").any(|layer_name| layer_name == next.name()) {
        true => next.bad(format!(
            "{} does not follow {name}; put {} between, or give the next type with {name}({field}=NUMBER)",
            next.name(),
            names.join(" or ")
        )),
        false => next.bad(format!("`{}` is no layer; there are {LAYERS}", next.name())),
    })
}

/// EtherTypes by layer name. A payload gets the local experimental EtherType (IEEE 802).
const ETHERTYPES: &[(&str, u32)] =
    &[("ipv4", 0x0800), ("ipv6", 0x86dd), ("arp", 0x0806), ("vlan", 0x8100), ("payload", 0x88b5)];
/// IP protocols by layer name. A payload gets 253, which is for experiments (RFC 3692).
const PROTOCOLS: &[(&str, u32)] =
    &[("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("ipv4", 4), ("ipv6", 41), ("payload", 253)];

fn build_ethernet(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    next: Option<&PacketLayer<'_>>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let mut bytes = layer.mac_or_default("dst", OTHER_MAC)?.to_vec();
    bytes.extend(layer.mac_or_default("src", SOURCE_MAC)?);
    bytes.extend((next_header_number(layer, "type", 0xffff, next, ETHERTYPES)? as u16).to_be_bytes());
    bytes.extend(build_layers(inner, None)?);
    Ok(bytes)
}

/// Builds a VLAN tag (IEEE 802.1Q).
fn build_vlan(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    next: Option<&PacketLayer<'_>>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let (id, priority) = (layer.number_or("id", 4095, 1)?, layer.number_or("pcp", 7, 0)?);
    let tag = (priority << 13 | layer.number_or("dei", 1, 0)? << 12 | id) as u16;
    let mut bytes = tag.to_be_bytes().to_vec();
    bytes.extend((next_header_number(layer, "type", 0xffff, next, ETHERTYPES)? as u16).to_be_bytes());
    bytes.extend(build_layers(inner, None)?);
    Ok(bytes)
}

/// Builds an ARP message (RFC 826) for IPv4 over Ethernet.
fn build_arp(layer: &PacketLayer<'_>, inner: &[PacketLayer<'_>]) -> Result<Vec<u8>, PacketSyntaxError> {
    let operation = layer.named_number("op", &[("request", 1), ("reply", 2)], 0xffff, 1)? as u16;
    let mut bytes = vec![0, 1, 8, 0, 6, 4];
    bytes.extend(operation.to_be_bytes());
    bytes.extend(layer.mac_or_default("sha", SOURCE_MAC)?);
    bytes.extend(layer.ipv4_or_default("spa", SOURCE_V4)?.octets());
    bytes.extend(layer.mac_or_default("tha", if operation == 1 { [0; 6] } else { OTHER_MAC })?);
    bytes.extend(layer.ipv4_or_default("tpa", OTHER_V4)?.octets());
    bytes.extend(build_layers(inner, None)?);
    Ok(bytes)
}

/// Converts a length to 16 bits, or refuses it.
fn checked_length(layer: &PacketLayer<'_>, bytes: usize) -> Result<u16, PacketSyntaxError> {
    u16::try_from(bytes).map_err(|_| layer.bad(format!("{bytes} bytes are too many for {}", layer.name())))
}

/// Builds an IPv4 packet (RFC 791) without options.
fn build_ipv4(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    next: Option<&PacketLayer<'_>>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let (source, destination) = (layer.ipv4_or_default("src", SOURCE_V4)?, layer.ipv4_or_default("dst", OTHER_V4)?);
    let payload = build_layers(inner, Some(PseudoHeader::V4(source, destination)))?;
    let fragment = layer.number_or("df", 1, 0)? << 14 | layer.number_or("mf", 1, 0)? << 13;
    let fragment = (fragment | layer.number_or("offset", 0x1fff, 0)?) as u16;
    let mut bytes = vec![0x45, layer.number_or("tos", 255, 0)? as u8];
    bytes.extend(checked_length(layer, 20 + payload.len())?.to_be_bytes());
    bytes.extend((layer.number_or("id", 0xffff, 0)? as u16).to_be_bytes());
    bytes.extend(fragment.to_be_bytes());
    bytes.push(layer.number_or("ttl", 255, 64)? as u8);
    bytes.push(next_header_number(layer, "proto", 255, next, PROTOCOLS)? as u8);
    bytes.extend([0; 2]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    put_checksum(layer, &mut bytes, 10, Sum16BitWords::new())?;
    bytes.extend(payload);
    Ok(bytes)
}

/// Builds an IPv6 packet (RFC 8200) without extension headers.
fn build_ipv6(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    next: Option<&PacketLayer<'_>>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let (source, destination) = (layer.ipv6_or_default("src", SOURCE_V6)?, layer.ipv6_or_default("dst", OTHER_V6)?);
    let behind = build_layers(inner, Some(PseudoHeader::V6(source, destination)))?;
    let first = 6 << 28 | layer.number_or("class", 255, 0)? << 20 | layer.number_or("flow", 0xf_ffff, 0)?;
    let mut bytes = first.to_be_bytes().to_vec();
    bytes.extend(checked_length(layer, behind.len())?.to_be_bytes());
    bytes.push(next_header_number(layer, "next", 255, next, PROTOCOLS)? as u8);
    bytes.push(layer.number_or("hlim", 255, 64)? as u8);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(behind);
    Ok(bytes)
}

/// Builds an ICMP message (RFC 792, RFC 4443), by default an echo request.
fn build_icmp(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    around: Option<PseudoHeader>,
    echo: u32,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let mut bytes = vec![layer.number_or("type", 255, echo)? as u8, layer.number_or("code", 255, 0)? as u8, 0, 0];
    bytes.extend((layer.number_or("id", 0xffff, 1)? as u16).to_be_bytes());
    bytes.extend((layer.number_or("seq", 0xffff, 1)? as u16).to_be_bytes());
    bytes.extend(build_layers(inner, None)?);
    let sum = pseudo_header_sum(around, 58, bytes.len());
    put_checksum(layer, &mut bytes, 2, sum)?;
    Ok(bytes)
}

/// Builds a TCP segment (RFC 9293) without options.
fn build_tcp(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    around: Option<PseudoHeader>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let mut bytes = (layer.number_or("sport", 0xffff, EPHEMERAL)? as u16).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("dport", 0xffff, 80)? as u16).to_be_bytes());
    bytes.extend(layer.number_or("seq", u32::MAX, 0)?.to_be_bytes());
    bytes.extend(layer.number_or("ack", u32::MAX, 0)?.to_be_bytes());
    bytes.extend([5 << 4, layer.named_number("flags", FLAGS, 255, 2)? as u8]);
    bytes.extend((layer.number_or("window", 0xffff, 0xffff)? as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(build_layers(inner, None)?);
    let sum = pseudo_header_sum(around, 6, bytes.len());
    put_checksum(layer, &mut bytes, 16, sum)?;
    Ok(bytes)
}

/// Builds a UDP datagram (RFC 768).
fn build_udp(
    layer: &PacketLayer<'_>,
    inner: &[PacketLayer<'_>],
    next: Option<&PacketLayer<'_>>,
    around: Option<PseudoHeader>,
) -> Result<Vec<u8>, PacketSyntaxError> {
    let usual_port = if next.is_some_and(|next| next.name() == "vxlan") { VXLAN_PORT } else { 53 };
    let payload = build_layers(inner, None)?;
    let mut bytes = (layer.number_or("sport", 0xffff, EPHEMERAL)? as u16).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("dport", 0xffff, usual_port)? as u16).to_be_bytes());
    bytes.extend(checked_length(layer, 8 + payload.len())?.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(payload);
    let sum = pseudo_header_sum(around, 17, bytes.len());
    put_checksum(layer, &mut bytes, 6, sum)?;
    if bytes[6..8] == [0; 2] && layer.number("checksum", 0xffff)?.is_none() {
        // A checksum of 0 means that there is none, so 0 is sent as 0xffff.
        bytes[6..8].copy_from_slice(&[0xff; 2]);
    }
    Ok(bytes)
}

/// Builds a VXLAN packet (RFC 7348).
fn build_vxlan(layer: &PacketLayer<'_>, inner: &[PacketLayer<'_>]) -> Result<Vec<u8>, PacketSyntaxError> {
    let mut bytes = (layer.number_or("flags", 255, 8)? << 24).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("vni", 0xff_ffff, 1)? << 8).to_be_bytes());
    bytes.extend(build_layers(inner, None)?);
    Ok(bytes)
}

fn build_payload(layer: &PacketLayer<'_>, inner: &[PacketLayer<'_>]) -> Result<Vec<u8>, PacketSyntaxError> {
    let counted = layer.unnamed_value(packet::MAX_WIRE_LEN as u32)?;
    let bytes = match layer.bytes("hex")? {
        Some(bytes) => bytes,
        None => (0..counted.unwrap_or(0)).map(|at| at as u8).collect(),
    };
    match inner.first() {
        None => Ok(bytes),
        Some(inner) => Err(inner.bad("nothing follows payload; put payload last".to_owned())),
    }
}

/// Returns the checksum over the pseudo-header.
fn pseudo_header_sum(around: Option<PseudoHeader>, protocol: u8, length: usize) -> Sum16BitWords {
    let length = (length as u32).to_be_bytes();
    match around {
        None => Sum16BitWords::new(),
        Some(PseudoHeader::V4(source, destination)) => {
            let sum = Sum16BitWords::new().add_4bytes(source.octets()).add_4bytes(destination.octets());
            sum.add_2bytes([0, protocol]).add_4bytes(length)
        }
        Some(PseudoHeader::V6(source, destination)) => {
            let sum = Sum16BitWords::new().add_16bytes(source.octets()).add_16bytes(destination.octets());
            sum.add_2bytes([0, protocol]).add_4bytes(length)
        }
    }
}

/// Writes the checksum over `bytes` at offset `at`: the value of the field `checksum` if given,
/// else the correct one.
fn put_checksum(
    layer: &PacketLayer<'_>,
    bytes: &mut [u8],
    at: usize,
    sum: Sum16BitWords,
) -> Result<(), PacketSyntaxError> {
    let checksum = match layer.number("checksum", 0xffff)? {
        Some(given) => (given as u16).to_be_bytes(),
        None => sum.add_slice(bytes).ones_complement().to_ne_bytes(),
    };
    bytes[at..at + 2].copy_from_slice(&checksum);
    Ok(())
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
