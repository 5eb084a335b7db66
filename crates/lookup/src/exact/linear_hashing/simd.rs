//! Vector versions of [`LinearHashing`]: for eight hashes ([`LinearHashingAvx512`]) and four
//! ([`LinearHashingAvx2`]).
#![allow(unsafe_code)]

use super::{GROUP, GROUP_BUCKET, HASH_VALUES, LinearHashing};
use std::arch::x86_64::*;

/// Bucket in the group for each group size and hash bits, in the lower half of a byte; the upper
/// half is the bucket after the next split. The last row is padding for 8-byte reads at the end of
/// a row.
static GROUP_BUCKET_PAIR: [[u8; HASH_VALUES]; GROUP + 1] = group_bucket_pair_table();

const fn group_bucket_pair_table() -> [[u8; HASH_VALUES]; GROUP + 1] {
    let mut both = [[0; HASH_VALUES]; GROUP + 1];
    let mut size = 0;
    while size < GROUP {
        let mut place = 0;
        while place < HASH_VALUES {
            both[size][place] = GROUP_BUCKET[size][place] | GROUP_BUCKET[(size + 1) % GROUP][place] << 4;
            place += 1;
        }
        size += 1;
    }
    both
}

/// [`LinearHashing`] of eight hashes (AVX-512).
#[derive(Clone, Copy)]
pub(in super::super) struct LinearHashingAvx512 {
    /// Bits that choose a group, for unsplit and split groups.
    mask: __m512i,
    next_mask: __m512i,
    done: __m512i,
    bits: __m512i,
    next_bits: __m512i,
    /// The four quarters of a row of [`GROUP_BUCKET_PAIR`].
    members: [__m512i; 4],
}

impl LinearHashingAvx512 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(in super::super) fn new(split: &LinearHashing) -> LinearHashingAvx512 {
        let all = |word: u32| _mm512_set1_epi64(i64::from(word));
        let [level, next] = split.levels;
        let row = &GROUP_BUCKET_PAIR[level.extra_buckets as usize % GROUP];
        // SAFETY: a row has four times 64 bytes.
        let quarter = |at: usize| unsafe { _mm512_loadu_si512(row.as_ptr().add(64 * at).cast()) };
        LinearHashingAvx512 {
            mask: all((1 << level.group_bits) - 1),
            next_mask: all((1 << next.group_bits) - 1),
            done: all(split.split_groups),
            bits: all(level.group_bits),
            next_bits: all(next.group_bits),
            members: [quarter(0), quarter(1), quarter(2), quarter(3)],
        }
    }

    /// Returns the buckets of hash halves, as [`LinearHashing::bucket_of_half`] does. The upper
    /// halves of the words must be 0.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(in super::super) fn buckets_of_halves(&self, halves: __m512i) -> __m512i {
        let all = |word: i64| _mm512_set1_epi64(word);
        let done = _mm512_cmplt_epu64_mask(_mm512_and_si512(halves, self.mask), self.done);
        let bits = _mm512_mask_mov_epi64(self.bits, done, self.next_bits);
        let rest = _mm512_srlv_epi64(halves, bits);
        let group = _mm512_and_si512(halves, _mm512_mask_mov_epi64(self.mask, done, self.next_mask));
        // (rest & 15) | (top & 240) as a bitwise choice.
        const CHOOSE: i32 = 0xca;
        let place = _mm512_ternarylogic_epi64::<CHOOSE>(all(15), rest, _mm512_srli_epi64::<24>(halves));
        let [a, b, c, d] = self.members;
        let (low, high) = (_mm512_permutex2var_epi8(a, place, b), _mm512_permutex2var_epi8(c, place, d));
        let members = _mm512_mask_mov_epi64(low, _mm512_test_epi64_mask(place, all(128)), high);
        let members = _mm512_and_si512(_mm512_mask_srli_epi64::<4>(members, done, members), all(15));
        _mm512_or_si512(_mm512_sllv_epi64(members, bits), group)
    }
}

/// [`LinearHashing`] of four hashes (AVX2).
#[derive(Clone, Copy)]
pub(in super::super) struct LinearHashingAvx2 {
    mask: __m256i,
    next_mask: __m256i,
    done: __m256i,
    bits: __m256i,
    next_bits: __m256i,
    /// Row of [`GROUP_BUCKET_PAIR`].
    members: *const u8,
}

impl LinearHashingAvx2 {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn new(split: &LinearHashing) -> LinearHashingAvx2 {
        let all = |word: u32| _mm256_set1_epi64x(i64::from(word));
        let [level, next] = split.levels;
        LinearHashingAvx2 {
            mask: all((1 << level.group_bits) - 1),
            next_mask: all((1 << next.group_bits) - 1),
            done: all(split.split_groups),
            bits: all(level.group_bits),
            next_bits: all(next.group_bits),
            members: GROUP_BUCKET_PAIR[level.extra_buckets as usize % GROUP].as_ptr(),
        }
    }

    /// Returns the buckets of hash halves, as [`LinearHashing::bucket_of_half`] does. The upper
    /// halves of the words must be 0.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn buckets_of_halves(&self, halves: __m256i) -> __m256i {
        let all = |word: i64| _mm256_set1_epi64x(word);
        let done = _mm256_cmpgt_epi64(self.done, _mm256_and_si256(halves, self.mask));
        let bits = _mm256_blendv_epi8(self.bits, self.next_bits, done);
        let group = _mm256_and_si256(halves, _mm256_blendv_epi8(self.mask, self.next_mask, done));
        let low = _mm256_and_si256(_mm256_srlv_epi64(halves, bits), all(15));
        let place = _mm256_or_si256(low, _mm256_and_si256(_mm256_srli_epi64::<24>(halves), all(240)));
        // SAFETY: a place is less than 256, and more than eight bytes follow each row.
        let members = unsafe { _mm256_i64gather_epi64::<1>(self.members.cast(), place) };
        let members = _mm256_and_si256(_mm256_srlv_epi64(members, _mm256_and_si256(done, all(4))), all(15));
        _mm256_or_si256(_mm256_sllv_epi64(members, bits), group)
    }
}

#[cfg(test)]
mod tests {
    use super::{LinearHashing, LinearHashingAvx2, LinearHashingAvx512};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn eight(split: &LinearHashing, halves: [u64; 8]) -> [u64; 8] {
        let mut buckets = [0; 8];
        // SAFETY: both arrays have eight words.
        unsafe {
            let halves = _mm512_loadu_si512(halves.as_ptr().cast());
            _mm512_storeu_si512(buckets.as_mut_ptr().cast(), LinearHashingAvx512::new(split).buckets_of_halves(halves));
        }
        buckets
    }

    #[target_feature(enable = "avx2")]
    fn four(split: &LinearHashing, halves: [u64; 4]) -> [u64; 4] {
        let mut buckets = [0; 4];
        // SAFETY: both arrays have four words.
        unsafe {
            let halves = _mm256_loadu_si256(halves.as_ptr().cast());
            _mm256_storeu_si256(buckets.as_mut_ptr().cast(), LinearHashingAvx2::new(split).buckets_of_halves(halves));
        }
        buckets
    }

    #[test]
    fn agrees_with_one_at_a_time() {
        let lanes = is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512bw");
        let quads = is_x86_feature_detected!("avx2");
        let large = [1 << 20, (1 << 20) + 12_345, (1 << 21) - 1, (1 << 28) - 5];
        for buckets in (1..400).chain(large) {
            let split = LinearHashing::new(buckets);
            for at in 0..500u32 {
                let halves: [u32; 8] = std::array::from_fn(|lane| (at * 8 + lane as u32).wrapping_mul(0x9e37_79b1));
                let (wide, wanted) = (halves.map(u64::from), halves.map(|half| split.bucket_of_half(half) as u64));
                if lanes {
                    // SAFETY: the processor has the enabled features.
                    assert_eq!(unsafe { eight(&split, wide) }, wanted, "{halves:x?} of {buckets}");
                }
                for half in wide.as_chunks::<4>().0.iter().zip(wanted.as_chunks::<4>().0).filter(|_| quads) {
                    // SAFETY: the processor has the enabled features.
                    assert_eq!(unsafe { four(&split, *half.0) }, *half.1, "{halves:x?} of {buckets}");
                }
            }
        }
    }
}
