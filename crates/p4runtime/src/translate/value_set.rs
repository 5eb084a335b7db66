//! `ValueSetEntry`.

use super::schema::{Schema, ValueSetSchema, find};
use super::update::only_modify;
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::{Code, P4RuntimeError};
use entries::{ControlState, StateUpdate, UpdateKind};
use ir::KeyMatch;
use std::collections::HashSet;
use std::ops::ControlFlow;

impl Schema {
    /// Translates the write of a value set, which replaces all of its members.
    pub(super) fn value_set_write(
        &self,
        kind: UpdateKind,
        message: &v1::ValueSetEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a value set")?;
        let set = find(&self.sets, message.value_set_id, "value set")?;
        let mut seen: HashSet<Vec<KeyMatch>> = HashSet::new();
        let mut members = Vec::new();
        for (index, member) in message.members.iter().enumerate() {
            let keys = set.fields.decode(&member.r#match)?;
            if !seen.insert(keys.clone()) {
                return Err(P4RuntimeError::new(
                    Code::AlreadyExists,
                    format!("{}: member {index} (from 0) is there twice; give it once", set.fields.owner),
                ));
            }
            members.push(keys);
        }
        Ok(vec![StateUpdate::ValueSet(set.id, members)])
    }

    pub(super) fn value_set_message<'a>(
        set: &ValueSetSchema,
        members: impl Iterator<Item = &'a [u64]>,
    ) -> v1::ValueSetEntry {
        let member = |key: &[u64]| v1::ValueSetMember { r#match: set.fields.encode(&set.layout, key) };
        v1::ValueSetEntry { value_set_id: set.number, members: members.map(member).collect() }
    }

    pub(super) fn read_value_sets(
        &self,
        state: &ControlState,
        wanted: &v1::ValueSetEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        let sets = match wanted.value_set_id {
            0 => self.sets.values().collect(),
            id => vec![find(&self.sets, id, "value set")?],
        };
        for set in sets {
            let members = state.value_set(set.id).iter().map(|member| member.as_slice());
            let message = Schema::value_set_message(set, members);
            if sink(entity(v1::entity::Entity::ValueSetEntry(message))).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
