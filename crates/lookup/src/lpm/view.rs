//! [`LpmView`]: the raw pointers to a table's memory, and constants shared by the lookup
//! implementations.
#![allow(unsafe_code)]

use super::forest::TrieForest;
use super::prefix_line::PrefixLineLayouts;
use smallvec::SmallVec;

/// Keys per pass; many keys share the latency between passes.
pub(super) const CHUNK_KEYS: usize = 512;
/// Maximum bytes expected to stay in cache. Values and lines are prefetched if they take more in
/// total.
pub(super) const CACHED_BYTES: usize = 256 << 10;
/// Mask of a slot in a word, by the binary logarithm of the slot size.
pub(super) const SLOT_MASKS: [u64; 4] = [0xff, 0xffff, 0xffff_ffff, u64::MAX];

/// Raw pointers to a table's memory.
pub(super) struct LpmView<'a> {
    /// First line of the pool.
    pub pool: *const u8,
    /// Address of value number 0, and the distance between values in bytes.
    pub values: *const u8,
    pub value_stride: usize,
    pub uses_value_numbers: bool,
    /// Layouts of lines in the pool.
    pub line_layouts: &'a PrefixLineLayouts,
}

impl<'a> LpmView<'a> {
    /// Creates the view of a table with this forest.
    pub fn new<A>(forest: &'a TrieForest<A>) -> LpmView<'a> {
        LpmView {
            pool: forest.pool.base_ptr(),
            values: forest.values.base_ptr(),
            value_stride: forest.values.stride(),
            uses_value_numbers: forest.uses_value_numbers,
            line_layouts: &forest.line_layouts,
        }
    }
}

/// Looks up the keys with these indices, of `words` words each, by `walk`, because a direct index
/// did not resolve them.
pub(super) fn lookup_unresolved(
    indices: impl Iterator<Item = usize> + Clone,
    words: usize,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    let far: SmallVec<[u64; 32]> =
        indices.clone().flat_map(|index| &keys[index * words..(index + 1) * words]).copied().collect();
    let mut found = SmallVec::<[*const u8; 16]>::from_elem(std::ptr::null(), far.len() / words);
    walk(&far, &mut found);
    indices.zip(found).for_each(|(index, found)| out[index] = found);
}

/// Prefetches a cache line.
#[inline(always)]
pub(super) fn prefetch_line(at: *const u8) {
    entries::prefetch(at, 1);
}
