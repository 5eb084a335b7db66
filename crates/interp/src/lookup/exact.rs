//! A map from a key of some words to a number: open addressing in one array, so that where a key would be is known before it is looked up, and can be asked for.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hasher};
use tables::fast::soon;

/// Keys of one length, and their numbers. Each place has a word of its own, then the key: in the word the number and 1 in the lower half, and the upper half of
/// the key's hash; 0 if the place is free. A key is at the first place that was free from where its hash says on, and no place between is.
#[derive(Clone, Debug, Default)]
pub struct WordMap {
    words: usize,
    places: Vec<u64>,
    /// How many places there are, less one: a power of two; without any the map has no memory yet.
    mask: usize,
    len: usize,
    /// Seeded at random, as packets can choose keys (PNA `add_entry`).
    hasher: RandomState,
}

impl WordMap {
    /// A map for keys of that many words.
    pub fn new(words: usize) -> WordMap {
        WordMap { words, ..WordMap::default() }
    }

    fn hash(&self, key: &[u64]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        key.iter().for_each(|word| hasher.write_u64(*word));
        hasher.finish()
    }

    fn stride(&self) -> usize {
        self.words + 1
    }

    fn place(&self, at: usize) -> &[u64] {
        &self.places[at * self.stride()..(at + 1) * self.stride()]
    }

    /// The key will be looked up soon: what this gives is for [`WordMap::get_hashed`].
    #[inline]
    pub fn soon(&self, key: &[u64]) -> u64 {
        let hash = self.hash(key);
        let at = (hash as usize & self.mask) * self.stride();
        soon(&self.places, at);
        soon(&self.places, at + self.words);
        hash
    }

    /// The item of a key.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<u32> {
        self.get_hashed(key, self.hash(key))
    }

    /// As [`WordMap::get`], with what [`WordMap::soon`] gave.
    #[inline]
    pub fn get_hashed(&self, key: &[u64], hash: u64) -> Option<u32> {
        self.find(key, hash).map(|at| self.place(at)[0] as u32 - 1)
    }

    #[inline]
    fn find(&self, key: &[u64], hash: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = hash as usize & self.mask;
        loop {
            let place = self.place(at);
            if place[0] == 0 {
                return None;
            }
            if place[0] >> 32 == hash >> 32 && place[1..].iter().zip(key).all(|(one, other)| one == other) {
                return Some(at);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds or replaces an item; returns the one that was there.
    pub fn insert(&mut self, key: &[u64], new: u32) -> Option<u32> {
        debug_assert!(key.len() == self.words && new < u32::MAX);
        let hash = self.hash(key);
        let head = hash >> 32 << 32 | (u64::from(new) + 1);
        if let Some(at) = self.find(key, hash) {
            let first = at * self.stride();
            return Some(std::mem::replace(&mut self.places[first], head) as u32 - 1);
        }
        if self.places.is_empty() || (self.len + 1) * 5 > (self.mask + 1) * 3 {
            self.grow();
        }
        self.settle(key, hash, head);
        self.len += 1;
        None
    }

    fn settle(&mut self, key: &[u64], hash: u64, head: u64) {
        let mut at = hash as usize & self.mask;
        while self.place(at)[0] != 0 {
            at = (at + 1) & self.mask;
        }
        let first = at * self.stride();
        self.places[first] = head;
        self.places[first + 1..first + 1 + key.len()].copy_from_slice(key);
    }

    fn grow(&mut self) {
        let (stride, count) = (self.stride(), if self.places.is_empty() { 4 } else { 2 * (self.mask + 1) });
        let old = std::mem::replace(&mut self.places, vec![0; count * stride]);
        self.mask = count - 1;
        for place in old.chunks_exact(stride).filter(|place| place[0] != 0) {
            self.settle(&place[1..], self.hash(&place[1..]), place[0]);
        }
    }

    /// Takes an item out.
    pub fn remove(&mut self, key: &[u64]) -> Option<u32> {
        let mut gap = self.find(key, self.hash(key))?;
        let stride = self.stride();
        let item = self.place(gap)[0] as u32 - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let place = self.place(at);
            if place[0] == 0 {
                break;
            }
            // Whoever would be found before the gap, or at it, moves there.
            let home = self.hash(&place[1..]) as usize & self.mask;
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(gap) & self.mask) {
                self.places.copy_within(at * stride..(at + 1) * stride, gap * stride);
                gap = at;
            }
        }
        self.places[gap * stride..(gap + 1) * stride].fill(0);
        self.len -= 1;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::WordMap;
    use std::collections::HashMap;

    /// As std's map, with keys of each length, many of which come and go.
    #[test]
    fn a_map_is_a_map() {
        let mut rng = fastrand::Rng::with_seed(9);
        for words in 0..6 {
            let (mut map, mut plain) = (WordMap::new(words), HashMap::new());
            for step in 0..40_000 {
                // Now few keys, now many.
                let most = if step / 5_000 % 2 == 0 { 600 } else { 6 };
                let key: Vec<u64> = (0..words).map(|word| rng.u64(..most) << (word * 7)).collect();
                match rng.u8(..3) {
                    0 => assert_eq!(map.insert(&key, step), plain.insert(key.clone(), step)),
                    1 => assert_eq!(map.remove(&key), plain.remove(&key)),
                    _ => assert_eq!(map.get(&key), plain.get(&key).copied()),
                }
            }
            assert_eq!(map.len, plain.len());
            assert!(plain.iter().all(|(key, item)| map.get_hashed(key, map.soon(key)) == Some(*item)));
            let keys: Vec<Vec<u64>> = plain.keys().cloned().collect();
            assert!(keys.iter().all(|key| map.remove(key) == plain.remove(key)) && map.len == 0);
            assert!(map.places.iter().all(|word| *word == 0));
        }
    }
}
