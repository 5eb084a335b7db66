//! Comparing a key with the eight rules of a block, by whatever vectors the machine has.
#![allow(unsafe_code)]

use super::blocks::{LANES, Line};
use super::rule::Narrow;
use super::tree::{Head, NODE, factor};

/// Keys that go through the tree together.
pub const GROUP: usize = 64;

/// A table as a search sees it.
#[derive(Clone, Copy)]
pub struct Buckets {
    /// The mask's words.
    pub mask: *const u64,
    pub heads: *const Head,
    /// What to shift a hash by.
    pub shift: u32,
    /// A head for which a key may be looked up here: no head of the table is greater.
    pub top: Head,
}

/// Keys of a group, each with the head that it has in a table.
pub struct Picked {
    pub keys: [u64; GROUP + LANES],
    pub heads: [Head; GROUP + LANES],
    pub count: usize,
}

impl Picked {
    pub fn new() -> Picked {
        Picked { keys: [0; GROUP + LANES], heads: [0; GROUP + LANES], count: 0 }
    }
}

/// A machine's way to compare. Results have a bit for each lane.
///
/// # Safety
/// Of all functions: the machine has the instructions, `block` is a block's first line and `key` has `words` words, as the block
/// has. Of `in_ranges`: `narrow` are the block's narrow range fields.
pub trait Lanes {
    /// Lanes whose value equals the key under their mask and whose rank is at least `rank`, which is not 0.
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32;

    /// Finds each key's head in a table, and picks those that may hold something stronger than what the key has: heads not below
    /// `least`. Chains go to `chains`, nodes to `nodes`.
    ///
    /// `columns` has the keys word by word, [`GROUP`] of each.
    #[inline(always)]
    unsafe fn pick(
        table: Buckets,
        columns: &[u64],
        words: usize,
        least: &[Head; GROUP],
        chains: &mut Picked,
        nodes: &mut Picked,
    ) {
        (chains.count, nodes.count) = (0, 0);
        for key in 0..GROUP {
            if least[key] > table.top {
                continue;
            }
            let mut hash = 0_u64;
            for word in 0..words {
                // SAFETY: the mask has `words` words.
                let mask = unsafe { *table.mask.add(word) };
                hash = hash.wrapping_add((columns[word * GROUP + key] & mask).wrapping_mul(factor(word)));
            }
            // SAFETY: the shift leaves as many bits as the number of heads has.
            let head = unsafe { *table.heads.add((hash >> table.shift) as usize) };
            let (wanted, node) = (head >= least[key], head & NODE != 0);
            // Both are written, and one of them, or none, becomes longer: no branch to mispredict.
            (chains.keys[chains.count], chains.heads[chains.count]) = (key as u64, head);
            (nodes.keys[nodes.count], nodes.heads[nodes.count]) = (key as u64, head);
            chains.count += usize::from(wanted && !node);
            nodes.count += usize::from(wanted && node);
        }
    }

    /// Those of `lanes` in whose narrow ranges the key lies.
    #[inline(always)]
    unsafe fn in_ranges(block: *const Line, key: *const u64, words: usize, narrow: &[Narrow], lanes: u32) -> u32 {
        let mut inside = lanes;
        for (at, field) in narrow.iter().enumerate() {
            // SAFETY: the block has two lines of bounds for each narrow field behind its info line.
            let (low, high) = unsafe {
                let low = block.add(2 * words + 2 + 2 * at);
                (&*low, &*low.add(1))
            };
            // SAFETY: the field's word is one of the key's.
            let number = unsafe { field.number(key) };
            let mut left = inside;
            while left != 0 {
                let lane = left.trailing_zeros();
                left &= left - 1;
                let is = low[lane as usize] <= number && number <= high[lane as usize];
                inside &= !(u32::from(!is) << lane);
            }
        }
        inside
    }
}

impl Narrow {
    /// The field's number in a key, in the order in which bounds are.
    ///
    /// # Safety
    /// The key has the field's word.
    #[inline(always)]
    pub unsafe fn number(&self, key: *const u64) -> u64 {
        // SAFETY: as promised.
        let word = unsafe { *key.add(self.word) };
        (word >> self.shift & self.mask) ^ self.flip
    }
}

/// Any machine.
pub struct Plain;

impl Lanes for Plain {
    #[inline(always)]
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32 {
        let mut differ = [0; LANES];
        // SAFETY: values, masks and ranks are the first 2 * words + 1 lines; the key has `words` words.
        let ranks = unsafe {
            for word in 0..words {
                let (values, masks, key) = (&*block.add(word), &*block.add(words + word), *key.add(word));
                for lane in 0..LANES {
                    differ[lane] |= (values[lane] ^ key) & masks[lane];
                }
            }
            &*block.add(2 * words)
        };
        (0..LANES).fold(0, |lanes, lane| lanes | u32::from(differ[lane] == 0 && ranks[lane] >= rank) << lane)
    }
}

/// x86-64 with AVX2.
#[cfg(target_arch = "x86_64")]
pub struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    #[inline(always)]
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: values, masks and ranks are the first 2 * words + 1 lines, aligned to 64; the key has `words` words; the machine has AVX2.
        unsafe {
            let half = |line: *const Line, half: usize| _mm256_load_si256(line.cast::<__m256i>().add(half));
            let mut differ = [_mm256_setzero_si256(); 2];
            for word in 0..words {
                let key = _mm256_set1_epi64x(*key.add(word) as i64);
                for (at, differ) in differ.iter_mut().enumerate() {
                    let (values, masks) = (half(block.add(word), at), half(block.add(words + word), at));
                    *differ = _mm256_or_si256(*differ, _mm256_and_si256(_mm256_xor_si256(key, values), masks));
                }
            }
            // Ranks are below 2^63, so that signed comparison does.
            let below = _mm256_set1_epi64x(rank as i64 - 1);
            let mut lanes = 0;
            for (at, differ) in differ.iter().enumerate() {
                let equal = _mm256_cmpeq_epi64(*differ, _mm256_setzero_si256());
                let strong = _mm256_cmpgt_epi64(half(block.add(2 * words), at), below);
                let both = _mm256_castsi256_pd(_mm256_and_si256(equal, strong));
                lanes |= (_mm256_movemask_pd(both) as u32) << (4 * at);
            }
            lanes
        }
    }
}

/// x86-64 with AVX-512 F.
#[cfg(target_arch = "x86_64")]
pub struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    #[inline(always)]
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: values, masks and ranks are the first 2 * words + 1 lines, aligned to 64; the key has `words` words; the machine has AVX-512.
        unsafe {
            let load = |line: *const Line| _mm512_load_si512(line.cast());
            let mut differ = _mm512_setzero_si512();
            for word in 0..words {
                let key = _mm512_set1_epi64(*key.add(word) as i64);
                let (values, masks) = (load(block.add(word)), load(block.add(words + word)));
                differ = _mm512_or_si512(differ, _mm512_and_si512(_mm512_xor_si512(key, values), masks));
            }
            let equal = _mm512_testn_epi64_mask(differ, differ);
            let strong = _mm512_set1_epi64(rank as i64);
            u32::from(_mm512_mask_cmpge_epu64_mask(equal, load(block.add(2 * words)), strong))
        }
    }

    #[inline(always)]
    unsafe fn pick(
        table: Buckets,
        columns: &[u64],
        words: usize,
        least: &[Head; GROUP],
        chains: &mut Picked,
        nodes: &mut Picked,
    ) {
        use std::arch::x86_64::*;
        (chains.count, nodes.count) = (0, 0);
        // SAFETY: numbers made of numbers; the caller's machine has the instructions.
        let first = unsafe { _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0) };
        for start in (0..GROUP).step_by(LANES) {
            // SAFETY: groups are a multiple of LANES keys, `columns` has `words` columns of GROUP, the mask has `words` words, the shift
            // leaves as many bits as the number of heads has, and what is picked has LANES places to spare.
            unsafe {
                let least = _mm512_loadu_si512(least.as_ptr().add(start).cast());
                let able = _mm512_cmple_epu64_mask(least, _mm512_set1_epi64(table.top as i64));
                if able == 0 {
                    continue;
                }
                let mut hash = _mm512_setzero_si512();
                for word in 0..words {
                    let keys = _mm512_loadu_si512(columns.as_ptr().add(word * GROUP + start).cast());
                    let masked = _mm512_and_si512(keys, _mm512_set1_epi64(*table.mask.add(word) as i64));
                    hash = _mm512_add_epi64(hash, _mm512_mullo_epi64(masked, _mm512_set1_epi64(factor(word) as i64)));
                }
                let position = _mm512_srl_epi64(hash, _mm_cvtsi32_si128(table.shift as i32));
                let heads =
                    _mm512_mask_i64gather_epi64::<8>(_mm512_setzero_si512(), able, position, table.heads.cast());
                let wanted = _mm512_mask_cmpge_epu64_mask(able, heads, least);
                let node = _mm512_mask_test_epi64_mask(wanted, heads, _mm512_set1_epi64(NODE as i64));
                let keys = _mm512_add_epi64(first, _mm512_set1_epi64(start as i64));
                put(chains, wanted & !node, keys, heads);
                if node != 0 {
                    put(nodes, node, keys, heads);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn in_ranges(block: *const Line, key: *const u64, words: usize, narrow: &[Narrow], lanes: u32) -> u32 {
        use std::arch::x86_64::*;
        let mut inside = lanes as __mmask8;
        for (at, field) in narrow.iter().enumerate() {
            // SAFETY: the block has two lines of bounds for each narrow field behind its info line; the key has the field's word.
            unsafe {
                let number = _mm512_set1_epi64(field.number(key) as i64);
                let low = block.add(2 * words + 2 + 2 * at);
                inside = _mm512_mask_cmple_epu64_mask(inside, _mm512_load_si512(low.cast()), number);
                inside = _mm512_mask_cmpge_epu64_mask(inside, _mm512_load_si512(low.add(1).cast()), number);
            }
        }
        u32::from(inside)
    }
}

/// Adds the lanes of a mask.
///
/// # Safety
/// The machine has AVX-512, and there are `LANES` places to spare.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn put(to: &mut Picked, lanes: u8, keys: std::arch::x86_64::__m512i, heads: std::arch::x86_64::__m512i) {
    use std::arch::x86_64::*;
    // SAFETY: as promised.
    unsafe {
        _mm512_storeu_si512(to.keys.as_mut_ptr().add(to.count).cast(), _mm512_maskz_compress_epi64(lanes, keys));
        _mm512_storeu_si512(to.heads.as_mut_ptr().add(to.count).cast(), _mm512_maskz_compress_epi64(lanes, heads));
    }
    to.count += lanes.count_ones() as usize;
}
