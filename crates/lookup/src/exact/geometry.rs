//! [`Geometry`]: how entries lie in a bucket.
//!
//! A bucket is one cache line, or up to four for large keys:
//!
//! ```text
//! tag 0 .. tag s-1 | value 0 .. value s-1 | key 0 .. key s-1 | unused
//! ```
//!
//! Keys are trimmed to whole bytes, least significant first. Everything is read in words of 8 bytes, and no read leaves the
//! bucket: a key's last word is read so that it ends where the key ends, and behind a value there are keys.

/// Bytes of a cache line.
pub(super) const LINE: usize = 64;
/// The most slots of a bucket: their tags fit a word.
pub(super) const MAX_SLOTS: usize = 8;
/// The least room for a value: a word less than that before the first key would let the read of a short key leave the bucket.
const MIN_VALUE: usize = 4;
/// A value that must be cut off has at least so much room in the slot, so that short ones needn't be spilled.
const MIN_INLINE: usize = 8;

/// Bytes of a table up to which it stays half empty: a quarter of a second-level cache of 1 MiB.
const SMALL: usize = 256 << 10;

const HIGH: u64 = 0x8080_8080_8080_8080;

/// The highest bit of each byte that is 0. Exact for each byte, so that a slot that holds nothing is never taken for one that holds what is
/// looked for.
#[inline(always)]
pub(super) fn zero_bytes(bytes: u64) -> u64 {
    !(((bytes & !HIGH) + !HIGH) | bytes | !HIGH)
}

/// A tag in all bytes.
#[inline(always)]
pub(super) fn in_all_bytes(tag: u8) -> u64 {
    u64::from(tag) * 0x0101_0101_0101_0101
}

/// The sizes and places of a bucket's parts, in bytes if nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    /// 64-bit words of a lookup key.
    pub words: usize,
    /// A key in a slot.
    pub key: usize,
    /// The room for a value in a slot, the mark of a spilled one not included.
    pub inline: usize,
    /// From one value to the next.
    pub value: usize,
    /// Whether values may be longer than `inline`. Then the byte behind each tells whether it is spilled.
    pub spills: bool,
    /// Slots of a bucket: 2..=8.
    pub slots: usize,
    /// Cache lines of a bucket: 1..=4.
    pub lines: usize,
    /// Offset of the first value.
    pub values: usize,
    /// Offset of the first key.
    pub keys: usize,
    /// The highest bits of the tags of all slots.
    pub tag_mask: u64,
    /// The most buckets of a table that stays half empty.
    pub small: usize,
    /// Bits to drop from a key's last word, as it is read: those of the bytes before it.
    pub shift: u32,
}

impl Geometry {
    /// For keys of 1..=512 bits and values of up to `longest` bytes.
    pub(super) fn new(key_bits: u32, longest: usize) -> Geometry {
        let words = key_bits.div_ceil(64) as usize;
        let key = key_bits.div_ceil(8) as usize;
        let whole = longest.max(MIN_VALUE);
        let (lines, inline) = whole_values(key, whole).unwrap_or_else(|| cut_values(key));
        let spills = inline < longest;
        let value = inline + usize::from(spills);
        let slots = (lines * LINE / (1 + key + value)).min(MAX_SLOTS);
        let (values, keys) = (slots, slots * (1 + value));
        let tag_mask = HIGH >> (64 - 8 * slots);
        let small = SMALL / (lines * LINE);
        let shift = ((words * 8 - key) * 8) as u32;
        Geometry { words, key, inline, value, spills, slots, lines, values, keys, tag_mask, small, shift }
    }

    /// A bucket.
    pub(super) fn bytes(&self) -> usize {
        self.lines * LINE
    }

    /// The most entries that `buckets` hold before the table grows.
    ///
    /// With two choices and displacement a table can be filled to 0.897, 0.959, 0.980 of its slots with 2, 3, 4 in a bucket
    /// (Walzer, "Load thresholds for cuckoo hashing with overlapping blocks", 2018, table for k = 2); near these, insertions take
    /// long and fewer entries are in their first bucket. As long as memory doesn't matter, half of the slots stay free: then nearly all
    /// entries are in their first.
    pub(super) fn limit(&self, buckets: usize) -> usize {
        let half = buckets.min(self.small) * self.slots / 2;
        half.max(if buckets > self.small { self.full(buckets) } else { 0 })
    }

    /// The fewest buckets whose limit is at least `entries`.
    pub(super) fn buckets_for(&self, entries: usize) -> usize {
        if entries <= self.limit(self.small) {
            return (2 * entries).div_ceil(self.slots);
        }
        let least = (entries * 100 / (self.slots * self.percent())).max(self.small + 1);
        (least..).find(|buckets| self.limit(*buckets) >= entries).unwrap_or(least)
    }

    /// Entries of a large table that is full.
    fn full(&self, buckets: usize) -> usize {
        buckets * self.slots * self.percent() / 100
    }

    fn percent(&self) -> usize {
        if self.slots == 2 { 82 } else { 90 }
    }
}

/// Lines of a bucket, and room for a value, if values of this length all stay in their slots: two entries in one line or two, or
/// in more if it is the keys that are large.
fn whole_values(key: usize, value: usize) -> Option<(usize, usize)> {
    let lines = (1..=4).find(|lines| lines * LINE / (1 + key + value) >= 2)?;
    (lines <= 2 || value <= 32).then_some((lines, value))
}

/// The same if long values go elsewhere: rather three entries in a line than two, rather few lines than many.
fn cut_values(key: usize) -> (usize, usize) {
    let choices = (1..=4).flat_map(|lines| [(lines, 3), (lines, 2)]);
    let room = choices.map(|(lines, slots)| (lines, (lines * LINE / slots).saturating_sub(2 + key)));
    room.into_iter().find(|(_, inline)| *inline >= MIN_INLINE).unwrap_or((4, MIN_INLINE))
}

#[cfg(test)]
mod tests {
    use super::{Geometry, LINE};
    use crate::ValueLayout;

    /// Nothing overlaps, nothing leaves the bucket, and what is read in words stays inside of it too.
    #[test]
    fn parts_fit() {
        for key_bits in 1..=512 {
            for longest in (0..80).chain([200, 5000]) {
                let g = Geometry::new(key_bits, longest);
                assert!((2..=8).contains(&g.slots) && (1..=4).contains(&g.lines), "{key_bits} {longest} {g:?}");
                assert!(g.keys + g.slots * g.key <= g.bytes(), "{key_bits} {longest} {g:?}");
                assert!(g.values >= g.slots && g.keys >= g.values + g.slots * g.value);
                assert_eq!(g.spills, g.inline < longest);
                let readable = if longest <= ValueLayout::SHORT { ValueLayout::SHORT } else { ValueLayout::LONG };
                assert!(g.values + (g.slots - 1) * g.value + readable <= g.bytes(), "{key_bits} {longest} {g:?}");
                assert!(g.value >= 4 && g.keys + g.key >= 8, "{key_bits} {longest} {g:?}");
                assert_eq!(g.key * 8 + g.shift as usize, g.words * 64);
                for entries in [0, 1, 1000, g.limit(g.small), g.limit(g.small) + 1, 50_000] {
                    let buckets = g.buckets_for(entries);
                    assert!(g.limit(buckets) >= entries, "{entries} {g:?}");
                    assert!(buckets == 0 || g.limit(buckets - 1) < entries, "{entries} {g:?}");
                }
            }
        }
    }

    /// The shapes that the gateway needs.
    #[test]
    fn known_shapes() {
        let shape = |key_bits, longest| {
            let g = Geometry::new(key_bits, longest);
            (g.lines, g.slots, g.inline, g.spills)
        };
        assert_eq!(shape(56, 13), (1, 3, 13, false));
        assert_eq!(shape(64, 7), (1, 4, 7, false));
        assert_eq!(shape(160, 11), (1, 2, 11, false));
        assert_eq!(shape(160, 8), (1, 2, 8, false));
        assert_eq!(shape(320, 13), (2, 2, 13, false));
        assert_eq!(shape(512, 13), (3, 2, 13, false));
        assert_eq!(shape(56, 100), (1, 3, 12, true));
        assert_eq!(shape(512, 1000), (3, 2, 30, true));
        assert_eq!(shape(16, 5).1, 8);
        assert_eq!(Geometry::new(56, 13).bytes(), LINE);
    }
}
