//! [`WideKeyTable`]: exact match for keys that [`super::exact::ExactTable`] does not support,
//! either wider than 512 bits or of zero bits.
//!
//! It is not optimised because programs rarely have such keys.

use super::lookup_layout::ValueLayout;
use hashbrown::HashMap;
use std::ptr::null;

/// Bytes after each value that may be read.
const PADDING_BYTES: usize = ValueLayout::LONG;

/// Values by exact keys of any width.
#[derive(Clone, Debug)]
pub(super) struct WideKeyTable {
    key_words: usize,
    entries: HashMap<Box<[u64]>, Box<[u8]>>,
}

impl WideKeyTable {
    /// Creates an empty table for keys of `words` 64-bit words.
    pub fn new(words: usize) -> WideKeyTable {
        WideKeyTable { key_words: words, entries: HashMap::new() }
    }

    /// Inserts an entry, or replaces its value.
    pub fn insert(&mut self, key: &[u64], value: &[u8]) {
        let mut padded = Vec::with_capacity(value.len() + PADDING_BYTES);
        padded.extend_from_slice(value);
        padded.resize(value.len() + PADDING_BYTES, 0);
        self.entries.insert(key.into(), padded.into_boxed_slice());
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &[u64]) {
        self.entries.remove(key);
    }

    /// Writes the address of each key's value to `out`, or null on a miss.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len() * self.key_words, "one key per result");
        for (key, out) in keys.chunks(self.key_words).zip(out) {
            *out = self.entries.get(key).map_or(null(), |value| value.as_ptr());
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let heap = self.entries.iter().map(|(key, value)| 8 * key.len() + value.len());
        self.entries.allocation_size() + heap.sum::<usize>()
    }
}
