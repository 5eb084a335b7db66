//! Removals and changes of entries.
#![allow(unsafe_code)]

use crate::free_records::Replaced;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::protocol::change::clear_and_pull_back;
use crate::protocol::memory::{Bucket, tag_of};
use crate::protocol::search::{lock, search};
use crate::stream::ChangeKind;
use crate::{EntryRef, RecordId, Refusal, life};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

impl Member {
    /// Removes an entry by its key, and its twin. Returns the record that it had, or
    /// [`RecordId::NONE`].
    pub fn remove(&mut self, key: &[u8]) -> RecordId {
        loop {
            let record = self.find(key);
            // Another record has the key by now if the entry was modified meanwhile.
            if !record.is_some() || self.remove_record(record).is_some() {
                return record;
            }
        }
    }

    /// Returns the record of a key without counting a hit.
    pub fn find(&self, key: &[u8]) -> RecordId {
        self.local.assert_in_batch();
        if key.len() != self.table.shape.key_bytes {
            return RecordId::NONE;
        }
        let index = &self.table.index;
        let is_live = |record| life::is_live(self.table.records.life(record).load(Acquire));
        RecordId(crate::protocol::search::find(index, index.hash(key), key, is_live).unwrap_or(0))
    }

    /// Removes the entry of a record that this batch has found, if it is still in the table, and
    /// its twin.
    pub fn remove_record(&mut self, id: RecordId) -> RecordId {
        self.remove_record_with(id, |_| {})
    }

    /// Does what [`Member::remove_record`] does, and shows each removed entry to `on_removed`.
    pub fn remove_record_with(&mut self, id: RecordId, mut on_removed: impl FnMut(EntryRef<'_>)) -> RecordId {
        self.local.assert_in_batch();
        let table = &*self.table;
        if id.0 == 0 || id.0 > table.records.capacity {
            return RecordId::NONE;
        }
        let word = table.records.life(id.0).load(Acquire);
        match self.local.remove_one(table, id.0, ChangeKind::Removed, kill) {
            None => RecordId::NONE,
            Some(record) => {
                on_removed(table.removed_entry(record, word, self.local.now));
                if let Some(twin) = self.local.remove_twin(table, record, ChangeKind::Removed) {
                    on_removed(table.removed_entry(twin, word, self.local.now));
                }
                RecordId(record)
            }
        }
    }

    /// Replaces the value of an entry as one step. With a profile, the entry and its twin get it, and
    /// their idle time restarts. The entry
    /// gets another record; its owner, state, twin, lease and counters go on. Packets that found
    /// the old record in their batch finish with the old value. What they count is added to the
    /// new record after a grace period; a state that they write after the change is lost.
    ///
    /// Returns the new record, or [`RecordId::NONE`] if there is no entry.
    pub fn modify(&mut self, key: &[u8], value: &[u8], profile: Option<u8>) -> Result<RecordId, Refusal> {
        self.local.assert_in_batch();
        if key.len() != self.table.shape.key_bytes || value.len() != self.table.shape.value_bytes {
            return Err(self.table.counters.count_refusal(Refusal::Malformed));
        }
        let result = self.local.modify(&self.table, key, value, profile);
        result.map(RecordId).map_err(|refusal| self.table.counters.count_refusal(refusal))
    }
}

/// Makes an entry dead whose bucket is locked.
pub(crate) fn kill(table: &Inner, record: u32) -> bool {
    let dead = |word| life::is_live(word).then(|| life::dead(word));
    life::change(table.records.life(record), dead).is_some()
}

impl Local {
    /// Removes the entry of a record that was one during this batch, without its twin, if `accept`
    /// makes its life word dead, with its bucket locked. Returns its record.
    pub fn remove_one(
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
        let key = unsafe { table.records.key(record) };
        let index = &table.index;
        let hash = index.hash(key);
        let locked = lock(index, hash, u32::MAX)?;
        let found = search(index, locked.bucket, tag_of(hash), key).filter(|found| found.record == record);
        let removed = found.filter(|_| accept(table, record)).map(|found| {
            clear_and_pull_back(index, locked.bucket, &found, &mut self.retired.overflow);
            self.release(table, record, kind);
            record
        });
        locked.unlock(index);
        removed
    }

    /// Removes the twin of an entry that this member has just removed. Returns its record.
    pub fn remove_twin(&mut self, table: &Inner, record: u32, kind: ChangeKind) -> Option<u32> {
        let twin = table.twin_of_killed(record)?;
        self.remove_one(table, twin, kind, kill)
    }

    /// Gives back all that a removed entry had. Its record waits for the end of all batches.
    fn release(&mut self, table: &Inner, record: u32, kind: ChangeKind) {
        self.note_change(table, record, kind);
        table.counters.count_removed(self.number, kind == ChangeKind::Expired);
        table.records.look(record).store(0, Release);
        // SAFETY: the record was an entry until now, and this member's batch goes on.
        table.owners.give(unsafe { table.records.owner(record) });
        table.credits.give(self.number);
        let lease = table.records.lease(record).map_or(0, |lease| lease.load(Acquire));
        if lease != 0 {
            self.released.push(lease);
        }
        self.retired.records.push(record);
    }

    fn modify(&mut self, table: &Inner, key: &[u8], value: &[u8], profile: Option<u8>) -> Result<u32, Refusal> {
        let index = &table.index;
        let hash = index.hash(key);
        let Some(new) = self.allocate(table) else { return Err(Refusal::Grace) };
        let Some(locked) = lock(index, hash, u32::MAX) else { return Err(Refusal::Busy) };
        let Some(found) = search(index, locked.bucket, tag_of(hash), key) else {
            locked.unlock(index);
            self.give_back_record(new);
            return Ok(0);
        };
        let old = found.record;
        // SAFETY: the new record is free and this member's; the old one's bucket is locked.
        unsafe { table.records.write(new, key, value, table.records.owner(old)) };
        if let Some(counted) = table.records.copy_state(old, new) {
            let generation = table.records.generation(new).load(Relaxed);
            self.retired.replaced.push(Replaced { old, new, generation, counted });
        }
        let before = table.records.life(old).load(Acquire);
        let life = profile.map_or(before & !life::DOUBT, |profile| table.idle_times.live_word(self.now, profile));
        table.records.life(new).store(life, Release);
        table.schedule_look(new, self.now);
        let twin = table.twin_of(old);
        kill(table, old);
        found.bucket.record(found.slot).store(new, Release);
        table.records.look(old).store(0, Release);
        locked.unlock(index);
        self.note_change(table, new, ChangeKind::Modified);
        self.note_change(table, old, ChangeKind::Removed);
        self.retired.records.push(old);
        if let Some(twin) = twin {
            self.rename_for_twin(table, twin, [old, new], profile);
        }
        Ok(new)
    }

    /// Lets the twin of an entry that got another record name that one, and have a new profile. If the twin has been removed
    /// meanwhile under the old name, the entry ends as well.
    fn rename_for_twin(&mut self, table: &Inner, twin: u32, [old, new]: [u32; 2], profile: Option<u8>) {
        let Some(word) = table.records.twin(twin) else { return };
        let renamed = word.compare_exchange(old, new, SeqCst, SeqCst).is_ok();
        fence(SeqCst);
        if renamed && !life::is_live(table.records.life(twin).load(Acquire)) {
            self.remove_one(table, new, ChangeKind::Removed, kill);
        }
        if let Some(profile) = profile {
            self.set_profile_of_one(table, twin, profile);
        }
        // The sweep knows the doubt of a pair by the old record.
        life::end_doubt(table.records.life(twin));
    }
}
