//! 64-bit hash of a lookup key. The upper half chooses an entry's first bucket, the lower half its
//! second.
//!
//! It folds 64 x 64 -> 128 bit multiplications of two words at a time, with a final multiplication
//! (as wyhash: Wang Yi, "wyhash", 2019). The four secrets are random for each table, so that an
//! attacker cannot construct keys that share buckets.

use std::hash::{BuildHasher, RandomState};

/// Secrets of a table's hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashSeeds([u64; 4]);

impl HashSeeds {
    /// Creates random secrets, seeded by the operating system through the standard library.
    pub(super) fn random() -> HashSeeds {
        let random = |index: u64| RandomState::new().hash_one(index);
        HashSeeds([random(0), random(1) | 1, random(2), random(3)])
    }

    /// Creates secrets that give all keys the same hash.
    #[cfg(test)]
    pub(super) fn broken() -> HashSeeds {
        HashSeeds([0; 4])
    }

    /// Hashes a key of `words` words.
    #[inline(always)]
    pub(super) fn hash(&self, words: usize, word: impl Fn(usize) -> u64) -> u64 {
        let [mut a, mut b, c, d] = self.0;
        let mut at = 0;
        while at < words {
            let second = if at + 1 < words { word(at + 1) } else { 0 };
            let (low, high) = multiply_wide(word(at) ^ a, second ^ b);
            (a, b) = (low ^ c, high ^ d);
            at += 2;
        }
        let (low, high) = multiply_wide(a, b);
        low ^ high
    }
}

#[inline(always)]
fn multiply_wide(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

/// Returns the tag of a hash, which each slot of a bucket stores. Never 0, because 0 marks a free
/// slot.
///
/// Buckets are chosen by bits from both ends of each half, so the tag uses bits between them.
#[inline(always)]
pub(super) fn hash_tag(hash: u64) -> u8 {
    ((hash >> 48 ^ hash >> 12) as u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::{HashSeeds, hash_tag};

    /// Keys that differ in few bits spread evenly in both halves and in the tag: chi square over
    /// 256 cells.
    #[test]
    fn spreads() {
        for words in [1, 2, 3, 8] {
            for at in 0..words {
                let seeds = HashSeeds::random();
                let mut cells = [[0f64; 256]; 3];
                for key in 0..65_536_u64 {
                    let hash = seeds.hash(words, |index| if index == at { key << 8 } else { 7 });
                    cells[0][(hash >> 56) as usize] += 1.0;
                    cells[1][(hash as u32 >> 24) as usize] += 1.0;
                    cells[2][usize::from(hash_tag(hash))] += 1.0;
                }
                // The tag 1 covers two values.
                assert_eq!(cells[2][0], 0.0);
                cells[2][0] = cells[2][1] / 2.0;
                cells[2][1] /= 2.0;
                for cell in cells {
                    let chi: f64 = cell.iter().map(|n| (n - 256.0).powi(2) / 256.0).sum();
                    // 255 degrees of freedom: 6 standard deviations are 135. Low values are fine,
                    // because multiplication spreads runs evenly.
                    assert!(chi < 255.0 + 200.0, "{chi} {words} {at} {seeds:?}");
                }
            }
        }
    }
}
