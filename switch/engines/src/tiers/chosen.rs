//! Which entries are hot: those that packets hit most, in whichever half.

use super::control::Tiers;
use super::reports::{MOST, rate};
use entries::{Counter, Entry, EntryId, State, Update, WriteBatch};
use interp::IdleEntry;
use ir::TableId;
use offload::hot::{fingerprint, id};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// A choice may take so much of the time at most: one part in so many.
const SHARE: u32 = 20;

impl Tiers {
    /// Chooses anew if it is time; where the switch is elsewhere, it is told what to choose by.
    pub(super) fn choose_if_due(&mut self, now: u64) {
        if now < self.chooser.next {
            return;
        }
        let began = Instant::now();
        let past = now.saturating_sub(std::mem::replace(&mut self.chooser.last, now));
        let tables: Vec<TableId> = self.share.hot().map(|(table, _)| table).collect();
        match self.above {
            Some(_) => tables.into_iter().for_each(|table| self.choose(table, now, past)),
            None => self.report(&tables, past),
        }
        let pause = self.chooser.every.max(began.elapsed() * SHARE);
        self.chooser.next = now.saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The switch in another process is told how often entries of these tables were found here since the last time.
    fn report(&mut self, tables: &[TableId], past: u64) {
        if tables.is_empty() || self.wiring.up.is_empty() {
            return;
        }
        let state = self.with_whole(State::clone);
        let mut all = Vec::new();
        for table in tables {
            let since = self.since(*table, &state);
            let found = state.entries(*table).map(|entry| (entry, since(entry))).filter(|(_, hits)| *hits > 0);
            let mut found: Vec<(&Entry, u64)> = found.collect();
            if found.len() > MOST {
                found.select_nth_unstable_by_key(MOST, |(_, hits)| Reverse(*hits));
                found.truncate(MOST);
            }
            let found = found.into_iter().map(|(entry, hits)| (fingerprint(entry), rate(hits, past)));
            all.push((table.0, found.collect()));
        }
        self.wiring.outbox.put(self.wiring.key, all);
    }

    /// How often entries were found since this was asked last, by this process's own counts.
    fn since(&mut self, table: TableId, state: &State) -> impl Fn(&Entry) -> u64 + use<> {
        let now = Arc::new(self.hits(table, state));
        let before = self.chooser.before.insert(table, now.clone()).unwrap_or_default();
        move |entry| {
            let count = |counts: &HashMap<u64, u64>| counts.get(&entry.sequence()).copied().unwrap_or(0);
            count(&now).saturating_sub(count(&before))
        }
    }

    /// Chooses a table's hot entries by the hits in the `past` nanoseconds, here and in the tiers below that are elsewhere.
    fn choose(&mut self, table: TableId, now: u64, past: u64) {
        let state = self.with_whole(State::clone);
        let since = self.since(table, &state);
        let elsewhere = self.wiring.reports.of(table.0, now);
        let weight = |entry: &Entry| match elsewhere.is_empty() {
            true => since(entry),
            false => {
                let there = elsewhere.get(&fingerprint(entry)).copied().unwrap_or(0);
                rate(since(entry), past).saturating_add(there)
            }
        };
        let (moves, batch) = self.share.choose(table, &state, weight);
        if batch.updates.is_empty() {
            return;
        }
        let wiring = self.wiring.clone();
        let _gate = wiring.gate.write();
        let counted = |entry: &Entry| (entry.clone(), self.counted_above(table, entry));
        let mut counted: Vec<(Entry, Counter)> = moves.out.iter().map(counted).collect();
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

    /// How often packets have found each entry, by its number.
    fn hits(&self, table: TableId, state: &State) -> HashMap<u64, u64> {
        let mut hits: HashMap<u64, u64> = HashMap::new();
        if let Some(below) = &self.below {
            let count = |entry: &Entry| below.entry_counter(table, entry).unwrap_or_default().packets;
            hits.extend(state.entries(table).map(|entry| (entry.sequence(), count(entry))));
        }
        // Few are above.
        for entry in self.share.hot().filter(|(of, _)| *of == table).flat_map(|(_, hot)| hot.entries()) {
            let all = hits.entry(entry.sequence()).or_default();
            *all = all.wrapping_add(self.counted_above(table, entry).packets);
        }
        hits
    }

    /// What an entry has counted above.
    pub(super) fn counted_above(&self, table: TableId, entry: &Entry) -> Counter {
        self.above_of(table, entry).and_then(|(above, entry)| above.entry_counter(table, &entry)).unwrap_or_default()
    }

    /// What an entry counted above, it has counted below, now that it is gone from there. No packet is in either half.
    pub(super) fn carry_down(&mut self, table: TableId, entry: &Entry, more: Counter) {
        if more.packets == 0 {
            return;
        }
        let Some(below) = &self.below else {
            let so_far = self.carried.entry((table, id(entry))).or_default();
            *so_far += more;
            return;
        };
        let Some(before) = below.entry_counter(table, entry) else { return };
        let id = below.with_state(|state| EntryId::of(state.layout(table), table, entry));
        let Some(below) = &mut self.below else { return };
        let update = Update::DirectCounter(id, before.plus(more));
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
