//! [`Hash`]: a seeded hash of words, by multiplication: twice, each time with what is left in the upper half folded into the lower.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m512i, _mm512_mullo_epi64, _mm512_set1_epi64, _mm512_srli_epi64, _mm512_xor_si512};
use std::hash::{BuildHasher, RandomState};

/// Seeded, so that nobody outside can choose keys that collide; not for secrets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash {
    seed: u64,
    /// Odd.
    factors: [u64; 2],
}

impl Hash {
    /// With seeds of its own.
    pub(super) fn new() -> Hash {
        let random = |index: u64| RandomState::new().hash_one(index);
        Hash { seed: random(0), factors: [random(1) | 1, random(2) | 1] }
    }

    /// Of a key: its top bits choose a place, its low bits a tag.
    #[inline(always)]
    pub(super) fn words(&self, words: &[u64]) -> u64 {
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

    /// Of eight keys of one word.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn eight(&self, words: __m512i) -> __m512i {
        let mut words = _mm512_xor_si512(words, _mm512_set1_epi64(self.seed as i64));
        for factor in self.factors {
            words = _mm512_mullo_epi64(words, _mm512_set1_epi64(factor as i64));
            words = _mm512_xor_si512(words, _mm512_srli_epi64::<32>(words));
        }
        words
    }

    /// Of bytes.
    pub(super) fn bytes(&self, bytes: &[u8]) -> u64 {
        let mut hash = self.mix(self.seed ^ bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = self.mix(hash ^ u64::from_le_bytes(word));
        }
        hash
    }
}
