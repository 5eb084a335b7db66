//! [`BucketLayout`]: memory layout of a bucket.
//!
//! A bucket is one cache line, or up to four for large keys:
//!
//! ```text
//! tag 0 .. tag s-1 | value 0 .. value s-1 | key 0 .. key s-1 | unused
//! ```
//!
//! Keys are trimmed to whole bytes, least significant first. All reads are words of 8 bytes and
//! stay within the bucket: the read of a key's last word ends at the key's end, and values are
//! followed by keys.

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;
/// Maximum number of slots of a bucket, because their tags must fit in a word.
pub(super) const MAX_SLOTS: usize = 8;
/// Minimum bytes for a value. With less, the word read at the end of a short first key would start
/// before the bucket.
const MIN_VALUE_BYTES: usize = 4;
/// Minimum bytes in the slot for values that may overflow, so that short values stay in their
/// slots.
const MIN_INLINE_BYTES: usize = 8;

/// Maximum size in bytes of a table that stays half empty: a quarter of a second-level cache of 1
/// MiB.
const SMALL_TABLE_BYTES: usize = 256 << 10;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Returns the top bit of each zero byte. The result is exact for each byte, because a false
/// positive would match a free slot.
#[inline(always)]
pub(super) fn zero_bytes(bytes: u64) -> u64 {
    !(((bytes & !HIGH_BITS) + !HIGH_BITS) | bytes | !HIGH_BITS)
}

/// Broadcasts a tag to all bytes.
#[inline(always)]
pub(super) fn broadcast_tag(tag: u8) -> u64 {
    u64::from(tag) * 0x0101_0101_0101_0101
}

/// Sizes and offsets within a bucket, in bytes unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BucketLayout {
    /// 64-bit words of a lookup key.
    pub key_words: usize,
    /// Size of a key in a slot.
    pub key_bytes: usize,
    /// Size of a value in a slot, without the overflow flag.
    pub inline_bytes: usize,
    /// Distance between values.
    pub value_stride: usize,
    /// Whether values can be longer than `inline_bytes`. If so, the byte after each value is its
    /// overflow flag.
    pub has_overflow: bool,
    /// Slots of a bucket: 2..=8.
    pub slot_count: usize,
    /// Cache lines of a bucket: 1..=4.
    pub line_count: usize,
    /// Offset of the first value.
    pub values_offset: usize,
    /// Offset of the first key.
    pub keys_offset: usize,
    /// Top bits of the tags of all slots.
    pub tag_mask: u64,
    /// Maximum number of buckets of a table that stays half empty.
    pub small_max_buckets: usize,
    /// Right shift in bits of a key's last word after reading, which drops the bytes before it.
    pub last_word_shift: u32,
}

impl BucketLayout {
    /// Computes the layout for keys of 1..=512 bits and values of up to `max_value_bytes` bytes. A
    /// value that does not fit in its slot has one more byte there, which says so.
    pub(super) fn new(key_bits: u32, max_value_bytes: usize) -> BucketLayout {
        let words = key_bits.div_ceil(64) as usize;
        let key_bytes = key_bits.div_ceil(8) as usize;
        let value_bytes = max_value_bytes.max(MIN_VALUE_BYTES);
        let (lines, inline_bytes) =
            inline_value_layout(key_bytes, value_bytes).unwrap_or_else(|| overflow_value_layout(key_bytes));
        let has_overflow = inline_bytes < max_value_bytes;
        let value_stride = inline_bytes + usize::from(has_overflow);
        let slots = (lines * LINE_BYTES / (1 + key_bytes + value_stride)).min(MAX_SLOTS);
        let (values, keys) = (slots, slots * (1 + value_stride));
        let tag_mask = HIGH_BITS >> (64 - 8 * slots);
        let small_max_buckets = SMALL_TABLE_BYTES / (lines * LINE_BYTES);
        let last_word_shift = ((words * 8 - key_bytes) * 8) as u32;
        BucketLayout {
            key_words: words,
            key_bytes,
            inline_bytes,
            value_stride,
            has_overflow,
            slot_count: slots,
            line_count: lines,
            values_offset: values,
            keys_offset: keys,
            tag_mask,
            small_max_buckets,
            last_word_shift,
        }
    }

    /// Returns the size of a bucket.
    pub(super) fn bucket_bytes(&self) -> usize {
        self.line_count * LINE_BYTES
    }

    /// Returns the maximum number of entries in `buckets` buckets; the table grows beyond that.
    ///
    /// With two choices and displacement a table can be filled to 0.897, 0.959, 0.980 of its slots
    /// with 2, 3, 4 slots in a bucket (Walzer, "Load thresholds for cuckoo hashing with overlapping
    /// blocks", 2018, table for k = 2). Near these thresholds insertions take long and fewer
    /// entries are in their first bucket. Small tables leave half of their slots free, because
    /// nearly all entries are then in their first bucket.
    pub(super) fn max_entries(&self, buckets: usize) -> usize {
        let half = buckets.min(self.small_max_buckets) * self.slot_count / 2;
        half.max(if buckets > self.small_max_buckets { self.full_capacity(buckets) } else { 0 })
    }

    /// Returns the minimum number of buckets that hold `entries` entries.
    pub(super) fn buckets_for(&self, entries: usize) -> usize {
        if entries <= self.max_entries(self.small_max_buckets) {
            return (2 * entries).div_ceil(self.slot_count);
        }
        let least = (entries * 100 / (self.slot_count * self.fill_percent())).max(self.small_max_buckets + 1);
        (least..).find(|buckets| self.max_entries(*buckets) >= entries).unwrap_or(least)
    }

    /// Returns the maximum number of entries of a large table.
    fn full_capacity(&self, buckets: usize) -> usize {
        buckets * self.slot_count * self.fill_percent() / 100
    }

    fn fill_percent(&self) -> usize {
        if self.slot_count == 2 { 82 } else { 90 }
    }
}

/// Returns the lines of a bucket and the bytes of a value if all values of this length fit in their
/// slots. Requires two entries in one or two lines, or in more lines if the keys are the large
/// part.
fn inline_value_layout(key: usize, value: usize) -> Option<(usize, usize)> {
    let lines = (1..=4).find(|lines| lines * LINE_BYTES / (1 + key + value) >= 2)?;
    (lines <= 2 || value <= 32).then_some((lines, value))
}

/// Returns the lines of a bucket and the inline bytes of a value if long values overflow. Prefers
/// few lines, then three entries to two.
fn overflow_value_layout(key: usize) -> (usize, usize) {
    let choices = (1..=4).flat_map(|lines| [(lines, 3), (lines, 2)]);
    let room = choices.map(|(lines, slots)| (lines, (lines * LINE_BYTES / slots).saturating_sub(2 + key)));
    room.into_iter().find(|(_, inline)| *inline >= MIN_INLINE_BYTES).unwrap_or((4, MIN_INLINE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::{BucketLayout, LINE_BYTES};
    use crate::ValueLayout;

    /// Parts don't overlap, and word reads stay within the bucket.
    #[test]
    fn parts_fit() {
        for key_bits in 1..=512 {
            for longest in (0..80).chain([200, 5000]) {
                let g = BucketLayout::new(key_bits, longest);
                assert!(
                    (2..=8).contains(&g.slot_count) && (1..=4).contains(&g.line_count),
                    "{key_bits} {longest} {g:?}"
                );
                assert!(g.keys_offset + g.slot_count * g.key_bytes <= g.bucket_bytes(), "{key_bits} {longest} {g:?}");
                assert!(
                    g.values_offset >= g.slot_count && g.keys_offset >= g.values_offset + g.slot_count * g.value_stride
                );
                assert_eq!(g.has_overflow, g.inline_bytes < longest);
                let readable = if longest <= ValueLayout::SHORT { ValueLayout::SHORT } else { ValueLayout::LONG };
                assert!(
                    g.values_offset + (g.slot_count - 1) * g.value_stride + readable <= g.bucket_bytes(),
                    "{key_bits} {longest} {g:?}"
                );
                assert!(g.value_stride >= 4 && g.keys_offset + g.key_bytes >= 8, "{key_bits} {longest} {g:?}");
                assert_eq!(g.key_bytes * 8 + g.last_word_shift as usize, g.key_words * 64);
                for entries in
                    [0, 1, 1000, g.max_entries(g.small_max_buckets), g.max_entries(g.small_max_buckets) + 1, 50_000]
                {
                    let buckets = g.buckets_for(entries);
                    assert!(g.max_entries(buckets) >= entries, "{entries} {g:?}");
                    assert!(buckets == 0 || g.max_entries(buckets - 1) < entries, "{entries} {g:?}");
                }
            }
        }
    }

    /// The layouts that the gateway needs.
    #[test]
    fn known_shapes() {
        let shape = |key_bits, longest| {
            let g = BucketLayout::new(key_bits, longest);
            (g.line_count, g.slot_count, g.inline_bytes, g.has_overflow)
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
        assert_eq!(BucketLayout::new(56, 13).bucket_bytes(), LINE_BYTES);
    }
}
