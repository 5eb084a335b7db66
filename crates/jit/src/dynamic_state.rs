//! State that packets and time change without writes ([`interp::MeterFill`],
//! [`interp::EntryRuntimeState`]), for a take-over. All workers of an engine share it.

use crate::engine::{Execution, Jit};
use entries::StoredEntry;
use interp::{EntryRuntimeState, MeterFill};
use ir::{ExternId, TableId};
use std::sync::atomic::Ordering::Relaxed;

impl Jit {
    /// Returns the elements of an indexed meter that are not in their initial state, by index.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().meter_levels(meter),
            Execution::Interpreted { interp, .. } => interp.lock().meter_levels(meter),
        }
    }

    /// Sets the fill level of an element of an indexed meter; ignored for one that is not
    /// configured.
    pub fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill) {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().set_meter_level(meter, index, level),
            Execution::Interpreted { interp, .. } => interp.lock().set_meter_level(meter, index, level),
        }
    }

    /// Returns the dynamic state of an entry that is in the table; `None` if entries of the table
    /// have none.
    pub fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let number = shared.entry_number(table, entry)?;
                let host_level = shared.host_at_latest_time().entry_level(table, number);
                match shared.program.runtime.written.level(table, entry) {
                    None => host_level,
                    Some(level) => {
                        let meter = host_level.and_then(|level| level.meter);
                        Some(EntryRuntimeState { meter, ..level })
                    }
                }
            }
            Execution::Interpreted { interp, .. } => interp.lock().entry_level(table, entry),
        }
    }

    /// Sets the dynamic state of an entry; ignored for an entry that is not in the table.
    pub fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        match &self.execution {
            Execution::Native { shared, .. } => {
                let Some(number) = shared.entry_number(table, entry) else { return };
                shared.program.runtime.written.set_level(table, entry, level);
                shared.program.runtime.host.lock().set_entry_level(table, number, level);
            }
            Execution::Interpreted { interp, .. } => interp.lock().set_entry_level(table, entry, level),
        }
    }

    /// Returns the flow id (PNA `allocate_flow_id`) that was allocated last.
    pub fn flow_id(&self) -> u32 {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().flow_id(),
            Execution::Interpreted { interp, .. } => interp.lock().flow_id(),
        }
    }

    /// Sets the flow id that was allocated last.
    pub fn set_flow_id(&self, id: u32) {
        match &self.execution {
            Execution::Native { shared, .. } => shared.program.runtime.host.lock().set_flow_id(id),
            Execution::Interpreted { interp, .. } => interp.lock().set_flow_id(id),
        }
    }

    /// Suspends or resumes idle timeouts. They are suspended while another engine takes the entries
    /// over, or before it has transferred all of them.
    pub fn hold_idle(&self, hold: bool) {
        match &self.execution {
            Execution::Native { shared, .. } => {
                shared.is_idle_held.store(hold, Relaxed);
                shared.program.runtime.host.lock().hold_idle(hold);
            }
            Execution::Interpreted { interp, .. } => interp.lock().hold_idle(hold),
        }
    }
}
