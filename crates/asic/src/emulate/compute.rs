//! Instructions that only compute on values.

use super::frame::Frame;
use super::layout::Reg;
use ir::eval::{self, narrow};
use ir::{BinaryOp, Type, UnaryOp};
use num_bigint::BigUint;
use tables::{big_from_words, push_words};

fn small(frame: &Frame, reg: Reg) -> u128 {
    let words = frame.words(reg);
    u128::from(words[0]) | words.get(1).map_or(0, |high| u128::from(*high) << 64)
}

fn big(frame: &Frame, reg: Reg) -> BigUint {
    big_from_words(frame.words(reg))
}

fn give_small(frame: &mut Frame, reg: Reg, value: u128) {
    let words = frame.words_mut(reg);
    words[0] = value as u64;
    if let Some(high) = words.get_mut(1) {
        *high = (value >> 64) as u64;
    }
}

fn give_big(frame: &mut Frame, reg: Reg, value: &BigUint) {
    let mut words = Vec::with_capacity(reg.words as usize);
    push_words(value, reg.words as usize, &mut words);
    frame.words_mut(reg).copy_from_slice(&words);
}

/// `op a`.
pub fn unary(frame: &mut Frame, op: UnaryOp, d: Reg, a: Reg) {
    if a.width() <= 128 {
        let value = narrow::unary(op, a.ty, small(frame, a));
        return give_small(frame, d, value);
    }
    let value = eval::unary(op, a.ty, &big(frame, a));
    give_big(frame, d, &value);
}

/// `a op b`.
pub fn binary(frame: &mut Frame, op: BinaryOp, d: Reg, a: Reg, b: Reg) {
    if let (BinaryOp::Eq | BinaryOp::Ne, true) = (op, a.varbit() || a.width() > 128) {
        // Also of varbits, whose length counts: bits beyond it are 0.
        let equal = frame.words(a) == frame.words(b);
        return give_small(frame, d, u128::from(equal == (op == BinaryOp::Eq)));
    }
    if a.width() <= 128 && b.width() <= 128 {
        let value = narrow::binary(op, a.ty, small(frame, a), small(frame, b));
        return give_small(frame, d, value);
    }
    let value = eval::binary(op, a.ty, &big(frame, a), &big(frame, b));
    give_big(frame, d, &value);
}

/// The bits in another type.
pub fn cast(frame: &mut Frame, d: Reg, to: Type, a: Reg) {
    if a.width() <= 128 && to.width() <= 128 && !(a.ty.is_signed() && to.width() > a.width()) {
        let value = small(frame, a) & narrow::mask(to.width());
        return give_small(frame, d, value);
    }
    let value = eval::cast(a.ty, to, &big(frame, a));
    give_big(frame, d, &value);
}

/// Bits `hi..=lo`.
pub fn slice(frame: &mut Frame, d: Reg, a: Reg, hi: u32, lo: u32) {
    if a.width() <= 128 && lo < 128 {
        let value = (small(frame, a) >> lo) & narrow::mask(d.width());
        return give_small(frame, d, value);
    }
    let value = eval::slice(&big(frame, a), hi, lo);
    give_big(frame, d, &value);
}

/// `high ++ low`.
pub fn concat(frame: &mut Frame, d: Reg, high: Reg, low: Reg) {
    if d.width() <= 128 && low.width() < 128 {
        let value = small(frame, high) << low.width() | small(frame, low);
        return give_small(frame, d, value);
    }
    let value = eval::concat(&big(frame, high), &big(frame, low), low.width());
    give_big(frame, d, &value);
}

/// One of two values.
pub fn select(frame: &mut Frame, d: Reg, cond: Reg, then: Reg, els: Reg) {
    let from = if frame.words(cond)[0] != 0 { then } else { els };
    frame.slots.copy_within(from.range(), d.slot as usize);
}

/// A constant. As in the interpreter, a varbit's length is its type's width, which is 0 for the only constant there is.
pub fn constant(frame: &mut Frame, d: Reg, bits: &BigUint) {
    let mut words = Vec::with_capacity(d.words as usize);
    if d.varbit() {
        words.push(u64::from(d.width()));
    }
    let rest = d.words as usize - words.len();
    push_words(bits, rest, &mut words);
    frame.words_mut(d).copy_from_slice(&words);
}
