//! Growing: by one bucket at a time, whenever entries are too many for those there are. So no insertion takes long, and memory
//! follows the entries closely.

use super::ExactTable;
use super::bucket::Slot;
use super::split::{Split, Step};

/// The most buckets that are added with one entry: after `reserve` there may be more to add than the entry needs.
const STEPS: usize = 4;
/// Entries of the stash that are tried again when the table has grown.
const STASH_TRIES: usize = 8;

impl ExactTable {
    /// Makes room for so many more entries: in an empty table at once, otherwise little by little with each new entry. They take less
    /// time to insert then.
    pub fn reserve(&mut self, additional: usize) {
        let buckets = self.buckets.geometry.buckets_for(self.len.saturating_add(additional));
        if self.len == 0 && buckets > self.split.buckets() {
            self.start(buckets);
        }
        self.wanted = buckets;
    }

    /// What growing does on behalf of one new entry.
    pub(super) fn grow_a_little(&mut self) {
        if self.split.buckets() == 0 {
            self.start(Split::GROUP);
        }
        for _ in 0..STEPS {
            let buckets = self.split.buckets();
            if self.len < self.buckets.geometry.limit(buckets) && buckets >= self.wanted {
                return;
            }
            self.add_bucket();
        }
    }

    /// All entries must be gone.
    fn start(&mut self, buckets: usize) {
        self.split = Split::new(buckets);
        self.buckets.grow(self.split.buckets());
    }

    /// Adds a bucket, and moves to it what belongs there.
    fn add_bucket(&mut self) {
        let step = self.split.step();
        self.buckets.grow(self.split.buckets());
        self.move_to_last(step);
        // What the next step will read, which will come soon.
        self.split.next_step().buckets().for_each(|bucket| self.prefetch_bucket(bucket));
        if !self.stash.is_empty() {
            self.empty_stash();
        }
    }

    /// Moves what belongs in the last bucket. What finds no room there, as entries that had to leave it before may have come to it as
    /// their second, goes elsewhere.
    fn move_to_last(&mut self, step: Step) {
        let last = self.split.buckets() - 1;
        for bucket in step.buckets() {
            for from in self.buckets.full_slots(bucket) {
                let hash = self.buckets.hash(from, &self.seeds);
                if self.split.first(hash) == bucket || self.split.second(hash) == bucket {
                    continue;
                }
                match self.buckets.free_slot(last) {
                    Some(to) => self.buckets.shift(from, to),
                    None => {
                        self.moving.grow(1);
                        self.buckets.copy_bucket(bucket, &mut self.moving, 0);
                        self.buckets.clear(from);
                        self.place_moved(Slot { bucket: 0, slot: from.slot }, hash);
                    }
                }
            }
        }
    }

    /// Finds a place for an entry that has been taken out.
    fn place_moved(&mut self, from: Slot, hash: u64) {
        match self.place(hash) {
            Some(to) => self.buckets.copy_entry((&self.moving, from), to),
            None => {
                let key: Vec<u64> = self.moving.key(from).collect();
                let value = self.moving.value(from);
                let cell = self.spilled(value);
                let value = cell.map_or(&value[..self.buckets.geometry.inline], |cell| self.spill.value(cell)).to_vec();
                cell.into_iter().for_each(|cell| self.spill.remove(cell));
                self.stash_value(&key, &value);
            }
        }
    }

    /// Tries again to find places for entries of the stash.
    fn empty_stash(&mut self) {
        let keys: Vec<Box<[u64]>> = self.stash.keys().take(STASH_TRIES).cloned().collect();
        for key in keys {
            let Some((key, value)) = self.stash.remove_entry(&key) else { continue };
            let value = &value[..value.len().min(self.longest)];
            self.add(self.hash(&key), &key, value);
        }
    }
}
