//! The keyed hash of a table's keys.
//!
//! Each 16 bytes are folded by one multiplication of 64 by 64 bits, with secret numbers, and the result
//! by another one. Low bits choose the bucket, high bits are the tag.
//!
//! With one multiplication, neighbouring addresses or ports would be multiples of one secret number.
//! For one secret in a thousand, a hundred of them would be in one bucket, and fill it.

/// Secret numbers of one index.
#[derive(Clone, Copy)]
pub(crate) struct KeyHasher {
    secrets: [u64; 4],
}

impl KeyHasher {
    /// Derives the secret numbers from a seed (SplitMix64, Steele and others 2014).
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let secrets = [0; 4].map(|_: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) | 1
        });
        KeyHasher { secrets }
    }

    /// Returns the hash of a key of at least one byte.
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let [a, b, c, d] = self.secrets;
        let len = key.len();
        if len < 16 {
            let (low, high) = if len >= 8 {
                (word(key, 0), word(key, len - 8))
            } else if len >= 4 {
                (half_word(key, 0), half_word(key, len - 4))
            } else {
                (u64::from(key[0]) << 8 | u64::from(key[len / 2]), u64::from(key[len - 1]))
            };
            return fold(fold(low ^ a, high ^ b) ^ c, d ^ len as u64);
        }
        let mut hash = c;
        let mut at = 0;
        while at + 16 < len {
            hash = fold(word(key, at) ^ a ^ hash, word(key, at + 8) ^ b);
            at += 16;
        }
        let folded = fold(word(key, len - 16) ^ d ^ hash, word(key, len - 8) ^ b);
        fold(folded ^ a, c ^ len as u64)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn word(key: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(key[at..at + 8].try_into().expect("8 bytes"))
}

#[inline(always)]
fn half_word(key: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(key[at..at + 4].try_into().expect("4 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters, single bits and equal bytes are keys that weak hashes map to few values.
    #[test]
    fn similar_keys_spread_over_buckets_and_tags() {
        for len in [1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 20, 31, 32, 33, 37, 64, 65] {
            let hasher = KeyHasher::new(len as u64);
            let bits = (0..len * 8).map(|bit| {
                let mut key = vec![0; len];
                key[bit / 8] = 1 << (bit % 8);
                key
            });
            let counters = (0..if len == 1 { 0 } else { 4096u32 }).map(|n| {
                let mut key = vec![0xff; len];
                key[len - 2..].copy_from_slice(&(n as u16).to_be_bytes());
                key
            });
            let keys: Vec<Vec<u8>> = bits.chain(counters).collect();
            let mut low = vec![0u32; 64];
            let mut high = vec![0u32; 64];
            for key in &keys {
                let hash = hasher.hash(key);
                low[(hash & 63) as usize] += 1;
                high[(hash >> 58) as usize] += 1;
            }
            // Mean of about 64 or more, deviation of 8: 8 deviations and small numbers above.
            let max = keys.len() as u32 / 64 * 2 + 12;
            assert!(low.iter().chain(&high).all(|n| *n <= max), "{len} bytes: {low:?} {high:?}");
        }
    }

    /// Neighbouring addresses and ports, which tenants have, spread over buckets for each seed.
    #[test]
    fn neighbours_spread_over_buckets_for_each_seed() {
        let mut fullest = 0;
        for seed in 0..2000 {
            let hasher = KeyHasher::new(seed);
            for len in [8, 13, 16, 20, 24, 32, 40] {
                for at in (0..len - 1).step_by(2) {
                    let mut buckets = [0u32; 16];
                    for n in 0..150u16 {
                        let mut key = [0x5a; 40];
                        key[at..at + 2].copy_from_slice(&n.to_le_bytes());
                        buckets[(hasher.hash(&key[..len]) & 15) as usize] += 1;
                    }
                    fullest = fullest.max(buckets.into_iter().max().unwrap_or(0));
                }
            }
        }
        // Mean of 9.4, deviation of 3; a chain of buckets has room for 81.
        assert!(fullest <= 33, "{fullest} of 150 keys are in one of 16 buckets");
    }
}
