//! Access of the control plane to registers, meters, counters, groups and sessions.

use crate::host::ExternHost;
use crate::meter::{MeterColor, MeterFill};
use crate::persistent_state::ExternState;
use entries::{ControlState, Counter, MeterConfig, MulticastGroup, StateChange};
use ir::{Entity, ExternId};
use num_bigint::BigUint;

impl ExternHost {
    /// Carries out the changes of a batch that `state` has accepted, as far as they concern objects
    /// of the host: registers, meters, counters, profiles, value sets, groups, sessions, expire
    /// times.
    ///
    /// Changes of entries are skipped, because they need the entries' numbers
    /// ([`ExternHost::entry_inserted`], [`ExternHost::set_direct_counter`]). The engine handles
    /// default actions.
    pub fn apply_changes(&mut self, changes: &[StateChange], state: &ControlState) {
        let concerns_entries = |change: &StateChange| {
            use StateChange::*;
            matches!(change, Inserted(..) | Modified(..) | Deleted(..) | DefaultAction(_) | DirectCounter(..))
        };
        let mut changes = changes.iter().filter(|change| !concerns_entries(change)).peekable();
        if changes.peek().is_none() {
            return;
        }
        let own = std::mem::replace(&mut self.memory.state, state.clone());
        changes.for_each(|change| self.memory.apply_object_change(change.clone()));
        self.memory.state = own;
    }

    /// Returns the value of an indexed counter. Packets and bytes are both counted, whatever its
    /// unit.
    pub fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.memory.counter(counter, index)
    }

    /// Returns the number of elements of a counter, meter or register.
    pub fn array_len(&self, object: ExternId) -> Option<u64> {
        self.memory.array_len(object)
    }

    /// Returns the leaves of a register's element.
    pub fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.memory.register(register, index)
    }

    /// Returns the configuration of an indexed meter; `None` if it has none.
    pub fn meter(&self, meter: ExternId, index: u64) -> Option<&MeterConfig> {
        match self.memory.objects.get(meter.index())? {
            ExternState::Meter(_, meters) => meters.get(&index).map(|meter| meter.config()),
            _ => None,
        }
    }

    /// Returns the elements of an indexed meter that are not as full as initially.
    pub fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.memory.meter_levels(meter)
    }

    /// Sets the fill of an element of an indexed meter. Has no effect on an element that is not
    /// configured.
    pub fn set_meter_level(&mut self, meter: ExternId, index: u64, level: MeterFill) {
        self.memory.set_meter_level(meter, index, level);
    }

    /// Returns the last allocated flow id.
    pub fn flow_id(&self) -> u32 {
        self.memory.flow_id
    }

    /// Sets the last allocated flow id.
    pub fn set_flow_id(&mut self, id: u32) {
        self.memory.flow_id = id;
    }

    /// Meters a packet of `bytes` with an indexed meter, like `meter.execute` but without the
    /// overhead of a call. Returns the color, or `before` if the index is not configured or beyond
    /// the end.
    #[inline]
    pub fn meter_packet(&mut self, meter: ExternId, index: u64, before: MeterColor, bytes: u64) -> MeterColor {
        self.memory.meter_indexed(&self.pipeline, meter, index, before, bytes)
    }

    /// Returns all words of a counter or register, element by element, for an engine that accesses
    /// them directly. An element of a counter is two words, packets and bytes. An element of a
    /// register is its leaves, each in [`entries::words_for`] its width.
    ///
    /// The words keep their address for the lifetime of the host. `None` if the array is too large
    /// (more than 2^23 words) to be dense, or the object has another type.
    pub fn words_mut(&mut self, object: ExternId) -> Option<&mut [u64]> {
        match self.memory.objects.get_mut(object.index())? {
            ExternState::Counter(array) | ExternState::Register(array, _) => array.dense_mut(),
            _ => None,
        }
    }

    /// Returns a multicast group.
    pub fn multicast_group(&self, id: u32) -> Option<&MulticastGroup> {
        self.memory.multicast_groups.get(&id)
    }
}
