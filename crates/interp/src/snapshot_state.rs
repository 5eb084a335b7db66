//! [`PersistentState`] of an explainer, which reads entries and objects from a control state on
//! demand; and the accessors that both kinds of memory share.

use crate::element_array::ElementArray;
use crate::lookup::ReferenceTable;
use crate::persistent_state::{ExternState, PersistentState, new_object};
use crate::port_request::{PortPoolStatus, PortRequest};
use crate::program::Reg;
use crate::registers::Registers;
use entries::{CloneSession, ControlState, MulticastGroup, StoredAction, words_for};
use ir::{Entity, ExternId, Pipeline, TableId, ValueSetId};

impl PersistentState {
    /// Creates memory that reads entries and objects from a control state on demand, so that its
    /// cost does not depend on the number of entries. [`PersistentState::reset_to_snapshot`] must
    /// be called before the first packet.
    pub fn over_snapshot(pipeline: &Pipeline, state: ControlState, seed: u64) -> PersistentState {
        PersistentState {
            tables: pipeline.tables.keys().map(|id| ReferenceTable::with_state_lookup(pipeline, id)).collect(),
            objects: pipeline.externs.values().map(|object| new_object(&object.kind, ElementArray::sparse)).collect(),
            ..PersistentState::new(pipeline, state, seed)
        }
    }

    /// Discards the effects of earlier packets and sets the state for the next one. `now` is the
    /// time in nanoseconds, `seed` that of the random numbers.
    pub fn reset_to_snapshot(&mut self, state: &ControlState, registers: Registers, seed: u64, now: u64) {
        self.state = state.clone();
        self.expire_times.clone_from(state.expire_times());
        (self.snapshot_registers, self.random, self.flow_id, self.now) = (Some(registers), seed, 0, now);
        self.digests.clear();
        self.deadlines.clear();
        for object in &mut self.objects {
            match object {
                ExternState::Counter(array) | ExternState::Register(array, _) => array.reset(),
                ExternState::Meter(_, meters) => meters.clear(),
                ExternState::Ports(pool) => pool.clear(),
                ExternState::Quota(quota) => quota.clear(),
                ExternState::Members(_) | ExternState::None => {}
            }
        }
        for index in 0..self.tables.len() {
            self.tables[index].clear();
            self.set_default(TableId::from_index(index));
        }
    }

    /// Looks up the packet's key in a table and returns the slot of the hit entry.
    pub fn lookup(&mut self, table: usize, slots: &[u64], keys: &[Reg]) -> Option<u32> {
        let PersistentState { tables, state, now, .. } = self;
        tables[table].lookup((state, TableId(table as u32)), slots, keys, *now)
    }

    /// Returns the port that a call would get of a pool, if this is the memory of an explainer that knows the
    /// pool.
    pub fn preview_port(&self, pool: usize, request: &PortRequest) -> Option<Result<(u32, u16), PortPoolStatus>> {
        self.snapshot_registers.as_ref()?.preview_port(ExternId::from_index(pool), request, self.now)
    }

    /// Copies an element of a register from its source, if this is the memory of an explainer.
    /// Elements that the packet has written are kept.
    pub fn fetch_register(&mut self, register: usize, index: u64) {
        let (Some(source), Some(ExternState::Register(array, types))) =
            (&self.snapshot_registers, self.objects.get_mut(register))
        else {
            return;
        };
        if array.is_written(index) || index >= array.len() {
            return;
        }
        let Some(values) = source.get(ExternId::from_index(register), index) else { return };
        let mut words = Vec::new();
        for (ty, value) in types.iter().zip(&values) {
            entries::push_words(value, words_for(ty.width()), &mut words);
        }
        if let Some(element) = array.get_mut(index).filter(|element| element.len() == words.len()) {
            element.copy_from_slice(&words);
        }
    }

    /// Returns a multicast group.
    pub fn multicast_group(&self, id: u32) -> Option<&MulticastGroup> {
        if self.snapshot_registers.is_some() {
            self.state.multicast_groups().get(&id)
        } else {
            self.multicast_groups.get(&id)
        }
    }

    /// Returns a clone or mirror session.
    pub fn clone_session(&self, id: u32) -> Option<&CloneSession> {
        if self.snapshot_registers.is_some() {
            self.state.clone_sessions().get(&id)
        } else {
            self.clone_sessions.get(&id)
        }
    }

    /// Returns the members of a value set and the layout of their keys.
    pub fn value_set(&self, set: usize) -> (&entries::KeyLayout, &[entries::PackedKey]) {
        let (layout, members) = &self.value_sets[set];
        let members =
            if self.snapshot_registers.is_some() { self.state.value_set(ValueSetId::from_index(set)) } else { members };
        (layout, members)
    }

    /// Returns whether the actions of a table are in a profile.
    pub fn has_profile(&self, pipeline: &Pipeline, table: usize) -> bool {
        self.members(pipeline, table).is_some()
    }

    /// Returns the member of a group that a hash selects, of the profile of a table; `None` if the
    /// group is empty or does not exist.
    pub fn select_member(
        &self,
        pipeline: &Pipeline,
        table: usize,
        group: u32,
        hash: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let choose = |members: &[u32]| (!members.is_empty()).then(|| members[(hash() % members.len() as u64) as usize]);
        match self.snapshot_registers {
            None => choose(self.members(pipeline, table)?.groups.get(&group)?),
            // An explainer has no copy of the groups.
            Some(_) => {
                let profile = pipeline.tables.get(TableId(table as u32))?.implementation?;
                choose(&self.state.profile(profile)?.groups.get(&group)?.weighted_members().collect::<Vec<u32>>())
            }
        }
    }

    /// Returns the action of a member of the profile of a table.
    pub fn member_action(&self, pipeline: &Pipeline, table: usize, member: u32) -> Option<&StoredAction> {
        match self.snapshot_registers {
            None => self.members(pipeline, table)?.actions.get(&member),
            Some(_) => {
                let profile = pipeline.tables.get(TableId(table as u32))?.implementation?;
                self.state.profile(profile)?.members.get(&member).map(|member| &member.action)
            }
        }
    }
}
