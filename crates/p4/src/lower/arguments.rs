//! Arguments of extern calls whose evaluation has side effects: all are evaluated before the call,
//! in the order of the text (specification, section "Calling convention: call by copy in/copy
//! out").
//!
//! The lowering of each extern asks for its arguments by number, whenever it needs them. As long
//! as evaluation changes nothing, the order does not show; otherwise [`Lower::prepare`] has
//! evaluated them before.

use super::frame::Prepared;
use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::{Access, Val, holds_reference};
use super::walk::is_pure_arg;
use crate::ast::Direction;
use crate::hir::{Call, CallArg, Expr, LocalId};
use crate::span::Span;
use ir::Value;

impl Lower<'_> {
    /// Evaluates the arguments of an extern call if evaluation has side effects. What is known at
    /// compile time stays.
    pub(super) fn prepare(&mut self, call: &Call, params: &[LocalId]) -> Res<Vec<Option<Prepared>>> {
        if call.args.iter().all(is_pure_arg) {
            return Ok(Vec::new());
        }
        let mut prepared = vec![None; call.args.len()];
        let order = call.order.positions(call.args.len());
        for (at, n) in order.iter().copied().enumerate() {
            let CallArg::Expr(arg) = &call.args[n] else { continue };
            if matches!(self.shape(arg.ty), Shape::Opaque | Shape::Known) || self.try_known(arg).is_some() {
                continue;
            }
            let direction = params.get(n).map_or(Direction::In, |param| self.direction(*param));
            prepared[n] = Some(if matches!(direction, Direction::Out | Direction::InOut) {
                Prepared::Access(self.access(arg)?)
            } else {
                let mut val = self.eval(arg)?;
                if holds_reference(&val) && !order[at + 1..].iter().all(|later| is_pure_arg(&call.args[*later])) {
                    val = self.snapshot(val, arg.ty, arg.span)?;
                }
                Prepared::Val(val)
            });
        }
        Ok(prepared)
    }

    /// Runs the lowering of an extern call with its arguments prepared.
    pub(super) fn with_prepared<T>(
        &mut self,
        call: &Call,
        params: &[LocalId],
        lower: impl FnOnce(&mut Self) -> Res<T>,
    ) -> Res<T> {
        let prepared = self.prepare(call, params)?;
        let outer = std::mem::replace(&mut self.prepared, prepared);
        let done = lower(self);
        self.prepared = outer;
        done
    }

    fn take_prepared(&mut self, n: usize) -> Option<Prepared> {
        self.prepared.get_mut(n)?.take()
    }

    /// The value of argument `n`, which `arg` is.
    pub(super) fn arg_value(&mut self, n: usize, arg: &Expr) -> Res<Val> {
        match self.take_prepared(n) {
            Some(Prepared::Val(val)) => Ok(val),
            Some(Prepared::Access(access)) => self.read_access(&access, arg.ty, arg.span),
            None => self.eval(arg),
        }
    }

    /// Where argument `n`, which `arg` is, points.
    pub(super) fn arg_access(&mut self, n: usize, arg: &Expr) -> Res<Access> {
        match self.take_prepared(n) {
            Some(Prepared::Access(access)) => Ok(access),
            Some(Prepared::Val(val)) => Ok(Access::Val(val)),
            None => self.access(arg),
        }
    }

    /// The scalar that argument `n` is, if the call has it.
    pub(super) fn optional_scalar_arg(&mut self, call: &Call, n: usize) -> Res<Option<Value>> {
        let Some(CallArg::Expr(arg)) = call.args.get(n) else { return Ok(None) };
        let val = self.arg_value(n, arg)?;
        self.scalar_value(val, arg.ty, arg.span).map(Some)
    }

    /// The scalar that argument `n` is.
    pub(super) fn scalar_arg(&mut self, call: &Call, n: usize) -> Res<Value> {
        match self.optional_scalar_arg(call, n)? {
            Some(value) => Ok(value),
            None => self.missing_argument(call.span, n),
        }
    }

    pub(super) fn missing_argument<T>(&mut self, span: Span, n: usize) -> Res<T> {
        self.error("missing-argument", span, format!("argument {} of this call is missing", n + 1))
    }
}
