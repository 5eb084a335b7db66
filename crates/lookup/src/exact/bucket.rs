//! [`Buckets`]: the slots of all buckets, read and written one at a time. For the writer; [`super::probe`] reads in batches.
#![allow(unsafe_code)]

use super::geometry::{Geometry, in_all_bytes, zero_bytes};
use super::hash::Seeds;
use crate::memory::HugeVec;

/// A slot of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub bucket: usize,
    pub slot: usize,
}

/// Slots of a bucket: the highest bit of the byte of each.
struct Tagged {
    bucket: usize,
    mask: u64,
}

impl Iterator for Tagged {
    type Item = Slot;
    #[inline(always)]
    fn next(&mut self) -> Option<Slot> {
        let slot = self.mask.trailing_zeros() as usize / 8;
        (self.mask != 0).then(|| {
            self.mask &= self.mask - 1;
            Slot { bucket: self.bucket, slot }
        })
    }
}

/// All buckets of a table.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    pub geometry: Geometry,
    pub(super) lines: HugeVec<[u64; 8]>,
    /// Buckets that have changed since somebody began to note them, if somebody did ([`super::follow`]).
    pub(super) touched: Option<Touched>,
}

impl Buckets {
    pub(super) fn new(geometry: Geometry) -> Buckets {
        Buckets { geometry, lines: HugeVec::new(), touched: None }
    }

    /// Makes room for `count` buckets; new ones are empty.
    pub(super) fn grow(&mut self, count: usize) {
        self.lines.grow(count * self.geometry.lines);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.bytes() + self.touched.as_ref().map_or(0, Touched::memory_bytes)
    }

    /// The first byte of the first bucket.
    pub(super) fn start(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    fn bucket(&self, bucket: usize) -> &[[u64; 8]] {
        &self.lines[bucket * self.geometry.lines..][..self.geometry.lines]
    }

    fn bytes(&self, bucket: usize) -> &[u8] {
        let lines = self.bucket(bucket);
        // SAFETY: the same memory; any bytes are u8s.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
    }

    /// All that changes a bucket comes here.
    fn bytes_mut(&mut self, bucket: usize) -> &mut [u8] {
        if let Some(touched) = &mut self.touched {
            touched.note(bucket as u32, self.lines.len());
        }
        let per_bucket = self.geometry.lines;
        let lines = &mut self.lines[bucket * per_bucket..][..per_bucket];
        // SAFETY: the same memory, borrowed as it was; any bytes are u64s.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines)) }
    }

    /// The slots of a bucket whose tag is this one; 0 is the tag of those that hold nothing.
    #[inline(always)]
    fn tagged(&self, bucket: usize, tag: u8) -> Tagged {
        // Bytes that are no tags are masked.
        let tags = u64::from_le(self.lines[bucket * self.geometry.lines][0]);
        Tagged { bucket, mask: zero_bytes(tags ^ in_all_bytes(tag)) & self.geometry.tag_mask }
    }

    /// The slots of a bucket that hold an entry.
    pub(super) fn full_slots(&self, bucket: usize) -> impl Iterator<Item = Slot> + use<> {
        let Tagged { mask, .. } = self.tagged(bucket, 0);
        Tagged { bucket, mask: mask ^ self.geometry.tag_mask }
    }

    /// A slot that holds nothing.
    #[inline(always)]
    pub(super) fn free_slot(&self, bucket: usize) -> Option<Slot> {
        self.tagged(bucket, 0).next()
    }

    /// The slot of a bucket that holds a key.
    #[inline(always)]
    pub(super) fn find(&self, bucket: usize, tag: u8, key: &[u64]) -> Option<Slot> {
        self.tagged(bucket, tag).find(|slot| self.key(*slot).eq(key.iter().copied()))
    }

    /// The words of the key in a slot.
    #[inline(always)]
    pub(super) fn key(&self, Slot { bucket, slot }: Slot) -> impl ExactSizeIterator<Item = u64> {
        let reader = self.key_reader(bucket, slot);
        (0..self.geometry.words).map(move |word| reader.word(word))
    }

    /// The hash of the key in a slot.
    #[inline(always)]
    pub(super) fn hash(&self, Slot { bucket, slot }: Slot, seeds: &Seeds) -> u64 {
        let reader = self.key_reader(bucket, slot);
        match self.geometry.words {
            1 => seeds.hash(1, |_| reader.word(0)),
            words => seeds.hash(words, |word| reader.word(word)),
        }
    }

    #[inline(always)]
    fn key_reader(&self, bucket: usize, slot: usize) -> KeyReader<'_> {
        KeyReader {
            bytes: self.bytes(bucket),
            start: self.geometry.keys + slot * self.geometry.key,
            geometry: &self.geometry,
        }
    }

    /// The bytes for a slot's value, the mark of a spilled one included.
    pub(super) fn value(&self, Slot { bucket, slot }: Slot) -> &[u8] {
        let g = &self.geometry;
        &self.bytes(bucket)[g.values + slot * g.value..][..g.value]
    }

    pub(super) fn value_mut(&mut self, Slot { bucket, slot }: Slot) -> &mut [u8] {
        let g = self.geometry;
        &mut self.bytes_mut(bucket)[g.values + slot * g.value..][..g.value]
    }

    /// Fills a slot's tag and key.
    pub(super) fn write_key(&mut self, Slot { bucket, slot }: Slot, tag: u8, key: &[u64]) {
        let g = self.geometry;
        let bytes = self.bytes_mut(bucket);
        bytes[slot] = tag;
        let room = &mut bytes[g.keys + slot * g.key..][..g.key];
        for (to, word) in room.chunks_mut(8).zip(key) {
            to.copy_from_slice(&word.to_le_bytes()[..to.len()]);
        }
    }

    /// Copies an entry to another slot; its own is empty afterwards.
    pub(super) fn shift(&mut self, from: Slot, to: Slot) {
        let g = self.geometry;
        assert!(from.slot < g.slots && to.slot < g.slots);
        let source = self.bytes_mut(from.bucket).as_mut_ptr();
        let target = self.bytes_mut(to.bucket).as_mut_ptr();
        // SAFETY: `source` and `target` are buckets of this table, checked when they were borrowed, and the slots exist, so all ranges
        // lie inside of them. `copy_to` allows ranges to be the same.
        unsafe {
            let key = |slot: usize| g.keys + slot * g.key;
            let value = |slot: usize| g.values + slot * g.value;
            source.add(key(from.slot)).copy_to(target.add(key(to.slot)), g.key);
            source.add(value(from.slot)).copy_to(target.add(value(to.slot)), g.value);
            let tag = source.add(from.slot).replace(0);
            target.add(to.slot).write(tag);
        }
    }

    /// Empties a slot.
    pub(super) fn clear(&mut self, Slot { bucket, slot }: Slot) {
        self.bytes_mut(bucket)[slot] = 0;
    }

    /// Copies a bucket to bucket `to` of another `Buckets` of the same geometry.
    pub(super) fn copy_bucket(&self, bucket: usize, other: &mut Buckets, to: usize) {
        other.bytes_mut(to).copy_from_slice(self.bytes(bucket));
    }

    /// Copies an entry of another `Buckets` of the same geometry into an empty slot.
    pub(super) fn copy_entry(&mut self, (other, from): (&Buckets, Slot), to: Slot) {
        let g = self.geometry;
        let source = other.bytes(from.bucket);
        let target = self.bytes_mut(to.bucket);
        target[to.slot] = source[from.slot];
        target[g.keys + to.slot * g.key..][..g.key].copy_from_slice(&source[g.keys + from.slot * g.key..][..g.key]);
        target[g.values + to.slot * g.value..][..g.value]
            .copy_from_slice(&source[g.values + from.slot * g.value..][..g.value]);
    }
}

/// Reads the words of one key.
#[derive(Clone, Copy)]
struct KeyReader<'a> {
    bytes: &'a [u8],
    /// Where the key begins.
    start: usize,
    geometry: &'a Geometry,
}

impl KeyReader<'_> {
    #[inline(always)]
    fn word(self, word: usize) -> u64 {
        let last = word + 1 == self.geometry.words;
        let end = self.start + if last { self.geometry.key } else { 8 * word + 8 };
        assert!(end >= 8 && end <= self.bytes.len());
        // SAFETY: just checked.
        let read = unsafe { self.bytes.as_ptr().add(end - 8).cast::<u64>().read_unaligned() };
        u64::from_le(read) >> if last { self.geometry.shift } else { 0 }
    }
}

/// Buckets that have changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// Some of them more than once.
    pub(super) buckets: Vec<u32>,
    /// So many that all count as changed; then they are not noted one by one.
    pub(super) all: bool,
}

impl Touched {
    /// Notes a bucket of a table of so many lines.
    #[inline(always)]
    pub(super) fn note(&mut self, bucket: u32, lines: usize) {
        if self.all || self.buckets.last() == Some(&bucket) {
            return;
        }
        self.buckets.push(bucket);
        if self.buckets.len() > lines {
            *self = Touched { buckets: Vec::new(), all: true };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && !self.all
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }
}
