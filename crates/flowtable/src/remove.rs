//! Removals and changes of entries.
#![allow(unsafe_code)]

use crate::free_records::Replaced;
use crate::index::LineBucket;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::protocol::change::clear_and_pull_back;
use crate::protocol::memory::{Bucket, tag_of};
use crate::protocol::search::{Locked, find, lock, search};
use crate::stream::ChangeKind;
use crate::{RecordId, Refusal, life};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl Member {
    /// Removes an entry by its key. Returns the record that it had, or [`RecordId::NONE`].
    pub fn remove(&mut self, key: &[u8]) -> RecordId {
        self.local.assert_in_batch();
        if key.len() != self.table.shape.key_bytes {
            return RecordId::NONE;
        }
        RecordId(self.local.remove_if(&self.table, key, ChangeKind::Removed, kill).unwrap_or(0))
    }

    /// Removes an entry by its key as one whose idle time is over, for a caller that keeps the idle
    /// times itself. Returns the record that it had, or [`RecordId::NONE`].
    pub fn expire(&mut self, key: &[u8]) -> RecordId {
        self.local.assert_in_batch();
        if key.len() != self.table.shape.key_bytes {
            return RecordId::NONE;
        }
        RecordId(self.local.remove_if(&self.table, key, ChangeKind::Expired, kill).unwrap_or(0))
    }

    /// Removes an entry by the twin's key.
    pub fn remove_twin(&mut self, twin_key: &[u8]) -> RecordId {
        self.local.assert_in_batch();
        if self.table.indexes.len() < 2 || twin_key.len() != self.table.shape.twin_key_bytes {
            return RecordId::NONE;
        }
        let index = &self.table.indexes[1];
        let is_live = |record| life::is_live(self.table.records.life(record).load(Acquire));
        let record = find(index, index.hash(twin_key), twin_key, is_live);
        record.map_or(RecordId::NONE, |record| self.remove_record(RecordId(record)))
    }

    /// Removes the entry of a record that this batch has found, if it is still in the table.
    pub fn remove_record(&mut self, id: RecordId) -> RecordId {
        self.local.assert_in_batch();
        if id.0 == 0 || id.0 > self.table.records.capacity {
            return RecordId::NONE;
        }
        RecordId(self.local.remove_record_if(&self.table, id.0, ChangeKind::Removed, kill).unwrap_or(0))
    }

    /// Replaces value and profile of an entry as one step and restarts its idle time. The entry
    /// gets another record; its owner, state and counters go on. Packets that found the old
    /// record in their batch finish with the old value. What they count is added to the new
    /// record after a grace period; a state that they write after the change is lost.
    ///
    /// Returns the new record, or [`RecordId::NONE`] if there is no entry.
    pub fn modify(&mut self, key: &[u8], value: &[u8], profile: u8) -> Result<RecordId, Refusal> {
        self.local.assert_in_batch();
        if key.len() != self.table.shape.key_bytes || value.len() != self.table.shape.value_bytes {
            return Err(self.table.counters.count_refusal(Refusal::Malformed));
        }
        let result = self.local.modify(&self.table, key, value, profile);
        result.map(RecordId).map_err(|refusal| self.table.counters.count_refusal(refusal))
    }
}

/// Makes an entry dead whose bucket is locked.
fn kill(table: &Inner, record: u32) -> bool {
    let dead = |word| life::is_live(word).then(|| life::dead(word));
    life::change(table.records.life(record), dead).is_some()
}

impl Local {
    /// Removes the entry of a key if `accept` makes its life word dead, with its bucket locked.
    /// Returns its record.
    pub fn remove_if(
        &mut self,
        table: &Inner,
        key: &[u8],
        kind: ChangeKind,
        accept: impl FnOnce(&Inner, u32) -> bool,
    ) -> Option<u32> {
        let index = &table.indexes[0];
        let hash = index.hash(key);
        let locked = lock(index, hash, u32::MAX)?;
        let found = search(index, locked.bucket, tag_of(hash), key);
        let removed = found.filter(|found| accept(table, found.record)).map(|found| {
            let record = found.record;
            let twin = lock_twin(table, record);
            clear_and_pull_back(index, locked.bucket, &found, &mut self.retired.overflow[0]);
            if let Some((twin, hash)) = twin {
                self.clear_twin(table, twin, hash, record);
            }
            self.release(table, record, kind);
            record
        });
        locked.unlock(index);
        removed
    }

    /// Removes the entry of a record that was one during this batch, as [`Local::remove_if`].
    pub fn remove_record_if(
        &mut self,
        table: &Inner,
        record: u32,
        kind: ChangeKind,
        accept: impl FnOnce(&Inner, u32) -> bool,
    ) -> Option<u32> {
        if !life::is_live(table.records.life(record).load(Acquire)) {
            return None;
        }
        // SAFETY: the entry is live during this batch: its record is not written before the next.
        let key = unsafe { table.records.key(record, 0) };
        self.remove_if(table, key, kind, |table, found| found == record && accept(table, found))
    }

    fn clear_twin(&mut self, table: &Inner, twin: Locked<'_, LineBucket>, hash: u64, record: u32) {
        let index = &table.indexes[1];
        // SAFETY: the record's bucket is locked, and it was an entry until now.
        let key = unsafe { table.records.key(record, 1) };
        if let Some(found) = search(index, twin.bucket, tag_of(hash), key) {
            clear_and_pull_back(index, twin.bucket, &found, &mut self.retired.overflow[1]);
        }
        twin.unlock(index);
    }

    /// Gives back all that a removed entry had. Its record waits for the end of all batches.
    fn release(&mut self, table: &Inner, record: u32, kind: ChangeKind) {
        self.note_change(table, record, kind);
        table.counters.count_removed(self.number, kind == ChangeKind::Expired);
        table.records.look(record).store(0, Release);
        // SAFETY: the record was an entry until now, and this member's batch goes on.
        table.owners.give(unsafe { table.records.owner(record) });
        table.credits.give(self.number);
        self.retired.records.push(record);
    }

    fn modify(&mut self, table: &Inner, key: &[u8], value: &[u8], profile: u8) -> Result<u32, Refusal> {
        let index = &table.indexes[0];
        let hash = index.hash(key);
        let Some(new) = self.allocate(table) else { return Err(Refusal::Grace) };
        let Some(locked) = lock(index, hash, u32::MAX) else { return Err(Refusal::Busy) };
        let Some(found) = search(index, locked.bucket, tag_of(hash), key) else {
            locked.unlock(index);
            self.give_back_record(new);
            return Ok(0);
        };
        let old = found.record;
        let twin = lock_twin(table, old);
        // SAFETY: the new record is free and this member's; the old one's bucket is locked.
        unsafe {
            let keys = [key, table.records.key(old, 1)];
            table.records.write(new, keys, value, table.records.owner(old));
        }
        if let Some(counted) = table.records.copy_state(old, new) {
            let generation = table.records.generation(new).load(Relaxed);
            self.retired.replaced.push(Replaced { old, new, generation, counted });
        }
        table.records.life(new).store(table.idle_times.live_word(self.now, profile), Release);
        table.schedule_look(new, self.now);
        if let Some((twin, hash)) = twin {
            let index = &table.indexes[1];
            // SAFETY: as above.
            let key = unsafe { table.records.key(old, 1) };
            if let Some(found) = search(index, twin.bucket, tag_of(hash), key) {
                found.bucket.record(found.slot).store(new, Release);
            }
            twin.unlock(index);
        }
        kill(table, old);
        found.bucket.record(found.slot).store(new, Release);
        table.records.look(old).store(0, Release);
        locked.unlock(index);
        self.note_change(table, new, ChangeKind::Modified);
        self.note_change(table, old, ChangeKind::Removed);
        self.retired.records.push(old);
        Ok(new)
    }
}

/// Locks the bucket of the twin's key of an entry, whose first key's bucket is locked. All that
/// lock two buckets lock them in this order.
fn lock_twin(table: &Inner, record: u32) -> Option<(Locked<'_, LineBucket>, u64)> {
    let index = table.indexes.get(1)?;
    // SAFETY: the record is an entry whose bucket is locked.
    let hash = index.hash(unsafe { table.records.key(record, 1) });
    lock(index, hash, u32::MAX).map(|locked| (locked, hash))
}
