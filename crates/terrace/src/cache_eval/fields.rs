//! Fields that the tables of the pipelines match on, and the bits that a rule matches in a field.

/// A header field or metadata of a packet. Named like the keys that match on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are those of the keys
pub enum Field {
    InPort,
    Vlan,
    EthType,
    DlSrc,
    DlDst,
    NwSrc,
    NwDst,
    NwProto,
    TpSrc,
    TpDst,
    MplsOuter,
    MplsInner,
    Ipv6Dst,
}

/// Number of fields.
pub const FIELDS: usize = 13;

/// Value of each field, by [`Field::index`], in host order.
pub type Values = [u128; FIELDS];

impl Field {
    /// All fields, in the order of their indices.
    pub const ALL: [Field; FIELDS] = [
        Field::InPort,
        Field::Vlan,
        Field::EthType,
        Field::DlSrc,
        Field::DlDst,
        Field::NwSrc,
        Field::NwDst,
        Field::NwProto,
        Field::TpSrc,
        Field::TpDst,
        Field::MplsOuter,
        Field::MplsInner,
        Field::Ipv6Dst,
    ];

    /// Returns the index in [`Values`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the name of the keys that match on the field.
    pub fn name(self) -> &'static str {
        match self {
            Field::InPort => "in_port",
            Field::Vlan => "vlan",
            Field::EthType => "eth_type",
            Field::DlSrc => "dl_src",
            Field::DlDst => "dl_dst",
            Field::NwSrc => "nw_src",
            Field::NwDst => "nw_dst",
            Field::NwProto => "nw_proto",
            Field::TpSrc => "tp_src",
            Field::TpDst => "tp_dst",
            Field::MplsOuter => "mpls_outer",
            Field::MplsInner => "mpls_inner",
            Field::Ipv6Dst => "ipv6_dst",
        }
    }

    /// Returns the field that a key of this name matches on. `None` if no rule constrains it
    /// (`out_port`).
    pub fn named(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Returns the width in bits.
    pub fn width(self) -> u32 {
        match self {
            Field::Vlan => 12,
            Field::NwProto => 8,
            Field::EthType | Field::TpSrc | Field::TpDst => 16,
            Field::MplsOuter | Field::MplsInner => 20,
            Field::InPort | Field::NwSrc | Field::NwDst => 32,
            Field::DlSrc | Field::DlDst => 48,
            Field::Ipv6Dst => 128,
        }
    }

    /// Returns a mask of all bits of the field.
    pub fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.width())
    }
}

/// Ternary match of a field. The value is 0 where the mask is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Bits {
    /// Value of the matched bits.
    pub value: u128,
    /// Mask with 1 for each matched bit.
    pub mask: u128,
}

impl Bits {
    /// Matches any value.
    pub const ANY: Bits = Bits { value: 0, mask: 0 };

    /// Matches the first `len` bits of a field.
    pub fn prefix(field: Field, value: u128, len: u32) -> Bits {
        let (width, all) = (field.width(), field.all_bits());
        let mask = if len == 0 { 0 } else { all & !(all.checked_shr(len).unwrap_or(0)) };
        debug_assert!(len <= width);
        Bits { value: value & mask, mask }
    }

    /// Matches all bits of a field.
    pub fn exact(field: Field, value: u128) -> Bits {
        Bits { value: value & field.all_bits(), mask: field.all_bits() }
    }

    /// Returns whether a value matches.
    pub fn holds(self, value: u128) -> bool {
        value & self.mask == self.value
    }
}

/// Returns the fewest prefixes that cover a range of 16-bit numbers, bounds included: at most 30.
pub fn prefixes(lo: u16, hi: u16) -> Vec<Bits> {
    let (mut lo, hi) = (u32::from(lo), u32::from(hi));
    let mut out = Vec::new();
    while lo <= hi {
        let mut size = if lo == 0 { 1 << 16 } else { 1 << lo.trailing_zeros() };
        while lo + (size - 1) > hi {
            size >>= 1;
        }
        out.push(Bits { value: u128::from(lo), mask: u128::from(0xffff & !(size - 1)) });
        lo += size;
    }
    out
}

/// Returns a pseudo-random number that depends only on `seed` and `parts`: the mixing function of
/// splitmix64 over each part.
pub fn mix(seed: u64, parts: &[u64]) -> u64 {
    let mut state = seed;
    for part in parts {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(*part);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_covered_exactly_once() {
        for (lo, hi) in [(0, 65535), (80, 80), (1024, 65535), (1, 65534), (7, 9), (0, 0), (65535, 65535)] {
            let found = prefixes(lo, hi);
            assert!(found.len() <= 30);
            for port in 0..=65535_u16 {
                let times = found.iter().filter(|bits| bits.holds(u128::from(port))).count();
                assert_eq!(times, usize::from((lo..=hi).contains(&port)), "{port} in {lo}..={hi}");
            }
        }
        assert_eq!(prefixes(0, 65535), [Bits::ANY]);
        assert_eq!(prefixes(1024, 65535).len(), 6);
    }

    #[test]
    fn prefixes_of_fields() {
        assert_eq!(Bits::prefix(Field::NwDst, 0x0a01_02ff, 24), Bits { value: 0x0a01_0200, mask: 0xffff_ff00 });
        assert_eq!(Bits::prefix(Field::NwDst, 7, 0), Bits::ANY);
        assert_eq!(Bits::prefix(Field::Ipv6Dst, 7, 128).mask, u128::MAX);
        assert_eq!(Bits::exact(Field::Vlan, 0x1fff).value, 0xfff);
    }

    #[test]
    fn names_are_those_of_fields() {
        for field in Field::ALL {
            assert_eq!(Field::named(field.name()), Some(field));
            assert_eq!(Field::ALL[field.index()], field);
        }
        assert_eq!(Field::named("out_port"), None);
    }
}
