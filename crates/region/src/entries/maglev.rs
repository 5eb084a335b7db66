//! The slots of a service: which backend takes the connections of each.
//!
//! Maglev hashing (Eisenbud et al., NSDI 2016, section 3.4): each backend has a permutation of the slots,
//! and takes in turn the next one of it that is free. So backends have equal numbers of slots,
//! and a change of one backend moves few slots of others. With weights, a backend takes a turn as
//! often as its weight says.
//!
//! The result depends on nothing but the backends: not on their order, nor on earlier ones.

/// A backend as its slots depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightedBackend {
    /// Number that decides about its permutation; no two backends of a service have the same.
    pub identity: u64,
    /// Share of the slots, in proportion to those of the others; at least 1.
    pub weight: u16,
}

/// Returns the backend of each slot, as an index of `backends`. `slots` is a prime. Empty without
/// backends.
pub fn fill_slots(backends: &[WeightedBackend], slots: u32) -> Vec<u8> {
    let Some(heaviest) = backends.iter().map(|backend| u64::from(backend.weight)).max() else { return Vec::new() };
    let mut order: Vec<usize> = (0..backends.len()).collect();
    order.sort_by_key(|index| backends[*index].identity);
    let mut permutations: Vec<Permutation> =
        order.iter().map(|index| Permutation::new(backends[*index].identity, slots)).collect();
    // Turns of each backend, times the largest weight.
    let mut turns = vec![0; order.len()];
    let mut found: Vec<Option<u8>> = vec![None; slots as usize];
    let mut free = slots;
    for round in 1.. {
        for (at, index) in order.iter().enumerate() {
            if round * u64::from(backends[*index].weight) < turns[at] {
                continue;
            }
            turns[at] += heaviest;
            let slot = permutations[at].find(|slot| found[*slot as usize].is_none());
            let Some(slot) = slot else { continue };
            found[slot as usize] = Some(*index as u8);
            free -= 1;
            if free == 0 {
                return found.into_iter().flatten().collect();
            }
        }
    }
    Vec::new()
}

/// The slots in the order in which a backend prefers them.
struct Permutation {
    at: u64,
    skip: u64,
    left: u32,
    slots: u64,
}

impl Permutation {
    fn new(identity: u64, slots: u32) -> Permutation {
        let count = u64::from(slots);
        Permutation {
            at: mix(identity) % count,
            skip: mix(!identity) % count.saturating_sub(1).max(1) + 1,
            left: slots,
            slots: count,
        }
    }
}

impl Iterator for Permutation {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.at;
        self.at = (self.at + self.skip) % self.slots;
        Some(slot as u32)
    }
}

/// Mixes the bits of a number (the finalizer of splitmix64: Steele et al., OOPSLA 2014). It is written
/// out, because slots must not change with the standard library.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Numbers of backends and of slots, as services have them.
    const SIZES: [(usize, u32); 3] = [(2, 1_009), (8, 16_411), (100, 65_537)];

    fn shares(backends: &[WeightedBackend], filled: &[u8]) -> BTreeMap<u64, usize> {
        let mut shares = BTreeMap::new();
        for slot in filled {
            *shares.entry(backends[usize::from(*slot)].identity).or_default() += 1;
        }
        shares
    }

    fn names(backends: &[WeightedBackend], slots: u32) -> Vec<u64> {
        fill_slots(backends, slots).into_iter().map(|index| backends[usize::from(index)].identity).collect()
    }

    fn sets() -> impl Strategy<Value = (Vec<WeightedBackend>, u32)> {
        (0..SIZES.len()).prop_flat_map(|size| {
            let (most, slots) = SIZES[size];
            let backends = proptest::collection::btree_map(any::<u64>(), 1_u16..=10, 1..=most);
            let backends = backends.prop_map(|backends| {
                let all = backends.into_iter().map(|(identity, weight)| WeightedBackend { identity, weight });
                all.collect::<Vec<_>>()
            });
            (backends, Just(slots))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Issue 46: at most its share, and a hundredth.
        #[test]
        fn a_change_of_one_backend_moves_its_share_and_at_most_a_hundredth(
            (backends, slots) in sets(), which in any::<proptest::sample::Index>(),
        ) {
            let which = which.index(backends.len());
            let mut others = backends.clone();
            let removed = others.remove(which);
            let (with, without) = (names(&backends, slots), names(&others, slots));
            prop_assume!(!without.is_empty());
            let moved = with.iter().zip(&without).filter(|(with, without)| with != without).count();
            let own = with.iter().filter(|name| **name == removed.identity).count();
            prop_assert!(moved - own <= slots as usize / 100, "{} beyond {own} of {slots}", moved - own);
        }

        /// Each within one slot in a hundred of its share, or two slots.
        #[test]
        fn shares_follow_the_weights((backends, slots) in sets()) {
            let total: u64 = backends.iter().map(|backend| u64::from(backend.weight)).sum();
            let shares = shares(&backends, &fill_slots(&backends, slots));
            for backend in &backends {
                let wanted = f64::from(slots) * f64::from(backend.weight) / total as f64;
                let found = shares[&backend.identity] as f64;
                prop_assert!((found - wanted).abs() <= (wanted / 100.0).max(2.0), "{found} of {wanted}");
            }
        }

        #[test]
        fn the_order_of_backends_changes_nothing((backends, slots) in sets()) {
            let mut turned = backends.clone();
            turned.reverse();
            prop_assert_eq!(names(&backends, slots), names(&turned, slots));
        }
    }

    #[test]
    fn each_permutation_has_each_slot_once() {
        for (_, slots) in SIZES {
            assert!((2..slots).take_while(|d| d * d <= slots).all(|d| !slots.is_multiple_of(d)), "{slots} is a prime");
            for identity in [0, 1, u64::MAX] {
                let mut all: Vec<u32> = Permutation::new(identity, slots).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..slots));
            }
        }
    }

    #[test]
    fn without_backends_there_are_no_slots() {
        assert!(fill_slots(&[], 1_009).is_empty());
    }
}
