//! The hash of a lookup key: 64 bits, of which the upper half chooses an entry's first bucket, the lower half its second.
//!
//! Folded 64 x 64 -> 128 bit multiplication over two words at a time, and once more at the end (as in wyhash: Wang Yi,
//! "wyhash", 2019). The four secrets are random for each table, so nobody outside can make keys that share buckets.

use std::hash::{BuildHasher, RandomState};

/// The secrets of a table's hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seeds([u64; 4]);

impl Seeds {
    /// Random ones, from the operating system by way of the standard library.
    pub(super) fn random() -> Seeds {
        let random = |index: u64| RandomState::new().hash_one(index);
        Seeds([random(0), random(1) | 1, random(2), random(3)])
    }

    /// Secrets that give all keys the same hash.
    #[cfg(test)]
    pub(super) fn broken() -> Seeds {
        Seeds([0; 4])
    }

    /// The hash of a key of `words` words, `words` being the length of the iterator.
    #[inline(always)]
    pub(super) fn hash(&self, words: usize, word: impl Fn(usize) -> u64) -> u64 {
        let [mut a, mut b, c, d] = self.0;
        let mut at = 0;
        while at < words {
            let second = if at + 1 < words { word(at + 1) } else { 0 };
            let (low, high) = multiply(word(at) ^ a, second ^ b);
            (a, b) = (low ^ c, high ^ d);
            at += 2;
        }
        let (low, high) = multiply(a, b);
        low ^ high
    }
}

#[inline(always)]
fn multiply(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

/// The tag of a hash: what a bucket keeps of it, for each slot. Never 0, which is the tag of a slot that holds nothing.
///
/// Bits of each half choose buckets, from both ends, so it is made from those between.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u8 {
    ((hash >> 48 ^ hash >> 12) as u8).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Seeds, tag};

    /// Keys that differ in few bits spread evenly, whichever half or the tag is looked at: chi square over 256 cells.
    #[test]
    fn spreads() {
        for words in [1, 2, 3, 8] {
            for at in 0..words {
                let seeds = Seeds::random();
                let mut cells = [[0f64; 256]; 3];
                for key in 0..65_536_u64 {
                    let hash = seeds.hash(words, |index| if index == at { key << 8 } else { 7 });
                    cells[0][(hash >> 56) as usize] += 1.0;
                    cells[1][(hash as u32 >> 24) as usize] += 1.0;
                    cells[2][usize::from(tag(hash))] += 1.0;
                }
                // The tag 1 stands for two values.
                assert_eq!(cells[2][0], 0.0);
                cells[2][0] = cells[2][1] / 2.0;
                cells[2][1] /= 2.0;
                for cell in cells {
                    let chi: f64 = cell.iter().map(|n| (n - 256.0).powi(2) / 256.0).sum();
                    // 255 degrees of freedom: 6 standard deviations are 135. Low is fine: multiplication spreads runs evenly.
                    assert!(chi < 255.0 + 200.0, "{chi} {words} {at} {seeds:?}");
                }
            }
        }
    }
}
