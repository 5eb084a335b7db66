//! Instruction combining: arithmetic in fewer steps with the same result.
//!
//! ```text
//! x + (c ? 1 : 0)         ->  c ? x + 1 : x         a gateway selects the ALU operation
//! a > b                   ->  (a |-| b) != 0        a gateway only compares for equality
//! (bit<16>) (a + b) > w   ->  a and b are added in 16 bits, if a + b cannot overflow
//! s[15:0] + s[16]         ->  carry ? t + 1 : t     s = x + y in 17 bits, t = x + y
//! ```
//!
//! The last rule is in `ones_complement_add`.

use super::instructions::{InstReplacement, constant_bits, inst_of};
use super::ones_complement_add::expand_ones_complement_add;
use ir::*;
use num_bigint::BigUint;
use std::collections::HashMap;

/// Combines the instructions of a body.
pub(super) fn combine_arithmetic(body: &mut Body) {
    let mut uses: HashMap<Value, usize> = HashMap::new();
    for data in body.blocks.values() {
        let mut count = |v: Value| *uses.entry(v).or_default() += 1;
        data.insts.iter().for_each(|i| i.inst.for_each_use(&mut count));
        if let Some(term) = &data.term {
            term.term.for_each_use(&mut count);
        }
    }
    for block in body.blocks.keys() {
        let mut n = 0;
        while n < body.blocks[block].insts.len() {
            let data = body.blocks[block].insts[n].clone();
            let replacement = match data.inst {
                Inst::Binary(op, a, b) if op.is_comparison() => compare_by_saturation(body, op, [a, b]),
                Inst::Binary(BinaryOp::Add, a, b) => expand_ones_complement_add(body, [a, b])
                    .or_else(|| combine_select(body, &uses, BinaryOp::Add, [a, b])),
                Inst::Binary(op, a, b) => combine_select(body, &uses, op, [a, b]),
                _ => None,
            };
            if let Some((before, inst)) = replacement {
                let count = before.len();
                let inserted =
                    before.into_iter().map(|(inst, result)| InstData { inst, results: vec![result], loc: data.loc });
                body.blocks[block].insts.splice(n..n, inserted.collect::<Vec<_>>());
                n += count;
                body.blocks[block].insts[n].inst = inst;
            }
            n += 1;
        }
    }
    ir::passes::remove_dead_values(body);
}

/// Distributes an operation over a selection between constants: `x + (c ? 1 : 2)` becomes `c ? x +
/// 1 : x + 2`, because a gateway selects and an action adds a constant.
fn combine_select(body: &mut Body, uses: &HashMap<Value, usize>, op: BinaryOp, [a, b]: [Value; 2]) -> InstReplacement {
    let commutes = matches!(op, BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor);
    if !commutes && op != BinaryOp::Sub {
        return None;
    }
    let ty = body.value_type(b);
    (matches!(ty, Type::Bit(1..=32)) && body.value_type(a) == ty).then_some(())?;
    let select_of_constants = |body: &Body, value: Value| match inst_of(body, value) {
        Some(Inst::Select { cond, then, els }) if uses.get(&value) == Some(&1) => {
            let are_constants = constant_bits(body, *then).is_some() && constant_bits(body, *els).is_some();
            are_constants.then_some((*cond, [*then, *els]))
        }
        _ => None,
    };
    let (operand, (cond, arms)) = match (select_of_constants(body, b), select_of_constants(body, a)) {
        (Some(found), None) => (a, found),
        (None, Some(found)) if commutes => (b, found),
        _ => return None,
    };
    constant_bits(body, operand).is_none().then_some(())?;
    let mut before = Vec::new();
    let [then, els] = arms.map(|arm| {
        if constant_bits(body, arm) == Some(&BigUint::ZERO) {
            return operand;
        }
        let value = body.values.push(ty);
        before.push((Inst::Binary(op, operand, arm), value));
        value
    });
    Some((before, Inst::Select { cond, then, els }))
}

/// Replaces an order comparison of two values by a saturating subtraction and a test for zero,
/// because a gateway only compares for equality.
fn compare_by_saturation(body: &mut Body, op: BinaryOp, [a, b]: [Value; 2]) -> InstReplacement {
    let Type::Bit(width) = body.value_type(a) else { return None };
    let (a, b, test) = match op {
        BinaryOp::Gt => (a, b, BinaryOp::Ne),
        BinaryOp::Le => (a, b, BinaryOp::Eq),
        BinaryOp::Lt => (b, a, BinaryOp::Ne),
        BinaryOp::Ge => (b, a, BinaryOp::Eq),
        _ => return None,
    };
    // An ALU saturates at the width of its container.
    let container_bits = [8u32, 16, 32].into_iter().find(|w| *w >= width)?;
    let has_constant = constant_bits(body, a).is_some() || constant_bits(body, b).is_some();
    (!has_constant && body.value_type(b) == Type::Bit(width)).then_some(())?;
    let mut before = Vec::new();
    let [x, y] =
        [a, b].map(|v| if container_bits == width { v } else { widen_value(body, v, container_bits, &mut before, 0) });
    let [difference, zero] = [(); 2].map(|()| body.values.push(Type::Bit(container_bits)));
    before.push((Inst::Binary(BinaryOp::SubSat, x, y), difference));
    before.push((Inst::Const(Const::new(Type::Bit(container_bits), 0u8)), zero));
    Some((before, Inst::Binary(test, difference, zero)))
}

/// Returns an upper bound of a value.
fn max_value(body: &Body, value: Value, depth: usize) -> BigUint {
    let all = super::prefixes::all_ones(body.value_type(value).width());
    if depth > 16 {
        return all;
    }
    let own = match inst_of(body, value) {
        Some(Inst::Const(c)) => c.bits.clone(),
        Some(Inst::Cast(_, from)) if matches!(body.value_type(*from), Type::Bit(_)) => {
            max_value(body, *from, depth + 1)
        }
        Some(Inst::Binary(BinaryOp::Add, a, b)) => max_value(body, *a, depth + 1) + max_value(body, *b, depth + 1),
        _ => return all,
    };
    own.min(all)
}

/// Returns the value in a wider type of `to` bits, and appends its computation to `before`. An
/// addition that cannot overflow is computed in the wider type.
fn widen_value(body: &mut Body, value: Value, to: u32, before: &mut Vec<(Inst, Value)>, depth: usize) -> Value {
    let ty = Type::Bit(to);
    let max_sum = super::prefixes::all_ones(body.value_type(value).width());
    let widened = match inst_of(body, value).cloned() {
        Some(Inst::Const(c)) => Inst::Const(Const::new(ty, c.bits)),
        Some(Inst::Cast(_, from)) => match body.value_type(from) {
            Type::Bit(width) if width == to => return from,
            Type::Bit(width) if width < to && width <= body.value_type(value).width() => Inst::Cast(ty, from),
            _ => Inst::Cast(ty, value),
        },
        Some(Inst::Binary(BinaryOp::Add, a, b))
            if depth < 16 && max_value(body, a, 0) + max_value(body, b, 0) <= max_sum =>
        {
            let (a, b) = (widen_value(body, a, to, before, depth + 1), widen_value(body, b, to, before, depth + 1));
            Inst::Binary(BinaryOp::Add, a, b)
        }
        _ => Inst::Cast(ty, value),
    };
    let result = body.values.push(ty);
    before.push((widened, result));
    result
}
