//! What packets and time leave behind that nobody writes: how full the buckets of meters are, how long entries have been idle, which flow ids were
//! given. For an engine that goes on where another one stopped.

use crate::lookup::Slot;
use crate::memory::{Memory, Object};
use ir::{Entity, ExternId, TableId};

/// How full the buckets of a meter are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterLevel {
    /// Tokens in the committed bucket, in billionths of a unit (a packet or a byte).
    pub committed: u128,
    /// Tokens in the peak bucket, likewise.
    pub peak: u128,
    /// When that was so, in nanoseconds on the clock that the engine is given.
    pub at: u64,
}

/// What an entry has besides what was written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryLevel {
    /// Of its direct meter, if that is configured and was asked.
    pub meter: Option<MeterLevel>,
    /// When its idle time began, in nanoseconds on the clock that the engine is given.
    pub active: u64,
    /// Its idle time in nanoseconds, which packets may have set; 0: none.
    pub timeout: u64,
}

impl Slot {
    pub(crate) fn level(&self) -> EntryLevel {
        let meter = self.meter.as_ref().and_then(|meter| meter.level());
        EntryLevel { meter, active: self.active, timeout: self.timeout }
    }

    fn set_level(&mut self, level: EntryLevel) {
        if let (Some(meter), Some(level)) = (&mut self.meter, level.meter) {
            meter.set_level(level);
        }
        (self.active, self.timeout) = (level.active, level.timeout);
    }
}

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
