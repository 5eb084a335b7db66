//! What packets and time leave behind that nobody writes ([`interp::MeterLevel`], [`interp::EntryLevel`]): for a switch that goes on where another
//! engine stopped.

use super::engine::Switch;
use entries::Entry;
use interp::{EntryLevel, MeterLevel};
use ir::{ExternId, TableId};

impl Switch {
    /// The elements of an indexed meter that are not as full as at first, by index.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.interp.meter_levels(meter)
    }

    /// Sets how full an element of an indexed meter is; one that is not configured stays so.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        self.interp.set_meter_level(meter, index, level);
    }

    /// What an entry that is in the table has besides what was written to it; `None` if its table's entries have nothing.
    pub fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.interp.entry_level(table, self.own(table, entry)?)
    }

    /// Sets that. An entry that is not in the table stays away.
    pub fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel) {
        if let Some(entry) = self.own(table, entry).cloned() {
            self.interp.set_entry_level(table, &entry, level);
        }
    }

    /// The flow id (PNA `allocate_flow_id`) that was given last.
    pub fn flow_id(&self) -> u32 {
        self.interp.flow_id()
    }

    /// The next flow id follows on this one.
    pub fn set_flow_id(&mut self, id: u32) {
        self.interp.set_flow_id(id);
    }

    /// Whether entries do not grow too old for now, whatever the time is.
    pub fn hold_idle(&mut self, hold: bool) {
        self.interp.hold_idle(hold);
    }
}
