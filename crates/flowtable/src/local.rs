//! What a member has of its own: time, free records, removed records.

use crate::free_records::{BAG, RetiredBag};
use crate::inner::Inner;
use crate::life;
use crate::stream::{ChangeKind, Item};
use std::sync::atomic::Ordering::Relaxed;

/// Batches between two attempts to free removed records.
const RECLAIM_BATCHES: u32 = 16;

/// State of one member. Its operations take the table that it is a member of.
pub(crate) struct Local {
    pub number: usize,
    pub now: u32,
    pub is_parked: bool,
    /// Whether this batch reports its changes.
    is_streaming: bool,
    batches: u32,
    /// Free records of this member.
    free: Vec<u32>,
    /// Removed records and overflow buckets without a stamp.
    pub retired: RetiredBag,
    /// Overflow buckets for additions.
    pub spare: Vec<u32>,
    /// Leases of entries that this member has removed.
    pub released: Vec<u32>,
    /// Value of an addition.
    pub scratch: Vec<u8>,
}

impl Local {
    pub fn new(table: &Inner, number: usize) -> Local {
        let scratch = vec![0; table.shape.value_bytes];
        let (free, retired, spare, released) = <_>::default();
        Local {
            number,
            now: 0,
            is_parked: true,
            is_streaming: false,
            batches: 0,
            free,
            retired,
            spare,
            released,
            scratch,
        }
    }

    pub fn begin_batch(&mut self, table: &Inner, now: u32) {
        self.is_parked = false;
        table.grace.begin_batch(self.number);
        self.now = table.latest_tick(now);
        self.is_streaming = table.stream.is_on.0.load(Relaxed);
        self.batches = self.batches.wrapping_add(1);
        let is_turn = self.batches.is_multiple_of(RECLAIM_BATCHES);
        if self.retired.len() >= BAG || is_turn {
            self.retire(table);
        }
        if is_turn {
            table.reclaim();
        }
    }

    pub fn end_batch(&mut self, table: &Inner) {
        self.is_parked = true;
        table.grace.park(self.number);
    }

    pub fn park(&mut self, table: &Inner) {
        self.retire(table);
        table.free.give(std::mem::take(&mut self.free));
        self.is_parked = true;
        table.grace.park(self.number);
        table.reclaim();
    }

    fn retire(&mut self, table: &Inner) {
        if self.retired.len() != 0 {
            table.free.retire(&table.grace, std::mem::take(&mut self.retired));
        }
    }

    /// # Panics
    /// Panics outside of a batch, because records could be written while the caller reads them.
    #[inline(always)]
    pub fn assert_in_batch(&self) {
        assert!(!self.is_parked, "an operation of a parked member: begin a batch first");
    }

    /// Tells the reader of changes, if there is one, that a record has changed.
    #[inline]
    pub fn note_change(&self, table: &Inner, record: u32, kind: ChangeKind) {
        if self.is_streaming {
            let generation = table.records.generation(record).load(Relaxed);
            table.stream.push(self.number, Item { record, generation, kind, tick: self.now });
        }
    }

    /// Returns a free record, or `None` if all wait for a grace period.
    pub fn allocate(&mut self, table: &Inner) -> Option<u32> {
        if self.free.is_empty() {
            self.free = table.free.take();
            if self.free.is_empty() {
                table.reclaim();
                self.free = table.free.take();
            }
        }
        // All lines that an addition writes should be here when the next lock is taken, because a
        // locked instruction waits for the stores before it.
        if let Some(later) = self.free.len().checked_sub(16) {
            table.records.prefetch_for_write(self.free[later]);
        }
        self.free.pop()
    }

    /// Takes back a record that was not used.
    pub fn give_back_record(&mut self, record: u32) {
        self.free.push(record);
    }

    /// Counts a hit for the record's idle time. Returns false if its entry has been removed.
    #[inline(always)]
    pub fn touch(&self, table: &Inner, record: u32, restarts: bool) -> bool {
        let word = table.records.life(record);
        life::ticks_since_due(word.load(Relaxed), self.now) < 0 || self.touch_due(table, record, restarts)
    }

    #[cold]
    pub fn touch_due(&self, table: &Inner, record: u32, restarts: bool) -> bool {
        let renewed = |profile| restarts.then(|| table.idle_times.live_word(self.now, profile));
        life::touch(table.records.life(record), self.now, renewed)
    }
}
