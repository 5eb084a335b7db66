//! Idle times of entries, and their expiry.
//!
//! The host keeps the start of each idle time, and [`HitTimes`] the hits that workers recorded
//! since then. The later of both counts.

use crate::host::{ExternHost, HitTimes};
use crate::lookup::{EntryRuntimeState, EntrySlot};
use crate::persistent_state::{IdleEntry, MAX_WAITING};
use entries::{ControlState, StoredEntry};
use ir::{Entity, TableId};
use std::sync::Arc;

/// Result of [`ExternHost::expire`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expired {
    /// Notifications for the control plane, as from [`crate::Interp::advance_time`]; at most
    /// 65,536, further ones count as lost.
    pub idle: Vec<IdleEntry>,
    /// Number of expired entries.
    pub count: usize,
    /// Entries removed from the host, with their numbers. The engine removes them from its tables.
    pub deleted: Vec<(TableId, u32, StoredEntry)>,
}

impl ExternHost {
    /// Returns the record of hits, by which workers restart idle timers without the host.
    pub fn hit_times(&self) -> &Arc<HitTimes> {
        &self.hit_times
    }

    /// Returns the entries with an expired idle timeout at `now`. Those of tables with automatic
    /// deletion are removed from the host and from `state`.
    pub fn expire(&mut self, now: u64, state: &mut ControlState) -> Expired {
        let expired = self.take_expired(now, usize::MAX, MAX_WAITING);
        expired.deleted.iter().for_each(|(table, _, entry)| state.remove_idle(*table, entry));
        expired
    }

    /// Does what [`ExternHost::expire`] does for at most `limit` entries and without a state: the
    /// engine removes the deleted entries from its own. It returns at most `max_idle` notifications.
    pub fn take_expired(&mut self, now: u64, limit: usize, max_idle: usize) -> Expired {
        self.advance(now);
        let mut expired = Expired::default();
        let times = self.hit_times.clone();
        let last_hit_ns = |table: u32, number: u32| times.last_hit_ns(table as usize, number);
        while expired.count < limit
            && let Some((table, number, entry)) = self.memory.pop_idle_entry(now, last_hit_ns)
        {
            expired.count += 1;
            let (id, deleted) = (TableId(table), self.memory.tables[table as usize].auto_delete);
            if deleted {
                self.entry_removed(id, number);
                expired.deleted.push((id, number, entry.clone()));
            } else {
                self.memory.rearm_idle_timer(table, number, now);
            }
            self.memory.push_idle(&mut expired.idle, IdleEntry { table: id, entry, deleted }, max_idle);
        }
        expired
    }

    /// Executes PNA `restart_expire_timer` and, with `profile`, `set_entry_expire_time` on an entry
    /// that a packet of the time `now_ns` hit. Other than [`ExternHost::call`], it does not depend
    /// on the time of packets that have run since.
    pub fn restart_timer(&mut self, table: TableId, number: u32, now_ns: u64, profile: Option<u8>) {
        self.hit_times.record(table.index(), number, now_ns);
        let Some(profile) = profile else { return };
        self.memory.set_expire_profile(table.index(), number, profile, now_ns);
    }

    /// Returns the idle timeout in nanoseconds of an expire time profile, or of the table's default
    /// profile if that one has none; 0: entries never expire.
    pub fn expire_time(&self, table: TableId, profile: u8) -> u64 {
        self.memory.expire_time(table.index(), profile)
    }

    /// Returns the time in nanoseconds since the idle timer of an entry was started.
    pub fn idle_for(&self, table: TableId, number: u32) -> Option<u64> {
        let level = self.entry_level(table, number)?;
        Some(self.memory.now.saturating_sub(level.idle_since_ns))
    }

    /// Returns the dynamic state of an entry.
    pub fn entry_level(&self, table: TableId, number: u32) -> Option<EntryRuntimeState> {
        let level = self.slot(table, number).map(EntrySlot::runtime_state)?;
        let hit_ns = self.hit_times.last_hit_ns(table.index(), number);
        Some(EntryRuntimeState { idle_since_ns: level.idle_since_ns.max(hit_ns), ..level })
    }

    /// Sets the dynamic state of an entry.
    pub fn set_entry_level(&mut self, table: TableId, number: u32, level: EntryRuntimeState) {
        self.hit_times.reset(table.index(), number);
        self.memory.set_entry_level(table, number, level);
    }

    /// Suspends (`true`) or resumes the expiry of entries.
    pub fn hold_idle(&mut self, hold: bool) {
        self.memory.is_expiry_suspended = hold;
    }
}
