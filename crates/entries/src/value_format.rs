//! Formatting of values for people, shared by all code that shows entries, packets and their paths.
//!
//! A number is formatted as an address because of P4Info's `@format` annotation (P4Runtime
//! specification, section "Bytestrings"), the name of its type, or, with a fitting width, its own
//! name. Any other number is decimal up to 16 bits and hexadecimal beyond.

use ir::{KeyMatch, MatchKey, Param, Type};
use num_bigint::BigUint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Notation of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueNotation {
    Bool,
    Number,
    Mac,
    Ipv4,
    Ipv6,
}

/// Formatter of the values of a key, parameter or variable.
#[derive(Clone, Copy, Debug)]
pub struct ValueFormat<'a> {
    /// Name of the key, parameter or variable.
    pub name: &'a str,
    /// Type of the values.
    pub ty: Type,
    /// Annotations, as written in the program.
    pub annotations: &'a [String],
    /// The name of the `type` or enum in the program.
    pub type_name: Option<&'a str>,
}

impl<'a> From<&'a MatchKey> for ValueFormat<'a> {
    fn from(key: &'a MatchKey) -> ValueFormat<'a> {
        let MatchKey { name, ty, annotations, type_name, .. } = key;
        ValueFormat { name, ty: *ty, annotations, type_name: type_name.as_deref() }
    }
}

impl<'a> From<&'a Param> for ValueFormat<'a> {
    fn from(param: &'a Param) -> ValueFormat<'a> {
        let Param { name, ty, annotations, type_name, .. } = param;
        ValueFormat { name, ty: *ty, annotations, type_name: type_name.as_deref() }
    }
}

/// Parts of names that suggest an IP address.
const ADDRESS_NAME_PARTS: [&str; 20] = [
    "ip",
    "ipv4",
    "ipv6",
    "addr",
    "address",
    "src",
    "dst",
    "source",
    "destination",
    "vtep",
    "nexthop",
    "gateway",
    "prefix",
    "host",
    "network",
    "nc",
    "server",
    "vm",
    "public",
    "remote",
];
/// Parts of names that suggest a MAC address.
const MAC_NAME_PARTS: [&str; 9] = ["mac", "dmac", "smac", "eth", "ethernet", "addr", "src", "dst", "address"];

impl ValueFormat<'_> {
    /// Returns the notation of the value: as an address if its width fits and an annotation
    /// `@format`, the name of its type or a word of its own name says so; as a number otherwise.
    fn notation(&self) -> ValueNotation {
        if self.ty == Type::Bool {
            return ValueNotation::Bool;
        }
        let has_format =
            |format: &str| self.annotations.iter().any(|text| text.contains("@format") && text.contains(format));
        let type_name = self.type_name.unwrap_or_default().to_lowercase();
        let name_has_part = |parts: &[&str]| {
            let name = self.name.to_lowercase();
            name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| parts.contains(&part))
        };
        match self.ty.width() {
            48 if has_format("MAC_ADDRESS") || type_name.contains("mac") || name_has_part(&MAC_NAME_PARTS) => {
                ValueNotation::Mac
            }
            32 if has_format("IPV4_ADDRESS") || type_name.contains("ip") || name_has_part(&ADDRESS_NAME_PARTS) => {
                ValueNotation::Ipv4
            }
            128 if has_format("IPV6_ADDRESS") || type_name.contains("ip") || name_has_part(&ADDRESS_NAME_PARTS) => {
                ValueNotation::Ipv6
            }
            _ => ValueNotation::Number,
        }
    }

    /// Formats a value.
    pub fn format_value(&self, value: &BigUint) -> String {
        let low = |value: &BigUint| value.iter_u64_digits().next().unwrap_or(0);
        match self.notation() {
            ValueNotation::Bool => (*value != BigUint::ZERO).to_string(),
            ValueNotation::Mac => {
                low(value).to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
            }
            ValueNotation::Ipv4 => Ipv4Addr::from_bits(low(value) as u32).to_string(),
            ValueNotation::Ipv6 => {
                let mut digits = value.iter_u64_digits();
                let [least, most] = [(); 2].map(|()| u128::from(digits.next().unwrap_or(0)));
                Ipv6Addr::from_bits(most << 64 | least).to_string()
            }
            ValueNotation::Number if self.ty.width() <= 16 => value.to_string(),
            ValueNotation::Number => format!("{value:#x}"),
        }
    }

    /// Formats a match.
    pub fn format_match(&self, given: &KeyMatch) -> String {
        match given {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => self.format_value(value),
            KeyMatch::Optional(None) => "*".to_owned(),
            KeyMatch::Ternary { mask, .. } if *mask == BigUint::ZERO => "*".to_owned(),
            KeyMatch::Ternary { value, mask } if is_all_ones(mask, self.ty.width()) => self.format_value(value),
            KeyMatch::Ternary { value, mask } => {
                format!("{} &&& {}", self.format_value(value), self.format_value(mask))
            }
            KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", self.format_value(value)),
            KeyMatch::Range { lo, hi } => format!("{}..{}", self.format_value(lo), self.format_value(hi)),
        }
    }
}

fn is_all_ones(mask: &BigUint, width: u32) -> bool {
    mask.count_ones() == u64::from(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, bits: u32, type_name: Option<&str>, annotation: &str, value: u128) -> String {
        let annotations = [annotation.to_owned()];
        let format = ValueFormat { name, ty: Type::Bit(bits), annotations: &annotations, type_name };
        format.format_value(&BigUint::from(value))
    }

    #[test]
    fn addresses_are_written_as_addresses_and_numbers_as_numbers() {
        assert_eq!(shown("hdr.ipv4.dst", 32, None, "", 0x0a00_0001), "10.0.0.1");
        assert_eq!(shown("meta.x", 32, None, "@format(IPV4_ADDRESS)", 0x0a00_0001), "10.0.0.1");
        assert_eq!(shown("meta.x", 32, Some("ipv4_addr_t"), "", 0x0a00_0001), "10.0.0.1");
        assert_eq!(shown("meta.vni_and_more", 32, None, "", 0x0a00_0001), "0xa000001");
        assert_eq!(shown("hdr.eth.dst", 48, None, "", 0x0200_0000_0001), "02:00:00:00:00:01");
        assert_eq!(shown("meta.time", 48, None, "", 5), "0x5");
        assert_eq!(shown("dst", 128, None, "", 0xfd00 << 112 | 1), "fd00::1");
        assert_eq!(shown("server", 32, None, "", 0xc000_020c), "192.0.2.12");
        assert_eq!(shown("remote", 32, None, "", 0xcb00_7109), "203.0.113.9");
        assert_eq!(shown("first_public", 32, None, "", 0xcb00_7109), "203.0.113.9");
        assert_eq!(shown("remote", 16, None, "", 3), "3");
        assert_eq!(shown("hdr.udp.dst", 16, None, "", 4789), "4789");
    }
}
