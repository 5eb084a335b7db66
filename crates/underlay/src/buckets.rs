//! The buckets of an ECMP group of the kernel's routes: resilient hashing.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Minimum number of buckets of a group, and per member.
const MIN_BUCKETS: usize = 16;
/// Maximum number of buckets of a group.
pub(crate) const MAX_BUCKETS: usize = 256;

/// The home of each bucket of a group: the member whose flows it has while all members are usable.
///
/// If members of the route come and go, only as many buckets change as the shares demand, so homes
/// depend on what happened before. Members that are not usable for a time keep their homes; other
/// members serve these buckets meanwhile ([`Buckets::serving`]), and the choice depends on nothing
/// but the usable members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets<K> {
    homes: Vec<K>,
}

impl<K: Copy + Ord + Hash> Buckets<K> {
    /// Returns the buckets of a group with these members, each with its weight. As many buckets as
    /// possible stay as in `former`. `members` must not be empty.
    pub fn new(members: &[(K, u32)], former: Option<&Buckets<K>>) -> Buckets<K> {
        let size = (members.len() * MIN_BUCKETS).next_power_of_two().clamp(MIN_BUCKETS, MAX_BUCKETS);
        let former = former.map_or(&[][..], |former| &former.homes);
        // A group that grows repeats its buckets, and one that shrinks keeps the first ones, so
        // that the lower bits of the hash lead to the same members.
        let mut homes: Vec<Option<K>> = (0..size).map(|at| former.get(at % former.len().max(1)).copied()).collect();
        // Buckets that each member lacks to have its share.
        let mut missing = shares(members, size);
        for home in &mut homes {
            let member = home.and_then(|home| members.iter().position(|(member, _)| *member == home));
            match member {
                Some(member) if missing[member] > 0 => missing[member] -= 1,
                // A member that has left, or one that has more than its share.
                _ => *home = None,
            }
        }
        let mut next = 0;
        let homes = homes.into_iter().map(|home| {
            home.unwrap_or_else(|| {
                // In turn, so that members alternate.
                let member = (0..members.len()).map(|step| (next + step) % members.len()).find(|at| missing[*at] > 0);
                let member = member.unwrap_or(0);
                missing[member] = missing[member].saturating_sub(1);
                next = member + 1;
                members[member].0
            })
        });
        Buckets { homes: homes.collect() }
    }

    /// Returns the number of buckets, a power of two.
    pub fn len(&self) -> usize {
        self.homes.len()
    }

    /// Returns whether there are no buckets; there always are.
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Returns the member that serves each bucket: its home if that is usable, otherwise one of the
    /// usable members. Without a usable member, all buckets stay at home.
    pub fn serving<'a>(&'a self, usable: &'a [K]) -> impl Iterator<Item = K> + 'a {
        self.homes.iter().enumerate().map(|(bucket, home)| {
            if usable.contains(home) {
                return *home;
            }
            // The highest random weight (Thaler and Ravishankar 1998): a member that is lost moves
            // only the buckets that it serves.
            usable.iter().copied().max_by_key(|member| (hash_of(&(bucket, member)), *member)).unwrap_or(*home)
        })
    }
}

/// Returns the number of buckets of each member: in proportion to the weights, by largest
/// remainder.
fn shares<K>(members: &[(K, u32)], size: usize) -> Vec<usize> {
    let total: u64 = members.iter().map(|(_, weight)| u64::from(*weight).max(1)).sum();
    let share_times_total = |weight: u32| size as u64 * u64::from(weight).max(1);
    let mut shares: Vec<usize> =
        members.iter().map(|(_, weight)| (share_times_total(*weight) / total) as usize).collect();
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|member| std::cmp::Reverse(share_times_total(members[*member].1) % total));
    let unassigned = size - shares.iter().sum::<usize>();
    order.into_iter().cycle().take(unassigned).for_each(|member| shares[member] += 1);
    shares
}

fn hash_of(value: &impl Hash) -> u64 {
    // The hasher has fixed keys: each process makes the same choice.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn share(buckets: &Buckets<u8>, usable: &[u8], member: u8) -> usize {
        buckets.serving(usable).filter(|serving| *serving == member).count()
    }

    #[test]
    fn weights_are_shares() {
        let buckets = Buckets::new(&[(1, 1), (2, 3)], None);
        assert_eq!((buckets.len(), share(&buckets, &[1, 2], 1), share(&buckets, &[1, 2], 2)), (32, 8, 24));
    }

    #[test]
    fn a_route_that_loses_a_member_moves_only_its_buckets() {
        let before = Buckets::new(&[(1, 1), (2, 1), (3, 1)], None);
        let after = Buckets::new(&[(1, 1), (2, 1)], Some(&before));
        let same = (0..after.len()).filter(|at| before.homes[*at] != 3).all(|at| before.homes[at] == after.homes[at]);
        assert!(same || after.len() < before.len(), "{before:?} {after:?}");
        let back = Buckets::new(&[(1, 1), (2, 1), (3, 1), (4, 1)], Some(&before));
        let moved = (0..back.len()).filter(|at| back.homes[*at] != before.homes[*at]).count();
        assert_eq!(moved, back.len() / 4, "only as many as the new member's share");
    }

    /// After each of 1,000 flaps, no flow of a member that is usable has moved, and the flows of
    /// the others are at usable members.
    #[test]
    fn a_thousand_flaps_move_only_the_flows_of_the_members_that_flap() {
        let mut rng = fastrand::Rng::with_seed(3);
        for count in [2_u8, 3, 5, 16] {
            let members: Vec<(u8, u32)> = (0..count).map(|member| (member, rng.u32(1..4))).collect();
            let buckets = Buckets::new(&members, None);
            let mut usable: BTreeSet<u8> = (0..count).collect();
            let mut before: Vec<u8> = buckets.serving(&usable.iter().copied().collect::<Vec<_>>()).collect();
            for _ in 0..1000 {
                let flapping = rng.u8(0..count);
                if !usable.remove(&flapping) {
                    usable.insert(flapping);
                }
                let list: Vec<u8> = usable.iter().copied().collect();
                let after: Vec<u8> = buckets.serving(&list).collect();
                for (home, (old, new)) in buckets.homes.iter().zip(before.iter().zip(&after)) {
                    assert!(!usable.contains(home) || new == home, "a flow of a usable member has moved");
                    assert!(
                        old == new || *old == flapping || *new == flapping || list.len() <= 1,
                        "{old} {new} {flapping}"
                    );
                    assert!(usable.is_empty() || usable.contains(new));
                }
                before = after;
            }
        }
    }
}
