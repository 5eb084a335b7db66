//! [`View`]: a table's memory as lookups read it, and what the ways to look up have in common.
#![allow(unsafe_code)]

use super::forest::Forest;
use super::set::Formats;
use smallvec::SmallVec;

/// Keys in flight: the waits between passes are shared by many.
pub(super) const CHUNK: usize = 512;
/// Bytes that stay in the nearer caches: values and lines that are more altogether are asked for before they are read.
pub(super) const NEAR: usize = 256 << 10;
/// What counts of a word read from a slot, by the logarithm of the slot's size.
pub(super) const MASKS: [u64; 4] = [0xff, 0xffff, 0xffff_ffff, u64::MAX];

/// A table's memory.
pub(super) struct View<'a> {
    /// The first line of the pool.
    pub pool: *const u8,
    /// Value number 0, and bytes from one to the next.
    pub values: *const u8,
    pub stride: usize,
    pub numbered: bool,
    /// Of lines in the pool.
    pub formats: &'a Formats,
}

impl<'a> View<'a> {
    /// That of a table with this forest.
    pub fn new<A>(forest: &'a Forest<A>) -> View<'a> {
        View {
            pool: forest.pool.start(),
            values: forest.values.start(),
            stride: forest.values.stride(),
            numbered: forest.numbered,
            formats: &forest.formats,
        }
    }
}

/// Looks up some of the keys, of so many words each, by `walk`: those that a shorter way does not answer.
pub(super) fn look_elsewhere(
    who: impl Iterator<Item = usize> + Clone,
    words: usize,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    let far: SmallVec<[u64; 32]> = who.clone().flat_map(|who| &keys[who * words..(who + 1) * words]).copied().collect();
    let mut found = SmallVec::<[*const u8; 16]>::from_elem(std::ptr::null(), far.len() / words);
    walk(&far, &mut found);
    who.zip(found).for_each(|(who, found)| out[who] = found);
}

/// Asks for the line of a cache, so that it is near when it is read.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    entries::prefetch(at, 1);
}
