//! [`Pattern`]: how a whole bucket is compared with a key at once.
//!
//! A permutation spreads the bytes of the key to where they would lie in each slot; the tag is put before each. What differs from
//! the bucket's lines is a bit for each byte, and an entry is the key's if none of its bytes differs. [`super::lanes`] does that, and
//! [`super::quads`].
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use super::geometry::{Geometry, LINE, MAX_SLOTS};

/// What the comparison with a line of a bucket needs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct LinePattern {
    /// For each byte of the line: the byte of the key that would be there.
    pub spread: [u8; LINE],
    /// For each slot: the bytes of the line that have its tag and key.
    pub slots: [u64; MAX_SLOTS],
}

/// What the comparison with a bucket needs.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// As many as a bucket has.
    pub lines: Box<[LinePattern]>,
    /// The same of the first line for vectors of half a line, which spread sixteen bytes of a key at a time: for each half the bytes of the key's first
    /// sixteen, and of those behind. A byte with the highest bit set is none of these.
    pub halves: Box<[[[u8; LINE / 2]; 2]; 2]>,
    /// The bytes of the first line that are tags.
    pub tags: u64,
    /// Where each slot's value lies. Never 0.
    pub values: [u64; MAX_SLOTS],
}

impl Pattern {
    pub(super) fn new(g: &Geometry) -> Pattern {
        let none = LinePattern { spread: [0; LINE], slots: [0; MAX_SLOTS] };
        let mut lines = vec![none; g.lines].into_boxed_slice();
        let mut values = [0; MAX_SLOTS];
        for (slot, value) in values.iter_mut().enumerate().take(g.slots) {
            *value = (g.values + slot * g.value) as u64;
            lines[0].slots[slot] = 1 << slot;
            for byte in 0..g.key {
                let place = g.keys + slot * g.key + byte;
                let line = &mut lines[place / LINE];
                line.spread[place % LINE] = byte as u8;
                line.slots[slot] |= 1 << (place % LINE);
            }
        }
        Pattern { halves: Box::new(halves(&lines[0], g.slots)), lines, tags: (1 << g.slots) - 1, values }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.halves)
    }
}

/// See [`Pattern::halves`]. The first `slots` bytes of the line are tags.
fn halves(line: &LinePattern, slots: usize) -> [[[u8; LINE / 2]; 2]; 2] {
    let mut halves = [[[0x80; LINE / 2]; 2]; 2];
    for (at, byte) in line.spread.into_iter().enumerate().skip(slots) {
        halves[at / (LINE / 2)][usize::from(byte / 16) % 2][at % (LINE / 2)] = byte % 16;
    }
    halves
}
