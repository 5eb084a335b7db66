//! Matching of one key field. This module defines the meaning of the match kinds for all crates
//! except the reference engine, which has its own implementation, so that a mistake is not made
//! twice.
//!
//! ```text
//! 10.1.0.0/16            Prefix { value: 10.1.0.0, len: 16 }      mask 255.255.0.0
//! 10.1.0.0 &&& 255.255.0.0   Masked { value, mask }               mask 255.255.0.0
//! 80..443                Range { low: 80, high: 443 }             mask 0, and two bounds
//! ```

use crate::layout::PackedKeyField;
use ir::MatchKind;
use std::cmp::Ordering;

/// Match of an entry for one field. Numbers are words, least significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum KeyFieldPattern<'k> {
    /// Any value.
    Any,
    /// Exactly this value.
    Value(&'k [u64]),
    /// Values that are equal where the mask is 1.
    Masked { value: &'k [u64], mask: &'k [u64] },
    /// Values with the same first `len` bits.
    Prefix { value: &'k [u64], len: u64 },
    /// Values within both bounds, in the order of the field's type.
    Range { low: &'k [u64], high: &'k [u64] },
}

impl<'k> KeyFieldPattern<'k> {
    /// Returns word `index` of the mask for a field of `width` bits: a matching value is equal
    /// where the mask is 1. The mask of a range is 0.
    pub fn mask(&self, width: u32, index: usize) -> u64 {
        let field = low_ones(width.into(), index);
        match *self {
            KeyFieldPattern::Any | KeyFieldPattern::Range { .. } => 0,
            KeyFieldPattern::Value(_) => field,
            KeyFieldPattern::Masked { mask, .. } => field & mask[index],
            KeyFieldPattern::Prefix { len, .. } => field & !low_ones(u64::from(width).saturating_sub(len), index),
        }
    }

    /// Returns the only value of `width` bits that matches, if there is exactly one.
    pub fn only_value(&self, width: u32) -> Option<&'k [u64]> {
        match *self {
            KeyFieldPattern::Any => None,
            KeyFieldPattern::Value(value) => Some(value),
            KeyFieldPattern::Masked { value, mask } => {
                (mask.iter().map(|word| word.count_ones()).sum::<u32>() == width).then_some(value)
            }
            KeyFieldPattern::Prefix { value, len } => (len == u64::from(width)).then_some(value),
            KeyFieldPattern::Range { low, high } => (low == high).then_some(low),
        }
    }
}

/// Returns word `index` of a number with ones in the lowest `count` bits.
fn low_ones(count: u64, index: usize) -> u64 {
    match count.saturating_sub(64 * index as u64) {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    }
}

impl PackedKeyField {
    /// Returns the match of an entry's packed key for the field.
    pub fn pattern<'k>(&self, key: &'k [u64]) -> KeyFieldPattern<'k> {
        let (value, second) = (self.value(key), self.second(key));
        match self.kind {
            MatchKind::Exact => KeyFieldPattern::Value(value),
            MatchKind::Ternary => KeyFieldPattern::Masked { value, mask: second },
            MatchKind::Lpm => KeyFieldPattern::Prefix { value, len: second[0] },
            MatchKind::Range => KeyFieldPattern::Range { low: value, high: second },
            MatchKind::Optional if second[0] == 0 => KeyFieldPattern::Any,
            MatchKind::Optional => KeyFieldPattern::Value(value),
            MatchKind::Selector => KeyFieldPattern::Any,
        }
    }

    /// Reports whether an entry's packed key matches a value of the field.
    pub fn matches(&self, key: &[u64], value: &[u64]) -> bool {
        match self.pattern(key) {
            KeyFieldPattern::Range { low, high } => {
                self.compare(low, value) != Ordering::Greater && self.compare(value, high) != Ordering::Greater
            }
            pattern => self.equal_under_mask(self.value(key), value, |index| pattern.mask(self.width, index)),
        }
    }

    /// Reports whether some value matches the packed keys of both entries.
    pub fn overlaps(&self, key: &[u64], other: &[u64]) -> bool {
        match (self.pattern(key), self.pattern(other)) {
            (KeyFieldPattern::Range { low, high }, KeyFieldPattern::Range { low: other_low, high: other_high }) => {
                self.compare(low, other_high) != Ordering::Greater && self.compare(other_low, high) != Ordering::Greater
            }
            (one, two) => self.equal_under_mask(self.value(key), self.value(other), |index| {
                one.mask(self.width, index) & two.mask(self.width, index)
            }),
        }
    }

    /// Reports whether an entry's packed key can match a value of which only the bits of the mask
    /// `known` are known. Conservative: returns true for ranges that are signed or wider than a
    /// word.
    pub fn may_match(&self, key: &[u64], value: &[u64], known: &[u64]) -> bool {
        match self.pattern(key) {
            KeyFieldPattern::Range { .. } if self.words != 1 || self.signed => true,
            KeyFieldPattern::Range { low, high } => {
                let least = value[0] & known[0];
                let greatest = least | low_ones(self.width.into(), 0) & !known[0];
                least <= high[0] && greatest >= low[0]
            }
            pattern => {
                self.equal_under_mask(self.value(key), value, |index| pattern.mask(self.width, index) & known[index])
            }
        }
    }

    /// Compares two values in the order of the field's type.
    pub fn compare(&self, one: &[u64], other: &[u64]) -> Ordering {
        // Flipping the sign bit maps the order of two's complement to that of unsigned numbers.
        let sign = if self.signed { self.width.checked_sub(1) } else { None };
        let flip = |index: usize| match sign {
            Some(bit) if (bit / 64) as usize == index => 1u64 << (bit % 64),
            _ => 0,
        };
        let words = one.iter().zip(other).enumerate().rev();
        let orders = words.map(|(index, (one, other))| (one ^ flip(index)).cmp(&(other ^ flip(index))));
        { orders }.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Reports whether two values are equal where a mask is 1.
    fn equal_under_mask(&self, one: &[u64], other: &[u64], mask: impl Fn(usize) -> u64) -> bool {
        (0..self.words).all(|index| (one[index] ^ other[index]) & mask(index) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyFieldPattern;

    #[test]
    fn masks_of_prefixes() {
        let mask = |width, len, index| KeyFieldPattern::Prefix { value: &[], len }.mask(width, index);
        assert_eq!(mask(32, 8, 0), 0xff00_0000);
        assert_eq!(mask(128, 65, 0), 1 << 63);
        assert_eq!(mask(128, 65, 1), u64::MAX);
        assert_eq!(mask(128, 0, 1), 0);
        assert_eq!(mask(48, 48, 0), (1 << 48) - 1);
    }
}
