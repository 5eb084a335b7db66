//! Ranges as sets of prefixes, the form that gateways and ternary entries support.

use ir::BinaryOp;
use num_bigint::BigUint;

/// Values with masks; a number is in the range if it matches one of them.
pub(in crate::emit) type Prefixes = Vec<(BigUint, BigUint)>;

/// Returns the comparison for swapped operands.
pub(super) fn swap_operands(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

/// Returns a number with all bits of a width set.
pub(in crate::emit) fn all_ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - 1u8
}

/// Returns prefixes of the values below a bound.
pub(super) fn prefixes_below(bound: &BigUint, width: u32) -> Prefixes {
    let part = |bit: u64| (((bound >> (bit + 1)) << 1u8) << bit, (all_ones(width) >> bit) << bit);
    (0..=u64::from(width)).rev().filter(|bit| bound.bit(*bit)).map(part).collect()
}

/// Returns prefixes of the values from a bound on; empty if the bound exceeds the width.
pub(super) fn prefixes_from(bound: &BigUint, width: u32) -> Prefixes {
    if *bound > all_ones(width) {
        return Vec::new();
    }
    let part = |bit: u64| ((((bound >> (bit + 1)) << 1u8) + 1u8) << bit, (all_ones(width) >> bit) << bit);
    // The last prefix contains the bound itself.
    let last = bound.trailing_zeros().unwrap_or(u64::from(width));
    let mut all: Prefixes = (last..u64::from(width)).rev().filter(|bit| !bound.bit(*bit)).map(part).collect();
    all.push((bound.clone(), (all_ones(width) >> last) << last));
    all
}

/// Returns prefixes of the values from `lo` to `hi`; empty if there are none.
pub(in crate::emit) fn prefixes_between(lo: &BigUint, hi: &BigUint, width: u32) -> Prefixes {
    let (mut prefixes, mut next) = (Prefixes::new(), lo.clone());
    while next <= *hi && next <= all_ones(width) {
        // The longest block of values that starts here and ends within the range.
        let mut bits = next.trailing_zeros().unwrap_or(u64::from(width)).min(u64::from(width));
        while &next + (BigUint::from(1u8) << bits) - 1u8 > *hi {
            bits -= 1;
        }
        prefixes.push((next.clone(), (all_ones(width) >> bits) << bits));
        next += BigUint::from(1u8) << bits;
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_the_values_on_their_side_of_the_bound() {
        let holds = |prefixes: &Prefixes, value: u32| {
            prefixes.iter().any(|(wanted, mask)| BigUint::from(value) & mask == *wanted)
        };
        for bound in 0..=33u32 {
            let (less, more) = (prefixes_below(&bound.into(), 5), prefixes_from(&bound.into(), 5));
            for value in 0..32 {
                assert_eq!(holds(&less, value), value < bound, "{value} < {bound}: {less:?}");
                assert_eq!(holds(&more, value), value >= bound, "{value} >= {bound}: {more:?}");
            }
            // The set is minimal: prefixes are disjoint and no two can be merged.
            for side in [less, more].into_iter().filter(|_| bound <= 32) {
                let once = |(value, mask): &(BigUint, BigUint)| {
                    let lowest = mask & (all_ones(5) - mask + 1u8);
                    let neighbour = (value ^ lowest, mask.clone());
                    let others = side.iter().filter(|(other, _)| (other & mask) == *value).count();
                    others == 1 && (neighbour.0 == *value || !side.contains(&neighbour))
                };
                assert!(side.iter().all(once), "{bound}: {side:?}");
            }
        }
    }

    #[test]
    fn prefixes_of_a_range_are_its_values() {
        for (lo, hi) in (0..34u32).flat_map(|lo| (0..34u32).map(move |hi| (lo, hi))) {
            let prefixes = prefixes_between(&lo.into(), &hi.into(), 5);
            for value in 0..32 {
                let matches = |(wanted, mask): &&(BigUint, BigUint)| BigUint::from(value) & mask == *wanted;
                let expected = usize::from(lo <= value && value <= hi);
                assert_eq!(prefixes.iter().filter(matches).count(), expected, "{value} in {lo} .. {hi}: {prefixes:?}");
            }
            assert!(prefixes.len() <= 2 * 5 - 2 || (lo, hi) == (0, 31), "{lo} .. {hi}: {prefixes:?}");
        }
    }
}
