//! [`BucketCompare`]: constants for comparing a whole bucket with a key at once.
//!
//! A permutation copies the bytes of the key to their position in each slot, and the tag to the tag
//! bytes. The comparison with the bucket's lines yields a bit per byte. A slot matches if none of
//! its bytes differs. Used by [`super::avx512`] and [`super::avx2`].
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use super::bucket_layout::{BucketLayout, LINE_BYTES, MAX_SLOTS};

/// Constants for the comparison with one line of a bucket.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct LineCompare {
    /// For each byte of the line, the byte of the key that belongs there.
    pub spread: [u8; LINE_BYTES],
    /// For each slot, the bytes of the line that hold its tag and key.
    pub slot_masks: [u64; MAX_SLOTS],
}

/// Constants for the comparison with a bucket.
#[derive(Clone, Debug)]
pub(super) struct BucketCompare {
    /// One element for each line of a bucket.
    pub lines: Box<[LineCompare]>,
    /// Shuffles of the first line for vectors of half a line, which can take sixteen key bytes at a
    /// time. For each half: the positions of the key's first sixteen bytes, and of the later bytes.
    /// A byte with the top bit set selects neither.
    pub half_shuffles: Box<[[[u8; LINE_BYTES / 2]; 2]; 2]>,
    /// Bytes of the first line that are tags.
    pub tag_mask: u64,
    /// Offset of each slot's value in the bucket, in bytes. Never 0.
    pub value_offsets: [u64; MAX_SLOTS],
}

impl BucketCompare {
    /// Computes the constants for a layout: for each byte of a line the byte of a key that belongs
    /// there (`spread`), and for each slot the bytes that must be equal, its tag among them.
    pub(super) fn new(layout: &BucketLayout) -> BucketCompare {
        let empty = LineCompare { spread: [0; LINE_BYTES], slot_masks: [0; MAX_SLOTS] };
        let mut lines = vec![empty; layout.line_count].into_boxed_slice();
        let mut values = [0; MAX_SLOTS];
        for (slot, value) in values.iter_mut().enumerate().take(layout.slot_count) {
            *value = (layout.values_offset + slot * layout.value_stride) as u64;
            lines[0].slot_masks[slot] = 1 << slot;
            for byte in 0..layout.key_bytes {
                let offset = layout.keys_offset + slot * layout.key_bytes + byte;
                let line = &mut lines[offset / LINE_BYTES];
                line.spread[offset % LINE_BYTES] = byte as u8;
                line.slot_masks[slot] |= 1 << (offset % LINE_BYTES);
            }
        }
        BucketCompare {
            half_shuffles: Box::new(half_shuffles(&lines[0], layout.slot_count)),
            lines,
            tag_mask: (1 << layout.slot_count) - 1,
            value_offsets: values,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.half_shuffles)
    }
}

/// Computes [`BucketCompare::half_shuffles`]. The first `slots` bytes of the line are tags.
fn half_shuffles(line: &LineCompare, slots: usize) -> [[[u8; LINE_BYTES / 2]; 2]; 2] {
    let mut halves = [[[0x80; LINE_BYTES / 2]; 2]; 2];
    for (at, byte) in line.spread.into_iter().enumerate().skip(slots) {
        halves[at / (LINE_BYTES / 2)][usize::from(byte / 16) % 2][at % (LINE_BYTES / 2)] = byte % 16;
    }
    halves
}
