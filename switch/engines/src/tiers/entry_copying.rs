//! Entries that packets have added, in the upper half: which it has, and for how long
//! ([`offload::entry_leases`]).
//!
//! New entries get to the upper half within some milliseconds, if native code runs the lower half,
//! because it reports them. Others, and those that left the upper half because they were idle, are
//! found by a scan of entries with recent hits.

use super::control::TiersEngine;
use entries::{StateChange, StateUpdate, StoredEntry, WriteBatch};
use interp::EntryRuntimeState;
use ir::TableId;
use node::engine::EngineControl;
use offload::entry_leases::LeasedEntry;
use std::sync::atomic::Ordering::Relaxed;

/// Leases that one call ends or renews, because packets wait meanwhile. Others are late, by less than
/// an entry lives on.
const CHECKED_LEASES: u32 = 2048;

impl TiersEngine {
    /// Renews or ends leases that are over, and gives the upper half new entries. Called before the
    /// lower half ends idle entries.
    pub(super) fn refresh_cached_entries(&mut self, now: u64) {
        if self.cached.tables.is_empty() || self.above.is_none() || self.below.is_none() || !self.can_cache() {
            return;
        }
        let found = self.find_new_entries(now);
        self.set_lease_duration();
        let wiring = self.wiring.clone();
        if !found.is_empty() || self.cached.leases.is_due(now) {
            // No packet is in the upper half from the reading of a copy's hits to its removal, so no hit
            // is lost.
            let _gate = wiring.write_gate.write();
            let mut upper = WriteBatch::new();
            self.end_leases(now, &mut upper);
            found.into_iter().for_each(|entry| self.add_cached_entry(entry, now, &mut upper));
            let is_refused = |above: &mut Box<dyn EngineControl>| above.write(&upper).is_err();
            if !upper.updates.is_empty() && self.above.as_mut().is_some_and(is_refused) {
                self.clear_cached_entries();
            }
        }
        let deadline_ns = if self.ends_entries_here() { u64::MAX } else { self.cached.leases.deadline_ns() };
        wiring.lease_deadline_ns.store(deadline_ns, Relaxed);
    }

    /// Returns whether the upper half may have copies. Without flow tables, entries may end while this
    /// thread does not run, so packets must be able to pass the upper half by; then it must have no
    /// state of its own.
    fn can_cache(&self) -> bool {
        self.ends_entries_here() || self.objects_above.is_empty()
    }

    /// Returns whether entries of the lower half end only in `advance_time`.
    fn ends_entries_here(&self) -> bool {
        self.below.as_ref().is_some_and(|below| below.flow_tables().is_some())
    }

    /// Removes copies of entries that end with a write, though the write does not name them: twins of
    /// deleted entries, and all if a time after which entries end changes.
    pub(super) fn remove_copies_that_end(&mut self, batch: &WriteBatch, changes: &[StateChange]) {
        if self.cached.leases.is_empty() {
            return;
        }
        let mut upper = WriteBatch::new();
        if batch.updates.iter().any(|update| matches!(update, StateUpdate::ExpireTime(..))) {
            self.remove_all_copies(&mut upper);
        }
        for change in changes {
            let StateChange::Deleted(table, entry) = change else { continue };
            if !self.cached.contains(*table) {
                continue;
            }
            self.cached.leases.end(*table, entry);
            let session = self.below.as_ref().and_then(|below| below.entry_session(*table, entry));
            let Some(key) = session.and_then(|session| session.twin) else { continue };
            if let Some(twin) = self.with_full_state(|state| state.get_entry(*table, &key, 0).cloned()) {
                self.cached.leases.end(*table, &twin);
                if self.filter.remove_hot(*table, &twin, &mut upper) {
                    self.cached.count(*table, |counts| counts.removed += 1);
                }
            }
        }
        if !upper.updates.is_empty() {
            // It has them, so it removes them.
            let _ = self.above.as_mut().map(|above| above.write(&upper));
        }
    }

    /// Removes all copies.
    fn remove_all_copies(&mut self, upper: &mut WriteBatch) {
        while let Some(lease) = self.cached.leases.take_due(u64::MAX) {
            self.remove_cached_entry(&lease, upper);
        }
    }

    /// Sets the duration of leases by the times after which entries end.
    fn set_lease_duration(&mut self) {
        let times =
            self.with_written_state(|state| state.expire_times().values().copied().filter(|time| *time > 0).min());
        self.cached.leases.set_shortest_life(times);
    }

    fn end_leases(&mut self, now: u64, upper: &mut WriteBatch) {
        for _ in 0..CHECKED_LEASES {
            let Some(lease) = self.cached.leases.take_due(now) else { return };
            let hits = self.counted_above(lease.table, &lease.entry).packets;
            let below = self.below.as_ref();
            let level = below.and_then(|below| below.entry_level(lease.table, &lease.entry));
            match (below, level) {
                (Some(below), Some(level)) if hits != lease.hits => {
                    let restarted = EntryRuntimeState { idle_since_ns: now, ..level };
                    below.set_entry_level(lease.table, &lease.entry, restarted);
                    self.cached.count(lease.table, |counts| counts.renewed += 1);
                    self.cached.leases.begin(LeasedEntry { hits, ..lease }, now);
                }
                _ => self.remove_cached_entry(&lease, upper),
            }
        }
    }

    fn remove_cached_entry(&mut self, lease: &LeasedEntry, upper: &mut WriteBatch) {
        if self.filter.remove_hot(lease.table, &lease.entry, upper) {
            self.cached.count(lease.table, |counts| counts.removed += 1);
            if self.pipeline.tables[lease.table].direct_counter.is_some() {
                let count = self.counted_above(lease.table, &lease.entry);
                self.carry_count_down(lease.table, &lease.entry, count);
            }
        }
    }

    /// Returns entries of the lower half that were added, or hit, and are not above.
    fn find_new_entries(&mut self, now: u64) -> Vec<(TableId, StoredEntry)> {
        let mut found = Vec::new();
        let is_scan_due = now.saturating_sub(self.cached.last_scan_ns) >= self.cached.scan_interval_ns;
        let flow_tables = self.below.as_ref().and_then(|below| below.flow_tables());
        let mut is_scanning = false;
        for (id, table) in &mut self.cached.tables {
            let mut visit = |entry: StoredEntry| found.push((*id, entry));
            match &flow_tables {
                Some(flows) => {
                    table.poll(*id, flows, (is_scan_due, self.cached.scan_interval_ns), &mut visit);
                    is_scanning |= table.scan.is_some();
                }
                None if is_scan_due => {
                    let Some(below) = &self.below else { continue };
                    let recent = |entry: &&StoredEntry| {
                        below.entry_idle_for(*id, entry).is_some_and(|idle| idle < self.cached.scan_interval_ns)
                    };
                    let entries: Vec<StoredEntry> = below.with_state(|state| state.entries(*id).cloned().collect());
                    entries.iter().filter(recent).cloned().for_each(visit);
                }
                None => {}
            }
        }
        if is_scan_due && !is_scanning {
            self.cached.last_scan_ns = now;
        }
        found.retain(|(table, entry)| !self.cached.leases.contains(*table, entry));
        found
    }

    fn add_cached_entry(&mut self, (table, entry): (TableId, StoredEntry), now: u64, upper: &mut WriteBatch) {
        // It may have ended since, or be there twice.
        let Some(idle_ns) = self.below.as_ref().and_then(|below| below.entry_idle_for(table, &entry)) else { return };
        if self.cached.leases.contains(table, &entry) {
            return;
        }
        if self.filter.add_hot(table, &entry, upper) {
            self.cached.count(table, |counts| counts.added += 1);
            self.cached.leases.begin(LeasedEntry { table, entry, hits: 0 }, now.saturating_sub(idle_ns));
        } else {
            self.cached.count(table, |counts| counts.without_room += 1);
        }
    }

    /// Removes all copies after the upper half has refused some, because it has no room: new ones get
    /// there as they are hit.
    fn clear_cached_entries(&mut self) {
        let mut clear = WriteBatch::new();
        self.remove_all_copies(&mut clear);
        for update in clear.updates {
            // Entries that it refused are not there.
            let _ = self.above.as_mut().map(|above| above.write(&WriteBatch { updates: vec![update] }));
        }
        self.chooser.refused += 1;
    }

    /// Calls `f` with the state of the whole program, without the entries of packets.
    fn with_written_state<R>(&self, f: impl FnOnce(&entries::ControlState) -> R) -> R {
        match &self.below {
            Some(below) => below.with_written_state(f),
            None => self.with_full_state(f),
        }
    }
}
