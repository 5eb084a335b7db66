//! Known bits: bits of values that may be 1.

use super::ir::{OpId, VectorOp};

/// Returns the bits of an operation's result that may be 1 in some lane, from those of its
/// operands. All bits for a mask.
pub(super) fn result_bits(ops: &[VectorOp], op: &VectorOp, possible_bits: impl Fn(OpId) -> u64) -> u64 {
    let max = |id: &OpId| max_value(possible_bits(*id));
    match op {
        VectorOp::Const(number) => *number,
        VectorOp::Position => low_bits(32),
        VectorOp::And(a, b) => possible_bits(*a) & possible_bits(*b),
        VectorOp::Or(a, b) | VectorOp::Xor(a, b) | VectorOp::Blend(_, a, b) => possible_bits(*a) | possible_bits(*b),
        VectorOp::Add(a, b) => max(a).checked_add(max(b)).map_or(u64::MAX, max_value),
        VectorOp::Mul(a, b) => max(a).checked_mul(max(b)).map_or(u64::MAX, max_value),
        VectorOp::Quotient(a, _) | VectorOp::ShrBy(a, _) => max(a),
        VectorOp::Shl(a, by) => possible_bits(*a) << by,
        VectorOp::Shr(a, by) => possible_bits(*a) >> by,
        VectorOp::Sar(a, by) if max(a) < 1 << 63 => possible_bits(*a) >> by,
        VectorOp::Rotl32(..) => low_bits(32),
        VectorOp::Bytes(a, pattern) => permute_bytes(possible_bits(*a), *pattern),
        VectorOp::Number(_) => 1,
        VectorOp::Gather { bytes, .. } | VectorOp::Pointed { bytes, .. } => low_bits(8 * u32::from(*bytes)),
        VectorOp::Word(rows, word) => match &ops[rows.0 as usize] {
            VectorOp::Rows { bytes, .. } => low_bits(8 * u32::from(bytes.saturating_sub(8 * word).min(8))),
            _ => u64::MAX,
        },
        _ => u64::MAX,
    }
}

/// Returns for each operation the bits that may be 1.
#[cfg(target_arch = "x86_64")]
pub(super) fn bounds(ops: &[VectorOp]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(ops.len());
    for op in ops {
        let bits = result_bits(ops, op, |id| all[id.0 as usize]);
        all.push(bits);
    }
    all
}

/// Returns a mask of the low `bits` bits.
pub fn low_bits(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Permutes the bytes of a word by a pattern of [`VectorOp::Bytes`].
pub(super) fn permute_bytes(word: u64, pattern: [u8; 8]) -> u64 {
    let bytes = word.to_le_bytes();
    u64::from_le_bytes(pattern.map(|from| bytes.get(usize::from(from)).copied().unwrap_or(0)))
}

/// Returns the greatest number with these possible bits.
pub(super) fn max_value(may: u64) -> u64 {
    low_bits(64 - may.leading_zeros())
}
