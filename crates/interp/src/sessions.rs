//! Sessions: entries that packets added as pairs, and entries that hold ports of a pool or a share of a
//! quota.
//!
//! The two entries of a pair ("twins") have one idle time, and end together. What a packet took belongs
//! to the entries that the packet adds afterwards; it is released with them, or at the end of the packet
//! if it adds none.

use crate::entry_quota::QuotaShare;
use crate::exec_context::ExecContext;
use crate::frame::Frame;
use crate::overseer::Overseer;
use crate::persistent_state::{ExternState, IdleEntry, PersistentState};
use crate::pool_control::PoolControl;
use crate::port_pool::{PortLease, PortUsage};
use crate::port_request::{PortPoolStatus, PortRequest};
use crate::program::DecodedCall;
use crate::wide_int;
use entries::{PackedKey, StoredAction, StoredEntry};
use ir::{Entity, ExternId, TableId};

/// What an entry shares with its twin, and its ports and shares.
#[derive(Clone, Debug, Default)]
pub struct SessionPart {
    /// Slot of the twin, in the same table.
    pub twin: Option<u32>,
    /// Ports that are released with the entry.
    pub leases: Vec<PortLease>,
    /// Shares of quotas that are given back with the entry.
    pub shares: Vec<QuotaShare>,
}

impl PersistentState {
    /// Makes two new entries of a table twins; the first gets what the packet has taken.
    pub fn begin_session(&mut self, table: usize, slot: u32, twin: Option<u32>) {
        let leases = std::mem::take(&mut self.taken_ports);
        let shares = std::mem::take(&mut self.taken_shares);
        let slots = &mut self.tables[table].slots;
        if twin.is_some() || !leases.is_empty() || !shares.is_empty() {
            slots[slot as usize].session = Some(Box::new(SessionPart { twin, leases, shares }));
        }
        if let Some(twin) = twin {
            slots[twin as usize].session = Some(Box::new(SessionPart { twin: Some(slot), ..SessionPart::default() }));
        }
    }

    /// Ends what the entry of a slot has in common with its twin, and releases what both hold.
    /// Returns the twin's slot, which the caller removes too.
    pub fn end_session(&mut self, table: usize, slot: u32) -> Option<u32> {
        let end_part = |memory: &mut Self, slot: u32| {
            let part = *memory.tables[table].slots.get_mut(slot as usize)?.session.take()?;
            part.leases.iter().for_each(|lease| memory.release_port(lease));
            part.shares.iter().for_each(|share| memory.give_back_share(share));
            part.twin
        };
        let twin = end_part(self, slot)?;
        end_part(self, twin);
        Some(twin)
    }

    /// Removes an entry, and its twin, which is returned.
    pub fn remove_with_twin(&mut self, table: usize, entry: &StoredEntry) -> Option<StoredEntry> {
        let twin = self.tables[table].find(entry).and_then(|slot| self.end_session(table, slot));
        self.tables[table].remove(entry);
        let twin = self.tables[table].slots[twin? as usize].entry.clone()?;
        self.tables[table].remove(&twin);
        Some(twin)
    }

    /// Returns the slot of an entry's twin.
    pub fn twin_slot(&self, table: usize, slot: u32) -> Option<u32> {
        self.tables[table].slots.get(slot as usize)?.session.as_ref()?.twin
    }

    pub fn release_port(&mut self, lease: &PortLease) {
        let now = self.now;
        if let Some(ExternState::Ports(pool)) = self.objects.get_mut(lease.pool) {
            pool.release(lease, now);
        }
    }

    pub fn give_back_share(&mut self, share: &QuotaShare) {
        if let Some(ExternState::Quota(quota)) = self.objects.get_mut(share.quota.index()) {
            quota.give_back(share.owner);
        }
    }

    /// Releases what the packet has taken and no entry holds, because the packet added none.
    pub fn release_unused(&mut self) {
        for share in std::mem::take(&mut self.taken_shares) {
            self.give_back_share(&share);
        }
        for lease in &std::mem::take(&mut self.taken_ports) {
            if let Some(ExternState::Ports(pool)) = self.objects.get_mut(lease.pool) {
                pool.release_unused(lease);
            }
        }
    }

    /// Ends the rest of ports that is over at the time `now` in nanoseconds.
    pub fn end_port_rests(&mut self, now: u64) {
        for object in &mut self.objects {
            if let ExternState::Ports(pool) = object {
                pool.end_rests(now);
            }
        }
    }

    /// Returns how much of a pool of ports is in use; `None` for another object.
    pub fn port_usage(&self, pool: ExternId) -> Option<PortUsage> {
        match self.objects.get(pool.index())? {
            ExternState::Ports(pool) => Some(pool.usage()),
            _ => None,
        }
    }

    /// Returns how many shares of a quota an owner has; `None` for another object.
    pub fn taken_shares(&self, quota: ExternId, owner: u32) -> Option<u32> {
        match self.objects.get(quota.index())? {
            ExternState::Quota(quota) => Some(quota.taken(owner)),
            _ => None,
        }
    }

    /// Returns a pool of ports for the control plane; `None` for another object.
    pub fn port_pool_mut(&mut self, pool: ExternId) -> Option<&mut dyn PoolControl> {
        match self.objects.get_mut(pool.index())? {
            ExternState::Ports(pool) => Some(pool),
            _ => None,
        }
    }

    /// Begins to note blocks of all pools that change hands.
    pub fn report_block_changes(&mut self) {
        for object in &mut self.objects {
            if let ExternState::Ports(pool) = object {
                pool.report_changes(true);
            }
        }
    }

    /// Adds a notification of the twin of an idle entry that stays, and restarts the twin's timer.
    pub fn report_idle_twin(&mut self, table: u32, slot: u32, now: u64, idle: &mut Vec<IdleEntry>, max_idle: usize) {
        let Some(twin) = self.twin_slot(table as usize, slot) else { return };
        if let Some(entry) = self.entry(table as usize, twin).cloned() {
            self.push_idle(idle, IdleEntry { table: TableId(table), entry, deleted: false }, max_idle);
            self.rearm_idle_timer(table, twin, now);
        }
    }

    /// Adds a notification of an expired entry; from `max_idle` on it counts as lost.
    pub fn push_idle(&mut self, idle: &mut Vec<IdleEntry>, entry: IdleEntry, max_idle: usize) {
        if idle.len() < max_idle {
            idle.push(entry);
        } else {
            self.lost_messages += 1;
        }
    }
}

impl<O: Overseer> ExecContext<'_, O> {
    /// Executes `PortPool.take`.
    pub(crate) fn take_port(&mut self, frame: &mut Frame, call: &DecodedCall) {
        use crate::extern_calls::scalar;
        let number = |index: usize| u32::try_from(scalar(frame, call, index)).unwrap_or(u32::MAX);
        let request = PortRequest {
            first_address: number(0),
            address_count: number(1),
            subscriber: number(2),
            max_blocks: number(3),
            space: number(4),
            hash: number(5),
        };
        let (pool, now) = (call.object.map_or(usize::MAX, Entity::index), self.memory.now);
        // An explained packet holds no port.
        let preview = self.memory.preview_port(pool, &request);
        let taken = match (preview, self.memory.objects.get_mut(pool)) {
            (Some(preview), _) => preview,
            (None, Some(ExternState::Ports(ports))) => ports.take(&request, now),
            (None, _) => Err(PortPoolStatus::Invalid),
        };
        if let (None, Ok((address, port))) = (preview, taken) {
            self.memory.taken_ports.push(PortLease { pool, address, port, space: request.space, taken_ns: now });
        }
        let (status, address, port) = match taken {
            Ok((address, port)) => (PortPoolStatus::Taken, address, port),
            Err(status) => (status, 0, 0),
        };
        for (reg, value) in call.results.iter().zip([status as u128, u128::from(address), u128::from(port)]) {
            wide_int::store128(frame.words_mut(*reg), value & wide_int::mask128(reg.width));
        }
    }

    /// Executes `EntryQuota.take`.
    pub(crate) fn take_share(&mut self, frame: &mut Frame, call: &DecodedCall) {
        use crate::extern_calls::scalar;
        let number = |index: usize| u32::try_from(scalar(frame, call, index)).unwrap_or(u32::MAX);
        let (owner, max_entries) = (number(0), number(1));
        let quota = call.object.unwrap_or(ExternId(u32::MAX));
        // An explained packet takes nothing.
        let explained = self.memory.snapshot_registers.as_ref().and_then(|source| source.quota_entries(quota, owner));
        let is_taken = match (explained, self.memory.objects.get_mut(quota.index())) {
            (Some(entries), _) => entries < max_entries,
            (None, Some(ExternState::Quota(quota))) => quota.take(owner, max_entries),
            (None, _) => false,
        };
        if is_taken && explained.is_none() {
            self.memory.taken_shares.push(QuotaShare { quota, owner });
        }
        if let Some(reg) = call.results.first() {
            wide_int::store128(frame.words_mut(*reg), u128::from(is_taken));
        }
    }

    /// Adds an entry with key, action and expire time profile, and with `twin` a second one of the
    /// same table, or none. Returns the first one's slot.
    pub(crate) fn add_entries(
        &mut self,
        table: usize,
        (key, action): (PackedKey, StoredAction),
        twin: Option<(PackedKey, StoredAction)>,
        profile: u8,
    ) -> Option<u32> {
        let id = TableId::from_index(table);
        if let Some((twin_key, _)) = &twin {
            let size = self.pipeline.tables.get(id)?.size.unwrap_or(u64::MAX);
            let is_taken = |key: &PackedKey| self.memory.state.get_entry(id, key, 0).is_some();
            let is_full = self.memory.state.entry_count(id) as u64 + 2 > size;
            if is_full || is_taken(&key) || is_taken(twin_key) || key == *twin_key {
                return None;
            }
        }
        let slot = self.add_one_entry(table, key, action, profile)?;
        let twin = twin.and_then(|(key, action)| self.add_one_entry(table, key, action, profile));
        self.memory.begin_session(table, slot, twin);
        Some(slot)
    }

    fn add_one_entry(&mut self, table: usize, key: PackedKey, action: StoredAction, profile: u8) -> Option<u32> {
        let timeout = self.memory.expire_time(table, profile);
        let entry = self.memory.state.add_from_data_plane(TableId::from_index(table), key, action, timeout)?;
        let now = self.memory.now;
        let slot = self.memory.tables[table].insert(&entry, Default::default(), now);
        self.memory.tables[table].sort_changed_groups();
        self.memory.set_expire_profile(table, slot, profile, now);
        self.record_added_entry(TableId::from_index(table), &entry);
        self.overseer.on_entry_added(table, &entry);
        Some(slot)
    }
}
