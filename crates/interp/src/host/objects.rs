//! Registers, meters, counters, groups and sessions, as the control plane writes and reads them.

use crate::host::ExternHost;
use crate::memory::Object;
use crate::meter::{Colour, MeterLevel};
use entries::{Change, Counter, MeterConfig, MulticastGroup, State};
use ir::{Entity, ExternId};
use num_bigint::BigUint;

impl ExternHost {
    /// Carries out the changes of a batch that `state` has accepted, as far as they concern what the host keeps: registers,
    /// meters, counters, profiles, value sets, groups, sessions, expire times. What concerns entries is passed over: it
    /// takes the entries' numbers ([`ExternHost::entry_inserted`], [`ExternHost::set_direct_counter`]). Default actions are
    /// the engine's.
    pub fn carry_out(&mut self, changes: &[Change], state: &State) {
        let concerns_entries = |change: &Change| {
            use Change::*;
            matches!(change, Inserted(..) | Modified(..) | Deleted(..) | DefaultAction(_) | DirectCounter(..))
        };
        let mut changes = changes.iter().filter(|change| !concerns_entries(change)).peekable();
        if changes.peek().is_none() {
            return;
        }
        let own = std::mem::replace(&mut self.memory.state, state.clone());
        changes.for_each(|change| self.memory.carry_out_object(change.clone()));
        self.memory.state = own;
    }

    /// The value of an indexed counter. Packets and bytes are both counted, whatever its unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.memory.counter(counter, index)
    }

    /// How many elements a counter, meter or register has.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.memory.array_len(object)
    }

    /// The leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.memory.register(register, index)
    }

    /// The configuration of an indexed meter; `None` if it has none.
    pub fn meter(&self, meter: ExternId, index: u64) -> Option<&MeterConfig> {
        match self.memory.objects.get(meter.index())? {
            Object::Meter(_, meters) => meters.get(&index).map(|meter| meter.config()),
            _ => None,
        }
    }

    /// The elements of an indexed meter that are not as full as at first.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.memory.meter_levels(meter)
    }

    /// Sets how full an element of an indexed meter is; one that is not configured stays so.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterLevel) {
        self.memory.set_meter_level(meter, index, level);
    }

    /// The flow id that was given last.
    pub fn flow_id(&self) -> u32 {
        self.memory.flow_id
    }

    /// The next flow id follows on this one.
    pub fn set_flow_id(&mut self, id: u32) {
        self.memory.flow_id = id;
    }

    /// Meters a packet of `bytes` with an indexed meter, as `meter.execute` does, without the way through a call: the colour; of
    /// an index that is not configured, or beyond the end, `before`.
    #[inline]
    pub fn mark(&mut self, meter: ExternId, index: u64, before: Colour, bytes: u64) -> Colour {
        self.memory.mark(&self.pipeline, meter, index, before, bytes)
    }

    /// All words of a counter or register, element by element, for an engine that reads and writes them itself. Of a
    /// counter an element is two words, packets and bytes; of a register its leaves, each in [`entries::words_for`] its width. The
    /// words stay where they are in memory as long as the host lives. `None`: the array is too large (more than 2^23 words) to
    /// be kept as a whole, or the object is something else.
    pub fn words_mut(&mut self, object: ExternId) -> Option<&mut [u64]> {
        match self.memory.objects.get_mut(object.index())? {
            Object::Counter(array) | Object::Register(array, _) => array.dense_mut(),
            _ => None,
        }
    }

    /// A multicast group.
    pub fn multicast_group(&self, id: u32) -> Option<&MulticastGroup> {
        self.memory.multicast.get(&id)
    }
}
