//! [`Meaning`]: values as a person reads them, addresses as addresses. The one rule for all that shows entries, packets and their ways.
//!
//! That a number is an address is known from P4Info's `@format` annotation (P4Runtime specification, section "Bytestrings"), from the name of its type,
//! or, with a fitting width, from its own name. What is none of these is decimal up to 16 bits, hexadecimal beyond.

use ir::{Key, KeyMatch, Param, Type};
use num_bigint::BigUint;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bool,
    Number,
    Mac,
    Ipv4,
    Ipv6,
}

/// What is known of a key, a parameter or a variable, to write its values for people.
#[derive(Clone, Copy, Debug)]
pub struct Meaning<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type.
    pub ty: Type,
    /// Its annotations, as written in the program.
    pub annotations: &'a [String],
    /// The name of the `type` or enum that it has in the program.
    pub type_name: Option<&'a str>,
}

impl<'a> From<&'a Key> for Meaning<'a> {
    fn from(key: &'a Key) -> Meaning<'a> {
        let Key { name, ty, annotations, type_name, .. } = key;
        Meaning { name, ty: *ty, annotations, type_name: type_name.as_deref() }
    }
}

impl<'a> From<&'a Param> for Meaning<'a> {
    fn from(param: &'a Param) -> Meaning<'a> {
        let Param { name, ty, annotations, type_name, .. } = param;
        Meaning { name, ty: *ty, annotations, type_name: type_name.as_deref() }
    }
}

/// Parts of names of what holds an address.
const ADDRESSES: [&str; 17] = [
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
];
/// The same, of a MAC address.
const MACS: [&str; 9] = ["mac", "dmac", "smac", "eth", "ethernet", "addr", "src", "dst", "address"];

impl Meaning<'_> {
    fn form(&self) -> Form {
        if self.ty == Type::Bool {
            return Form::Bool;
        }
        let said = |format: &str| self.annotations.iter().any(|text| text.contains("@format") && text.contains(format));
        let type_name = self.type_name.unwrap_or_default().to_lowercase();
        let named = |parts: &[&str]| {
            let name = self.name.to_lowercase();
            name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| parts.contains(&part))
        };
        match self.ty.width() {
            48 if said("MAC_ADDRESS") || type_name.contains("mac") || named(&MACS) => Form::Mac,
            32 if said("IPV4_ADDRESS") || type_name.contains("ip") || named(&ADDRESSES) => Form::Ipv4,
            128 if said("IPV6_ADDRESS") || type_name.contains("ip") || named(&ADDRESSES) => Form::Ipv6,
            _ => Form::Number,
        }
    }

    /// A value.
    pub fn value(&self, value: &BigUint) -> String {
        let low = |value: &BigUint| value.iter_u64_digits().next().unwrap_or(0);
        match self.form() {
            Form::Bool => (*value != BigUint::ZERO).to_string(),
            Form::Mac => low(value).to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":"),
            Form::Ipv4 => Ipv4Addr::from_bits(low(value) as u32).to_string(),
            Form::Ipv6 => {
                let mut digits = value.iter_u64_digits();
                let [least, most] = [(); 2].map(|()| u128::from(digits.next().unwrap_or(0)));
                Ipv6Addr::from_bits(most << 64 | least).to_string()
            }
            Form::Number if self.ty.width() <= 16 => value.to_string(),
            Form::Number => format!("{value:#x}"),
        }
    }

    /// What a key is to match.
    pub fn matched(&self, given: &KeyMatch) -> String {
        match given {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => self.value(value),
            KeyMatch::Optional(None) => "*".to_owned(),
            KeyMatch::Ternary { mask, .. } if *mask == BigUint::ZERO => "*".to_owned(),
            KeyMatch::Ternary { value, mask } if is_all_ones(mask, self.ty.width()) => self.value(value),
            KeyMatch::Ternary { value, mask } => format!("{} &&& {}", self.value(value), self.value(mask)),
            KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", self.value(value)),
            KeyMatch::Range { lo, hi } => format!("{}..{}", self.value(lo), self.value(hi)),
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
        let meaning = Meaning { name, ty: Type::Bit(bits), annotations: &annotations, type_name };
        meaning.value(&BigUint::from(value))
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
        assert_eq!(shown("hdr.udp.dst", 16, None, "", 4789), "4789");
    }
}
