//! Index of a table's entries by key and priority, in shards shared with snapshots.
//!
//! A snapshot of millions of entries must be cheap, and so must the writes after it. A write copies
//! each shared shard that it changes, so shards are small. A table that outgrows one shard is split
//! into all shards at once.

use crate::prefetch::prefetch;
use crate::stored_entry::StoredEntry;
use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use std::hash::BuildHasher;
use triomphe::Arc;

/// Number of shards of a large table.
const SHARD_COUNT: usize = 1024;
/// Maximum number of entries of a table with a single shard.
const MAX_UNSHARDED_ENTRIES: usize = 8 * SHARD_COUNT;

#[derive(Clone, Debug)]
pub(crate) struct EntryIndex {
    /// One shard, or [`SHARD_COUNT`].
    shards: Vec<Arc<HashTable<StoredEntry>>>,
    entry_count: usize,
    hasher: DefaultHashBuilder,
}

/// Number of hash table slots that are mostly in one cache line.
const SLOTS_TO_PROBE: usize = 4;

/// Hash of an entry's key and priority.
#[derive(Clone, Copy)]
pub(crate) struct EntryHash {
    hash: u64,
}

fn hash_entry(hasher: &DefaultHashBuilder, entry: &StoredEntry) -> u64 {
    hasher.hash_one((entry.key(), entry.priority()))
}

fn has_identity(key: &[u64], priority: i32) -> impl Fn(&StoredEntry) -> bool + '_ {
    move |entry| entry.key() == key && entry.priority() == priority
}

impl EntryIndex {
    pub fn new() -> EntryIndex {
        EntryIndex { shards: vec![Arc::default()], entry_count: 0, hasher: DefaultHashBuilder::default() }
    }

    pub fn hash_key(&self, key: &[u64], priority: i32) -> EntryHash {
        EntryHash { hash: self.hasher.hash_one((key, priority)) }
    }

    fn shard_of(&self, key_hash: EntryHash) -> usize {
        // Hash tables use the lowest bits for the slot and the highest ones as a tag.
        (key_hash.hash >> 32) as usize & (self.shards.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.entry_count
    }

    /// Returns the memory of the index alone, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.allocation_size() + size_of::<HashTable<StoredEntry>>()).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = &StoredEntry> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    /// Returns the entries of a shard and the number of the next one.
    pub fn page(&self, shard: usize) -> (impl Iterator<Item = &StoredEntry>, Option<usize>) {
        let next = (shard + 1 < self.shards.len()).then_some(shard + 1);
        (self.shards.get(shard).into_iter().flat_map(|shard| shard.iter()), next)
    }

    pub fn get_entry(&self, key_hash: EntryHash, key: &[u64], priority: i32) -> Option<&StoredEntry> {
        self.shards[self.shard_of(key_hash)].find(key_hash.hash, has_identity(key, priority))
    }

    /// Prefetches the memory of an entry that exists or will be inserted.
    pub fn prefetch_entry(&self, key_hash: EntryHash) {
        let shard = &self.shards[self.shard_of(key_hash)];
        // Takes the first candidate without comparing keys, because a comparison would stall and
        // limit the number of prefetches in flight.
        match shard.find(key_hash.hash, |_| true) {
            Some(entry) => entry.prefetch(),
            None => self.prefetch_insert_slot(shard, key_hash),
        }
    }

    /// Prefetches the slot for an entry that does not exist. The hash table exposes addresses of
    /// occupied slots only, so an occupied slot at or right after the first probed slot is used.
    fn prefetch_insert_slot(&self, shard: &HashTable<StoredEntry>, key_hash: EntryHash) {
        let last = shard.num_buckets().wrapping_sub(1);
        let taken = (0..SLOTS_TO_PROBE).find_map(|at| shard.get_bucket((key_hash.hash as usize + at) & last));
        if let Some(taken) = taken {
            prefetch(std::ptr::from_ref(taken).cast(), 1);
        }
    }

    pub fn get_entry_mut(&mut self, key_hash: EntryHash, key: &[u64], priority: i32) -> Option<&mut StoredEntry> {
        let shard = self.shard_of(key_hash);
        Arc::make_mut(&mut self.shards[shard]).find_mut(key_hash.hash, has_identity(key, priority))
    }

    /// Inserts the entry that `create_entry` creates, if none has this key and priority. Returns
    /// whether it did.
    pub fn insert(
        &mut self,
        key_hash: EntryHash,
        key: &[u64],
        priority: i32,
        create_entry: impl FnOnce() -> StoredEntry,
    ) -> bool {
        // A small index has one shard; a large one is split, so that a write after a snapshot
        // copies little.
        if self.entry_count == MAX_UNSHARDED_ENTRIES && self.shards.len() == 1 {
            self.split_into_shards(0);
        }
        let shard = self.shard_of(key_hash);
        let hasher = &self.hasher;
        let shard = Arc::make_mut(&mut self.shards[shard]);
        match shard.entry(key_hash.hash, has_identity(key, priority), |entry| hash_entry(hasher, entry)) {
            hash_table::Entry::Occupied(_) => false,
            hash_table::Entry::Vacant(vacant) => {
                self.entry_count += 1;
                vacant.insert(create_entry());
                true
            }
        }
    }

    /// Removes the entry with this key and priority, if `check` allows it.
    pub fn remove_if<E>(
        &mut self,
        key_hash: EntryHash,
        key: &[u64],
        priority: i32,
        check: impl FnOnce(&StoredEntry) -> Result<(), E>,
    ) -> Result<Option<StoredEntry>, E> {
        let shard = self.shard_of(key_hash);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        let Ok(found) = shard.find_entry(key_hash.hash, has_identity(key, priority)) else { return Ok(None) };
        check(found.get())?;
        self.entry_count -= 1;
        Ok(Some(found.remove().0))
    }

    /// Reserves memory for `more` additional entries.
    pub fn reserve(&mut self, more: usize) {
        let wanted = self.entry_count + more;
        if wanted > MAX_UNSHARDED_ENTRIES && self.shards.len() == 1 {
            self.split_into_shards(wanted);
        }
        let hasher = &self.hasher;
        let count = self.shards.len();
        // Shards are not equally full: allows four standard deviations.
        let per_shard = wanted / count;
        let per_shard = if count == 1 { per_shard } else { per_shard + 4 * per_shard.isqrt() };
        for shard in &mut self.shards {
            let missing = per_shard.saturating_sub(shard.len());
            if shard.len() + missing > shard.capacity() {
                Arc::make_mut(shard).reserve(missing, |entry| hash_entry(hasher, entry));
            }
        }
    }

    /// Splits a single shard into many, for `wanted` entries.
    fn split_into_shards(&mut self, wanted: usize) {
        let per_shard = wanted / SHARD_COUNT;
        let mut tables: Vec<HashTable<StoredEntry>> =
            (0..SHARD_COUNT).map(|_| HashTable::with_capacity(per_shard)).collect();
        let hasher = &self.hasher;
        for entry in self.shards.iter().flat_map(|shard| shard.iter()) {
            let hash = hash_entry(hasher, entry);
            let table = &mut tables[(hash >> 32) as usize & (SHARD_COUNT - 1)];
            table.insert_unique(hash, entry.clone(), |entry| hash_entry(hasher, entry));
        }
        self.shards = tables.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::StoredActionRef;
    use crate::stored_entry::EntryFields;
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    fn entry(key: u64, sequence: u64) -> StoredEntry {
        StoredEntry::new(EntryFields {
            key: &[key],
            action: StoredActionRef::Member(1),
            priority: 0,
            is_const: false,
            sequence,
            idle_timeout_ns: 0,
            extras: None,
        })
    }

    fn all(index: &EntryIndex) -> BTreeMap<u64, u64> {
        index.iter().map(|entry| (entry.key()[0], entry.sequence())).collect()
    }

    #[test]
    fn a_snapshot_stays_as_it_was_at_every_size() {
        let (mut index, mut model) = (EntryIndex::new(), BTreeMap::new());
        let mut snapshots = Vec::new();
        let mut random = 1u64;
        for step in 0..60_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % 30_000;
            let key_hash = index.hash_key(&[key], 0);
            if random >> 62 == 0 {
                let removed = index.remove_if(key_hash, &[key], 0, |_| Ok::<(), Infallible>(()));
                assert_eq!(removed.ok().flatten().map(|e| e.sequence()), model.remove(&key));
            } else {
                let added = index.insert(key_hash, &[key], 0, || entry(key, step));
                assert_eq!(added, !model.contains_key(&key));
                model.entry(key).or_insert(step);
            }
            assert_eq!(index.get_entry(key_hash, &[key], 0).map(StoredEntry::sequence), model.get(&key).copied());
            assert_eq!(index.len(), model.len());
            if step % 10_000 == 9_999 {
                snapshots.push((index.clone(), model.clone()));
            }
        }
        index.reserve(100_000);
        assert_eq!(all(&index), model);
        assert!(index.shards.len() == SHARD_COUNT && snapshots[0].0.shards.len() == 1, "both forms were seen");
        for (snapshot, model) in &snapshots {
            assert_eq!(all(snapshot), *model);
        }
    }

    #[test]
    fn a_write_after_a_snapshot_copies_one_piece() {
        let mut index = EntryIndex::new();
        index.reserve(20_000);
        for key in 0..20_000 {
            let key_hash = index.hash_key(&[key], 0);
            index.insert(key_hash, &[key], 0, || entry(key, key));
        }
        let snapshot = index.clone();
        let key_hash = index.hash_key(&[5], 0);
        *index.get_entry_mut(key_hash, &[5], 0).expect("it is there") = entry(5, 77);
        let shared = index.shards.iter().zip(&snapshot.shards).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, SHARD_COUNT - 1);
        assert_eq!(snapshot.get_entry(key_hash, &[5], 0).map(StoredEntry::sequence), Some(5));
    }
}
