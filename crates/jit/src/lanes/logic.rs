//! Trees of bitwise operations with three operands, which one instruction computes.

use super::ir::{OpId, VectorOp};

/// Bits of the operands in the eight rows of a truth table.
pub(super) const PATTERNS: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// A bitwise function of two or three values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LogicTree {
    /// The operands.
    pub leaves: Vec<OpId>,
    /// Result for each of the eight combinations of their bits: [`PATTERNS`].
    pub table: u8,
    /// Fused operations besides the root; they must have no other use.
    pub inner: Vec<OpId>,
}

/// Returns the largest tree with this root and at most three operands. `has_single_use` returns
/// whether an operation has a single use.
pub(super) fn largest_tree(ops: &[VectorOp], root: OpId, has_single_use: impl Fn(OpId) -> bool) -> Option<LogicTree> {
    let mut inner = Vec::new();
    bitwise_operands(ops, root)?;
    loop {
        let mut frontier = Vec::new();
        visit_leaves(ops, root, root, &inner, &mut |id| frontier.push(id));
        let absorbable = frontier.into_iter().find(|id| {
            let mut wider = inner.clone();
            wider.push(*id);
            has_single_use(*id) && bitwise_operands(ops, *id).is_some() && tree_leaves(ops, root, &wider).len() <= 3
        });
        match absorbable {
            Some(id) => inner.push(id),
            None => break,
        }
    }
    let leaves = tree_leaves(ops, root, &inner);
    let table = truth_table(ops, root, root, &inner, &leaves);
    (leaves.len() >= 2).then_some(LogicTree { leaves, table, inner })
}

/// Permutes the operands of a truth table: the new operand `i` is the old one `order[i]`.
pub(super) fn permute_table(table: u8, order: [usize; 3]) -> u8 {
    let mut made = 0;
    for row in 0..8u8 {
        let old = order.iter().enumerate().fold(0, |old, (new, place)| {
            let bit = row >> (2 - new) & 1;
            old | bit << (2 - place)
        });
        made |= (table >> old & 1) << row;
    }
    made
}

fn bitwise_operands(ops: &[VectorOp], id: OpId) -> Option<[OpId; 2]> {
    match ops[id.0 as usize] {
        VectorOp::And(a, b) | VectorOp::Or(a, b) | VectorOp::Xor(a, b) => Some([a, b]),
        _ => None,
    }
}

/// Calls `visit` for every operand that is not fused, from left to right.
fn visit_leaves(ops: &[VectorOp], root: OpId, id: OpId, inner: &[OpId], visit: &mut impl FnMut(OpId)) {
    match bitwise_operands(ops, id) {
        Some(both) if id == root || inner.contains(&id) => {
            for operand in both {
                visit_leaves(ops, root, operand, inner, visit);
            }
        }
        _ => visit(id),
    }
}

fn constant(ops: &[VectorOp], id: OpId) -> Option<u64> {
    match ops[id.0 as usize] {
        VectorOp::Const(value) => Some(value),
        _ => None,
    }
}

/// Returns the operands: each once, one of two complementary constants, and no constant of all
/// zeros or ones.
fn tree_leaves(ops: &[VectorOp], root: OpId, inner: &[OpId]) -> Vec<OpId> {
    let mut found: Vec<OpId> = Vec::new();
    visit_leaves(ops, root, root, inner, &mut |id| {
        let known = match constant(ops, id) {
            Some(0 | u64::MAX) => true,
            Some(value) => found.iter().any(|other| constant(ops, *other).is_some_and(|c| c == value || c == !value)),
            None => found.contains(&id),
        };
        if !known {
            found.push(id);
        }
    });
    found
}

/// Returns the truth table of `id` as a function of the leaves: bit `i` is the result for the
/// leaves' values `i`, in the order of `VPTERNLOG`. A constant that is equal to a leaf, or its
/// complement, counts as that leaf.
fn truth_table(ops: &[VectorOp], root: OpId, id: OpId, inner: &[OpId], leaves: &[OpId]) -> u8 {
    if id == root || inner.contains(&id) {
        let table_of = |id: OpId| truth_table(ops, root, id, inner, leaves);
        match ops[id.0 as usize] {
            VectorOp::And(a, b) => return table_of(a) & table_of(b),
            VectorOp::Or(a, b) => return table_of(a) | table_of(b),
            VectorOp::Xor(a, b) => return table_of(a) ^ table_of(b),
            _ => {}
        }
    }
    let value = constant(ops, id);
    match value {
        Some(0) => return 0,
        Some(u64::MAX) => return u8::MAX,
        _ => {}
    }
    for (leaf, pattern) in leaves.iter().zip(PATTERNS) {
        if *leaf == id || value.is_some() && constant(ops, *leaf) == value {
            return pattern;
        }
        if value.is_some_and(|value| constant(ops, *leaf) == Some(!value)) {
            return !pattern;
        }
    }
    0
}
