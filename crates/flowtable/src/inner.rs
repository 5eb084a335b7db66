//! The parts of a table that its members share.
#![allow(unsafe_code)]

use crate::credits::Credits;
use crate::free_records::{BAG, FreeRecords, Replaced};
use crate::idle_times::IdleTimes;
use crate::index::Index;
use crate::owners::Owners;
use crate::protocol::grace::{Grace, PARKED};
use crate::records::Records;
use crate::statistics::Counters;
use crate::stream::Stream;
use crate::sweep_state::SweepState;
use crate::word::Padded;
use crate::{EntryRef, RecordId, RecordLayout, Shape, ShapeError, life};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Bit of the latest tick: there was a sweep.
const TICK_IS_KNOWN: u64 = 1 << 32;

pub(crate) struct Inner {
    pub shape: Shape,
    pub records: Arc<Records>,
    pub index: Index,
    pub grace: Grace<AtomicU64>,
    pub credits: Credits,
    pub owners: Owners,
    pub free: FreeRecords,
    pub idle_times: IdleTimes,
    pub counters: Counters,
    pub sweep: Mutex<SweepState>,
    pub stream: Stream,
    latest_tick: Padded<AtomicU64>,
    /// Which member numbers are in use.
    pub joined: Mutex<Vec<bool>>,
}

impl Inner {
    pub fn new(shape: Shape, seed: u64) -> Result<Inner, ShapeError> {
        shape.check()?;
        let layout = RecordLayout::new(&shape);
        let capacity = shape.size + spare_records(&shape);
        let records = Arc::new(Records::new(&shape, layout, capacity)?);
        let index = Index::new(records.clone(), shape.size, seed)?;
        let credits = Credits::new(shape.size, shape.members);
        credits.start();
        Ok(Inner {
            records,
            index,
            grace: Grace::new(AtomicU64::new(1), (0..shape.members).map(|_| AtomicU64::new(PARKED))),
            credits,
            owners: Owners::new(shape.owners)?,
            free: FreeRecords::new(capacity),
            idle_times: IdleTimes::new(&shape),
            counters: Counters::new(shape.members),
            sweep: Mutex::default(),
            stream: Stream::default(),
            latest_tick: Padded::default(),
            joined: Mutex::new(vec![false; shape.members]),
            shape,
        })
    }

    /// Notes the tick of a sweep, before entries come into doubt by it.
    pub fn note_tick(&self, tick: u32) {
        self.latest_tick.0.store(TICK_IS_KNOWN | u64::from(tick), Release);
    }

    /// Returns the later of a tick and that of the last sweep. A member whose clock is late would
    /// else hit entries in doubt as if they were not due.
    #[inline]
    pub fn latest_tick(&self, tick: u32) -> u32 {
        let latest = self.latest_tick.0.load(Acquire);
        let is_late = latest & TICK_IS_KNOWN != 0 && (latest as u32).wrapping_sub(tick) as i32 > 0;
        if is_late { latest as u32 } else { tick }
    }

    /// Frees records and overflow buckets that all members have forgotten.
    pub fn reclaim(&self) {
        self.free.reclaim(&self.grace, |bag| {
            if !bag.overflow.is_empty() {
                self.index.give_back_overflow(bag.overflow.drain(..));
            }
            bag.replaced.iter().for_each(|replaced| self.carry_counters_over(replaced));
        });
    }

    /// Adds to a new record what its predecessor has counted since it was replaced.
    fn carry_counters_over(&self, replaced: &Replaced) {
        let (old, new) = (self.records.counters(replaced.old), self.records.counters(replaced.new));
        let (Some(old), Some(new)) = (old, new) else { return };
        if self.records.generation(replaced.new).load(Acquire) == replaced.generation {
            for ((old, new), counted) in old.into_iter().zip(new).zip(replaced.counted) {
                new.fetch_add(old.load(Relaxed).wrapping_sub(counted), Relaxed);
            }
        }
    }

    /// Returns a record as an entry with this life word.
    ///
    /// # Safety
    /// The record was an entry at one moment since the caller's member has begun its batch, which
    /// lasts as long as the result is used.
    pub unsafe fn entry(&self, record: u32, word: u32, now: u32) -> EntryRef<'_> {
        let (records, id) = (&self.records, RecordId(record));
        // SAFETY: the caller's duty.
        unsafe {
            EntryRef {
                id,
                generation: records.generation(record).load(Relaxed),
                key: records.key(record),
                value: records.bytes(record, records.layout.value, records.layout.value_bytes),
                profile: life::profile(word),
                owner: records.owner(record),
                twin: RecordId(records.twin(record).map_or(0, |twin| twin.load(Acquire))),
                lease: records.lease(record).map_or(0, |lease| lease.load(Relaxed)),
                idle_ticks: life::ticks_since_due(word, now),
                left_ticks: self.idle_times.left(word, now).map(|ticks| ticks.max(0) as u32),
            }
        }
    }

    /// Returns a record as an entry with this life word, for a caller that has removed it or found
    /// it live in its batch.
    pub fn removed_entry(&self, record: u32, word: u32, now: u32) -> EntryRef<'_> {
        // SAFETY: the caller has seen the record live, and its batch lasts until it returns.
        unsafe { self.entry(record, word, now) }
    }

    /// Writes when the sweep looks at a record, by its life word.
    pub fn schedule_look(&self, record: u32, now: u32) {
        let word = self.records.life(record).load(Relaxed);
        self.records.look(record).store(self.idle_times.look_code(word, now), Relaxed);
    }
}

/// Returns the number of records beyond `size`: those that members hold in advance, and those that
/// wait for a grace period.
fn spare_records(shape: &Shape) -> u32 {
    shape.members as u32 * 2 * BAG as u32 + 4096 + shape.size / 64
}
