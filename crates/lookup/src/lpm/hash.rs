//! [`SeededHash`]: a seeded multiplicative hash of words. It multiplies twice and each time folds
//! the upper half into the lower.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512i, _mm512_mullo_epi64, _mm512_set1_epi64, _mm512_srli_epi64, _mm512_xor_si512};
use std::hash::{BuildHasher, RandomState};

/// Hash with a random seed, so that an attacker cannot choose colliding keys. Not cryptographic.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeededHash {
    seed: u64,
    /// Odd.
    factors: [u64; 2],
}

impl SeededHash {
    /// Creates a hash with random seeds.
    pub(super) fn new() -> SeededHash {
        let random = |index: u64| RandomState::new().hash_one(index);
        SeededHash { seed: random(0), factors: [random(1) | 1, random(2) | 1] }
    }

    /// Hashes a key. The top bits choose a slot, the low bits are its tag.
    #[inline(always)]
    pub(super) fn hash_words(&self, words: &[u64]) -> u64 {
        words.iter().fold(self.seed, |hash, word| self.mix(hash ^ word))
    }

    #[inline(always)]
    fn mix(&self, word: u64) -> u64 {
        let mut word = word;
        for factor in self.factors {
            word = word.wrapping_mul(factor);
            word ^= word >> 32;
        }
        word
    }

    /// Hashes eight keys of one word.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn hash_eight(&self, words: __m512i) -> __m512i {
        let mut words = _mm512_xor_si512(words, _mm512_set1_epi64(self.seed as i64));
        for factor in self.factors {
            words = _mm512_mullo_epi64(words, _mm512_set1_epi64(factor as i64));
            words = _mm512_xor_si512(words, _mm512_srli_epi64::<32>(words));
        }
        words
    }

    /// Hashes bytes.
    pub(super) fn hash_bytes(&self, bytes: &[u8]) -> u64 {
        let mut hash = self.mix(self.seed ^ bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = self.mix(hash ^ u64::from_le_bytes(word));
        }
        hash
    }
}
