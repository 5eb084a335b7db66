//! Sessions with what they hold of pools and quotas, as another engine takes them over.

use crate::engine::{EngineShared, Execution, Jit};
use crate::packet_written::PacketWrittenTables;
use entries::{PackedKey, StoredEntry};
use interp::{RestingPort, SessionState};
use ir::TableId;

impl Jit {
    /// Returns what an entry of a session has; `None` for an entry that is in no session.
    pub fn entry_session(&self, table: TableId, entry: &StoredEntry) -> Option<SessionState> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.written.session(table, entry),
            Execution::Interpreted { interp, .. } => interp.lock().entry_session(table, entry),
        }
    }

    /// Gives an entry that is in the table its twin, which is there too, its ports and its shares. Returns
    /// false if the twin, a port or a share is not to be had: then the entry is removed, because it
    /// would be half a session, share a port, or be beyond a limit. No packet uses the table meanwhile.
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
            Execution::Native { shared, .. } => shared.program.runtime.written.leases.ports.resting_ports(),
            Execution::Interpreted { interp, .. } => interp.lock().resting_ports(),
        }
    }

    /// Lets a free port rest. Returns false if it is not free, or there is no such port.
    pub fn restore_resting_port(&self, resting: &RestingPort) -> bool {
        match &self.execution {
            Execution::Native { shared, .. } => {
                shared.program.runtime.written.leases.ports.restore_resting_port(resting)
            }
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
            let session = SessionState { twin, ..self.leases.describe(own.lease) };
            (session != SessionState::default()).then_some(session)
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
            match self.leases.restore(session) {
                Some(0) => true,
                Some(lease) if member.set_lease(record, lease) => true,
                Some(lease) => {
                    self.leases.release(&[lease], self.times.now());
                    false
                }
                None => false,
            }
        });
        restored.unwrap_or(false)
    }
}
