//! Sessions with what they hold of pools and quotas, as another engine takes them over: of another process, or with
//! another program.

use crate::entry_quota::QuotaShare;
use crate::interp::Interp;
use crate::persistent_state::{ExternState, PersistentState};
use crate::port_pool::{OwnedPort, PortLease, RestingPort};
use entries::{PackedKey, StoredEntry};
use ir::{Entity, ExternId, TableId};

/// What an entry of a session has besides its idle time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Packed key of its twin.
    pub twin: Option<PackedKey>,
    /// Ports that are released with the entry.
    pub ports: Vec<OwnedPort>,
    /// Shares of quotas that are given back with the entry.
    pub shares: Vec<QuotaShare>,
}

impl Interp {
    /// Returns what an entry of a session has; `None` for an entry that is in no session.
    pub fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        let slots = &self.memory.tables.get(table.index())?;
        let session = slots.slots[slots.find(entry)? as usize].session.as_ref()?;
        let twin = session.twin.and_then(|twin| slots.slots[twin as usize].entry.as_ref());
        Some(SessionState {
            twin: twin.map(|twin| PackedKey::from_slice(twin.key())),
            ports: session.leases.iter().filter_map(|lease| self.memory.owned_port(lease)).collect(),
            shares: session.shares.clone(),
        })
    }

    /// Gives an entry that is in the table its twin, which is there too, its ports and its shares. Returns
    /// false if the twin, a port or a share is not to be had: then the entry is removed, because it
    /// would be half a session, share a port, or be beyond a limit.
    pub fn restore_session(&mut self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        let is_restored = self.memory.restore_session(table, entry, session);
        if !is_restored {
            let twin = self.memory.remove_with_twin(table.index(), entry);
            self.memory.tables[table.index()].sort_changed_groups();
            for removed in [Some(entry), twin.as_ref()].into_iter().flatten() {
                self.memory.state.remove_idle(table, removed);
            }
        }
        is_restored
    }

    /// Returns the resting ports of all pools.
    pub fn resting_ports(&self) -> Vec<RestingPort> {
        let pools = self.memory.objects.iter().enumerate();
        let ports = pools.filter_map(|(id, object)| match object {
            ExternState::Ports(pool) => Some(pool.resting_ports(ExternId::from_index(id))),
            _ => None,
        });
        ports.flatten().collect()
    }

    /// Lets a free port rest. Returns false if it is not free, or there is no such port.
    pub fn restore_resting_port(&mut self, resting: &RestingPort) -> bool {
        match self.memory.objects.get_mut(resting.port.pool.index()) {
            Some(ExternState::Ports(pool)) => pool.restore(&resting.port, Some(resting.end_ns)),
            _ => false,
        }
    }
}

impl PersistentState {
    fn owned_port(&self, lease: &PortLease) -> Option<OwnedPort> {
        let Some(ExternState::Ports(pool)) = self.objects.get(lease.pool) else { return None };
        let PortLease { pool: id, address, port, space, .. } = *lease;
        Some(OwnedPort { pool: ExternId::from_index(id), address, port, space, subscriber: pool.owner(lease)? })
    }

    fn restore_session(&mut self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        let Some(slots) = self.tables.get(table.index()) else { return false };
        let Some(slot) = slots.find(entry) else { return false };
        let twin = session.twin.as_ref().map(|key| {
            let twin = self.state.get_entry(table, key.as_slice(), 0)?;
            slots.find(twin).filter(|twin| *twin != slot)
        });
        let Some(twin) = twin.map_or(Some(None), |found| found.map(Some)) else { return false };
        let mut leases = Vec::new();
        for port in &session.ports {
            let is_free = match self.objects.get_mut(port.pool.index()) {
                Some(ExternState::Ports(pool)) => pool.restore(port, None),
                _ => false,
            };
            if !is_free {
                leases.iter().for_each(|lease| self.release_port(lease));
                return false;
            }
            let OwnedPort { pool, address, port, space, .. } = *port;
            leases.push(PortLease { pool: pool.index(), address, port, space, taken_ns: self.now });
        }
        let mut shares = Vec::new();
        for share in &session.shares {
            // The limit was checked when the share was taken.
            let is_taken = match self.objects.get_mut(share.quota.index()) {
                Some(ExternState::Quota(quota)) => quota.take(share.owner, u32::MAX),
                _ => false,
            };
            if !is_taken {
                leases.iter().for_each(|lease| self.release_port(lease));
                shares.iter().for_each(|share| self.give_back_share(share));
                return false;
            }
            shares.push(*share);
        }
        let slots = &mut self.tables[table.index()].slots;
        let own = slots[slot as usize].session.get_or_insert_default();
        own.leases.append(&mut leases);
        own.shares.append(&mut shares);
        own.twin = twin.or(own.twin);
        if let Some(twin) = twin {
            slots[twin as usize].session.get_or_insert_default().twin = Some(slot);
        }
        true
    }
}
