//! Tables that packets write, which the engine holds itself, with the idle times of their entries.
//! The host keeps only their direct counters and meters.

use crate::host::ExternHost;
use crate::idle_clock::IdleClock;
use crate::lookup::EntrySlot;
use entries::StoredEntry;
use ir::{Entity, TableId};

impl ExternHost {
    /// Leaves the idle times of a table's entries to the engine.
    pub fn leave_idle_times(&mut self, table: TableId) {
        if let Some(table) = self.memory.tables.get_mut(table.index()) {
            table.idle_clock = IdleClock::Elsewhere;
        }
    }

    /// Begins the state of an entry that a packet has just added.
    pub fn entry_added(&mut self, table: TableId, number: u32, entry: &StoredEntry) {
        let Some(slot) = self.grown_slot(table, number) else { return };
        let generation = slot.generation.wrapping_add(1);
        *slot = EntrySlot { entry: Some(entry.clone()), generation, ..EntrySlot::free() };
    }

    /// Moves the state of an entry to another number, because the engine has replaced its record.
    pub fn entry_renumbered(&mut self, table: TableId, from: u32, to: u32) {
        if from == to {
            return;
        }
        let Some(state) = self.slot_mut(table, from).map(|slot| std::mem::replace(slot, EntrySlot::free())) else {
            return;
        };
        let Some(slot) = self.grown_slot(table, to) else { return };
        let generation = slot.generation.wrapping_add(1);
        *slot = EntrySlot { generation, ..state };
    }

    /// Returns the slot of a number, with all slots up to it.
    fn grown_slot(&mut self, table: TableId, number: u32) -> Option<&mut EntrySlot> {
        let slots = &mut self.memory.tables.get_mut(table.index())?.slots;
        let index = number as usize;
        if index >= slots.len() {
            slots.resize(index + 1, EntrySlot::free());
        }
        slots.get_mut(index)
    }
}
