//! Lowers `select`: the first matching case wins.
//! Leading constant cases become a switch, the others a chain of tests.

use super::lowering::{LowerResult, Lowering};
use super::parser::StateBlocks;
use crate::hir::{self, Expr, KeysetItem, SelectCase};
use crate::span::Span;
use ir::{BinaryOp, Const, Value};
use num_bigint::BigUint;
use std::collections::HashSet;

impl Lowering<'_> {
    /// Lowers `select (exprs) { cases }` to branches to the blocks of the target states. With a
    /// single selected value, leading cases with constants become one `switch`; the rest is a chain
    /// of tests, because the first case that matches wins.
    pub(super) fn lower_select(
        &mut self,
        exprs: &[Expr],
        cases: &[SelectCase],
        states: &mut StateBlocks,
        span: Span,
    ) -> LowerResult<()> {
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(self.eval_scalar(expr)?);
        }
        let mut remaining = cases;
        if let [value] = values[..] {
            let mut consts = Vec::new();
            let mut seen = HashSet::new();
            while let Some((case, more)) = remaining.split_first() {
                let Some(bits) = self.constant_case(case, value) else { break };
                let target = self.state_block(case.target, states, case.span)?;
                // A repeated constant never matches, because its first case wins.
                if seen.insert(bits.clone()) {
                    consts.push((Const::new(self.builder.value_type(value), bits), target));
                }
                remaining = more;
            }
            if !consts.is_empty() {
                let next = match remaining.first() {
                    Some(case) if is_catch_all(case) => self.state_block(case.target, states, case.span)?,
                    _ => self.builder.create_block(),
                };
                let catches_all = remaining.first().is_some_and(is_catch_all);
                self.builder.switch(value, consts, next);
                if catches_all {
                    return Ok(());
                }
                self.builder.switch_to(next);
            }
        }
        self.select_chain(&values, remaining, states, span)
    }

    /// Returns the bits of a case that is a constant of one column.
    fn constant_case(&mut self, case: &SelectCase, value: Value) -> Option<BigUint> {
        let [KeysetItem::Value(expr)] = &case.keyset[..] else { return None };
        let ty = self.builder.value_type(value);
        let known = self.try_eval_const(expr)?;
        self.const_bits(&known, ty)
    }

    /// Lowers `cases` as a chain of tests of `values`, in order. If none matches, the packet is
    /// rejected with `error.NoMatch`.
    fn select_chain(
        &mut self,
        values: &[Value],
        cases: &[SelectCase],
        states: &mut StateBlocks,
        span: Span,
    ) -> LowerResult<()> {
        for case in cases {
            self.check_size(span)?;
            self.set_location(case.span);
            let matches = self.match_keyset(&case.keyset, values)?;
            let target = self.state_block(case.target, states, case.span)?;
            let Some(matches) = matches else {
                self.builder.jump(target);
                return Ok(());
            };
            let next_test = self.builder.create_block();
            self.builder.branch(matches, target, next_test);
            self.builder.switch_to(next_test);
        }
        self.set_location(span);
        self.reject_no_match();
        Ok(())
    }

    fn reject_no_match(&mut self) {
        let never = self.builder.bool(false);
        let error = self.error_value("NoMatch");
        self.builder.verify(never, error);
        self.builder.reject();
    }

    /// Returns whether the values are in the key set; `None` if it matches everything.
    fn match_keyset(&mut self, items: &[KeysetItem], values: &[Value]) -> LowerResult<Option<Value>> {
        if let [KeysetItem::ValueSet(id)] = items {
            return self.in_value_set(*id, values.to_vec()).map(Some);
        }
        let mut all: Option<Value> = None;
        for (item, value) in items.iter().zip(values) {
            let Some(here) = self.match_keyset_item(item, *value)? else { continue };
            all = Some(match all {
                Some(before) => self.builder.binary(BinaryOp::And, before, here),
                None => here,
            });
        }
        Ok(all)
    }

    /// Emits the test whether `value` is in a key set item; `None` if it matches any value.
    fn match_keyset_item(&mut self, item: &KeysetItem, value: Value) -> LowerResult<Option<Value>> {
        Ok(Some(match item {
            KeysetItem::Any => return Ok(None),
            KeysetItem::Value(expr) => {
                let wanted = self.keyset_value(expr, value)?;
                self.builder.eq(value, wanted)
            }
            KeysetItem::Mask(wanted, mask) => {
                let wanted = self.keyset_value(wanted, value)?;
                let mask = self.keyset_value(mask, value)?;
                let left = self.builder.binary(BinaryOp::And, value, mask);
                let right = self.builder.binary(BinaryOp::And, wanted, mask);
                self.builder.eq(left, right)
            }
            KeysetItem::Range(lo, hi) => {
                let lo = self.keyset_value(lo, value)?;
                let hi = self.keyset_value(hi, value)?;
                let above = self.builder.binary(BinaryOp::Ge, value, lo);
                let below = self.builder.binary(BinaryOp::Le, value, hi);
                self.builder.binary(BinaryOp::And, above, below)
            }
            KeysetItem::ValueSet(id) => self.in_value_set(*id, vec![value])?,
        }))
    }

    /// Returns a value of a key set in the type of the compared value.
    fn keyset_value(&mut self, expr: &Expr, like: Value) -> LowerResult<Value> {
        let ty = self.builder.value_type(like);
        let known = self.try_eval_const(expr);
        if let Some(bits) = known.and_then(|known| self.const_bits(&known, ty)) {
            return Ok(self.builder.constant(Const::new(ty, bits)));
        }
        let value = self.eval_scalar(expr)?;
        Ok(self.builder.cast(ty, value))
    }

    fn in_value_set(&mut self, id: hir::ValueSetId, values: Vec<Value>) -> LowerResult<Value> {
        let known = self.objects[self.current_object.index()]
            .value_sets
            .get(&id)
            .or_else(|| self.objects[0].value_sets.get(&id));
        let set = match known {
            Some(set) => *set,
            None => self.declare_value_set(id)?,
        };
        Ok(self.builder.in_value_set(set, values))
    }
}

fn is_catch_all(case: &SelectCase) -> bool {
    case.keyset.iter().all(|item| matches!(item, KeysetItem::Any))
}
