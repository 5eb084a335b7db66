//! Ternary and range match by priority: a packet classifier for any mix of match kinds.
//!
//! [`TernaryTable`] finds the matching entry of highest precedence.
//!
//! | content | module |
//! |---|---|
//! | an entry as value, mask and ranges | `rule.rs` |
//! | slab of rules and values | `records.rs` |
//! | blocks of four rules, and chains of them | `blocks.rs` |
//! | nested hash tables by common mask bits | `classifier.rs` |
//! | choice of masks | `mask_planner.rs` |
//! | incremental reorganisation | `maintenance.rs` |
//! | bucket heads | `bucket_head.rs` |
//! | filter by the values of an exact field | `filter.rs` |
//! | batch lookups | `search.rs`, `compare.rs`, `compare_avx2.rs` |

mod blocks;
mod bucket_head;
mod classifier;
mod compare;
#[cfg(target_arch = "x86_64")]
mod compare_avx2;
mod filter;
mod maintenance;
mod mask_planner;
mod records;
mod rule;
mod search;
#[cfg(test)]
mod tests;

use super::LookupKeyField;
pub(super) use bucket_head::hash_factor;
use classifier::{Classifier, ROOT_NODE};
use filter::ExactFieldFilter;
use rule::RuleLayout;
use smallvec::SmallVec;

/// Keys that are looked up together after filtering.
const FILTER_CHUNK_KEYS: usize = 64;
/// Keys of a batch that decide whether the filter is used.
const FILTER_SAMPLE_KEYS: usize = 8;

/// Table of entries with priorities.
///
/// Of the matching entries the one with the highest priority wins; of equal ones the one with the
/// largest sum of LPM prefix lengths; then the one with the smallest sequence number.
///
/// A change takes microseconds, because it touches one bucket and does a bounded piece of the
/// pending reorganisation. One writer; lookups need external synchronisation with the writer.
#[derive(Clone)]
pub struct TernaryTable {
    classifier: Classifier,
    kernel: search::SearchKernel,
    filter: Option<ExactFieldFilter>,
    /// Scratch memory for encoding a rule.
    scratch_rule: Vec<u64>,
}

impl TernaryTable {
    /// Creates an empty table. `keys` gives the position of each field in the `words` words of a
    /// lookup key; values have at most `longest_value` bytes.
    ///
    /// # Panics
    /// If a field lies outside the words, or one wider than a word does not start at a word
    /// boundary.
    pub fn new(keys: &[LookupKeyField], words: usize, longest_value: usize) -> TernaryTable {
        let shape = RuleLayout::new(keys, words);
        let kernel = search::select_kernel(shape.key_words);
        let filter = ExactFieldFilter::new(keys);
        TernaryTable { classifier: Classifier::new(shape, longest_value), kernel, filter, scratch_rule: Vec::new() }
    }

    /// Inserts an entry. `key` is its packed key in the layout of [`entries::KeyLayout`]. Returns
    /// true if an entry with this key and priority existed; it then gets the new value and keeps
    /// its sequence number.
    ///
    /// # Panics
    /// If the key belongs to another table, or the value is longer than the maximum.
    pub fn insert(&mut self, key: &[u64], priority: i32, sequence: u64, value: &[u8]) -> bool {
        self.classifier.layout.encode_rule(key, priority, sequence, &mut self.scratch_rule);
        let found = self.classifier.find_rule(ROOT_NODE, &self.scratch_rule);
        if let Some(id) = found {
            self.classifier.records.set_value(id, value);
        } else {
            let id = self.classifier.records.insert_record(&self.scratch_rule, value);
            self.classifier.insert_below(ROOT_NODE, id);
            if let Some(filter) = &mut self.filter {
                filter.insert_rule(&self.scratch_rule);
            }
        }
        self.classifier.maintain();
        found.is_some()
    }

    /// Removes the entry with this key and priority. Returns false if there is none.
    ///
    /// # Panics
    /// If the key belongs to another table.
    pub fn remove(&mut self, key: &[u64], priority: i32) -> bool {
        self.classifier.layout.encode_rule(key, priority, 0, &mut self.scratch_rule);
        let found = self.classifier.remove_below(ROOT_NODE, &self.scratch_rule);
        if let Some(id) = found {
            self.classifier.records.remove_record(id);
            if let Some(filter) = &mut self.filter {
                filter.remove_rule(&self.scratch_rule);
            }
        }
        self.classifier.maintain();
        found.is_some()
    }

    /// Does a bounded piece of the pending reorganisation, of some microseconds. Returns false if
    /// none is pending. Calling it is optional because changes do the same; after a bulk load it
    /// brings lookups to full speed.
    pub fn maintain(&mut self) -> bool {
        self.classifier.maintain()
    }

    /// Returns whether no reorganisation is pending.
    pub fn is_maintained(&self) -> bool {
        self.classifier.plan_queue.is_empty()
    }

    /// Returns the address of the value of the winning entry, or null. At least 8 bytes may be
    /// read, or 16 if the table has longer values. Valid until the next change.
    ///
    /// # Panics
    /// If the key has too few words.
    pub fn lookup(&self, key: &[u64]) -> *const u8 {
        let mut out = [std::ptr::null()];
        self.lookup_batch(&key[..self.classifier.layout.key_words], &mut out);
        out[0]
    }

    /// Looks up consecutive keys, one for each element of `out`.
    ///
    /// # Panics
    /// If `keys` has another length.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        let words = self.classifier.layout.key_words;
        assert_eq!(keys.len(), out.len() * words, "one key per result");
        // If the first keys all pass the filter, most others pass too, and filtering would only add
        // cost.
        match &self.filter {
            Some(filter) if keys.chunks_exact(words).take(FILTER_SAMPLE_KEYS).any(|key| !filter.may_match(key)) => {
                self.lookup_filtered(filter, keys, out);
            }
            _ => self.lookup_all(keys, out),
        }
    }

    #[allow(unsafe_code)]
    fn lookup_all(&self, keys: &[u64], out: &mut [*const u8]) {
        assert_eq!(keys.len(), out.len() * self.classifier.layout.key_words, "one key per result");
        // SAFETY: the kernel was chosen for this processor and number of words, and there is a
        // result per key.
        unsafe { (self.kernel)(&self.classifier, keys, out) }
    }

    /// Looks up the keys that pass the filter, in groups of [`FILTER_CHUNK_KEYS`], because each
    /// search has a fixed cost.
    fn lookup_filtered(&self, filter: &ExactFieldFilter, keys: &[u64], out: &mut [*const u8]) {
        let words = self.classifier.layout.key_words;
        let mut positions: SmallVec<[usize; FILTER_CHUNK_KEYS]> = SmallVec::new();
        let mut kept_keys: SmallVec<[u64; 8 * FILTER_CHUNK_KEYS]> = SmallVec::new();
        out.fill(std::ptr::null());
        let last = out.len() - 1;
        for (position, key) in keys.chunks_exact(words).enumerate() {
            if filter.may_match(key) {
                positions.push(position);
                kept_keys.extend_from_slice(key);
            }
            if positions.len() == FILTER_CHUNK_KEYS || position == last {
                let mut found = [std::ptr::null(); FILTER_CHUNK_KEYS];
                self.lookup_all(&kept_keys, &mut found[..positions.len()]);
                for (position, found) in positions.drain(..).zip(found) {
                    out[position] = found;
                }
                kept_keys.clear();
            }
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.classifier.records.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<TernaryTable>()
            + self.classifier.memory_bytes()
            + self.filter.as_ref().map_or(0, ExactFieldFilter::memory_bytes)
    }
}

impl std::fmt::Debug for TernaryTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TernaryTable").field("entries", &self.len()).field("bytes", &self.memory_bytes()).finish()
    }
}
