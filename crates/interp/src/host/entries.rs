//! What changes as packets hit an entry: direct counters and meters, idle times, and entries that packets add.
//!
//! The engine gives each entry of a table a number, from 0 and dense: memory is kept for the greatest one. A number may be
//! used again after [`ExternHost::entry_removed`].

use crate::credit::Credit;
use crate::host::{ExternHost, PacketContext, SiteId};
use crate::lookup::{EntryLevel, EntrySlot};
use crate::memory::{IdleEntry, MAX_WAITING};
use crate::meter::Colour;
use entries::{Counter, Entry, PackedKey, State};
use ir::{Entity, ExternFn, TableId};

/// What [`ExternHost::expire`] found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expired {
    /// For the control plane, as [`crate::Interp::advance_time`] has it: at most 65,536, what is beyond counts as lost.
    pub idle: Vec<IdleEntry>,
    /// Entries that are gone from the state and from the host, with their numbers: the engine takes them out of its tables.
    pub deleted: Vec<(TableId, u32, Entry)>,
}

impl ExternHost {
    /// Whether the engine must tell of this table's entries: it has a direct counter or meter, or idle times.
    pub fn tracks_entries(&self, table: TableId) -> bool {
        self.pipeline.tables.get(table).is_some_and(|declared| {
            declared.direct_counter.is_some()
                || declared.direct_meter.is_some()
                || declared.idle_timeout
                || declared.add_on_miss
                || !self.memory.tables[table.index()].restart_on_hit
        })
    }

    /// Whether [`ExternHost::hit`] has an effect in this table that anybody can see.
    pub fn notes_hits(&self, table: TableId) -> bool {
        let Some(kept) = self.memory.tables.get(table.index()) else { return false };
        kept.count_on_hit || kept.meter_on_hit || (kept.restart_on_hit && self.tracks_entries(table))
    }

    /// An entry is in the table. Also for the program's own entries, at load.
    pub fn entry_inserted(&mut self, table: TableId, number: u32, entry: &Entry, counter: Counter) {
        let now = self.memory.now;
        let Some(kept) = self.memory.tables.get_mut(table.index()) else { return };
        let place = number as usize;
        if place >= kept.slots.len() {
            kept.slots.resize(place + 1, EntrySlot::free());
        }
        kept.slots[place].begin(entry, counter, now);
        self.memory.watch(table.0, number);
    }

    /// An entry was replaced by one with the same key and priority; the counter is set if given.
    pub fn entry_modified(&mut self, table: TableId, number: u32, old: &Entry, new: &Entry, counter: Option<Counter>) {
        let now = self.memory.now;
        if let Some(slot) = self.slot_mut(table, number) {
            slot.replace(old, new, counter, now);
            self.memory.watch(table.0, number);
        }
    }

    /// An entry is gone. Not needed, but harmless, for what [`ExternHost::expire`] deleted.
    pub fn entry_removed(&mut self, table: TableId, number: u32) {
        if let Some(slot) = self.slot_mut(table, number).filter(|slot| slot.entry.is_some()) {
            slot.end();
        }
    }

    /// The control plane sets the direct counter of an entry ([`entries::Change::DirectCounter`]).
    pub fn set_direct_counter(&mut self, table: TableId, number: u32, counter: Counter) {
        if let Some(slot) = self.slot_mut(table, number) {
            slot.counter = counter;
        }
    }

    /// A packet of `ingress_length` bytes hits an entry: its idle time begins anew; v1model: it is counted and metered, and the
    /// colour is given, which the engine keeps for [`PacketContext::colour`] and stores in [`ir::Table::meter_result`].
    #[inline]
    pub fn hit(&mut self, table: TableId, number: u32, ingress_length: u32) -> Option<Colour> {
        let known = self.memory.tables.get(table.index()).is_some_and(|kept| (number as usize) < kept.slots.len());
        if !known {
            return None;
        }
        self.memory.hit(&self.pipeline, table.index(), number, ingress_length)
    }

    /// Counts a packet of `bytes` with an entry's direct counter, as PNA's `DirectCounter.count` does after a hit.
    #[inline]
    pub fn count_direct(&mut self, table: TableId, number: u32, bytes: u64) {
        if let Some(slot) = self.slot_mut(table, number) {
            slot.counter.packets = slot.counter.packets.wrapping_add(1);
            slot.counter.bytes = slot.counter.bytes.wrapping_add(bytes);
        }
    }

    /// PNA `add_entry`: the entry that the call adds to the table that the packet missed. It is in `state` then; the engine
    /// puts it into its table, tells [`ExternHost::entry_inserted`] with a counter of 0, and gives the call the result true.
    /// `key` is what was looked up, as [`State::layout`] places it: the table's keys in order, each in whole words.
    ///
    /// `None`, the result being false: the packet hit an entry ([`PacketContext::hit`]), the table is full or constant, has
    /// such an entry, or has keys that are not exact.
    ///
    /// # Panics
    /// As [`ExternHost::call`].
    pub fn add_entry(
        &mut self,
        site: SiteId,
        packet: &PacketContext<'_>,
        args: &[u64],
        key: &[u64],
        state: &mut State,
    ) -> Option<Entry> {
        let known = &self.sites[site.0 as usize];
        let table = known.table.filter(|_| known.call.func == ExternFn::AddEntry && packet.hit.is_none())?;
        let new = self.run(site, packet, args, |machine, frame, call| machine.new_entry(frame, call, table));
        let ((action, timeout), table) = (new?, TableId::from_index(table));
        if key.len() != state.layout(table).len {
            return None;
        }
        state.add_from_data_plane(table, PackedKey::from_slice(key), action, timeout)
    }

    /// The entries whose idle time has passed at `now`. Those of tables with auto delete are taken out of `state`.
    pub fn expire(&mut self, now: u64, state: &mut State) -> Expired {
        self.advance(now);
        let mut expired = Expired::default();
        while let Some((table, number, entry)) = self.memory.next_idle(now) {
            let kept = &mut self.memory.tables[table as usize];
            let (id, deleted) = (TableId(table), kept.auto_delete);
            if deleted {
                kept.slots[number as usize].end();
                state.remove_idle(id, &entry);
                expired.deleted.push((id, number, entry.clone()));
            } else {
                self.memory.tell_again(table, number, now);
            }
            if expired.idle.len() < MAX_WAITING {
                expired.idle.push(IdleEntry { table: id, entry, deleted });
            } else {
                self.memory.lost += 1;
            }
        }
        expired
    }

    /// Adds what packets that another path handled would have added, as [`crate::Interp::credit`] does. Tallies of actions ([`Credit::Applied`]), and
    /// counters that the engine keeps itself, are the engine's.
    pub fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        self.memory.credit(credit, packets, bytes, last);
    }

    /// Tells the entry of a number from those that had it before.
    pub fn generation(&self, table: TableId, number: u32) -> u32 {
        self.slot(table, number).map_or(0, |slot| slot.generation)
    }

    /// The direct counter of an entry.
    pub fn direct_counter(&self, table: TableId, number: u32) -> Option<Counter> {
        self.slot(table, number).map(|slot| slot.counter)
    }

    /// The time in nanoseconds since the idle time of an entry began.
    pub fn idle_for(&self, table: TableId, number: u32) -> Option<u64> {
        self.slot(table, number).map(|slot| self.memory.now.saturating_sub(slot.active))
    }

    /// What an entry has besides what was written to it.
    pub fn entry_level(&self, table: TableId, number: u32) -> Option<EntryLevel> {
        self.slot(table, number).map(EntrySlot::level)
    }

    /// Sets that.
    pub fn set_entry_level(&mut self, table: TableId, number: u32, level: EntryLevel) {
        self.memory.set_entry_level(table, number, level);
    }

    /// Whether entries do not grow too old for now, whatever the time is.
    pub fn hold_idle(&mut self, hold: bool) {
        self.memory.hold_idle = hold;
    }

    fn slot(&self, table: TableId, number: u32) -> Option<&EntrySlot> {
        let slot = self.memory.tables.get(table.index())?.slots.get(number as usize)?;
        slot.entry.is_some().then_some(slot)
    }

    fn slot_mut(&mut self, table: TableId, number: u32) -> Option<&mut EntrySlot> {
        self.memory.tables.get_mut(table.index())?.slots.get_mut(number as usize)
    }
}
