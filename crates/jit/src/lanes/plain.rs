//! Code with fewer forms: what stands for another operation is replaced by it, and what does not depend on when it is carried out stands only once.

use super::ir::{Code, Id, Op, ZERO_BYTE};
use std::collections::HashMap;

/// The operations with the same numbers, and behind them numbers that they need besides.
pub(super) fn plain(code: &Code) -> Vec<Op> {
    let renewable = renewable(&code.ops);
    let mut made = Vec::with_capacity(code.ops.len());
    let mut extra = Vec::new();
    let mut stands_for: Vec<Id> = Vec::with_capacity(code.ops.len());
    let mut known: HashMap<Op, Id> = HashMap::new();
    for (index, op) in code.ops.iter().enumerate() {
        let mut op = op.clone();
        op.operands_mut(&mut |id| *id = stands_for[id.0 as usize]);
        let next = (code.ops.len() + extra.len()) as u32;
        let simple = simpler(&made, op, next);
        let (op, same) = match simple {
            Simple::Same(id) => (Op::Const(0), Some(id)),
            Simple::With(op, number) => {
                extra.push(number);
                (op, None)
            }
            Simple::Op(op) => (op, None),
        };
        let once = renewable[index] || matches!(op, Op::Active | Op::Word(..) | Op::Const(_));
        let id = Id(index as u32);
        let stands = match same {
            Some(same) => same,
            None if once => *known.entry(op.clone()).or_insert(id),
            None => id,
        };
        stands_for.push(stands);
        made.push(op);
    }
    made.extend(extra);
    made
}

/// By operation: it can be carried out at any time, and gives the same. Lists that the code itself writes to, and counts, cannot.
pub(super) fn renewable(ops: &[Op]) -> Vec<bool> {
    let mut written = Vec::new();
    for op in ops {
        match op {
            Op::Append { count, columns, keys, .. } => {
                written.push(*count..count.saturating_add(8));
                let lists = columns.iter().map(|(list, _)| *list).chain(keys.iter().map(|(list, _)| *list));
                written.extend(lists.map(|list| list..list.saturating_add(1)));
            }
            Op::Scatter { list, .. } => written.push(*list..list.saturating_add(1)),
            Op::Accumulate { at, .. } => written.push(*at..at.saturating_add(64)),
            _ => {}
        }
    }
    let unwritten = |place: i32, bytes: i32| {
        let end = place.saturating_add(bytes);
        !written.iter().any(|range| range.start < end && place < range.end)
    };
    let renewable = |op: &Op| match op {
        Op::Const(_) | Op::Position | Op::Certain(_) => true,
        Op::Column(list) => unwritten(*list, 64),
        Op::ContextWord(place) => unwritten(*place, 8),
        _ => false,
    };
    ops.iter().map(renewable).collect()
}

/// How often each operation is used by what has an effect in the end.
pub(super) fn uses(ops: &[Op]) -> Vec<u32> {
    let mut uses = vec![0; ops.len()];
    for (index, op) in ops.iter().enumerate().rev() {
        if uses[index] > 0 || op.is_effect() {
            for id in op.operands() {
                uses[id.0 as usize] += 1;
            }
        }
    }
    uses
}

/// What an operation may be written as.
enum Simple {
    /// Another operation.
    Same(Id),
    /// This, of which the second operand is a number with the next free place.
    With(Op, Op),
    /// This.
    Op(Op),
}

fn simpler(made: &[Op], op: Op, next: u32) -> Simple {
    match op {
        Op::Shl(a, 0) | Op::Shr(a, 0) | Op::Sar(a, 0) | Op::Rotl64(a, 0) | Op::Rotl32(a, 0) => Simple::Same(a),
        Op::Bytes(a, from) => bytes(a, from, next),
        Op::Mul(a, b) => {
            let number = |id: Id| match made[id.0 as usize] {
                Op::Const(value) if value.is_power_of_two() => Some(value.trailing_zeros() as u8),
                _ => None,
            };
            match (number(a), number(b)) {
                (_, Some(0)) => Simple::Same(a),
                (Some(0), _) => Simple::Same(b),
                (_, Some(by)) => Simple::Op(Op::Shl(a, by)),
                (Some(by), _) => Simple::Op(Op::Shl(b, by)),
                _ => Simple::Op(Op::Mul(a, b)),
            }
        }
        Op::Word(rows, word) => match made[rows.0 as usize] {
            Op::Rows { bytes, .. } if 8 * word >= bytes => Simple::Op(Op::Const(0)),
            _ => Simple::Op(Op::Word(rows, word)),
        },
        op => Simple::Op(op),
    }
}

/// Bytes that stay where they are, or move by the same distance, need no table.
fn bytes(a: Id, from: [u8; 8], next: u32) -> Simple {
    let places = || from.iter().enumerate().filter(|(_, byte)| **byte != ZERO_BYTE);
    if places().all(|(place, byte)| usize::from(*byte) == place) {
        let mask = places().fold(0, |mask, (place, _)| mask | 0xff_u64 << (8 * place));
        return match mask {
            0 => Simple::Op(Op::Const(0)),
            u64::MAX => Simple::Same(a),
            _ => Simple::With(Op::And(a, Id(next)), Op::Const(mask)),
        };
    }
    for by in 1..8u8 {
        let up: [u8; 8] = std::array::from_fn(|place| (place as u8).checked_sub(by).unwrap_or(ZERO_BYTE));
        let down: [u8; 8] =
            std::array::from_fn(|place| if place as u8 + by < 8 { place as u8 + by } else { ZERO_BYTE });
        if from == up {
            return Simple::Op(Op::Shl(a, 8 * by));
        }
        if from == down {
            return Simple::Op(Op::Shr(a, 8 * by));
        }
    }
    Simple::Op(Op::Bytes(a, from))
}
