//! Choices that need what the control plane has written: members of profiles and groups, members of value sets.

use crate::host::ExternHost;
use crate::host::place::Place;
use crate::host::selector::SelectorHash;
use crate::lookup::{Target, entry_matches};
use entries::{Action, KeyField};
use ir::{Entity, TableId, ValueSetId};

/// The action of a member of a table's action profile or selector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberAction<'a> {
    /// The member.
    pub member: u32,
    /// Position of its action in the table's list.
    pub arm: u32,
    /// The action's arguments, laid out by [`entries::action_layout`].
    pub args: &'a [u64],
}

impl ExternHost {
    /// The action of a member; `None` if there is no such member, or its action is not the table's: that counts as a miss.
    pub fn member(&self, table: TableId, member: u32) -> Option<MemberAction<'_>> {
        let members = self.memory.members(&self.pipeline, table.index())?;
        let action = members.actions.get(&member)?;
        match (self.memory.tables.get(table.index())?.target(action.packed()).0, action) {
            (Target::Arm(arm), Action::Call(_, args)) => Some(MemberAction { member, arm, args }),
            _ => None,
        }
    }

    /// The member of a group that a hash picks (see [`SelectorHash`]); `None`: the group has no members, or there
    /// is no such group: that counts as a miss.
    pub fn group_member(&self, table: TableId, group: u32, hash: u64) -> Option<MemberAction<'_>> {
        let places = self.memory.members(&self.pipeline, table.index())?.groups.get(&group)?;
        let place = hash.checked_rem(places.len() as u64)?;
        self.member(table, places[place as usize])
    }

    /// How the table's selector keys are hashed. It is a value of its own: an engine may keep it where it needs no host.
    pub fn selector(&self, table: TableId) -> &SelectorHash {
        self.selectors.get(table.index()).unwrap_or(const { &SelectorHash::NONE })
    }

    /// As [`SelectorHash::hash`] of the table.
    pub fn selector_hash(&self, table: TableId, keys: &[u64]) -> u64 {
        self.selector(table).hash(keys)
    }

    /// Where [`ExternHost::in_value_set`] expects the keys, in the order of [`ir::ValueSet::keys`].
    pub fn value_set_places(&self, set: ValueSetId) -> &[Place] {
        self.value_set_places.get(set.index()).map_or(&[], Vec::as_slice)
    }

    /// Whether some member of the value set matches the keys ([`ir::Inst::InValueSet`]).
    pub fn in_value_set(&self, set: ValueSetId, keys: &[u64]) -> bool {
        let Some((layout, members)) = self.memory.value_sets.get(set.index()) else { return false };
        let places = self.value_set_places(set);
        let key = |field: &KeyField| {
            let place = places.get(field.position).copied().unwrap_or_default();
            keys.get(place.word..place.word + place.words).unwrap_or_default()
        };
        members.iter().any(|member| entry_matches(layout, member, key))
    }
}
