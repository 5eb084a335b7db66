//! Masks, as [`Builder`] makes them: what is certain, or part of another, is not made.

use crate::lanes::bound::greatest;
use crate::lanes::build::Builder;
use crate::lanes::ir::{Cond, Id, Op, ZERO_BYTE};

/// How deep is looked to see whether a mask is part of another.
const PARTS: u32 = 12;

/// The most masks of a row that are gone through for one that asks for the same word.
const ROW: usize = 32;

impl Builder {
    /// All lanes or none.
    pub fn certain(&mut self, yes: bool) -> Id {
        self.add(Op::Certain(yes))
    }

    /// Whether it is certain that no lane is in the mask.
    pub fn is_nobody(&self, mask: Id) -> bool {
        matches!(self.op(mask), Op::Certain(false))
    }

    /// The lanes with packets.
    pub fn active(&mut self) -> Id {
        self.add(Op::Active)
    }

    /// Lanes in which that holds.
    pub fn compare(&mut self, cond: Cond, a: Id, b: Id) -> Id {
        let equality = matches!(cond, Cond::Equal | Cond::NotEqual);
        let (a, b) = if equality { self.constant_last(a, b) } else { (a, b) };
        if let (Some(a), Some(b)) = (self.constant_of(a), self.constant_of(b)) {
            return self.certain(holds(cond, a, b));
        }
        if a == b {
            return self.certain(matches!(cond, Cond::Equal | Cond::LessOrEqual | Cond::SignedLessOrEqual));
        }
        if let Some(b) = self.constant_of(b) {
            let may = self.may(a);
            match cond {
                Cond::Less if greatest(may) < b => return self.certain(true),
                Cond::LessOrEqual if greatest(may) <= b => return self.certain(true),
                Cond::Equal if b & !may != 0 => return self.certain(false),
                Cond::NotEqual if b & !may != 0 => return self.certain(true),
                _ => {}
            }
            if let (true, Op::Number(mask)) = (equality && b <= 1, self.op(a)) {
                let mask = *mask;
                return if (cond == Cond::Equal) == (b == 1) { mask } else { self.not(mask) };
            }
        }
        self.add(Op::Compare(cond, a, b))
    }

    /// Of a comparison with a constant: the word that it looks at, which of its bits, and what they are.
    fn bits_asked(&self, mask: Id) -> Option<(Id, u64, u64)> {
        let Op::Compare(Cond::Equal, value, number) = *self.op(mask) else { return None };
        let (mut word, mut number, mut bits) = (value, self.constant_of(number)?, u64::MAX);
        loop {
            (word, number, bits) = match *self.op(word) {
                Op::And(inner, mask) if self.constant_of(mask).is_some() => {
                    (inner, number, bits & self.constant_of(mask).unwrap_or(0))
                }
                Op::Shr(inner, by) => (inner, number << by, bits << by),
                Op::Bytes(inner, pattern) => {
                    let (number_bytes, bits_bytes) = (number.to_le_bytes(), bits.to_le_bytes());
                    let (mut from, mut asked) = ([0u8; 8], [0u8; 8]);
                    for (at, byte) in pattern.iter().enumerate().filter(|(_, byte)| **byte != ZERO_BYTE) {
                        let byte = usize::from(*byte);
                        // Each byte once, and nothing of those that are 0.
                        if asked[byte] != 0 {
                            return None;
                        }
                        (from[byte], asked[byte]) = (number_bytes[at], bits_bytes[at]);
                    }
                    (inner, u64::from_le_bytes(from), u64::from_le_bytes(asked))
                }
                _ => return Some((word, bits, number)),
            };
        }
    }

    /// Masks put together of which two ask for bits of one word: a comparison that asks for both.
    fn both_at_once(&mut self, a: Id, b: Id) -> Option<Id> {
        let (word, bits, number) = self.bits_asked(b)?;
        let (mut row, mut rest) = (Vec::new(), a);
        let found = loop {
            let Op::Both(before, last) = *self.op(rest) else { return None };
            let asked = self.bits_asked(last).filter(|(other, ..)| *other == word);
            match asked {
                // They want the same bits to be different ones.
                Some((_, more, other)) if (number ^ other) & bits & more != 0 => return Some(self.certain(false)),
                Some((_, more, other)) => {
                    let (bits, number) = (self.constant(bits | more), self.constant(number | other));
                    let asked = self.and(word, bits);
                    break self.compare(Cond::Equal, asked, number);
                }
                None if row.len() == ROW => return None,
                None => row.push(last),
            }
            rest = before;
        };
        let Op::Both(before, _) = *self.op(rest) else { return None };
        let first = self.both(before, found);
        Some(row.into_iter().rev().fold(first, |all, mask| self.add(Op::Both(all, mask))))
    }

    /// In both masks.
    pub fn both(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        match (self.op(a).clone(), self.op(b).clone()) {
            (Op::Certain(true), _) => b,
            (_, Op::Certain(true)) => a,
            (Op::Certain(false), _) | (_, Op::Certain(false)) => self.certain(false),
            _ if a == b => a,
            _ if self.is_part(b, a, PARTS) => b,
            _ if self.is_part(a, b, PARTS) => a,
            (_, Op::Not(y)) => self.without(a, y),
            (Op::Not(x), _) => self.without(b, x),
            _ => match self.both_at_once(a, b) {
                Some(both) => both,
                None => self.add(Op::Both(a, b)),
            },
        }
    }

    /// In either mask.
    pub fn either(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        match (self.op(a).clone(), self.op(b).clone()) {
            (Op::Certain(false), _) => b,
            (_, Op::Certain(false)) => a,
            (Op::Certain(true), _) | (_, Op::Certain(true)) => self.certain(true),
            _ if a == b => a,
            _ => match self.whole(a, b) {
                Some(whole) => whole,
                None => self.add(Op::Either(a, b)),
            },
        }
    }

    /// In any of these masks: halves of one are that one.
    pub fn any(&mut self, masks: &[Id]) -> Id {
        let mut masks = masks.to_vec();
        'again: while masks.len() > 1 {
            for one in 0..masks.len() {
                for two in one + 1..masks.len() {
                    let before = self.code.ops.len();
                    if let Some(whole) = self.whole(masks[one], masks[two]) {
                        debug_assert_eq!(before, self.code.ops.len());
                        masks.swap_remove(two);
                        masks[one] = whole;
                        continue 'again;
                    }
                }
            }
            let (Some(last), Some(first)) = (masks.pop(), masks.first().copied()) else { break };
            masks[0] = self.either(first, last);
        }
        masks.first().copied().unwrap_or_else(|| self.certain(false))
    }

    /// What two masks are together, if that is a mask that is there.
    fn whole(&self, a: Id, b: Id) -> Option<Id> {
        match (self.op(a), self.op(b)) {
            (Op::Both(x, y), Op::Without(z, w)) | (Op::Without(z, w), Op::Both(x, y)) => {
                (z == x && w == y || z == y && w == x).then_some(*z)
            }
            _ if self.is_part(a, b, PARTS) => Some(b),
            _ if self.is_part(b, a, PARTS) => Some(a),
            _ => None,
        }
    }

    /// Whether a mask's lanes are certainly all of another's.
    fn is_part(&self, part: Id, of: Id, steps: u32) -> bool {
        let within = |id: &Id| self.is_part(*id, of, steps - 1);
        part == of
            || steps > 0
                && match self.op(part) {
                    Op::Both(x, y) => within(x) || within(y),
                    Op::Without(x, _) => within(x),
                    Op::Either(x, y) => within(x) && within(y),
                    Op::Certain(false) => true,
                    _ => false,
                }
    }

    /// In one of both masks.
    pub fn one_of(&mut self, a: Id, b: Id) -> Id {
        match (self.op(a).clone(), self.op(b).clone()) {
            (Op::Certain(false), _) => b,
            (_, Op::Certain(false)) => a,
            (Op::Certain(true), _) => self.not(b),
            (_, Op::Certain(true)) => self.not(a),
            _ if a == b => self.certain(false),
            _ => self.add(Op::OneOf(a, b)),
        }
    }

    /// In the first and not in the second.
    pub fn without(&mut self, a: Id, b: Id) -> Id {
        match (self.op(a).clone(), self.op(b).clone()) {
            (Op::Certain(false), _) | (_, Op::Certain(true)) => self.certain(false),
            (_, Op::Certain(false)) => a,
            (Op::Certain(true), _) => self.not(b),
            _ if a == b => self.certain(false),
            (_, Op::Not(inner)) => self.both(a, inner),
            (_, Op::Both(x, y)) if x == a => self.without(a, y),
            (_, Op::Both(x, y)) if y == a => self.without(a, x),
            (_, Op::Without(x, y)) if x == a => self.both(a, y),
            _ => self.add(Op::Without(a, b)),
        }
    }

    /// Not in it.
    pub fn not(&mut self, a: Id) -> Id {
        match *self.op(a) {
            Op::Certain(yes) => self.certain(!yes),
            Op::Not(inner) => inner,
            _ => {
                let op = inverted(self.op(a)).unwrap_or(Op::Not(a));
                self.add(op)
            }
        }
    }
}

/// The opposite of a comparison.
pub fn inverted(op: &Op) -> Option<Op> {
    let Op::Compare(cond, x, y) = *op else { return None };
    Some(match cond {
        Cond::Equal => Op::Compare(Cond::NotEqual, x, y),
        Cond::NotEqual => Op::Compare(Cond::Equal, x, y),
        Cond::Less => Op::Compare(Cond::LessOrEqual, y, x),
        Cond::LessOrEqual => Op::Compare(Cond::Less, y, x),
        Cond::SignedLess => Op::Compare(Cond::SignedLessOrEqual, y, x),
        Cond::SignedLessOrEqual => Op::Compare(Cond::SignedLess, y, x),
    })
}

/// Whether a comparison of two numbers holds.
pub fn holds(cond: Cond, a: u64, b: u64) -> bool {
    match cond {
        Cond::Equal => a == b,
        Cond::NotEqual => a != b,
        Cond::Less => a < b,
        Cond::LessOrEqual => a <= b,
        Cond::SignedLess => (a as i64) < b as i64,
        Cond::SignedLessOrEqual => a as i64 <= b as i64,
    }
}
