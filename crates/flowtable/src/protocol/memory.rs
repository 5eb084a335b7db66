//! Buckets and their memory.
//!
//! ```text
//! head:   bit 0 locked | bits 1-5 depth | bits 6-31 number of changes
//! link:   0, or the number of an overflow bucket, whose head is not used
//! tag:    16 bits of the hash; a slot is free if its record is 0
//! record: 0, or the record's number
//! ```

use crate::word::Word;

/// Bit of a head: the bucket is locked.
pub(crate) const LOCK: u32 = 1;
/// One change, as added to a head.
pub(crate) const CHANGE: u32 = 1 << 6;
/// Position of the depth in a head.
pub(crate) const DEPTH_SHIFT: u32 = 1;
/// Mask of a depth.
pub(crate) const DEPTH_MASK: u32 = 31;
/// Maximum number of overflow buckets behind a bucket. More than one is rare, so a longer chain
/// means that packets were made to have the same hash.
pub(crate) const MAX_CHAIN: usize = 8;

/// A bucket: a head, a link and slots of tag and record number.
pub(crate) trait Bucket {
    type Word: Word<u32>;
    const SLOTS: usize;

    fn head(&self) -> &Self::Word;
    fn link(&self) -> &Self::Word;
    fn record(&self, slot: usize) -> &Self::Word;
    fn tag(&self, slot: usize) -> u16;
    fn set_tag(&self, slot: usize, tag: u16);
    /// Returns the slots that have the tag, a bit each. Tags may change meanwhile: the result is
    /// a hint that the keys of records confirm.
    fn slots_with_tag(&self, tag: u16) -> u32;
}

/// The memory of one index.
pub(crate) trait Memory {
    type Word: Word<u32>;
    type Bucket: Bucket<Word = Self::Word>;

    fn bucket(&self, number: u64) -> &Self::Bucket;
    fn overflow(&self, number: u32) -> &Self::Bucket;
    /// Returns whether a record, not 0, has the key.
    fn record_has_key(&self, record: u32, key: &[u8]) -> bool;
    /// Returns the hash of the key of a record whose bucket is locked.
    fn record_hash(&self, record: u32) -> u64;
    /// Returns the number of buckets. It may be old, because buckets show where to go on.
    fn bucket_count(&self) -> u64;
    fn set_bucket_count(&self, count: u64);
    /// Returns whether a step is left out: tests show that each step is needed.
    #[inline(always)]
    fn leaves_out(&self, step: Step) -> bool {
        let _ = step;
        false
    }
}

/// Steps of the protocol without which it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Step {
    /// A miss looks at the head a second time.
    SecondLook,
    /// A change of a bucket counts in its head.
    CountChange,
    /// A key's way leads through each division in turn, by the lowest bit that differs.
    LowestBit,
    /// A removed record waits for the end of all batches.
    Grace,
    /// An entry that expires is in doubt until the end of all batches.
    Doubt,
    /// A batch goes on from the tick of the sweep if that is later than its own clock.
    LatestTick,
    /// The lock of the key's bucket is held while an entry is added.
    Lock,
    /// An addition of a pair has a fence between its twin's name and the look at its life, a removal
    /// between the end of an entry and the look at its name.
    PairFence,
}

/// Returns the tag of a hash. The tag of a free slot is 0.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

/// Returns the bucket of a hash in an index of `count` buckets.
#[inline(always)]
pub(crate) fn home_of(hash: u64, count: u64) -> u64 {
    let low = (1 << count.ilog2()) - 1;
    let wide = hash & (low << 1 | 1);
    if wide < count { wide } else { hash & low }
}

/// Returns the bucket where the keys of this hash went, if `bucket`, whose head is given, has
/// been divided since they were in it.
///
/// The path goes by the lowest bit that differs, through one division after the other: the bucket
/// may be much deeper than those that it was divided into.
#[inline(always)]
pub(crate) fn next_home(bucket: u64, hash: u64, head: u32) -> Option<u64> {
    let bit = (bucket ^ hash).trailing_zeros();
    (bit < depth_of(head)).then(|| hash & ((2 << bit) - 1))
}

/// Returns the depth in a head.
#[inline(always)]
pub(crate) fn depth_of(head: u32) -> u32 {
    head >> DEPTH_SHIFT & DEPTH_MASK
}
