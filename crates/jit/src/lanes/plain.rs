//! What is known of code before instructions are chosen: what does not depend on when it is carried out stands only once. Simpler forms are the builder's
//! ([`super::build`]).

use super::ir::{Code, Id, Op};
use std::collections::HashMap;

/// The operations with the same numbers; of those that are the same, all that take one take the first.
pub(super) fn plain(code: &Code) -> Vec<Op> {
    let renewable = renewable(&code.ops);
    let mut made = Vec::with_capacity(code.ops.len());
    let mut stands_for: Vec<Id> = Vec::with_capacity(code.ops.len());
    let mut known: HashMap<Op, Id> = HashMap::new();
    for (index, op) in code.ops.iter().enumerate() {
        let mut op = op.clone();
        op.operands_mut(&mut |id| *id = stands_for[id.0 as usize]);
        let once = renewable[index] || matches!(op, Op::Active | Op::Word(..));
        let id = Id(index as u32);
        stands_for.push(if once { *known.entry(op.clone()).or_insert(id) } else { id });
        made.push(op);
    }
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
