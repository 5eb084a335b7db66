//! What a gateway can decide of a pipeline's conditions, before they are written: equality with constants under masks, in few bits and rows.

use super::condition::GATEWAY_BITS;
use super::instructions::constant;
use ir::*;
use std::collections::BTreeMap;

/// Rows of a gateway, each of which compares all of its bits.
const ROWS: usize = 4;

/// A condition, or its opposite.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) cond: Value,
    /// False: its opposite.
    pub(super) holds: bool,
}

/// What a condition asks of a gateway.
#[derive(Default)]
struct Demand {
    /// Bits by what they are of.
    bits: BTreeMap<(Option<VarId>, u32, u32), u32>,
}

/// Whether a gateway decides whether all of some parts hold.
pub(super) fn fits(body: &Body, any: &[&[Part]]) -> bool {
    let mut demand = Demand::default();
    let (mut holds, mut fails) = (0usize, 1usize);
    for all in any {
        let (mut each, mut none) = (1usize, 0usize);
        for part in *all {
            let Some((yes, no)) = demand.of(body, part.cond, part.holds, 0) else { return false };
            each = each.saturating_mul(yes);
            none = none.saturating_add(no);
        }
        holds = holds.saturating_add(each);
        fails = fails.saturating_mul(none);
    }
    holds.min(fails) <= ROWS && demand.bits.values().sum::<u32>() <= GATEWAY_BITS
}

impl Demand {
    /// Rows that find that a condition holds, or that it does not. `None`: no gateway decides it.
    fn of(&mut self, body: &Body, cond: Value, holds: bool, depth: usize) -> Option<(usize, usize)> {
        if depth > 16 {
            return None;
        }
        let rows = match &body.definition(cond)?.inst {
            Inst::Unary(UnaryOp::LogicalNot, a) => return self.of(body, *a, !holds, depth + 1),
            Inst::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let ((a, not_a), (b, not_b)) =
                    (self.of(body, *a, holds, depth + 1)?, self.of(body, *b, holds, depth + 1)?);
                match (*op == BinaryOp::And) == holds {
                    true => (a.saturating_mul(b), not_a.saturating_add(not_b)),
                    false => (a.saturating_add(b), not_a.saturating_mul(not_b)),
                }
            }
            Inst::Binary(op, a, b) if op.is_comparison() => {
                let fixed = [a, b].map(|v| constant(body, *v).is_some());
                let equality = matches!(op, BinaryOp::Eq | BinaryOp::Ne);
                match fixed.into() {
                    (false, true) => self.asks(body, *a)?,
                    (true, false) => self.asks(body, *b)?,
                    // Which is more is asked of a difference, clamped at 0 in a container of its own.
                    _ if !equality && body.value_type(*a).width() <= 32 => {
                        self.bits
                            .insert((None, 1, cond.index() as u32), body.value_type(*a).width().next_power_of_two());
                    }
                    _ => return None,
                }
                // A bound that is a constant is up to three prefixes.
                let rows = if equality || fixed == [false; 2] { 1 } else { 3 };
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

    /// Bits that are compared with a constant.
    fn asks(&mut self, body: &Body, value: Value) -> Option<()> {
        let width = body.value_type(value).width();
        let key = match &body.definition(value).map(|i| &i.inst) {
            Some(Inst::Binary(BinaryOp::And, a, mask)) if constant(body, *mask).is_some() => {
                return self.asks(body, *a);
            }
            Some(Inst::Slice { value, hi, lo }) => match body.definition(*value).map(|i| &i.inst) {
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
