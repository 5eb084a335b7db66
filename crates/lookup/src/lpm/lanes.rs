//! [`Lanes`]: the way through nodes, eight keys at once (AVX-512).
//!
//! What a key does next depends on memory that is on its way, so nothing here branches on it: a branch that is guessed wrong would
//! throw away the misses of the keys behind it. Keys of the first two levels keep their places, as most go that far; those that
//! go on are packed. The gathers of a level don't depend on each other, and the processor has many of them in flight by itself.
#![allow(unsafe_code)]

use super::node::PREAMBLE;
use super::pool::Ref;
use super::root::{Prefix, Root};
use super::values::NUMBER_BITS;
use super::view::{CHUNK, View};
use crate::eight::{EIGHT, first_lanes, pairs};
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// Keys in flight.
const LANES: usize = CHUNK;
const SET: i64 = 1 << 35;

type Words = [MaybeUninit<u64>; LANES + EIGHT];

/// Keys, where they are, and the address from there on: its first 64 bits, and those behind.
#[repr(C, align(64))]
struct List {
    refs: Words,
    high: Words,
    low: Words,
    /// Position of the key in the batch.
    who: Words,
    /// What counts of the word with a key's slot.
    masks: Words,
    len: usize,
}

/// Keys at nodes and at sets.
pub(super) struct Lanes {
    nodes: List,
    next: List,
    sets: List,
}

/// Eight keys of a list.
struct Eight {
    refs: __m512i,
    high: __m512i,
    low: __m512i,
}

impl List {
    #[inline(always)]
    fn push(&mut self, to: Ref, address: u128, who: usize) {
        if self.len < LANES {
            self.refs[self.len].write(to.0);
            self.high[self.len].write((address >> 64) as u64);
            self.low[self.len].write(address as u64);
            self.who[self.len].write(who as u64);
            self.len += 1;
        }
    }

    /// Appends those of eight keys that are in `mask`; there must be room for eight.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn pack<const WIDE: bool>(&mut self, mask: __mmask8, keys: &Eight, who: __m512i) {
        let at = self.len;
        let put = |words: &mut Words, vector: __m512i| {
            // SAFETY: `at` is at most LANES, and eight words are behind it.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().add(at).cast(), _mm512_maskz_compress_epi64(mask, vector)) }
        };
        put(&mut self.refs, keys.refs);
        put(&mut self.high, keys.high);
        if WIDE {
            put(&mut self.low, keys.low);
        }
        put(&mut self.who, who);
        self.len += mask.count_ones() as usize;
    }

    /// Asks for the lines of the sets from `first` on.
    #[inline(always)]
    fn ask(&self, view: &View<'_>, first: usize) {
        for set in &self.refs[first..self.len] {
            // SAFETY: written when the list became so long; asking for memory is a hint.
            unsafe {
                let line = Ref(set.assume_init()).line() as usize;
                _mm_prefetch::<_MM_HINT_T0>(view.pool.wrapping_add(line << 6).cast());
            }
        }
    }

    /// Eight keys from `first` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn eight<const WIDE: bool>(&self, first: usize) -> Eight {
        // SAFETY: all lists end eight words behind LANES. Words that nobody wrote are masked away by the caller.
        let load = |words: &Words| unsafe { _mm512_load_si512(words.as_ptr().add(first).cast()) };
        let low = if WIDE { load(&self.low) } else { _mm512_setzero_si512() };
        Eight { refs: load(&self.refs), high: load(&self.high), low }
    }

    /// Makes the last eight whole: keys that aren't there are nowhere.
    #[inline(always)]
    fn close(&mut self) {
        let len = self.len.min(LANES);
        self.refs[len..len.next_multiple_of(EIGHT)].fill(MaybeUninit::new(0));
    }

    /// For each of the first `count` keys that is at a node: its slot in place of where it is, and the address behind. All other
    /// keys must be nowhere. Nothing else happens here: stores to places that a slot decides would hold up the slots behind it.
    /// With `ASK`, all slots are asked for before the first is read: for levels that don't stay in the second-level cache.
    ///
    /// # Safety
    /// The refs name nodes in the pool of `view`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn read_slots<const WIDE: bool, const ASK: bool>(&mut self, view: &View<'_>, count: usize) {
        let all = |word: i64| _mm512_set1_epi64(word);
        let masks = _mm512_set_epi64(0, 0, 0, 0, -1, 0xffff_ffff, 0xffff, 0xff);
        let start = all(view.pool as i64 + PREAMBLE as i64);
        for first in (0..count).step_by(EIGHT) {
            // SAFETY: all lists end eight words behind LANES.
            unsafe {
                let Eight { refs, high, low } = self.eight::<WIDE>(first);
                let going = _mm512_test_epi64_mask(refs, refs);
                let block = _mm512_add_epi64(_mm512_slli_epi64(_mm512_and_si512(refs, all((1 << 29) - 1)), 6), start);
                let stride = _mm512_add_epi64(_mm512_and_si512(_mm512_srli_epi64(refs, 29), all(15)), all(1));
                let size = _mm512_and_si512(_mm512_srli_epi64(refs, 33), all(3));
                let slot = _mm512_sllv_epi64(_mm512_srlv_epi64(high, _mm512_sub_epi64(all(64), stride)), size);
                let byte = _mm512_maskz_add_epi64(going, block, slot);
                let (high, low) = skip::<WIDE>(high, low, stride);
                let mask = _mm512_permutexvar_epi64(size, masks);
                _mm512_store_si512(self.masks.as_mut_ptr().add(first).cast(), mask);
                self.put::<WIDE>(first, &Eight { refs: byte, high, low });
            }
        }
        if ASK {
            for at in &self.refs[..count] {
                // SAFETY: written above; asking for memory is a hint.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.assume_init() as *const i8) };
            }
        }
        for first in (0..count).step_by(EIGHT) {
            // SAFETY: a slot of a node lies in the pool, in an aligned word; keys that are nowhere have no place.
            unsafe {
                let byte = _mm512_load_si512(self.refs.as_ptr().add(first).cast());
                let going = _mm512_test_epi64_mask(byte, byte);
                let aligned = _mm512_andnot_si512(all(7), byte);
                let none = std::ptr::null::<i64>();
                let words = _mm512_mask_i64gather_epi64::<1>(_mm512_setzero_si512(), going, aligned, none);
                let shift = _mm512_slli_epi64(_mm512_and_si512(byte, all(7)), 3);
                let mask = _mm512_load_si512(self.masks.as_ptr().add(first).cast());
                let slots = _mm512_and_si512(_mm512_srlv_epi64(words, shift), mask);
                _mm512_store_si512(self.refs.as_mut_ptr().add(first).cast(), slots);
            }
        }
    }

    /// Writes eight keys to their places.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn put<const WIDE: bool>(&mut self, first: usize, keys: &Eight) {
        // SAFETY: all lists end eight words behind LANES.
        let store =
            |words: &mut Words, vector| unsafe { _mm512_store_si512(words.as_mut_ptr().add(first).cast(), vector) };
        store(&mut self.refs, keys.refs);
        store(&mut self.high, keys.high);
        if WIDE {
            store(&mut self.low, keys.low);
        }
    }
}

impl Lanes {
    /// Empty lists, in memory that need not be written for it.
    #[inline(always)]
    pub(super) fn new(memory: &mut MaybeUninit<Lanes>) -> &mut Lanes {
        let lanes = memory.as_mut_ptr();
        // SAFETY: the lengths are all that must have a value; words may be uninitialised.
        unsafe {
            (&raw mut (*lanes).nodes.len).write(0);
            (&raw mut (*lanes).next.len).write(0);
            (&raw mut (*lanes).sets.len).write(0);
            &mut *lanes
        }
    }

    /// Sends one key on. At most [`LANES`] are on their way.
    #[inline(always)]
    pub(super) fn put(&mut self, to: Ref, address: u128, who: usize) {
        if to.is_set() {
            self.sets.push(to, address, who);
        } else if !to.is_null() {
            self.nodes.push(to, address, who);
        }
    }

    /// All keys through a table's root and two levels of nodes. `keys` has one word for each, or two if `WIDE`; `bits` of them are the
    /// address. `out` gets the values on the way.
    ///
    /// # Safety
    /// The processor has AVX-512 F; `keys` has that many words for `count` keys and `out` that many elements; refs name blocks in
    /// the pool of `view`.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn start<const WIDE: bool>(
        &mut self,
        view: &View<'_>,
        root: &Root,
        (keys, bits): (*const u64, u32),
        out: *mut *const u8,
        count: usize,
    ) {
        let count = count.min(LANES);
        // SAFETY: as promised to this function; lists have room for all keys up to the next multiple of eight.
        unsafe {
            for first in (0..count).step_by(EIGHT) {
                let (high, low) = addresses::<WIDE>(keys, bits, first, count);
                let there = first_lanes(count - first);
                let mut found = _mm512_setzero_si512();
                for (prefix, value) in &root.routes {
                    let same = shares::<WIDE>(high, low, prefix);
                    found = _mm512_mask_mov_epi64(found, same, _mm512_set1_epi64(*value as i64));
                }
                _mm512_mask_storeu_epi64(out.add(first).cast(), there, found);
                let passes = shares::<WIDE>(high, low, &root.gate) & there;
                let refs = _mm512_maskz_set1_epi64(passes, root.child.0 as i64);
                let (high, low) = skip::<WIDE>(high, low, _mm512_set1_epi64(i64::from(root.gate.len)));
                self.next.put::<WIDE>(first, &Eight { refs, high, low });
            }
            if root.child.is_null() {
                return;
            }
            if root.child.is_set() {
                // Behind a gate there is a node but for a moment in a table's life.
                for first in (0..count).step_by(EIGHT) {
                    let keys = self.next.eight::<WIDE>(first);
                    sort::<WIDE>(&mut self.nodes, &mut self.sets, &keys, places(first));
                }
                return;
            }
            self.next.read_slots::<WIDE, false>(view, count);
            let mut deeper = 0;
            for first in (0..count).step_by(EIGHT) {
                let mut keys = self.next.eight::<WIDE>(first);
                let (refs, found, values) = meaning(view, keys.refs);
                _mm512_mask_storeu_epi64(out.add(first).cast(), found, values);
                let at_set = _mm512_test_epi64_mask(refs, _mm512_set1_epi64(SET));
                keys.refs = refs;
                self.sets.pack::<WIDE>(at_set, &keys, places(first));
                keys.refs = _mm512_maskz_mov_epi64(!at_set, refs);
                deeper |= _mm512_test_epi64_mask(keys.refs, keys.refs);
                self.next.put::<WIDE>(first, &keys);
            }
            self.sets.ask(view, 0);
            if deeper == 0 {
                return;
            }
            let sets = self.sets.len;
            self.next.read_slots::<WIDE, true>(view, count);
            for first in (0..count).step_by(EIGHT) {
                let mut keys = self.next.eight::<WIDE>(first);
                let (refs, found, values) = meaning(view, keys.refs);
                _mm512_mask_storeu_epi64(out.add(first).cast(), found, values);
                keys.refs = refs;
                sort::<WIDE>(&mut self.nodes, &mut self.sets, &keys, places(first));
            }
            self.sets.ask(view, sets);
        }
    }

    /// Takes all keys through their nodes, until each is at a set or nowhere. `out` gets the values on the way.
    ///
    /// # Safety
    /// The processor has AVX-512 F; all refs name blocks in the pool of `view`; `out` has an element for each key.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) unsafe fn walk<const WIDE: bool>(&mut self, view: &View<'_>, out: *mut *const u8) {
        let Lanes { nodes, next, sets } = self;
        let (mut from, mut to) = (nodes, next);
        while from.len > 0 {
            let before = sets.len;
            to.len = 0;
            // SAFETY: as promised to this function; masked to the keys that are there, which are all at nodes.
            unsafe {
                from.close();
                from.read_slots::<WIDE, true>(view, from.len);
                for first in (0..from.len).step_by(EIGHT) {
                    let mut keys = from.eight::<WIDE>(first);
                    let (refs, found, values) = meaning(view, keys.refs);
                    let who = _mm512_load_si512(from.who.as_ptr().add(first).cast());
                    _mm512_mask_i64scatter_epi64::<8>(out.cast(), found, who, values);
                    keys.refs = refs;
                    sort::<WIDE>(to, sets, &keys, who);
                }
            }
            sets.ask(view, before);
            std::mem::swap(&mut from, &mut to);
        }
        to.len = 0;
    }

    /// Calls `at_set` for each key at a set, with its position, the set and the address from there on; what it gives is where the
    /// key goes, and the rest of the address. Whether any goes on.
    #[inline(always)]
    pub(super) fn sets(&mut self, mut at_set: impl FnMut(usize, Ref, u128) -> (Ref, u128)) -> bool {
        let count = std::mem::take(&mut self.sets.len);
        for index in 0..count.min(LANES) {
            // SAFETY: written when the list became so long. It is refilled from its start, behind this key.
            let (set, high, low, who) = unsafe {
                let List { refs, high, low, who, .. } = &self.sets;
                let (high, low) = (high[index].assume_init(), low[index].assume_init());
                (refs[index].assume_init(), high, low, who[index].assume_init())
            };
            let (to, rest) = at_set(who as usize, Ref(set), u128::from(high) << 64 | u128::from(low));
            if !to.is_null() {
                self.put(to, rest, who as usize);
            }
        }
        self.nodes.len + self.sets.len > 0
    }
}

/// Those of eight keys that are somewhere go to the list of their like.
///
/// # Safety
/// Each list has room for eight.
#[inline]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn sort<const WIDE: bool>(nodes: &mut List, sets: &mut List, keys: &Eight, who: __m512i) {
    let at_set = _mm512_test_epi64_mask(keys.refs, _mm512_set1_epi64(SET));
    let going = _mm512_test_epi64_mask(keys.refs, keys.refs) & !at_set;
    // SAFETY: as promised to this function.
    unsafe {
        sets.pack::<WIDE>(at_set, keys, who);
        nodes.pack::<WIDE>(going, keys, who);
    }
}

/// What slots say: where each key goes, which slots have a value, and the first byte of each.
#[inline]
#[target_feature(enable = "avx512f")]
fn meaning(view: &View<'_>, slots: __m512i) -> (__m512i, __mmask8, __m512i) {
    let all = |word: i64| _mm512_set1_epi64(word);
    let number = _mm512_and_si512(slots, all((1 << NUMBER_BITS) - 1));
    let found = _mm512_test_epi64_mask(number, number);
    let values = _mm512_add_epi64(_mm512_mul_epu32(number, all(view.stride as u32 as i64)), all(view.values as i64));
    (_mm512_srli_epi64(slots, NUMBER_BITS), found, values)
}

/// Addresses without their first bits, `count` of each.
#[inline]
#[target_feature(enable = "avx512f")]
fn skip<const WIDE: bool>(high: __m512i, low: __m512i, count: __m512i) -> (__m512i, __m512i) {
    if !WIDE {
        return (_mm512_sllv_epi64(high, count), low);
    }
    // Shifts by 64 and more give 0, by less than 0 as well: so this holds for all counts.
    let sixty_four = _mm512_set1_epi64(64);
    let carried = _mm512_srlv_epi64(low, _mm512_sub_epi64(sixty_four, count));
    let far = _mm512_sllv_epi64(low, _mm512_sub_epi64(count, sixty_four));
    let high = _mm512_or_si512(_mm512_or_si512(_mm512_sllv_epi64(high, count), carried), far);
    (high, _mm512_sllv_epi64(low, count))
}

/// Which addresses have a prefix.
#[inline]
#[target_feature(enable = "avx512f")]
fn shares<const WIDE: bool>(high: __m512i, low: __m512i, prefix: &Prefix) -> __mmask8 {
    let differs = |address: __m512i, word: usize| {
        let (bits, mask) = (prefix.bits[word] as i64, prefix.mask[word] as i64);
        _mm512_and_si512(_mm512_xor_si512(address, _mm512_set1_epi64(bits)), _mm512_set1_epi64(mask))
    };
    let high = differs(high, 0);
    let differs = if WIDE { _mm512_or_si512(high, differs(low, 1)) } else { high };
    _mm512_testn_epi64_mask(differs, differs)
}

/// Eight addresses from `first` on, at the top of their words; 0 behind the last.
///
/// # Safety
/// `keys` has one word for each of `count` keys, or two if `WIDE`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn addresses<const WIDE: bool>(keys: *const u64, bits: u32, first: usize, count: usize) -> (__m512i, __m512i) {
    let left = count - first;
    if !WIDE {
        // SAFETY: masked to the keys that are there.
        let high = unsafe { _mm512_maskz_loadu_epi64(first_lanes(left), keys.add(first).cast()) };
        return (_mm512_sllv_epi64(high, _mm512_set1_epi64(i64::from(64 - bits))), _mm512_setzero_si512());
    }
    // SAFETY: as promised.
    let (low, high) = unsafe { pairs(keys.add(first * 2), left) };
    skip::<true>(high, low, _mm512_set1_epi64(i64::from(128 - bits)))
}

/// The positions of eight keys.
#[inline]
#[target_feature(enable = "avx512f")]
fn places(first: usize) -> __m512i {
    _mm512_add_epi64(_mm512_set1_epi64(first as i64), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0))
}
