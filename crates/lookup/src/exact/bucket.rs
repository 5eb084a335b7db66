//! [`BucketArray`]: the buckets of a table and access to single slots, for the writer.
//! [`super::probe`] reads in batches.
#![allow(unsafe_code)]

use super::bucket_layout::{BucketLayout, broadcast_tag, zero_bytes};
use super::hash::HashSeeds;
use crate::memory::HugeVec;

/// Position of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BucketSlot {
    pub bucket: usize,
    pub slot: usize,
}

/// Iterator over slots of a bucket. The mask has the top bit of the byte of each slot.
struct TagMatches {
    bucket: usize,
    mask: u64,
}

impl Iterator for TagMatches {
    type Item = BucketSlot;
    #[inline(always)]
    fn next(&mut self) -> Option<BucketSlot> {
        let slot = self.mask.trailing_zeros() as usize / 8;
        (self.mask != 0).then(|| {
            self.mask &= self.mask - 1;
            BucketSlot { bucket: self.bucket, slot }
        })
    }
}

/// All buckets of a table.
#[derive(Clone, Debug)]
pub(super) struct BucketArray {
    pub layout: BucketLayout,
    pub(super) lines: HugeVec<[u64; 8]>,
    /// Buckets changed since tracking started or was last cleared; `None` if not tracked
    /// ([`super::dirty_sync`]).
    pub(super) dirty: Option<DirtyBuckets>,
}

impl BucketArray {
    pub(super) fn new(layout: BucketLayout) -> BucketArray {
        BucketArray { layout, lines: HugeVec::new(), dirty: None }
    }

    /// Grows the array to `count` buckets; new ones are empty.
    pub(super) fn grow_buckets(&mut self, count: usize) {
        self.lines.grow(count * self.layout.line_count);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.dirty.as_ref().map_or(0, DirtyBuckets::memory_bytes)
    }

    /// Returns the address of the first bucket.
    pub(super) fn base_ptr(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    fn bucket_lines(&self, bucket: usize) -> &[[u64; 8]] {
        &self.lines[bucket * self.layout.line_count..][..self.layout.line_count]
    }

    fn bucket_bytes(&self, bucket: usize) -> &[u8] {
        let lines = self.bucket_lines(bucket);
        // SAFETY: the same memory; any bytes are valid as u8.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
    }

    /// Returns a bucket for writing. All changes go through this function, because it tracks dirty
    /// buckets.
    fn bucket_bytes_mut(&mut self, bucket: usize) -> &mut [u8] {
        if let Some(touched) = &mut self.dirty {
            touched.mark_dirty(bucket as u32, self.lines.len());
        }
        let per_bucket = self.layout.line_count;
        let lines = &mut self.lines[bucket * per_bucket..][..per_bucket];
        // SAFETY: the same memory with the same borrow; any bytes are valid as u64.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
    }

    /// Returns the slots of a bucket with this tag; 0 is the tag of free slots.
    #[inline(always)]
    fn tag_matches(&self, bucket: usize, tag: u8) -> TagMatches {
        // The mask removes bytes that are not tags.
        let tags = u64::from_le(self.lines[bucket * self.layout.line_count][0]);
        TagMatches { bucket, mask: zero_bytes(tags ^ broadcast_tag(tag)) & self.layout.tag_mask }
    }

    /// Returns the slots of a bucket that hold an entry.
    pub(super) fn full_slots(&self, bucket: usize) -> impl Iterator<Item = BucketSlot> + use<> {
        let TagMatches { mask, .. } = self.tag_matches(bucket, 0);
        TagMatches { bucket, mask: mask ^ self.layout.tag_mask }
    }

    /// Returns a free slot of a bucket.
    #[inline(always)]
    pub(super) fn free_slot(&self, bucket: usize) -> Option<BucketSlot> {
        self.tag_matches(bucket, 0).next()
    }

    /// Returns the slot of a bucket that holds a key.
    #[inline(always)]
    pub(super) fn find_key(&self, bucket: usize, tag: u8, key: &[u64]) -> Option<BucketSlot> {
        self.tag_matches(bucket, tag).find(|slot| self.key_in_slot(*slot).eq(key.iter().copied()))
    }

    /// Returns the words of the key in a slot.
    #[inline(always)]
    pub(super) fn key_in_slot(&self, BucketSlot { bucket, slot }: BucketSlot) -> impl ExactSizeIterator<Item = u64> {
        let reader = self.key_reader(bucket, slot);
        (0..self.layout.key_words).map(move |word| reader.read_word(word))
    }

    /// Returns the hash of the key in a slot.
    #[inline(always)]
    pub(super) fn hash_key_in_slot(&self, BucketSlot { bucket, slot }: BucketSlot, seeds: &HashSeeds) -> u64 {
        let reader = self.key_reader(bucket, slot);
        match self.layout.key_words {
            1 => seeds.hash(1, |_| reader.read_word(0)),
            words => seeds.hash(words, |word| reader.read_word(word)),
        }
    }

    #[inline(always)]
    fn key_reader(&self, bucket: usize, slot: usize) -> KeyReader<'_> {
        KeyReader {
            bytes: self.bucket_bytes(bucket),
            start: self.layout.keys_offset + slot * self.layout.key_bytes,
            layout: &self.layout,
        }
    }

    /// Returns the bytes of a slot's value, including its overflow flag.
    pub(super) fn value_bytes(&self, BucketSlot { bucket, slot }: BucketSlot) -> &[u8] {
        let g = &self.layout;
        &self.bucket_bytes(bucket)[g.values_offset + slot * g.value_stride..][..g.value_stride]
    }

    pub(super) fn value_bytes_mut(&mut self, BucketSlot { bucket, slot }: BucketSlot) -> &mut [u8] {
        let g = self.layout;
        &mut self.bucket_bytes_mut(bucket)[g.values_offset + slot * g.value_stride..][..g.value_stride]
    }

    /// Writes the tag and the key of a slot.
    pub(super) fn write_key(&mut self, BucketSlot { bucket, slot }: BucketSlot, tag: u8, key: &[u64]) {
        let g = self.layout;
        let bytes = self.bucket_bytes_mut(bucket);
        bytes[slot] = tag;
        let room = &mut bytes[g.keys_offset + slot * g.key_bytes..][..g.key_bytes];
        for (to, word) in room.chunks_mut(8).zip(key) {
            to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
        }
    }

    /// Moves an entry to another slot and frees its old one.
    pub(super) fn move_entry(&mut self, from: BucketSlot, to: BucketSlot) {
        let g = self.layout;
        assert!(from.slot < g.slot_count && to.slot < g.slot_count);
        let source = self.bucket_bytes_mut(from.bucket).as_mut_ptr();
        let target = self.bucket_bytes_mut(to.bucket).as_mut_ptr();
        // SAFETY: `source` and `target` are buckets of this table, checked when they were borrowed,
        // and the slots exist, so all ranges lie inside them. `copy_to` allows overlapping ranges.
        unsafe {
            let key = |slot: usize| g.keys_offset + slot * g.key_bytes;
            let value = |slot: usize| g.values_offset + slot * g.value_stride;
            source.add(key(from.slot)).copy_to(target.add(key(to.slot)), g.key_bytes);
            source.add(value(from.slot)).copy_to(target.add(value(to.slot)), g.value_stride);
            let tag = source.add(from.slot).replace(0);
            target.add(to.slot).write(tag);
        }
    }

    /// Frees a slot.
    pub(super) fn clear_slot(&mut self, BucketSlot { bucket, slot }: BucketSlot) {
        self.bucket_bytes_mut(bucket)[slot] = 0;
    }

    /// Copies a bucket to bucket `to` of another array with the same layout.
    pub(super) fn copy_bucket(&self, bucket: usize, other: &mut BucketArray, to: usize) {
        other.bucket_bytes_mut(to).copy_from_slice(self.bucket_bytes(bucket));
    }

    /// Copies an entry of another array with the same layout into a free slot.
    pub(super) fn copy_entry(&mut self, (other, from): (&BucketArray, BucketSlot), to: BucketSlot) {
        let g = self.layout;
        let source = other.bucket_bytes(from.bucket);
        let target = self.bucket_bytes_mut(to.bucket);
        target[to.slot] = source[from.slot];
        target[g.keys_offset + to.slot * g.key_bytes..][..g.key_bytes]
            .copy_from_slice(&source[g.keys_offset + from.slot * g.key_bytes..][..g.key_bytes]);
        target[g.values_offset + to.slot * g.value_stride..][..g.value_stride]
            .copy_from_slice(&source[g.values_offset + from.slot * g.value_stride..][..g.value_stride]);
    }
}

/// Reader of the words of one key.
#[derive(Clone, Copy)]
struct KeyReader<'a> {
    bytes: &'a [u8],
    /// Offset of the key in the bucket, in bytes.
    start: usize,
    layout: &'a BucketLayout,
}

impl KeyReader<'_> {
    #[inline(always)]
    fn read_word(self, word: usize) -> u64 {
        let last = word + 1 == self.layout.key_words;
        let end = self.start + if last { self.layout.key_bytes } else { 8 * word + 8 };
        assert!(end >= 8 && end <= self.bytes.len());
        // SAFETY: the range was just checked.
        let read = unsafe { self.bytes.as_ptr().add(end - 8).cast::<u64>().read_unaligned() };
        u64::from_le(read) >> if last { self.layout.last_word_shift } else { 0 }
    }
}

/// Buckets changed since tracking started.
#[derive(Clone, Debug, Default)]
pub(super) struct DirtyBuckets {
    /// Bucket numbers, possibly with duplicates.
    pub(super) buckets: Vec<u32>,
    /// All buckets count as dirty, because too many changed to track them one by one.
    pub(super) is_all_dirty: bool,
}

impl DirtyBuckets {
    /// Marks a bucket as dirty in a table of `lines` cache lines.
    #[inline(always)]
    pub(super) fn mark_dirty(&mut self, bucket: u32, lines: usize) {
        if self.is_all_dirty || self.buckets.last() == Some(&bucket) {
            return;
        }
        self.buckets.push(bucket);
        if self.buckets.len() > lines {
            *self = DirtyBuckets { buckets: Vec::new(), is_all_dirty: true };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && !self.is_all_dirty
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }
}
