//! One's complement sums, as RFC 1624 has a checksum brought up to date: `s = x + y` in more bits than `x` has, then its low bits and its carry added, once
//! or twice. Tofino's ALUs add in 8, 16 or 32 bits, and parts of a sum take a step of their own. So each addition is `t = x + y` in the width of `x`, and one
//! more if there was a carry: of a constant that is so if `x` is `2^n - c` or more, which a gateway says of `x` itself; else if `t` is less than `x`.
//!
//! Both give the same number: it is what the sum is modulo `2^n - 1`, and 0 only if all that is added is 0.

use super::instructions::{Rewrite, constant, inst};
use ir::*;
use num_bigint::BigUint;

/// The most numbers that are added.
const MAX_TERMS: usize = 4;

/// What an addition of these is instead, if they are the low bits of such a sum, and its carry.
pub(super) fn carried(body: &mut Body, [a, b]: [Value; 2]) -> Rewrite {
    let Type::Bit(width @ 2..=32) = body.value_type(a) else { return None };
    let sum = parts(body, [a, b], width)?;
    let again = match *inst(body, sum)? {
        Inst::Binary(BinaryOp::Add, a, b) => parts(body, [a, b], width),
        _ => None,
    };
    let (mut terms, mut most) = (Vec::new(), 2);
    if let Some(first) = again {
        // Of so many the first sum has all bits, and the second one a carry of 1 at most.
        let Type::Bit(whole) = body.value_type(first) else { return None };
        most = 1usize << (whole - width).min(8);
        most = if body.value_type(first) == body.value_type(sum) { most.min(MAX_TERMS) } else { 0 };
    }
    added(body, again.unwrap_or(sum), width, &mut terms)?;
    let constants = terms.iter().filter(|term| matches!(term, Term::Constant(_))).count();
    let whole = matches!(width, 8 | 16 | 32);
    if !(2..=most).contains(&terms.len()) || constants > 1 || !whole && (constants, terms.len()) != (1, 2) {
        return None;
    }
    // The constant last: what it is added to may be there early.
    terms.sort_by_key(|term| matches!(term, Term::Constant(_)));
    let mut maker = Maker { body, width, before: Vec::new() };
    let mut total = match terms.first()? {
        Term::Value(value) => maker.in_width(*value),
        Term::Constant(_) => return None,
    };
    let mut last = None;
    for term in &terms[1..] {
        if let Some(inst) = last.take() {
            total = maker.push(Type::Bit(width), inst);
        }
        last = Some(match term {
            Term::Value(value) => maker.with_value(total, *value),
            Term::Constant(c) => maker.with_constant(total, c),
        });
    }
    Some((maker.before, last?))
}

/// Something that is added.
enum Term {
    /// Of at most the sum's width.
    Value(Value),
    /// Not 0, and of at most the sum's width.
    Constant(BigUint),
}

/// The value of more bits whose low bits the one is, and all of whose other bits the other one is.
fn parts(body: &Body, [a, b]: [Value; 2], width: u32) -> Option<Value> {
    [(a, b), (b, a)].into_iter().find_map(|(low, carry)| {
        let sum = low_of(body, low, width)?;
        (carry_of(body, carry, width) == Some(sum)).then_some(sum)
    })
}

/// The value without a cast to another width that loses nothing.
fn plain(body: &Body, value: Value) -> Value {
    match inst(body, value) {
        Some(Inst::Cast(to, from)) => match (to, body.value_type(*from)) {
            (Type::Bit(to), Type::Bit(own)) if own <= *to => plain(body, *from),
            _ => value,
        },
        _ => value,
    }
}

fn low_of(body: &Body, value: Value, width: u32) -> Option<Value> {
    let wider = |from: Value| matches!(body.value_type(from), Type::Bit(w) if w > width).then_some(from);
    match *inst(body, plain(body, value))? {
        Inst::Slice { value, hi, lo: 0 } if hi + 1 == width => wider(value),
        Inst::Cast(Type::Bit(to), from) if to == width => wider(from),
        _ => None,
    }
}

fn carry_of(body: &Body, value: Value, width: u32) -> Option<Value> {
    match *inst(body, plain(body, value))? {
        Inst::Slice { value, hi, lo } if lo == width && body.value_type(value) == Type::Bit(hi + 1) => Some(value),
        _ => None,
    }
}

/// What a sum adds, none of it of more than `width` bits.
fn added(body: &Body, value: Value, width: u32, terms: &mut Vec<Term>) -> Option<()> {
    if let Some(c) = constant(body, value) {
        terms.push(Term::Constant(c.clone()));
        return (*c != BigUint::ZERO && c.bits() <= u64::from(width)).then_some(());
    }
    match *inst(body, value)? {
        Inst::Binary(BinaryOp::Add, a, b) if terms.len() < MAX_TERMS => {
            added(body, a, width, terms)?;
            added(body, b, width, terms)
        }
        Inst::Cast(_, from) => {
            terms.push(Term::Value(from));
            matches!(body.value_type(from), Type::Bit(w) if w <= width).then_some(())
        }
        _ => None,
    }
}

/// Makes instructions.
struct Maker<'b> {
    body: &'b mut Body,
    width: u32,
    before: Vec<(Inst, Value)>,
}

impl Maker<'_> {
    fn push(&mut self, ty: Type, inst: Inst) -> Value {
        let value = self.body.values.push(ty);
        self.before.push((inst, value));
        value
    }

    fn number(&mut self, number: BigUint) -> Value {
        let ty = Type::Bit(self.width);
        self.push(ty, Inst::Const(Const::new(ty, number)))
    }

    fn in_width(&mut self, value: Value) -> Value {
        let ty = Type::Bit(self.width);
        if self.body.value_type(value) == ty { value } else { self.push(ty, Inst::Cast(ty, value)) }
    }

    fn plus(&mut self, value: Value, number: BigUint) -> Value {
        let number = self.number(number);
        self.push(Type::Bit(self.width), Inst::Binary(BinaryOp::Add, value, number))
    }

    fn with_constant(&mut self, x: Value, c: &BigUint) -> Inst {
        let all = BigUint::from(1u8) << self.width;
        let first = self.number(&all - c);
        let cond = self.push(Type::Bool, Inst::Binary(BinaryOp::Ge, x, first));
        let els = self.plus(x, c.clone());
        let then = self.plus(x, (c + 1u8) % all);
        Inst::Select { cond, then, els }
    }

    fn with_value(&mut self, x: Value, y: Value) -> Inst {
        let (ty, y) = (Type::Bit(self.width), self.in_width(y));
        let els = self.push(ty, Inst::Binary(BinaryOp::Add, x, y));
        let less = self.push(ty, Inst::Binary(BinaryOp::SubSat, x, els));
        let zero = self.number(BigUint::ZERO);
        let cond = self.push(Type::Bool, Inst::Binary(BinaryOp::Ne, less, zero));
        let then = self.plus(els, BigUint::from(1u8));
        Inst::Select { cond, then, els }
    }
}
