//! Selection of hot entries: those with most hits in both halves.

use super::control::TiersEngine;
use super::reports::{MAX_REPORTED_ENTRIES, hit_rate_milli};
use entries::{ControlState, Counter, EntryId, StateUpdate, StoredEntry, WriteBatch};
use interp::IdleEntry;
use ir::TableId;
use offload::hot_set::{entry_fingerprint, entry_identity};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Minimum pause between selections, as a multiple of the duration of the last one; bounds the
/// share of time to 1/20.
const SELECTION_PAUSE_FACTOR: u32 = 20;

impl TiersEngine {
    /// Reselects the hot entries if it is time. If the switch is in another process, queues a hit
    /// report for it instead.
    pub(super) fn reselect_if_due(&mut self, now: u64) {
        if now < self.chooser.next_ns {
            return;
        }
        let began = Instant::now();
        let past = now.saturating_sub(std::mem::replace(&mut self.chooser.last_ns, now));
        let tables = self.filter.hot_sets().map(|(table, _)| table);
        let tables: Vec<TableId> = tables.filter(|table| !self.cached.contains(*table)).collect();
        match self.above {
            Some(_) => tables.into_iter().for_each(|table| self.reselect_hot_entries(table, now, past)),
            None => self.queue_hit_report(&tables, past),
        }
        let pause = self.chooser.interval.max(began.elapsed() * SELECTION_PAUSE_FACTOR);
        self.chooser.next_ns = now.saturating_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Queues a report for the switch in another process: hit rates of these tables' entries since
    /// the last report.
    fn queue_hit_report(&mut self, tables: &[TableId], past: u64) {
        if tables.is_empty() || self.wiring.up.is_empty() {
            return;
        }
        let state = self.with_full_state(ControlState::clone);
        let mut all = Vec::new();
        for table in tables {
            let since = self.hits_since(*table, &state);
            let found = state.entries(*table).map(|entry| (entry, since(entry))).filter(|(_, hits)| *hits > 0);
            let mut found: Vec<(&StoredEntry, u64)> = found.collect();
            if found.len() > MAX_REPORTED_ENTRIES {
                found.select_nth_unstable_by_key(MAX_REPORTED_ENTRIES, |(_, hits)| Reverse(*hits));
                found.truncate(MAX_REPORTED_ENTRIES);
            }
            let found = found.into_iter().map(|(entry, hits)| (entry_fingerprint(entry), hit_rate_milli(hits, past)));
            all.push((table.0, found.collect()));
        }
        self.wiring.outbox.queue_report(self.wiring.key, all);
    }

    /// Returns the hits of entries in this process since the last call.
    fn hits_since(&mut self, table: TableId, state: &ControlState) -> impl Fn(&StoredEntry) -> u64 + use<> {
        let now = Arc::new(self.hit_counts(table, state));
        let before = self.chooser.hits_before.insert(table, now.clone()).unwrap_or_default();
        move |entry| {
            let count = |counts: &HashMap<u64, u64>| counts.get(&entry.sequence()).copied().unwrap_or(0);
            count(&now).saturating_sub(count(&before))
        }
    }

    /// Reselects a table's hot entries by the hits in the last `interval_ns`, in this process
    /// and in lower tiers elsewhere. If the chip has no room for the selection, the table's hot set
    /// becomes empty.
    fn reselect_hot_entries(&mut self, table: TableId, now: u64, interval_ns: u64) {
        let state = self.with_full_state(ControlState::clone);
        let own_hits = self.hits_since(table, &state);
        let reported_rates = self.wiring.reports.hit_rates(table.0, now);
        let weight = |entry: &StoredEntry| match reported_rates.is_empty() {
            true => own_hits(entry),
            false => {
                let reported = reported_rates.get(&entry_fingerprint(entry)).copied().unwrap_or(0);
                hit_rate_milli(own_hits(entry), interval_ns).saturating_add(reported)
            }
        };
        let (moves, batch) = self.filter.reselect_hot(table, &state, weight);
        if batch.updates.is_empty() {
            return;
        }
        let wiring = self.wiring.clone();
        let _gate = wiring.write_gate.write();
        let with_count = |entry: &StoredEntry| (entry.clone(), self.counted_above(table, entry));
        let mut counts: Vec<(StoredEntry, Counter)> = moves.removed.iter().map(with_count).collect();
        let Some(above) = &mut self.above else { return };
        self.chooser.added += moves.added.len() as u64;
        self.chooser.removed += moves.removed.len() as u64;
        if above.write(&batch).is_err() {
            self.chooser.refused += 1;
            let (dropped, clear_batch) = self.filter.drop_hot_set(table, moves);
            counts = dropped.iter().map(|entry| (entry.clone(), self.counted_above(table, entry))).collect();
            // The upper tier held these entries before, so the write succeeds.
            let _ = self.above.as_mut().map(|above| above.write(&clear_batch));
        }
        counts.into_iter().for_each(|(entry, count)| self.carry_count_down(table, &entry, count));
    }

    /// Returns the hits of each entry, by its sequence number.
    fn hit_counts(&self, table: TableId, state: &ControlState) -> HashMap<u64, u64> {
        let mut hits: HashMap<u64, u64> = HashMap::new();
        if let Some(below) = &self.below {
            let count = |entry: &StoredEntry| below.entry_counter(table, entry).unwrap_or_default().packets;
            hits.extend(state.entries(table).map(|entry| (entry.sequence(), count(entry))));
        }
        // The upper half holds few entries.
        for entry in self.filter.hot_sets().filter(|(of, _)| *of == table).flat_map(|(_, hot)| hot.entries()) {
            let all = hits.entry(entry.sequence()).or_default();
            *all = all.wrapping_add(self.counted_above(table, entry).packets);
        }
        hits
    }

    /// Returns the count of an entry in the upper half.
    pub(super) fn counted_above(&self, table: TableId, entry: &StoredEntry) -> Counter {
        self.entry_above(table, entry).and_then(|(above, entry)| above.entry_counter(table, &entry)).unwrap_or_default()
    }

    /// Adds the count of an entry that left the upper half to the lower half. No packet is in
    /// either half.
    pub(super) fn carry_count_down(&mut self, table: TableId, entry: &StoredEntry, more: Counter) {
        if more.packets == 0 {
            return;
        }
        let Some(below) = &self.below else {
            let so_far = self.carried_counts.entry((table, entry_identity(entry))).or_default();
            *so_far += more;
            return;
        };
        let Some(before) = below.entry_counter(table, entry) else { return };
        let id = below.with_state(|state| EntryId::from_stored(state.layout(table), table, entry));
        let Some(below) = &mut self.below else { return };
        let update = StateUpdate::DirectCounter(id, before.plus(more));
        // The entry exists and has a counter.
        let _ = below.write(&WriteBatch { updates: vec![update] });
    }

    /// Collects idle entries of both halves.
    pub(super) fn collect_idle(&mut self, now: u64) -> Vec<IdleEntry> {
        // Tables with idle timeout are only in the lower half.
        let mut idle = std::mem::take(&mut self.pending_idle);
        for half in [&mut self.above, &mut self.below].into_iter().flatten() {
            idle.extend(half.advance_time(now));
        }
        idle
    }
}
