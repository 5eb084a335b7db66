//! Dynamic state that only packets and time change: fill of meters, idle times of entries,
//! allocated flow ids. A take-over transfers it to the next engine.

use crate::lookup::EntryRuntimeState;
use crate::meter::MeterFill;
use crate::persistent_state::{ExternState, PersistentState};
use ir::{Entity, ExternId, TableId};

impl PersistentState {
    /// Returns the elements of an indexed meter that are not as full as initially.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        let Some(ExternState::Meter(_, meters)) = self.objects.get(meter.index()) else { return Vec::new() };
        meters.iter().filter_map(|(index, meter)| Some((*index, meter.level()?))).collect()
    }

    /// Sets the fill of an element of an indexed meter. Has no effect on an element that is not
    /// configured.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        if let Some(ExternState::Meter(_, meters)) = self.objects.get_mut(meter.index())
            && let Some(meter) = meters.get_mut(&index)
        {
            meter.set_level(level);
        }
    }

    /// Sets the dynamic state of an entry. Has no effect on a free slot.
    pub fn set_entry_level(&mut self, table: TableId, slot: u32, level: EntryRuntimeState) {
        let slots = self.tables.get_mut(table.index()).map(|table| &mut table.slots);
        if let Some(entry) = slots.and_then(|slots| slots.get_mut(slot as usize)).filter(|slot| slot.entry.is_some()) {
            entry.set_runtime_state(level);
            self.schedule_expiry(table.0, slot);
        }
    }
}
