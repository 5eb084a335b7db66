//! Which bits of values may be 1, as far as the operations tell.

use super::ir::{Id, Op};

/// The bits of what an operation gives that may be 1 in some lane, by those of what it takes. Of a mask: all.
pub(super) fn may_be(ops: &[Op], op: &Op, may: impl Fn(Id) -> u64) -> u64 {
    let most = |id: &Id| greatest(may(*id));
    match op {
        Op::Const(number) => *number,
        Op::Position => low(32),
        Op::And(a, b) => may(*a) & may(*b),
        Op::Or(a, b) | Op::Xor(a, b) | Op::Blend(_, a, b) => may(*a) | may(*b),
        Op::Add(a, b) => most(a).checked_add(most(b)).map_or(u64::MAX, greatest),
        Op::Mul(a, b) => most(a).checked_mul(most(b)).map_or(u64::MAX, greatest),
        Op::Quotient(a, _) | Op::ShrBy(a, _) => most(a),
        Op::Shl(a, by) => may(*a) << by,
        Op::Shr(a, by) => may(*a) >> by,
        Op::Sar(a, by) if most(a) < 1 << 63 => may(*a) >> by,
        Op::Rotl32(..) => low(32),
        Op::Bytes(a, pattern) => permuted(may(*a), *pattern),
        Op::Number(_) => 1,
        Op::Gather { bytes, .. } | Op::Pointed { bytes, .. } => low(8 * u32::from(*bytes)),
        Op::Word(rows, word) => match &ops[rows.0 as usize] {
            Op::Rows { bytes, .. } => low(8 * u32::from(bytes.saturating_sub(8 * word).min(8))),
            _ => u64::MAX,
        },
        _ => u64::MAX,
    }
}

/// By operation: the bits that may be 1.
#[cfg(target_arch = "x86_64")]
pub(super) fn bounds(ops: &[Op]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(ops.len());
    for op in ops {
        let bits = may_be(ops, op, |id| all[id.0 as usize]);
        all.push(bits);
    }
    all
}

/// So many low bits.
pub fn low(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The bytes of a word that a pattern takes: [`Op::Bytes`].
pub(super) fn permuted(word: u64, pattern: [u8; 8]) -> u64 {
    let bytes = word.to_le_bytes();
    u64::from_le_bytes(pattern.map(|from| bytes.get(usize::from(from)).copied().unwrap_or(0)))
}

/// The greatest number whose bits are all in it.
pub(super) fn greatest(may: u64) -> u64 {
    low(64 - may.leading_zeros())
}
