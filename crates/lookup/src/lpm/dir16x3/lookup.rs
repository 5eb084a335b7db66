//! Batch lookups in [`Dir16x3`]: each step processes all keys of a chunk and prefetches for the
//! next.
//!
//! The kind of a key's block is unpredictable, so no branch depends on it: each key is written to
//! the ends of all lists, and only one list grows.
#![allow(unsafe_code)]

use super::super::address::AddressBits;
use super::super::table::TypedLpmTable;
use super::super::view::{lookup_unresolved, prefetch_line};
use super::block::{ARRAY, LINE, LINE_RUNS, TREE};
use super::{BITS, Dir16x3, FALLBACK_NUMBER, IndexEntry, KIND_SHIFT, LEVEL_BITS, PAGE_ENTRIES, PAGE_KIND};
use smallvec::SmallVec;
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Keys that are checked together for fallback numbers.
const FALLBACK_GROUP: usize = 16;

/// Raw pointers to a table's memory.
pub(super) struct LevelView {
    pub first: *const IndexEntry,
    pub pages: *const IndexEntry,
    pub pool: *const u8,
    /// Address of value number 0, and the distance between values in bytes.
    values: *const u8,
    value_stride: usize,
    /// Bits of a key.
    pub key_bits: u32,
}

/// Key at a block: from the lowest bit the key's index (8 bits), the address bits for this level
/// (16), and a line of the pool ([`KIND_SHIFT`] bits).
pub(super) type BlockVisit = u64;

/// Position of the address bits and of the line in a visit.
pub(super) const VISIT_BITS_SHIFT: u32 = 8;
pub(super) const VISIT_LINE_SHIFT: u32 = VISIT_BITS_SHIFT + LEVEL_BITS;

/// Keys that pass through the levels together, limited by the bits of a visit's index.
pub(super) const CHUNK_KEYS: usize = 1 << VISIT_BITS_SHIFT;

fn visit_key_index(visit: BlockVisit) -> usize {
    visit as usize % CHUNK_KEYS
}

fn visit_bits(visit: BlockVisit) -> u16 {
    (visit >> VISIT_BITS_SHIFT) as u16
}

impl LevelView {
    /// Returns the address of a visit's line.
    #[inline(always)]
    fn visit_line_ptr(&self, visit: BlockVisit) -> *const u8 {
        self.pool.wrapping_add((visit >> VISIT_LINE_SHIFT << 6) as usize)
    }
}

/// Keys at blocks of one kind.
pub(super) struct BlockVisits {
    pub visits: [MaybeUninit<BlockVisit>; CHUNK_KEYS + 8],
    pub len: usize,
}

impl BlockVisits {
    fn new() -> BlockVisits {
        BlockVisits { visits: [const { MaybeUninit::uninit() }; CHUNK_KEYS + 8], len: 0 }
    }

    /// Appends a visit if `really`. At most `CHUNK_KEYS` visits can be appended.
    #[inline(always)]
    fn append_if(&mut self, visit: BlockVisit, really: bool) {
        self.visits[self.len].write(visit);
        self.len += usize::from(really);
    }

    #[inline(always)]
    fn iterate_visits(&self) -> impl Iterator<Item = BlockVisit> {
        // SAFETY: the first `len` have been written.
        self.visits[..self.len.min(CHUNK_KEYS)].iter().map(|visit| unsafe { visit.assume_init() })
    }
}

/// Results of a batch in progress: the number of each key, unless it is at a block, and lists of
/// the others.
pub(super) struct LevelResults {
    pub numbers: [MaybeUninit<u32>; CHUNK_KEYS],
    pub lines: BlockVisits,
    pub trees: BlockVisits,
    pub arrays: BlockVisits,
}

/// Operations of a lookup for a processor.
///
/// # Safety
/// For all functions, the processor has the required instructions.
pub(super) trait LevelKernel {
    /// Does the first two steps of `count` keys, at most [`CHUNK_KEYS`].
    unsafe fn first_two_steps<A: AddressBits>(
        view: &LevelView,
        keys: &[u64],
        count: usize,
        results: &mut LevelResults,
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe { first_two_steps_scalar::<A>(view, keys, count, results) }
    }

    /// Counts the bounds among 16 words that are less than `value`.
    #[inline(always)]
    unsafe fn count_bounds_16(places: *const u8, value: u16) -> usize {
        // SAFETY: guaranteed by the caller.
        let places = unsafe { places.cast::<[u16; LINE_RUNS]>().read_unaligned() };
        places.iter().map(|place| u16::from(u16::from_le(*place) < value)).sum::<u16>().into()
    }

    /// Counts the bounds among 32 words that are less than `value`.
    #[inline(always)]
    unsafe fn count_bounds_32(places: *const u8, value: u16) -> usize {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::count_bounds_16(places, value) + Self::count_bounds_16(places.add(2 * LINE_RUNS), value) }
    }
}

/// Scalar kernel for any processor.
struct ScalarKernel;

impl LevelKernel for ScalarKernel {}

/// Does the first two steps of `count` keys: reads the entry of each, directly or through a page,
/// and sorts the keys with an entry for a block by the kind of the block.
///
/// # Safety
/// `keys` has `count` keys, at most [`CHUNK_KEYS`].
#[inline(always)]
unsafe fn first_two_steps_scalar<A: AddressBits>(
    view: &LevelView,
    keys: &[u64],
    count: usize,
    results: &mut LevelResults,
) {
    let mut entries = [const { MaybeUninit::<(*const IndexEntry, u64)>::uninit() }; CHUNK_KEYS];
    for (index, entry) in entries[..count].iter_mut().enumerate() {
        // SAFETY: `count` keys exist. An entry exists for each value of `STEP` bits, and entries
        // refer to existing pages.
        unsafe {
            let key = keys.get_unchecked(index * A::WORDS..(index + 1) * A::WORDS);
            let top = A::from_words(key, view.key_bits).leading_bits(BITS);
            let first = view.first.add((top >> (2 * LEVEL_BITS)) as usize);
            let page_entry = (first.read() as usize % (1 << KIND_SHIFT)) * PAGE_ENTRIES
                + (top >> LEVEL_BITS) as usize % PAGE_ENTRIES;
            let address = select_unpredictable(
                first.read() >> KIND_SHIFT == PAGE_KIND,
                view.pages.wrapping_add(page_entry),
                first,
            );
            prefetch_line(address.cast());
            entry.write((address, top));
        }
    }
    for (index, entry) in entries[..count].iter().enumerate() {
        // SAFETY: written above: an entry of the first level or of a page.
        let (entry, top) = unsafe {
            let (address, top) = entry.assume_init();
            (address.read(), top)
        };
        results.numbers[index].write(entry);
        let (kind, bits) = (entry >> KIND_SHIFT, top % (1 << LEVEL_BITS));
        let visit = u64::from(entry % (1 << KIND_SHIFT)) << VISIT_LINE_SHIFT | bits << VISIT_BITS_SHIFT | index as u64;
        let line = view.visit_line_ptr(visit);
        prefetch_line(select_unpredictable(kind == ARRAY, line.wrapping_add(2 * bits as usize), line));
        results.lines.append_if(visit, kind == LINE);
        results.trees.append_if(visit, kind == TREE);
        results.arrays.append_if(visit, kind == ARRAY);
    }
}

/// Looks up the keys of a table with this index. `walk` looks up the keys that need more than
/// [`BITS`] bits.
pub(in super::super) fn lookup_batch<A: AddressBits>(
    table: &TypedLpmTable<A>,
    levels: &Dir16x3,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
) {
    lookup_with_kernel(table, levels, keys, out, walk, lookup_chunk::<A>);
}

/// Looks up keys in chunks of [`CHUNK_KEYS`]. `answer` writes the values of a chunk and appends the
/// keys that the index does not resolve; `walk` looks those up in the trie.
fn lookup_with_kernel<A: AddressBits>(
    table: &TypedLpmTable<A>,
    levels: &Dir16x3,
    keys: &[u64],
    out: &mut [*const u8],
    walk: impl Fn(&[u64], &mut [*const u8]),
    answer: impl Fn(&LevelView, &[u64], &mut [*const u8], &mut SmallVec<[u16; CHUNK_KEYS]>),
) {
    let values = &table.forest.values;
    let view = LevelView {
        first: levels.first_level.as_ptr(),
        pages: levels.pages.as_ptr(),
        pool: levels.pool.base_ptr(),
        values: values.base_ptr(),
        value_stride: values.stride(),
        key_bits: table.lpm_bits,
    };
    let count = out.len().min(keys.len() / A::WORDS);
    out[count..].fill(std::ptr::null());
    let mut unresolved = SmallVec::<[u16; CHUNK_KEYS]>::new();
    for (keys, out) in keys.chunks(CHUNK_KEYS * A::WORDS).zip(out[..count].chunks_mut(CHUNK_KEYS)) {
        unresolved.clear();
        answer(&view, keys, out, &mut unresolved);
        if !unresolved.is_empty() {
            lookup_unresolved(unresolved.iter().map(|index| usize::from(*index)), A::WORDS, keys, out, &walk);
        }
    }
}

/// Writes the values of at most [`CHUNK_KEYS`] keys, and appends the others to `unresolved`.
fn lookup_chunk<A: AddressBits>(
    view: &LevelView,
    keys: &[u64],
    out: &mut [*const u8],
    unresolved: &mut SmallVec<[u16; CHUNK_KEYS]>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the instructions.
            return unsafe { lookup_chunk_avx512::<A>(view, keys, out, unresolved) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has the instructions.
            return unsafe { lookup_chunk_avx2::<A>(view, keys, out, unresolved) };
        }
    }
    // SAFETY: no requirements.
    unsafe { lookup_chunk_with::<A, ScalarKernel>(view, keys, out, unresolved) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_chunk_avx512<A: AddressBits>(
    view: &LevelView,
    keys: &[u64],
    out: &mut [*const u8],
    unresolved: &mut SmallVec<[u16; CHUNK_KEYS]>,
) {
    // SAFETY: the features of this function are those of the kernel.
    unsafe { lookup_chunk_with::<A, super::avx512::Avx512Kernel>(view, keys, out, unresolved) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_chunk_avx2<A: AddressBits>(
    view: &LevelView,
    keys: &[u64],
    out: &mut [*const u8],
    unresolved: &mut SmallVec<[u16; CHUNK_KEYS]>,
) {
    // SAFETY: no requirements.
    unsafe { lookup_chunk_with::<A, ScalarKernel>(view, keys, out, unresolved) }
}

/// Writes the values of at most [`CHUNK_KEYS`] keys with the given kernel.
///
/// # Safety
/// The processor has the instructions of `M`.
#[inline(always)]
unsafe fn lookup_chunk_with<A: AddressBits, M: LevelKernel>(
    view: &LevelView,
    keys: &[u64],
    out: &mut [*const u8],
    unresolved: &mut SmallVec<[u16; CHUNK_KEYS]>,
) {
    let count = out.len().min(CHUNK_KEYS).min(keys.len() / A::WORDS);
    let mut results = LevelResults {
        numbers: [const { MaybeUninit::uninit() }; CHUNK_KEYS],
        lines: BlockVisits::new(),
        trees: BlockVisits::new(),
        arrays: BlockVisits::new(),
    };
    // SAFETY: guaranteed by the caller; there are `count` keys.
    unsafe { M::first_two_steps::<A>(view, keys, count, &mut results) };
    let LevelResults { numbers, lines, trees, arrays } = &mut results;
    for visit in trees.iterate_visits() {
        // SAFETY: a tree's first line.
        let leaf = unsafe { M::count_bounds_32(view.visit_line_ptr(visit), visit_bits(visit)) };
        // The tree's lines follow: one more than there are bounds.
        let visit = visit + ((1 + leaf as u64) << VISIT_LINE_SHIFT);
        prefetch_line(view.visit_line_ptr(visit));
        lines.append_if(visit, true);
    }
    for visit in arrays.iterate_visits() {
        // SAFETY: an element of an array.
        let number = unsafe { view.visit_line_ptr(visit).cast::<u16>().add(visit_bits(visit).into()).read() };
        numbers[visit_key_index(visit)].write(u16::from_le(number).into());
    }
    for visit in lines.iterate_visits() {
        // SAFETY: a line of runs; the count of bounds is a valid index of its numbers.
        let number = unsafe {
            let line = view.visit_line_ptr(visit);
            line.cast::<u16>().add(LINE_RUNS + M::count_bounds_16(line, visit_bits(visit))).read()
        };
        numbers[visit_key_index(visit)].write(u16::from_le(number).into());
    }
    let (stride, groups) =
        (view.value_stride as u32, numbers[..count].chunks(FALLBACK_GROUP).zip(out.chunks_mut(FALLBACK_GROUP)));
    for (group, (numbers, out)) in groups.enumerate() {
        let mut has_fallback = false;
        for (number, out) in numbers.iter().zip(out) {
            // SAFETY: written for each key: a number from an entry or from a block.
            let number = unsafe { number.assume_init() };
            let value = view.values.wrapping_add((u64::from(number) * u64::from(stride)) as usize);
            *out = select_unpredictable(number == 0, std::ptr::null(), value);
            has_fallback |= number == FALLBACK_NUMBER;
        }
        if has_fallback {
            // SAFETY: as above.
            let is_fallback = |index: &usize| unsafe { numbers[*index].assume_init() } == FALLBACK_NUMBER;
            unresolved
                .extend((0..numbers.len()).filter(is_fallback).map(|index| (FALLBACK_GROUP * group + index) as u16));
        }
    }
}

#[cfg(test)]
impl Dir16x3 {
    /// Looks up keys as [`lookup`] does, with the kernel of other processors: `kernel` is 1 without
    /// AVX-512, 2 without AVX2.
    pub(in super::super) fn lookup_without<A: AddressBits>(
        &self,
        kernel: usize,
        table: &TypedLpmTable<A>,
        keys: &[u64],
        out: &mut [*const u8],
    ) {
        let walk = |keys: &[u64], out: &mut [*const u8]| super::super::batch::lookup_scalar(table, keys, out);
        #[cfg(target_arch = "x86_64")]
        if kernel == 1 && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has the instructions.
            return lookup_with_kernel(table, self, keys, out, walk, |view, keys, out, unresolved| unsafe {
                lookup_chunk_avx2::<A>(view, keys, out, unresolved)
            });
        }
        // SAFETY: no requirements.
        lookup_with_kernel(table, self, keys, out, walk, |view, keys, out, unresolved| unsafe {
            lookup_chunk_with::<A, ScalarKernel>(view, keys, out, unresolved)
        });
    }
}
