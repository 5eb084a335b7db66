//! Incremental growth: the table grows by one bucket whenever its entries exceed the limit. No
//! insertion takes long, and memory is proportional to the number of entries.

use super::ExactTable;
use super::bucket::BucketSlot;
use super::linear_hashing::{BucketSplit, LinearHashing};

/// Maximum number of buckets added per insertion. After `reserve` more can be due than the entry
/// needs.
const MAX_BUCKETS_PER_INSERT: usize = 4;
/// Number of stashed entries that are retried when the table has grown.
const STASH_TRIES: usize = 8;

impl ExactTable {
    /// Reserves space for `additional` more entries, which makes their insertion faster. An empty
    /// table allocates it at once; otherwise the table grows faster with each new entry.
    pub fn reserve(&mut self, additional: usize) {
        let buckets = self.buckets.layout.buckets_for(self.len.saturating_add(additional));
        if self.len == 0 && buckets > self.hashing.bucket_count() {
            self.initialize_buckets(buckets);
        }
        self.reserve_target = buckets;
    }

    /// Adds the buckets that are due at one insertion.
    pub(super) fn grow_incrementally(&mut self) {
        if self.hashing.bucket_count() == 0 {
            self.initialize_buckets(LinearHashing::GROUP);
        }
        for _ in 0..MAX_BUCKETS_PER_INSERT {
            let buckets = self.hashing.bucket_count();
            if self.len < self.buckets.layout.max_entries(buckets) && buckets >= self.reserve_target {
                return;
            }
            self.add_bucket();
        }
    }

    /// Allocates the initial buckets. The table must be empty.
    fn initialize_buckets(&mut self, buckets: usize) {
        self.hashing = LinearHashing::new(buckets);
        self.buckets.grow_buckets(self.hashing.bucket_count());
    }

    /// Adds a bucket and moves its entries there.
    fn add_bucket(&mut self) {
        let step = self.hashing.add_bucket();
        self.buckets.grow_buckets(self.hashing.bucket_count());
        self.split_into_last_bucket(step);
        // Prefetch the buckets that the next split will read.
        self.hashing.next_split().source_buckets().for_each(|bucket| self.prefetch_bucket(bucket));
        if !self.stash.is_empty() {
            self.retry_stashed();
        }
    }

    /// Moves entries that belong in the last bucket. It can be full, because entries displaced
    /// before can have it as their second bucket; entries without space there are reinserted.
    fn split_into_last_bucket(&mut self, step: BucketSplit) {
        let last_bucket = self.hashing.bucket_count() - 1;
        for bucket in step.source_buckets() {
            for source in self.buckets.full_slots(bucket) {
                let hash = self.buckets.hash_key_in_slot(source, &self.seeds);
                if self.hashing.first_bucket(hash) == bucket || self.hashing.second_bucket(hash) == bucket {
                    continue;
                }
                match self.buckets.free_slot(last_bucket) {
                    Some(target) => self.buckets.move_entry(source, target),
                    None => {
                        self.split_scratch.grow_buckets(1);
                        self.buckets.copy_bucket(bucket, &mut self.split_scratch, 0);
                        self.buckets.clear_slot(source);
                        self.reinsert_moved(BucketSlot { bucket: 0, slot: source.slot }, hash);
                    }
                }
            }
        }
    }

    /// Inserts an entry that was removed from its bucket by a split.
    fn reinsert_moved(&mut self, from: BucketSlot, hash: u64) {
        match self.find_or_make_free_slot(hash) {
            Some(to) => self.buckets.copy_entry((&self.split_scratch, from), to),
            None => {
                let key: Vec<u64> = self.split_scratch.key_in_slot(from).collect();
                let value = self.split_scratch.value_bytes(from);
                let cell = self.overflow_cell(value);
                let value = cell
                    .map_or(&value[..self.buckets.layout.inline_bytes], |cell| self.overflow.cell_value(cell))
                    .to_vec();
                cell.into_iter().for_each(|cell| self.overflow.free_cell(cell));
                self.insert_into_stash(&key, &value);
            }
        }
    }

    /// Retries the insertion of stashed entries.
    fn retry_stashed(&mut self) {
        let keys: Vec<Box<[u64]>> = self.stash.keys().take(STASH_TRIES).cloned().collect();
        for key in keys {
            let Some((key, value)) = self.stash.remove_entry(&key) else { continue };
            let value = &value[..value.len().min(self.max_value_len)];
            self.insert_new(self.hash_key(&key), &key, value);
        }
    }
}
