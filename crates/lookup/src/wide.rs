//! [`WideTable`]: exact lookups for keys that [`super::exact::ExactTable`] doesn't take: wider than 512 bits, or of no bits at all.
//!
//! Correct and not fast: programs with such keys are rare, but an engine runs them.

use super::shape::ValueLayout;
use hashbrown::HashMap;
use std::ptr::null;

/// Bytes behind each value that may be read.
const PADDING: usize = ValueLayout::LONG;

/// Values by exact keys of any width.
#[derive(Clone, Debug)]
pub(super) struct WideTable {
    words: usize,
    entries: HashMap<Box<[u64]>, Box<[u8]>>,
}

impl WideTable {
    /// `words`: of a key.
    pub fn new(words: usize) -> WideTable {
        WideTable { words, entries: HashMap::new() }
    }

    /// Adds an entry, or gives it another value.
    pub fn insert(&mut self, key: &[u64], value: &[u8]) {
        let mut padded = Vec::with_capacity(value.len() + PADDING);
        padded.extend_from_slice(value);
        padded.resize(value.len() + PADDING, 0);
        self.entries.insert(key.into(), padded.into_boxed_slice());
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &[u64]) {
        self.entries.remove(key);
    }

    /// The first byte of each key's value, null if there is none.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len() * self.words, "as many keys as results");
        for (key, out) in keys.chunks(self.words).zip(out) {
            *out = self.entries.get(key).map_or(null(), |value| value.as_ptr());
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let heap = self.entries.iter().map(|(key, value)| 8 * key.len() + value.len());
        self.entries.allocation_size() + heap.sum::<usize>()
    }
}
