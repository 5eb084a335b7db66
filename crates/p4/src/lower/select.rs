//! `select`: constants become a switch, everything else a chain of tests; the first case that matches wins.

use super::lowering::{Lower, Res};
use super::parser::States;
use crate::hir::{self, Expr, KeysetItem, SelectCase};
use crate::span::Span;
use ir::{BinaryOp, Const, Value};
use num_bigint::BigUint;
use std::collections::HashSet;

impl Lower<'_> {
    pub(super) fn select(&mut self, exprs: &[Expr], cases: &[SelectCase], states: &mut States, span: Span) -> Res<()> {
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            values.push(self.eval_scalar(expr)?);
        }
        let mut rest = cases;
        if let [value] = values[..] {
            let mut consts = Vec::new();
            let mut seen = HashSet::new();
            while let Some((case, more)) = rest.split_first() {
                let Some(bits) = self.constant_case(case, value) else { break };
                let target = self.state_block(case.target, states, case.span)?;
                if seen.insert(bits.clone()) {
                    consts.push((Const::new(self.b.value_type(value), bits), target));
                }
                rest = more;
            }
            if !consts.is_empty() {
                let next = match rest.first() {
                    Some(case) if is_any(case) => self.state_block(case.target, states, case.span)?,
                    _ => self.b.create_block(),
                };
                let catches_all = rest.first().is_some_and(is_any);
                self.b.switch(value, consts, next);
                if catches_all {
                    return Ok(());
                }
                self.b.switch_to(next);
            }
        }
        self.select_chain(&values, rest, states, span)
    }

    /// The bits of a case that is a constant of one column.
    fn constant_case(&mut self, case: &SelectCase, value: Value) -> Option<BigUint> {
        let [KeysetItem::Value(expr)] = &case.keyset[..] else { return None };
        let ty = self.b.value_type(value);
        let known = self.try_known(expr)?;
        self.bits_of(&known, ty)
    }

    fn select_chain(&mut self, values: &[Value], cases: &[SelectCase], states: &mut States, span: Span) -> Res<()> {
        for case in cases {
            self.check_size(span)?;
            self.at(case.span);
            let matches = self.keyset(&case.keyset, values)?;
            let target = self.state_block(case.target, states, case.span)?;
            let Some(matches) = matches else {
                self.b.jump(target);
                return Ok(());
            };
            let next = self.b.create_block();
            self.b.branch(matches, target, next);
            self.b.switch_to(next);
        }
        self.at(span);
        self.no_match();
        Ok(())
    }

    fn no_match(&mut self) {
        let never = self.b.bool(false);
        let error = self.error_value("NoMatch");
        self.b.verify(never, error);
        self.b.reject();
    }

    /// Whether the values are in the set; `None` if all are.
    fn keyset(&mut self, items: &[KeysetItem], values: &[Value]) -> Res<Option<Value>> {
        if let [KeysetItem::ValueSet(id)] = items {
            return self.in_value_set(*id, values.to_vec()).map(Some);
        }
        let mut all: Option<Value> = None;
        for (item, value) in items.iter().zip(values) {
            let Some(here) = self.keyset_item(item, *value)? else { continue };
            all = Some(match all {
                Some(before) => self.b.binary(BinaryOp::And, before, here),
                None => here,
            });
        }
        Ok(all)
    }

    fn keyset_item(&mut self, item: &KeysetItem, value: Value) -> Res<Option<Value>> {
        Ok(Some(match item {
            KeysetItem::Any => return Ok(None),
            KeysetItem::Value(expr) => {
                let wanted = self.keyset_value(expr, value)?;
                self.b.eq(value, wanted)
            }
            KeysetItem::Mask(wanted, mask) => {
                let wanted = self.keyset_value(wanted, value)?;
                let mask = self.keyset_value(mask, value)?;
                let left = self.b.binary(BinaryOp::And, value, mask);
                let right = self.b.binary(BinaryOp::And, wanted, mask);
                self.b.eq(left, right)
            }
            KeysetItem::Range(lo, hi) => {
                let lo = self.keyset_value(lo, value)?;
                let hi = self.keyset_value(hi, value)?;
                let above = self.b.binary(BinaryOp::Ge, value, lo);
                let below = self.b.binary(BinaryOp::Le, value, hi);
                self.b.binary(BinaryOp::And, above, below)
            }
            KeysetItem::ValueSet(id) => self.in_value_set(*id, vec![value])?,
        }))
    }

    /// A value of a key set, in the type of what it is compared with.
    fn keyset_value(&mut self, expr: &Expr, like: Value) -> Res<Value> {
        let ty = self.b.value_type(like);
        let known = self.try_known(expr);
        if let Some(bits) = known.and_then(|known| self.bits_of(&known, ty)) {
            return Ok(self.b.constant(Const::new(ty, bits)));
        }
        let value = self.eval_scalar(expr)?;
        Ok(self.b.cast(ty, value))
    }

    fn in_value_set(&mut self, id: hir::ValueSetId, values: Vec<Value>) -> Res<Value> {
        let known = self.objects[self.this.index()].value_sets.get(&id).or_else(|| self.objects[0].value_sets.get(&id));
        let set = match known {
            Some(set) => *set,
            None => self.declare_value_set(id)?,
        };
        Ok(self.b.in_value_set(set, values))
    }
}

fn is_any(case: &SelectCase) -> bool {
    case.keyset.iter().all(|item| matches!(item, KeysetItem::Any))
}
