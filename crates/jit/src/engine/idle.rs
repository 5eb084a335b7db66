//! Time: idle times of entries, and the removal of entries whose idle timeout is over.

use super::flow_tables::HOST_ENTRIES;
use super::{EngineShared, Execution, Jit};
use crate::packet_written::PacketWrittenTable;
use entries::StoredEntry;
use flowtable::Member;
use interp::host::ExternHost;
use interp::{IdleEntry, MAX_WAITING};
use ir::TableId;
use lookup::LiveTables;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

/// Records that a sweep examines at once, because it collects the entries that end.
const SWEPT_RECORDS: u32 = 1 << 16;

impl Jit {
    /// Returns the nanoseconds since a packet hit an entry of the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                if shared.program.runtime.written.get(table).is_some() {
                    return shared.idle_for_written(table, entry);
                }
                let entry_id = shared.entry_number(table, entry)?;
                shared.host_at_latest_time().idle_for(table, entry_id)
            }
            Execution::Interpreted { interp, .. } => interp.lock().entry_idle_for(table, entry),
        }
    }

    /// Advances the time to `now` (ns) and returns the entries with an expired idle timeout. Those
    /// of tables with automatic deletion are removed; workers see this from their next batch on.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        match &mut self.execution {
            Execution::Native { shared, reader, worker, .. } => {
                // A reader of this thread must not block the writer.
                reader.release();
                worker.park();
                shared.expire(now)
            }
            Execution::Interpreted { interp, .. } => interp.lock().advance_time(now),
        }
    }

    /// Takes the idle entries that [`packet::Engine::tick`] found. Under native code it finds none:
    /// [`Jit::advance_time`] returns them, because removing entries waits for workers.
    pub fn take_idle(&mut self) -> Vec<IdleEntry> {
        match &self.execution {
            Execution::Native { .. } => Vec::new(),
            Execution::Interpreted { interp, .. } => interp.lock().take_idle(),
        }
    }
}

impl EngineShared {
    /// Returns the time in nanoseconds since the idle time of an entry of a table began that packets
    /// write.
    pub(super) fn idle_for_written(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        let runtime = &self.program.runtime;
        let level = runtime.written.level(table, entry)?;
        Some(runtime.hit_times.now().saturating_sub(level.idle_since_ns))
    }

    /// Advances the time (ns) of packets and of the host. A time in the past has no effect.
    fn advance(&self, now: u64) {
        self.program.runtime.hit_times.advance(now);
        self.program.runtime.host.lock().advance(now);
    }

    /// Advances the time (ns) of packets, and that of the host if it is free: its next user advances
    /// it otherwise.
    pub(crate) fn advance_without_waiting(&self, now: u64) {
        self.program.runtime.hit_times.advance(now);
        if let Some(mut host) = self.program.runtime.host.try_lock() {
            host.advance(now);
        }
    }

    /// Returns the host with the time of the latest packet. Packets that call nothing of the host
    /// leave their time with the hit times only.
    pub(crate) fn host_at_latest_time(&self) -> MutexGuard<'_, ExternHost> {
        let mut host = self.program.runtime.host.lock();
        host.advance(self.program.runtime.hit_times.now());
        host
    }

    /// Returns the entries whose idle timeout is over at `now` (ns), and removes those of tables
    /// with automatic deletion.
    fn expire(&self, now: u64) -> Vec<IdleEntry> {
        self.advance(now);
        let mut live = self.live.lock();
        let mut idle = Vec::new();
        if !self.is_idle_held.load(Relaxed) {
            for table in self.pipeline.tables.keys() {
                self.expire_written(&mut live, table, &mut idle);
            }
        }
        self.program.runtime.written.leases.ports.end_rests(now);
        let mut removed = Vec::new();
        loop {
            // The host is free again after some entries, because workers may wait for it, and before
            // the removals are published, because the publication waits for workers.
            let max_idle = MAX_WAITING - idle.len();
            let expired = self.host_at_latest_time().take_expired(now, HOST_ENTRIES, max_idle);
            removed.extend(expired.deleted.into_iter().map(|(table, _, entry)| (table, entry)));
            idle.extend(expired.idle);
            if expired.count < HOST_ENTRIES {
                break;
            }
        }
        let mut group = live.begin_publish_group();
        for (table, entry) in removed {
            group.remove_idle(table, &entry);
        }
        idle
    }

    /// Ends the idle entries of a table that packets write. An entry that a packet under way may hit
    /// ends in a later call.
    fn expire_written(&self, live: &mut LiveTables, table: TableId, idle: &mut Vec<IdleEntry>) {
        let tables = &self.program.runtime.written;
        let Some(written) = tables.get(table) else { return };
        written.note_peak();
        written.populate_ahead();
        // A removal needs a batch of all workers after the sweep has found the entry: without packets
        // under way, entries end in the next turn.
        loop {
            let sweep = |written: &PacketWrittenTable, member: &mut Member| {
                let mut ended = Vec::new();
                let report =
                    member.sweep(SWEPT_RECORDS, |entry| ended.push((entry.id.0, written.stored_entry(&entry))));
                (ended, report)
            };
            let Some((ended, report)) = tables.with_control(table, sweep) else { return };
            for (record, entry) in ended {
                let entry = live.state().get_entry(table, entry.key(), 0).cloned().unwrap_or(entry);
                self.note_ended(
                    live,
                    written,
                    record,
                    IdleEntry { table, entry, deleted: !written.flows.shape().notify },
                    idle,
                );
            }
            if report.is_pass_complete && report.removed == 0 && report.doubted == 0 {
                return;
            }
        }
    }

    /// Tells the control plane that the idle time of an entry is over.
    fn note_ended(
        &self,
        live: &mut LiveTables,
        written: &PacketWrittenTable,
        record: u32,
        ended: IdleEntry,
        idle: &mut Vec<IdleEntry>,
    ) {
        let host = || self.program.runtime.host.lock();
        if ended.deleted {
            if written.has_host_state {
                host().entry_removed(ended.table, record);
            }
            live.record_removed_entry(ended.table, &ended.entry);
        }
        match idle.len() < MAX_WAITING {
            true => idle.push(ended),
            false => host().count_lost_message(),
        }
    }
}
