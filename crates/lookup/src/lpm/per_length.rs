//! [`PerLengthTable`]: addresses of more than 128 bits, in one hash table per prefix length. Not
//! optimised, because no protocol has such addresses, although a program may.

use super::hash::SeededHash;
use super::next_hops::NextHopTable;
use hashbrown::HashTable;
use std::collections::BTreeMap;

/// Exact key, followed by the prefix padded with zeros.
type PerLengthKey = Box<[u64]>;

/// Hash tables of value numbers by prefix length.
#[derive(Clone, Debug)]
pub(super) struct PerLengthTable {
    tables_by_len: BTreeMap<u32, HashTable<(PerLengthKey, u32)>>,
    values: NextHopTable,
    hash: SeededHash,
    exact_words: usize,
    lpm_bits: u32,
    longest_value: usize,
}

impl PerLengthTable {
    pub(super) fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> PerLengthTable {
        PerLengthTable {
            tables_by_len: BTreeMap::new(),
            values: NextHopTable::new(longest_value),
            hash: SeededHash::new(),
            exact_words: exact_bits.div_ceil(64) as usize,
            lpm_bits,
            longest_value,
        }
    }

    fn words(&self) -> usize {
        self.exact_words + self.lpm_bits.div_ceil(64) as usize
    }

    /// Returns the key with the address truncated to `len` bits.
    fn truncate_key(&self, exact: &[u64], address: &[u64], len: u32) -> PerLengthKey {
        let host = self.lpm_bits - len;
        let keep = |(index, &word): (usize, &u64)| {
            let below = host.saturating_sub(index as u32 * 64);
            word & u64::MAX.checked_shl(below).unwrap_or(0)
        };
        exact.iter().copied().chain(address.iter().enumerate().map(keep)).collect()
    }

    pub(super) fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        let len = len.min(self.lpm_bits);
        let key = self.truncate_key(&exact[..self.exact_words], prefix, len);
        let values = &mut self.values;
        let number = values.acquire(&value[..value.len().min(self.longest_value)]);
        let hash = self.hash;
        let table = self.tables_by_len.entry(len).or_default();
        if let Some((_, old)) = table.find_mut(hash.hash_words(&key), |(other, _)| *other == key) {
            values.release(std::mem::replace(old, number));
            return true;
        }
        table.insert_unique(hash.hash_words(&key), (key, number), |(key, _)| hash.hash_words(key));
        false
    }

    pub(super) fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        let len = len.min(self.lpm_bits);
        let key = self.truncate_key(&exact[..self.exact_words], prefix, len);
        let Some(table) = self.tables_by_len.get_mut(&len) else {
            return false;
        };
        let Ok(entry) = table.find_entry(self.hash.hash_words(&key), |(other, _)| *other == key) else {
            return false;
        };
        let ((_, number), _) = entry.remove();
        self.values.release(number);
        if table.is_empty() {
            self.tables_by_len.remove(&len);
        }
        true
    }

    fn find_value(&self, key: &[u64]) -> Option<&[u8]> {
        let (exact, address) = key.split_at_checked(self.exact_words)?;
        self.tables_by_len.iter().rev().find_map(|(&len, table)| {
            let key = self.truncate_key(exact, address, len);
            let (_, number) = table.find(self.hash.hash_words(&key), |(other, _)| *other == key)?;
            Some(self.values.get(*number))
        })
    }

    pub(super) fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        self.find_value(key).map(|value| &value[..self.longest_value])
    }

    pub(super) fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        out.fill(std::ptr::null());
        for (key, out) in keys.chunks_exact(self.words()).zip(out) {
            *out = self.find_value(key).map_or(std::ptr::null(), <[u8]>::as_ptr);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tables_by_len.values().map(HashTable::len).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry = self.words() * 8;
        let table = |table: &HashTable<(PerLengthKey, u32)>| table.allocation_size() + table.len() * entry;
        self.values.memory_bytes() + self.tables_by_len.values().map(table).sum::<usize>()
    }
}
