//! Comparisons: which are carried out together with what makes the masks and vectors that they are of.

use super::fuse::{Condition, Fuser, Masks, What};
use super::ir::{Cond, Id, Op};

impl Fuser {
    pub(super) fn both(&mut self, a: Id, b: Id) -> What {
        for (mask, other) in [(a, b), (b, a)] {
            if let Some(condition) = self.within(other, false) {
                return What::Condition(condition, Some(mask));
            }
        }
        for (mask, other) in [(a, b), (b, a)] {
            if let Op::Not(inner) = *self.op(other)
                && self.single(other)
            {
                self.take_in(other);
                return What::Masks(Masks::Without, mask, inner);
            }
        }
        What::Masks(Masks::Both, a, b)
    }

    /// A condition that only one operation uses, which carries it out within another mask.
    pub(super) fn within(&mut self, id: Id, inverted: bool) -> Option<Condition> {
        if !self.single(id) || self.is_gone(id) {
            return None;
        }
        let condition = match *self.op(id) {
            Op::Not(inner) if self.single(inner) => {
                let condition = self.condition(inner, !inverted)?;
                self.take_in(inner);
                condition
            }
            _ => self.condition(id, inverted)?,
        };
        self.take_in(id);
        Some(condition)
    }

    /// What tells the lanes of a comparison apart, or the other ones.
    pub(super) fn condition(&mut self, id: Id, inverted: bool) -> Option<Condition> {
        let (cond, a, b) = match *self.op(id) {
            Op::Compare(cond, a, b) => (cond, a, b),
            _ => return None,
        };
        let (mut number, signed) = number(cond);
        if inverted {
            number ^= 4;
        }
        let swap = self.constant(a).is_some() && self.constant(b).is_none();
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let number = if swap { swapped(number) } else { number };
        if number & 3 != 0 {
            return Some(Condition::Compare(number, signed, a, b));
        }
        let wanted = self.constant(b);
        if let Op::And(x, y) = *self.op(a)
            && self.single(a)
            && let Some(none) = self.tested(number == 0, wanted, [x, y])
        {
            self.take_in(a);
            return Some(Condition::Test(none, x, y));
        }
        match wanted {
            Some(0) => Some(Condition::Test(number == 0, a, a)),
            _ => Some(Condition::Compare(number, signed, a, b)),
        }
    }

    /// If a comparison with what both values have in common tells only whether that is anything: whether it holds if it is nothing.
    fn tested(&self, equal: bool, wanted: Option<u64>, both: [Id; 2]) -> Option<bool> {
        match wanted? {
            0 => Some(equal),
            bit if bit.is_power_of_two() && both.iter().any(|id| self.constant(*id) == Some(bit)) => Some(!equal),
            _ => None,
        }
    }
}

/// The instruction's number of a comparison, and whether it is of two's complements. 4 more is the contrary.
fn number(cond: Cond) -> (u8, bool) {
    match cond {
        Cond::Equal => (0, false),
        Cond::NotEqual => (4, false),
        Cond::Less => (1, false),
        Cond::LessOrEqual => (2, false),
        Cond::SignedLess => (1, true),
        Cond::SignedLessOrEqual => (2, true),
    }
}

/// The comparison of both the other way round.
fn swapped(number: u8) -> u8 {
    match number {
        1 => 6,
        2 => 5,
        5 => 2,
        6 => 1,
        same => same,
    }
}
