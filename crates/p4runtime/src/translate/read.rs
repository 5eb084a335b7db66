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

    fn read_entity(
        &self,
        device: &dyn Device,
        state: &ControlState,
        wanted: &v1::Entity,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let Some(wanted) = &wanted.entity else {
            return Err(P4RuntimeError::invalid("the request has an entity without a kind; set one of its fields"));
        };
        match wanted {
            E::TableEntry(wanted) => self.read_entries(device, state, wanted, sink),
            E::ActionProfileMember(wanted) => self.read_members(state, wanted, sink),
            E::ActionProfileGroup(wanted) => self.read_groups(state, wanted, sink),
            E::CounterEntry(wanted) => self.read_counters(device, wanted, sink),
            E::DirectCounterEntry(wanted) => self.read_direct_counters(device, state, wanted, sink),
            E::MeterEntry(wanted) => self.read_meters(state, wanted, sink),
            E::DirectMeterEntry(wanted) => self.read_direct_meters(state, wanted, sink),
            E::RegisterEntry(wanted) => self.read_registers(device, wanted, sink),
            E::ValueSetEntry(wanted) => self.read_value_sets(state, wanted, sink),
            E::PacketReplicationEngineEntry(wanted) => replication::read(state, wanted, sink),
            E::DigestEntry(_) => Err(P4RuntimeError::new(Code::Internal, "a digest's configuration is not of tables")),
            // No extern types exist, so that a read of all returns none.
            E::ExternEntry(wanted) if wanted.extern_type_id == 0 => Ok(ControlFlow::Continue(())),
            E::ExternEntry(wanted) => Err(no_extern(wanted.extern_type_id)),
        }
    }
}
