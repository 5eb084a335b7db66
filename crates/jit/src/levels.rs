//! What packets and time leave behind that nobody writes ([`interp::MeterLevel`], [`interp::EntryLevel`]), of all workers of an engine: they
//! share it.

use crate::engine::{Jit, Way};
use entries::Entry;
use interp::{EntryLevel, MeterLevel};
use ir::{ExternId, TableId};

impl Jit {
    /// The elements of an indexed meter that are not as full as at first, by index.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().meter_levels(meter),
            Way::Handed { interp, .. } => interp.lock().meter_levels(meter),
        }
    }

    /// Sets how full an element of an indexed meter is; one that is not configured stays so.
    pub fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().set_meter_level(meter, index, level),
            Way::Handed { interp, .. } => interp.lock().set_meter_level(meter, index, level),
        }
    }

    /// What an entry that is in the table has besides what was written to it; `None` if its table's entries have nothing.
    pub fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        match &self.way {
            Way::Native { shared, .. } => {
                let number = shared.live.lock().entry_id(table, entry)?;
                shared.program.runtime.host.lock().entry_level(table, number)
            }
            Way::Handed { interp, .. } => interp.lock().entry_level(table, entry),
        }
    }

    /// Sets that. An entry that is not in the table stays away.
    pub fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        match &self.way {
            Way::Native { shared, .. } => {
                let Some(number) = shared.live.lock().entry_id(table, entry) else { return };
                shared.program.runtime.host.lock().set_entry_level(table, number, level);
            }
            Way::Handed { interp, .. } => interp.lock().set_entry_level(table, entry, level),
        }
    }

    /// The flow id (PNA `allocate_flow_id`) that was given last.
    pub fn flow_id(&self) -> u32 {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().flow_id(),
            Way::Handed { interp, .. } => interp.lock().flow_id(),
        }
    }

    /// The next flow id follows on this one.
    pub fn set_flow_id(&self, id: u32) {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().set_flow_id(id),
            Way::Handed { interp, .. } => interp.lock().set_flow_id(id),
        }
    }

    /// Whether entries do not grow too old for now, whatever the time is: another engine is to go on with them, or has not given them all yet.
    pub fn hold_idle(&self, hold: bool) {
        match &self.way {
            Way::Native { shared, .. } => shared.program.runtime.host.lock().hold_idle(hold),
            Way::Handed { interp, .. } => interp.lock().hold_idle(hold),
        }
    }
}
