//! What an entry asks of one field of a key. This is the one place that says what a match kind means; only the reference
//! engine has a meaning of its own, so that a mistake is not made twice.
//!
//! ```text
//! 10.1.0.0/16            Prefix { value: 10.1.0.0, len: 16 }      mask 255.255.0.0
//! 10.1.0.0 &&& 255.255.0.0   Masked { value, mask }               mask 255.255.0.0
//! 80..443                Range { low: 80, high: 443 }             mask 0, and two bounds
//! ```

use crate::layout::KeyField;
use ir::MatchKind;
use std::cmp::Ordering;

/// What an entry asks of one field. Numbers are words, least significant first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Pattern<'k> {
    /// Nothing: each value matches.
    Any,
    /// This value.
    Value(&'k [u64]),
    /// A value that is equal where the mask is 1.
    Masked { value: &'k [u64], mask: &'k [u64] },
    /// A value whose first `len` bits are equal.
    Prefix { value: &'k [u64], len: u64 },
    /// A value within both bounds, in the order of the field's type.
    Range { low: &'k [u64], high: &'k [u64] },
}

impl<'k> Pattern<'k> {
    /// Word `index` of a mask for a field of `width` bits: a matching value is equal where the mask is 1. Of a range it is 0.
    pub fn mask(&self, width: u32, index: usize) -> u64 {
        let field = low_ones(width.into(), index);
        match *self {
            Pattern::Any | Pattern::Range { .. } => 0,
            Pattern::Value(_) => field,
            Pattern::Masked { mask, .. } => field & mask[index],
            Pattern::Prefix { len, .. } => field & !low_ones(u64::from(width).saturating_sub(len), index),
        }
    }

    /// The value of a field of `width` bits that matches, if no other one does.
    pub fn only_value(&self, width: u32) -> Option<&'k [u64]> {
        match *self {
            Pattern::Any => None,
            Pattern::Value(value) => Some(value),
            Pattern::Masked { value, mask } => {
                (mask.iter().map(|word| word.count_ones()).sum::<u32>() == width).then_some(value)
            }
            Pattern::Prefix { value, len } => (len == u64::from(width)).then_some(value),
            Pattern::Range { low, high } => (low == high).then_some(low),
        }
    }
}

/// Word `index` of a number whose lowest `count` bits are 1.
fn low_ones(count: u64, index: usize) -> u64 {
    match count.saturating_sub(64 * index as u64) {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    }
}

impl KeyField {
    /// What the packed key of an entry asks of the field.
    pub fn pattern<'k>(&self, key: &'k [u64]) -> Pattern<'k> {
        let (value, second) = (self.value(key), self.second(key));
        match self.kind {
            MatchKind::Exact => Pattern::Value(value),
            MatchKind::Ternary => Pattern::Masked { value, mask: second },
            MatchKind::Lpm => Pattern::Prefix { value, len: second[0] },
            MatchKind::Range => Pattern::Range { low: value, high: second },
            MatchKind::Optional if second[0] == 0 => Pattern::Any,
            MatchKind::Optional => Pattern::Value(value),
            MatchKind::Selector => Pattern::Any,
        }
    }

    /// Whether an entry's packed key matches a value of the field.
    pub fn matches(&self, key: &[u64], value: &[u64]) -> bool {
        match self.pattern(key) {
            Pattern::Range { low, high } => {
                self.compare(low, value) != Ordering::Greater && self.compare(value, high) != Ordering::Greater
            }
            pattern => self.agree(self.value(key), value, |index| pattern.mask(self.width, index)),
        }
    }

    /// Whether there is a value that the packed keys of two entries match both.
    pub fn overlap(&self, key: &[u64], other: &[u64]) -> bool {
        match (self.pattern(key), self.pattern(other)) {
            (Pattern::Range { low, high }, Pattern::Range { low: other_low, high: other_high }) => {
                self.compare(low, other_high) != Ordering::Greater && self.compare(other_low, high) != Ordering::Greater
            }
            (one, two) => self.agree(self.value(key), self.value(other), |index| {
                one.mask(self.width, index) & two.mask(self.width, index)
            }),
        }
    }

    /// Whether an entry's packed key may match a value of which only the bits of a mask are known. Of ranges that are signed
    /// or wider than a word it says that it may.
    pub fn may_match(&self, key: &[u64], value: &[u64], known: &[u64]) -> bool {
        match self.pattern(key) {
            Pattern::Range { .. } if self.words != 1 || self.signed => true,
            Pattern::Range { low, high } => {
                let least = value[0] & known[0];
                let greatest = least | low_ones(self.width.into(), 0) & !known[0];
                least <= high[0] && greatest >= low[0]
            }
            pattern => self.agree(self.value(key), value, |index| pattern.mask(self.width, index) & known[index]),
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

    /// Whether two values are equal where a mask is 1.
    fn agree(&self, one: &[u64], other: &[u64], mask: impl Fn(usize) -> u64) -> bool {
        (0..self.words).all(|index| (one[index] ^ other[index]) & mask(index) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn masks_of_prefixes() {
        let mask = |width, len, index| Pattern::Prefix { value: &[], len }.mask(width, index);
        assert_eq!(mask(32, 8, 0), 0xff00_0000);
        assert_eq!(mask(128, 65, 0), 1 << 63);
        assert_eq!(mask(128, 65, 1), u64::MAX);
        assert_eq!(mask(128, 0, 1), 0);
        assert_eq!(mask(48, 48, 0), (1 << 48) - 1);
    }
}
