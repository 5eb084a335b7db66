//! Trees of bits' operations that one instruction carries out: of three operands each, any function.

use super::ir::{Id, Op};

/// What the operands' bits are in a table's eight rows.
pub(super) const PATTERNS: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// A function of two or three values' bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Logic {
    /// The operands.
    pub leaves: Vec<Id>,
    /// What it gives for each of the eight combinations of their bits: [`PATTERNS`].
    pub table: u8,
    /// The operations that it takes in besides the root, which nobody else may use.
    pub inner: Vec<Id>,
}

/// The tree with this root that takes in as many operations as three operands allow. `single` says whether an operation is used once only.
pub(super) fn tree(ops: &[Op], root: Id, single: impl Fn(Id) -> bool) -> Option<Logic> {
    let mut inner = Vec::new();
    operands(ops, root)?;
    loop {
        let mut frontier = Vec::new();
        collect(ops, root, root, &inner, &mut |id| frontier.push(id));
        let more = frontier.into_iter().find(|id| {
            let mut wider = inner.clone();
            wider.push(*id);
            single(*id) && operands(ops, *id).is_some() && leaves(ops, root, &wider).len() <= 3
        });
        match more {
            Some(id) => inner.push(id),
            None => break,
        }
    }
    let leaves = leaves(ops, root, &inner);
    let table = table(ops, root, root, &inner, &leaves);
    (leaves.len() >= 2).then_some(Logic { leaves, table, inner })
}

/// The table with its operands in another order: the new one's operand `i` is the old one's `order[i]`.
pub(super) fn permuted(table: u8, order: [usize; 3]) -> u8 {
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

fn operands(ops: &[Op], id: Id) -> Option<[Id; 2]> {
    match ops[id.0 as usize] {
        Op::And(a, b) | Op::Or(a, b) | Op::Xor(a, b) => Some([a, b]),
        _ => None,
    }
}

/// Calls for every operand that is not taken in, from left to right.
fn collect(ops: &[Op], root: Id, id: Id, inner: &[Id], visit: &mut impl FnMut(Id)) {
    match operands(ops, id) {
        Some(both) if id == root || inner.contains(&id) => {
            for operand in both {
                collect(ops, root, operand, inner, visit);
            }
        }
        _ => visit(id),
    }
}

fn constant(ops: &[Op], id: Id) -> Option<u64> {
    match ops[id.0 as usize] {
        Op::Const(value) => Some(value),
        _ => None,
    }
}

/// The operands: each once, and of numbers that are each other's complement one, and none that is all zeros or ones.
fn leaves(ops: &[Op], root: Id, inner: &[Id]) -> Vec<Id> {
    let mut found: Vec<Id> = Vec::new();
    collect(ops, root, root, inner, &mut |id| {
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

fn table(ops: &[Op], root: Id, id: Id, inner: &[Id], leaves: &[Id]) -> u8 {
    if id == root || inner.contains(&id) {
        let below = |id: Id| table(ops, root, id, inner, leaves);
        match ops[id.0 as usize] {
            Op::And(a, b) => return below(a) & below(b),
            Op::Or(a, b) => return below(a) | below(b),
            Op::Xor(a, b) => return below(a) ^ below(b),
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
