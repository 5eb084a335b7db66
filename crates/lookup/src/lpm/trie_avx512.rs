//! [`TrieWalkAvx512`]: walk through trie nodes with eight keys at once (AVX-512).
//!
//! No branch depends on a key's next step, because that comes from memory still in flight and a
//! misprediction would discard the outstanding misses of later keys. Keys keep their positions in
//! the first two levels, because most keys reach those. Keys that go deeper are compacted. The
//! gathers of a level are independent, so the processor keeps many in flight.
#![allow(unsafe_code)]

use super::next_hops::VALUE_NUMBER_BITS;
use super::node::PREAMBLE_BYTES;
use super::pool::BlockRef;
use super::root::{RootCache, RootPrefix};
use super::view::{CHUNK_KEYS, LpmView};
use crate::avx512::{AVX512_LANES, first_lanes, load_key_pairs};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Maximum number of keys in flight.
const MAX_KEYS: usize = CHUNK_KEYS;
const PREFIX_LINE_FLAG: i64 = 1 << 35;

type LaneWords = [MaybeUninit<u64>; MAX_KEYS + AVX512_LANES];

/// Keys with their current block and remaining address: its first 64 bits, and the others.
#[repr(C, align(64))]
struct KeyList {
    refs: LaneWords,
    high: LaneWords,
    low: LaneWords,
    /// Index of the key in the batch.
    key_indices: LaneWords,
    /// Mask of the slot in its word.
    masks: LaneWords,
    len: usize,
}

/// Keys at nodes and at prefix lines.
pub(super) struct TrieWalkAvx512 {
    nodes: KeyList,
    next_nodes: KeyList,
    lines: KeyList,
}

/// Eight keys of a list.
struct KeyVector {
    refs: __m512i,
    high: __m512i,
    low: __m512i,
}

impl KeyList {
    #[inline(always)]
    fn push_key(&mut self, to: BlockRef, address: u128, key_index: usize) {
        if self.len < MAX_KEYS {
            self.refs[self.len].write(to.0);
            self.high[self.len].write((address >> 64) as u64);
            self.low[self.len].write(address as u64);
            self.key_indices[self.len].write(key_index as u64);
            self.len += 1;
        }
    }

    /// Appends those of eight keys that are in `mask`; the list must have space for eight.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn append_selected<const WIDE: bool>(&mut self, mask: __mmask8, keys: &KeyVector, key_index: __m512i) {
        let at = self.len;
        let put = |words: &mut LaneWords, vector: __m512i| {
            // SAFETY: `at` is at most MAX_KEYS, and eight words follow.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().add(at).cast(), _mm512_maskz_compress_epi64(mask, vector)) }
        };
        put(&mut self.refs, keys.refs);
        put(&mut self.high, keys.high);
        if WIDE {
            put(&mut self.low, keys.low);
        }
        put(&mut self.key_indices, key_index);
        self.len += mask.count_ones() as usize;
    }

    /// Prefetches the prefix lines from index `first` on.
    #[inline(always)]
    fn prefetch_lines_from(&self, view: &LpmView<'_>, first: usize) {
        for set in &self.refs[first..self.len] {
            // SAFETY: written when the key was appended; a prefetch cannot fault.
            unsafe {
                let line = BlockRef(set.assume_init()).line() as usize;
                _mm_prefetch::<_MM_HINT_T0>(view.pool.wrapping_add(line << 6).cast());
            }
        }
    }

    /// Loads eight keys from `first` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_eight<const WIDE: bool>(&self, first: usize) -> KeyVector {
        // SAFETY: all lists have eight words after MAX_KEYS. The caller masks unwritten words.
        let load = |words: &LaneWords| unsafe { _mm512_load_si512(words.as_ptr().add(first).cast()) };
        let low = if WIDE { load(&self.low) } else { _mm512_setzero_si512() };
        KeyVector { refs: load(&self.refs), high: load(&self.high), low }
    }

    /// Pads the list to a multiple of eight with null references.
    #[inline(always)]
    fn pad_to_vector(&mut self) {
        let len = self.len.min(MAX_KEYS);
        self.refs[len..len.next_multiple_of(AVX512_LANES)].fill(MaybeUninit::new(0));
    }

    /// Replaces the block of each of the first `count` keys, which is a node or null, by its slot,
    /// and removes the slot's bits from the address. Does nothing else, because stores to addresses
    /// that depend on a slot would delay later slots. With `PREFETCH`, prefetches all slots before
    /// reading the first, for levels that exceed the second-level cache.
    ///
    /// # Safety
    /// The references name nodes in the pool of `view`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn read_slots<const WIDE: bool, const PREFETCH: bool>(&mut self, view: &LpmView<'_>, count: usize) {
        let splat = |word: i64| _mm512_set1_epi64(word);
        // Masks of a slot by the logarithm of its size in bytes.
        let masks = _mm512_set_epi64(0, 0, 0, 0, -1, 0xffff_ffff, 0xffff, 0xff);
        let start = splat(view.pool as i64 + PREAMBLE_BYTES as i64);
        for first in (0..count).step_by(AVX512_LANES) {
            // SAFETY: all lists have eight words after MAX_KEYS.
            unsafe {
                let KeyVector { refs, high, low } = self.load_eight::<WIDE>(first);
                let has_node = _mm512_test_epi64_mask(refs, refs);
                let block = _mm512_add_epi64(_mm512_slli_epi64(_mm512_and_si512(refs, splat((1 << 29) - 1)), 6), start);
                let stride = _mm512_add_epi64(_mm512_and_si512(_mm512_srli_epi64(refs, 29), splat(15)), splat(1));
                let size = _mm512_and_si512(_mm512_srli_epi64(refs, 33), splat(3));
                let slot = _mm512_sllv_epi64(_mm512_srlv_epi64(high, _mm512_sub_epi64(splat(64), stride)), size);
                let byte = _mm512_maskz_add_epi64(has_node, block, slot);
                let (high, low) = skip_leading_bits::<WIDE>(high, low, stride);
                let mask = _mm512_permutexvar_epi64(size, masks);
                _mm512_store_si512(self.masks.as_mut_ptr().add(first).cast(), mask);
                self.store_eight::<WIDE>(first, &KeyVector { refs: byte, high, low });
            }
        }
        // The addresses of the slots are in `refs` until the slots are read.
        if PREFETCH {
            for address in &self.refs[..count] {
                // SAFETY: written above; a prefetch cannot fault.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(address.assume_init() as *const i8) };
            }
        }
        for first in (0..count).step_by(AVX512_LANES) {
            // SAFETY: a slot of a node lies in an aligned word of the pool; null keys are masked.
            unsafe {
                let byte = _mm512_load_si512(self.refs.as_ptr().add(first).cast());
                let has_node = _mm512_test_epi64_mask(byte, byte);
                let aligned = _mm512_andnot_si512(splat(7), byte);
                let no_base = std::ptr::null::<i64>();
                let words = _mm512_mask_i64gather_epi64::<1>(_mm512_setzero_si512(), has_node, aligned, no_base);
                let shift = _mm512_slli_epi64(_mm512_and_si512(byte, splat(7)), 3);
                let mask = _mm512_load_si512(self.masks.as_ptr().add(first).cast());
                let slots = _mm512_and_si512(_mm512_srlv_epi64(words, shift), mask);
                _mm512_store_si512(self.refs.as_mut_ptr().add(first).cast(), slots);
            }
        }
    }

    /// Stores eight keys at `first`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store_eight<const WIDE: bool>(&mut self, first: usize, keys: &KeyVector) {
        // SAFETY: all lists have eight words after MAX_KEYS.
        let store =
            |words: &mut LaneWords, vector| unsafe { _mm512_store_si512(words.as_mut_ptr().add(first).cast(), vector) };
        store(&mut self.refs, keys.refs);
        store(&mut self.high, keys.high);
        if WIDE {
            store(&mut self.low, keys.low);
        }
    }
}

impl TrieWalkAvx512 {
    /// Creates empty lists without initialising their memory.
    #[inline(always)]
    pub(super) fn new(memory: &mut MaybeUninit<TrieWalkAvx512>) -> &mut TrieWalkAvx512 {
        let lanes = memory.as_mut_ptr();
        // SAFETY: only the lengths must be initialised; the words may be uninitialised.
        unsafe {
            (&raw mut (*lanes).nodes.len).write(0);
            (&raw mut (*lanes).next_nodes.len).write(0);
            (&raw mut (*lanes).lines.len).write(0);
            &mut *lanes
        }
    }

    /// Adds a key at a block. At most [`MAX_KEYS`] are in flight.
    #[inline(always)]
    pub(super) fn send_key(&mut self, to: BlockRef, address: u128, key_index: usize) {
        if to.is_prefix_line() {
            self.lines.push_key(to, address, key_index);
        } else if !to.is_null() {
            self.nodes.push_key(to, address, key_index);
        }
    }

    /// Walks all keys through a table's root and two levels of nodes. `keys` has one word for each,
    /// or two if `WIDE`; `bits` of them are the address. Writes the values on the path to `out`.
    ///
    /// # Safety
    /// The processor has AVX-512 F; `keys` holds all words of `count` keys and `out` has `count`
    /// elements; references name blocks in the pool of `view`.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn walk_from_root<const WIDE: bool>(
        &mut self,
        view: &LpmView<'_>,
        root: &RootCache,
        (keys, bits): (*const u64, u32),
        out: *mut *const u8,
        count: usize,
    ) {
        let count = count.min(MAX_KEYS);
        // SAFETY: guaranteed by the caller; lists have space for all keys up to the next multiple
        // of eight.
        unsafe {
            for first in (0..count).step_by(AVX512_LANES) {
                let (high, low) = load_addresses::<WIDE>(keys, bits, first, count);
                let key_lanes = first_lanes(count - first);
                let mut found = _mm512_setzero_si512();
                for (prefix, value) in &root.routes {
                    let matches = match_prefix::<WIDE>(high, low, prefix);
                    found = _mm512_mask_mov_epi64(found, matches, _mm512_set1_epi64(*value as i64));
                }
                _mm512_mask_storeu_epi64(out.add(first).cast(), key_lanes, found);
                let matches_child = match_prefix::<WIDE>(high, low, &root.child_prefix) & key_lanes;
                let refs = _mm512_maskz_set1_epi64(matches_child, root.child.0 as i64);
                let (high, low) =
                    skip_leading_bits::<WIDE>(high, low, _mm512_set1_epi64(i64::from(root.child_prefix.len)));
                self.next_nodes.store_eight::<WIDE>(first, &KeyVector { refs, high, low });
            }
            if root.child.is_null() {
                return;
            }
            if root.child.is_prefix_line() {
                // A compressed child is usually a node, and a line only temporarily.
                for first in (0..count).step_by(AVX512_LANES) {
                    let keys = self.next_nodes.load_eight::<WIDE>(first);
                    distribute_keys::<WIDE>(&mut self.nodes, &mut self.lines, &keys, key_positions(first));
                }
                return;
            }
            self.next_nodes.read_slots::<WIDE, false>(view, count);
            let mut has_deeper_nodes = 0;
            for first in (0..count).step_by(AVX512_LANES) {
                let mut keys = self.next_nodes.load_eight::<WIDE>(first);
                let (refs, found, values) = decode_slots(view, keys.refs);
                _mm512_mask_storeu_epi64(out.add(first).cast(), found, values);
                let at_line = _mm512_test_epi64_mask(refs, _mm512_set1_epi64(PREFIX_LINE_FLAG));
                keys.refs = refs;
                self.lines.append_selected::<WIDE>(at_line, &keys, key_positions(first));
                keys.refs = _mm512_maskz_mov_epi64(!at_line, refs);
                has_deeper_nodes |= _mm512_test_epi64_mask(keys.refs, keys.refs);
                self.next_nodes.store_eight::<WIDE>(first, &keys);
            }
            self.lines.prefetch_lines_from(view, 0);
            if has_deeper_nodes == 0 {
                return;
            }
            let lines_before = self.lines.len;
            self.next_nodes.read_slots::<WIDE, true>(view, count);
            for first in (0..count).step_by(AVX512_LANES) {
                let mut keys = self.next_nodes.load_eight::<WIDE>(first);
                let (refs, found, values) = decode_slots(view, keys.refs);
                _mm512_mask_storeu_epi64(out.add(first).cast(), found, values);
                keys.refs = refs;
                distribute_keys::<WIDE>(&mut self.nodes, &mut self.lines, &keys, key_positions(first));
            }
            self.lines.prefetch_lines_from(view, lines_before);
        }
    }

    /// Walks all keys through their nodes until each is at a prefix line or null. Writes the values
    /// on the path to `out`.
    ///
    /// # Safety
    /// The processor has AVX-512 F; all references name blocks in the pool of `view`; `out` has an
    /// element for each key.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn walk_nodes<const WIDE: bool>(&mut self, view: &LpmView<'_>, out: *mut *const u8) {
        let TrieWalkAvx512 { nodes, next_nodes: next, lines } = self;
        let (mut from, mut to) = (nodes, next);
        while from.len > 0 {
            let lines_before = lines.len;
            to.len = 0;
            // SAFETY: guaranteed by the caller; masked to the existing keys, which are all at
            // nodes.
            unsafe {
                from.pad_to_vector();
                from.read_slots::<WIDE, true>(view, from.len);
                for first in (0..from.len).step_by(AVX512_LANES) {
                    let mut keys = from.load_eight::<WIDE>(first);
                    let (refs, found, values) = decode_slots(view, keys.refs);
                    let key_index = _mm512_load_si512(from.key_indices.as_ptr().add(first).cast());
                    _mm512_mask_i64scatter_epi64::<8>(out.cast(), found, key_index, values);
                    keys.refs = refs;
                    distribute_keys::<WIDE>(to, lines, &keys, key_index);
                }
            }
            lines.prefetch_lines_from(view, lines_before);
            std::mem::swap(&mut from, &mut to);
        }
        to.len = 0;
    }

    /// Calls `at_line` for each key at a prefix line, with the key's index, the line and the
    /// remaining address. It returns the key's next block and the remaining address there. Returns
    /// whether any key remains.
    #[inline(always)]
    pub(super) fn process_lines(&mut self, mut at_line: impl FnMut(usize, BlockRef, u128) -> (BlockRef, u128)) -> bool {
        let count = std::mem::take(&mut self.lines.len);
        for index in 0..count.min(MAX_KEYS) {
            // SAFETY: written when the key was appended. The list is refilled from its start,
            // before this key.
            let (set, high, low, key_index) = unsafe {
                let KeyList { refs, high, low, key_indices: key_index, .. } = &self.lines;
                let (high, low) = (high[index].assume_init(), low[index].assume_init());
                (refs[index].assume_init(), high, low, key_index[index].assume_init())
            };
            let (to, rest) = at_line(key_index as usize, BlockRef(set), u128::from(high) << 64 | u128::from(low));
            if !to.is_null() {
                self.send_key(to, rest, key_index as usize);
            }
        }
        self.nodes.len + self.lines.len > 0
    }
}

/// Appends those of eight keys that are not null to the list for their type of block.
///
/// # Safety
/// Each list has space for eight.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn distribute_keys<const WIDE: bool>(
    nodes: &mut KeyList,
    sets: &mut KeyList,
    keys: &KeyVector,
    key_index: __m512i,
) {
    let at_line = _mm512_test_epi64_mask(keys.refs, _mm512_set1_epi64(PREFIX_LINE_FLAG));
    let going = _mm512_test_epi64_mask(keys.refs, keys.refs) & !at_line;
    // SAFETY: guaranteed by the caller.
    unsafe {
        sets.append_selected::<WIDE>(at_line, keys, key_index);
        nodes.append_selected::<WIDE>(going, keys, key_index);
    }
}

/// Decodes slots: the next block of each key, the mask of slots with a value, and the address of
/// each value.
#[inline]
#[target_feature(enable = "avx512f")]
fn decode_slots(view: &LpmView<'_>, slots: __m512i) -> (__m512i, __mmask8, __m512i) {
    let all = |word: i64| _mm512_set1_epi64(word);
    let number = _mm512_and_si512(slots, all((1 << VALUE_NUMBER_BITS) - 1));
    let found = _mm512_test_epi64_mask(number, number);
    let values =
        _mm512_add_epi64(_mm512_mul_epu32(number, all(view.value_stride as u32 as i64)), all(view.values as i64));
    (_mm512_srli_epi64(slots, VALUE_NUMBER_BITS), found, values)
}

/// Removes the first `count` bits of addresses.
#[inline]
#[target_feature(enable = "avx512f")]
fn skip_leading_bits<const WIDE: bool>(high: __m512i, low: __m512i, count: __m512i) -> (__m512i, __m512i) {
    if !WIDE {
        return (_mm512_sllv_epi64(high, count), low);
    }
    // Correct for all counts, because shifts by 64 or more and by negative counts give 0.
    let sixty_four = _mm512_set1_epi64(64);
    let carried = _mm512_srlv_epi64(low, _mm512_sub_epi64(sixty_four, count));
    let far = _mm512_sllv_epi64(low, _mm512_sub_epi64(count, sixty_four));
    let high = _mm512_or_si512(_mm512_or_si512(_mm512_sllv_epi64(high, count), carried), far);
    (high, _mm512_sllv_epi64(low, count))
}

/// Returns the mask of addresses that match a prefix.
#[inline]
#[target_feature(enable = "avx512f")]
fn match_prefix<const WIDE: bool>(high: __m512i, low: __m512i, prefix: &RootPrefix) -> __mmask8 {
    let differs = |address: __m512i, word: usize| {
        let (bits, mask) = (prefix.bits[word] as i64, prefix.mask[word] as i64);
        _mm512_and_si512(_mm512_xor_si512(address, _mm512_set1_epi64(bits)), _mm512_set1_epi64(mask))
    };
    let high = differs(high, 0);
    let differs = if WIDE { _mm512_or_si512(high, differs(low, 1)) } else { high };
    _mm512_testn_epi64_mask(differs, differs)
}

/// Loads eight addresses from `first` on, left-aligned; 0 after the last.
///
/// # Safety
/// `keys` has one word for each of `count` keys, or two if `WIDE`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_addresses<const WIDE: bool>(
    keys: *const u64,
    bits: u32,
    first: usize,
    count: usize,
) -> (__m512i, __m512i) {
    let left = count - first;
    if !WIDE {
        // SAFETY: masked to the existing keys.
        let high = unsafe { _mm512_maskz_loadu_epi64(first_lanes(left), keys.add(first).cast()) };
        return (_mm512_sllv_epi64(high, _mm512_set1_epi64(i64::from(64 - bits))), _mm512_setzero_si512());
    }
    // SAFETY: guaranteed by the caller.
    let (low, high) = unsafe { load_key_pairs(keys.add(first * 2), left) };
    skip_leading_bits::<true>(high, low, _mm512_set1_epi64(i64::from(128 - bits)))
}

/// Returns the indices of eight keys.
#[inline]
#[target_feature(enable = "avx512f")]
fn key_positions(first: usize) -> __m512i {
    _mm512_add_epi64(_mm512_set1_epi64(first as i64), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0))
}
