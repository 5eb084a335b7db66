//! Members: the users of a table, and how they forget records.
#![allow(unsafe_code)]

use crate::inner::Inner;
use crate::local::Local;
use crate::{EntryRef, RecordId, RecordLayout, life};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// One user of a table: a worker, the sweeper, a controller. Members work at the same time.
///
/// Records that an operation returns are good until this member's next [`Member::begin_batch`]
/// or [`Member::park`]: until then no other entry uses them, even if the entry is removed. A
/// member that neither begins batches nor parks keeps removed records from being used again.
pub struct Member {
    pub(crate) table: Arc<Inner>,
    pub(crate) local: Local,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.park();
        self.table.index.give_back_overflow(self.local.spare.drain(..));
        self.table.joined.lock()[self.local.number] = false;
    }
}

impl Member {
    pub(crate) fn new(table: Arc<Inner>, number: usize) -> Member {
        let local = Local::new(&table, number);
        Member { table, local }
    }

    /// Begins a batch at tick `now`: all records of earlier batches are forgotten.
    #[inline]
    pub fn begin_batch(&mut self, now: u32) {
        self.local.begin_batch(&self.table, now);
    }

    /// Sets the tick of the following operations of this batch.
    #[inline]
    pub fn set_tick(&mut self, now: u32) {
        self.local.now = self.table.latest_tick(now);
    }

    /// Forgets all records, until another batch begins. The member keeps its free records.
    #[inline]
    pub fn end_batch(&mut self) {
        self.local.end_batch(&self.table);
    }

    /// Takes the leases of entries that this member has removed since the last call. The caller
    /// releases what they stand for.
    pub fn take_released(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.local.released)
    }

    /// Forgets all records and gives back free ones, for a member that sleeps. Operations need
    /// another batch.
    pub fn park(&mut self) {
        self.local.park(&self.table);
    }

    /// Returns the tick of the batch.
    pub fn now(&self) -> u32 {
        self.local.now
    }

    /// Returns the member's number, from 0 on.
    pub fn number(&self) -> usize {
        self.local.number
    }

    /// Returns a record's entry, if it is live.
    pub fn entry(&self, id: RecordId) -> Option<EntryRef<'_>> {
        self.local.assert_in_batch();
        if id.0 == 0 || id.0 > self.table.records.capacity {
            return None;
        }
        let word = self.table.records.life(id.0).load(Acquire);
        // SAFETY: the entry is live during this batch, so its record is not written before the
        // next.
        life::is_live(word).then(|| unsafe { self.table.entry(id.0, word, self.local.now) })
    }

    /// Returns the address of a record's value, whose first byte is the action. The value stays
    /// as it is until this member's next batch, if this batch has found the record.
    #[inline(always)]
    pub fn value_ptr(&self, id: RecordId) -> *const u8 {
        self.table.records.address(id.0).wrapping_add(self.table.records.layout.value)
    }

    /// Returns a record's generation.
    pub fn generation(&self, id: RecordId) -> u32 {
        self.table.records.generation(id.0).load(Relaxed)
    }

    /// Returns an entry's word of state, 0 at first; `None` if the table has none.
    pub fn state(&self, id: RecordId) -> Option<&AtomicU32> {
        self.table.records.state(id.0)
    }

    /// Returns an entry's counters of packets and bytes; `None` if the table has none.
    pub fn counters(&self, id: RecordId) -> Option<[&AtomicU64; 2]> {
        self.table.records.counters(id.0)
    }

    /// Returns the positions of a record's parts.
    pub fn layout(&self) -> RecordLayout {
        self.table.records.layout
    }
}
