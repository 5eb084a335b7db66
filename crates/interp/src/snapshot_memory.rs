//! What outlives a packet, as an explainer has it: [`Memory`] that holds nothing of what a state has, but looks there when a packet
//! asks; and the questions that both kinds of memory answer.

use crate::array::Array;
use crate::lookup::Table;
use crate::memory::{Memory, Object, new_object};
use crate::program::Reg;
use crate::registers::Registers;
use entries::{Action, CloneSession, MulticastGroup, State, words_for};
use ir::{Entity, ExternId, Pipeline, TableId, ValueSetId};

impl Memory {
    /// Memory that holds nothing of what a state has, but looks there when a packet asks. It costs the same however many entries
    /// there are. Begin with [`Memory::look_at`].
    pub fn over(pipeline: &Pipeline, state: State, seed: u64) -> Memory {
        Memory {
            tables: pipeline.tables.keys().map(|id| Table::in_state(pipeline, id)).collect(),
            objects: pipeline.externs.values().map(|object| new_object(&object.kind, Array::sparse)).collect(),
            ..Memory::new(pipeline, state, seed)
        }
    }

    /// What packets did is forgotten, and the next ones find this.
    pub fn look_at(&mut self, state: &State, registers: Registers, seed: u64, now: u64) {
        self.state = state.clone();
        self.expire_times.clone_from(state.expire_times());
        (self.present, self.random, self.flow_id, self.now) = (Some(registers), seed, 0, now);
        self.digests.clear();
        self.deadlines.clear();
        for object in &mut self.objects {
            match object {
                Object::Counter(array) | Object::Register(array, _) => array.forget(),
                Object::Meter(_, meters) => meters.clear(),
                Object::Members(_) | Object::None => {}
            }
        }
        for index in 0..self.tables.len() {
            self.tables[index].clear();
            self.set_default(TableId::from_index(index));
        }
    }

    /// Looks up what a table finds for a packet with these slots: the number of the entry.
    pub fn lookup(&mut self, table: usize, slots: &[u64], keys: &[Reg]) -> Option<u32> {
        let Memory { tables, state, now, .. } = self;
        tables[table].lookup((state, TableId(table as u32)), slots, keys, *now)
    }

    /// An explainer's: brings the element of a register here as it is at present.
    pub fn fetch(&mut self, register: usize, index: u64) {
        let (Some(present), Some(Object::Register(array, types))) = (&self.present, self.objects.get_mut(register))
        else {
            return;
        };
        if array.has(index) || index >= array.len() {
            return;
        }
        let Some(values) = present.get(ExternId::from_index(register), index) else { return };
        let mut words = Vec::new();
        for (ty, value) in types.iter().zip(&values) {
            entries::push_words(value, words_for(ty.width()), &mut words);
        }
        if let Some(element) = array.get_mut(index).filter(|element| element.len() == words.len()) {
            element.copy_from_slice(&words);
        }
    }

    /// A multicast group.
    pub fn multicast_group(&self, id: u32) -> Option<&MulticastGroup> {
        if self.present.is_some() { self.state.multicast_groups().get(&id) } else { self.multicast.get(&id) }
    }

    /// A clone or mirror session.
    pub fn clone_session(&self, id: u32) -> Option<&CloneSession> {
        if self.present.is_some() { self.state.clone_sessions().get(&id) } else { self.clones.get(&id) }
    }

    /// The members of a value set, and how they lie in words.
    pub fn value_set(&self, set: usize) -> (&entries::KeyLayout, &[entries::PackedKey]) {
        let (layout, members) = &self.value_sets[set];
        let members = if self.present.is_some() { self.state.value_set(ValueSetId::from_index(set)) } else { members };
        (layout, members)
    }

    /// Whether a table has its actions in a profile.
    pub fn has_profile(&self, pipeline: &Pipeline, table: usize) -> bool {
        self.members(pipeline, table).is_some()
    }

    /// The member of a group to which a hash leads, of the profile that a table uses; `None`: the group has none.
    pub fn pick(&self, pipeline: &Pipeline, table: usize, group: u32, hash: impl FnOnce() -> u64) -> Option<u32> {
        let nth = |places: &[u32]| (!places.is_empty()).then(|| places[(hash() % places.len() as u64) as usize]);
        match self.present {
            None => nth(self.members(pipeline, table)?.groups.get(&group)?),
            Some(_) => {
                let profile = pipeline.tables.get(TableId(table as u32))?.implementation?;
                nth(&self.state.profile(profile)?.groups.get(&group)?.places().collect::<Vec<u32>>())
            }
        }
    }

    /// The action of a member, of the profile that a table uses.
    pub fn member_action(&self, pipeline: &Pipeline, table: usize, member: u32) -> Option<&Action> {
        match self.present {
            None => self.members(pipeline, table)?.actions.get(&member),
            Some(_) => {
                let profile = pipeline.tables.get(TableId(table as u32))?.implementation?;
                self.state.profile(profile)?.members.get(&member).map(|member| &member.action)
            }
        }
    }
}
