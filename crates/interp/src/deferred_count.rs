//! [`DeferredCount`]: counts of packets that were forwarded elsewhere.
//!
//! A cached flow can be forwarded elsewhere (in the kernel, on a card) without this engine. Its
//! updates of counters, action statistics and idle timers are known in advance. They can be added
//! later, and for many packets at once.

use crate::interp::Interp;
use crate::persistent_state::{ExternState, PersistentState};
use ir::{Entity, ExternId, TableId};

/// Update that each packet of a flow makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeferredCount {
    /// Element of an indexed counter.
    Counter {
        /// The counter.
        counter: ExternId,
        /// Index of the element.
        index: u64,
    },
    /// Hit of an entry, with the architecture's effects (idle timer; v1model: direct counter).
    Hit {
        /// Table of the entry.
        table: TableId,
        /// Slot of the entry, from [`crate::block_hook::BlockStepper::lookup`].
        number: u32,
        /// [`Interp::generation`] of the slot. If it has changed, nothing is added.
        generation: u32,
    },
    /// Direct counter of an entry, by PNA's `count`.
    Direct {
        /// Table of the entry.
        table: TableId,
        /// Slot of the entry, from [`crate::block_hook::BlockStepper::lookup`].
        number: u32,
        /// [`Interp::generation`] of the slot. If it has changed, nothing is added.
        generation: u32,
    },
    /// Restart of an entry's idle timer, by PNA's `restart_expire_timer`.
    Restart {
        /// Table of the entry.
        table: TableId,
        /// Slot of the entry, from [`crate::block_hook::BlockStepper::lookup`].
        number: u32,
        /// [`Interp::generation`] of the slot. If it has changed, nothing is added.
        generation: u32,
    },
    /// Statistics of an action of a table ([`Interp::action_counters`]).
    Applied {
        /// The table.
        table: TableId,
        /// Position of the action in the table's list.
        arm: u32,
        /// Whether the packets hit an entry.
        hit: bool,
    },
}

/// Number of bytes counted for a packet: `add`, plus the packet's length if `length` is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteCount {
    /// Whether the length of the received packet counts.
    pub length: bool,
    /// Constant number of bytes, modulo 2^64.
    pub add: u64,
}

impl ByteCount {
    /// The packet's length.
    pub const LENGTH: ByteCount = ByteCount { length: true, add: 0 };

    /// Returns the bytes counted for `packets` packets that have `bytes` in total.
    pub fn total(self, packets: u64, bytes: u64) -> u64 {
        let length = if self.length { bytes } else { 0 };
        length.wrapping_add(self.add.wrapping_mul(packets))
    }
}

impl Interp {
    /// Advances the clock to the time of a packet that was forwarded elsewhere, in nanoseconds.
    /// Returns the engine's time, which never runs backwards.
    pub fn advance_clock(&mut self, now: u64) -> u64 {
        self.memory.now = self.memory.now.max(now);
        self.memory.now
    }

    /// Adds the updates of `packets` packets, the last of them at `last`, in nanoseconds. `bytes`
    /// is the number counted for all of them.
    pub fn add_deferred_count(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        self.memory.apply_deferred_count(credit, packets, bytes, last);
    }
}

impl PersistentState {
    /// Adds `packets` packets of `bytes` bytes, which a cache forwarded, to the counter that `target`
    /// names; for an entry also moves the start of its idle time to `last_packet_ns`. An entry that
    /// was replaced since (another generation) is left alone.
    pub(crate) fn apply_deferred_count(
        &mut self,
        target: &DeferredCount,
        packets: u64,
        bytes: u64,
        last_packet_ns: u64,
    ) {
        let add = |counter: &mut entries::Counter| {
            counter.packets = counter.packets.wrapping_add(packets);
            counter.bytes = counter.bytes.wrapping_add(bytes);
        };
        match *target {
            DeferredCount::Counter { counter, index } => {
                if let Some(ExternState::Counter(array)) = self.objects.get_mut(counter.index())
                    && let Some([counted_packets, counted_bytes]) = array.get_mut(index)
                {
                    *counted_packets = counted_packets.wrapping_add(packets);
                    *counted_bytes = counted_bytes.wrapping_add(bytes);
                }
            }
            DeferredCount::Applied { table, arm, hit } => {
                let action_counters =
                    self.tables.get_mut(table.index()).and_then(|t| t.action_counters.get_mut(arm as usize));
                if let Some(miss_and_hit) = action_counters {
                    add(&mut miss_and_hit[usize::from(hit)]);
                }
            }
            DeferredCount::Hit { table, number, generation }
            | DeferredCount::Direct { table, number, generation }
            | DeferredCount::Restart { table, number, generation } => {
                let Some(state) = self.tables.get_mut(table.index()) else { return };
                let (clock, restart_on_hit, count_on_hit) =
                    (state.idle_clock, state.restart_on_hit, state.count_on_hit);
                let Some(slot) = state.slots.get_mut(number as usize) else { return };
                if slot.generation != generation || slot.entry.is_none() {
                    return;
                }
                let (restarts_timer, counts_packets) = match target {
                    DeferredCount::Hit { .. } => (restart_on_hit, count_on_hit),
                    DeferredCount::Direct { .. } => (false, true),
                    _ => (true, false),
                };
                if restarts_timer {
                    slot.restart_timer((clock, last_packet_ns));
                }
                if counts_packets {
                    add(&mut slot.counter);
                }
                if matches!(target, DeferredCount::Restart { .. }) {
                    self.schedule_expiry(table.0, number);
                }
            }
        }
    }
}
