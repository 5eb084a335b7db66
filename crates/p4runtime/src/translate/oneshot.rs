//! Action sets: groups that are written together with the entry that uses them (section "One Shot Action Selector Programming").
//!
//! They are kept as members and a group with hidden numbers, which belong to the entry: made, changed and deleted with it, never shown by
//! themselves. Their order is the order of their numbers. So nothing has to be remembered but what [`State`] has.

use super::keys::pack;
use super::numbers::FIRST_HIDDEN;
use super::remark::Remark;
use super::replication::PORT_WIDTH;
use super::schema::{ProfileSchema, Schema, TableSchema};
use super::strings::Pending;
use crate::proto::v1;
use crate::proto::v1::action_profile_action::WatchKind;
use crate::{Code, Refusal, values};
use entries::{
    Action, ActionProfileGroup, ActionProfileMember, ActionSpec, Entry, GroupMember, Profile, State, Update,
    UpdateKind, WriteBatch,
};
use ir::p4info::SizeSemantics;
use ir::{ExternId, KeyMatch, TableId};
use std::collections::BTreeSet;

/// An entry without its action, on the way to a write.
pub(super) struct NewEntry<'a> {
    pub table: &'a TableSchema,
    pub declared: &'a ir::Table,
    pub entry: entries::TableEntry,
    pub remark: Remark,
}

/// What the updates of one request have to know of each other and of what is there.
///
/// Most updates mean the same whatever there is. Those that don't (action sets, modifications that leave the action as it is, direct
/// counters without data) are tried on a copy of the state, with all earlier updates of the request that concern the same tables.
pub struct Oneshots {
    model: State,
    /// Tables whose updates are followed.
    followed: BTreeSet<TableId>,
    /// Strings that got values.
    pub(super) pending: Pending,
}

impl Oneshots {
    /// For the updates of one request, to be translated in order; `state` is what there is before them.
    pub fn new(schema: &Schema, state: State, updates: &[v1::Update]) -> Oneshots {
        let selectors = schema.pipeline.tables.iter().filter(|(_, table)| table.implementation.is_some());
        let mut followed: BTreeSet<TableId> = selectors.map(|(id, _)| id).collect();
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
                followed.insert(table.id);
            }
        }
        Oneshots { model: state, followed, pending: Pending::default() }
    }

    /// What there is, with the updates so far.
    pub(super) fn model(&self) -> &State {
        &self.model
    }

    /// The entry as it is now, if its table is followed.
    pub(super) fn entry(&self, table: &TableSchema, keys: &[KeyMatch], priority: i32) -> Option<&Entry> {
        self.model.find(table.id, &pack(&table.layout, keys), priority)
    }

    /// Takes note of updates.
    pub(super) fn follow(&mut self, updates: &[Update]) -> Result<(), Refusal> {
        let concerns = |update: &Update| match update {
            Update::Entry(_, entry) => self.followed.contains(&entry.table),
            Update::DirectMeter(id, _) => self.followed.contains(&id.table),
            Update::DefaultAction(table, _) => self.followed.contains(table),
            Update::Member(..) | Update::Group(..) => true,
            _ => false,
        };
        if !updates.iter().any(concerns) {
            return Ok(());
        }
        let applied = self.model.apply(&WriteBatch { updates: updates.to_vec() });
        applied.map(drop).map_err(|refused| Refusal::from(&refused.error))
    }
}

/// The hidden numbers of an action set.
struct Hidden {
    group: u32,
    members: Vec<u32>,
}

fn is_hidden(id: &u32) -> bool {
    *id >= FIRST_HIDDEN
}

/// Whether a profile has members or groups of action sets.
pub(super) fn has_sets(profile: &Profile) -> bool {
    profile.groups.keys().next_back().is_some_and(is_hidden)
        || profile.members.keys().next_back().is_some_and(is_hidden)
}

/// Whether a profile has members or groups that a controller has numbered.
fn has_numbered(profile: &Profile) -> bool {
    let first = [profile.groups.keys().next(), profile.members.keys().next()];
    first.into_iter().flatten().any(|id| !is_hidden(id))
}

/// Free numbers in ascending order, above `after` if there are enough.
fn free(used: impl Fn(u32) -> bool, after: u32, count: usize) -> Vec<u32> {
    let beyond = (after.max(FIRST_HIDDEN - 1)..u32::MAX).map(|id| id + 1).filter(|id| !used(*id));
    let found: Vec<u32> = beyond.take(count).collect();
    if found.len() == count {
        return found;
    }
    (FIRST_HIDDEN..=u32::MAX).filter(|id| !used(*id)).take(count).collect()
}

fn group_of(entry: &Entry) -> Option<u32> {
    match entry.action() {
        entries::PackedAction::Group(group) if is_hidden(&group) => Some(group),
        _ => None,
    }
}

impl Schema {
    /// Refuses to mix both ways to write a selector.
    pub(super) fn not_mixed(&self, oneshots: &Oneshots, profile: &ProfileSchema, sets: bool) -> Result<(), Refusal> {
        let Some(kept) = oneshots.model().profile(profile.id) else { return Ok(()) };
        let (mixed, has, mend) = match sets {
            true => (has_numbered(kept), "members and groups of their own numbers", "delete those"),
            false => (has_sets(kept), "entries with action sets", "delete those entries"),
        };
        match mixed {
            false => Ok(()),
            true => Err(Refusal::invalid(format!(
                "{}: it has {has}; a selector is written either with members and groups or with action sets: {mend} first",
                profile.name
            ))),
        }
    }

    /// An entry with an action set.
    pub(super) fn action_set(
        &self,
        oneshots: &Oneshots,
        kind: UpdateKind,
        new: NewEntry<'_>,
        set: &v1::ActionProfileActionSet,
    ) -> Result<Vec<Update>, Refusal> {
        let NewEntry { table, declared, mut entry, mut remark } = new;
        let Some(profile) = self.profile_of(declared).filter(|profile| profile.with_selector) else {
            return Err(Refusal::invalid(format!(
                "table {}: an action set is given, but it has no action selector; give an action or member instead",
                table.name
            )));
        };
        (remark.selection, remark.semantics) = action_set_modes(profile, set)?;
        entry.metadata = remark.pack();
        self.not_mixed(oneshots, profile, true)?;
        let watches = check_members(oneshots, profile, set)?;
        let mut calls = Vec::new();
        for (one, watch) in set.action_profile_actions.iter().zip(watches) {
            let Some(action) = &one.action else {
                return Err(Refusal::invalid(format!("table {}: an action of the set is missing", table.name)));
            };
            calls.push((self.call(table, action)?, (u32::try_from(one.weight).unwrap_or(0), watch)));
        }
        let old = match kind {
            UpdateKind::Modify => match oneshots.entry(table, &entry.keys, entry.priority) {
                Some(old) => group_of(old).map(|group| hidden(oneshots.model(), profile.id, group)),
                None => return Err(self.no_entry(table, &entry.keys, entry.priority)),
            },
            _ => None,
        };
        let empty = Profile::default();
        let kept = oneshots.model().profile(profile.id).unwrap_or(&empty);
        let new = numbers(kept, old.as_ref(), calls.len());
        if new.members.len() < calls.len() || new.group == 0 {
            return Err(Refusal::new(Code::ResourceExhausted, format!("{}: no numbers are left", profile.name)));
        }
        entry.action = ActionSpec::Group(new.group);
        let members = new.members.iter().copied();
        let group = ActionProfileGroup {
            profile: profile.id,
            id: new.group,
            members: members
                .clone()
                .zip(&calls)
                .map(|(member, (_, (weight, watch)))| GroupMember { member, weight: *weight, watch: *watch })
                .collect(),
        };
        let known = old.as_ref().map_or(&[][..], |old| &old.members);
        let kind_of = |is_known: bool| if is_known { UpdateKind::Modify } else { UpdateKind::Insert };
        let mut updates = Vec::new();
        for (id, (action, _)) in members.zip(calls) {
            let member = ActionProfileMember { profile: profile.id, id, action };
            updates.push(Update::Member(kind_of(known.contains(&id)), member));
        }
        updates.push(Update::Group(kind_of(old.is_some()), group));
        updates.push(Update::Entry(kind, entry));
        let gone = known.iter().filter(|id| !new.members.contains(id));
        updates.extend(gone.map(|id| delete_member(profile.id, *id)));
        Ok(updates)
    }

    /// The deletion of an entry, and of its action set if it has one.
    pub(super) fn delete_with_set(&self, oneshots: &Oneshots, new: NewEntry<'_>) -> Vec<Update> {
        let NewEntry { table, declared, entry, .. } = new;
        let old = oneshots.entry(table, &entry.keys, entry.priority).and_then(group_of);
        let mut updates = vec![Update::Entry(UpdateKind::Delete, entry)];
        if let (Some(group), Some(profile)) = (old, declared.implementation) {
            let hidden = hidden(oneshots.model(), profile, group);
            let id = hidden.group;
            updates.push(Update::Group(UpdateKind::Delete, ActionProfileGroup { profile, id, members: Vec::new() }));
            updates.extend(hidden.members.into_iter().map(|id| delete_member(profile, id)));
        }
        updates
    }

    /// The action set of a hidden group; `None` for a group that a controller has numbered.
    pub(super) fn action_set_message(
        &self,
        state: &State,
        table: &ir::Table,
        group: u32,
    ) -> Option<v1::ActionProfileActionSet> {
        let profile = state.profile(table.implementation?).filter(|_| is_hidden(&group))?;
        let places = &profile.groups.get(&group)?.members;
        let one = |place: &GroupMember| {
            let action = match &profile.members.get(&place.member)?.action {
                Action::Call(id, words) => self.action_message(*id, words),
                Action::Member(_) | Action::Group(_) => return None,
            };
            let weight = i32::try_from(place.weight).unwrap_or(i32::MAX);
            let watch_kind = port_bytes(place.watch).map(WatchKind::WatchPort);
            Some(v1::ActionProfileAction { action: Some(action), weight, watch_kind })
        };
        Some(v1::ActionProfileActionSet {
            action_profile_actions: places.iter().filter_map(one).collect(),
            ..v1::ActionProfileActionSet::default()
        })
    }
}

fn hidden(state: &State, profile: ExternId, group: u32) -> Hidden {
    let kept = state.profile(profile).and_then(|profile| profile.groups.get(&group));
    Hidden { group, members: kept.map_or(Vec::new(), |kept| kept.members.iter().map(|place| place.member).collect()) }
}

fn delete_member(profile: ExternId, id: u32) -> Update {
    // Only the number is looked at.
    let action = ir::ActionCall { action: ir::ActionId(0), args: Vec::new() };
    Update::Member(UpdateKind::Delete, ActionProfileMember { profile, id, action })
}

/// Numbers for a set of so many actions. Those that the entry has are used again, so that it never needs more room than it ends up with.
fn numbers(kept: &Profile, old: Option<&Hidden>, count: usize) -> Hidden {
    let mut members: Vec<u32> = old.map_or(Vec::new(), |old| old.members.clone());
    members.truncate(count);
    let last = kept.members.keys().next_back().copied().unwrap_or(0);
    let more = free(|id| kept.members.contains_key(&id), last, count - members.len());
    // Order is the order of numbers: if the free ones come earlier, none of the old ones can stay.
    match members.last().zip(more.first()) {
        Some((old, new)) if old > new => members = free(|id| kept.members.contains_key(&id), last, count),
        _ => members.extend(more),
    }
    let group = old.map(|old| old.group).unwrap_or_else(|| {
        let last = kept.groups.keys().next_back().copied().unwrap_or(0);
        free(|id| kept.groups.contains_key(&id), last, 1).first().copied().unwrap_or(0)
    });
    Hidden { group, members }
}

/// Checks weights and watch ports of a set; the ports.
fn check_members(
    oneshots: &Oneshots,
    profile: &ProfileSchema,
    set: &v1::ActionProfileActionSet,
) -> Result<Vec<Option<u32>>, Refusal> {
    let mut watches = Vec::with_capacity(set.action_profile_actions.len());
    let name = &profile.name;
    let mut total: i64 = 0;
    for one in &set.action_profile_actions {
        super::profile::check_weight(profile, one.weight)?;
        total += i64::from(one.weight);
        let given = one.watch_kind.as_ref().map(|kind| match kind {
            WatchKind::WatchPort(port) => Watched::Bytes(port),
            WatchKind::Watch(port) => Watched::Number(*port),
        });
        watches.push(watch_port(oneshots, profile, given)?);
    }
    let (size, what) = match profile.semantics {
        SizeSemantics::SumOfWeights => (total, "weights add up to"),
        SizeSemantics::SumOfMembers { .. } => (set.action_profile_actions.len() as i64, "actions are"),
    };
    match profile.max_group_size > 0 && size > profile.max_group_size {
        true => Err(Refusal::invalid(format!(
            "{name}: the set's {what} {size}, more than its max_group_size {}; leave some out",
            profile.max_group_size
        ))),
        false => Ok(watches),
    }
}

/// The modes of a set, if they are those of the selector: our selectors hash, and a group has no mode of its own.
fn action_set_modes(profile: &ProfileSchema, set: &v1::ActionProfileActionSet) -> Result<(u8, u8), Refusal> {
    use v1::action_profile_action_set::{ActionSelectionMode as Mode, SizeSemantics as Size};
    let no = |what: &str, mend: &str| {
        Err(Refusal::unimplemented(format!(
            "{}: {what} of a single group cannot differ from the selector's; leave it out, or give {mend}",
            profile.name
        )))
    };
    let own = match profile.semantics {
        SizeSemantics::SumOfWeights => Size::SumOfWeights,
        SizeSemantics::SumOfMembers { .. } => Size::SumOfMembers,
    };
    match Mode::try_from(set.action_selection_mode) {
        Ok(Mode::DefaultModeDeterminedByActionSelector | Mode::Hash) => {}
        _ => return no("the selection mode", "HASH"),
    }
    match Size::try_from(set.size_semantics) {
        Ok(size) if size == Size::DefaultSizeDeterminedByActionSelector || size == own => {}
        _ => return no("the size's meaning", own.as_str_name()),
    }
    Ok((set.action_selection_mode as u8, set.size_semantics as u8))
}

/// The port that a member depends on, if it depends on one: one of the device (section "Action Profile Group Programming").
pub(super) fn watch_port(
    oneshots: &Oneshots,
    profile: &ProfileSchema,
    given: Option<Watched<'_>>,
) -> Result<Option<u32>, Refusal> {
    let place = || format!("{}, watch_port", profile.name);
    let port = match given {
        None => return Ok(None),
        // An empty one watches nothing.
        Some(Watched::Bytes([])) | Some(Watched::Number(0)) => return Ok(None),
        Some(Watched::Bytes(bytes)) => values::decode_u64(bytes, PORT_WIDTH)
            .map_err(|error| Refusal::new(Code::OutOfRange, format!("{}: {error}", place())))?
            as u32,
        Some(Watched::Number(number)) => u32::try_from(number)
            .map_err(|_| Refusal::invalid(format!("{}, watch: port {number} is negative", profile.name)))?,
    };
    match oneshots.model().ports() {
        Some(ports) if !ports.contains_key(&port) => {
            let known: Vec<String> = ports.keys().map(u32::to_string).collect();
            Err(Refusal::invalid(format!(
                "{}: the device has no port {port}; it has {}",
                place(),
                if known.is_empty() { "none".to_owned() } else { known.join(", ") }
            )))
        }
        _ => Ok(Some(port)),
    }
}

/// A watch port, as controllers of today and of long ago give it.
pub(super) enum Watched<'a> {
    Bytes(&'a [u8]),
    Number(i32),
}

/// A watch port as bytes; none: the member watches no port.
pub(super) fn port_bytes(watch: Option<u32>) -> Option<bytes::Bytes> {
    watch.map(|port| values::encode(&[u64::from(port)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use entries::Member;

    fn kept(ids: &[u32]) -> Profile {
        let member = || Member { action: Action::Call(ir::ActionId(0), Box::default()) };
        Profile { members: ids.iter().map(|id| (*id, member())).collect(), groups: Default::default() }
    }

    fn members(kept: &Profile, old: &[u32], count: usize) -> Vec<u32> {
        numbers(kept, Some(&Hidden { group: FIRST_HIDDEN, members: old.to_vec() }), count).members
    }

    #[test]
    fn numbers_are_used_again_and_stay_in_order() {
        let (a, b, c) = (FIRST_HIDDEN, FIRST_HIDDEN + 1, FIRST_HIDDEN + 2);
        assert_eq!(numbers(&kept(&[]), None, 2).members, [a, b]);
        assert_eq!(numbers(&kept(&[]), None, 2).group, FIRST_HIDDEN);
        assert_eq!(members(&kept(&[a, b, c]), &[a, c], 1), [a]);
        assert_eq!(members(&kept(&[a, b, c]), &[a, c], 3), [a, c, c + 1]);
        // Numbers of controllers don't count.
        assert_eq!(numbers(&kept(&[1, 7]), None, 1).members, [a]);
    }

    #[test]
    fn after_the_last_number_come_gaps() {
        let last = u32::MAX;
        assert_eq!(members(&kept(&[last - 1]), &[last - 1], 2), [last - 1, last]);
        // What would come before the old ones replaces them.
        let all = members(&kept(&[FIRST_HIDDEN, last]), &[last], 3);
        assert_eq!(all, [FIRST_HIDDEN + 1, FIRST_HIDDEN + 2, FIRST_HIDDEN + 3]);
    }
}
