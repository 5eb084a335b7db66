//! Time: idle times of entries, and the removal of entries whose idle timeout is over.

use super::flow_tables::HOST_ENTRIES;
use super::{EngineShared, Execution, Jit};
use entries::StoredEntry;
use interp::host::ExternHost;
use interp::{IdleEntry, MAX_WAITING};
use ir::TableId;
use parking_lot::MutexGuard;

impl Jit {
    /// Returns the nanoseconds since a packet hit an entry of the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        match &self.execution {
            Execution::Native { shared, .. } => {
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
            Execution::Native { shared, reader, .. } => {
                // A reader of this thread must not block the writer.
                reader.release();
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
        let mut live = self.live_with_added_entries();
        let written = &self.program.runtime.written;
        let (mut idle, mut others) = (Vec::new(), Vec::new());
        loop {
            // The host is free again after some entries, because workers may wait for it, and before
            // the removals are published, because the publication waits for workers.
            let max_idle = MAX_WAITING - idle.len();
            let expired = self.host_at_latest_time().take_expired(now, HOST_ENTRIES, max_idle);
            for (table, _, entry) in expired.deleted {
                if written.get(table).is_some() {
                    written.expire(table, &entry);
                    live.record_removed_entry(table, &entry);
                } else {
                    others.push((table, entry));
                }
            }
            idle.extend(expired.idle);
            if expired.count < HOST_ENTRIES {
                break;
            }
        }
        let mut group = live.begin_publish_group();
        for (table, entry) in others {
            group.remove_idle(table, &entry);
        }
        idle
    }
}
