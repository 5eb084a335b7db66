//! Ternary and range lookups with priorities: a packet classifier for any mixture of kinds of match.
//!
//! [`TernaryTable`] answers: *which of the entries that match is the strongest?* The parts:
//!
//! | what | where |
//! |---|---|
//! | an entry as value, mask and ranges | `rule.rs` |
//! | entries and their values by number | `records.rs` |
//! | four rules side by side, chains of them | `blocks.rs` |
//! | hash tables over common bits, nested | `tree.rs` |
//! | which bits | `plan.rs` |
//! | rearranging, a little with each change | `work.rs` |
//! | what a bucket says | `head.rs` |
//! | whether any entry has a key's exact field | `filter.rs` |
//! | lookups in batches | `search.rs`, `lanes.rs`, `quads.rs` |

mod blocks;
mod filter;
mod head;
mod lanes;
mod plan;
#[cfg(target_arch = "x86_64")]
mod quads;
mod records;
mod rule;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use super::KeyPlace;
use filter::Filter;
pub(super) use head::factor;
use rule::Shape;
use smallvec::SmallVec;
use tree::{ROOT, Tree};

/// Keys that are looked up together if not all are.
const CHUNK: usize = 64;
/// The first keys of a batch, by which it is decided whether the others are asked.
const SAMPLE: usize = 8;

/// A table of entries with priorities.
///
/// Of the entries that match a key the one with the greatest priority wins; of equal ones that with the greatest sum of LPM prefix
/// lengths; then that with the smallest sequence.
///
/// A change takes microseconds: it touches one place, and does a bounded piece of what rearranging is due. One writer; lookups may go
/// on in any number of threads while nobody writes.
#[derive(Clone)]
pub struct TernaryTable {
    tree: Tree,
    kernel: search::Kernel,
    filter: Option<Filter>,
    /// Room for a rule in the making.
    rule: Vec<u64>,
}

impl TernaryTable {
    /// An empty table. `keys` says where each field lies in the `words` words of a lookup key; values are at most `longest_value` bytes.
    ///
    /// # Panics
    /// A field lies outside the words, or one wider than a word doesn't start at a word.
    pub fn new(keys: &[KeyPlace], words: usize, longest_value: usize) -> TernaryTable {
        let shape = Shape::new(keys, words);
        let kernel = search::kernel(shape.words);
        let filter = Filter::new(keys);
        TernaryTable { tree: Tree::new(shape, longest_value), kernel, filter, rule: Vec::new() }
    }

    /// Adds an entry. `key` is its packed key, as [`crate::KeyLayout`] lays it out. `true`: there was an entry with this key and
    /// priority; it has the new value now and keeps its sequence.
    ///
    /// # Panics
    /// The key is one of another table, or the value longer than the longest.
    pub fn insert(&mut self, key: &[u64], priority: i32, sequence: u64, value: &[u8]) -> bool {
        self.tree.shape.rule(key, priority, sequence, &mut self.rule);
        let found = self.tree.find(ROOT, &self.rule);
        if let Some(id) = found {
            self.tree.records.set_value(id, value);
        } else {
            let id = self.tree.records.add(&self.rule, value);
            self.tree.insert(ROOT, id);
            if let Some(filter) = &mut self.filter {
                filter.add(&self.rule);
            }
        }
        self.tree.work();
        found.is_some()
    }

    /// Removes the entry with this key and priority. `false`: there is none.
    ///
    /// # Panics
    /// The key is one of another table.
    pub fn remove(&mut self, key: &[u64], priority: i32) -> bool {
        self.tree.shape.rule(key, priority, 0, &mut self.rule);
        let found = self.tree.remove(ROOT, &self.rule);
        if let Some(id) = found {
            self.tree.records.remove(id);
            if let Some(filter) = &mut self.filter {
                filter.remove(&self.rule);
            }
        }
        self.tree.work();
        found.is_some()
    }

    /// Does a bounded piece of the rearranging that is due: some microseconds of work. `false`: nothing is. Changes do the same, so
    /// there is no need to call it; after a great load it makes lookups as fast as they get.
    pub fn tidy(&mut self) -> bool {
        self.tree.work()
    }

    /// Whether no rearranging is due.
    pub fn is_tidy(&self) -> bool {
        self.tree.queue.is_empty()
    }

    /// The first byte of the strongest matching entry's value, or null. At least 8 bytes may be read, 16 if values may be longer. Valid until the next change.
    ///
    /// # Panics
    /// The key has too few words.
    pub fn lookup(&self, key: &[u64]) -> *const u8 {
        let mut out = [std::ptr::null()];
        self.lookup_batch(&key[..self.tree.shape.words], &mut out);
        out[0]
    }

    /// Looks up as many keys as `out` has places; `keys` has them one behind the other.
    ///
    /// # Panics
    /// `keys` is of another length.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let words = self.tree.shape.words;
        assert_eq!(keys.len(), out.len() * words, "as many keys as results");
        // If the first keys all have entries, so have most, and asking would only add to it.
        match &self.filter {
            Some(filter) if keys.chunks_exact(words).take(SAMPLE).any(|key| !filter.may_match(key)) => {
                self.look_up_some(filter, keys, out);
            }
            _ => self.look_up_all(keys, out),
        }
    }

    #[allow(unsafe_code)]
    fn look_up_all(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len() * self.tree.shape.words, "as many keys as results");
        // SAFETY: the kernel was chosen for this machine and this number of words, and there are as many keys as results.
        unsafe { (self.kernel)(&self.tree, keys, out) }
    }

    /// Looks up those keys that may have an entry, [`CHUNK`] together, because each search has a cost of its own.
    fn look_up_some(&self, filter: &Filter, keys: &[u64], out: &mut [*const u8]) {
        let words = self.tree.shape.words;
        let mut positions: SmallVec<[usize; CHUNK]> = SmallVec::new();
        let mut kept: SmallVec<[u64; 8 * CHUNK]> = SmallVec::new();
        out.fill(std::ptr::null());
        let last = out.len() - 1;
        for (position, key) in keys.chunks_exact(words).enumerate() {
            if filter.may_match(key) {
                positions.push(position);
                kept.extend_from_slice(key);
            }
            if positions.len() == CHUNK || position == last {
                let mut found = [std::ptr::null(); CHUNK];
                self.look_up_all(&kept, &mut found[..positions.len()]);
                for (position, found) in positions.drain(..).zip(found) {
                    out[position] = found;
                }
                kept.clear();
            }
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.tree.records.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<TernaryTable>() + self.tree.memory_bytes() + self.filter.as_ref().map_or(0, Filter::memory_bytes)
    }
}

impl std::fmt::Debug for TernaryTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TernaryTable").field("entries", &self.len()).field("bytes", &self.memory_bytes()).finish()
    }
}
