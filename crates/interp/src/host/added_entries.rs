//! Entries that packets add to tables that the engine holds itself: it decides about the addition,
//! and tells the host of the entry then or later.

use crate::host::ExternHost;
use crate::lookup::EntrySlot;
use crate::port_pool::PortLease;
use entries::{Counter, StoredEntry};
use ir::{Entity, TableId};

impl ExternHost {
    /// Makes two entries that a packet has just added twins ([`ExternHost::entry_pending`] has begun
    /// their state), and gives the first one the ports that the packet took.
    pub fn begin_session(&mut self, table: TableId, number: u32, twin: Option<u32>, ports: Vec<PortLease>) {
        self.memory.begin_session(table.index(), number, twin, ports);
    }

    /// Ends the state of an entry that the control state has refused, and of its twin. Returns the
    /// twin's number, and its entry if the control state has it: the engine removes both.
    pub fn session_refused(&mut self, table: TableId, number: u32) -> Option<(u32, Option<StoredEntry>)> {
        let twin = self.memory.end_session(table.index(), number);
        self.slot_mut(table, number)?.remove();
        let slot = self.slot_mut(table, twin?)?;
        let entry = slot.entry.clone();
        slot.remove();
        Some((twin?, entry))
    }

    /// Returns the ports that calls of [`ExternHost::call`] have taken since the last call of this
    /// function. The engine passes them to [`ExternHost::begin_session`] if their packet adds an
    /// entry, otherwise to [`ExternHost::release_ports`].
    pub fn take_ports(&mut self) -> Vec<PortLease> {
        std::mem::take(&mut self.memory.taken_ports)
    }

    /// Releases ports of a packet that added no entry.
    pub fn release_ports(&mut self, ports: &[PortLease]) {
        self.memory.release_unused_ports(ports);
    }

    /// Begins the state of an entry that a packet of the time `now_ns` has just added, before the
    /// control state has it, so that later packets can count with it and change its idle timeout.
    /// `profile` is the expire time profile of the call. [`ExternHost::entry_added`] follows.
    pub fn entry_pending(&mut self, table: TableId, number: u32, profile: u8, now_ns: u64) {
        let timeout_ns = self.expire_time(table, profile);
        self.hit_times.reset(table.index(), number);
        // Ports of an entry that ended before the control state had it.
        self.memory.end_session(table.index(), number);
        let Some(slot) = self.grown_slot(table, number) else { return };
        let generation = slot.generation.wrapping_add(1);
        *slot = EntrySlot {
            idle_since_ns: now_ns,
            idle_timeout_ns: timeout_ns,
            expire_profile: Some(profile),
            generation,
            ..EntrySlot::free()
        };
    }

    /// Records an entry that a packet of the time `now_ns` added with an expire time profile, and
    /// that the control state has by now. With `is_pending` the entry keeps the state that
    /// [`ExternHost::entry_pending`] began, otherwise its counter begins at 0.
    pub fn entry_added(
        &mut self,
        (table, number): (TableId, u32),
        entry: &StoredEntry,
        (now_ns, profile): (u64, u8),
        is_pending: bool,
    ) {
        let Some(slot) = self.grown_slot(table, number) else { return };
        match is_pending {
            true => slot.entry = Some(entry.clone()),
            false => {
                slot.install(entry, Counter::default(), now_ns);
                self.memory.set_expire_profile(table.index(), number, profile);
            }
        }
        self.memory.schedule_expiry(table.0, number);
    }

    /// Moves the state of an entry to another number, because the engine has replaced its record.
    pub fn entry_renumbered(&mut self, table: TableId, from: u32, to: u32) {
        if from == to {
            return;
        }
        let hit_ns = self.hit_times.last_hit_ns(table.index(), from);
        let Some(state) = self.slot_mut(table, from).map(|slot| std::mem::replace(slot, EntrySlot::free())) else {
            return;
        };
        // A deadline that is queued for the old number finds another generation there.
        if let Some(old) = self.slot_mut(table, from) {
            old.generation = state.generation.wrapping_add(1);
        }
        self.hit_times.reset(table.index(), to);
        self.hit_times.record(table.index(), to, hit_ns);
        if let Some(twin) = state.session.as_ref().and_then(|session| session.twin)
            && let Some(part) = self.slot_mut(table, twin).and_then(|slot| slot.session.as_mut())
        {
            part.twin = Some(to);
        }
        let Some(slot) = self.grown_slot(table, to) else { return };
        let generation = slot.generation.wrapping_add(1);
        *slot = EntrySlot { generation, deadline_ns: None, ..state };
        self.memory.schedule_expiry(table.0, to);
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
