//! [`Filter`]: which values of an exact field any entry has, roughly.
//!
//! Lists of rules are often one table with the list's number as an exact key, and most packets are of tenants that have none. One bit says so of such a key, sooner
//! than a search that finds nothing. It is a Bloom filter with one hash function and counts (Fan et al., "Summary cache", 2000, section V.C), so that entries may go.

use super::rule::Shape;
use crate::KeyPlace;
use ir::MatchKind;

/// Bits: 8 KiB, a fourth of a first-level cache.
const BITS: usize = 1 << 16;
/// What the highest bits of a product with the value make a hash of (2^64 divided by the golden ratio).
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of all values of a field, whether an entry may have it.
#[derive(Clone)]
pub struct Filter {
    /// Where the field lies in a key.
    word: usize,
    shift: u32,
    mask: u64,
    bits: Vec<u64>,
    /// Entries for each bit. A count that is full stays so.
    counts: Vec<u16>,
}

impl Filter {
    /// For the first of a table's fields that is exact and lies in one word; `None`: there is none.
    pub fn new(keys: &[KeyPlace]) -> Option<Filter> {
        let in_a_word =
            |key: &&KeyPlace| key.kind == MatchKind::Exact && key.width > 0 && key.bit % 64 + key.width <= 64;
        let field = keys.iter().find(in_a_word)?;
        let mask = u64::MAX >> (64 - field.width);
        let (word, shift) = ((field.bit / 64) as usize, field.bit % 64);
        Some(Filter { word, shift, mask, bits: vec![0; BITS / 64], counts: vec![0; BITS] })
    }

    /// The bit of a key, or of a rule's value.
    #[inline(always)]
    fn bit(&self, key: &[u64]) -> usize {
        let value = key[self.word] >> self.shift & self.mask;
        (value.wrapping_mul(FACTOR) >> (64 - BITS.trailing_zeros())) as usize
    }

    /// Whether an entry may match the key. If not, none does.
    #[inline(always)]
    pub fn may_match(&self, key: &[u64]) -> bool {
        let bit = self.bit(key);
        self.bits[bit / 64] >> (bit % 64) & 1 == 1
    }

    /// Notes an entry by its rule.
    pub fn add(&mut self, rule: &[u64]) {
        let bit = self.bit(&rule[Shape::VALUE..]);
        self.counts[bit] = self.counts[bit].saturating_add(1);
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    /// Forgets one.
    pub fn remove(&mut self, rule: &[u64]) {
        let bit = self.bit(&rule[Shape::VALUE..]);
        if self.counts[bit] < u16::MAX {
            self.counts[bit] -= 1;
        }
        if self.counts[bit] == 0 {
            self.bits[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// Memory that it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bits.len() * 8 + self.counts.len() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;
    use crate::KeyPlace;
    use ir::MatchKind;

    fn place(position: usize, kind: MatchKind, width: u32, bit: u32) -> KeyPlace {
        KeyPlace { position, kind, width, bit, signed: false }
    }

    /// A value is there as long as one of its entries is.
    #[test]
    fn values_come_and_go() {
        let keys = [place(0, MatchKind::Ternary, 32, 0), place(1, MatchKind::Exact, 20, 36)];
        let mut filter = Filter::new(&keys).expect("an exact field");
        let key = |list: u64, source: u64| [list << 36 | source];
        let rule = |list: u64, source: u64| [1, 0, list << 36 | source, u64::MAX];
        for list in 0..1000 {
            filter.add(&rule(list, 7));
            filter.add(&rule(list, 8));
        }
        assert!((0..1000).all(|list| filter.may_match(&key(list, 99))));
        let absent = (1000..100_000).filter(|list| filter.may_match(&key(*list, 7))).count();
        assert!(absent < 3_000, "{absent} of 99,000 lists without an entry are searched");
        (0..1000).for_each(|list| filter.remove(&rule(list, 7)));
        assert!((0..1000).all(|list| filter.may_match(&key(list, 8))), "one of two entries is left");
        (0..1000).for_each(|list| filter.remove(&rule(list, 8)));
        assert!((0..100_000).all(|list| !filter.may_match(&key(list, 8))), "none is left");
    }

    /// A field that lies in two words, one without bits, and one that is not exact, are none.
    #[test]
    fn other_fields_have_none() {
        for keys in [
            vec![place(0, MatchKind::Exact, 32, 48)],
            vec![place(0, MatchKind::Exact, 0, 64)],
            vec![place(0, MatchKind::Lpm, 32, 0)],
            vec![],
        ] {
            assert!(Filter::new(&keys).is_none(), "{keys:?}");
        }
    }

    /// More entries of one value than its count can hold.
    #[test]
    fn a_full_count_stays() {
        let keys = [place(0, MatchKind::Exact, 8, 0)];
        let mut filter = Filter::new(&keys).expect("an exact field");
        let rule = [1, 0, 5, 255];
        (0..70_000).for_each(|_| filter.add(&rule));
        (0..69_999).for_each(|_| filter.remove(&rule));
        assert!(filter.may_match(&[5]));
    }
}
