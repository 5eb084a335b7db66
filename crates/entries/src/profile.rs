//! Contents of an action profile or selector.

use crate::batch::{ActionProfileGroup, ActionProfileMember, GroupMember, Port};
use crate::entry::{Action, UpdateKind};
use crate::error::UpdateError;
use ir::{ExternKind, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// Those of them whose watch port is down.
    pub(crate) down: BTreeSet<u32>,
}

/// The ports of a device, and whether each is up; none: nothing is known of them.
pub(crate) type Ports = Option<Arc<BTreeMap<u32, Port>>>;

/// Whether the port that a member watches, if it watches one, is up.
fn is_up(ports: &Ports, member: &GroupMember) -> bool {
    match (ports, member.watch) {
        (Some(ports), Some(port)) => ports.get(&port).is_some_and(|port| port.is_up),
        _ => true,
    }
}

impl Group {
    fn new(members: Vec<GroupMember>, ports: &Ports) -> Group {
        let mut group = Group { members, down: BTreeSet::new() };
        group.down = group.down_by(ports);
        group
    }

    fn down_by(&self, ports: &Ports) -> BTreeSet<u32> {
        self.members.iter().filter(|member| !is_up(ports, member)).map(|member| member.member).collect()
    }

    /// Whether some member depends on a port.
    pub fn watches(&self) -> bool {
        self.members.iter().any(|member| member.watch.is_some())
    }

    /// The list that the selector's hash picks from: members in order of their numbers, each as often as its weight says.
    ///
    /// A member whose watch port is down leaves its places to the others, in proportion to their weights; the others keep theirs, so that
    /// flows on members that are up stay where they are (as in RFC 2992, the list is not renumbered). For exact proportions the list is
    /// repeated as often as that takes, up to [`MAX_GROUP_WEIGHT`] places. Without a member that is up it is empty.
    pub fn places(&self) -> impl Iterator<Item = u32> {
        let all = || self.members.iter().flat_map(|m| std::iter::repeat_n(m.member, m.weight as usize));
        let full: Vec<u32> = all().collect();
        if self.down.is_empty() {
            return full.into_iter();
        }
        let up: Vec<u32> = all().filter(|member| !self.down.contains(member)).collect();
        if up.is_empty() {
            return Vec::new().into_iter();
        }
        let vacant = full.len() - up.len();
        let exact = up.len() / gcd(up.len(), vacant);
        let rounds = exact.min(MAX_GROUP_WEIGHT as usize / full.len()).max(1);
        let mut given = 0;
        let mut places = Vec::with_capacity(full.len() * rounds);
        for member in std::iter::repeat_n(&full, rounds).flatten() {
            if !self.down.contains(member) {
                places.push(*member);
                continue;
            }
            // Evenly over the list of those that are up, however few places there are to give.
            places.push(up[given * up.len() / (vacant * rounds)]);
            given += 1;
        }
        places.into_iter()
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
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
        ports: &Ports,
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
                let group = Group::new(self.checked_members(update, &name)?, ports);
                self.groups.insert(id, group);
            }
        }
        Ok(())
    }

    /// The groups whose members that can be chosen are others with these ports.
    pub(crate) fn moved_by(&self, ports: &Ports) -> Vec<u32> {
        let moved = |group: &Group| group.watches() && group.down_by(ports) != group.down;
        self.groups.iter().filter(|(_, group)| moved(group)).map(|(id, _)| *id).collect()
    }

    /// Brings a group in line with the ports.
    pub(crate) fn follow_ports(&mut self, id: u32, ports: &Ports) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.down = group.down_by(ports);
        }
    }

    fn checked_members(
        &self,
        update: &ActionProfileGroup,
        name: &dyn Fn() -> String,
    ) -> Result<Vec<GroupMember>, UpdateError> {
        let mut seen = BTreeSet::new();
        let mut total: u32 = 0;
        for GroupMember { member, weight, .. } in update.members.iter().copied() {
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
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Members 1, 2, ... with these weights, each of which watches the port of its own number.
    fn group(weights: &[u32], down: &[u32]) -> Group {
        let member = |(member, weight): (u32, &u32)| GroupMember { member, weight: *weight, watch: Some(member) };
        let ports = (1..)
            .zip(weights)
            .map(|(port, _)| (port, Port { name: String::new(), is_up: !down.contains(&port) }))
            .collect();
        Group::new((1..).zip(weights).map(member).collect(), &Some(Arc::new(ports)))
    }

    fn counts(places: &[u32]) -> BTreeMap<u32, usize> {
        places.iter().fold(BTreeMap::new(), |mut counts, member| {
            *counts.entry(*member).or_default() += 1;
            counts
        })
    }

    #[test]
    fn a_member_that_is_down_leaves_its_places_to_the_others_by_their_weights() {
        assert_eq!(group(&[1, 2], &[]).places().collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(group(&[1, 1], &[1]).places().collect::<Vec<_>>(), [2, 2]);
        assert_eq!(counts(&group(&[3, 1, 1], &[1]).places().collect::<Vec<_>>()), [(2, 5), (3, 5)].into());
        assert_eq!(counts(&group(&[1, 1, 1], &[2]).places().collect::<Vec<_>>()), [(1, 3), (3, 3)].into());
        assert_eq!(counts(&group(&[1, 2, 3], &[3]).places().collect::<Vec<_>>()), [(1, 2), (2, 4)].into());
        assert_eq!(group(&[5, 1], &[1, 2]).places().count(), 0);
    }

    /// Flows on other members stay there, whatever goes down and however many places the list has then.
    #[test]
    fn flows_on_members_that_are_up_stay() {
        let whole: Vec<u32> = group(&[2, 3, 1, 4], &[]).places().collect();
        for down in [&[1][..], &[2], &[3, 4], &[1, 2, 4]] {
            let places: Vec<u32> = group(&[2, 3, 1, 4], down).places().collect();
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
        let places: Vec<u32> = group(&weights, &[3]).places().collect();
        assert!(places.len() <= MAX_GROUP_WEIGHT as usize, "{}", places.len());
        let counts = counts(&places);
        assert_eq!(counts.len(), 99);
        assert!(counts.values().all(|count| (7..=41).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_port_that_the_device_does_not_have_is_down_and_without_ports_all_are_up() {
        let members = vec![GroupMember { member: 1, weight: 1, watch: Some(9) }, GroupMember::new(2, 1)];
        assert_eq!(Group::new(members.clone(), &None).places().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(Group::new(members, &Some(Arc::default())).places().collect::<Vec<_>>(), [2, 2]);
    }
}
