//! How large values can be at most, as far as the operations tell.

use super::ir::{Id, Op, ZERO_BYTE};

/// By operation: no lane is greater. Masks have [`u64::MAX`].
pub(super) fn bounds(ops: &[Op]) -> Vec<u64> {
    let mut most = vec![u64::MAX; ops.len()];
    // What operations take was made before them, except numbers, which may stand anywhere.
    for (index, op) in ops.iter().enumerate() {
        if let Op::Const(value) = op {
            most[index] = *value;
        }
    }
    for (index, op) in ops.iter().enumerate() {
        most[index] = bound(ops, op, &most);
    }
    most
}

fn bound(ops: &[Op], op: &Op, most: &[u64]) -> u64 {
    let of = |id: &Id| most[id.0 as usize];
    match op {
        Op::Const(value) => *value,
        Op::Position => u64::from(u32::MAX),
        Op::Add(a, b) => of(a).saturating_add(of(b)),
        Op::Mul(a, b) => of(a).saturating_mul(of(b)),
        Op::Quotient(a, _) => of(a),
        Op::And(a, b) => of(a).min(of(b)),
        Op::Or(a, b) | Op::Xor(a, b) => ones(of(a).max(of(b))),
        Op::Shl(a, by) if of(a) <= u64::MAX >> by => of(a) << by,
        Op::Shr(a, by) => of(a) >> by,
        Op::Sar(a, by) if of(a) < 1 << 63 => of(a) >> by,
        Op::ShrBy(a, _) => of(a),
        Op::Rotl32(..) => u64::from(u32::MAX),
        Op::Bytes(_, from) => {
            let used = from.iter().rposition(|byte| *byte != ZERO_BYTE).map_or(0, |last| last + 1);
            all_ones(8 * used as u32)
        }
        Op::Blend(_, a, b) => of(a).max(of(b)),
        Op::Number(_) => 1,
        Op::Gather { bytes, .. } | Op::Pointed { bytes, .. } => all_ones(8 * u32::from(*bytes)),
        Op::Word(rows, word) => match &ops[rows.0 as usize] {
            Op::Rows { bytes, .. } => all_ones(8 * u32::from(bytes.saturating_sub(8 * word).min(8))),
            _ => u64::MAX,
        },
        _ => u64::MAX,
    }
}

/// As many ones as the value has bits.
fn ones(value: u64) -> u64 {
    all_ones(64 - value.leading_zeros())
}

fn all_ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}
