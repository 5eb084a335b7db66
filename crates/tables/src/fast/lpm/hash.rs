//! [`Hash`]: a seeded hash of words, by folded multiplication.

use std::hash::{BuildHasher, RandomState};

/// Seeded, so that nobody outside can choose keys that collide; not for secrets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

/// Odd, with about as many ones as zeros.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hash {
    /// With a seed of its own.
    pub(super) fn new() -> Hash {
        Hash(RandomState::new().hash_one(0))
    }

    /// Of a key: its top bits choose a place, its low bits a tag.
    #[inline(always)]
    pub(super) fn words(self, words: &[u64]) -> u64 {
        let mut hash = self.0;
        for &word in words {
            hash = fold(hash ^ word);
        }
        hash
    }

    /// Of bytes.
    pub(super) fn bytes(self, bytes: &[u8]) -> u64 {
        let mut hash = fold(self.0 ^ bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            hash = fold(hash ^ u64::from_le_bytes(word));
        }
        hash
    }
}

#[inline(always)]
fn fold(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(FACTOR);
    (product >> 64) as u64 ^ product as u64
}
