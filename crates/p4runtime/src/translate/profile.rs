//! `ActionProfileMember` and `ActionProfileGroup`.

use super::oneshot::{Oneshots, WatchPortField, port_bytes, watch_port};
use super::reserved_ids::{FIRST_HIDDEN, check_id};
use super::schema::{ProfileSchema, Schema, find};
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::proto::v1::action_profile_group::member::WatchKind;
use crate::{Code, P4RuntimeError};
use entries::{
    ActionProfileGroup, ActionProfileMember, ControlState, GroupMember, ProfileGroup, StateUpdate, StoredAction,
    UpdateKind,
};
use ir::p4info::SizeSemantics;
use ir::{ActionCall, ActionId};
use std::ops::ControlFlow;

/// Checks the weight of a member.
pub(super) fn check_weight(profile: &ProfileSchema, weight: i32) -> Result<(), P4RuntimeError> {
    let most = match profile.semantics {
        SizeSemantics::SumOfMembers { max_member_weight } if max_member_weight > 0 => max_member_weight,
        _ => i64::from(i32::MAX),
    };
    match weight > 0 && i64::from(weight) <= most {
        true => Ok(()),
        false => {
            Err(P4RuntimeError::invalid(format!("{}: weight {weight} is not possible; give 1 to {most}", profile.name)))
        }
    }
}

impl Schema {
    /// Translates the write of a member of an action profile.
    pub(super) fn member(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        message: &v1::ActionProfileMember,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let profile = find(&self.profiles, message.action_profile_id, "action profile")?;
        let id = message.member_id;
        check_id(&profile.name, "member", id)?;
        let write = |action| vec![StateUpdate::Member(kind, ActionProfileMember { profile: profile.id, id, action })];
        if kind == UpdateKind::Delete {
            // Only the id is read.
            return Ok(write(ActionCall { action: ActionId(0), args: Vec::new() }));
        }
        self.check_not_mixed(oneshots, profile, false)?;
        let Some(action) = &message.action else {
            return Err(P4RuntimeError::invalid(format!("{}: member {id} has no action; give one", profile.name)));
        };
        let Some(table) = profile.table.and_then(|table| self.shown_table(table)) else {
            return Err(P4RuntimeError::invalid(format!("{}: no table uses it, so it has no actions", profile.name)));
        };
        Ok(write(self.decode_action(table, action)?))
    }

    /// Translates the write of a group of an action selector, with the checks of its size and watch
    /// ports.
    pub(super) fn group(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        message: &v1::ActionProfileGroup,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let profile = find(&self.profiles, message.action_profile_id, "action profile")?;
        if !profile.with_selector {
            return Err(P4RuntimeError::invalid(format!(
                "{}: it is an action profile and has no groups; write members",
                profile.name
            )));
        }
        let id = message.group_id;
        check_id(&profile.name, "group", id)?;
        let write = |members| vec![StateUpdate::Group(kind, ActionProfileGroup { profile: profile.id, id, members })];
        if kind == UpdateKind::Delete {
            return Ok(write(Vec::new()));
        }
        self.check_not_mixed(oneshots, profile, false)?;
        max_size(profile, id, message.max_size)?;
        let mut members = Vec::new();
        for member in &message.members {
            check_weight(profile, member.weight)?;
            let port_field = member.watch_kind.as_ref().map(|kind| match kind {
                WatchKind::WatchPort(port) => WatchPortField::Bytes(port),
                WatchKind::Watch(port) => WatchPortField::Number(*port),
            });
            let watch = watch_port(oneshots, profile, port_field)?;
            members.push(GroupMember { member: member.member_id, weight: member.weight as u32, watch });
        }
        let size = match profile.semantics {
            SizeSemantics::SumOfWeights => members.iter().map(|member| i64::from(member.weight)).sum(),
            SizeSemantics::SumOfMembers { .. } => members.len() as i64,
        };
        if profile.max_group_size > 0 && size > profile.max_group_size {
            return Err(P4RuntimeError::new(
                Code::ResourceExhausted,
                format!(
                    "{}: group {id} has size {size}, more than its max_group_size {}; leave some members out",
                    profile.name, profile.max_group_size
                ),
            ));
        }
        Ok(write(members))
    }

    /// Encodes a member.
    pub(super) fn member_message(
        &self,
        profile: &ProfileSchema,
        id: u32,
        action: v1::Action,
    ) -> v1::ActionProfileMember {
        v1::ActionProfileMember { action_profile_id: profile.number, member_id: id, action: Some(action) }
    }

    /// Encodes a group.
    pub(super) fn group_message(profile: &ProfileSchema, id: u32, members: &[GroupMember]) -> v1::ActionProfileGroup {
        let member = |member: &GroupMember| v1::action_profile_group::Member {
            member_id: member.member,
            weight: i32::try_from(member.weight).unwrap_or(i32::MAX),
            watch_kind: port_bytes(member.watch).map(WatchKind::WatchPort),
        };
        v1::ActionProfileGroup {
            action_profile_id: profile.number,
            group_id: id,
            members: members.iter().map(member).collect(),
            max_size: i32::try_from(profile.max_group_size).unwrap_or(i32::MAX),
        }
    }

    /// Returns the profiles that a read selects.
    fn wanted_profiles(&self, profile: u32, id: u32, what: &str) -> Result<Vec<&ProfileSchema>, P4RuntimeError> {
        match (profile, id) {
            (0, 0) => Ok(self.profiles.values().collect()),
            (0, id) => Err(P4RuntimeError::invalid(format!(
                "{what} {id} is requested without an action profile; give action_profile_id too, or neither to read all"
            ))),
            _ => Ok(vec![find(&self.profiles, profile, "action profile")?]),
        }
    }

    /// Reads the members of a profile or of all, but not those of action sets, which have reserved
    /// ids.
    pub(super) fn read_members(
        &self,
        state: &ControlState,
        pattern: &v1::ActionProfileMember,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        for profile in self.wanted_profiles(pattern.action_profile_id, pattern.member_id, "member")? {
            let stored = state.profile(profile.id).into_iter().flat_map(|stored| stored.members.range(..FIRST_HIDDEN));
            let mut is_found = false;
            for (id, member) in stored.filter(|(id, _)| pattern.member_id == 0 || **id == pattern.member_id) {
                is_found = true;
                let StoredAction::Call(action, words) = &member.action else { continue };
                let message = self.member_message(profile, *id, self.action_message(*action, words));
                if sink(entity(v1::entity::Entity::ActionProfileMember(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            was_found(is_found, profile, "member", pattern.member_id)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads the groups of a selector or of all, but not those of action sets, which have reserved
    /// ids.
    pub(super) fn read_groups(
        &self,
        state: &ControlState,
        pattern: &v1::ActionProfileGroup,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        for profile in self.wanted_profiles(pattern.action_profile_id, pattern.group_id, "group")? {
            let stored = state.profile(profile.id).into_iter().flat_map(|stored| stored.groups.range(..FIRST_HIDDEN));
            let mut is_found = false;
            for (id, ProfileGroup { members, .. }) in
                stored.filter(|(id, _)| pattern.group_id == 0 || **id == pattern.group_id)
            {
                is_found = true;
                let message = Schema::group_message(profile, *id, members);
                if sink(entity(v1::entity::Entity::ActionProfileGroup(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            was_found(is_found, profile, "group", pattern.group_id)?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn was_found(found: bool, profile: &ProfileSchema, what: &str, id: u32) -> Result<(), P4RuntimeError> {
    match found || id == 0 {
        true => Ok(()),
        false => Err(P4RuntimeError::not_found(format!("{} has no {what} {id}", profile.name))),
    }
}

/// Checks the size of a group (section "Rules on Setting max_size"). It must be the program's,
/// because a size is not stored for each group.
fn max_size(profile: &ProfileSchema, group: u32, given: i32) -> Result<(), P4RuntimeError> {
    let (name, most, given) = (&profile.name, profile.max_group_size, i64::from(given));
    if given == most {
        return Ok(());
    }
    let what = format!("{name}: group {group} has max_size {given}");
    if given < 0 || (most > 0 && (given == 0 || given > most)) {
        let range = if most > 0 { format!("1 to {most}") } else { "0".to_owned() };
        return Err(P4RuntimeError::invalid(format!("{what}, which is not from {range}")));
    }
    let code = if most > 0 { Code::Unimplemented } else { Code::ResourceExhausted };
    Err(P4RuntimeError::new(code, format!("{what}; a size of a single group cannot be set, give {most}")))
}
