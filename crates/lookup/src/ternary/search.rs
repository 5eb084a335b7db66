//! Batch lookups.
//!
//! Keys are processed in groups. For all keys of a group the positions in a subtable are computed
//! and their heads are read. Only buckets that can hold a rule of higher precedence than the best
//! one found are searched. The first subtables, with most of the rules, therefore decide most keys;
//! for the others only a comparison of priorities remains.
#![allow(unsafe_code)]

use super::blocks::{BLOCK_RULES, BlockHeader, RuleRow};
use super::bucket_head::hash_factor;
use super::bucket_head::{BucketHead, NODE_FLAG, head_number, may_contain, min_head_for_rank, tag_of_hash};
use super::classifier::{Classifier, ClassifierNode, MAX_DEPTH, ROOT_NODE};
use super::compare::{
    BestMatches, Candidates, GROUP_KEYS, NO_RECORD, RuleCompare, ScalarCompare, VECTOR_KEYS, item_key_index,
};
use super::rule::{RuleLayout, WideRangeField, is_between};
use smallvec::SmallVec;

/// Search function for a processor and a number of key words.
///
/// # Safety
/// The processor has the instructions, the classifier's keys have that number of words, and `keys`
/// holds one key per element of `out`.
pub type SearchKernel = unsafe fn(&Classifier, &[u64], &mut [*const u8]);

/// Returns the best kernel of this processor for keys of `words` words.
pub fn select_kernel(words: usize) -> SearchKernel {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return avx512_kernel(words);
        }
        if is_x86_feature_detected!("avx2") {
            return avx2_kernel(words);
        }
    }
    scalar_kernel(words)
}

/// Returns the kernel for any processor.
pub fn scalar_kernel(words: usize) -> SearchKernel {
    match words {
        1 => search::<ScalarCompare, 1>,
        2 => search::<ScalarCompare, 2>,
        _ => search::<ScalarCompare, 0>,
    }
}

macro_rules! define_kernel {
    ($name:ident, $lanes:ty, $($feature:literal),+) => {
        /// Returns the kernel for processors with these instructions.
        #[cfg(target_arch = "x86_64")]
        pub fn $name(words: usize) -> SearchKernel {
            $(#[target_feature(enable = $feature)])+
            unsafe fn search_compiled<const W: usize>(classifier: &Classifier, keys: &[u64], out: &mut [*const u8]) {
                // SAFETY: the processor has the instructions; the caller guarantees the rest.
                unsafe { search::<$lanes, W>(classifier, keys, out) }
            }
            match words {
                1 => search_compiled::<1>,
                2 => search_compiled::<2>,
                3 => search_compiled::<3>,
                4 => search_compiled::<4>,
                5 => search_compiled::<5>,
                _ => search_compiled::<0>,
            }
        }
    };
}

define_kernel!(avx2_kernel, super::compare_avx2::Avx2Compare, "avx2", "bmi1", "bmi2", "popcnt");
define_kernel!(
    avx512_kernel,
    super::compare::Avx512Compare,
    "avx512f",
    "avx512dq",
    "avx512vl",
    "bmi1",
    "bmi2",
    "popcnt"
);

/// Parts of a classifier that a search needs.
struct ClassifierView<'t> {
    rows: *const RuleRow,
    nodes: &'t [ClassifierNode],
    shape: &'t RuleLayout,
    classifier: &'t Classifier,
}

/// Maximum number of rows of a block that are prefetched; the hardware prefetcher fetches the rows
/// of longer keys.
const MAX_PREFETCHED_ROWS: usize = 16;

/// Position of the lanes in an item.
const LANES_SHIFT: u32 = 40;

/// Minimum number of keys that are compared with the unhashed rules as vectors; fewer are searched
/// one by one.
const MIN_VECTOR_KEYS: u32 = 12;

/// Prefetches a row.
#[inline(always)]
fn prefetch_row<T>(line: *const T) {
    entries::prefetch(line.cast(), 1);
}

/// Looks up keys in groups of [`GROUP_KEYS`], and prefetches the values found.
///
/// # Safety
/// As for [`SearchKernel`]; `W` is the number of words, or 0 for any.
#[inline(always)]
unsafe fn search<L: RuleCompare, const W: usize>(tree: &Classifier, keys: &[u64], out: &mut [*const u8]) {
    let words = if W == 0 { tree.layout.key_words } else { W };
    let view =
        ClassifierView { rows: tree.blocks.rows_ptr(), nodes: &tree.nodes, shape: &tree.layout, classifier: tree };
    // The keys of a group, transposed by word.
    let mut columns: SmallVec<[u64; 4 * GROUP_KEYS]> = smallvec::smallvec![0; words * GROUP_KEYS];
    let columns = columns.as_mut_slice();
    let (values, stride) = tree.records.values_ptr();
    for (keys, out) in keys.chunks(GROUP_KEYS * words).zip(out.chunks_mut(GROUP_KEYS)) {
        assert!(keys.len() == out.len() * words && columns.len() == GROUP_KEYS * words, "whole keys");
        for word in 0..words {
            for key in 0..out.len() {
                // SAFETY: as asserted; a chunk has at most GROUP_KEYS keys.
                unsafe {
                    *columns.get_unchecked_mut(word * GROUP_KEYS + key) = *keys.get_unchecked(key * words + word)
                };
            }
        }
        let mut best = BestMatches { ranks: [1; GROUP_KEYS], ids: [NO_RECORD; GROUP_KEYS] };
        // SAFETY: a group of keys, one per element of `out`.
        unsafe { view.search_group::<L, W>(keys, columns, out.len(), &mut best) };
        for (index, out) in out.iter_mut().enumerate() {
            let id = best.ids[index % GROUP_KEYS];
            // Not dereferenced if there is no such record.
            let found = values.wrapping_add((id as usize).wrapping_mul(stride)).cast::<u8>();
            *out = if id == NO_RECORD { std::ptr::null() } else { found };
            // Prefetching an unmapped address would cost a page walk each time.
            prefetch_row(if id == NO_RECORD { values.cast() } else { found });
        }
    }
}

impl ClassifierView<'_> {
    #[inline(always)]
    fn words<const W: usize>(&self) -> usize {
        if W == 0 { self.shape.key_words } else { W }
    }

    /// Prefetches the block of an item.
    #[inline(always)]
    fn prefetch_block<const W: usize>(&self, item: u64) {
        let start = head_number(item) as usize;
        for line in (0..(2 * self.words::<W>() + 2).min(MAX_PREFETCHED_ROWS)).step_by(2) {
            prefetch_row(self.rows.wrapping_add(start + line));
        }
    }

    /// Looks up a group of keys: collects the candidates of one subtable of the root for all keys,
    /// searches them, and goes on to the next subtable with the ranks found. Chains of unhashed
    /// rules come last.
    ///
    /// # Safety
    /// As for [`SearchKernel`]; `count` is at most [`GROUP_KEYS`].
    #[inline(always)]
    unsafe fn search_group<L: RuleCompare, const W: usize>(
        &self,
        keys: &[u64],
        columns: &[u64],
        count: usize,
        best: &mut BestMatches,
    ) {
        let words = self.words::<W>();
        let root = &self.nodes[ROOT_NODE as usize];
        let mut candidates = Candidates::new();
        for table in root.subtables.iter().filter(|table| table.count > 0) {
            // SAFETY: the subtable has a mask of `words` words followed by the heads; columns have
            // the same words.
            unsafe {
                L::pick_candidates(table.bucket_view(words), columns, words, &best.ranks[..count], &mut candidates)
            };
            for &item in candidates.nodes.items() {
                prefetch_row(self.nodes.as_ptr().wrapping_add(head_number(item) as usize));
            }
            // SAFETY: blocks, nodes, and keys of the group.
            unsafe {
                self.search_chains::<L, W>(&mut candidates, keys.as_ptr(), best);
                for &item in candidates.nodes.items() {
                    let (node, key) = (head_number(item) as u32, item_key_index(item));
                    self.search_node::<L, W>(node, keys.as_ptr().add(key * words), key, best);
                }
            }
        }
        for chain in [root.unhashed, root.old_unhashed] {
            // SAFETY: a head of a chain, and `count` keys.
            unsafe { self.search_unhashed::<L, W>(chain, keys.as_ptr(), columns, count, best) };
        }
    }

    /// Searches a chain for all keys for which it can hold a rule of higher precedence. If these
    /// are many, a vector of keys is compared with one rule at a time.
    ///
    /// # Safety
    /// `chain` is the head of a chain; `count` keys, at most [`GROUP_KEYS`], are in `keys`
    /// consecutively and in `columns` by word.
    #[inline(always)]
    unsafe fn search_unhashed<L: RuleCompare, const W: usize>(
        &self,
        chain: BucketHead,
        keys: *const u64,
        columns: &[u64],
        count: usize,
        best: &mut BestMatches,
    ) {
        if chain == 0 {
            return;
        }
        let words = self.words::<W>();
        // Ranks below `end_rank` have at most the priority of the chain.
        let end_rank = ((chain >> 32) + 1) << 31;
        let mut open_keys = [0_u8; GROUP_KEYS / VECTOR_KEYS];
        let mut open_count = 0;
        for (ranks, open_keys) in best.ranks[..count].chunks(VECTOR_KEYS).zip(&mut open_keys) {
            *open_keys = ranks.iter().rev().fold(0, |open_keys, &rank| open_keys << 1 | u8::from(rank < end_rank));
            open_count += open_keys.count_ones();
        }
        let (first, narrow) = (head_number(chain) as u32, &self.shape.range_fields);
        for (vector, &open_keys) in open_keys.iter().enumerate() {
            let start = vector * VECTOR_KEYS;
            // SAFETY: a chain's first block, and columns of all keys.
            if open_count >= MIN_VECTOR_KEYS
                && open_keys != 0
                && unsafe { L::try_whole_chain(self.rows, first, columns, start, words, narrow, open_keys, best) }
            {
                continue;
            }
            let mut open_keys = open_keys;
            while open_keys != 0 {
                let key = start + open_keys.trailing_zeros() as usize;
                open_keys &= open_keys - 1;
                // SAFETY: guaranteed by the caller.
                unsafe { self.search_chain::<L, W>(first, keys.add(key * words), key, best) };
            }
        }
    }

    /// Searches the chains of all candidates in parallel: all first blocks, then all second ones,
    /// and so on. Results of comparisons are stored without branches; blocks with a matching rule
    /// are collected in `hits`.
    ///
    /// # Safety
    /// The candidates are blocks with indices of keys in `keys`, which have the classifier's number
    /// of words.
    #[inline(always)]
    unsafe fn search_chains<L: RuleCompare, const W: usize>(
        &self,
        candidates: &mut Candidates,
        keys: *const u64,
        best: &mut BestMatches,
    ) {
        let words = self.words::<W>();
        let Candidates { chains, hits, .. } = candidates;
        while chains.count > 0 {
            for &item in chains.items() {
                self.prefetch_block::<W>(item);
            }
            // Counters in registers.
            let (mut chain_count, mut hit_count) = (0, 0);
            for index in 0..chains.count {
                // SAFETY: `count` items exist, and no more items are written than have been read; a
                // block of the pool and a key.
                unsafe {
                    let item = chains.items.get_unchecked(index).assume_init();
                    let (key, lines) = (item_key_index(item), self.rows.wrapping_add(head_number(item) as usize));
                    let lanes = L::matching_lanes(lines, keys.add(key * words), words, best.ranks[key]);
                    let next = (&*lines.add(2 * words + 1))[BlockHeader::STATE_WORD] as u32;
                    hits.items.get_unchecked_mut(hit_count).write(item | u64::from(lanes) << LANES_SHIFT);
                    hit_count += usize::from(lanes != 0);
                    chains.items.get_unchecked_mut(chain_count).write(item >> 32 << 32 | u64::from(next));
                    chain_count += usize::from((lanes == 0) & (next != 0));
                }
            }
            (chains.count, hits.count) = (chain_count, hit_count);
            for &item in hits.items() {
                let (key, lines) = (item_key_index(item), self.rows.wrapping_add(head_number(item) as usize));
                let mut lanes = (item >> LANES_SHIFT) as u32;
                // SAFETY: as above; no more chains than keys remain.
                unsafe {
                    let state = (&*lines.add(2 * words + 1))[BlockHeader::STATE_WORD];
                    // Ranges matter only for the highest-ranked candidate.
                    if lanes & lanes.wrapping_neg() & BlockHeader::lanes_with_ranges(state) != 0 {
                        lanes = self.filter_ranges::<L, W>(lines, keys.add(key * words), state, lanes);
                        if lanes == 0 {
                            chains.append_if((key as u64) << 32 | u64::from(state as u32), state as u32 != 0);
                            continue;
                        }
                    }
                    self.keep_best::<W>(item, lanes, best);
                }
            }
        }
    }

    /// Takes the first of the matching lanes of an item's block if it takes precedence. All lanes
    /// have at least the rank of the best match.
    ///
    /// # Safety
    /// `item` is a block; `lanes` is not 0.
    #[inline(always)]
    unsafe fn keep_best<const W: usize>(&self, item: u64, lanes: u32, best: &mut BestMatches) {
        let (key, words) = (item_key_index(item), self.words::<W>());
        let lines = self.rows.wrapping_add(head_number(item) as usize);
        let lane = lanes.trailing_zeros() as usize % BLOCK_RULES;
        // SAFETY: a block.
        let (ranks, info) = unsafe { (&*lines.add(2 * words), &*lines.add(2 * words + 1)) };
        let (rank, id) = (ranks[lane], BlockHeader::record_id(info, lane));
        if rank != best.ranks[key] || self.wins_tie(id, best.ids[key]) {
            (best.ranks[key], best.ids[key]) = (rank, id);
        }
    }

    /// Returns the lanes of a block that match a key and have at least this rank.
    ///
    /// # Safety
    /// A block's first row and a key of the classifier's number of words.
    #[inline(always)]
    unsafe fn matching_lanes<L: RuleCompare, const W: usize>(
        &self,
        lines: *const RuleRow,
        key: *const u64,
        rank: u64,
    ) -> u32 {
        let words = self.words::<W>();
        // SAFETY: guaranteed by the caller.
        unsafe {
            let lanes = L::matching_lanes(lines, key, words, rank);
            let flags = (&*lines.add(2 * words + 1))[BlockHeader::STATE_WORD];
            if lanes & BlockHeader::lanes_with_ranges(flags) != 0 {
                return self.filter_ranges::<L, W>(lines, key, flags, lanes);
            }
            lanes
        }
    }

    #[cold]
    fn wins_tie(&self, id: u32, other: u32) -> bool {
        other == NO_RECORD || self.classifier.records.rule(id)[1] < self.classifier.records.rule(other)[1]
    }

    /// Searches a chain; its first matching rule has the highest precedence. `key_index` is the
    /// index of the key in its group.
    ///
    /// # Safety
    /// `block` is a block, `key` has the classifier's number of words.
    #[inline(always)]
    unsafe fn search_chain<L: RuleCompare, const W: usize>(
        &self,
        mut block: u32,
        key: *const u64,
        key_index: usize,
        best: &mut BestMatches,
    ) {
        let words = self.words::<W>();
        loop {
            let lines = self.rows.wrapping_add(block as usize);
            // SAFETY: a block of the pool and a key.
            let (lanes, ranks, info) = unsafe {
                let lanes = self.matching_lanes::<L, W>(lines, key, best.ranks[key_index]);
                (lanes, &*lines.add(2 * words), &*lines.add(2 * words + 1))
            };
            if lanes != 0 {
                let lane = lanes.trailing_zeros() as usize % BLOCK_RULES;
                let (rank, id) = (ranks[lane], BlockHeader::record_id(info, lane));
                if rank != best.ranks[key_index] || self.wins_tie(id, best.ids[key_index]) {
                    (best.ranks[key_index], best.ids[key_index]) = (rank, id);
                }
                return;
            }
            block = info[BlockHeader::STATE_WORD] as u32;
            if block == 0 {
                return;
            }
        }
    }

    /// Returns those of `lanes` for which all ranges, including wide ones, contain the key. `state`
    /// is the state word of the block's header.
    ///
    /// # Safety
    /// As for `search_chain`.
    #[inline(always)]
    unsafe fn filter_ranges<L: RuleCompare, const W: usize>(
        &self,
        lines: *const RuleRow,
        key: *const u64,
        state: u64,
        lanes: u32,
    ) -> u32 {
        let words = self.words::<W>();
        // SAFETY: guaranteed by the caller.
        let mut lanes = unsafe { L::lanes_in_ranges(lines, key, words, &self.shape.range_fields, lanes) };
        // Bits 40 to 43 of the state mark the lanes with wide ranges.
        let mut wide_lanes = lanes & (state >> 40) as u32 & 0xf;
        while wide_lanes != 0 {
            let lane = wide_lanes.trailing_zeros();
            wide_lanes &= wide_lanes - 1;
            // SAFETY: the header row belongs to the block; the key belongs to this classifier.
            let is_inside = unsafe {
                self.in_wide_ranges(
                    BlockHeader::record_id(&*lines.add(2 * words + 1), lane as usize % BLOCK_RULES),
                    key,
                )
            };
            lanes &= !(u32::from(!is_inside) << lane);
        }
        lanes
    }

    /// Returns whether a key lies in the wide ranges of a record's rule.
    ///
    /// # Safety
    /// The key has the classifier's number of words.
    #[cold]
    unsafe fn in_wide_ranges(&self, id: u32, key: *const u64) -> bool {
        let rule = self.classifier.records.rule(id);
        self.shape.wide_range_fields.iter().all(|&WideRangeField { width, word, words, flip, bounds }| {
            let number = |at: usize| {
                // SAFETY: the field's words are among the key's.
                let whole = unsafe { *key.add(word + at) };
                let last = at + 1 == words;
                let used = if last && width % 64 != 0 { whole & ((1 << (width % 64)) - 1) } else { whole };
                if last { used ^ flip } else { used }
            };
            is_between(words, number, &rule[bounds..bounds + words], &rule[bounds + words..bounds + 2 * words])
        })
    }

    /// Searches a node and all nodes below it. `key_index` is the index of the key in its group.
    ///
    /// # Safety
    /// As for `search_chain`; `node` is a node.
    #[inline(always)]
    unsafe fn search_node<L: RuleCompare, const W: usize>(
        &self,
        node: u32,
        key: *const u64,
        key_index: usize,
        best: &mut BestMatches,
    ) {
        let words = self.words::<W>();
        // Path from the first node: each node with the next of its subtables to search.
        let mut path = [(0_u32, 0_u32); MAX_DEPTH as usize + 1];
        let mut depth = 0;
        path[0] = (node, 0);
        loop {
            let (name, next) = path[depth];
            // SAFETY: heads refer to existing nodes.
            let node = unsafe { self.nodes.get_unchecked(name as usize) };
            if let Some(table) = node.subtables.get(next as usize) {
                path[depth].1 += 1;
                let data = table.data.as_ptr();
                // SAFETY: the mask's words are followed by a head for each position that the shift
                // leaves; the key has these words.
                let (head, hash) = unsafe {
                    let hash = hash_masked::<W>(words, |word| *key.add(word) & *data.add(word));
                    (*data.add(words + (hash >> table.hash_shift) as usize), hash)
                };
                if head < min_head_for_rank(best.ranks[key_index])
                    || !may_contain(head, tag_of_hash(hash, table.hash_shift))
                {
                } else if head & NODE_FLAG == 0 {
                    // SAFETY: a head of a chain.
                    unsafe { self.search_chain::<L, W>(head_number(head) as u32, key, key_index, best) };
                } else {
                    depth += 1;
                    path[depth] = (head_number(head) as u32, 0);
                }
                continue;
            }
            for chain in [node.unhashed, node.old_unhashed] {
                if chain >= min_head_for_rank(best.ranks[key_index]) {
                    // SAFETY: a head of a chain.
                    unsafe { self.search_chain::<L, W>(head_number(chain) as u32, key, key_index, best) };
                }
            }
            if depth == 0 {
                return;
            }
            depth -= 1;
        }
    }
}

/// Hashes a key's masked words.
#[inline(always)]
fn hash_masked<const W: usize>(words: usize, masked: impl Fn(usize) -> u64) -> u64 {
    let mut hash = 0_u64;
    for at in 0..if W == 0 { words } else { W } {
        hash = hash.wrapping_add(masked(at).wrapping_mul(hash_factor(at)));
    }
    hash
}
