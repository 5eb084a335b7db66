//! [`PlainTable`]: addresses of more than 128 bits, one hash table per prefix length. No protocol has such addresses; a program may.

use super::hash::Hash;
use super::values::Values;
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// The exact key, then the prefix with zeros behind it.
type Key = Box<[u64]>;

/// By prefix length, longest last: the number of each prefix's value.
#[derive(Clone, Debug)]
pub(super) struct PlainTable {
    lens: BTreeMap<u32, HashTable<(Key, u32)>>,
    values: Values,
    hash: Hash,
    exact_words: usize,
    lpm_bits: u32,
    longest_value: usize,
}

impl PlainTable {
    pub(super) fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> PlainTable {
        PlainTable {
            lens: BTreeMap::new(),
            values: Values::new(longest_value),
            hash: Hash::new(),
            exact_words: exact_bits.div_ceil(64) as usize,
            lpm_bits,
            longest_value,
        }
    }

    fn words(&self) -> usize {
        self.exact_words + self.lpm_bits.div_ceil(64) as usize
    }

    /// The key with the address cut to `len` bits.
    fn cut(&self, exact: &[u64], address: &[u64], len: u32) -> Key {
        let host = self.lpm_bits - len;
        let keep = |(index, &word): (usize, &u64)| {
            let below = host.saturating_sub(index as u32 * 64);
            word & u64::MAX.checked_shl(below).unwrap_or(0)
        };
        exact.iter().copied().chain(address.iter().enumerate().map(keep)).collect()
    }

    pub(super) fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        let len = len.min(self.lpm_bits);
        let key = self.cut(&exact[..self.exact_words], prefix, len);
        let values = &mut self.values;
        let number = values.take(&value[..value.len().min(self.longest_value)]);
        let hash = self.hash;
        let table = self.lens.entry(len).or_default();
        if let Some((_, old)) = table.find_mut(hash.words(&key), |(other, _)| *other == key) {
            values.release(std::mem::replace(old, number));
            return true;
        }
        table.insert_unique(hash.words(&key), (key, number), |(key, _)| hash.words(key));
        false
    }

    pub(super) fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        let len = len.min(self.lpm_bits);
        let key = self.cut(&exact[..self.exact_words], prefix, len);
        let Some(table) = self.lens.get_mut(&len) else {
            return false;
        };
        let Ok(entry) = table.find_entry(self.hash.words(&key), |(other, _)| *other == key) else {
            return false;
        };
        let ((_, number), _) = entry.remove();
        self.values.release(number);
        if table.is_empty() {
            self.lens.remove(&len);
        }
        true
    }

    fn find(&self, key: &[u64]) -> Option<&[u8]> {
        let (exact, address) = key.split_at_checked(self.exact_words)?;
        self.lens.iter().rev().find_map(|(&len, table)| {
            let key = self.cut(exact, address, len);
            let (_, number) = table.find(self.hash.words(&key), |(other, _)| *other == key)?;
            Some(self.values.get(*number))
        })
    }

    pub(super) fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        self.find(key).map(|value| &value[..self.longest_value])
    }

    pub(super) fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        out.fill(std::ptr::null());
        for (key, out) in keys.chunks_exact(self.words()).zip(out) {
            *out = self.find(key).map_or(std::ptr::null(), <[u8]>::as_ptr);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lens.values().map(HashTable::len).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry = self.words() * 8;
        let table = |table: &HashTable<(Key, u32)>| table.allocation_size() + table.len() * entry;
        self.values.memory_bytes() + self.lens.values().map(table).sum::<usize>()
    }
}
