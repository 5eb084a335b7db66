//! Makes [`Code`]: each operation once, and what is known beforehand not at all.

use crate::lanes::bound::{may_be, permuted};
use crate::lanes::ir::{Code, Id, Op, ZERO_BYTE};
use std::collections::HashMap;

/// Code that is being made.
#[derive(Default)]
pub struct Builder {
    pub(super) code: Code,
    numbers: HashMap<Op, Id>,
    /// For each vector, the bits that may be 1 in some lane.
    may: Vec<u64>,
}

/// The mask of bytes of a word that a pattern takes from somewhere.
fn expand(bytes: impl Fn(usize) -> bool) -> u64 {
    (0..8).filter(|at| bytes(*at)).fold(0, |mask, at| mask | 0xff << (8 * at))
}

/// Whether each byte of it is all ones or 0.
fn whole_bytes(mask: u64) -> bool {
    mask.to_le_bytes().iter().all(|byte| [0, 0xff].contains(byte))
}

impl Builder {
    /// The operation's number; the same for the same operation.
    pub(super) fn add(&mut self, op: Op) -> Id {
        if let Some(id) = self.numbers.get(&op) {
            return *id;
        }
        let id = Id(self.code.ops.len() as u32);
        self.may.push(may_be(&self.code.ops, &op, |id| self.may(id)));
        self.code.ops.push(op.clone());
        self.numbers.insert(op, id);
        id
    }

    /// An operation that gives a vector of whose lanes nothing is known, or a mask.
    pub fn plain(&mut self, op: Op) -> Id {
        self.add(op)
    }

    /// An effect.
    pub fn effect(&mut self, op: Op) {
        self.may.push(0);
        self.code.ops.push(op);
    }

    /// The operation.
    pub fn op(&self, id: Id) -> &Op {
        &self.code.ops[id.0 as usize]
    }

    /// The operations so far.
    pub fn ops(&self) -> &[Op] {
        &self.code.ops
    }

    /// Whether it is a mask.
    pub fn is_mask(&self, id: Id) -> bool {
        self.op(id).is_mask()
    }

    /// The number that all lanes are, if that is certain.
    pub fn constant_of(&self, id: Id) -> Option<u64> {
        match self.op(id) {
            Op::Const(number) => Some(*number),
            _ => None,
        }
    }

    /// The bits that may be 1.
    pub fn may(&self, id: Id) -> u64 {
        self.may[id.0 as usize]
    }

    /// The code, without what nothing needs.
    pub fn finish(self) -> Code {
        let ops = self.code.ops;
        let mut needed = vec![false; ops.len()];
        for (at, op) in ops.iter().enumerate().rev() {
            if op.is_effect() || needed[at] {
                needed[at] = true;
                op.operands().iter().for_each(|id| needed[id.0 as usize] = true);
            }
        }
        let mut moved = vec![Id(0); ops.len()];
        let mut code = Code::default();
        for (at, mut op) in ops.into_iter().enumerate().filter(|(at, _)| needed[*at]) {
            op.rename(&|id| moved[id.0 as usize]);
            moved[at] = Id(code.ops.len() as u32);
            code.ops.push(op);
        }
        code
    }

    // ---- vectors ----

    /// The number in each lane.
    pub fn constant(&mut self, number: u64) -> Id {
        self.add(Op::Const(number))
    }

    /// Both.
    pub fn and(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.constant_last(a, b);
        if let Some(mask) = self.constant_of(b) {
            let may = self.may(a);
            if may & mask == 0 {
                return self.constant(0);
            }
            if may & !mask == 0 {
                return a;
            }
            match *self.op(a) {
                Op::Const(number) => return self.constant(number & mask),
                Op::And(inner, other) if self.constant_of(other).is_some() => {
                    let both = self.constant(mask & self.constant_of(other).unwrap_or(0));
                    return self.and(inner, both);
                }
                Op::Bytes(inner, pattern) if whole_bytes(mask) => {
                    let kept = mask.to_le_bytes();
                    let pattern = std::array::from_fn(|at| if kept[at] == 0 { ZERO_BYTE } else { pattern[at] });
                    return self.bytes(inner, pattern);
                }
                Op::Shr(inner, by) if whole_bytes(mask) && by % 8 == 0 => {
                    let kept = mask.to_le_bytes();
                    let pattern = std::array::from_fn(|at| if kept[at] == 0 { ZERO_BYTE } else { at as u8 + by / 8 });
                    return self.bytes(inner, pattern);
                }
                _ => {}
            }
        }
        if a == b { a } else { self.add(Op::And(a, b)) }
    }

    /// Either.
    pub fn or(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a | b),
            (None, Some(0)) => a,
            _ if a == b => a,
            _ => {
                // Of several constants there is one.
                if let (Op::Or(inner, one), Some(other)) = (self.op(a).clone(), self.constant_of(b))
                    && let Some(one) = self.constant_of(one)
                {
                    let both = self.constant(one | other);
                    return self.or(inner, both);
                }
                self.add(Op::Or(a, b))
            }
        }
    }

    /// One of both.
    pub fn xor(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a ^ b),
            (None, Some(0)) => a,
            _ if a == b => self.constant(0),
            _ => self.add(Op::Xor(a, b)),
        }
    }

    /// Sum.
    pub fn sum(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a.wrapping_add(b)),
            (None, Some(0)) => a,
            (None, Some(more)) => {
                if let Op::Add(inner, one) = *self.op(a)
                    && let Some(one) = self.constant_of(one)
                {
                    let both = self.constant(one.wrapping_add(more));
                    return self.sum(inner, both);
                }
                self.add(Op::Add(a, b))
            }
            _ => self.add(Op::Add(a, b)),
        }
    }

    /// Difference.
    pub fn difference(&mut self, a: Id, b: Id) -> Id {
        match (self.constant_of(a), self.constant_of(b)) {
            (_, Some(less)) => {
                let less = self.constant(less.wrapping_neg());
                self.sum(a, less)
            }
            _ if a == b => self.constant(0),
            _ => self.add(Op::Sub(a, b)),
        }
    }

    /// Product.
    pub fn product(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a.wrapping_mul(b)),
            (None, Some(0)) => self.constant(0),
            (None, Some(by)) if by.is_power_of_two() => self.shl(a, by.trailing_zeros()),
            _ => self.add(Op::Mul(a, b)),
        }
    }

    pub(super) fn constant_last(&self, a: Id, b: Id) -> (Id, Id) {
        let first = self.constant_of(a).is_some() && self.constant_of(b).is_none();
        // Which of two comes first is settled, so that the same is found to be the same.
        let turned = first || (self.constant_of(b).is_none() && b < a);
        if turned { (b, a) } else { (a, b) }
    }

    /// Shifted to more significant places.
    pub fn shl(&mut self, a: Id, by: u32) -> Id {
        if by == 0 {
            return a;
        }
        if by >= 64 || self.may(a) << by == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            Op::Const(number) => self.constant(number << by),
            Op::Bytes(inner, pattern) if by.is_multiple_of(8) => {
                let more = by as usize / 8;
                let moved = std::array::from_fn(|at| if at < more { ZERO_BYTE } else { pattern[at - more] });
                self.bytes(inner, moved)
            }
            Op::Shl(inner, first) => self.shl(inner, by + u32::from(first)),
            Op::Shr(inner, other) if by.is_multiple_of(8) && other % 8 == 0 => {
                let (up, down) = (by as usize / 8, other / 8);
                let place = |at: usize| if at < up { 8 } else { (at - up) as u8 + down };
                self.bytes(inner, std::array::from_fn(|at| if place(at) < 8 { place(at) } else { ZERO_BYTE }))
            }
            _ => self.add(Op::Shl(a, by as u8)),
        }
    }

    /// Shifted to less significant places.
    pub fn shr(&mut self, a: Id, by: u32) -> Id {
        if by == 0 {
            return a;
        }
        if by >= 64 || self.may(a) >> by == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            Op::Const(number) => self.constant(number >> by),
            Op::Bytes(inner, pattern) if by.is_multiple_of(8) => {
                let less = by as usize / 8;
                let moved = std::array::from_fn(|at| pattern.get(at + less).copied().unwrap_or(ZERO_BYTE));
                self.bytes(inner, moved)
            }
            Op::Shr(inner, first) => self.shr(inner, by + u32::from(first)),
            // What is shifted up and down again without a loss.
            Op::Shl(inner, first) if self.may(inner) << first >> first == self.may(inner) => {
                match by.cmp(&u32::from(first)) {
                    std::cmp::Ordering::Less => self.shl(inner, u32::from(first) - by),
                    _ => self.shr(inner, by - u32::from(first)),
                }
            }
            _ => self.add(Op::Shr(a, by as u8)),
        }
    }

    /// Bytes of each lane: [`Op::Bytes`].
    pub fn bytes(&mut self, a: Id, pattern: [u8; 8]) -> Id {
        let may = self.may(a).to_le_bytes();
        let pattern =
            pattern.map(|from| if may.get(usize::from(from)).is_none_or(|byte| *byte == 0) { ZERO_BYTE } else { from });
        let kept = expand(|at| pattern[at] != ZERO_BYTE);
        if kept == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            Op::Const(number) => return self.constant(permuted(number, pattern)),
            Op::Bytes(inner, first) => {
                let through = pattern.map(|from| first.get(usize::from(from)).copied().unwrap_or(ZERO_BYTE));
                return self.bytes(inner, through);
            }
            Op::Shr(inner, by) if by % 8 == 0 => {
                let through = pattern.map(|from| if from == ZERO_BYTE { from } else { from + by / 8 });
                return self.bytes(inner, through);
            }
            Op::Shl(inner, by) if by % 8 == 0 => {
                let through =
                    pattern.map(|from| from.checked_sub(by / 8).filter(|from| *from < 8).unwrap_or(ZERO_BYTE));
                return self.bytes(inner, through);
            }
            // Bits that are dropped anyway need not be taken away before.
            Op::And(inner, mask) if self.constant_of(mask).is_some() => {
                let mask = self.constant_of(mask).unwrap_or(0);
                if whole_bytes(mask) {
                    let kept = mask.to_le_bytes();
                    let gone = |from: u8| kept.get(usize::from(from)).is_none_or(|byte| *byte == 0);
                    return self.bytes(inner, pattern.map(|from| if gone(from) { ZERO_BYTE } else { from }));
                }
            }
            _ => {}
        }
        self.simplest(a, pattern)
    }

    /// A shift or a mask, if bytes are moved like that.
    fn simplest(&mut self, a: Id, pattern: [u8; 8]) -> Id {
        let may = self.may(a);
        for by in 0..8u32 {
            let down: [u8; 8] =
                std::array::from_fn(|at| if at as u32 + by < 8 { at as u8 + by as u8 } else { ZERO_BYTE });
            let up: [u8; 8] = std::array::from_fn(|at| if at as u32 >= by { at as u8 - by as u8 } else { ZERO_BYTE });
            let gone = |from: u8| from == ZERO_BYTE || may >> (8 * u32::from(from)) & 0xff == 0;
            let same =
                |one: [u8; 8]| one.iter().zip(pattern).all(|(one, two)| *one == two || gone(*one) && two == ZERO_BYTE);
            if same(down) {
                return if by == 0 { a } else { self.add(Op::Shr(a, by as u8 * 8)) };
            }
            if same(up) {
                return self.add(Op::Shl(a, by as u8 * 8));
            }
        }
        if (0..8).all(|at| pattern[at] == ZERO_BYTE || usize::from(pattern[at]) == at) {
            let mask = self.constant(expand(|at| pattern[at] != ZERO_BYTE));
            return self.add(Op::And(a, mask));
        }
        self.add(Op::Bytes(a, pattern))
    }

    /// In lanes of the mask the first, in others the second.
    pub fn blend(&mut self, mask: Id, a: Id, b: Id) -> Id {
        match self.op(mask) {
            Op::Certain(true) => a,
            Op::Certain(false) => b,
            _ if a == b => a,
            Op::Not(other) => {
                let other = *other;
                self.blend(other, b, a)
            }
            _ => self.add(Op::Blend(mask, a, b)),
        }
    }

    /// 1 in lanes of the mask.
    pub fn number(&mut self, mask: Id) -> Id {
        match self.op(mask) {
            Op::Certain(yes) => {
                let yes = u64::from(*yes);
                self.constant(yes)
            }
            _ => self.add(Op::Number(mask)),
        }
    }

    /// The vector or mask that is the first in lanes of the mask, and the second in others.
    pub fn choose(&mut self, mask: Id, a: Id, b: Id) -> Id {
        if !self.is_mask(a) {
            return self.blend(mask, a, b);
        }
        if a == b {
            return a;
        }
        let (yes, no) = (self.both(mask, a), self.without(b, mask));
        self.either(yes, no)
    }
}
