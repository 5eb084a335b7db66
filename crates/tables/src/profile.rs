//! Contents of an action profile or selector.

use crate::batch::{ActionProfileGroup, ActionProfileMember, GroupMember, UpdateKind};
use crate::entry::Action;
use crate::error::UpdateError;
use ir::{ExternKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};

/// The most places (weights added up) in a group.
pub const MAX_GROUP_WEIGHT: u32 = 4096;

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its action; always [`Action::Call`].
    pub action: Action,
}

/// A group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// Its members by number.
    pub members: Vec<GroupMember>,
}

impl Group {
    /// The list that the selector's hash picks from: members in order of their numbers, each as often as its weight says.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().flat_map(|m| std::iter::repeat_n(m.member, m.weight as usize))
    }
}

/// Members and groups.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// By number.
    pub members: BTreeMap<u32, Member>,
    /// By number.
    pub groups: BTreeMap<u32, Group>,
}

impl Profile {
    /// Changes a member; `action` is valid for the profile's tables.
    pub(crate) fn update_member(
        &mut self,
        pipeline: &Pipeline,
        kind: UpdateKind,
        update: &ActionProfileMember,
        action: Option<Action>,
    ) -> Result<(), UpdateError> {
        let object = &pipeline.externs[update.profile];
        let name = || object.preamble.name.clone();
        let (what, id) = ("member", update.id);
        let present = self.members.contains_key(&id);
        match (kind, present, action) {
            (UpdateKind::Insert, true, _) => return Err(UpdateError::Exists { what, name: name(), id }),
            (UpdateKind::Modify | UpdateKind::Delete, false, _) => {
                return Err(UpdateError::Missing { what, name: name(), id });
            }
            (UpdateKind::Delete, true, _) | (_, _, None) => {
                let users = self.groups.values().filter(|g| g.members.iter().any(|m| m.member == id)).count() as u64;
                if users > 0 {
                    return Err(UpdateError::InUse { what, name: name(), id, users });
                }
                self.members.remove(&id);
            }
            (UpdateKind::Insert, false, Some(action)) => {
                let size = match object.kind {
                    ExternKind::ActionProfile { size } | ExternKind::ActionSelector { size, .. } => size,
                    _ => 0,
                };
                if size != 0 && self.members.len() as u64 >= size {
                    return Err(UpdateError::ProfileFull { name: name(), size });
                }
                self.members.insert(id, Member { action });
            }
            (UpdateKind::Modify, true, Some(action)) => {
                self.members.insert(id, Member { action });
            }
        }
        Ok(())
    }

    /// Changes a group.
    pub(crate) fn update_group(
        &mut self,
        pipeline: &Pipeline,
        kind: UpdateKind,
        update: &ActionProfileGroup,
    ) -> Result<(), UpdateError> {
        let name = || pipeline.externs[update.profile].preamble.name.clone();
        let (what, id) = ("group", update.id);
        match (kind, self.groups.contains_key(&id)) {
            (UpdateKind::Insert, true) => return Err(UpdateError::Exists { what, name: name(), id }),
            (UpdateKind::Modify | UpdateKind::Delete, false) => {
                return Err(UpdateError::Missing { what, name: name(), id });
            }
            (UpdateKind::Delete, true) => {
                self.groups.remove(&id);
            }
            (UpdateKind::Insert, false) | (UpdateKind::Modify, true) => {
                let group = self.checked_group(update, &name)?;
                self.groups.insert(id, group);
            }
        }
        Ok(())
    }

    fn checked_group(&self, update: &ActionProfileGroup, name: &dyn Fn() -> String) -> Result<Group, UpdateError> {
        let mut seen = BTreeSet::new();
        let mut total: u32 = 0;
        for GroupMember { member, weight } in update.members.iter().copied() {
            if !self.members.contains_key(&member) {
                return Err(UpdateError::Missing { what: "member", name: name(), id: member });
            }
            if !seen.insert(member) {
                return Err(UpdateError::MemberTwice { name: name(), group: update.id, member });
            }
            total = total.saturating_add(weight);
            if weight == 0 || total > MAX_GROUP_WEIGHT {
                let most = MAX_GROUP_WEIGHT;
                return Err(UpdateError::Weight { name: name(), group: update.id, member, weight, most });
            }
        }
        let mut members = update.members.clone();
        members.sort_by_key(|m| m.member);
        Ok(Group { members })
    }
}
