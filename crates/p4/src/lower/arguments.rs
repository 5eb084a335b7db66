//! Evaluates arguments of extern calls with side effects before the call, in source order.
//!
//! See the specification, section "Calling convention: call by copy in/copy out".
//!
//! The lowering of each extern evaluates its arguments by number when it needs them. That order is
//! not observable as long as evaluation is pure. Otherwise [`Lowering::prepare_args`] evaluates all
//! arguments first.

use super::effects::is_pure_arg;
use super::frame::PreparedArg;
use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue, holds_reference};
use crate::ast::Direction;
use crate::hir::{Call, CallArg, Expr, LocalId};
use crate::span::Span;
use ir::Value;

impl Lowering<'_> {
    /// Evaluates the arguments of an extern call in the order of the source if their evaluation has
    /// side effects. Returns one result for each argument, `None` for those to be evaluated later,
    /// such as compile-time known ones; an empty list if no argument has side effects.
    pub(super) fn prepare_args(&mut self, call: &Call, params: &[LocalId]) -> LowerResult<Vec<Option<PreparedArg>>> {
        if call.args.iter().all(is_pure_arg) {
            return Ok(Vec::new());
        }
        let mut prepared = vec![None; call.args.len()];
        let order = call.order.positions(call.args.len());
        for (position, arg_index) in order.iter().copied().enumerate() {
            let CallArg::Expr(arg) = &call.args[arg_index] else { continue };
            if matches!(self.layout(arg.ty), TypeLayout::Opaque | TypeLayout::CompileTime)
                || self.try_eval_const(arg).is_some()
            {
                continue;
            }
            let direction = params.get(arg_index).map_or(Direction::In, |param| self.direction(*param));
            prepared[arg_index] = Some(if matches!(direction, Direction::Out | Direction::InOut) {
                PreparedArg::LValue(self.resolve_lvalue(arg)?)
            } else {
                let mut val = self.eval_expr(arg)?;
                // A later argument with side effects could change the referenced storage.
                if holds_reference(&val)
                    && !order[position + 1..].iter().all(|later_index| is_pure_arg(&call.args[*later_index]))
                {
                    val = self.snapshot(val, arg.ty, arg.span)?;
                }
                PreparedArg::Value(val)
            });
        }
        Ok(prepared)
    }

    /// Runs the lowering of an extern call with its arguments prepared.
    pub(super) fn with_prepared<T>(
        &mut self,
        call: &Call,
        params: &[LocalId],
        lower: impl FnOnce(&mut Self) -> LowerResult<T>,
    ) -> LowerResult<T> {
        let prepared = self.prepare_args(call, params)?;
        let outer = std::mem::replace(&mut self.prepared, prepared);
        let done = lower(self);
        self.prepared = outer;
        done
    }

    fn take_prepared(&mut self, n: usize) -> Option<PreparedArg> {
        self.prepared.get_mut(n)?.take()
    }

    /// Returns the value of argument `n`, the expression `arg`.
    pub(super) fn arg_value(&mut self, n: usize, arg: &Expr) -> LowerResult<RValue> {
        match self.take_prepared(n) {
            Some(PreparedArg::Value(val)) => Ok(val),
            Some(PreparedArg::LValue(access)) => self.read_lvalue(&access, arg.ty, arg.span),
            None => self.eval_expr(arg),
        }
    }

    /// Resolves argument `n`, the expression `arg`, as an l-value.
    pub(super) fn arg_access(&mut self, n: usize, arg: &Expr) -> LowerResult<LValue> {
        match self.take_prepared(n) {
            Some(PreparedArg::LValue(access)) => Ok(access),
            Some(PreparedArg::Value(val)) => Ok(LValue::Value(val)),
            None => self.resolve_lvalue(arg),
        }
    }

    /// Returns argument `n` as a scalar; `None` if the call does not have it.
    pub(super) fn optional_scalar_arg(&mut self, call: &Call, n: usize) -> LowerResult<Option<Value>> {
        let Some(CallArg::Expr(arg)) = call.args.get(n) else { return Ok(None) };
        let val = self.arg_value(n, arg)?;
        self.scalar_value(val, arg.ty, arg.span).map(Some)
    }

    /// Returns argument `n` as a scalar.
    pub(super) fn scalar_arg(&mut self, call: &Call, n: usize) -> LowerResult<Value> {
        match self.optional_scalar_arg(call, n)? {
            Some(value) => Ok(value),
            None => self.missing_argument(call.span, n),
        }
    }

    pub(super) fn missing_argument<T>(&mut self, span: Span, n: usize) -> LowerResult<T> {
        self.error("missing-argument", span, format!("argument {} of this call is missing", n + 1))
    }
}
