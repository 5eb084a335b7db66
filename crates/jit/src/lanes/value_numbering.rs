//! Value numbering before instruction selection: shares operations that yield the same result at
//! any position. Simplifications are done by the builder ([`super::build`]).

use super::ir::{OpId, VectorCode, VectorOp};
use std::collections::HashMap;

/// Returns the operations with the same ids; uses of equal operations refer to the first.
pub(super) fn number_values(code: &VectorCode) -> Vec<VectorOp> {
    let rematerializable = rematerializable(&code.ops);
    let mut made = Vec::with_capacity(code.ops.len());
    let mut stands_for: Vec<OpId> = Vec::with_capacity(code.ops.len());
    let mut known: HashMap<VectorOp, OpId> = HashMap::new();
    for (index, op) in code.ops.iter().enumerate() {
        let mut op = op.clone();
        op.operands_mut(&mut |id| *id = stands_for[id.0 as usize]);
        let once = rematerializable[index] || matches!(op, VectorOp::Active | VectorOp::Word(..));
        let id = OpId(index as u32);
        stands_for.push(if once { *known.entry(op.clone()).or_insert(id) } else { id });
        made.push(op);
    }
    made
}

/// Returns for each operation whether it can be rematerialised at any time. Lists and counts that
/// the code writes cannot.
pub(super) fn rematerializable(ops: &[VectorOp]) -> Vec<bool> {
    let mut written = Vec::new();
    for op in ops {
        match op {
            VectorOp::Append { count, columns, keys, .. } => {
                written.push(*count..count.saturating_add(8));
                let lists = columns.iter().map(|(list, _)| *list).chain(keys.iter().map(|(list, _)| *list));
                written.extend(lists.map(|list| list..list.saturating_add(1)));
            }
            VectorOp::Scatter { list, .. } => written.push(*list..list.saturating_add(1)),
            VectorOp::Accumulate { at, .. } => written.push(*at..at.saturating_add(64)),
            _ => {}
        }
    }
    // Ranges of bytes from the context.
    let is_unwritten = |offset: i32, bytes: i32| {
        let end = offset.saturating_add(bytes);
        !written.iter().any(|range| range.start < end && offset < range.end)
    };
    let rematerializable = |op: &VectorOp| match op {
        VectorOp::Const(_) | VectorOp::Position | VectorOp::Certain(_) => true,
        VectorOp::Column(list) => is_unwritten(*list, 64),
        VectorOp::ContextWord(offset) => is_unwritten(*offset, 8),
        _ => false,
    };
    ops.iter().map(rematerializable).collect()
}

/// Returns the number of uses of each operation, by live operations only.
pub(super) fn count_uses(ops: &[VectorOp]) -> Vec<u32> {
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
