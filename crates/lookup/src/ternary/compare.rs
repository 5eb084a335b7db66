//! [`RuleCompare`]: comparison of keys with the rules of a block, for each instruction set.
#![allow(unsafe_code)]

use super::blocks::{BLOCK_RULES, BlockHeader, RuleRow};
use super::bucket_head::{
    BucketHead, NODE_FLAG, TAG_BITS, TAG_FLAG, TAG_MASK, TAG_SHIFT, hash_factor, may_contain, min_head_for_rank,
    tag_of_hash,
};
use super::rule::RangeField;
use std::mem::MaybeUninit;

/// Maximum number of keys of a group.
pub const GROUP_KEYS: usize = 256;

/// Keys of a vector; a group is a multiple of it.
pub const VECTOR_KEYS: usize = 8;

/// Raw view of a subtable for lookups.
#[derive(Clone, Copy)]
pub struct SubtableView {
    /// Words of the mask.
    pub mask: *const u64,
    pub heads: *const BucketHead,
    /// Right shift of a hash that yields the position of a head.
    pub shift: u32,
    /// Upper bound of the subtable's heads.
    pub max_head: BucketHead,
}

/// No record.
pub const NO_RECORD: u32 = u32::MAX;

/// Best match of each key.
pub struct BestMatches {
    /// Rank of the rule; 1 without a match.
    pub ranks: [u64; GROUP_KEYS],
    /// Record of the rule, or [`NO_RECORD`].
    pub ids: [u32; GROUP_KEYS],
}

/// Candidates to search for the keys of a group.
pub struct Candidates {
    pub chains: CandidateList,
    pub nodes: CandidateList,
    /// Blocks with a rule that matches, ranges not yet compared.
    pub hits: CandidateList,
}

impl Candidates {
    pub fn new() -> Candidates {
        Candidates { chains: CandidateList::new(), nodes: CandidateList::new(), hits: CandidateList::new() }
    }
}

/// Blocks or nodes with their keys.
pub struct CandidateList {
    /// Items: the lower half of a head, above it the key's index (8 bits), and lanes of the block.
    pub items: [MaybeUninit<u64>; GROUP_KEYS + VECTOR_KEYS],
    pub count: usize,
}

impl CandidateList {
    pub fn new() -> CandidateList {
        CandidateList { items: [MaybeUninit::uninit(); GROUP_KEYS + VECTOR_KEYS], count: 0 }
    }

    pub fn items(&self) -> &[u64] {
        // SAFETY: the first `count` have been written.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.count) }
    }

    /// Appends an item if `really`, without a branch that could be mispredicted.
    ///
    /// # Safety
    /// There are fewer than GROUP_KEYS items.
    #[inline(always)]
    pub unsafe fn append_if(&mut self, item: u64, really: bool) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.items.get_unchecked_mut(self.count).write(item) };
        self.count += usize::from(really);
    }
}

/// Returns the key index of an item.
#[inline(always)]
pub fn item_key_index(item: u64) -> usize {
    (item >> 32) as u8 as usize % GROUP_KEYS
}

/// Comparison operations of an instruction set. Results have a bit for each lane.
///
/// # Safety
/// For all functions: the processor has the instructions, `block` is a block's first row, and `key`
/// has the `words` words of the block's keys. For `lanes_in_ranges`: `narrow` are the block's range
/// fields of at most 64 bits.
pub trait RuleCompare {
    /// Returns the lanes with a value that equals the key under their mask and a rank of at least
    /// `rank`, which is not 0.
    unsafe fn matching_lanes(block: *const RuleRow, key: *const u64, words: usize, rank: u64) -> u32;

    /// Compares the keys in `open_keys`, of the [`VECTOR_KEYS`] keys from `start` on, with all
    /// rules of a chain. Updates each key's best match if its first matching rule takes precedence.
    /// `columns` holds the keys as for `pick_candidates`; `lines` is the first row of the pool.
    /// Returns false and changes nothing if the keys must be searched one by one, because of ties
    /// or wide ranges or because that is as fast.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn try_whole_chain(
        _lines: *const RuleRow,
        _block: u32,
        _columns: &[u64],
        _start: usize,
        _words: usize,
        _narrow: &[RangeField],
        _open_keys: u8,
        _best: &mut BestMatches,
    ) -> bool {
        false
    }

    /// Finds each key's head in a subtable. Selects the heads that can hold a rule of at least the
    /// rank of the key's best match, as items of a head and the index of its key.
    ///
    /// `columns` holds the keys by word, [`GROUP_KEYS`] for each word.
    #[inline(always)]
    unsafe fn pick_candidates(
        table: SubtableView,
        columns: &[u64],
        words: usize,
        ranks: &[u64],
        picks: &mut Candidates,
    ) {
        (picks.chains.count, picks.nodes.count) = (0, 0);
        for (key, &rank) in ranks.iter().enumerate() {
            let min_head = min_head_for_rank(rank);
            if min_head > table.max_head {
                continue;
            }
            let mut hash = 0_u64;
            for word in 0..words {
                // SAFETY: the mask has `words` words.
                let mask = unsafe { *table.mask.add(word) };
                hash = hash.wrapping_add((columns[word * GROUP_KEYS + key] & mask).wrapping_mul(hash_factor(word)));
            }
            // SAFETY: the shift yields positions below the number of heads.
            let head = unsafe { *table.heads.add((hash >> table.shift) as usize) };
            let is_candidate = (head >= min_head) & may_contain(head, tag_of_hash(hash, table.shift));
            let is_node = head & NODE_FLAG != 0;
            let item = head << 32 >> 32 | (key as u64) << 32;
            // SAFETY: at most one item for each earlier key.
            // Only the head's lower half, the number of its block or node, is part of an item.
            unsafe {
                picks.chains.append_if(item, is_candidate & !is_node);
                picks.nodes.append_if(item, is_candidate & is_node);
            }
        }
    }

    /// Returns those of `lanes` for which all ranges of at most 64 bits contain the key.
    #[inline(always)]
    unsafe fn lanes_in_ranges(
        block: *const RuleRow,
        key: *const u64,
        words: usize,
        narrow: &[RangeField],
        lanes: u32,
    ) -> u32 {
        let mut inside = lanes;
        for (index, field) in narrow.iter().enumerate() {
            // SAFETY: the block has two rows of bounds for each such field after its header row.
            let (low, high) = unsafe {
                let low = block.add(2 * words + 2 + 2 * index);
                (&*low, &*low.add(1))
            };
            // SAFETY: the field's word is one of the key's.
            let number = unsafe { field.ordered_value(key) };
            let mut remaining = inside;
            while remaining != 0 {
                let lane = remaining.trailing_zeros();
                remaining &= remaining - 1;
                let is_inside = low[lane as usize] <= number && number <= high[lane as usize];
                inside &= !(u32::from(!is_inside) << lane);
            }
        }
        inside
    }
}

impl RangeField {
    /// Returns the field's value in a key, in the order of the bounds.
    ///
    /// # Safety
    /// The key has the field's word.
    #[inline(always)]
    pub unsafe fn ordered_value(&self, key: *const u64) -> u64 {
        // SAFETY: guaranteed by the caller.
        let word = unsafe { *key.add(self.word) };
        (word >> self.shift & self.mask) ^ self.flip
    }
}

/// Scalar comparison for any processor.
pub struct ScalarCompare;

impl RuleCompare for ScalarCompare {
    #[inline(always)]
    unsafe fn matching_lanes(block: *const RuleRow, key: *const u64, words: usize, rank: u64) -> u32 {
        let mut differ = [0; BLOCK_RULES];
        // SAFETY: values, masks and ranks are the first 2 * words + 1 rows; the key has `words`
        // words.
        let ranks = unsafe {
            for word in 0..words {
                let (values, masks, key) = (&*block.add(word), &*block.add(words + word), *key.add(word));
                for lane in 0..BLOCK_RULES {
                    differ[lane] |= (values[lane] ^ key) & masks[lane];
                }
            }
            &*block.add(2 * words)
        };
        (0..BLOCK_RULES).fold(0, |lanes, lane| lanes | u32::from(differ[lane] == 0 && ranks[lane] >= rank) << lane)
    }
}

/// Comparison for x86-64 with AVX-512 F.
#[cfg(target_arch = "x86_64")]
pub struct Avx512Compare;

#[cfg(target_arch = "x86_64")]
impl RuleCompare for Avx512Compare {
    #[inline(always)]
    unsafe fn matching_lanes(block: *const RuleRow, key: *const u64, words: usize, rank: u64) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: values, masks and ranks are the first 2 * words + 1 rows, aligned to 32; the key
        // has `words` words; the processor has AVX-512.
        unsafe {
            let differ = super::compare_avx2::differing_bits(block, key, words);
            let equal = _mm256_testn_epi64_mask(differ, differ);
            let strong = _mm256_set1_epi64x(rank as i64);
            u32::from(_mm256_mask_cmpge_epu64_mask(equal, _mm256_load_si256(block.add(2 * words).cast()), strong))
        }
    }

    /// Compares eight keys with one rule after the other. The keys in `open_keys` take part;
    /// `missed` are those without a matching rule so far, and the chain ends when there are none.
    #[inline(always)]
    unsafe fn try_whole_chain(
        lines: *const RuleRow,
        mut block: u32,
        columns: &[u64],
        start: usize,
        words: usize,
        narrow: &[RangeField],
        open_keys: u8,
        best: &mut BestMatches,
    ) -> bool {
        use std::arch::x86_64::*;
        // SAFETY: blocks of the pool; values and masks are the first 2 * words rows, and bounds
        // follow the header row; columns have GROUP_KEYS keys each, and `best` has VECTOR_KEYS
        // elements from `start` on; the processor has AVX-512.
        unsafe {
            let (to_ranks, to_ids) = (best.ranks.as_mut_ptr().add(start), best.ids.as_mut_ptr().add(start));
            let (old_ranks, mut ids) = (_mm512_loadu_si512(to_ranks.cast()), _mm256_loadu_si256(to_ids.cast()));
            let column = |word: usize| _mm512_loadu_si512(columns.as_ptr().add(word * GROUP_KEYS + start).cast());
            let (mut ranks, mut missed, mut undecided) = (old_ranks, open_keys, 0);
            while block != 0 {
                let lines = lines.wrapping_add(block as usize);
                let info = &*lines.add(2 * words + 1);
                let state = info[BlockHeader::STATE_WORD];
                let word_at = |line: usize, lane: usize| _mm512_set1_epi64((&*lines.add(line))[lane] as i64);
                for lane in 0..((state >> 48) as usize).min(BLOCK_RULES) {
                    let mut differ = _mm512_setzero_si512();
                    for word in 0..words {
                        let changed = _mm512_xor_si512(column(word), word_at(word, lane));
                        differ = _mm512_or_si512(differ, _mm512_and_si512(changed, word_at(words + word, lane)));
                    }
                    let mut hits = _mm512_mask_testn_epi64_mask(open_keys, differ, differ);
                    if BlockHeader::lanes_with_ranges(state) >> lane & 1 == 1 {
                        for (index, field) in narrow.iter().enumerate() {
                            let shifted = _mm512_srl_epi64(column(field.word), _mm_cvtsi32_si128(field.shift as i32));
                            let number = _mm512_and_si512(shifted, _mm512_set1_epi64(field.mask as i64));
                            let number = _mm512_xor_si512(number, _mm512_set1_epi64(field.flip as i64));
                            let low = 2 * words + 2 + 2 * index;
                            hits = _mm512_mask_cmple_epu64_mask(hits, word_at(low, lane), number);
                            hits = _mm512_mask_cmpge_epu64_mask(hits, word_at(low + 1, lane), number);
                        }
                        undecided |= if state >> (40 + lane) & 1 == 1 { hits } else { 0 };
                    }
                    // A key that was hit stays open, because no later rule takes precedence.
                    missed &= !hits;
                    let (rank, id) = (word_at(2 * words, lane), BlockHeader::record_id(info, lane));
                    // A tie with the rank of an earlier match needs the scalar code, which compares
                    // sequence numbers.
                    undecided |= _mm512_mask_cmpeq_epi64_mask(hits, old_ranks, rank);
                    let has_precedence = _mm512_mask_cmplt_epu64_mask(hits, ranks, rank);
                    ranks = _mm512_mask_mov_epi64(ranks, has_precedence, rank);
                    ids = _mm256_mask_mov_epi32(ids, has_precedence, _mm256_set1_epi32(id as i32));
                }
                block = if missed == 0 { 0 } else { state as u32 };
            }
            if undecided == 0 {
                _mm512_storeu_si512(to_ranks.cast(), ranks);
                _mm256_storeu_si256(to_ids.cast(), ids);
            }
            undecided == 0
        }
    }

    /// Finds and selects the heads of eight keys at once, as the scalar version does.
    #[inline(always)]
    unsafe fn pick_candidates(
        table: SubtableView,
        columns: &[u64],
        words: usize,
        ranks: &[u64],
        picks: &mut Candidates,
    ) {
        use std::arch::x86_64::*;
        (picks.chains.count, picks.nodes.count) = (0, 0);
        // SAFETY: no memory access; the processor has the instructions.
        let first = unsafe { _mm512_slli_epi64::<32>(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)) };
        let (mut chains, mut nodes) = (0, 0);
        for start in (0..ranks.len()).step_by(VECTOR_KEYS) {
            // SAFETY: groups are a multiple of VECTOR_KEYS keys, `columns` has `words` columns of
            // GROUP_KEYS, the mask has `words` words, the shift yields positions below the number
            // of heads, and candidate lists have VECTOR_KEYS spare elements.
            unsafe {
                let key_lanes = 0xff_u8 >> (VECTOR_KEYS - (ranks.len() - start).min(VECTOR_KEYS));
                let ranks = _mm512_maskz_loadu_epi64(key_lanes, ranks.as_ptr().add(start).cast());
                let priorities = _mm512_slli_epi64(_mm512_srli_epi64(ranks, 31), 32);
                let min_heads = _mm512_or_si512(priorities, _mm512_set1_epi64(1));
                let possible =
                    _mm512_mask_cmple_epu64_mask(key_lanes, min_heads, _mm512_set1_epi64(table.max_head as i64));
                if possible == 0 {
                    continue;
                }
                let mut hash = _mm512_setzero_si512();
                for word in 0..words {
                    // Many masks have bits in few words only.
                    if *table.mask.add(word) == 0 {
                        continue;
                    }
                    let keys = _mm512_loadu_si512(columns.as_ptr().add(word * GROUP_KEYS + start).cast());
                    let masked = _mm512_and_si512(keys, _mm512_set1_epi64(*table.mask.add(word) as i64));
                    hash =
                        _mm512_add_epi64(hash, _mm512_mullo_epi64(masked, _mm512_set1_epi64(hash_factor(word) as i64)));
                }
                let position = _mm512_srl_epi64(hash, _mm_cvtsi32_si128(table.shift as i32));
                let heads =
                    _mm512_mask_i64gather_epi64::<8>(_mm512_setzero_si512(), possible, position, table.heads.cast());
                // The key's tag, and the bits in which a head's tag differs from it.
                let tag = _mm512_srl_epi64(hash, _mm_cvtsi32_si128((table.shift - TAG_BITS - TAG_SHIFT) as i32));
                let differs = _mm512_xor_si512(heads, _mm512_or_si512(tag, _mm512_set1_epi64(TAG_FLAG as i64)));
                let may_contain = _mm512_testn_epi64_mask(differs, _mm512_set1_epi64(TAG_MASK as i64))
                    | _mm512_testn_epi64_mask(heads, _mm512_set1_epi64(TAG_FLAG as i64));
                let picked = _mm512_mask_cmpge_epu64_mask(possible & may_contain, heads, min_heads);
                let node_lanes = _mm512_mask_test_epi64_mask(picked, heads, _mm512_set1_epi64(NODE_FLAG as i64));
                let keys = _mm512_add_epi64(first, _mm512_set1_epi64((start as i64) << 32));
                let low = _mm512_set1_epi64(i64::from(u32::MAX));
                // Bitwise choice: the head where `low` is set, otherwise the key.
                let items = _mm512_ternarylogic_epi64::<0xca>(low, heads, keys);
                chains = append_masked(&mut picks.chains, chains, picked & !node_lanes, items);
                if node_lanes != 0 {
                    nodes = append_masked(&mut picks.nodes, nodes, node_lanes, items);
                }
            }
        }
        (picks.chains.count, picks.nodes.count) = (chains, nodes);
    }

    /// Compares the key with the bounds of all four rules of the block at once.
    #[inline(always)]
    unsafe fn lanes_in_ranges(
        block: *const RuleRow,
        key: *const u64,
        words: usize,
        narrow: &[RangeField],
        lanes: u32,
    ) -> u32 {
        use std::arch::x86_64::*;
        let mut inside = lanes as __mmask8;
        for (index, field) in narrow.iter().enumerate() {
            // SAFETY: the block has two rows of bounds for each such field after its header row;
            // the key has the field's word.
            unsafe {
                let number = _mm256_set1_epi64x(field.ordered_value(key) as i64);
                let low = block.add(2 * words + 2 + 2 * index);
                inside = _mm256_mask_cmple_epu64_mask(inside, _mm256_load_si256(low.cast()), number);
                inside = _mm256_mask_cmpge_epu64_mask(inside, _mm256_load_si256(low.add(1).cast()), number);
            }
        }
        u32::from(inside)
    }
}

/// Writes the items of a mask after the first `count`. Returns the new count.
///
/// # Safety
/// The processor has AVX-512, and there are `VECTOR_KEYS` spare elements.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn append_masked(to: &mut CandidateList, count: usize, mask: u8, items: std::arch::x86_64::__m512i) -> usize {
    use std::arch::x86_64::*;
    // SAFETY: guaranteed by the caller.
    unsafe {
        _mm512_storeu_si512(to.items.as_mut_ptr().add(count).cast(), _mm512_maskz_compress_epi64(mask, items));
    }
    count + mask.count_ones() as usize
}
