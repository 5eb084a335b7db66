//! The scalar values of a region file: MAC addresses, prefixes, port ranges, protocols.

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Parses a number in plain decimal digits. Rejects signs, leading zeros, other bases and digit
/// separators, because versions of YAML read them differently: `010` is 8 or 10, `1_0` is 10 or a
/// text, `1:20` is 80 or a text.
pub(crate) fn decimal<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

/// Quotes a text of the file for a message: on one line, visible, and at most 80 characters.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 80;
    let shown: String = text.chars().take(SHOWN).map(visible).collect();
    let more = if text.chars().nth(SHOWN).is_some() { "..." } else { "" };
    format!("`{shown}{more}`")
}

/// Escapes a character that ends a line or changes the display of the text after it.
pub(crate) fn visible(c: char) -> String {
    if matches!(c, '"' | '\'' | '\\') { c.to_string() } else { c.escape_debug().collect() }
}

/// An Ethernet address, in transmission order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Returns the address as a 48-bit number, the first byte in the highest bits.
    pub fn as_u64(self) -> u64 {
        self.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }
    /// Returns whether it is a group address (multicast or broadcast), which no single host has.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for Mac {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a MAC address such as 02:00:00:00:00:01", quoted(text));
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            // The digits are checked here, because `from_str_radix` alone accepts `+1`.
            let two_digits = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            let part = parts.next().filter(two_digits).ok_or_else(wrong)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        parts.next().is_none().then_some(Mac(bytes)).ok_or_else(wrong)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An IP prefix as written. Host bits can be set; the check rejects them. An address alone is a
/// prefix of full length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Prefix(pub IpNet);

impl Prefix {
    /// Returns the prefix without host bits.
    pub fn network(self) -> IpNet {
        self.0.trunc()
    }
    /// Returns whether bits after the prefix length are set.
    pub fn has_host_bits(self) -> bool {
        self.0 != self.0.trunc()
    }
}

impl FromStr for Prefix {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let net = address.parse::<IpAddr>().ok().and_then(|address| match len {
            None => Some(IpNet::from(address)),
            Some(len) => IpNet::new(address, decimal(len)?).ok(),
        });
        net.map(Prefix).ok_or_else(|| match text {
            "any" => "`any` is not a prefix: leave the key out, and any address matches".to_owned(),
            _ => format!("{} is not a prefix such as 10.0.0.0/24 or 2001:db8::/64", quoted(text)),
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Layer-4 ports, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ports {
    /// Lowest port.
    pub lo: u16,
    /// Highest port.
    pub hi: u16,
}

impl Ports {
    /// All ports.
    pub const ANY: Ports = Ports { lo: 0, hi: u16::MAX };
}

impl FromStr for Ports {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{} is not a port, a range such as 1000-1999, or any", quoted(text));
        if text == "any" {
            return Ok(Ports::ANY);
        }
        let (lo, hi) = text.split_once('-').unwrap_or((text, text));
        let parse = |s: &str| decimal(s.trim()).ok_or_else(wrong);
        let ports = Ports { lo: parse(lo)?, hi: parse(hi)? };
        if ports.lo > ports.hi {
            return Err(format!("the range `{text}` ends before it begins: write {}-{}", ports.hi, ports.lo));
        }
        Ok(ports)
    }
}

/// An IP protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Protocol {
    /// Any protocol.
    Any,
    /// ICMP over IPv4, ICMPv6 over IPv6.
    Icmp,
    /// A protocol by its number.
    Number(u8),
}

/// Protocol number of ICMP.
const ICMP: u8 = 1;
/// Protocol number of ICMPv6.
const ICMPV6: u8 = 58;

impl Protocol {
    /// Returns whether the protocol has ports.
    pub fn has_ports(self) -> bool {
        matches!(self, Protocol::Number(6 | 17 | 33 | 132 | 136))
    }

    /// Returns the protocol's numbers over IPv4 and IPv6; `None`: any protocol.
    pub(crate) fn numbers(self) -> Option<[u8; 2]> {
        match self {
            Protocol::Any => None,
            Protocol::Icmp => Some([ICMP, ICMPV6]),
            Protocol::Number(number) => Some([number; 2]),
        }
    }

    /// Returns whether its ICMP types are those of ICMPv6; `None` if it has no ICMP types.
    pub fn icmp_types(self) -> Option<bool> {
        match self {
            Protocol::Icmp | Protocol::Number(ICMP) => Some(false),
            Protocol::Number(ICMPV6) => Some(true),
            Protocol::Any | Protocol::Number(_) => None,
        }
    }
}

impl FromStr for Protocol {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "any" => Protocol::Any,
            "icmp" => Protocol::Icmp,
            "tcp" => Protocol::Number(6),
            "udp" => Protocol::Number(17),
            "dccp" => Protocol::Number(33),
            "icmpv6" => Protocol::Number(ICMPV6),
            "sctp" => Protocol::Number(132),
            "udplite" => Protocol::Number(136),
            _ => {
                let names = "tcp, udp, icmp, icmpv6, sctp, udplite, dccp, any, or 0-255";
                let number = decimal(text).ok_or_else(|| format!("{} is not a protocol: {names}", quoted(text)))?;
                Protocol::Number(number)
            }
        })
    }
}

/// A limit of TCP segments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TcpMss {
    /// What fits the uplink with the smallest MTU.
    Auto,
    /// A number of bytes of data in a segment.
    Bytes(u16),
}

impl TcpMss {
    /// Limits that a file can give: from what each host has to take (RFC 9293, section 3.7.1) to what
    /// fits in the largest IP packet.
    const RANGE: std::ops::RangeInclusive<u16> = 536..=65_495;
}

impl FromStr for TcpMss {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(TcpMss::Auto);
        }
        let bytes = decimal(text).filter(|bytes| TcpMss::RANGE.contains(bytes)).map(TcpMss::Bytes);
        let [least, most] = [TcpMss::RANGE.start(), TcpMss::RANGE.end()];
        bytes.ok_or_else(|| format!("{} is no limit of TCP segments: auto, or {least} to {most}", quoted(text)))
    }
}

/// Implements deserialization and the JSON Schema of a scalar that is written as a string or as a
/// plain number.
macro_rules! from_text {
    ($($name:ident: $description:literal, $example:literal, $schema:tt;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str($description) }
                    fn visit_str<E: Error>(self, text: &str) -> Result<$name, E> { text.parse().map_err(E::custom) }
                    fn visit_u64<E: Error>(self, n: u64) -> Result<$name, E> { self.visit_str(&n.to_string()) }
                    fn visit_i64<E: Error>(self, n: i64) -> Result<$name, E> { self.visit_str(&n.to_string()) }
                }
                deserializer.deserialize_str(Text)
            }
        }
        impl JsonSchema for $name {
            fn inline_schema() -> bool { true }
            fn schema_name() -> Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut schema = json_schema!($schema);
                schema.insert("description".into(), $description.into());
                schema.insert("examples".into(), serde_json::json!([$example]));
                schema
            }
        }
    )*};
}

from_text! {
    Mac: "a MAC address", "02:00:00:00:00:01", { "type": "string", "pattern": "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$" };
    Prefix: "an IPv4 or IPv6 prefix, or an address", "10.0.0.0/24", { "type": "string" };
    Ports: "a port, a range of ports, or any", "8000-8999",
        { "type": ["string", "integer"], "minimum": 0, "maximum": 65535 };
    TcpMss: "auto, or a number of bytes", "1360", { "type": ["string", "integer"], "minimum": 536, "maximum": 65495 };
    Protocol: "tcp, udp, icmp, icmpv6, sctp, udplite, dccp, any, or a protocol number", "tcp",
        { "type": ["string", "integer"], "minimum": 0, "maximum": 255 };
}
