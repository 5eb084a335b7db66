//! Capacity of a gateway, estimated on the pipeline before emission: equality with constants under
//! masks, in limited bits and rows.

use super::condition::GATEWAY_BITS;
use super::instructions::constant_bits;
use ir::*;
use std::collections::BTreeMap;

/// Rows of a gateway; each compares all of its bits.
const ROWS: usize = 4;

/// Condition or its negation.
#[derive(Clone, Copy)]
pub(super) struct CondLiteral {
    pub(super) cond: Value,
    /// `false`: the negation.
    pub(super) holds: bool,
}

/// Bits that a gateway must compare.
#[derive(Default)]
struct GatewayBits {
    /// Widths in bits by source.
    bits: BTreeMap<(Option<VarId>, u32, u32), u32>,
}

/// Returns whether a gateway can evaluate a disjunction of conjunctions.
pub(super) fn fits_gateway(body: &Body, any: &[&[CondLiteral]]) -> bool {
    let mut demand = GatewayBits::default();
    let (mut holds, mut fails) = (0usize, 1usize);
    for all in any {
        let (mut each, mut none) = (1usize, 0usize);
        for part in *all {
            let Some((yes, no)) = demand.count_rows(body, part.cond, part.holds, 0) else { return false };
            each = each.saturating_mul(yes);
            none = none.saturating_add(no);
        }
        holds = holds.saturating_add(each);
        fails = fails.saturating_mul(none);
    }
    holds.min(fails) <= ROWS && demand.bits.values().sum::<u32>() <= GATEWAY_BITS
}

impl GatewayBits {
    /// Returns the numbers of rows for the condition and for its negation (swapped if not `holds`),
    /// and adds the bits that it reads to the gateway's. `None`: a gateway cannot evaluate it.
    fn count_rows(&mut self, body: &Body, cond: Value, holds: bool, depth: usize) -> Option<(usize, usize)> {
        if depth > 16 {
            return None;
        }
        let rows = match &body.defining_inst(cond)?.inst {
            Inst::Unary(UnaryOp::LogicalNot, a) => return self.count_rows(body, *a, !holds, depth + 1),
            Inst::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let ((a, not_a), (b, not_b)) =
                    (self.count_rows(body, *a, holds, depth + 1)?, self.count_rows(body, *b, holds, depth + 1)?);
                match (*op == BinaryOp::And) == holds {
                    true => (a.saturating_mul(b), not_a.saturating_add(not_b)),
                    false => (a.saturating_add(b), not_a.saturating_mul(not_b)),
                }
            }
            Inst::Binary(op, a, b) if op.is_comparison() => {
                let is_const = [a, b].map(|v| constant_bits(body, *v).is_some());
                let is_equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
                match is_const.into() {
                    (false, true) => self.add_compared_bits(body, *a)?,
                    (true, false) => self.add_compared_bits(body, *b)?,
                    // An order comparison tests a saturated difference in a separate container.
                    _ if !is_equality && body.value_type(*a).width() <= 32 => {
                        self.bits
                            .insert((None, 1, cond.index() as u32), body.value_type(*a).width().next_power_of_two());
                    }
                    _ => return None,
                }
                // A constant bound takes up to three prefixes.
                let rows = if is_equality || is_const == [false; 2] { 1 } else { 3 };
                (rows, rows)
            }
            Inst::Load(var) => {
                self.bits.insert((Some(*var), 0, 0), 1);
                (1, 1)
            }
            Inst::IsValid(header) => {
                self.bits.insert((None, 0, header.index() as u32), 1);
                (1, 1)
            }
            _ => return None,
        };
        Some(rows)
    }

    /// Adds the bits of a comparison with a constant. `None`: too wide, or not comparable.
    fn add_compared_bits(&mut self, body: &Body, value: Value) -> Option<()> {
        let width = body.value_type(value).width();
        let key = match &body.defining_inst(value).map(|i| &i.inst) {
            Some(Inst::Binary(BinaryOp::And, a, mask)) if constant_bits(body, *mask).is_some() => {
                return self.add_compared_bits(body, *a);
            }
            Some(Inst::Slice { value, hi, lo }) => match body.defining_inst(*value).map(|i| &i.inst) {
                Some(Inst::Load(var)) => (Some(*var), *hi, *lo),
                _ => return None,
            },
            Some(Inst::Load(var)) => (Some(*var), width - 1, 0),
            _ => (None, 1, value.index() as u32),
        };
        self.bits.insert(key, width);
        (width <= 32).then_some(())
    }
}
