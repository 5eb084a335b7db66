//! [`ExactFieldFilter`]: approximate set of the values that entries have in an exact field.
//!
//! Access lists are often one table with the list's number as an exact key, and most packets belong
//! to tenants without a list. For such a key one bit replaces a search without result. It is a
//! counting Bloom filter with one hash function (Fan et al., "Summary cache", 2000, section V.C),
//! because entries can be removed.

use super::rule::RuleLayout;
use crate::LookupKeyField;
use ir::MatchKind;

/// Number of bits: 8 KiB, a quarter of a first-level cache.
const FILTER_BITS: usize = 1 << 16;
/// Multiplicative hash factor: 2^64 divided by the golden ratio.
const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Counting Bloom filter of the values of a field.
#[derive(Clone)]
pub struct ExactFieldFilter {
    /// Position of the field in a key.
    word: usize,
    shift: u32,
    mask: u64,
    bits: Vec<u64>,
    /// Number of entries for each bit. A saturated count is never decremented.
    counts: Vec<u16>,
}

impl ExactFieldFilter {
    /// Creates a filter for the first exact field that lies in one word; `None` without such a
    /// field.
    pub fn new(keys: &[LookupKeyField]) -> Option<ExactFieldFilter> {
        let in_a_word = |key: &&LookupKeyField| {
            key.kind == MatchKind::Exact && key.width_bits > 0 && key.bit_offset % 64 + key.width_bits <= 64
        };
        let field = keys.iter().find(in_a_word)?;
        let mask = u64::MAX >> (64 - field.width_bits);
        let (word, shift) = ((field.bit_offset / 64) as usize, field.bit_offset % 64);
        Some(ExactFieldFilter { word, shift, mask, bits: vec![0; FILTER_BITS / 64], counts: vec![0; FILTER_BITS] })
    }

    /// Returns the bit of a key, or of a rule's value.
    #[inline(always)]
    fn bit_index(&self, key: &[u64]) -> usize {
        let value = key[self.word] >> self.shift & self.mask;
        (value.wrapping_mul(HASH_FACTOR) >> (64 - FILTER_BITS.trailing_zeros())) as usize
    }

    /// Returns whether an entry can match the key. False is certain.
    #[inline(always)]
    pub fn may_match(&self, key: &[u64]) -> bool {
        let bit = self.bit_index(key);
        self.bits[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Adds an entry's rule.
    pub fn insert_rule(&mut self, rule: &[u64]) {
        let bit = self.bit_index(&rule[RuleLayout::VALUE_WORD..]);
        self.counts[bit] = self.counts[bit].saturating_add(1);
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Removes an entry's rule.
    pub fn remove_rule(&mut self, rule: &[u64]) {
        let bit = self.bit_index(&rule[RuleLayout::VALUE_WORD..]);
        if self.counts[bit] < u16::MAX {
            self.counts[bit] -= 1;
        }
        if self.counts[bit] == 0 {
            self.bits[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bits.len() * 8 + self.counts.len() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::ExactFieldFilter;
    use crate::LookupKeyField;
    use ir::MatchKind;

    fn place(position: usize, kind: MatchKind, width: u32, bit: u32) -> LookupKeyField {
        LookupKeyField { position, kind, width_bits: width, bit_offset: bit, signed: false }
    }

    /// A value stays in the filter as long as one of its entries exists.
    #[test]
    fn values_come_and_go() {
        let keys = [place(0, MatchKind::Ternary, 32, 0), place(1, MatchKind::Exact, 20, 36)];
        let mut filter = ExactFieldFilter::new(&keys).expect("an exact field");
        let key = |list: u64, source: u64| [list << 36 | source];
        let rule = |list: u64, source: u64| [1, 0, list << 36 | source, u64::MAX];
        for list in 0..1000 {
            filter.insert_rule(&rule(list, 7));
            filter.insert_rule(&rule(list, 8));
        }
        assert!((0..1000).all(|list| filter.may_match(&key(list, 99))));
        let absent = (1000..100_000).filter(|list| filter.may_match(&key(*list, 7))).count();
        assert!(absent < 3_000, "{absent} of 99,000 lists without an entry are searched");
        (0..1000).for_each(|list| filter.remove_rule(&rule(list, 7)));
        assert!((0..1000).all(|list| filter.may_match(&key(list, 8))), "one of two entries is left");
        (0..1000).for_each(|list| filter.remove_rule(&rule(list, 8)));
        assert!((0..100_000).all(|list| !filter.may_match(&key(list, 8))), "none is left");
    }

    /// Fields across two words, fields without bits and inexact fields have no filter.
    #[test]
    fn other_fields_have_none() {
        for keys in [
            vec![place(0, MatchKind::Exact, 32, 48)],
            vec![place(0, MatchKind::Exact, 0, 64)],
            vec![place(0, MatchKind::Lpm, 32, 0)],
            vec![],
        ] {
            assert!(ExactFieldFilter::new(&keys).is_none(), "{keys:?}");
        }
    }

    /// More entries of one value than its count can hold.
    #[test]
    fn a_full_count_stays() {
        let keys = [place(0, MatchKind::Exact, 8, 0)];
        let mut filter = ExactFieldFilter::new(&keys).expect("an exact field");
        let rule = [1, 0, 5, 255];
        (0..70_000).for_each(|_| filter.insert_rule(&rule));
        (0..69_999).for_each(|_| filter.remove_rule(&rule));
        assert!(filter.may_match(&[5]));
    }
}
