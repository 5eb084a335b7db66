//! The reader of a table's changes: a snapshot, then the changes since.
#![allow(unsafe_code)]

use crate::member::Member;
use crate::stream::{ChangeKind, Item, Rings};
use crate::{EntryRef, FlowTable, JoinError, RecordId, ShapeError};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A change of one record. For each record the reader reports changes in their order, so a copy
/// that maps record numbers to entries is right after each [`ChangeReader::poll`] that reports
/// [`PollReport::is_current`], if nothing changed since.
#[derive(Debug, Clone, Copy)]
pub struct Change<'r> {
    /// The record.
    pub record: RecordId,
    /// The generation that the change is about. Entries of the record with an older generation,
    /// or with this one if `entry` is `None`, are gone.
    pub generation: u32,
    /// Reason of the change.
    pub kind: ChangeKind,
    /// Tick of the change.
    pub tick: u32,
    /// The entry as it is now; `None` if it is gone.
    pub entry: Option<EntryRef<'r>>,
    /// The entry's word of state.
    pub state: Option<u32>,
}

/// Progress of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollReport {
    /// Whether the snapshot is complete.
    pub is_snapshot_complete: bool,
    /// Whether the snapshot is complete, and all changes were reported when the call ended.
    pub is_current: bool,
    /// Items that wait in the rings.
    pub lag: u64,
    /// Changes since the table was created that were not reported one by one, because a ring was
    /// full.
    pub coalesced: u64,
}

/// A table has no reader for this caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// There is a reader.
    #[error("the table's changes have a reader: drop it first")]
    HasReader,
    /// A reader is a member.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// No memory for the bits of records.
    #[error("no address space for the stream of changes")]
    Memory,
}

/// The reader of a table's changes. A table has one at a time.
pub struct ChangeReader {
    member: Member,
    phase: Phase,
}

enum Phase {
    /// Members whose batch began before the stamp do not report changes yet.
    Waiting(u64),
    /// The snapshot goes on at this record.
    Snapshot(u32),
    Streaming,
}

impl FlowTable {
    /// Subscribes to the table's changes. Each member has a ring of `ring_items`, rounded up to a
    /// power of two; the first reader of a table decides.
    pub fn subscribe(&self, ring_items: u32) -> Result<ChangeReader, SubscribeError> {
        let table = self.inner();
        let mut has_reader = table.stream.has_reader.lock();
        if *has_reader {
            return Err(SubscribeError::HasReader);
        }
        let member = self.join()?;
        let ring_items = ring_items.clamp(2, 1 << 24).next_power_of_two();
        let create = || Rings::new(table.shape.members, ring_items, table.records.capacity);
        let rings = table.stream.rings(create).map_err(|_: ShapeError| SubscribeError::Memory)?;
        rings.clear();
        table.stream.is_on.0.store(true, SeqCst);
        *has_reader = true;
        Ok(ChangeReader { member, phase: Phase::Waiting(table.grace.stamp()) })
    }
}

impl ChangeReader {
    /// Reports the snapshot and then changes: about `budget` records or items. Call it again with
    /// a later tick; between calls the reader holds no record.
    pub fn poll(&mut self, now: u32, budget: u32, mut visit: impl FnMut(Change<'_>)) -> PollReport {
        self.member.begin_batch(now);
        let table = self.member.table.clone();
        let Some(rings) = table.stream.opened() else { return PollReport::default() };
        if let Phase::Waiting(stamp) = self.phase
            && table.grace.has_passed(stamp)
        {
            self.phase = Phase::Snapshot(1);
        }
        let mut is_current = false;
        match self.phase {
            Phase::Waiting(_) => {}
            Phase::Snapshot(cursor) => self.snapshot(cursor, budget, &mut visit),
            Phase::Streaming => {
                is_current = rings.drain(budget, |item| self.report(item, &mut visit));
                if is_current {
                    rings.drain_dirty(|record| self.report_present(record, &mut visit));
                }
            }
        }
        self.member.park();
        PollReport {
            is_snapshot_complete: matches!(self.phase, Phase::Streaming),
            is_current,
            lag: rings.len(),
            coalesced: rings.coalesced(),
        }
    }

    fn snapshot(&mut self, cursor: u32, budget: u32, visit: &mut impl FnMut(Change<'_>)) {
        let end = self.member.table.free.end();
        let stop = end.min(cursor.saturating_add(budget.max(1)));
        for record in (cursor..stop).map(RecordId) {
            if let Some(entry) = self.member.entry(record) {
                let generation = entry.generation;
                self.visit(
                    Item { record: record.0, generation, kind: ChangeKind::Added, tick: self.member.now() },
                    visit,
                );
            }
        }
        self.phase = if stop == end { Phase::Streaming } else { Phase::Snapshot(stop) };
    }

    fn report(&self, item: Item, visit: &mut impl FnMut(Change<'_>)) {
        self.visit(item, visit);
    }

    /// Reports the state of a record that a full ring has missed.
    fn report_present(&self, record: u32, visit: &mut impl FnMut(Change<'_>)) {
        let generation = self.member.generation(RecordId(record));
        let (kind, tick) = (ChangeKind::Coalesced, self.member.now());
        self.visit(Item { record, generation, kind, tick }, visit);
    }

    fn visit(&self, item: Item, visit: &mut impl FnMut(Change<'_>)) {
        let record = RecordId(item.record);
        // An entry of a later generation has an item of its own; of an earlier one, there is none.
        let entry = self.member.entry(record).filter(|entry| entry.generation == item.generation);
        let state = entry.and_then(|_| self.member.state(record)).map(|state| state.load(Relaxed));
        let Item { generation, kind, tick, .. } = item;
        visit(Change { record, generation, kind, tick, entry, state });
    }
}

impl Drop for ChangeReader {
    fn drop(&mut self) {
        self.member.table.stream.is_on.0.store(false, SeqCst);
        *self.member.table.stream.has_reader.lock() = false;
    }
}

impl Member {
    /// Tells the stream of changes that the state of a record, which this batch has found, has
    /// changed.
    pub fn report_update(&self, id: RecordId) {
        self.local.note_change(&self.table, id.0, ChangeKind::Updated);
    }
}
