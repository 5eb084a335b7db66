//! Verifier of vector code: operands precede their operation and have the right type, and
//! immediates are in range.

use super::ir::{OpId, VectorCode, VectorOp, WORDS, ZERO_BYTE};

/// Type of an operation's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpType {
    Vector,
    Mask,
    Rows,
    Nothing,
}

/// Returns the first malformed operation as error.
pub(super) fn verify(code: &VectorCode) -> Result<(), OpId> {
    let mut kinds = Vec::with_capacity(code.ops.len());
    for (index, op) in code.ops.iter().enumerate() {
        let expected = operand_types(op);
        let right = op.operands().iter().zip(expected).all(|(id, kind)| kinds.get(id.0 as usize) == Some(&kind));
        if !right || !has_valid_immediates(op) {
            return Err(OpId(index as u32));
        }
        kinds.push(result_type(op));
    }
    Ok(())
}

fn result_type(op: &VectorOp) -> OpType {
    match op {
        VectorOp::Rows { .. } => OpType::Rows,
        op if op.is_mask() => OpType::Mask,
        op if op.is_effect() => OpType::Nothing,
        _ => OpType::Vector,
    }
}

/// Returns the types of operands in the order of [`VectorOp::operands`]; vectors after the listed
/// ones.
fn operand_types(op: &VectorOp) -> impl Iterator<Item = OpType> {
    use OpType::{Mask, Rows, Vector};
    let first: &[OpType] = match op {
        VectorOp::Blend(..)
        | VectorOp::Number(_)
        | VectorOp::Not(_)
        | VectorOp::Append { .. }
        | VectorOp::Accumulate { .. } => &[Mask],
        VectorOp::Both(..) | VectorOp::Either(..) | VectorOp::OneOf(..) | VectorOp::Without(..) => &[Mask, Mask],
        VectorOp::Gather { .. } | VectorOp::Scatter { .. } => &[Vector, Mask],
        VectorOp::Word(..) => &[Rows],
        _ => &[],
    };
    first.iter().copied().chain(std::iter::repeat(Vector))
}

fn has_valid_immediates(op: &VectorOp) -> bool {
    match op {
        VectorOp::Shl(_, by) | VectorOp::Shr(_, by) | VectorOp::Sar(_, by) | VectorOp::Rotl64(_, by) => *by < 64,
        VectorOp::Rotl32(_, by) => *by < 32,
        VectorOp::Bytes(_, from) => from.iter().all(|byte| *byte < 8 || *byte == ZERO_BYTE),
        VectorOp::Gather { bytes, .. } => matches!(bytes, 4 | 8),
        VectorOp::Pointed { bytes, .. } => matches!(bytes, 1 | 2 | 4 | 8),
        VectorOp::Rows { bytes, .. } => (1..=8 * WORDS).contains(&usize::from(*bytes)),
        VectorOp::Word(_, word) => usize::from(*word) < WORDS,
        VectorOp::Write { bytes, words, .. } => {
            let named = |word: usize| bytes >> (8 * word) & 0xff != 0;
            words.len() <= WORDS && !(words.len()..WORDS).any(named)
        }
        _ => true,
    }
}
