//! Reading: an entity as a pattern, to the entities that fit it (section "Read RPC").

use super::schema::Schema;
use super::update::no_extern;
use super::{Flow, Sink, replication};
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use crate::{Code, Device, Refusal};
use entries::State;
use std::ops::ControlFlow;

impl Schema {
    /// Gives to `sink` all entities that fit `wanted`, in no particular order; it ends early, without a fault, when `sink` breaks. What
    /// packets change is asked of the device at that moment, all else is of `state`. Digests are not of [`entries`]: see
    /// [`Schema::digests_wanted`].
    ///
    /// # Errors
    /// With the canonical code of the specification's section on the entity. Entities may have been given before.
    pub fn read(&self, device: &dyn Device, state: &State, wanted: &v1::Entity, sink: Sink<'_>) -> Result<(), Refusal> {
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

    fn read_entity(&self, device: &dyn Device, state: &State, wanted: &v1::Entity, sink: Sink<'_>) -> Flow {
        let Some(wanted) = &wanted.entity else {
            return Err(Refusal::invalid("the request has an entity without a kind; set one of its fields"));
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
            E::DigestEntry(_) => Err(Refusal::new(Code::Internal, "a digest's configuration is not of tables")),
            // Of all extern types there are none.
            E::ExternEntry(wanted) if wanted.extern_type_id == 0 => Ok(ControlFlow::Continue(())),
            E::ExternEntry(wanted) => Err(no_extern(wanted.extern_type_id)),
        }
    }
}
