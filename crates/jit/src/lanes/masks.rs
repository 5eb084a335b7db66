//! Construction of masks in [`VectorBuilder`]: folds constants and implied conditions.

use crate::lanes::bound::max_value;
use crate::lanes::build::VectorBuilder;
use crate::lanes::ir::{LaneCompare, OpId, VectorOp, ZERO_BYTE};

/// Maximum depth of the search for implied masks.
const PARTS: u32 = 12;

/// Maximum number of masks in a chain that are searched for a comparison of the same word.
const ROW: usize = 32;

impl VectorBuilder {
    /// Returns the mask of all lanes or none.
    pub fn constant_mask(&mut self, yes: bool) -> OpId {
        self.add_op(VectorOp::Certain(yes))
    }

    /// Returns whether the mask is known to be empty.
    pub fn is_empty_mask(&self, mask: OpId) -> bool {
        matches!(self.op(mask), VectorOp::Certain(false))
    }

    /// Returns the lanes with packets.
    pub fn active_lanes(&mut self) -> OpId {
        self.add_op(VectorOp::Active)
    }

    /// Emits a comparison. Comparisons with a certain result become constant masks.
    pub fn compare(&mut self, cond: LaneCompare, a: OpId, b: OpId) -> OpId {
        let is_equality = matches!(cond, LaneCompare::Equal | LaneCompare::NotEqual);
        let (a, b) = if is_equality { self.constant_last(a, b) } else { (a, b) };
        if let (Some(a), Some(b)) = (self.constant_of(a), self.constant_of(b)) {
            return self.constant_mask(evaluate_compare(cond, a, b));
        }
        if a == b {
            return self.constant_mask(matches!(
                cond,
                LaneCompare::Equal | LaneCompare::LessOrEqual | LaneCompare::SignedLessOrEqual
            ));
        }
        if let Some(b) = self.constant_of(b) {
            let possible_bits = self.possible_bits(a);
            match cond {
                LaneCompare::Less if max_value(possible_bits) < b => return self.constant_mask(true),
                LaneCompare::LessOrEqual if max_value(possible_bits) <= b => return self.constant_mask(true),
                LaneCompare::Equal if b & !possible_bits != 0 => return self.constant_mask(false),
                LaneCompare::NotEqual if b & !possible_bits != 0 => return self.constant_mask(true),
                _ => {}
            }
            if let (true, VectorOp::Number(mask)) = (is_equality && b <= 1, self.op(a)) {
                let mask = *mask;
                return if (cond == LaneCompare::Equal) == (b == 1) { mask } else { self.mask_not(mask) };
            }
        }
        self.add_op(VectorOp::Compare(cond, a, b))
    }

    /// Returns, for a comparison with a constant, the word that it tests, the mask of the bits, and
    /// their values.
    fn tested_bits(&self, mask: OpId) -> Option<(OpId, u64, u64)> {
        let VectorOp::Compare(LaneCompare::Equal, value, number) = *self.op(mask) else { return None };
        let (mut word, mut number, mut bits) = (value, self.constant_of(number)?, u64::MAX);
        loop {
            (word, number, bits) = match *self.op(word) {
                VectorOp::And(inner, mask) if self.constant_of(mask).is_some() => {
                    (inner, number, bits & self.constant_of(mask).unwrap_or(0))
                }
                VectorOp::Shr(inner, by) => (inner, number << by, bits << by),
                VectorOp::Bytes(inner, pattern) => {
                    let (number_bytes, bits_bytes) = (number.to_le_bytes(), bits.to_le_bytes());
                    let (mut number_by_source, mut bits_by_source) = ([0u8; 8], [0u8; 8]);
                    for (index, byte) in pattern.iter().enumerate().filter(|(_, byte)| **byte != ZERO_BYTE) {
                        let byte = usize::from(*byte);
                        // Each byte may be used once, and zero bytes add no condition.
                        if bits_by_source[byte] != 0 {
                            return None;
                        }
                        (number_by_source[byte], bits_by_source[byte]) = (number_bytes[index], bits_bytes[index]);
                    }
                    (inner, u64::from_le_bytes(number_by_source), u64::from_le_bytes(bits_by_source))
                }
                _ => return Some((word, bits, number)),
            };
        }
    }

    /// Merges two comparisons of bits of the same word in a conjunction: `a` is a conjunction or a
    /// chain of them, which is searched from its end; `b` is the comparison to add. `None` if there
    /// is none.
    fn merge_tests(&mut self, a: OpId, b: OpId) -> Option<OpId> {
        let (word, bits, number) = self.tested_bits(b)?;
        let (mut skipped, mut chain) = (Vec::new(), a);
        let merged = loop {
            let VectorOp::Both(before, last) = *self.op(chain) else { return None };
            let tested = self.tested_bits(last).filter(|(other, ..)| *other == word);
            match tested {
                // The comparisons contradict each other.
                Some((_, other_bits, other_number)) if (number ^ other_number) & bits & other_bits != 0 => {
                    return Some(self.constant_mask(false));
                }
                Some((_, other_bits, other_number)) => {
                    let (bits, number) = (self.constant(bits | other_bits), self.constant(number | other_number));
                    let tested_word = self.and(word, bits);
                    break self.compare(LaneCompare::Equal, tested_word, number);
                }
                None if skipped.len() == ROW => return None,
                None => skipped.push(last),
            }
            chain = before;
        };
        let VectorOp::Both(before, _) = *self.op(chain) else { return None };
        let first = self.mask_and(before, merged);
        Some(skipped.into_iter().rev().fold(first, |all, mask| self.add_op(VectorOp::Both(all, mask))))
    }

    /// Emits an intersection.
    pub fn mask_and(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        match (self.op(a).clone(), self.op(b).clone()) {
            (VectorOp::Certain(true), _) => b,
            (_, VectorOp::Certain(true)) => a,
            (VectorOp::Certain(false), _) | (_, VectorOp::Certain(false)) => self.constant_mask(false),
            _ if a == b => a,
            _ if self.is_subset(b, a, PARTS) => b,
            _ if self.is_subset(a, b, PARTS) => a,
            (_, VectorOp::Not(y)) => self.mask_and_not(a, y),
            (VectorOp::Not(x), _) => self.mask_and_not(b, x),
            _ => match self.merge_tests(a, b) {
                Some(both) => both,
                None => self.add_op(VectorOp::Both(a, b)),
            },
        }
    }

    /// Emits a union.
    pub fn mask_or(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = if b < a { (b, a) } else { (a, b) };
        match (self.op(a).clone(), self.op(b).clone()) {
            (VectorOp::Certain(false), _) => b,
            (_, VectorOp::Certain(false)) => a,
            (VectorOp::Certain(true), _) | (_, VectorOp::Certain(true)) => self.constant_mask(true),
            _ if a == b => a,
            _ => match self.existing_union(a, b) {
                Some(whole) => whole,
                None => self.add_op(VectorOp::Either(a, b)),
            },
        }
    }

    /// Emits the union of these masks; two halves of an existing mask become that mask.
    pub fn mask_union(&mut self, masks: &[OpId]) -> OpId {
        let mut masks = masks.to_vec();
        'again: while masks.len() > 1 {
            for one in 0..masks.len() {
                for two in one + 1..masks.len() {
                    let before = self.code.ops.len();
                    if let Some(whole) = self.existing_union(masks[one], masks[two]) {
                        debug_assert_eq!(before, self.code.ops.len());
                        masks.swap_remove(two);
                        masks[one] = whole;
                        continue 'again;
                    }
                }
            }
            let (Some(last), Some(first)) = (masks.pop(), masks.first().copied()) else { break };
            masks[0] = self.mask_or(first, last);
        }
        masks.first().copied().unwrap_or_else(|| self.constant_mask(false))
    }

    /// Returns the union of two masks, if it is an existing mask.
    fn existing_union(&self, a: OpId, b: OpId) -> Option<OpId> {
        match (self.op(a), self.op(b)) {
            (VectorOp::Both(x, y), VectorOp::Without(z, w)) | (VectorOp::Without(z, w), VectorOp::Both(x, y)) => {
                (z == x && w == y || z == y && w == x).then_some(*z)
            }
            _ if self.is_subset(a, b, PARTS) => Some(b),
            _ if self.is_subset(b, a, PARTS) => Some(a),
            _ => None,
        }
    }

    /// Returns whether a mask is known to be a subset of another.
    fn is_subset(&self, part: OpId, of: OpId, steps: u32) -> bool {
        let within = |id: &OpId| self.is_subset(*id, of, steps - 1);
        part == of
            || steps > 0
                && match self.op(part) {
                    VectorOp::Both(x, y) => within(x) || within(y),
                    VectorOp::Without(x, _) => within(x),
                    VectorOp::Either(x, y) => within(x) && within(y),
                    VectorOp::Certain(false) => true,
                    _ => false,
                }
    }

    /// Emits a symmetric difference.
    pub fn mask_xor(&mut self, a: OpId, b: OpId) -> OpId {
        match (self.op(a).clone(), self.op(b).clone()) {
            (VectorOp::Certain(false), _) => b,
            (_, VectorOp::Certain(false)) => a,
            (VectorOp::Certain(true), _) => self.mask_not(b),
            (_, VectorOp::Certain(true)) => self.mask_not(a),
            _ if a == b => self.constant_mask(false),
            _ => self.add_op(VectorOp::OneOf(a, b)),
        }
    }

    /// Emits the lanes of the first that are not in the second.
    pub fn mask_and_not(&mut self, a: OpId, b: OpId) -> OpId {
        match (self.op(a).clone(), self.op(b).clone()) {
            (VectorOp::Certain(false), _) | (_, VectorOp::Certain(true)) => self.constant_mask(false),
            (_, VectorOp::Certain(false)) => a,
            (VectorOp::Certain(true), _) => self.mask_not(b),
            _ if a == b => self.constant_mask(false),
            (_, VectorOp::Not(inner)) => self.mask_and(a, inner),
            (_, VectorOp::Both(x, y)) if x == a => self.mask_and_not(a, y),
            (_, VectorOp::Both(x, y)) if y == a => self.mask_and_not(a, x),
            (_, VectorOp::Without(x, y)) if x == a => self.mask_and(a, y),
            _ => self.add_op(VectorOp::Without(a, b)),
        }
    }

    /// Emits a complement.
    pub fn mask_not(&mut self, a: OpId) -> OpId {
        match *self.op(a) {
            VectorOp::Certain(yes) => self.constant_mask(!yes),
            VectorOp::Not(inner) => inner,
            _ => {
                let op = inverted(self.op(a)).unwrap_or(VectorOp::Not(a));
                self.add_op(op)
            }
        }
    }
}

/// Returns the negation of a comparison.
pub fn inverted(op: &VectorOp) -> Option<VectorOp> {
    let VectorOp::Compare(cond, x, y) = *op else { return None };
    Some(match cond {
        LaneCompare::Equal => VectorOp::Compare(LaneCompare::NotEqual, x, y),
        LaneCompare::NotEqual => VectorOp::Compare(LaneCompare::Equal, x, y),
        LaneCompare::Less => VectorOp::Compare(LaneCompare::LessOrEqual, y, x),
        LaneCompare::LessOrEqual => VectorOp::Compare(LaneCompare::Less, y, x),
        LaneCompare::SignedLess => VectorOp::Compare(LaneCompare::SignedLessOrEqual, y, x),
        LaneCompare::SignedLessOrEqual => VectorOp::Compare(LaneCompare::SignedLess, y, x),
    })
}

/// Evaluates a comparison of two numbers.
pub fn evaluate_compare(cond: LaneCompare, a: u64, b: u64) -> bool {
    match cond {
        LaneCompare::Equal => a == b,
        LaneCompare::NotEqual => a != b,
        LaneCompare::Less => a < b,
        LaneCompare::LessOrEqual => a <= b,
        LaneCompare::SignedLess => (a as i64) < b as i64,
        LaneCompare::SignedLessOrEqual => a as i64 <= b as i64,
    }
}
