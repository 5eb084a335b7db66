//! [`Credit`]: what packets that another path handled would have counted here.
//!
//! A packet that a copy of a decision handled elsewhere (in the kernel, on a card) leaves no trace in this engine, but what it would have added up is known:
//! counters, tallies of tables, and the idle times of entries. Those of many packets may be added at once, and late.

use crate::interp::Interp;
use crate::memory::{Memory, Object};
use ir::{Entity, ExternId, TableId};

/// Something that each packet of a flow adds to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Credit {
    /// An element of an indexed counter.
    Counter {
        /// The counter.
        counter: ExternId,
        /// Which element.
        index: u64,
    },
    /// An entry is hit: what its architecture does then (idle time; v1model: direct counter).
    Hit {
        /// Its table.
        table: TableId,
        /// Its number, as [`crate::walk::Walker::lookup`] gives it.
        number: u32,
        /// [`Interp::generation`]: if another entry has the number now, nothing is added.
        generation: u32,
    },
    /// An entry's direct counter, by PNA's `count`.
    Direct {
        /// Its table.
        table: TableId,
        /// See [`Credit::Hit`].
        number: u32,
        /// See [`Credit::Hit`].
        generation: u32,
    },
    /// An entry's idle time begins anew, by PNA's `restart_expire_timer`.
    Restart {
        /// Its table.
        table: TableId,
        /// See [`Credit::Hit`].
        number: u32,
        /// See [`Credit::Hit`].
        generation: u32,
    },
    /// The tally of an action of a table ([`Interp::applied`]).
    Applied {
        /// The table.
        table: TableId,
        /// Position of the action in the table's list.
        arm: u32,
        /// With a hit.
        hit: bool,
    },
}

/// How many bytes a counter counts for a packet of `length` bytes: `add`, and the length if `length` is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteForm {
    /// The packet's length as it came in counts.
    pub length: bool,
    /// Bytes besides, modulo 2^64.
    pub add: u64,
}

impl ByteForm {
    /// The packet's length.
    pub const LENGTH: ByteForm = ByteForm { length: true, add: 0 };

    /// Of so many packets that have `bytes` in all.
    pub fn total(self, packets: u64, bytes: u64) -> u64 {
        let length = if self.length { bytes } else { 0 };
        length.wrapping_add(self.add.wrapping_mul(packets))
    }
}

impl Interp {
    /// A packet came at that time, in nanoseconds, that another path handled: for later ones it is not earlier. The time that it is for the engine.
    pub fn saw(&mut self, now: u64) -> u64 {
        self.memory.now = self.memory.now.max(now);
        self.memory.now
    }

    /// Adds what so many packets, the last of them at `last` nanoseconds, would have added. `bytes` is what a counter counts for all of them.
    pub fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        self.memory.credit(credit, packets, bytes, last);
    }
}

impl Memory {
    /// See [`Interp::credit`].
    pub(crate) fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        let add = |counter: &mut entries::Counter| {
            counter.packets = counter.packets.wrapping_add(packets);
            counter.bytes = counter.bytes.wrapping_add(bytes);
        };
        match *credit {
            Credit::Counter { counter, index } => {
                if let Some(Object::Counter(array)) = self.objects.get_mut(counter.index())
                    && let Some([p, b]) = array.get_mut(index)
                {
                    *p = p.wrapping_add(packets);
                    *b = b.wrapping_add(bytes);
                }
            }
            Credit::Applied { table, arm, hit } => {
                let tallies = self.tables.get_mut(table.index()).and_then(|t| t.applied.get_mut(arm as usize));
                if let Some(tally) = tallies {
                    add(&mut tally[usize::from(hit)]);
                }
            }
            Credit::Hit { table, number, generation }
            | Credit::Direct { table, number, generation }
            | Credit::Restart { table, number, generation } => {
                let Some(entries) = self.tables.get_mut(table.index()) else { return };
                let (restarts, counts) = (entries.restart_on_hit, entries.count_on_hit);
                let Some(slot) = entries.slots.get_mut(number as usize) else { return };
                if slot.generation != generation || slot.entry.is_none() {
                    return;
                }
                let (restart, count) = match credit {
                    Credit::Hit { .. } => (restarts, counts),
                    Credit::Direct { .. } => (false, true),
                    _ => (true, false),
                };
                if restart {
                    slot.active = slot.active.max(last);
                }
                if count {
                    add(&mut slot.counter);
                }
                if matches!(credit, Credit::Restart { .. }) {
                    self.watch(table.0, number);
                }
            }
        }
    }
}
