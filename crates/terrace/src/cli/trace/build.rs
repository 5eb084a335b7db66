//! From a packet in words (`layers.rs`) to its bytes: lengths, types and checksums are filled in unless given.

use super::layers::{BadLayers, Layer, parse};
use etherparse::checksum::Sum16BitWords;
use std::net::{Ipv4Addr, Ipv6Addr};

/// All layers.
const LAYERS: &str = "eth, vlan, arp, ipv4, ipv6, icmp, icmpv6, tcp, udp, vxlan, payload";
const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SOURCE_V4: [u8; 4] = [10, 0, 0, 1];
const OTHER_V4: [u8; 4] = [10, 0, 0, 2];
const SOURCE_V6: u128 = 0xfd00 << 112 | 1;
const OTHER_V6: u128 = 0xfd00 << 112 | 2;
/// TCP's and UDP's port of whoever begins, unless given.
const EPHEMERAL: u32 = 49152;
/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u32 = 4789;
const FLAGS: &[(&str, u32)] =
    &[("fin", 1), ("syn", 2), ("rst", 4), ("psh", 8), ("ack", 16), ("urg", 32), ("ece", 64), ("cwr", 128)];

/// What a checksum of TCP, UDP or ICMPv6 takes from around it (RFC 9293, section 3.1; RFC 8200, section 8.1).
#[derive(Clone, Copy)]
enum Around {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// The bytes of a packet in words.
///
/// # Errors
/// If the words are no packet, with the place and the mend.
pub fn packet(text: &str) -> Result<Vec<u8>, BadLayers> {
    let layers = parse(text)?;
    let bytes = build(&layers, None)?;
    if bytes.len() > packet::MAX_LEN {
        let what = format!("the packet has {} bytes; the longest has {}", bytes.len(), packet::MAX_LEN);
        return Err(layers[0].bad(what));
    }
    Ok(bytes)
}

fn build(layers: &[Layer<'_>], around: Option<Around>) -> Result<Vec<u8>, BadLayers> {
    let Some((layer, inner)) = layers.split_first() else { return Ok(Vec::new()) };
    let next = inner.first();
    let bytes = match layer.name() {
        "eth" => ethernet(layer, inner, next),
        "vlan" => vlan(layer, inner, next),
        "arp" => arp(layer, inner),
        "ipv4" => ipv4(layer, inner, next),
        "ipv6" => ipv6(layer, inner, next),
        "icmp" => icmp(layer, inner, None, 8),
        "icmpv6" => icmp(layer, inner, around, 128),
        "tcp" => tcp(layer, inner, around),
        "udp" => udp(layer, inner, next, around),
        "vxlan" => vxlan(layer, inner),
        "payload" => payload(layer, inner),
        other => return Err(layer.bad(format!("`{other}` is no layer; there are {LAYERS}"))),
    }?;
    layer.end(layer.name() == "payload")?;
    Ok(bytes)
}

/// The number by which a header says what follows: given as `field`, or known from the next layer.
fn following(
    layer: &Layer<'_>,
    field: &'static str,
    most: u32,
    next: Option<&Layer<'_>>,
    known: &[(&str, u32)],
) -> Result<u32, BadLayers> {
    if let Some(given) = layer.number(field, most)? {
        return Ok(given);
    }
    let Some(next) = next else { return Ok(most) };
    let found = known.iter().find(|(name, _)| *name == next.name()).map(|(_, number)| *number);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).filter(|name| *name != "payload").collect();
    let own = layer.name();
    found.ok_or_else(|| match LAYERS.split(", ").any(|name| name == next.name()) {
        true => next.bad(format!(
            "{} does not follow {own}; put {} between, or say what follows with {own}({field}=NUMBER)",
            next.name(),
            names.join(" or ")
        )),
        false => next.bad(format!("`{}` is no layer; there are {LAYERS}", next.name())),
    })
}

/// The local experimental ethertype (IEEE 802), for a payload of no kind.
const ETHERTYPES: &[(&str, u32)] =
    &[("ipv4", 0x0800), ("ipv6", 0x86dd), ("arp", 0x0806), ("vlan", 0x8100), ("payload", 0x88b5)];
/// 253 is for experiments (RFC 3692).
const PROTOCOLS: &[(&str, u32)] =
    &[("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("ipv4", 4), ("ipv6", 41), ("payload", 253)];

fn ethernet(layer: &Layer<'_>, inner: &[Layer<'_>], next: Option<&Layer<'_>>) -> Result<Vec<u8>, BadLayers> {
    let mut bytes = layer.mac("dst", OTHER_MAC)?.to_vec();
    bytes.extend(layer.mac("src", SOURCE_MAC)?);
    bytes.extend((following(layer, "type", 0xffff, next, ETHERTYPES)? as u16).to_be_bytes());
    bytes.extend(build(inner, None)?);
    Ok(bytes)
}

/// IEEE 802.1Q.
fn vlan(layer: &Layer<'_>, inner: &[Layer<'_>], next: Option<&Layer<'_>>) -> Result<Vec<u8>, BadLayers> {
    let (id, priority) = (layer.number_or("id", 4095, 1)?, layer.number_or("pcp", 7, 0)?);
    let tag = (priority << 13 | layer.number_or("dei", 1, 0)? << 12 | id) as u16;
    let mut bytes = tag.to_be_bytes().to_vec();
    bytes.extend((following(layer, "type", 0xffff, next, ETHERTYPES)? as u16).to_be_bytes());
    bytes.extend(build(inner, None)?);
    Ok(bytes)
}

/// RFC 826, for IPv4 over Ethernet.
fn arp(layer: &Layer<'_>, inner: &[Layer<'_>]) -> Result<Vec<u8>, BadLayers> {
    let operation = layer.named("op", &[("request", 1), ("reply", 2)], 0xffff, 1)? as u16;
    let mut bytes = vec![0, 1, 8, 0, 6, 4];
    bytes.extend(operation.to_be_bytes());
    bytes.extend(layer.mac("sha", SOURCE_MAC)?);
    bytes.extend(layer.v4("spa", SOURCE_V4)?.octets());
    bytes.extend(layer.mac("tha", if operation == 1 { [0; 6] } else { OTHER_MAC })?);
    bytes.extend(layer.v4("tpa", OTHER_V4)?.octets());
    bytes.extend(build(inner, None)?);
    Ok(bytes)
}

/// A length that has to fit into 16 bits.
fn length(layer: &Layer<'_>, bytes: usize) -> Result<u16, BadLayers> {
    u16::try_from(bytes).map_err(|_| layer.bad(format!("{bytes} bytes are too many for {}", layer.name())))
}

/// RFC 791, without options.
fn ipv4(layer: &Layer<'_>, inner: &[Layer<'_>], next: Option<&Layer<'_>>) -> Result<Vec<u8>, BadLayers> {
    let (source, destination) = (layer.v4("src", SOURCE_V4)?, layer.v4("dst", OTHER_V4)?);
    let behind = build(inner, Some(Around::V4(source, destination)))?;
    let fragment = layer.number_or("df", 1, 0)? << 14 | layer.number_or("mf", 1, 0)? << 13;
    let fragment = (fragment | layer.number_or("offset", 0x1fff, 0)?) as u16;
    let mut bytes = vec![0x45, layer.number_or("tos", 255, 0)? as u8];
    bytes.extend(length(layer, 20 + behind.len())?.to_be_bytes());
    bytes.extend((layer.number_or("id", 0xffff, 0)? as u16).to_be_bytes());
    bytes.extend(fragment.to_be_bytes());
    bytes.push(layer.number_or("ttl", 255, 64)? as u8);
    bytes.push(following(layer, "proto", 255, next, PROTOCOLS)? as u8);
    bytes.extend([0; 2]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    put_checksum(layer, &mut bytes, 10, Sum16BitWords::new())?;
    bytes.extend(behind);
    Ok(bytes)
}

/// RFC 8200, without extension headers.
fn ipv6(layer: &Layer<'_>, inner: &[Layer<'_>], next: Option<&Layer<'_>>) -> Result<Vec<u8>, BadLayers> {
    let (source, destination) = (layer.v6("src", SOURCE_V6)?, layer.v6("dst", OTHER_V6)?);
    let behind = build(inner, Some(Around::V6(source, destination)))?;
    let first = 6 << 28 | layer.number_or("class", 255, 0)? << 20 | layer.number_or("flow", 0xf_ffff, 0)?;
    let mut bytes = first.to_be_bytes().to_vec();
    bytes.extend(length(layer, behind.len())?.to_be_bytes());
    bytes.push(following(layer, "next", 255, next, PROTOCOLS)? as u8);
    bytes.push(layer.number_or("hlim", 255, 64)? as u8);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(behind);
    Ok(bytes)
}

/// RFC 792 and RFC 4443: an echo unless told otherwise.
fn icmp(layer: &Layer<'_>, inner: &[Layer<'_>], around: Option<Around>, echo: u32) -> Result<Vec<u8>, BadLayers> {
    let mut bytes = vec![layer.number_or("type", 255, echo)? as u8, layer.number_or("code", 255, 0)? as u8, 0, 0];
    bytes.extend((layer.number_or("id", 0xffff, 1)? as u16).to_be_bytes());
    bytes.extend((layer.number_or("seq", 0xffff, 1)? as u16).to_be_bytes());
    bytes.extend(build(inner, None)?);
    let sum = pseudo(around, 58, bytes.len());
    put_checksum(layer, &mut bytes, 2, sum)?;
    Ok(bytes)
}

/// RFC 9293, without options.
fn tcp(layer: &Layer<'_>, inner: &[Layer<'_>], around: Option<Around>) -> Result<Vec<u8>, BadLayers> {
    let mut bytes = (layer.number_or("sport", 0xffff, EPHEMERAL)? as u16).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("dport", 0xffff, 80)? as u16).to_be_bytes());
    bytes.extend(layer.number_or("seq", u32::MAX, 0)?.to_be_bytes());
    bytes.extend(layer.number_or("ack", u32::MAX, 0)?.to_be_bytes());
    bytes.extend([5 << 4, layer.named("flags", FLAGS, 255, 2)? as u8]);
    bytes.extend((layer.number_or("window", 0xffff, 0xffff)? as u16).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(build(inner, None)?);
    let sum = pseudo(around, 6, bytes.len());
    put_checksum(layer, &mut bytes, 16, sum)?;
    Ok(bytes)
}

/// RFC 768.
fn udp(
    layer: &Layer<'_>,
    inner: &[Layer<'_>],
    next: Option<&Layer<'_>>,
    around: Option<Around>,
) -> Result<Vec<u8>, BadLayers> {
    let usual = if next.is_some_and(|next| next.name() == "vxlan") { VXLAN_PORT } else { 53 };
    let behind = build(inner, None)?;
    let mut bytes = (layer.number_or("sport", 0xffff, EPHEMERAL)? as u16).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("dport", 0xffff, usual)? as u16).to_be_bytes());
    bytes.extend(length(layer, 8 + behind.len())?.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(behind);
    let sum = pseudo(around, 17, bytes.len());
    put_checksum(layer, &mut bytes, 6, sum)?;
    if bytes[6..8] == [0; 2] && layer.number("checksum", 0xffff)?.is_none() {
        // 0 says that there is none.
        bytes[6..8].copy_from_slice(&[0xff; 2]);
    }
    Ok(bytes)
}

/// RFC 7348.
fn vxlan(layer: &Layer<'_>, inner: &[Layer<'_>]) -> Result<Vec<u8>, BadLayers> {
    let mut bytes = (layer.number_or("flags", 255, 8)? << 24).to_be_bytes().to_vec();
    bytes.extend((layer.number_or("vni", 0xff_ffff, 1)? << 8).to_be_bytes());
    bytes.extend(build(inner, None)?);
    Ok(bytes)
}

fn payload(layer: &Layer<'_>, inner: &[Layer<'_>]) -> Result<Vec<u8>, BadLayers> {
    let counted = layer.alone(packet::MAX_LEN as u32)?;
    let bytes = match layer.bytes("hex")? {
        Some(bytes) => bytes,
        None => (0..counted.unwrap_or(0)).map(|at| at as u8).collect(),
    };
    match inner.first() {
        None => Ok(bytes),
        Some(inner) => Err(inner.bad("nothing follows payload; put payload last".to_owned())),
    }
}

/// What a checksum begins with.
fn pseudo(around: Option<Around>, protocol: u8, length: usize) -> Sum16BitWords {
    let length = (length as u32).to_be_bytes();
    match around {
        None => Sum16BitWords::new(),
        Some(Around::V4(source, destination)) => {
            let sum = Sum16BitWords::new().add_4bytes(source.octets()).add_4bytes(destination.octets());
            sum.add_2bytes([0, protocol]).add_4bytes(length)
        }
        Some(Around::V6(source, destination)) => {
            let sum = Sum16BitWords::new().add_16bytes(source.octets()).add_16bytes(destination.octets());
            sum.add_2bytes([0, protocol]).add_4bytes(length)
        }
    }
}

/// The checksum over `bytes`, at that place in them: given as `checksum`, or right.
fn put_checksum(layer: &Layer<'_>, bytes: &mut [u8], at: usize, sum: Sum16BitWords) -> Result<(), BadLayers> {
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
