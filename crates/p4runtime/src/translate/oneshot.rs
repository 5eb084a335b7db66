//! One-shot action sets: groups that are written together with the entry that uses them (section
//! "One Shot Action Selector Programming").
//!
//! They are stored as members and a group with reserved ids, which are created, changed and deleted
//! with the entry and never shown by themselves. The order of the members is that of their ids, so
//! that [`ControlState`] holds all information.

use super::entry_metadata::EntryMetadata;
use super::keys::pack_key;
use super::replication::PORT_WIDTH;
use super::reserved_ids::FIRST_HIDDEN;
use super::schema::{ProfileSchema, Schema, TableSchema};
use super::strings::Pending;
use crate::proto::v1;
use crate::proto::v1::action_profile_action::WatchKind;
use crate::{Code, P4RuntimeError, values};
use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, ControlState, GroupMember, Profile, StateUpdate, StoredAction,
    StoredEntry, UpdateKind, WriteBatch,
};
use ir::p4info::SizeSemantics;
use ir::{ExternId, KeyMatch, TableId};
use std::collections::BTreeSet;

/// Entry to be written, before its action is decoded.
pub(super) struct NewEntry<'a> {
    pub table: &'a TableSchema,
    pub declared: &'a ir::Table,
    pub entry: entries::TableEntry,
    pub remark: EntryMetadata,
}

/// Context of the updates of one request: earlier updates and the stored state.
///
/// The translation of most updates does not depend on the state. The others (action sets,
/// modifications without an action, direct counters without data) are translated on a copy of the
/// state, to which all earlier updates of the request on the same tables have been applied.
pub struct Oneshots {
    model: ControlState,
    /// Tables with updates that are applied to the copy.
    tracked_tables: BTreeSet<TableId>,
    /// New numbers of strings.
    pub(super) pending: Pending,
}

impl Oneshots {
    /// Creates the context for the updates of one request, which must be translated in order;
    /// `state` is the state before them.
    pub fn new(schema: &Schema, state: ControlState, updates: &[v1::Update]) -> Oneshots {
        let selectors = schema.pipeline.tables.iter().filter(|(_, table)| table.implementation.is_some());
        let mut tracked_tables: BTreeSet<TableId> = selectors.map(|(id, _)| id).collect();
        for update in updates.iter().filter(|update| update.r#type() == v1::update::Type::Modify) {
            use v1::entity::Entity as E;
            let of = match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
                Some(E::TableEntry(entry)) if entry.action.is_none() => entry.table_id,
                Some(E::DirectCounterEntry(entry)) if entry.data.is_none() => {
                    entry.table_entry.as_ref().map_or(0, |entry| entry.table_id)
                }
                _ => continue,
            };
            if let Ok((table, _)) = schema.table(of) {
                tracked_tables.insert(table.id);
            }
        }
        Oneshots { model: state, tracked_tables, pending: Pending::default() }
    }

    /// Returns the state with the earlier updates.
    pub(super) fn model(&self) -> &ControlState {
        &self.model
    }

    /// Returns the current entry, if its table is tracked.
    pub(super) fn entry(&self, table: &TableSchema, keys: &[KeyMatch], priority: i32) -> Option<&StoredEntry> {
        self.model.get_entry(table.id, &pack_key(&table.layout, keys), priority)
    }

    /// Applies updates to the copy of the state.
    pub(super) fn apply_tracked(&mut self, updates: &[StateUpdate]) -> Result<(), P4RuntimeError> {
        let concerns = |update: &StateUpdate| match update {
            StateUpdate::Entry(_, entry) => self.tracked_tables.contains(&entry.table),
            StateUpdate::DirectMeter(id, _) => self.tracked_tables.contains(&id.table),
            StateUpdate::DefaultAction(table, _) => self.tracked_tables.contains(table),
            StateUpdate::Member(..) | StateUpdate::Group(..) => true,
            _ => false,
        };
        if !updates.iter().any(concerns) {
            return Ok(());
        }
        let applied = self.model.apply(&WriteBatch { updates: updates.to_vec() });
        applied.map(drop).map_err(|refused| P4RuntimeError::from(&refused.error))
    }
}

/// Reserved ids of an action set.
struct OneshotIds {
    group: u32,
    members: Vec<u32>,
}

fn is_hidden(id: &u32) -> bool {
    *id >= FIRST_HIDDEN
}

/// Returns whether a profile has members or groups of action sets.
pub(super) fn has_sets(profile: &Profile) -> bool {
    profile.groups.keys().next_back().is_some_and(is_hidden)
        || profile.members.keys().next_back().is_some_and(is_hidden)
}

/// Returns whether a profile has members or groups with ids of a controller.
fn has_numbered(profile: &Profile) -> bool {
    let first = [profile.groups.keys().next(), profile.members.keys().next()];
    first.into_iter().flatten().any(|id| !is_hidden(id))
}

/// Returns free ids in ascending order, above `after` if enough are free.
fn free_ids(used: impl Fn(u32) -> bool, after: u32, count: usize) -> Vec<u32> {
    let beyond = (after.max(FIRST_HIDDEN - 1)..u32::MAX).map(|id| id + 1).filter(|id| !used(*id));
    let found: Vec<u32> = beyond.take(count).collect();
    if found.len() == count {
        return found;
    }
    (FIRST_HIDDEN..=u32::MAX).filter(|id| !used(*id)).take(count).collect()
}

fn group_of(entry: &StoredEntry) -> Option<u32> {
    match entry.action() {
        entries::StoredActionRef::Group(group) if is_hidden(&group) => Some(group),
        _ => None,
    }
}

impl Schema {
    /// Rejects the combination of action sets with other members and groups in one selector.
    pub(super) fn check_not_mixed(
        &self,
        oneshots: &Oneshots,
        profile: &ProfileSchema,
        sets: bool,
    ) -> Result<(), P4RuntimeError> {
        let Some(kept) = oneshots.model().profile(profile.id) else { return Ok(()) };
        let (mixed, has, help) = match sets {
            true => (has_numbered(kept), "members and groups of their own numbers", "delete those"),
            false => (has_sets(kept), "entries with action sets", "delete those entries"),
        };
        match mixed {
            false => Ok(()),
            true => Err(P4RuntimeError::invalid(format!(
                "{}: it has {has}; a selector is written either with members and groups or with action sets: {help} first",
                profile.name
            ))),
        }
    }

    /// Decodes an entry with an action set. Its group and members get reserved ids; an update of an
    /// entry keeps the ids of the earlier set and deletes the members that it no longer needs.
    pub(super) fn action_set(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        new: NewEntry<'_>,
        set: &v1::ActionProfileActionSet,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        let NewEntry { table, declared, mut entry, mut remark } = new;
        let Some(profile) = self.profile_of(declared).filter(|profile| profile.with_selector) else {
            return Err(P4RuntimeError::invalid(format!(
                "table {}: an action set is given, but it has no action selector; give an action or member instead",
                table.name
            )));
        };
        (remark.selection, remark.semantics) = action_set_modes(profile, set)?;
        entry.metadata = remark.pack();
        self.check_not_mixed(oneshots, profile, true)?;
        let watches = check_members(oneshots, profile, set)?;
        let mut calls = Vec::new();
        for (set_action, watch) in set.action_profile_actions.iter().zip(watches) {
            let Some(action) = &set_action.action else {
                return Err(P4RuntimeError::invalid(format!("table {}: an action of the set is missing", table.name)));
            };
            calls.push((self.decode_action(table, action)?, (u32::try_from(set_action.weight).unwrap_or(0), watch)));
        }
        let old_group = match kind {
            UpdateKind::Modify => match oneshots.entry(table, &entry.keys, entry.priority) {
                Some(old_group) => group_of(old_group).map(|group| hidden(oneshots.model(), profile.id, group)),
                None => return Err(self.no_entry(table, &entry.keys, entry.priority)),
            },
            _ => None,
        };
        let empty = Profile::default();
        let current_profile = oneshots.model().profile(profile.id).unwrap_or(&empty);
        let new_ids = allocate_ids(current_profile, old_group.as_ref(), calls.len());
        if new_ids.members.len() < calls.len() || new_ids.group == 0 {
            return Err(P4RuntimeError::new(Code::ResourceExhausted, format!("{}: no numbers are left", profile.name)));
        }
        entry.action = ActionSpec::Group(new_ids.group);
        let members = new_ids.members.iter().copied();
        let group = ActionProfileGroup {
            profile: profile.id,
            id: new_ids.group,
            members: members
                .clone()
                .zip(&calls)
                .map(|(member, (_, (weight, watch)))| GroupMember { member, weight: *weight, watch: *watch })
                .collect(),
        };
        let old_members = old_group.as_ref().map_or(&[][..], |old_group| &old_group.members);
        let kind_of = |is_known: bool| if is_known { UpdateKind::Modify } else { UpdateKind::Insert };
        let mut updates = Vec::new();
        for (id, (action, _)) in members.zip(calls) {
            let member = ActionProfileMember { profile: profile.id, id, action };
            updates.push(StateUpdate::Member(kind_of(old_members.contains(&id)), member));
        }
        updates.push(StateUpdate::Group(kind_of(old_group.is_some()), group));
        updates.push(StateUpdate::Entry(kind, entry));
        let removed = old_members.iter().filter(|id| !new_ids.members.contains(id));
        updates.extend(removed.map(|id| delete_member(profile.id, *id)));
        Ok(updates)
    }

    /// Deletes an entry, and its action set if it has one.
    pub(super) fn delete_with_set(&self, oneshots: &Oneshots, new: NewEntry<'_>) -> Vec<StateUpdate> {
        let NewEntry { table, declared, entry, .. } = new;
        let old = oneshots.entry(table, &entry.keys, entry.priority).and_then(group_of);
        let mut updates = vec![StateUpdate::Entry(UpdateKind::Delete, entry)];
        if let (Some(group), Some(profile)) = (old, declared.implementation) {
            let hidden = hidden(oneshots.model(), profile, group);
            let id = hidden.group;
            updates
                .push(StateUpdate::Group(UpdateKind::Delete, ActionProfileGroup { profile, id, members: Vec::new() }));
            updates.extend(hidden.members.into_iter().map(|id| delete_member(profile, id)));
        }
        updates
    }

    /// Encodes the action set of a group with a reserved id; `None` for another group.
    pub(super) fn action_set_message(
        &self,
        state: &ControlState,
        table: &ir::Table,
        group: u32,
    ) -> Option<v1::ActionProfileActionSet> {
        let profile = state.profile(table.implementation?).filter(|_| is_hidden(&group))?;
        let group_members = &profile.groups.get(&group)?.members;
        let set_action = |member: &GroupMember| {
            let action = match &profile.members.get(&member.member)?.action {
                StoredAction::Call(id, words) => self.action_message(*id, words),
                StoredAction::Member(_) | StoredAction::Group(_) => return None,
            };
            let weight = i32::try_from(member.weight).unwrap_or(i32::MAX);
            let watch_kind = port_bytes(member.watch).map(WatchKind::WatchPort);
            Some(v1::ActionProfileAction { action: Some(action), weight, watch_kind })
        };
        Some(v1::ActionProfileActionSet {
            action_profile_actions: group_members.iter().filter_map(set_action).collect(),
            ..v1::ActionProfileActionSet::default()
        })
    }
}

fn hidden(state: &ControlState, profile: ExternId, group: u32) -> OneshotIds {
    let kept = state.profile(profile).and_then(|profile| profile.groups.get(&group));
    OneshotIds {
        group,
        members: kept.map_or(Vec::new(), |kept| kept.members.iter().map(|place| place.member).collect()),
    }
}

fn delete_member(profile: ExternId, id: u32) -> StateUpdate {
    // Only the id is read.
    let action = ir::ActionCall { action: ir::ActionId(0), args: Vec::new() };
    StateUpdate::Member(UpdateKind::Delete, ActionProfileMember { profile, id, action })
}

/// Allocates ids for an action set of `count` actions. Ids of the entry's present set are reused,
/// so that the profile never exceeds its final size.
fn allocate_ids(kept: &Profile, old: Option<&OneshotIds>, count: usize) -> OneshotIds {
    let mut members: Vec<u32> = old.map_or(Vec::new(), |old| old.members.clone());
    members.truncate(count);
    let last = kept.members.keys().next_back().copied().unwrap_or(0);
    let more = free_ids(|id| kept.members.contains_key(&id), last, count - members.len());
    // The order of actions is that of their ids. If a free id precedes a present one, all ids are
    // replaced.
    match members.last().zip(more.first()) {
        Some((old, new)) if old > new => members = free_ids(|id| kept.members.contains_key(&id), last, count),
        _ => members.extend(more),
    }
    let group = old.map(|old| old.group).unwrap_or_else(|| {
        let last = kept.groups.keys().next_back().copied().unwrap_or(0);
        free_ids(|id| kept.groups.contains_key(&id), last, 1).first().copied().unwrap_or(0)
    });
    OneshotIds { group, members }
}

/// Checks weights and watch ports of a set and returns the ports.
fn check_members(
    oneshots: &Oneshots,
    profile: &ProfileSchema,
    set: &v1::ActionProfileActionSet,
) -> Result<Vec<Option<u32>>, P4RuntimeError> {
    let mut watches = Vec::with_capacity(set.action_profile_actions.len());
    let name = &profile.name;
    let mut total: i64 = 0;
    for set_action in &set.action_profile_actions {
        super::profile::check_weight(profile, set_action.weight)?;
        total += i64::from(set_action.weight);
        let port_field = set_action.watch_kind.as_ref().map(|kind| match kind {
            WatchKind::WatchPort(port) => WatchPortField::Bytes(port),
            WatchKind::Watch(port) => WatchPortField::Number(*port),
        });
        watches.push(watch_port(oneshots, profile, port_field)?);
    }
    let (size, counted) = match profile.semantics {
        SizeSemantics::SumOfWeights => (total, "weights add up to"),
        SizeSemantics::SumOfMembers { .. } => (set.action_profile_actions.len() as i64, "actions are"),
    };
    match profile.max_group_size > 0 && size > profile.max_group_size {
        true => Err(P4RuntimeError::invalid(format!(
            "{name}: the set's {counted} {size}, more than its max_group_size {}; leave some out",
            profile.max_group_size
        ))),
        false => Ok(watches),
    }
}

/// Checks that the modes of a set are those of the selector, because a group has no mode of its own
/// and selectors always hash. Returns selection mode and size semantics as numbers, for reads of
/// the entry.
fn action_set_modes(profile: &ProfileSchema, set: &v1::ActionProfileActionSet) -> Result<(u8, u8), P4RuntimeError> {
    use v1::action_profile_action_set::{ActionSelectionMode as Mode, SizeSemantics as Size};
    let refuse = |mode_name: &str, help: &str| {
        Err(P4RuntimeError::unimplemented(format!(
            "{}: {mode_name} of a single group cannot differ from the selector's; leave it out, or give {help}",
            profile.name
        )))
    };
    let selector_size = match profile.semantics {
        SizeSemantics::SumOfWeights => Size::SumOfWeights,
        SizeSemantics::SumOfMembers { .. } => Size::SumOfMembers,
    };
    match Mode::try_from(set.action_selection_mode) {
        Ok(Mode::DefaultModeDeterminedByActionSelector | Mode::Hash) => {}
        _ => return refuse("the selection mode", "HASH"),
    }
    match Size::try_from(set.size_semantics) {
        Ok(size) if size == Size::DefaultSizeDeterminedByActionSelector || size == selector_size => {}
        _ => return refuse("the size's meaning", selector_size.as_str_name()),
    }
    Ok((set.action_selection_mode as u8, set.size_semantics as u8))
}

/// Decodes the watch port of a member, which must be a port of the device (section "Action Profile
/// Group Programming"). `None`: the member has no watch port.
pub(super) fn watch_port(
    oneshots: &Oneshots,
    profile: &ProfileSchema,
    port_field: Option<WatchPortField<'_>>,
) -> Result<Option<u32>, P4RuntimeError> {
    let error_place = || format!("{}, watch_port", profile.name);
    let port = match port_field {
        None => return Ok(None),
        // An empty port means none.
        Some(WatchPortField::Bytes([])) | Some(WatchPortField::Number(0)) => return Ok(None),
        Some(WatchPortField::Bytes(bytes)) => values::decode_u64(bytes, PORT_WIDTH)
            .map_err(|error| P4RuntimeError::new(Code::OutOfRange, format!("{}: {error}", error_place())))?
            as u32,
        Some(WatchPortField::Number(number)) => u32::try_from(number)
            .map_err(|_| P4RuntimeError::invalid(format!("{}, watch: port {number} is negative", profile.name)))?,
    };
    match oneshots.model().ports() {
        Some(ports) if !ports.contains_key(&port) => {
            let known: Vec<String> = ports.keys().map(u32::to_string).collect();
            Err(P4RuntimeError::invalid(format!(
                "{}: the device has no port {port}; it has {}",
                error_place(),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )))
        }
        _ => Ok(Some(port)),
    }
}

/// Watch port: bytes, or the number of the deprecated field.
pub(super) enum WatchPortField<'a> {
    Bytes(&'a [u8]),
    Number(i32),
}

/// Encodes a watch port as bytes.
pub(super) fn port_bytes(watch: Option<u32>) -> Option<bytes::Bytes> {
    watch.map(|port| values::encode(&[u64::from(port)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use entries::ProfileMember;

    fn kept(ids: &[u32]) -> Profile {
        let member = || ProfileMember { action: StoredAction::Call(ir::ActionId(0), Box::default()) };
        Profile { members: ids.iter().map(|id| (*id, member())).collect(), groups: Default::default() }
    }

    fn members(kept: &Profile, old: &[u32], count: usize) -> Vec<u32> {
        allocate_ids(kept, Some(&OneshotIds { group: FIRST_HIDDEN, members: old.to_vec() }), count).members
    }

    #[test]
    fn numbers_are_used_again_and_stay_in_order() {
        let (a, b, c) = (FIRST_HIDDEN, FIRST_HIDDEN + 1, FIRST_HIDDEN + 2);
        assert_eq!(allocate_ids(&kept(&[]), None, 2).members, [a, b]);
        assert_eq!(allocate_ids(&kept(&[]), None, 2).group, FIRST_HIDDEN);
        assert_eq!(members(&kept(&[a, b, c]), &[a, c], 1), [a]);
        assert_eq!(members(&kept(&[a, b, c]), &[a, c], 3), [a, c, c + 1]);
        // Ids of controllers are ignored.
        assert_eq!(allocate_ids(&kept(&[1, 7]), None, 1).members, [a]);
    }

    #[test]
    fn after_the_last_number_come_gaps() {
        let last = u32::MAX;
        assert_eq!(members(&kept(&[last - 1]), &[last - 1], 2), [last - 1, last]);
        // Ids that would precede the present ones replace them.
        let all = members(&kept(&[FIRST_HIDDEN, last]), &[last], 3);
        assert_eq!(all, [FIRST_HIDDEN + 1, FIRST_HIDDEN + 2, FIRST_HIDDEN + 3]);
    }
}
