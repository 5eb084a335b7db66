//! The index of a table: buckets of one cache line each, in memory that is reserved at once.
#![allow(unsafe_code)]

use crate::ShapeError;
use crate::area::Area;
use crate::hash::KeyHasher;
use crate::protocol::memory::{Bucket, DEPTH_SHIFT, MAX_CHAIN, Memory, home_of};
use crate::records::Records;
use crate::word::Padded;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

/// Slots of a bucket.
const SLOTS: usize = 9;
/// Entries per bucket, in hundredths, above which all buckets are divided: 85 % of the slots.
const FULL_HUNDREDTHS: u64 = 765;

/// A bucket: one cache line.
///
/// ```text
/// +----------+----------+-------------------------+-----------+---------------------------+
/// | head u32 | link u32 | tag 0 .. tag 8 u16 each | spare u16 | record 0 .. 8   u32 each  |
/// +----------+----------+-------------------------+-----------+---------------------------+
/// 0          4          8                         26          28                         64
/// ```
#[repr(C, align(64))]
pub(crate) struct LineBucket {
    head: AtomicU32,
    link: AtomicU32,
    tags: [AtomicU16; SLOTS],
    spare: u16,
    records: [AtomicU32; SLOTS],
}

impl Bucket for LineBucket {
    type Word = AtomicU32;
    const SLOTS: usize = SLOTS;

    #[inline(always)]
    fn head(&self) -> &AtomicU32 {
        &self.head
    }
    #[inline(always)]
    fn link(&self) -> &AtomicU32 {
        &self.link
    }
    #[inline(always)]
    fn record(&self, slot: usize) -> &AtomicU32 {
        &self.records[slot]
    }
    fn tag(&self, slot: usize) -> u16 {
        self.tags[slot].load(Relaxed)
    }
    fn set_tag(&self, slot: usize, tag: u16) {
        self.tags[slot].store(tag, Relaxed);
    }
    #[inline(always)]
    fn slots_with_tag(&self, tag: u16) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return self.slots_with_tag_by_line(tag);
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        self.slots_with_tag_by_word(tag)
    }
}

impl LineBucket {
    /// Compares all tags at once.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn slots_with_tag_by_line(&self, tag: u16) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: SSE2 is part of x86-64, and the 32 bytes lie in the bucket. Other threads may
        // write tags meanwhile; any mixture of old and new tags is a valid hint, because the keys
        // of records confirm it. No value but the mask is derived from these bytes.
        unsafe {
            let line = (&raw const *self).cast::<__m128i>();
            let wanted = _mm_set1_epi16(tag as i16);
            let low = _mm_cmpeq_epi16(_mm_load_si128(line), wanted);
            let high = _mm_cmpeq_epi16(_mm_load_si128(line.add(1)), wanted);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32 >> 4 & 0x1ff
        }
    }

    /// Compares tags one by one.
    #[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code))]
    fn slots_with_tag_by_word(&self, tag: u16) -> u32 {
        let equal = |slot: usize| u32::from(self.tags[slot].load(Relaxed) == tag) << slot;
        (0..SLOTS).map(equal).sum()
    }
}

/// The index of a table: maps a key to a record number.
pub(crate) struct Index {
    buckets: Area,
    overflow: Area,
    records: Arc<Records>,
    hasher: KeyHasher,
    max_buckets: u64,
    bucket_count: Padded<AtomicU64>,
    is_growing: Padded<AtomicBool>,
    next_overflow: AtomicU32,
    free_overflow: Mutex<Vec<u32>>,
}

impl Memory for Index {
    type Word = AtomicU32;
    type Bucket = LineBucket;

    #[inline(always)]
    fn bucket(&self, number: u64) -> &LineBucket {
        debug_assert!(number < self.max_buckets);
        // SAFETY: in the area; all parts are atomics, and zeros are valid.
        unsafe { &*self.buckets.at(number as usize * 64).cast() }
    }
    #[inline(always)]
    fn overflow(&self, number: u32) -> &LineBucket {
        // SAFETY: as above. Links are numbers that `fill_spare` has given out.
        unsafe { &*self.overflow.at(number as usize * 64).cast() }
    }
    #[inline(always)]
    fn record_has_key(&self, record: u32, key: &[u8]) -> bool {
        // SAFETY: a slot held the record in this batch or under the lock; it is not written.
        unsafe { keys_equal(self.records.key(record), key) }
    }
    fn record_hash(&self, record: u32) -> u64 {
        // SAFETY: as above.
        self.hash(unsafe { self.records.key(record) })
    }
    #[inline(always)]
    fn bucket_count(&self) -> u64 {
        self.bucket_count.0.load(Acquire)
    }
    fn set_bucket_count(&self, count: u64) {
        self.bucket_count.0.store(count, Release);
    }
}

/// Addresses and numbers of an index as values, for the loop of a batch: behind references the
/// compiler reads them again for each key, because other threads may write.
#[derive(Clone, Copy)]
pub(crate) struct ProbeView<'t> {
    buckets: *const u8,
    records: *const u8,
    stride: usize,
    key_at: usize,
    /// Distance from a record to the last of its lines that a lookup reads.
    last_line: usize,
    bucket_count: u64,
    hasher: KeyHasher,
    index: std::marker::PhantomData<&'t Index>,
}

impl<'t> ProbeView<'t> {
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    /// Returns the bucket of a hash, which may have been divided since the view was taken.
    #[inline(always)]
    pub fn home(&self, hash: u64) -> &'t LineBucket {
        let number = home_of(hash, self.bucket_count) as usize;
        // SAFETY: as `Index::bucket`; the number of buckets never falls.
        unsafe { &*self.buckets.wrapping_add(number * 64).cast() }
    }

    #[inline(always)]
    pub fn prefetch_record(&self, record: u32) {
        let start = self.records.wrapping_add(record as usize * self.stride);
        crate::prefetch::for_read(start);
        if self.last_line != 0 {
            crate::prefetch::for_read(start.wrapping_add(self.last_line));
        }
    }

    /// Returns whether a record that a slot held in this batch has the key.
    #[inline(always)]
    pub fn record_has_key(&self, record: u32, key: &[u8]) -> bool {
        let at = self.records.wrapping_add(record as usize * self.stride + self.key_at);
        // SAFETY: in the area of records; the record is not written during the batch.
        keys_equal(unsafe { std::slice::from_raw_parts(at, key.len()) }, key)
    }

    /// Returns the life word of a record that a slot held.
    #[inline(always)]
    pub fn life(&self, record: u32) -> u32 {
        let at = self.records.wrapping_add(record as usize * self.stride);
        // SAFETY: in the area of records, aligned, and an atomic everywhere.
        unsafe { AtomicU32::from_ptr(at.cast_mut().cast()) }.load(Relaxed)
    }
}

/// Compares two keys of equal length. A call of `memcmp` would take longer than the comparison.
#[inline(always)]
fn keys_equal(a: &[u8], b: &[u8]) -> bool {
    let len = a.len();
    debug_assert_eq!(len, b.len());
    let word = |key: &[u8], at: usize| u64::from_le_bytes(key[at..at + 8].try_into().expect("8 bytes"));
    let half = |key: &[u8], at: usize| u32::from_le_bytes(key[at..at + 4].try_into().expect("4 bytes"));
    if len >= 8 {
        // The last word overlaps the one before it.
        let mut differs = word(a, len - 8) ^ word(b, len - 8);
        let mut at = 0;
        while at + 8 < len {
            differs |= word(a, at) ^ word(b, at);
            at += 8;
        }
        differs == 0
    } else if len >= 4 {
        half(a, 0) == half(b, 0) && half(a, len - 4) == half(b, len - 4)
    } else {
        a.iter().zip(b).all(|(a, b)| a == b)
    }
}

impl Index {
    pub fn new(records: Arc<Records>, size: u32, seed: u64) -> Result<Index, ShapeError> {
        let max_buckets = (u64::from(size) * 100 / FULL_HUNDREDTHS + 2).next_power_of_two();
        let bytes = max_buckets as usize * 64;
        let index = Index {
            buckets: Area::new(bytes)?,
            overflow: Area::new(bytes + 64 * 1024)?,
            records,
            hasher: KeyHasher::new(seed),
            max_buckets,
            bucket_count: Padded(AtomicU64::new(1)),
            is_growing: Padded(AtomicBool::new(false)),
            next_overflow: AtomicU32::new(1),
            free_overflow: Mutex::default(),
        };
        let first = max_buckets.min(8);
        for number in 0..first {
            index.bucket(number).head.store(first.trailing_zeros() << DEPTH_SHIFT, Relaxed);
        }
        index.set_bucket_count(first);
        Ok(index)
    }

    /// Returns what a batch of lookups reads.
    pub fn probe_view(&self) -> ProbeView<'_> {
        let layout = self.records.layout;
        ProbeView {
            buckets: self.buckets.at(0),
            records: self.records.address(0),
            stride: layout.stride,
            key_at: layout.key,
            last_line: if layout.stride.is_multiple_of(64) { 0 } else { layout.stride - 1 },
            bucket_count: self.bucket_count(),
            hasher: self.hasher,
            index: std::marker::PhantomData,
        }
    }

    /// Returns the hash of a key.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    /// Takes overflow buckets until `spare` has as many as a chain may have. Returns whether
    /// there were enough.
    pub fn fill_spare(&self, spare: &mut Vec<u32>) -> bool {
        while spare.len() < MAX_CHAIN {
            let free = self.free_overflow.lock().pop();
            let end = self.max_buckets as u32 + 1024;
            let new = || self.next_overflow.fetch_update(Relaxed, Relaxed, |n| (n < end).then_some(n + 1)).ok();
            let Some(number) = free.or_else(new) else { return false };
            spare.push(number);
        }
        true
    }

    /// Takes back overflow buckets that all members have forgotten.
    pub fn give_back_overflow(&self, numbers: impl IntoIterator<Item = u32>) {
        self.free_overflow.lock().extend(numbers);
    }

    /// Returns whether the index is so full with `count` entries that it has to grow, or is in the
    /// middle of a doubling.
    #[inline]
    pub fn wants_to_grow(&self, count: u64) -> bool {
        let buckets = self.bucket_count.0.load(Relaxed);
        let is_full = count * 100 > FULL_HUNDREDTHS << buckets.ilog2();
        (is_full || !buckets.is_power_of_two()) && buckets < self.max_buckets
    }

    /// Runs `divide` unless another member does so now.
    pub fn grow_exclusively(&self, divide: impl FnOnce()) {
        if !self.is_growing.0.swap(true, Acquire) {
            divide();
            self.is_growing.0.store(false, Release);
        }
    }

    /// Allocates the pages that `entries` more entries may need. Two buckets are divided with each
    /// while the index grows.
    pub fn populate_ahead(&self, entries: u32) -> bool {
        let buckets = self.bucket_count.0.load(Relaxed) + 2 * u64::from(entries);
        let overflow = self.next_overflow.load(Relaxed) as usize + entries as usize / 32;
        self.buckets.populate(buckets.min(self.max_buckets) as usize * 64) && self.overflow.populate(overflow * 64)
    }

    /// Prefetches what the divisions after the next ones will read.
    pub fn prefetch_division(&self) {
        let count = self.bucket_count.0.load(Relaxed);
        let next = count - (1 << count.ilog2());
        if count + 16 >= self.max_buckets {
            return;
        }
        crate::prefetch::for_write((&raw const *self.bucket(next + 16)).cast());
        crate::prefetch::for_write((&raw const *self.bucket(count + 16)).cast());
        for record in &self.bucket(next + 8).records {
            self.records.prefetch(record.load(Relaxed));
        }
    }

    /// Prefetches a key's bucket for a change.
    pub fn prefetch_for_write(&self, hash: u64) {
        let home = home_of(hash, self.bucket_count());
        crate::prefetch::for_write((&raw const *self.bucket(home)).cast());
    }

    /// Returns the bytes of buckets and of overflow buckets that have been used.
    pub fn used_bytes(&self) -> [u64; 2] {
        [self.bucket_count.0.load(Relaxed) * 64, u64::from(self.next_overflow.load(Relaxed)) * 64]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_compare_alike_by_line_and_by_word() {
        let zero = || AtomicU16::new(0);
        let bucket = LineBucket {
            head: AtomicU32::new(u32::MAX),
            link: AtomicU32::new(0x0005_0005),
            tags: std::array::from_fn(|_| zero()),
            spare: 5,
            records: std::array::from_fn(|_| AtomicU32::new(0x0005_0005)),
        };
        for tags in 0..1 << SLOTS {
            for slot in 0..SLOTS {
                bucket.set_tag(slot, if tags >> slot & 1 != 0 { 5 } else { 0x0500 });
            }
            assert_eq!(bucket.slots_with_tag_by_word(5), tags);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(bucket.slots_with_tag_by_line(5), tags);
        }
    }
}
