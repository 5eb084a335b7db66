//! Contents of an action profile or selector.

use crate::batch::{ActionProfileGroup, ActionProfileMember, DevicePort, GroupMember};
use crate::entry::{StoredAction, UpdateKind};
use crate::error::UpdateError;
use ir::{ExternKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum sum of the weights in a group.
pub const MAX_GROUP_WEIGHT: u32 = 4096;

/// A member of an action profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileMember {
    /// Action of the member; always [`StoredAction::Call`].
    pub action: StoredAction,
}

/// A group of an action selector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProfileGroup {
    /// Members, sorted by number.
    pub members: Vec<GroupMember>,
    /// Members with a watch port that is down.
    pub(crate) down_members: BTreeSet<u32>,
}

/// Status of the ports of a device; `None`: unknown.
pub(crate) type PortStatuses = Option<Arc<BTreeMap<u32, DevicePort>>>;

/// Reports whether the member's watch port is up; true for a member without one.
fn is_up(ports: &PortStatuses, member: &GroupMember) -> bool {
    match (ports, member.watch) {
        (Some(ports), Some(port)) => ports.get(&port).is_some_and(|port| port.is_up),
        _ => true,
    }
}

impl ProfileGroup {
    fn new(members: Vec<GroupMember>, ports: &PortStatuses) -> ProfileGroup {
        let mut group = ProfileGroup { members, down_members: BTreeSet::new() };
        group.down_members = group.members_down_with(ports);
        group
    }

    fn members_down_with(&self, ports: &PortStatuses) -> BTreeSet<u32> {
        self.members.iter().filter(|member| !is_up(ports, member)).map(|member| member.member).collect()
    }

    /// Reports whether a member depends on a port.
    pub fn has_watched_port(&self) -> bool {
        self.members.iter().any(|member| member.watch.is_some())
    }

    /// Returns the list that the selector's hash selects from: members in order of their numbers,
    /// each repeated by its weight.
    ///
    /// A member with a watch port that is down is replaced by the others, in proportion to their
    /// weights. The others keep their positions, so that flows on members that are up do not move
    /// (as in RFC 2992, the list is not renumbered). The list is repeated as often as exact
    /// proportions need, up to [`MAX_GROUP_WEIGHT`] positions. It is empty if no member is up.
    pub fn weighted_members(&self) -> impl Iterator<Item = u32> {
        let repeated_members = || self.members.iter().flat_map(|m| std::iter::repeat_n(m.member, m.weight as usize));
        let all_members: Vec<u32> = repeated_members().collect();
        if self.down_members.is_empty() {
            return all_members.into_iter();
        }
        let up_members: Vec<u32> = repeated_members().filter(|member| !self.down_members.contains(member)).collect();
        if up_members.is_empty() {
            return Vec::new().into_iter();
        }
        let vacant_count = all_members.len() - up_members.len();
        // After this many repetitions, the vacant positions divide evenly among the positions of
        // the members that are up.
        let exact_rounds = up_members.len() / gcd(up_members.len(), vacant_count);
        let rounds = exact_rounds.min(MAX_GROUP_WEIGHT as usize / all_members.len()).max(1);
        let mut filled = 0;
        let mut positions = Vec::with_capacity(all_members.len() * rounds);
        for member in std::iter::repeat_n(&all_members, rounds).flatten() {
            if !self.down_members.contains(member) {
                positions.push(*member);
                continue;
            }
            // Distributes evenly over the members that are up, even if few positions are vacant.
            positions.push(up_members[filled * up_members.len() / (vacant_count * rounds)]);
            filled += 1;
        }
        positions.into_iter()
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Members and groups of an action profile or selector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Profile {
    /// Members by number.
    pub members: BTreeMap<u32, ProfileMember>,
    /// Groups by number.
    pub groups: BTreeMap<u32, ProfileGroup>,
}

impl Profile {
    /// Inserts, modifies or deletes a member, and checks that it exists or not, as `kind` demands;
    /// `action` is valid for the profile's tables, and `None` for a deletion. A member of a group
    /// cannot be deleted.
    pub(crate) fn update_member(
        &mut self,
        pipeline: &Pipeline,
        kind: UpdateKind,
        update: &ActionProfileMember,
        action: Option<StoredAction>,
    ) -> Result<(), UpdateError> {
        let object = &pipeline.externs[update.profile];
        let name = || object.preamble.name.clone();
        let (object_kind, id) = ("member", update.id);
        let exists = self.members.contains_key(&id);
        match (kind, exists, action) {
            (UpdateKind::Insert, true, _) => return Err(UpdateError::Exists { what: object_kind, name: name(), id }),
            (UpdateKind::Modify | UpdateKind::Delete, false, _) => {
                return Err(UpdateError::Missing { what: object_kind, name: name(), id });
            }
            (UpdateKind::Delete, true, _) | (_, _, None) => {
                let users = self.groups.values().filter(|g| g.members.iter().any(|m| m.member == id)).count() as u64;
                if users > 0 {
                    return Err(UpdateError::InUse { what: object_kind, name: name(), id, users });
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
                self.members.insert(id, ProfileMember { action });
            }
            (UpdateKind::Modify, true, Some(action)) => {
                self.members.insert(id, ProfileMember { action });
            }
        }
        Ok(())
    }

    /// Inserts, modifies or deletes a group, and checks that it exists or not, as `kind` demands.
    /// `ports` decides which of its members are up.
    pub(crate) fn update_group(
        &mut self,
        pipeline: &Pipeline,
        kind: UpdateKind,
        update: &ActionProfileGroup,
        ports: &PortStatuses,
    ) -> Result<(), UpdateError> {
        let name = || pipeline.externs[update.profile].preamble.name.clone();
        let (object_kind, id) = ("group", update.id);
        match (kind, self.groups.contains_key(&id)) {
            (UpdateKind::Insert, true) => return Err(UpdateError::Exists { what: object_kind, name: name(), id }),
            (UpdateKind::Modify | UpdateKind::Delete, false) => {
                return Err(UpdateError::Missing { what: object_kind, name: name(), id });
            }
            (UpdateKind::Delete, true) => {
                self.groups.remove(&id);
            }
            (UpdateKind::Insert, false) | (UpdateKind::Modify, true) => {
                let group = ProfileGroup::new(self.checked_members(update, &name)?, ports);
                self.groups.insert(id, group);
            }
        }
        Ok(())
    }

    /// Returns the groups in which the set of selectable members changes with these ports.
    pub(crate) fn groups_changed_by(&self, ports: &PortStatuses) -> Vec<u32> {
        let moved =
            |group: &ProfileGroup| group.has_watched_port() && group.members_down_with(ports) != group.down_members;
        self.groups.iter().filter(|(_, group)| moved(group)).map(|(id, _)| *id).collect()
    }

    /// Updates the unavailable members of a group from the ports.
    pub(crate) fn update_down_members(&mut self, id: u32, ports: &PortStatuses) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.down_members = group.members_down_with(ports);
        }
    }

    /// Returns the members of a group in the order of their ids, after checking that each exists,
    /// is listed once, and that the weights are positive and their sum is within the limit.
    fn checked_members(
        &self,
        update: &ActionProfileGroup,
        name: &dyn Fn() -> String,
    ) -> Result<Vec<GroupMember>, UpdateError> {
        let mut seen = BTreeSet::new();
        let mut total_weight: u32 = 0;
        for GroupMember { member, weight, .. } in update.members.iter().copied() {
            if !self.members.contains_key(&member) {
                return Err(UpdateError::Missing { what: "member", name: name(), id: member });
            }
            if !seen.insert(member) {
                return Err(UpdateError::MemberTwice { name: name(), group: update.id, member });
            }
            total_weight = total_weight.saturating_add(weight);
            if weight == 0 || total_weight > MAX_GROUP_WEIGHT {
                let max_weight = MAX_GROUP_WEIGHT;
                return Err(UpdateError::Weight { name: name(), group: update.id, member, weight, most: max_weight });
            }
        }
        let mut members = update.members.clone();
        members.sort_by_key(|m| m.member);
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a group of members 1, 2, ... with these weights, each of which watches the port of
    /// its own number.
    fn group(weights: &[u32], down: &[u32]) -> ProfileGroup {
        let member = |(member, weight): (u32, &u32)| GroupMember { member, weight: *weight, watch: Some(member) };
        let ports = (1..)
            .zip(weights)
            .map(|(port, _)| (port, DevicePort { name: String::new(), is_up: !down.contains(&port) }))
            .collect();
        ProfileGroup::new((1..).zip(weights).map(member).collect(), &Some(Arc::new(ports)))
    }

    fn counts(places: &[u32]) -> BTreeMap<u32, usize> {
        places.iter().fold(BTreeMap::new(), |mut counts, member| {
            *counts.entry(*member).or_default() += 1;
            counts
        })
    }

    #[test]
    fn a_member_that_is_down_leaves_its_places_to_the_others_by_their_weights() {
        assert_eq!(group(&[1, 2], &[]).weighted_members().collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(group(&[1, 1], &[1]).weighted_members().collect::<Vec<_>>(), [2, 2]);
        assert_eq!(counts(&group(&[3, 1, 1], &[1]).weighted_members().collect::<Vec<_>>()), [(2, 5), (3, 5)].into());
        assert_eq!(counts(&group(&[1, 1, 1], &[2]).weighted_members().collect::<Vec<_>>()), [(1, 3), (3, 3)].into());
        assert_eq!(counts(&group(&[1, 2, 3], &[3]).weighted_members().collect::<Vec<_>>()), [(1, 2), (2, 4)].into());
        assert_eq!(group(&[5, 1], &[1, 2]).weighted_members().count(), 0);
    }

    /// Checks that flows on other members do not move, for different sets of down members and list
    /// lengths.
    #[test]
    fn flows_on_members_that_are_up_stay() {
        let whole: Vec<u32> = group(&[2, 3, 1, 4], &[]).weighted_members().collect();
        for down in [&[1][..], &[2], &[3, 4], &[1, 2, 4]] {
            let places: Vec<u32> = group(&[2, 3, 1, 4], down).weighted_members().collect();
            assert!(places.iter().all(|member| !down.contains(member)), "{down:?}: {places:?}");
            for hash in 0..10_000usize {
                let before = whole[hash % whole.len()];
                let now = places[hash % places.len()];
                assert!(down.contains(&before) || now == before, "{down:?}, {hash}: {before} became {now}");
            }
        }
    }

    #[test]
    fn the_list_has_a_bound_and_shares_stay_near_the_weights() {
        let mut weights = vec![40; 100];
        weights[7] = 7;
        let places: Vec<u32> = group(&weights, &[3]).weighted_members().collect();
        assert!(places.len() <= MAX_GROUP_WEIGHT as usize, "{}", places.len());
        let counts = counts(&places);
        assert_eq!(counts.len(), 99);
        assert!(counts.values().all(|count| (7..=41).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_port_that_the_device_does_not_have_is_down_and_without_ports_all_are_up() {
        let members = vec![GroupMember { member: 1, weight: 1, watch: Some(9) }, GroupMember::new(2, 1)];
        assert_eq!(ProfileGroup::new(members.clone(), &None).weighted_members().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ProfileGroup::new(members, &Some(Arc::default())).weighted_members().collect::<Vec<_>>(), [2, 2]);
    }
}
