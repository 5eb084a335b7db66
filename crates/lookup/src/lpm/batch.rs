//! Batch lookups in passes. Each pass reads, for all keys, the memory that the previous pass
//! prefetched.
//!
//! 1. Hash the exact key and prefetch its tags.
//! 2. Compare the tags and prefetch the line.
//! 3. Compare the key and the line's prefixes, and prefetch the compressed child if the address
//!    matches it.
//! 4. Step through nodes with all remaining keys, then search the lines that they reached; repeat.
//!
//! Without an exact key the first three passes are omitted. A key's result is overwritten whenever
//! a longer prefix is found, so nothing is read twice.
#![allow(unsafe_code)]

use super::address::AddressBits;
use super::dir16x3;
use super::dir24;
use super::directory_lookup::{search_first_lines, search_line};
use super::matcher::{PrefixMatcher, ScalarMatcher};
use super::next_hops::VALUE_NUMBER_BITS;
use super::node::{INNER_SLOT_SIZE, PREAMBLE_BYTES};
use super::pool::BlockRef;
use super::root::{NodeSlots, RootCache};
use super::table::{DirectIndex, TypedLpmTable};
use super::view::{CACHED_BYTES, CHUNK_KEYS, LpmView, SLOT_MASKS, prefetch_line};
use std::hint::select_unpredictable;
use std::mem::MaybeUninit;

/// Minimum number of keys with the same exact key that are looked up as in a table without exact
/// keys.
const SAME_KEY_MIN_BATCH: usize = 24;
/// Maximum number of keys that a table without exact keys looks up one by one.
const ONE_BY_ONE_MAX_KEYS: usize = 4;
/// Position of a key at a node or line.
#[derive(Clone, Copy)]
struct TrieCursor<A> {
    /// Address of the word with the slot, or of the line.
    at: *const u8,
    /// Remaining address bits after the slot's, or from the line's first bit on.
    rest: A,
    /// Index of the key.
    key: u16,
    /// Position of the slot in the word, in bits.
    shift: u8,
    /// Slot size as a binary logarithm.
    size: u8,
}

/// Keys at nodes and at lines, at most [`CHUNK_KEYS`] together. Cursors are uninitialised until
/// pushed, because initialising all of them for few remaining keys would cost more than the
/// lookups.
struct TrieWorklist<A> {
    nodes: [MaybeUninit<TrieCursor<A>>; CHUNK_KEYS],
    lines: [MaybeUninit<TrieCursor<A>>; CHUNK_KEYS],
    node_count: usize,
    line_count: usize,
}

impl<A: AddressBits> TypedLpmTable<A> {
    /// Looks up `out.len()` keys, each of `exact_words` words followed by [`AddressBits::WORDS`]
    /// words. Missing keys yield null.
    pub(super) fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let walk = |keys: &[u64], out: &mut [*const u8]| lookup_in_trie(self, keys, out);
        match &self.direct_index {
            DirectIndex::Dir24(direct) => dir24::lookup_batch(self, direct, keys, out, walk),
            DirectIndex::Dir16x3(levels) => dir16x3::lookup_batch(self, levels, keys, out, walk),
            DirectIndex::None => walk(keys, out),
        }
    }

    pub(super) fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        let mut out = [std::ptr::null()];
        self.lookup_batch(key, &mut out);
        value_bytes(self, out[0], self.max_value_len)
    }
}

/// Looks up keys in the trie, without the direct index.
fn lookup_in_trie<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    if table.directory.is_none() && out.len() <= ONE_BY_ONE_MAX_KEYS {
        return lookup_one_by_one(table, keys, out);
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the instructions.
            return unsafe { lookup_avx512(table, keys, out) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has the instructions.
            return unsafe { lookup_avx2(table, keys, out) };
        }
    }
    // SAFETY: a scalar matcher has no requirements.
    unsafe { lookup_with::<A, ScalarMatcher>(table, keys, out) }
}

/// Looks up keys one by one in a table without exact keys, because passes over few keys are slower.
fn lookup_one_by_one<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    let view = LpmView::new(&table.forest);
    for (key, out) in keys.chunks_exact(A::WORDS).zip(out) {
        let (mut block, mut address, mut found) = (table.root, A::from_words(key, table.lpm_bits), std::ptr::null());
        while !block.is_null() {
            let (value, next, len) = if block.is_prefix_line() {
                let line = view.pool.wrapping_add((block.line() as usize) << 6);
                // SAFETY: a prefix line in the pool with these layouts; a scalar matcher has no
                // requirements.
                unsafe { search_line::<A, ScalarMatcher, false>(&view, view.line_layouts, line, address) }
            } else {
                let slot = NodeSlots::of_node(&view, block, 0).map_or(0, |slots| slots.read_slot(address));
                let number = slot as usize & ((1 << VALUE_NUMBER_BITS) - 1);
                let value =
                    if number != 0 { view.values.wrapping_add(number * view.value_stride) } else { std::ptr::null() };
                (value, BlockRef(slot >> VALUE_NUMBER_BITS), block.stride())
            };
            found = if value.is_null() { found } else { value };
            (block, address) = (next, address.skip_bits(len));
        }
        *out = found;
    }
}

/// Looks up keys without vector instructions, as processors without AVX2 do.
#[cfg(test)]
pub(super) fn lookup_scalar<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    // SAFETY: a scalar matcher has no requirements.
    unsafe { lookup_with::<A, ScalarMatcher>(table, keys, out) }
}

/// Looks up keys with at most AVX2.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn lookup_up_to_avx2<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the processor has the instructions.
        return unsafe { lookup_avx2(table, keys, out) };
    }
    lookup_scalar(table, keys, out);
}

/// Looks up keys with eight at once. A table without exact keys, or a chunk of keys that all share
/// an exact key, has one root for all keys. Otherwise the directory gives each key its own line,
/// and only keys with a compressed child go on.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_avx512<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    use super::matcher::Avx512Matcher;
    use super::trie_avx512::TrieWalkAvx512;

    let view = LpmView::new(&table.forest);
    let mut memory = MaybeUninit::uninit();
    let lanes = TrieWalkAvx512::new(&mut memory);
    let table_root = table.directory.is_none().then(|| RootCache::from_block(&view, table, table.root));
    let words = table.exact_words + A::WORDS;
    let searches_eight_keys = super::directory_avx512::is_available() && super::directory_avx512::supports_table(table);
    let mut addresses = [MaybeUninit::<u64>::uninit(); 2 * CHUNK_KEYS];
    out.fill(std::ptr::null());
    for (keys, out) in keys.chunks(CHUNK_KEYS * words).zip(out.chunks_mut(CHUNK_KEYS)) {
        let count = out.len().min(keys.len() / words);
        let out = &mut out[..count];
        // SAFETY: the features are those of this function. The table's blocks are consistent: each
        // `BlockRef` in a line or slot refers to a block of its type in the pool. There are `count`
        // keys and results.
        unsafe {
            let walk_from_root = if A::WORDS == 1 {
                TrieWalkAvx512::walk_from_root::<false>
            } else {
                TrieWalkAvx512::walk_from_root::<true>
            };
            match (&table.directory, &table_root, common_root(&view, table, keys, count)) {
                (_, Some(root), _) => {
                    walk_from_root(lanes, &view, root, (keys.as_ptr(), table.lpm_bits), out.as_mut_ptr(), count);
                }
                (_, _, Some(root)) => {
                    for (index, word_out) in addresses[..count * A::WORDS].iter_mut().enumerate() {
                        let (key, word) = (index / A::WORDS, index % A::WORDS);
                        word_out.write(keys[key * words + table.exact_words + word]);
                    }
                    let addresses = addresses.as_ptr().cast();
                    walk_from_root(lanes, &view, &root, (addresses, table.lpm_bits), out.as_mut_ptr(), count);
                }
                (Some(directory), ..) => {
                    let mut go_on = |index: usize, to: BlockRef, rest: u128| {
                        prefetch_line(view.pool.wrapping_add((to.line() as usize) << 6));
                        lanes.send_key(to, rest, index);
                    };
                    if searches_eight_keys {
                        let directory = (directory, table.lpm_bits);
                        super::directory_avx512::search_first_lines(
                            &view,
                            &table.line_layouts,
                            directory,
                            keys,
                            out,
                            |index, to, rest| go_on(index, to, rest.to_left_u128()),
                        )
                    } else {
                        search_first_lines::<A, Avx512Matcher>(&view, table, directory, keys, out, |index, to, rest| {
                            go_on(index, to, rest.to_left_u128())
                        })
                    }
                }
                (None, None, None) => {}
            }
            loop {
                let walk = if A::WORDS == 1 {
                    TrieWalkAvx512::walk_nodes::<false>
                } else {
                    TrieWalkAvx512::walk_nodes::<true>
                };
                walk(lanes, &view, out.as_mut_ptr());
                let has_more = lanes.process_lines(|key, line_ref, rest| {
                    let line = view.pool.wrapping_add((line_ref.line() as usize) << 6);
                    let rest = A::from_left_u128(rest);
                    let (found, to, len) = search_line::<A, Avx512Matcher, false>(&view, view.line_layouts, line, rest);
                    out[key] = select_unpredictable(!found.is_null(), found, out[key]);
                    prefetch_line(view.pool.wrapping_add((to.line() as usize) << 6));
                    (to, rest.skip_bits(len).to_left_u128())
                });
                if !has_more {
                    break;
                }
            }
        }
        if table.forest.values.len() * view.value_stride > CACHED_BYTES {
            out.iter().for_each(|&value| prefetch_line(value));
        }
    }
}

/// Returns the common root of `count` keys, if they are many and have the same exact key.
fn common_root<A: AddressBits>(
    view: &LpmView<'_>,
    table: &TypedLpmTable<A>,
    keys: &[u64],
    count: usize,
) -> Option<RootCache> {
    let directory = table.directory.as_ref()?;
    if count < SAME_KEY_MIN_BATCH || !have_same_exact_key(keys, table.exact_words, table.exact_words + A::WORDS) {
        return None;
    }
    let slot = directory.find_line(&keys[..table.exact_words]);
    Some(slot.map_or_else(RootCache::empty::<A>, |slot| {
        RootCache::from_line(view, table, &table.line_layouts, &directory.lines[slot])
    }))
}

/// Returns whether all keys have the exact key of the first.
#[inline(always)]
fn have_same_exact_key(keys: &[u64], exact_words: usize, words: usize) -> bool {
    let first = &keys[..exact_words];
    if exact_words == 1 {
        return keys.iter().step_by(words).all(|&word| word == first[0]);
    }
    keys.chunks_exact(words).all(|key| &key[..exact_words] == first)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn lookup_avx2<A: AddressBits>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    // SAFETY: the features of this function are those of the matcher.
    unsafe { lookup_with::<A, super::matcher::Avx2Matcher>(table, keys, out) }
}

/// Looks up keys with the given matcher: first the line or root of each key of a chunk, then one
/// level of the trie at a time for all keys that go on.
///
/// # Safety
/// The processor has the matcher's instructions.
#[inline(always)]
unsafe fn lookup_with<A: AddressBits, M: PrefixMatcher>(table: &TypedLpmTable<A>, keys: &[u64], out: &mut [*const u8]) {
    let view = LpmView::new(&table.forest);
    let mut worklist = TrieWorklist::<A> {
        nodes: [const { MaybeUninit::uninit() }; CHUNK_KEYS],
        lines: [const { MaybeUninit::uninit() }; CHUNK_KEYS],
        node_count: 0,
        line_count: 0,
    };
    let table_root =
        table.directory.is_none().then(|| RootCache::from_block(&view, table, table.root)).filter(RootCache::is_cached);
    let words = table.exact_words + A::WORDS;
    out.fill(std::ptr::null());
    for (keys, out) in keys.chunks(CHUNK_KEYS * words).zip(out.chunks_mut(CHUNK_KEYS)) {
        let count = out.len().min(keys.len() / words);
        let out = &mut out[..count];
        let root = common_root(&view, table, keys, count).filter(RootCache::is_cached);
        // SAFETY: the table's blocks are consistent: each `BlockRef` in a line or slot refers to a
        // block of its type in the pool.
        unsafe {
            let mut go_on = |index: usize, to, rest| worklist.push_cursor(&view, to, rest, index as u16);
            let address = |index: usize| {
                let key = keys.get_unchecked(index * words + table.exact_words..(index + 1) * words);
                A::from_words(key, table.lpm_bits)
            };
            match (root.as_ref().or(table_root.as_ref()), &table.directory) {
                (Some(root), _) => root.lookup_each(&view, address, out, go_on),
                (None, Some(directory)) => search_first_lines::<A, M>(&view, table, directory, keys, out, go_on),
                (None, None) => (0..count).for_each(|index| go_on(index, table.root, address(index))),
            }
            while worklist.node_count + worklist.line_count > 0 {
                while worklist.node_count > 0 {
                    step_nodes(&view, &mut worklist, out);
                }
                step_lines::<A, M>(&view, &mut worklist, out);
            }
        }
        if table.forest.values.len() * view.value_stride > CACHED_BYTES {
            out.iter().for_each(|&value| prefetch_line(value));
        }
    }
}

impl<A: AddressBits> TrieWorklist<A> {
    /// Adds a key at the block `to`, and prefetches the word or line that it will read there.
    #[inline(always)]
    fn push_cursor(&mut self, view: &LpmView<'_>, to: BlockRef, address: A, key: u16) {
        let block = view.pool.wrapping_add((to.line() as usize) << 6);
        let (stride, size) = (to.stride(), to.slot_size_log2());
        let byte = PREAMBLE_BYTES + ((address.leading_bits(stride) as usize) << size);
        let at = if to.is_prefix_line() { block } else { block.wrapping_add(byte & !7) };
        prefetch_line(at);
        // Stored in both lists and counted in one, because a branch would be hard to predict.
        let (nodes, sets) = (self.node_count & (CHUNK_KEYS - 1), self.line_count & (CHUNK_KEYS - 1));
        let (shift, size) = ((byte & 7) as u8 * 8, size as u8);
        self.nodes[nodes].write(TrieCursor { at, rest: address.skip_bits_short(stride), key, shift, size });
        self.lines[sets].write(TrieCursor { at, rest: address, key, shift, size });
        self.node_count += usize::from(!to.is_null() & !to.is_prefix_line());
        self.line_count += usize::from(to.is_prefix_line());
    }
}

/// Reads a slot for each key at a node.
///
/// # Safety
/// Cursors point into the pool of `view`.
#[inline(always)]
unsafe fn step_nodes<A: AddressBits>(view: &LpmView<'_>, way: &mut TrieWorklist<A>, out: &mut [*const u8]) {
    let count = std::mem::take(&mut way.node_count);
    for index in 0..count {
        // SAFETY: written when it was pushed; this loop pushes to lower indices only.
        let cursor = unsafe { way.nodes[index & (CHUNK_KEYS - 1)].assume_init() };
        // SAFETY: an aligned word inside a node.
        let word = u64::from_le(unsafe { cursor.at.cast::<u64>().read() }) >> cursor.shift;
        let word = word & SLOT_MASKS[cursor.size as usize & INNER_SLOT_SIZE as usize];
        let number = word as usize & ((1 << VALUE_NUMBER_BITS) - 1);
        let out = &mut out[cursor.key as usize];
        *out = if number != 0 { view.values.wrapping_add(number * view.value_stride) } else { *out };
        way.push_cursor(view, BlockRef(word >> VALUE_NUMBER_BITS), cursor.rest, cursor.key);
    }
}

/// Searches the line of each key at a prefix line.
///
/// # Safety
/// Cursors point into the pool of `view`, and the processor has the matcher's instructions.
#[inline(always)]
unsafe fn step_lines<A: AddressBits, M: PrefixMatcher>(
    view: &LpmView<'_>,
    way: &mut TrieWorklist<A>,
    out: &mut [*const u8],
) {
    let count = std::mem::take(&mut way.line_count);
    for index in 0..count {
        // SAFETY: as above.
        let TrieCursor { at, rest, key, .. } = unsafe { way.lines[index & (CHUNK_KEYS - 1)].assume_init() };
        // SAFETY: a prefix line in the pool with these layouts.
        let (found, child, len) = unsafe { search_line::<A, M, false>(view, view.line_layouts, at, rest) };
        let out = &mut out[key as usize];
        *out = select_unpredictable(!found.is_null(), found, *out);
        if !child.is_null() {
            way.push_cursor(view, child, rest.skip_bits(len), key);
        }
    }
}

/// Returns the `len` bytes of a found value.
pub(super) fn value_bytes<A>(_table: &TypedLpmTable<A>, value: *const u8, len: usize) -> Option<&[u8]> {
    // SAFETY: a lookup in this table returned it: a cell or value of at least `len` bytes in the
    // table's memory, which is valid as long as the table is not changed.
    (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value, len) })
}
