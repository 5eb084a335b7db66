//! The slots of an ECMP group of a region file, which share out the flows among its uplinks.
//!
//! The uplink of a slot depends only on which uplinks can be used now, and on nothing that happened
//! before. A process that restarts or takes over therefore gets the same slots as its predecessor,
//! without any state that would have to be stored.

/// Returns for each slot the member of the group that it uses: the first usable one in the slot's
/// order of preference. `None` in all slots if no member is usable.
///
/// The members are first in turn: slot `i` prefers member `i % members` (its home). A slot whose
/// home is not usable goes to the other members in turn, and if that one is not usable either, to
/// the others in an order that depends on the slot. Therefore:
///
/// - A slot whose home is usable is never moved by a change of another member.
/// - The slots of one member that is lost are shared evenly among the others.
/// - A member that returns gets back exactly its slots.
pub fn assign_slots(members: usize, slots: usize, is_usable: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
    let usable: Vec<bool> = (0..members).map(is_usable).collect();
    (0..slots).map(|slot| preferred_member(slot, &usable)).collect()
}

/// Returns the member that a slot uses, if one is usable. `usable`: whether each member is.
fn preferred_member(slot: usize, usable: &[bool]) -> Option<usize> {
    let members = usable.len();
    if members == 0 {
        return None;
    }
    let (home, round) = (slot % members, slot / members);
    if usable[home] {
        return Some(home);
    }
    // The second choice goes round, so that the loss of a single member is shared evenly.
    let second = (home + 1 + round % (members - 1).max(1)) % members;
    if usable[second] {
        return Some(second);
    }
    (0..members).filter(|member| usable[*member]).max_by_key(|member| mix(slot, *member))
}

/// Returns a hash of a slot and a member, in which the order of members differs from slot to slot
/// (highest random weight, Thaler and Ravishankar 1998).
fn mix(slot: usize, member: usize) -> u64 {
    // The finalizer of SplitMix64.
    let mut value = ((slot as u64) << 32 | member as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(members: usize, size: usize, up: &[bool]) -> Vec<Option<usize>> {
        assign_slots(members, size, |member| up[member])
    }

    #[test]
    fn all_members_in_turn_while_all_are_usable() {
        assert_eq!(slots(3, 8, &[true; 3]), [0, 1, 2, 0, 1, 2, 0, 1].map(Some));
    }

    #[test]
    fn the_slots_of_a_lost_member_are_shared_evenly() {
        let shares = slots(3, 32, &[true, false, true]);
        let share = |member| shares.iter().filter(|slot| **slot == Some(member)).count();
        assert_eq!((share(0), share(1), share(2)), (16, 0, 16), "{shares:?}");
    }

    #[test]
    fn without_a_usable_member_no_slot_has_one() {
        assert_eq!(slots(2, 4, &[false; 2]), [None; 4]);
        assert_eq!(slots(1, 2, &[true]), [Some(0); 2]);
        assert_eq!(slots(1, 2, &[false]), [None; 2]);
        assert_eq!(slots(0, 2, &[]), [None; 2]);
    }

    /// After each of 1,000 flaps: a slot whose home is usable is at home, so flows of other members
    /// have not moved; a slot moves only if its member went away, or if a member that it prefers
    /// came back; and the load is spread.
    #[test]
    fn a_thousand_flaps_move_only_the_flows_of_the_members_that_flap() {
        let mut rng = fastrand::Rng::with_seed(7);
        for members in [2, 3, 4, 7, 16, 64] {
            let size = (members * 8_usize).next_power_of_two();
            let mut up = vec![true; members];
            let mut before = slots(members, size, &up);
            for _ in 0..1000 {
                let flapping = rng.usize(0..members);
                up[flapping] = !up[flapping];
                let after = slots(members, size, &up);
                for (slot, (old, new)) in before.iter().zip(&after).enumerate() {
                    if up[slot % members] {
                        assert_eq!(*new, Some(slot % members), "a flow of a usable member has moved");
                    }
                    if old != new {
                        assert!(*old == Some(flapping) || *new == Some(flapping), "slot {slot}: {old:?} to {new:?}");
                    }
                }
                let usable = up.iter().filter(|up| **up).count();
                assert!(after.iter().all(|slot| slot.is_some_and(|member| up[member]) == (usable > 0)));
                if usable > 0 {
                    let most = (0..members).map(|m| after.iter().filter(|slot| **slot == Some(m)).count()).max();
                    assert!(most <= Some(size.div_ceil(usable) * 3), "{usable} of {members}: {most:?} of {size}");
                }
                before = after;
            }
        }
    }
}
