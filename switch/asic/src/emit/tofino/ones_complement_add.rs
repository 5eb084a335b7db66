//! One's complement addition, as in the checksum update of RFC 1624: `s = x + y` in more bits than
//! `x`, then its low bits plus its carry, once or twice.
//!
//! Tofino's ALUs add in 8, 16 or 32 bits, and slices of a sum take a separate step. Each addition
//! therefore becomes `t = x + y` in the width of `x`, plus one if there was a carry. For a constant
//! `c` there is a carry if `x >= 2^n - c`, which a gateway tests on `x`; otherwise there is one if
//! `t < x`.
//!
//! Both forms give the same number: the sum modulo `2^n - 1`, which is 0 only if all terms are 0.

use super::instructions::{InstReplacement, constant_bits, inst_of};
use ir::*;
use num_bigint::BigUint;

/// Maximum number of terms.
const MAX_TERMS: usize = 4;

/// Returns the replacement of the addition of `a` and `b`, if they are the low bits and the carry
/// of a wider sum.
pub(super) fn expand_ones_complement_add(body: &mut Body, [a, b]: [Value; 2]) -> InstReplacement {
    let Type::Bit(width @ 2..=32) = body.value_type(a) else { return None };
    let sum = wide_sum(body, [a, b], width)?;
    let inner_sum = match *inst_of(body, sum)? {
        Inst::Binary(BinaryOp::Add, a, b) => wide_sum(body, [a, b], width),
        _ => None,
    };
    let (mut terms, mut max_terms) = (Vec::new(), 2);
    if let Some(first) = inner_sum {
        // With at most this many terms, the first sum does not overflow and the carry of the second
        // one is at most 1.
        let Type::Bit(wide_width) = body.value_type(first) else { return None };
        max_terms = 1usize << (wide_width - width).min(8);
        max_terms = if body.value_type(first) == body.value_type(sum) { max_terms.min(MAX_TERMS) } else { 0 };
    }
    collect_terms(body, inner_sum.unwrap_or(sum), width, &mut terms)?;
    let constants = terms.iter().filter(|term| matches!(term, SumTerm::Constant(_))).count();
    let wide_width = matches!(width, 8 | 16 | 32);
    if !(2..=max_terms).contains(&terms.len()) || constants > 1 || !wide_width && (constants, terms.len()) != (1, 2) {
        return None;
    }
    // The constant comes last, because the other terms can be available earlier.
    terms.sort_by_key(|term| matches!(term, SumTerm::Constant(_)));
    let mut builder = InstBuilder { body, width, before: Vec::new() };
    let mut total = match terms.first()? {
        SumTerm::Value(value) => builder.widen_to_sum(*value),
        SumTerm::Constant(_) => return None,
    };
    let mut last_inst = None;
    for term in &terms[1..] {
        if let Some(inst) = last_inst.take() {
            total = builder.push(Type::Bit(width), inst);
        }
        last_inst = Some(match term {
            SumTerm::Value(value) => builder.add_value_and_carry(total, *value),
            SumTerm::Constant(c) => builder.add_constant_and_carry(total, c),
        });
    }
    Some((builder.before, last_inst?))
}

/// Term of a sum.
enum SumTerm {
    /// A value of at most the sum's width.
    Value(Value),
    /// A nonzero constant of at most the sum's width.
    Constant(BigUint),
}

/// Returns the wider value that has one of the values in its low `width` bits and the other one in
/// its remaining bits.
fn wide_sum(body: &Body, [a, b]: [Value; 2], width: u32) -> Option<Value> {
    [(a, b), (b, a)].into_iter().find_map(|(low, carry)| {
        let sum = low_bits_source(body, low, width)?;
        (carry_of(body, carry, width) == Some(sum)).then_some(sum)
    })
}

/// Strips casts that only widen a value.
fn strip_widening(body: &Body, value: Value) -> Value {
    match inst_of(body, value) {
        Some(Inst::Cast(to, from)) => match (to, body.value_type(*from)) {
            (Type::Bit(to), Type::Bit(own)) if own <= *to => strip_widening(body, *from),
            _ => value,
        },
        _ => value,
    }
}

fn low_bits_source(body: &Body, value: Value, width: u32) -> Option<Value> {
    let wider = |from: Value| matches!(body.value_type(from), Type::Bit(w) if w > width).then_some(from);
    match *inst_of(body, strip_widening(body, value))? {
        Inst::Slice { value, hi, lo: 0 } if hi + 1 == width => wider(value),
        Inst::Cast(Type::Bit(to), from) if to == width => wider(from),
        _ => None,
    }
}

fn carry_of(body: &Body, value: Value, width: u32) -> Option<Value> {
    match *inst_of(body, strip_widening(body, value))? {
        Inst::Slice { value, hi, lo } if lo == width && body.value_type(value) == Type::Bit(hi + 1) => Some(value),
        _ => None,
    }
}

/// Collects the terms of a sum. `None` if a term has more than `width` bits.
fn collect_terms(body: &Body, value: Value, width: u32, terms: &mut Vec<SumTerm>) -> Option<()> {
    if let Some(c) = constant_bits(body, value) {
        terms.push(SumTerm::Constant(c.clone()));
        return (*c != BigUint::ZERO && c.bits() <= u64::from(width)).then_some(());
    }
    match *inst_of(body, value)? {
        Inst::Binary(BinaryOp::Add, a, b) if terms.len() < MAX_TERMS => {
            collect_terms(body, a, width, terms)?;
            collect_terms(body, b, width, terms)
        }
        Inst::Cast(_, from) => {
            terms.push(SumTerm::Value(from));
            matches!(body.value_type(from), Type::Bit(w) if w <= width).then_some(())
        }
        _ => None,
    }
}

/// Builder of the replacement instructions.
struct InstBuilder<'b> {
    body: &'b mut Body,
    width: u32,
    before: Vec<(Inst, Value)>,
}

impl InstBuilder<'_> {
    fn push(&mut self, ty: Type, inst: Inst) -> Value {
        let value = self.body.values.push(ty);
        self.before.push((inst, value));
        value
    }

    fn push_constant(&mut self, number: BigUint) -> Value {
        let ty = Type::Bit(self.width);
        self.push(ty, Inst::Const(Const::new(ty, number)))
    }

    fn widen_to_sum(&mut self, value: Value) -> Value {
        let ty = Type::Bit(self.width);
        if self.body.value_type(value) == ty { value } else { self.push(ty, Inst::Cast(ty, value)) }
    }

    fn add_constant(&mut self, value: Value, number: BigUint) -> Value {
        let number = self.push_constant(number);
        self.push(Type::Bit(self.width), Inst::Binary(BinaryOp::Add, value, number))
    }

    fn add_constant_and_carry(&mut self, x: Value, c: &BigUint) -> Inst {
        let all = BigUint::from(1u8) << self.width;
        let first = self.push_constant(&all - c);
        let cond = self.push(Type::Bool, Inst::Binary(BinaryOp::Ge, x, first));
        let els = self.add_constant(x, c.clone());
        let then = self.add_constant(x, (c + 1u8) % all);
        Inst::Select { cond, then, els }
    }

    fn add_value_and_carry(&mut self, x: Value, y: Value) -> Inst {
        let (ty, y) = (Type::Bit(self.width), self.widen_to_sum(y));
        let els = self.push(ty, Inst::Binary(BinaryOp::Add, x, y));
        let less = self.push(ty, Inst::Binary(BinaryOp::SubSat, x, els));
        let zero = self.push_constant(BigUint::ZERO);
        let cond = self.push(Type::Bool, Inst::Binary(BinaryOp::Ne, less, zero));
        let then = self.add_constant(els, BigUint::from(1u8));
        Inst::Select { cond, then, els }
    }
}
