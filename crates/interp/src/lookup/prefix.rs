//! Longest prefix under exact keys: a map for each prefix length, of the lengths that the exact keys have at all.

use super::exact::WordMap;
use super::shape::{Place, Shape, prefix_mask};
use tables::fast::soon;
use tables::{Entry, KeyLayout};

/// The longest prefix wins.
#[derive(Clone, Debug)]
pub struct Prefixes {
    exact: usize,
    words: usize,
    width: u32,
    field: usize,
    /// By exact keys, masked value and length.
    entries: WordMap,
    /// By exact keys: index into `lengths`.
    groups: WordMap,
    /// For each group the prefix lengths in use with the number of entries, longest first.
    lengths: Vec<Vec<(u32, u32)>>,
    /// For each length the mask.
    masks: Vec<Vec<u64>>,
    scratch: Vec<u64>,
}

impl Prefixes {
    /// For a table whose only key that isn't exact is `place`.
    pub fn new(shape: &Shape, place: &Place) -> Prefixes {
        Prefixes {
            exact: shape.exact,
            words: place.words,
            width: place.width,
            field: place.field,
            entries: WordMap::new(shape.total + 1),
            groups: WordMap::new(shape.exact),
            lengths: Vec::new(),
            masks: (0..=place.width).map(|len| prefix_mask(place.width, len, place.words)).collect(),
            scratch: vec![0; shape.total + 1],
        }
    }

    /// The entry for a packet's key.
    #[inline]
    pub fn get(&mut self, key: &[u64]) -> Option<u32> {
        self.get_in(self.groups.get(&key[..self.exact])?, key)
    }

    /// As [`Prefixes::get`], for many keys of `words` words: what lies in memory is asked for before it is read, all keys at a time.
    pub fn get_many(&mut self, keys: &[u64], words: usize, room: &mut Vec<u64>, mut found: impl FnMut(Option<u32>)) {
        let keys = || keys.chunks_exact(words);
        room.clear();
        room.extend(keys().map(|key| self.groups.soon(&key[..self.exact])));
        for (group, key) in room.iter_mut().zip(keys()) {
            let number = self.groups.get_hashed(&key[..self.exact], *group);
            *group = number.map_or(u64::MAX, u64::from);
            soon(&self.lengths, *group as usize);
        }
        for (group, key) in room.iter().zip(keys()) {
            if let Some((longest, _)) = self.lengths.get(*group as usize).and_then(|lengths| lengths.first()) {
                self.put_prefix(key, *longest);
                self.entries.soon(&self.scratch);
            }
        }
        for (group, key) in room.iter().zip(keys()) {
            found(if *group == u64::MAX { None } else { self.get_in(*group as u32, key) });
        }
    }

    /// The scratch is the key with a prefix of that length.
    #[inline]
    fn put_prefix(&mut self, key: &[u64], length: u32) {
        let (exact, mask) = (self.exact, &self.masks[length as usize]);
        self.scratch[..exact].copy_from_slice(&key[..exact]);
        for index in 0..self.words {
            self.scratch[exact + index] = key[exact + index] & mask[index];
        }
        self.scratch[exact + self.words] = u64::from(length);
    }

    fn get_in(&mut self, group: u32, key: &[u64]) -> Option<u32> {
        let scratch = &mut self.scratch;
        scratch[..self.exact].copy_from_slice(&key[..self.exact]);
        for (len, _) in &self.lengths[group as usize] {
            let mask = &self.masks[*len as usize];
            for index in 0..self.words {
                scratch[self.exact + index] = key[self.exact + index] & mask[index];
            }
            scratch[self.exact + self.words] = u64::from(*len);
            let found = self.entries.get(scratch);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn full_key(&self, shape: &Shape, layout: &KeyLayout, entry: &Entry) -> (Vec<u64>, u32) {
        let mut key = shape.pack_entry(layout, entry);
        let len = layout.fields[self.field].second(entry.key())[0] as u32;
        key.push(u64::from(len.min(self.width)));
        (key, len.min(self.width))
    }

    /// Adds an entry, or gives it another number.
    pub fn insert(&mut self, shape: &Shape, layout: &KeyLayout, entry: &Entry, slot: u32) {
        let (key, len) = self.full_key(shape, layout, entry);
        if self.entries.insert(&key, slot).is_some() {
            return;
        }
        let exact = &key[..self.exact];
        let group = self.groups.get(exact).unwrap_or_else(|| {
            let group = self.lengths.len() as u32;
            self.lengths.push(Vec::new());
            self.groups.insert(exact, group);
            group
        });
        let lengths = &mut self.lengths[group as usize];
        match lengths.binary_search_by(|(other, _)| len.cmp(other)) {
            Ok(at) => lengths[at].1 += 1,
            Err(at) => lengths.insert(at, (len, 1)),
        }
    }

    /// Takes an entry out and returns its number.
    pub fn remove(&mut self, shape: &Shape, layout: &KeyLayout, entry: &Entry) -> Option<u32> {
        let (key, len) = self.full_key(shape, layout, entry);
        let slot = self.entries.remove(&key)?;
        let group = self.groups.get(&key[..self.exact])?;
        let lengths = &mut self.lengths[group as usize];
        if let Ok(at) = lengths.binary_search_by(|(other, _)| len.cmp(other)) {
            lengths[at].1 -= 1;
            if lengths[at].1 == 0 {
                lengths.remove(at);
            }
        }
        Some(slot)
    }

    /// The number of an entry.
    pub fn find(&self, shape: &Shape, layout: &KeyLayout, entry: &Entry) -> Option<u32> {
        self.entries.get(&self.full_key(shape, layout, entry).0)
    }
}
