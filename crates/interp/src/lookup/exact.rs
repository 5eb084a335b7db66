//! A map from a key of some words to a number: one std `HashMap` for each length of keys.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The hasher is seeded at random, as packets can choose keys (PNA `add_entry`).
type Map<K> = HashMap<K, u32, RandomState>;

/// Keys of one length.
#[derive(Clone, Debug)]
pub enum WordMap {
    /// Keys of no words: at most one item.
    None(Option<u32>),
    /// Keys of one word.
    One(Map<u64>),
    /// Keys of two words.
    Two(Map<[u64; 2]>),
    /// Keys of three words.
    Three(Map<[u64; 3]>),
    /// Keys of four words.
    Four(Map<[u64; 4]>),
    /// Longer keys.
    Long(Map<Box<[u64]>>),
}

/// Runs the same code on the map for whatever length of keys.
macro_rules! each {
    ($map:expr, $key:expr, $item:ident => $none:expr, |$inner:ident, $array:ident| $body:expr, |$long:ident| $rest:expr) => {
        match $map {
            WordMap::None($item) => $none,
            WordMap::One($inner) => {
                let $array: [u64; 1] = $key.try_into().ok()?;
                let [$array] = $array;
                $body
            }
            WordMap::Two($inner) => {
                let $array: [u64; 2] = $key.try_into().ok()?;
                $body
            }
            WordMap::Three($inner) => {
                let $array: [u64; 3] = $key.try_into().ok()?;
                $body
            }
            WordMap::Four($inner) => {
                let $array: [u64; 4] = $key.try_into().ok()?;
                $body
            }
            WordMap::Long($long) => $rest,
        }
    };
}

impl WordMap {
    /// A map for keys of that many words.
    pub fn new(words: usize) -> WordMap {
        match words {
            0 => WordMap::None(None),
            1 => WordMap::One(Map::default()),
            2 => WordMap::Two(Map::default()),
            3 => WordMap::Three(Map::default()),
            4 => WordMap::Four(Map::default()),
            _ => WordMap::Long(Map::default()),
        }
    }

    /// The item of a key.
    #[inline]
    pub fn get(&self, key: &[u64]) -> Option<u32> {
        each!(self, key, item => *item, |map, array| map.get(&array).copied(), |map| map.get(key).copied())
    }

    /// Adds or replaces an item; returns the one that was there.
    pub fn insert(&mut self, key: &[u64], new: u32) -> Option<u32> {
        each!(self, key, item => item.replace(new), |map, array| map.insert(array, new), |map| map.insert(key.into(), new))
    }

    /// Takes an item out.
    pub fn remove(&mut self, key: &[u64]) -> Option<u32> {
        each!(self, key, item => item.take(), |map, array| map.remove(&array), |map| map.remove(key))
    }
}
