//! What packets and time leave behind that nobody writes: how full the buckets of meters are, how long entries have been idle, which flow ids were
//! given. For an engine that goes on where another one stopped.

use crate::lookup::EntryLevel;
use crate::memory::{Memory, Object};
use crate::meter::MeterLevel;
use ir::{Entity, ExternId, TableId};

impl Memory {
    /// The elements of an indexed meter that are not as at first.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        let Some(Object::Meter(_, meters)) = self.objects.get(meter.index()) else { return Vec::new() };
        meters.iter().filter_map(|(index, meter)| Some((*index, meter.level()?))).collect()
    }

    /// Sets an element of an indexed meter; one that is not configured stays so.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        if let Some(Object::Meter(_, meters)) = self.objects.get_mut(meter.index())
            && let Some(meter) = meters.get_mut(&index)
        {
            meter.set_level(level);
        }
    }

    /// Sets what an entry has; a slot without one stays free.
    pub fn set_entry_level(&mut self, table: TableId, slot: u32, level: EntryLevel) {
        let slots = self.tables.get_mut(table.index()).map(|table| &mut table.slots);
        if let Some(entry) = slots.and_then(|slots| slots.get_mut(slot as usize)).filter(|slot| slot.entry.is_some()) {
            entry.set_level(level);
            self.watch(table.0, slot);
        }
    }
}
