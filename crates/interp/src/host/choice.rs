//! Choices that depend on the control plane's state: members of profiles and groups, members of
//! value sets.

use crate::host::ExternHost;
use crate::host::selector::SelectorHash;
use crate::host::value_slot::ValueSlot;
use crate::lookup::{HitTarget, entry_matches};
use entries::{PackedKeyField, StoredAction};
use ir::{Entity, TableId, ValueSetId};

/// Action of a member of a table's action profile or selector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberAction<'a> {
    /// Id of the member.
    pub member: u32,
    /// Position of its action in the table's list.
    pub arm: u32,
    /// Action data, in the layout of [`entries::action_layout`].
    pub args: &'a [u64],
}

impl ExternHost {
    /// Returns the action of a member. `None` if the member does not exist or the table does not
    /// list its action; this counts as a miss.
    pub fn member(&self, table: TableId, member: u32) -> Option<MemberAction<'_>> {
        let members = self.memory.members(&self.pipeline, table.index())?;
        let action = members.actions.get(&member)?;
        match (self.memory.tables.get(table.index())?.target(action.packed()).0, action) {
            (HitTarget::Arm(arm), StoredAction::Call(_, args)) => Some(MemberAction { member, arm, args }),
            _ => None,
        }
    }

    /// Returns the member of a group that a hash selects (see [`SelectorHash`]). `None` if the
    /// group is empty or does not exist; this counts as a miss.
    pub fn group_member(&self, table: TableId, group: u32, hash: u64) -> Option<MemberAction<'_>> {
        let places = self.memory.members(&self.pipeline, table.index())?.groups.get(&group)?;
        let place = hash.checked_rem(places.len() as u64)?;
        self.member(table, places[place as usize])
    }

    /// Returns the hash function of the table's selector keys. It is a separate value, so that an
    /// engine can keep it where it has no host.
    pub fn selector(&self, table: TableId) -> &SelectorHash {
        self.selectors.get(table.index()).unwrap_or(const { &SelectorHash::NONE })
    }

    /// Returns [`SelectorHash::hash`] of a table.
    pub fn selector_hash(&self, table: TableId, keys: &[u64]) -> u64 {
        self.selector(table).hash(keys)
    }

    /// Returns the slots of the keys for [`ExternHost::in_value_set`], in the order of
    /// [`ir::ValueSet::keys`].
    pub fn value_set_places(&self, set: ValueSetId) -> &[ValueSlot] {
        self.value_set_places.get(set.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a member of the value set matches the keys ([`ir::Inst::InValueSet`]).
    pub fn in_value_set(&self, set: ValueSetId, keys: &[u64]) -> bool {
        let Some((layout, members)) = self.memory.value_sets.get(set.index()) else { return false };
        let places = self.value_set_places(set);
        let key = |field: &PackedKeyField| {
            let place = places.get(field.position).copied().unwrap_or_default();
            keys.get(place.first_word..place.first_word + place.words).unwrap_or_default()
        };
        members.iter().any(|member| entry_matches(layout, member, key))
    }
}
