//! Ranges of numbers as prefixes, which is how gateways and ternary entries have them.

use ir::BinaryOp;
use num_bigint::BigUint;

/// Values under masks: a number is in the range if it is one of the values under that one's mask.
pub(super) type Prefixes = Vec<(BigUint, BigUint)>;

/// The comparison with its operands exchanged.
pub(super) fn mirrored(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Lt => BinaryOp::Gt,
        BinaryOp::Le => BinaryOp::Ge,
        BinaryOp::Gt => BinaryOp::Lt,
        BinaryOp::Ge => BinaryOp::Le,
        other => other,
    }
}

/// All bits of a width.
pub(super) fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - 1u8
}

/// The values below a bound.
pub(super) fn below(bound: &BigUint, width: u32) -> Prefixes {
    let part = |bit: u64| (((bound >> (bit + 1)) << 1u8) << bit, (ones(width) >> bit) << bit);
    (0..=u64::from(width)).rev().filter(|bit| bound.bit(*bit)).map(part).collect()
}

/// The values from a bound on; none if that is more than the width has.
pub(super) fn from(bound: &BigUint, width: u32) -> Prefixes {
    if *bound > ones(width) {
        return Vec::new();
    }
    let part = |bit: u64| ((((bound >> (bit + 1)) << 1u8) + 1u8) << bit, (ones(width) >> bit) << bit);
    // The bound itself stands for all that has its bits above the last one that is set.
    let last = bound.trailing_zeros().unwrap_or(u64::from(width));
    let mut all: Prefixes = (last..u64::from(width)).rev().filter(|bit| !bound.bit(*bit)).map(part).collect();
    all.push((bound.clone(), (ones(width) >> last) << last));
    all
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
            let (less, more) = (below(&bound.into(), 5), from(&bound.into(), 5));
            for value in 0..32 {
                assert_eq!(holds(&less, value), value < bound, "{value} < {bound}: {less:?}");
                assert_eq!(holds(&more, value), value >= bound, "{value} >= {bound}: {more:?}");
            }
            // As few as can be: none has what is in another one, or could be one with it.
            for side in [less, more].into_iter().filter(|_| bound <= 32) {
                let once = |(value, mask): &(BigUint, BigUint)| {
                    let lowest = mask & (ones(5) - mask + 1u8);
                    let neighbour = (value ^ lowest, mask.clone());
                    let others = side.iter().filter(|(other, _)| (other & mask) == *value).count();
                    others == 1 && (neighbour.0 == *value || !side.contains(&neighbour))
                };
                assert!(side.iter().all(once), "{bound}: {side:?}");
            }
        }
    }
}
