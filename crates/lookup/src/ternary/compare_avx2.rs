//! [`RuleCompare`] with AVX2: four keys, or the rules of a block, at once.
#![allow(unsafe_code)]

use super::blocks::RuleRow;
use super::bucket_head::hash_factor;
use super::bucket_head::{TAG_BITS, TAG_FLAG, TAG_MASK, TAG_SHIFT};
use super::compare::{CandidateList, Candidates, GROUP_KEYS, RuleCompare, SubtableView};
use crate::avx2::{AVX2_LANES, COMPACT_ORDER};
use std::arch::x86_64::*;

/// Comparison for x86-64 with AVX2.
pub struct Avx2Compare;

impl RuleCompare for Avx2Compare {
    #[inline(always)]
    unsafe fn matching_lanes(block: *const RuleRow, key: *const u64, words: usize, rank: u64) -> u32 {
        // SAFETY: values, masks and ranks are the first 2 * words + 1 rows, aligned to 32; the key
        // has `words` words; the processor has AVX2.
        unsafe {
            let differ = differing_bits(block, key, words);
            let equal = _mm256_cmpeq_epi64(differ, _mm256_setzero_si256());
            // Ranks are below 2^63, so signed comparison is correct.
            let strong =
                _mm256_cmpgt_epi64(_mm256_load_si256(block.add(2 * words).cast()), _mm256_set1_epi64x(rank as i64 - 1));
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_and_si256(equal, strong))) as u32
        }
    }

    /// Finds and selects the heads of four keys at once, as the scalar version does.
    #[inline(always)]
    unsafe fn pick_candidates(
        table: SubtableView,
        columns: &[u64],
        words: usize,
        ranks: &[u64],
        picks: &mut Candidates,
    ) {
        let (mut chains, mut nodes) = (0, 0);
        for start in (0..ranks.len()).step_by(AVX2_LANES) {
            // SAFETY: groups are a multiple of AVX2_LANES keys, `columns` has `words` columns of
            // GROUP_KEYS, the mask has `words` words, the shift yields positions below the number
            // of heads, and candidate lists have AVX2_LANES spare elements; the processor has AVX2.
            unsafe {
                let splat = |word: u64| _mm256_set1_epi64x(word as i64);
                // Heads use all 64 bits, so signed comparison needs the top bit flipped.
                let flip_top_bit = |words: __m256i| _mm256_xor_si256(words, splat(1 << 63));
                let lane_numbers = _mm256_set_epi64x(3, 2, 1, 0);
                let key_lanes = _mm256_cmpgt_epi64(splat((ranks.len() - start) as u64), lane_numbers);
                let ranks = _mm256_maskload_epi64(ranks.as_ptr().add(start).cast(), key_lanes);
                let min_heads = _mm256_or_si256(_mm256_slli_epi64::<32>(_mm256_srli_epi64::<31>(ranks)), splat(1));
                let min_heads = flip_top_bit(min_heads);
                let excluded = _mm256_cmpgt_epi64(min_heads, flip_top_bit(splat(table.max_head)));
                let possible = _mm256_andnot_si256(excluded, key_lanes);
                if _mm256_testz_si256(possible, possible) != 0 {
                    continue;
                }
                let mut hash = _mm256_setzero_si256();
                for word in 0..words {
                    let mask = *table.mask.add(word);
                    // Many masks have bits in few words only.
                    if mask != 0 {
                        let keys = _mm256_loadu_si256(columns.as_ptr().add(word * GROUP_KEYS + start).cast());
                        hash = _mm256_add_epi64(
                            hash,
                            multiply_low(_mm256_and_si256(keys, splat(mask)), hash_factor(word)),
                        );
                    }
                }
                let mut head_positions = [0_u64; AVX2_LANES];
                let positions = _mm256_srl_epi64(hash, _mm_cvtsi32_si128(table.shift as i32));
                _mm256_storeu_si256(head_positions.as_mut_ptr().cast(), positions);
                let head = |lane: usize| *table.heads.add(head_positions[lane] as usize) as i64;
                let heads = _mm256_set_epi64x(head(3), head(2), head(1), head(0));
                let tag = _mm256_srl_epi64(hash, _mm_cvtsi32_si128((table.shift - TAG_BITS) as i32));
                let tag = _mm256_slli_epi64::<{ TAG_SHIFT as i32 }>(_mm256_and_si256(tag, splat((1 << TAG_BITS) - 1)));
                let tagged =
                    _mm256_cmpeq_epi64(_mm256_and_si256(heads, splat(TAG_MASK)), _mm256_or_si256(tag, splat(TAG_FLAG)));
                let untagged = _mm256_cmpeq_epi64(_mm256_and_si256(heads, splat(TAG_FLAG)), _mm256_setzero_si256());
                let too_weak = _mm256_cmpgt_epi64(min_heads, flip_top_bit(heads));
                let picked =
                    _mm256_andnot_si256(too_weak, _mm256_and_si256(possible, _mm256_or_si256(tagged, untagged)));
                let lanes = |words: __m256i| _mm256_movemask_pd(_mm256_castsi256_pd(words)) as usize;
                let (picked, node_lanes) = (lanes(picked), lanes(_mm256_slli_epi64::<32>(heads)));
                let keys = _mm256_slli_epi64::<32>(_mm256_add_epi64(lane_numbers, splat(start as u64)));
                // The lower halves come from the heads, the upper ones from the keys.
                let items = _mm256_blend_epi32::<0b1010_1010>(heads, keys);
                chains = append_four(&mut picks.chains, chains, picked & !node_lanes, items);
                if picked & node_lanes != 0 {
                    nodes = append_four(&mut picks.nodes, nodes, picked & node_lanes, items);
                }
            }
        }
        (picks.chains.count, picks.nodes.count) = (chains, nodes);
    }
}

/// Multiplies four words by `by`; returns the lower halves of the products.
#[inline]
#[target_feature(enable = "avx2")]
fn multiply_low(words: __m256i, by: u64) -> __m256i {
    let (low, high) = (_mm256_set1_epi64x(by as i64), _mm256_set1_epi64x((by >> 32) as i64));
    let cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64::<32>(words), low), _mm256_mul_epu32(words, high));
    _mm256_add_epi64(_mm256_mul_epu32(words, low), _mm256_slli_epi64::<32>(cross))
}

/// Writes the items of a set of four lanes after the first `count`. Returns the new count.
///
/// # Safety
/// There are `AVX2_LANES` spare elements.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn append_four(to: &mut CandidateList, count: usize, set: usize, items: __m256i) -> usize {
    // SAFETY: a set of four lanes; the caller guarantees the rest.
    unsafe {
        let order = _mm256_loadu_si256(COMPACT_ORDER[set].as_ptr().cast());
        let packed = _mm256_permutevar8x32_epi32(items, order);
        _mm256_storeu_si256(to.items.as_mut_ptr().add(count).cast(), packed);
    }
    count + set.count_ones() as usize
}

/// Returns, for each rule of a block, the bits in which the key differs from it under its mask.
///
/// # Safety
/// `block` is a block's first row, and `key` has the `words` words of the block's keys.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn differing_bits(block: *const RuleRow, key: *const u64, words: usize) -> __m256i {
    let mut differ = _mm256_setzero_si256();
    for word in 0..words {
        // SAFETY: values and masks are the first 2 * words rows, aligned to 32; the key has `words`
        // words.
        let (key, values, masks) = unsafe {
            let load = |line: *const RuleRow| _mm256_load_si256(line.cast());
            (_mm256_set1_epi64x(*key.add(word) as i64), load(block.add(word)), load(block.add(words + word)))
        };
        differ = _mm256_or_si256(differ, _mm256_and_si256(_mm256_xor_si256(key, values), masks));
    }
    differ
}
