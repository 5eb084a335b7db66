//! Which entries are hot: those that packets hit most, in whichever half.

use super::control::{Tiers, sum};
use interp::IdleEntry;
use ir::TableId;
use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use tables::{CounterData, Entry, EntryId, State, Update, WriteBatch};

/// A choice may take so much of the time at most: one part in so many.
const SHARE: u32 = 20;

/// When entries are chosen, and what was counted then.
pub struct Chooser {
    every: Duration,
    next: u64,
    /// Hits of each entry of each hot table, by the number that an entry has of its own.
    before: HashMap<TableId, HashMap<u64, u64>>,
    /// Entries that came to the switch, and went from it, so far.
    pub came: u64,
    pub went: u64,
    /// Choices that the switch had no room for.
    pub refused: u64,
}

impl Chooser {
    pub fn new(every: Duration) -> Chooser {
        Chooser { every, next: 0, before: HashMap::new(), came: 0, went: 0, refused: 0 }
    }
}

impl Tiers {
    /// Chooses anew if it is time.
    pub(super) fn choose_if_due(&mut self, now: u64) {
        if now < self.chooser.next || self.above.is_none() {
            return;
        }
        let began = Instant::now();
        let tables: Vec<TableId> = self.share.hot().map(|(table, _)| table).collect();
        for table in tables {
            self.choose(table);
        }
        let pause = self.chooser.every.max(began.elapsed() * SHARE);
        self.chooser.next = now.saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Chooses a table's hot entries by the hits since the last time.
    fn choose(&mut self, table: TableId) {
        let state = self.with_whole(State::clone);
        let mut counts = HashMap::with_capacity(state.entry_count(table));
        for entry in state.entries(table) {
            counts.insert(entry.sequence(), self.hits(table, entry));
        }
        let before = self.chooser.before.insert(table, counts);
        let (now, before) = (&self.chooser.before[&table], before.unwrap_or_default());
        let since = |entry: &Entry| {
            let count = |counts: &HashMap<u64, u64>| counts.get(&entry.sequence()).copied().unwrap_or(0);
            count(now).saturating_sub(count(&before))
        };
        let (moves, batch) = self.share.choose(table, &state, since);
        if batch.updates.is_empty() {
            return;
        }
        let wiring = self.wiring.clone();
        let _gate = wiring.gate.write().unwrap_or_else(PoisonError::into_inner);
        let counted = |entry: &Entry| (entry.clone(), self.counted_above(table, entry));
        let mut counted: Vec<(Entry, CounterData)> = moves.out.iter().map(counted).collect();
        let Some(above) = &mut self.above else { return };
        self.chooser.came += moves.new.len() as u64;
        self.chooser.went += moves.out.len() as u64;
        if above.write(&batch).is_err() {
            self.chooser.refused += 1;
            let (gone, clear) = self.share.give_up(table, moves);
            counted = gone.iter().map(|entry| (entry.clone(), self.counted_above(table, entry))).collect();
            // It had these entries a moment ago.
            let _ = self.above.as_mut().map(|above| above.write(&clear));
        }
        counted.into_iter().for_each(|(entry, counted)| self.carry_down(table, &entry, counted));
    }

    /// How often packets have found an entry.
    fn hits(&self, table: TableId, entry: &Entry) -> u64 {
        let below = self.below.as_ref().and_then(|below| below.entry_counter(table, entry));
        let above = self.above_of(table, entry).and_then(|(above, entry)| above.entry_counter(table, &entry));
        below.into_iter().chain(above).reduce(sum).map_or(0, |both| both.packets)
    }

    /// What an entry has counted above.
    pub(super) fn counted_above(&self, table: TableId, entry: &Entry) -> CounterData {
        self.above_of(table, entry).and_then(|(above, entry)| above.entry_counter(table, &entry)).unwrap_or_default()
    }

    /// What an entry counted above, it has counted below, now that it is gone from there. No packet is in either half.
    pub(super) fn carry_down(&mut self, table: TableId, entry: &Entry, more: CounterData) {
        let Some(below) = self.below.as_mut().filter(|_| more.packets != 0) else { return };
        let Some(before) = below.entry_counter(table, entry) else { return };
        let whole = entry.to_table_entry(&self.pipeline, table);
        let id = EntryId { table, keys: whole.keys, priority: whole.priority };
        let update = Update::DirectCounter(id, sum(before, more));
        // The entry is there, and has a counter.
        let _ = below.write(&WriteBatch { updates: vec![update] });
    }

    /// Takes note of entries that were found idle, so that the halves agree.
    pub(super) fn idle(&mut self, now: u64) -> Vec<IdleEntry> {
        // Tables whose entries grow too old are below alone.
        let mut idle = std::mem::take(&mut self.late);
        for half in [&mut self.above, &mut self.below].into_iter().flatten() {
            idle.extend(half.advance_time(now));
        }
        idle
    }
}
