//! Sessions and ports of pools, as another engine takes them over.

use crate::engine::{EngineShared, Execution, Jit};
use crate::packet_written::PacketWrittenTables;
use entries::{PackedKey, StoredEntry};
use interp::{RestingPort, SessionState};
use ir::TableId;

impl Jit {
    /// Returns twin and ports of an entry that is in the table; `None` if it has neither.
    pub fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.session(table, entry),
            Execution::Interpreted { interp, .. } => interp.lock().entry_session(table, entry),
        }
    }

    /// Gives an entry that is in the table its twin, which is there too, and its ports. Returns
    /// false if the twin or a port is not to be had: then the entry is removed, because it would
    /// be half a session, or share a port. No packet uses the table meanwhile.
    pub fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let is_restored = shared.program.runtime.written.restore_session(table, entry, session);
                if !is_restored {
                    shared.remove_session(table, entry);
                }
                is_restored
            }
            Execution::Interpreted { interp, .. } => interp.lock().restore_session(table, entry, session),
        }
    }

    /// Returns the resting ports of all pools.
    pub fn resting_ports(&self) -> Vec<RestingPort> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.ports.resting_ports(),
            Execution::Interpreted { interp, .. } => interp.lock().resting_ports(),
        }
    }

    /// Lets a free port rest. Returns false if it is not free, or there is no such port.
    pub fn restore_resting_port(&self, resting: &RestingPort) -> bool {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.ports.restore_resting_port(resting),
            Execution::Interpreted { interp, .. } => interp.lock().restore_resting_port(resting),
        }
    }
}

impl EngineShared {
    /// Removes an entry and its twin from the flow table and the control state.
    fn remove_session(&self, table: TableId, entry: &StoredEntry) {
        let mut live = self.live.lock();
        let mut removed = vec![(table, PackedKey::from_slice(entry.key()))];
        self.remove_written_entry(&mut self.program.runtime.host.lock(), (table, entry), &mut removed);
        self.forget_removed(&mut live, table, removed.into_iter().map(|(_, key)| key).collect());
    }
}

impl PacketWrittenTables {
    fn session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        self.with_control(table, |written, member| {
            let own = member.entry(member.find(&written.codec.encode_key(entry)))?;
            let twin = member.entry(own.twin).map(|twin| written.codec.decode_key(twin.key));
            let ports = self.ports.owned_ports(own.lease);
            (twin.is_some() || !ports.is_empty()).then_some(SessionState { twin, ports })
        })?
    }

    fn restore_session(&self, table: TableId, entry: &StoredEntry, session: &SessionState) -> bool {
        let restored = self.with_control(table, |written, member| {
            let record = member.find(&written.codec.encode_key(entry));
            if !record.is_some() {
                return false;
            }
            let find = |key: &PackedKey| member.find(&written.codec.encode_key_words(key.as_slice()));
            if let Some(twin) = session.twin.as_ref().map(find)
                && !member.join_pair(record, twin)
            {
                return false;
            }
            match self.ports.restore(&session.ports) {
                Some(0) => true,
                Some(lease) if member.set_lease(record, lease) => true,
                Some(lease) => {
                    self.ports.release(&[lease], self.times.now());
                    false
                }
                None => false,
            }
        });
        restored.unwrap_or(false)
    }
}
