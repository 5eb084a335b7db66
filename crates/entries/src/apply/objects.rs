//! Updates of all objects except entries.
//! The objects are profiles, meters, counters, registers, value sets, groups and sessions.

use super::{MAX_REPLICAS, Transaction, UndoRecord};
use crate::batch::*;
use crate::entry::{MeterConfig, UpdateKind};
use crate::error::UpdateError;
use crate::packer;
use crate::validate;
use ir::{ExternId, ExternKind, ValueSetId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Updates of externs, value sets, groups and sessions.
impl Transaction<'_> {
    /// Updates a member of an action profile. Its action must be valid for each table that uses the
    /// profile; a member that entries use cannot be deleted.
    pub(super) fn apply_member(&mut self, kind: UpdateKind, member: &ActionProfileMember) -> Result<(), UpdateError> {
        let pipeline = self.pipeline;
        let name = self.profile_name(member.profile)?;
        let mut action = None;
        if kind != UpdateKind::Delete {
            let user_tables = pipeline.tables.values().filter(|t| t.implementation == Some(member.profile));
            for table in user_tables {
                action = Some(packer::pack_call(pipeline, table, &member.action, false)?);
            }
            if action.is_none() {
                // No table uses the profile, so the action cannot be validated.
                return Err(UpdateError::WrongExtern {
                    name,
                    expected: "profile of a table",
                    got: "profile without one",
                });
            }
        } else if let Some(users) = self.user_count(member.profile, false, member.id) {
            return Err(UpdateError::InUse { what: "member", name, id: member.id, users });
        }
        self.save_profile(member.profile);
        if let Some(profile) = self.state.profiles.get_mut(&member.profile) {
            Arc::make_mut(profile).update_member(pipeline, kind, member, action)?;
        }
        self.changes.push(StateChange::Member(member.profile, member.id));
        Ok(())
    }

    pub(super) fn apply_group(&mut self, kind: UpdateKind, group: &ActionProfileGroup) -> Result<(), UpdateError> {
        let pipeline = self.pipeline;
        let name = self.profile_name(group.profile)?;
        if !matches!(pipeline.externs[group.profile].kind, ExternKind::ActionSelector { .. }) {
            return Err(UpdateError::WrongExtern { name, expected: "action selector", got: "action profile" });
        }
        if kind == UpdateKind::Delete
            && let Some(users) = self.user_count(group.profile, true, group.id)
        {
            return Err(UpdateError::InUse { what: "group", name, id: group.id, users });
        }
        self.save_profile(group.profile);
        if let Some(profile) = self.state.profiles.get_mut(&group.profile) {
            Arc::make_mut(profile).update_group(pipeline, kind, group, &self.state.ports)?;
        }
        self.changes.push(StateChange::Group(group.profile, group.id));
        Ok(())
    }

    /// Updates the port status: groups with members that depend on a changed port select again.
    pub(super) fn apply_ports(&mut self, ports: Option<&BTreeMap<u32, DevicePort>>) {
        let ports = match (ports, &self.state.ports) {
            (Some(new), Some(known)) if *new == **known => return,
            (new, _) => new.cloned().map(Arc::new),
        };
        let moved = self.state.profiles.iter().map(|(id, profile)| (*id, profile.groups_changed_by(&ports)));
        let moved: Vec<_> = moved.filter(|(_, groups)| !groups.is_empty()).collect();
        for (id, groups) in moved {
            self.save_profile(id);
            let Some(profile) = self.state.profiles.get_mut(&id) else { continue };
            let profile = Arc::make_mut(profile);
            for group in groups {
                profile.update_down_members(group, &ports);
                self.changes.push(StateChange::Group(id, group));
            }
        }
        self.undo_log.push(UndoRecord::Ports(std::mem::replace(&mut self.state.ports, ports)));
    }

    pub(super) fn user_count(&self, profile: ExternId, group: bool, id: u32) -> Option<u64> {
        self.state.users.get(&(profile, group, id)).copied().filter(|users| *users > 0)
    }

    pub(super) fn profile_name(&self, id: ExternId) -> Result<String, UpdateError> {
        let object = self.find_object(id)?;
        match object.kind {
            ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => Ok(object.preamble.name.clone()),
            _ => Err(self.wrong_extern_error(id, "action profile or selector")),
        }
    }

    /// Reports whether a similar record was made recently. The whole structure is saved then, and
    /// is no longer shared, so further changes copy nothing. Saving it again is harmless, but
    /// scanning the whole log would be slow.
    pub(super) fn is_saved(&self, is_it: impl Fn(&UndoRecord) -> bool) -> bool {
        self.undo_log.iter().rev().take(64).any(is_it)
    }

    pub(super) fn save_profile(&mut self, id: ExternId) {
        let saved = self.is_saved(|u| matches!(u, UndoRecord::Profile(other, _) if *other == id));
        if let (false, Some(profile)) = (saved, self.state.profiles.get(&id)) {
            self.undo_log.push(UndoRecord::Profile(id, profile.clone()));
        }
    }

    pub(super) fn find_object(&self, id: ExternId) -> Result<&ir::ExternInst, UpdateError> {
        let count = self.pipeline.externs.len();
        self.pipeline.externs.get(id).ok_or(UpdateError::UnknownExtern { index: id.0, count })
    }

    pub(super) fn wrong_extern_error(&self, id: ExternId, expected: &'static str) -> UpdateError {
        let object = &self.pipeline.externs[id];
        let got = match object.kind {
            ExternKind::Counter { .. } => "counter",
            ExternKind::DirectCounter { .. } => "direct counter",
            ExternKind::Meter { .. } => "meter",
            ExternKind::DirectMeter { .. } => "direct meter",
            ExternKind::Register { .. } => "register",
            ExternKind::ActionProfile { .. } => "action profile",
            ExternKind::ActionSelector { .. } => "action selector",
            ExternKind::Digest { .. } => "digest",
            _ => "object without control-plane state",
        };
        UpdateError::WrongExtern { name: object.preamble.name.clone(), expected, got }
    }

    pub(super) fn check_index(
        &self,
        id: ExternId,
        index: u64,
        expected: &'static str,
        size: impl Fn(&ExternKind) -> Option<u64>,
    ) -> Result<(), UpdateError> {
        let object = self.find_object(id)?;
        match size(&object.kind) {
            None => Err(self.wrong_extern_error(id, expected)),
            Some(size) if index >= size => Err(UpdateError::Index { name: object.preamble.name.clone(), index, size }),
            Some(_) => Ok(()),
        }
    }

    /// Sets the configuration of the meter at `index` in the array `id`; `None` removes it.
    pub(super) fn set_meter(
        &mut self,
        id: ExternId,
        index: u64,
        config: Option<&MeterConfig>,
    ) -> Result<(), UpdateError> {
        let size_of = |kind: &ExternKind| match kind {
            ExternKind::Meter { size, .. } => Some(*size),
            _ => None,
        };
        self.check_index(id, index, "meter", size_of)?;
        if let Some(config) = config {
            let name = || self.pipeline.externs[id].preamble.name.clone();
            validate::check_meter(config).map_err(|source| UpdateError::Meter { name: name(), index, source })?;
        }
        // All meters are saved once in a transaction, before the first change.
        if !self.is_saved(|record| matches!(record, UndoRecord::Meters(_))) {
            self.undo_log.push(UndoRecord::Meters(self.state.meters.clone()));
        }
        let meters = Arc::make_mut(&mut self.state.meters);
        match config {
            Some(config) => meters.insert((id, index), *config),
            None => meters.remove(&(id, index)),
        };
        self.changes.push(StateChange::Meter(id, index));
        Ok(())
    }

    /// Records that the registers of the array `id` get `values`, one number for each leaf of the
    /// register's type: those at `index`, or all of them (`None`). The engines write them.
    pub(super) fn set_register(
        &mut self,
        id: ExternId,
        index: Option<u64>,
        values: &[num_bigint::BigUint],
    ) -> Result<(), UpdateError> {
        let size_of = |kind: &ExternKind| match kind {
            ExternKind::Register { size, .. } => Some(*size),
            _ => None,
        };
        match index {
            Some(index) => self.check_index(id, index, "register", size_of)?,
            None if size_of(&self.find_object(id)?.kind).is_none() => {
                return Err(self.wrong_extern_error(id, "register"));
            }
            None => {}
        }
        let object = self.find_object(id)?;
        let name = || object.preamble.name.clone();
        if let ExternKind::Register { elem, .. } = &object.kind {
            let (expected, got) = (elem.len(), values.len());
            if expected != got {
                return Err(UpdateError::RegisterArity { name: name(), expected, got });
            }
            for (ty, value) in elem.iter().zip(values) {
                let width = ty.width();
                if value.bits() > u64::from(width) {
                    return Err(UpdateError::RegisterTooWide { name: name(), value: value.clone(), width });
                }
            }
        }
        self.changes.push(StateChange::Register(id, index, values.to_vec()));
        Ok(())
    }

    pub(super) fn set_value_set(&mut self, id: ValueSetId, members: &[Vec<ir::KeyMatch>]) -> Result<(), UpdateError> {
        let count = self.pipeline.value_sets.len();
        let Some(set) = self.pipeline.value_sets.get(id) else {
            return Err(UpdateError::UnknownValueSet { index: id.0, count });
        };
        let name = &set.preamble.name;
        if members.len() as u64 > set.size {
            return Err(UpdateError::ValueSetFull { name: name.clone(), got: members.len(), size: set.size });
        }
        let layout = self.state.value_set_layout(id);
        let packed: Result<Vec<_>, _> =
            members.iter().map(|member| packer::pack_valid_keys(name, &set.keys, layout, member)).collect();
        let old = std::mem::replace(&mut self.state.value_sets[id.0 as usize], Arc::new(packed?));
        self.undo_log.push(UndoRecord::ValueSet(id, old));
        self.changes.push(StateChange::ValueSet(id));
        Ok(())
    }

    pub(super) fn apply_multicast_group(
        &mut self,
        kind: UpdateKind,
        group: &MulticastGroup,
    ) -> Result<(), UpdateError> {
        let (what, id) = ("multicast group", group.id);
        if id == 0 {
            return Err(UpdateError::ZeroId { what });
        }
        check_replica_count(what, id, &group.replicas)?;
        if !self.is_saved(|u| matches!(u, UndoRecord::Multicast(_))) {
            self.undo_log.push(UndoRecord::Multicast(self.state.multicast.clone()));
        }
        apply_keyed_object(Arc::make_mut(&mut self.state.multicast), kind, what, id, group)?;
        self.changes.push(StateChange::Multicast(id));
        Ok(())
    }

    pub(super) fn apply_clone_session(&mut self, kind: UpdateKind, session: &CloneSession) -> Result<(), UpdateError> {
        let (what, id) = ("clone session", session.id);
        check_replica_count(what, id, &session.replicas)?;
        if !self.is_saved(|u| matches!(u, UndoRecord::Clones(_))) {
            self.undo_log.push(UndoRecord::Clones(self.state.clones.clone()));
        }
        apply_keyed_object(Arc::make_mut(&mut self.state.clones), kind, what, id, session)?;
        self.changes.push(StateChange::Clone(id));
        Ok(())
    }
}

fn check_replica_count(what: &'static str, id: u32, replicas: &[Replica]) -> Result<(), UpdateError> {
    match replicas.len() > MAX_REPLICAS {
        true => Err(UpdateError::TooManyReplicas { what, id, got: replicas.len(), most: MAX_REPLICAS }),
        false => Ok(()),
    }
}

/// Inserts, modifies or deletes the object `id` in `map`, and checks that it exists or not, as
/// `kind` demands. `what` is the kind of object in errors.
fn apply_keyed_object<T: Clone>(
    map: &mut BTreeMap<u32, T>,
    kind: UpdateKind,
    what: &'static str,
    id: u32,
    object: &T,
) -> Result<(), UpdateError> {
    let name = || "the packet replication engine".to_owned();
    match (kind, map.contains_key(&id)) {
        (UpdateKind::Insert, true) => Err(UpdateError::Exists { what, name: name(), id }),
        (UpdateKind::Modify | UpdateKind::Delete, false) => Err(UpdateError::Missing { what, name: name(), id }),
        (UpdateKind::Delete, true) => {
            map.remove(&id);
            Ok(())
        }
        _ => {
            map.insert(id, object.clone());
            Ok(())
        }
    }
}
