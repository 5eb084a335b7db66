//! Comparing a key with the rules of a block, by whatever vectors the machine has.
#![allow(unsafe_code)]

use super::blocks::{Info, LANES, Line};
use super::head::{Head, MARK, MARK_BITS, MARKED, MARKS, NODE, factor, least_for, mark_of, may_have};
use super::rule::Narrow;
use std::mem::MaybeUninit;

/// Keys that go through the tree together.
pub const GROUP: usize = 256;

/// Keys of a vector; a group is a multiple of it.
pub const KEYS: usize = 8;

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

/// No record.
pub const NONE: u32 = u32::MAX;

/// The strongest rule of each key so far.
pub struct Best {
    /// Its rank; 1 if there is none.
    pub rank: [u64; GROUP],
    /// Its record, or [`NONE`].
    pub id: [u32; GROUP],
}

/// What to look at for the keys of a group.
pub struct Picks {
    pub chains: Picked,
    pub nodes: Picked,
    /// Blocks of which a rule matches, perhaps but for its ranges.
    pub hits: Picked,
}

impl Picks {
    pub fn new() -> Picks {
        Picks { chains: Picked::new(), nodes: Picked::new(), hits: Picked::new() }
    }
}

/// A block or node for each of some keys of a group.
pub struct Picked {
    /// The lower half: what a head says. Above it the key's number, of 8 bits, and lanes of the block.
    pub items: [MaybeUninit<u64>; GROUP + KEYS],
    pub count: usize,
}

impl Picked {
    pub fn new() -> Picked {
        Picked { items: [MaybeUninit::uninit(); GROUP + KEYS], count: 0 }
    }

    pub fn items(&self) -> &[u64] {
        // SAFETY: the first `count` have been written.
        unsafe { std::slice::from_raw_parts(self.items.as_ptr().cast(), self.count) }
    }

    /// Adds an item if `really`; without a branch that could be mispredicted.
    ///
    /// # Safety
    /// There are fewer than GROUP items.
    #[inline(always)]
    pub unsafe fn add(&mut self, item: u64, really: bool) {
        // SAFETY: as promised.
        unsafe { self.items.get_unchecked_mut(self.count).write(item) };
        self.count += usize::from(really);
    }
}

/// The key of an item.
#[inline(always)]
pub fn key_of(item: u64) -> usize {
    (item >> 32) as u8 as usize % GROUP
}

/// A machine's way to compare. Results have a bit for each lane.
///
/// # Safety
/// Of all functions: the machine has the instructions, `block` is a block's first line and `key` has `words` words, as the block
/// has. Of `in_ranges`: `narrow` are the block's narrow range fields.
pub trait Lanes {
    /// Lanes whose value equals the key under their mask and whose rank is at least `rank`, which is not 0.
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32;

    /// Compares the [`KEYS`] keys from `start` on that `open` names with all rules of a chain, and gives each the first that matches, if
    /// that is stronger than what it has. `columns` has the keys as for `pick`; `lines` is the first of all. `false`: nothing is changed,
    /// and one key after the other is to be looked up, because there are ties or wide ranges, or because it would not be faster.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn try_rules(
        _lines: *const Line,
        _block: u32,
        _columns: &[u64],
        _start: usize,
        _words: usize,
        _narrow: &[Narrow],
        _open: u8,
        _best: &mut Best,
    ) -> bool {
        false
    }

    /// Finds each key's head in a table, and picks those that may hold something stronger than what the key has: heads that may
    /// hold a rule of at least its rank.
    ///
    /// `columns` has the keys word by word, [`GROUP`] of each.
    #[inline(always)]
    unsafe fn pick(table: Buckets, columns: &[u64], words: usize, ranks: &[u64], picks: &mut Picks) {
        (picks.chains.count, picks.nodes.count) = (0, 0);
        for (key, &rank) in ranks.iter().enumerate() {
            let least = least_for(rank);
            if least > table.top {
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
            let wanted = (head >= least) & may_have(head, mark_of(hash, table.shift));
            let node = head & NODE != 0;
            let item = head << 32 >> 32 | (key as u64) << 32;
            // SAFETY: at most one for each key before.
            unsafe {
                picks.chains.add(item, wanted & !node);
                picks.nodes.add(item, wanted & node);
            }
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

/// x86-64 with AVX-512 F.
#[cfg(target_arch = "x86_64")]
pub struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    #[inline(always)]
    unsafe fn equal(block: *const Line, key: *const u64, words: usize, rank: u64) -> u32 {
        use std::arch::x86_64::*;
        // SAFETY: values, masks and ranks are the first 2 * words + 1 lines, aligned to 32; the key has `words` words; the machine has AVX-512.
        unsafe {
            let differ = super::quads::differing(block, key, words);
            let equal = _mm256_testn_epi64_mask(differ, differ);
            let strong = _mm256_set1_epi64x(rank as i64);
            u32::from(_mm256_mask_cmpge_epu64_mask(equal, _mm256_load_si256(block.add(2 * words).cast()), strong))
        }
    }

    #[inline(always)]
    unsafe fn try_rules(
        lines: *const Line,
        mut block: u32,
        columns: &[u64],
        start: usize,
        words: usize,
        narrow: &[Narrow],
        open: u8,
        best: &mut Best,
    ) -> bool {
        use std::arch::x86_64::*;
        // SAFETY: blocks of the pool, of which values and masks are the first 2 * words lines and bounds those behind the info line;
        // columns have GROUP keys each, and `best` has KEYS places from `start` on; the machine has AVX-512.
        unsafe {
            let (to_ranks, to_ids) = (best.rank.as_mut_ptr().add(start), best.id.as_mut_ptr().add(start));
            let (old, mut ids) = (_mm512_loadu_si512(to_ranks.cast()), _mm256_loadu_si256(to_ids.cast()));
            let column = |word: usize| _mm512_loadu_si512(columns.as_ptr().add(word * GROUP + start).cast());
            let (mut ranks, mut missed, mut unclear) = (old, open, 0);
            while block != 0 {
                let lines = lines.wrapping_add(block as usize);
                let info = &*lines.add(2 * words + 1);
                let state = info[Info::NEXT];
                let word_at = |line: usize, lane: usize| _mm512_set1_epi64((&*lines.add(line))[lane] as i64);
                for lane in 0..((state >> 48) as usize).min(LANES) {
                    let mut differ = _mm512_setzero_si512();
                    for word in 0..words {
                        let changed = _mm512_xor_si512(column(word), word_at(word, lane));
                        differ = _mm512_or_si512(differ, _mm512_and_si512(changed, word_at(words + word, lane)));
                    }
                    let mut hits = _mm512_mask_testn_epi64_mask(open, differ, differ);
                    if Info::ranged(state) >> lane & 1 == 1 {
                        for (at, field) in narrow.iter().enumerate() {
                            let shifted = _mm512_srl_epi64(column(field.word), _mm_cvtsi32_si128(field.shift as i32));
                            let number = _mm512_and_si512(shifted, _mm512_set1_epi64(field.mask as i64));
                            let number = _mm512_xor_si512(number, _mm512_set1_epi64(field.flip as i64));
                            let low = 2 * words + 2 + 2 * at;
                            hits = _mm512_mask_cmple_epu64_mask(hits, word_at(low, lane), number);
                            hits = _mm512_mask_cmpge_epu64_mask(hits, word_at(low + 1, lane), number);
                        }
                        unclear |= if state >> (40 + lane) & 1 == 1 { hits } else { 0 };
                    }
                    // What has been hit is not closed for the next rules: none of them is stronger.
                    missed &= !hits;
                    let (rank, id) = (word_at(2 * words, lane), Info::id(info, lane));
                    unclear |= _mm512_mask_cmpeq_epi64_mask(hits, old, rank);
                    let stronger = _mm512_mask_cmplt_epu64_mask(hits, ranks, rank);
                    ranks = _mm512_mask_mov_epi64(ranks, stronger, rank);
                    ids = _mm256_mask_mov_epi32(ids, stronger, _mm256_set1_epi32(id as i32));
                }
                block = if missed == 0 { 0 } else { state as u32 };
            }
            if unclear == 0 {
                _mm512_storeu_si512(to_ranks.cast(), ranks);
                _mm256_storeu_si256(to_ids.cast(), ids);
            }
            unclear == 0
        }
    }

    #[inline(always)]
    unsafe fn pick(table: Buckets, columns: &[u64], words: usize, ranks: &[u64], picks: &mut Picks) {
        use std::arch::x86_64::*;
        (picks.chains.count, picks.nodes.count) = (0, 0);
        // SAFETY: numbers made of numbers; the caller's machine has the instructions.
        let first = unsafe { _mm512_slli_epi64::<32>(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)) };
        let (mut chains, mut nodes) = (0, 0);
        for start in (0..ranks.len()).step_by(KEYS) {
            // SAFETY: groups are a multiple of KEYS keys, `columns` has `words` columns of GROUP, the mask has `words` words, the shift
            // leaves as many bits as the number of heads has, and what is picked has KEYS places to spare.
            unsafe {
                let there = 0xff_u8 >> (KEYS - (ranks.len() - start).min(KEYS));
                let ranks = _mm512_maskz_loadu_epi64(there, ranks.as_ptr().add(start).cast());
                let priorities = _mm512_slli_epi64(_mm512_srli_epi64(ranks, 31), 32);
                let least = _mm512_or_si512(priorities, _mm512_set1_epi64(1));
                let able = _mm512_mask_cmple_epu64_mask(there, least, _mm512_set1_epi64(table.top as i64));
                if able == 0 {
                    continue;
                }
                let mut hash = _mm512_setzero_si512();
                for word in 0..words {
                    // Many tables have bits of few words.
                    if *table.mask.add(word) == 0 {
                        continue;
                    }
                    let keys = _mm512_loadu_si512(columns.as_ptr().add(word * GROUP + start).cast());
                    let masked = _mm512_and_si512(keys, _mm512_set1_epi64(*table.mask.add(word) as i64));
                    hash = _mm512_add_epi64(hash, _mm512_mullo_epi64(masked, _mm512_set1_epi64(factor(word) as i64)));
                }
                let position = _mm512_srl_epi64(hash, _mm_cvtsi32_si128(table.shift as i32));
                let heads =
                    _mm512_mask_i64gather_epi64::<8>(_mm512_setzero_si512(), able, position, table.heads.cast());
                // The mark that the key's rules would have: what of a head's bits differs from it.
                let mark = _mm512_srl_epi64(hash, _mm_cvtsi32_si128((table.shift - MARK_BITS - MARK) as i32));
                let differs = _mm512_xor_si512(heads, _mm512_or_si512(mark, _mm512_set1_epi64(MARKED as i64)));
                let may_have = _mm512_testn_epi64_mask(differs, _mm512_set1_epi64(MARKS as i64))
                    | _mm512_testn_epi64_mask(heads, _mm512_set1_epi64(MARKED as i64));
                let wanted = _mm512_mask_cmpge_epu64_mask(able & may_have, heads, least);
                let node = _mm512_mask_test_epi64_mask(wanted, heads, _mm512_set1_epi64(NODE as i64));
                let keys = _mm512_add_epi64(first, _mm512_set1_epi64((start as i64) << 32));
                let low = _mm512_set1_epi64(i64::from(u32::MAX));
                // Of each bit: where `low` has it the head, otherwise the key.
                let items = _mm512_ternarylogic_epi64::<0xca>(low, heads, keys);
                chains = put(&mut picks.chains, chains, wanted & !node, items);
                if node != 0 {
                    nodes = put(&mut picks.nodes, nodes, node, items);
                }
            }
        }
        (picks.chains.count, picks.nodes.count) = (chains, nodes);
    }

    #[inline(always)]
    unsafe fn in_ranges(block: *const Line, key: *const u64, words: usize, narrow: &[Narrow], lanes: u32) -> u32 {
        use std::arch::x86_64::*;
        let mut inside = lanes as __mmask8;
        for (at, field) in narrow.iter().enumerate() {
            // SAFETY: the block has two lines of bounds for each narrow field behind its info line; the key has the field's word.
            unsafe {
                let number = _mm256_set1_epi64x(field.number(key) as i64);
                let low = block.add(2 * words + 2 + 2 * at);
                inside = _mm256_mask_cmple_epu64_mask(inside, _mm256_load_si256(low.cast()), number);
                inside = _mm256_mask_cmpge_epu64_mask(inside, _mm256_load_si256(low.add(1).cast()), number);
            }
        }
        u32::from(inside)
    }
}

/// Writes the items of a mask behind `count` others; gives how many there are then.
///
/// # Safety
/// The machine has AVX-512, and there are `KEYS` places to spare.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn put(to: &mut Picked, count: usize, mask: u8, items: std::arch::x86_64::__m512i) -> usize {
    use std::arch::x86_64::*;
    // SAFETY: as promised.
    unsafe {
        _mm512_storeu_si512(to.items.as_mut_ptr().add(count).cast(), _mm512_maskz_compress_epi64(mask, items));
    }
    count + mask.count_ones() as usize
}
