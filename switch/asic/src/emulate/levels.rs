//! Runtime state left by packets and time ([`interp::MeterFill`], [`interp::EntryRuntimeState`]), for a
//! switch that takes over from another engine.

use super::engine::EmulatedSwitch;
use entries::StoredEntry;
use interp::{EntryRuntimeState, MeterFill};
use ir::{ExternId, TableId};

impl EmulatedSwitch {
    /// Returns the elements of an indexed meter that differ from their initial fill level, by
    /// index.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.interp.meter_levels(meter)
    }

    /// Sets the fill level of an element of an indexed meter. An unconfigured element is unchanged.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        self.interp.set_meter_level(meter, index, level);
    }

    /// Returns the runtime state of an entry. `None` if entries of its table have none.
    pub fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        self.interp.entry_level(table, self.own_entry(table, entry)?)
    }

    /// Sets the runtime state of an entry. Does nothing if the table lacks the entry.
    pub fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        if let Some(entry) = self.own_entry(table, entry).cloned() {
            self.interp.set_entry_level(table, &entry, level);
        }
    }

    /// Returns the last allocated flow id (PNA `allocate_flow_id`).
    pub fn flow_id(&self) -> u32 {
        self.interp.flow_id()
    }

    /// Sets the last allocated flow id.
    pub fn set_flow_id(&mut self, id: u32) {
        self.interp.set_flow_id(id);
    }

    /// Suspends or resumes the expiry of entries, regardless of the time.
    pub fn hold_idle(&mut self, hold: bool) {
        self.interp.hold_idle(hold);
    }
}
