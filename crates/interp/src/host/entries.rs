//! State of entries that packets change: direct counters and meters, idle timers, and entries that
//! packets add.
//!
//! The engine numbers the entries of each table densely from 0, because memory is allocated up to
//! the largest number. A number can be reused after [`ExternHost::entry_removed`].

use crate::deferred_count::DeferredCount;
use crate::host::ExternHost;
use crate::idle_clock::IdleClock;
use crate::lookup::EntrySlot;
use crate::meter::MeterColor;
use entries::{Counter, StoredEntry};
use ir::{Entity, TableId};

impl ExternHost {
    /// Returns whether the engine must report the entries of this table, because it has a direct
    /// counter or meter, or idle timers.
    pub fn tracks_entries(&self, table: TableId) -> bool {
        self.pipeline.tables.get(table).is_some_and(|declared| {
            declared.direct_counter.is_some()
                || declared.direct_meter.is_some()
                || declared.idle_timeout
                || declared.add_on_miss
                || !self.memory.tables[table.index()].restart_on_hit
        })
    }

    /// Returns whether [`ExternHost::hit`] has a visible effect in this table.
    pub fn has_hit_effect(&self, table: TableId) -> bool {
        let Some(kept) = self.memory.tables.get(table.index()) else { return false };
        let restarts = kept.restart_on_hit && kept.idle_clock != IdleClock::Elsewhere && self.tracks_entries(table);
        kept.count_on_hit || kept.meter_on_hit || restarts
    }

    /// Returns whether a hit restarts the idle timer of an entry of this table.
    pub fn restarts_on_hit(&self, table: TableId) -> bool {
        let times = self.pipeline.tables.get(table).is_some_and(|t| t.idle_timeout || t.add_on_miss);
        times && self.memory.tables[table.index()].restart_on_hit
    }

    /// Returns whether idle entries of this table are deleted; else they are only reported.
    pub fn deletes_idle(&self, table: TableId) -> bool {
        self.memory.tables.get(table.index()).is_some_and(|kept| kept.auto_delete)
    }

    /// Returns whether a hit in this table counts or meters the packet (v1model).
    pub fn counts_on_hit(&self, table: TableId) -> bool {
        self.memory.tables.get(table.index()).is_some_and(|kept| kept.count_on_hit || kept.meter_on_hit)
    }

    /// Records a new entry. Must also be called for the program's own entries, at load.
    pub fn entry_inserted(&mut self, table: TableId, number: u32, entry: &StoredEntry, counter: Counter) {
        let now = self.memory.now;
        let Some(kept) = self.memory.tables.get_mut(table.index()) else { return };
        let place = number as usize;
        if place >= kept.slots.len() {
            kept.slots.resize(place + 1, EntrySlot::free());
        }
        kept.slots[place].install(entry, counter, (kept.idle_clock, now));
        self.hit_times.reset(table.index(), number);
        self.memory.schedule_expiry(table.0, number);
    }

    /// Records the replacement of an entry by one with the same key and priority; sets the counter
    /// if given.
    pub fn entry_modified(
        &mut self,
        table: TableId,
        number: u32,
        old: &StoredEntry,
        new: &StoredEntry,
        counter: Option<Counter>,
    ) {
        let now = self.memory.now;
        let Some(clock) = self.memory.tables.get(table.index()).map(|kept| kept.idle_clock) else { return };
        if let Some(slot) = self.slot_mut(table, number) {
            slot.replace(old, new, counter, (clock, now));
            self.memory.schedule_expiry(table.0, number);
        }
    }

    /// Records the removal of an entry. Optional for entries that [`ExternHost::expire`] deleted.
    pub fn entry_removed(&mut self, table: TableId, number: u32) {
        if let Some(slot) = self.slot_mut(table, number) {
            slot.remove();
        }
    }

    /// Sets the direct counter of an entry ([`entries::StateChange::DirectCounter`]).
    pub fn set_direct_counter(&mut self, table: TableId, number: u32, counter: Counter) {
        if let Some(slot) = self.slot_mut(table, number) {
            slot.counter = counter;
        }
    }

    /// Records a hit of an entry by a packet of `ingress_length` bytes and restarts its idle timer.
    /// v1model: counts and meters the packet and returns the color. The engine keeps it for
    /// [`PacketContext::colour`] and stores it in [`ir::Table::meter_result`].
    #[inline]
    pub fn hit(&mut self, table: TableId, number: u32, ingress_length: u32) -> Option<MeterColor> {
        let known = self.memory.tables.get(table.index()).is_some_and(|kept| (number as usize) < kept.slots.len());
        if !known {
            return None;
        }
        self.memory.apply_hit(&self.pipeline, table.index(), number, ingress_length)
    }

    /// Applies the effects of a hit as [`ExternHost::hit`] does, except on the idle timer, which
    /// the engine restarts by [`super::HitTimes::record`].
    #[inline]
    pub fn count_hit(&mut self, table: TableId, number: u32, ingress_length: u32) -> Option<MeterColor> {
        let known = self.memory.tables.get(table.index()).is_some_and(|kept| (number as usize) < kept.slots.len());
        known.then(|| self.memory.count_hit(&self.pipeline, table.index(), number, ingress_length)).flatten()
    }

    /// Counts a packet of `bytes` with an entry's direct counter, as PNA's `DirectCounter.count`
    /// does after a hit.
    #[inline]
    pub fn count_direct(&mut self, table: TableId, number: u32, bytes: u64) {
        if let Some(slot) = self.slot_mut(table, number) {
            slot.counter.packets = slot.counter.packets.wrapping_add(1);
            slot.counter.bytes = slot.counter.bytes.wrapping_add(bytes);
        }
    }

    /// Adds the updates of packets that were forwarded elsewhere, as
    /// [`crate::Interp::add_deferred_count`] does. The engine handles statistics of actions
    /// ([`DeferredCount::Applied`]) and counters that it keeps itself.
    pub fn add_deferred_count(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        self.memory.apply_deferred_count(credit, packets, bytes, last);
    }

    /// Returns the generation of a number, which distinguishes its entry from earlier ones.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        self.slot(table, number).map_or(0, |slot| slot.generation)
    }

    /// Returns the direct counter of an entry.
    pub fn direct_counter(&self, table: TableId, number: u32) -> Option<Counter> {
        self.slot(table, number).map(|slot| slot.counter)
    }

    pub(super) fn slot(&self, table: TableId, number: u32) -> Option<&EntrySlot> {
        let slot = self.memory.tables.get(table.index())?.slots.get(number as usize)?;
        slot.entry.is_some().then_some(slot)
    }

    pub(super) fn slot_mut(&mut self, table: TableId, number: u32) -> Option<&mut EntrySlot> {
        self.memory.tables.get_mut(table.index())?.slots.get_mut(number as usize)
    }
}
