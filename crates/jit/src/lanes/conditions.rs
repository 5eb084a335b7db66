//! Instruction selection for comparisons: fuses them with the operations on their masks and
//! operands.

use super::ir::{LaneCompare, OpId, VectorOp};
use super::select::{InstSelector, MachineOp, MaskBinary, MaskCondition};

impl InstSelector {
    pub(super) fn select_mask_and(&mut self, a: OpId, b: OpId) -> MachineOp {
        for (mask, other) in [(a, b), (b, a)] {
            if let Some(condition) = self.fuse_condition(other, false) {
                return MachineOp::Condition(condition, Some(mask));
            }
        }
        for (mask, other) in [(a, b), (b, a)] {
            if let VectorOp::Not(inner) = *self.op(other)
                && self.has_single_use(other)
            {
                self.mark_fused(other);
                return MachineOp::Masks(MaskBinary::Without, mask, inner);
            }
        }
        MachineOp::Masks(MaskBinary::Both, a, b)
    }

    /// Returns a condition with a single use, to be fused as a comparison under another mask.
    pub(super) fn fuse_condition(&mut self, id: OpId, inverted: bool) -> Option<MaskCondition> {
        if !self.has_single_use(id) || self.is_fused(id) {
            return None;
        }
        let condition = match *self.op(id) {
            VectorOp::Not(inner) if self.has_single_use(inner) => {
                let condition = self.condition(inner, !inverted)?;
                self.mark_fused(inner);
                condition
            }
            _ => self.condition(id, inverted)?,
        };
        self.mark_fused(id);
        Some(condition)
    }

    /// Returns the condition of a comparison, or its negation if `inverted`. `None` for another
    /// operation. A comparison with 0, or of masked bits, becomes a bit test, which needs no
    /// constant.
    pub(super) fn condition(&mut self, id: OpId, inverted: bool) -> Option<MaskCondition> {
        let (cond, a, b) = match *self.op(id) {
            VectorOp::Compare(cond, a, b) => (cond, a, b),
            _ => return None,
        };
        let (mut number, signed) = predicate_number(cond);
        if inverted {
            // Predicates are numbered so that bit 2 negates.
            number ^= 4;
        }
        let is_swapped = self.constant(a).is_some() && self.constant(b).is_none();
        let (a, b) = if is_swapped { (b, a) } else { (a, b) };
        let number = if is_swapped { swapped_predicate(number) } else { number };
        if number & 3 != 0 {
            return Some(MaskCondition::Compare(number, signed, a, b));
        }
        let constant = self.constant(b);
        if let VectorOp::And(x, y) = *self.op(a)
            && self.has_single_use(a)
            && let Some(is_negated) = self.tests_common_bits(number == 0, constant, [x, y])
        {
            self.mark_fused(a);
            return Some(MaskCondition::Test(is_negated, x, y));
        }
        match constant {
            Some(0) => Some(MaskCondition::Test(number == 0, a, a)),
            _ => Some(MaskCondition::Compare(number, signed, a, b)),
        }
    }

    /// Returns whether a comparison with the AND of two values only tests for common bits: then
    /// whether it holds for none.
    fn tests_common_bits(&self, equal: bool, wanted: Option<u64>, both: [OpId; 2]) -> Option<bool> {
        match wanted? {
            0 => Some(equal),
            bit if bit.is_power_of_two() && both.iter().any(|id| self.constant(*id) == Some(bit)) => Some(!equal),
            _ => None,
        }
    }
}

/// Returns the predicate number of a comparison, and whether it is signed. Adding 4 negates it.
fn predicate_number(cond: LaneCompare) -> (u8, bool) {
    match cond {
        LaneCompare::Equal => (0, false),
        LaneCompare::NotEqual => (4, false),
        LaneCompare::Less => (1, false),
        LaneCompare::LessOrEqual => (2, false),
        LaneCompare::SignedLess => (1, true),
        LaneCompare::SignedLessOrEqual => (2, true),
    }
}

/// Returns the predicate with exchanged operands.
fn swapped_predicate(number: u8) -> u8 {
    match number {
        1 => 6,
        2 => 5,
        5 => 2,
        6 => 1,
        same => same,
    }
}
