//! Whether code is well formed: what operations take was made before them and is of the right kind, and their numbers are such as they can have.

use super::ir::{Code, Id, Op, WORDS, ZERO_BYTE};

/// What an operation gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vector,
    Mask,
    Rows,
    Nothing,
}

/// The first operation that is not well formed.
pub(super) fn verify(code: &Code) -> Result<(), Id> {
    let mut kinds = Vec::with_capacity(code.ops.len());
    for (index, op) in code.ops.iter().enumerate() {
        let expected = expected(op);
        let right = op.operands().iter().zip(expected).all(|(id, kind)| kinds.get(id.0 as usize) == Some(&kind));
        if !right || !has_form(op) {
            return Err(Id(index as u32));
        }
        kinds.push(kind(op));
    }
    Ok(())
}

fn kind(op: &Op) -> Kind {
    match op {
        Op::Rows { .. } => Kind::Rows,
        op if op.is_mask() => Kind::Mask,
        op if op.is_effect() => Kind::Nothing,
        _ => Kind::Vector,
    }
}

/// What it takes, in the order of [`Op::operands`]; vectors from there on.
fn expected(op: &Op) -> impl Iterator<Item = Kind> {
    use Kind::{Mask, Rows, Vector};
    let first: &[Kind] = match op {
        Op::Blend(..) | Op::Number(_) | Op::Not(_) | Op::Append { .. } | Op::Accumulate { .. } => &[Mask],
        Op::Both(..) | Op::Either(..) | Op::OneOf(..) | Op::Without(..) => &[Mask, Mask],
        Op::Gather { .. } | Op::Scatter { .. } => &[Vector, Mask],
        Op::Word(..) => &[Rows],
        _ => &[],
    };
    first.iter().copied().chain(std::iter::repeat(Vector))
}

fn has_form(op: &Op) -> bool {
    match op {
        Op::Shl(_, by) | Op::Shr(_, by) | Op::Sar(_, by) | Op::Rotl64(_, by) => *by < 64,
        Op::Rotl32(_, by) => *by < 32,
        Op::Bytes(_, from) => from.iter().all(|byte| *byte < 8 || *byte == ZERO_BYTE),
        Op::Gather { bytes, .. } => matches!(bytes, 4 | 8),
        Op::Pointed { bytes, .. } => matches!(bytes, 1 | 2 | 4 | 8),
        Op::Rows { bytes, .. } => (1..=8 * WORDS).contains(&usize::from(*bytes)),
        Op::Word(_, word) => usize::from(*word) < WORDS,
        Op::Write { bytes, words, .. } => {
            let named = |word: usize| bytes >> (8 * word) & 0xff != 0;
            words.len() <= WORDS && !(words.len()..WORDS).any(named)
        }
        _ => true,
    }
}
