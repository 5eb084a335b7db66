//! Read of the entities that match a pattern (section "Read RPC").

use super::schema::Schema;
use super::update::no_extern;
use super::{EntitySink, ReadFlow, replication};
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::{Code, Device, P4RuntimeError};
use entries::ControlState;
use std::ops::ControlFlow;

impl Schema {
    /// Passes all entities that match `wanted` to `sink`, in no particular order. The read ends
    /// early, without an error, when `sink` breaks.
    ///
    /// Values that packets change are read from the device at that moment, all others from `state`.
    /// Digests are not in [`entries`]: see [`Schema::digests_wanted`].
    ///
    /// # Errors
    /// The canonical code of the specification's section on the entity. `sink` can have received
    /// entities before.
    pub fn read(
        &self,
        device: &dyn Device,
        state: &ControlState,
        wanted: &v1::Entity,
        sink: EntitySink<'_>,
    ) -> Result<(), P4RuntimeError> {
        if self.strings.is_empty() {
            return self.read_entity(device, state, wanted, sink).map(drop);
        }
        let Some(wanted) = self.numbered_pattern(state, wanted)? else { return Ok(()) };
        let mut named = |mut entity: v1::Entity| {
            self.name_entity(state, &mut entity);
            sink(entity)
        };
        self.read_entity(device, state, &wanted, &mut named).map(drop)
    }

    /// Reads the entities that a pattern matches, and passes them to the sink.
    fn read_entity(
        &self,
        device: &dyn Device,
        state: &ControlState,
        pattern: &v1::Entity,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let Some(pattern) = &pattern.entity else {
            return Err(P4RuntimeError::invalid("the request has an entity without a kind; set one of its fields"));
        };
        match pattern {
            E::TableEntry(pattern) => self.read_entries(device, state, pattern, sink),
            E::ActionProfileMember(pattern) => self.read_members(state, pattern, sink),
            E::ActionProfileGroup(pattern) => self.read_groups(state, pattern, sink),
            E::CounterEntry(pattern) => self.read_counters(device, pattern, sink),
            E::DirectCounterEntry(pattern) => self.read_direct_counters(device, state, pattern, sink),
            E::MeterEntry(pattern) => self.read_meters(state, pattern, sink),
            E::DirectMeterEntry(pattern) => self.read_direct_meters(device, state, pattern, sink),
            E::RegisterEntry(pattern) => self.read_registers(device, pattern, sink),
            E::ValueSetEntry(pattern) => self.read_value_sets(state, pattern, sink),
            E::PacketReplicationEngineEntry(pattern) => replication::read(state, pattern, sink),
            E::DigestEntry(_) => Err(P4RuntimeError::new(Code::Internal, "a digest's configuration is not of tables")),
            // No extern types exist, so that a read of all returns none.
            E::ExternEntry(pattern) if pattern.extern_type_id == 0 => Ok(ControlFlow::Continue(())),
            E::ExternEntry(pattern) => Err(no_extern(pattern.extern_type_id)),
        }
    }
}
