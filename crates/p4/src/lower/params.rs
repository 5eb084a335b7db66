//! Binds parameters with copy-in and copy-out.
//!
//! See the specification, section "Calling convention: call by copy in/copy out".
//!
//! A parameter shares the storage of its argument only if that is not observable: the callee
//! reaches no other storage that overlaps it, and no argument evaluated later has side effects.

use super::const_value::{ConstValue, InstanceName};
use super::effects::{is_pure_arg, root_variable};
use super::frame::{Binding, BoundParams, CopyOut, LoweringContext};
use super::lowering::{LowerResult, Lowering};
use super::storage::{Storage, union_members};
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue};
use crate::ast::Direction;
use crate::hir::{self, CallArg, Expr, ExprKind, LocalId, LocalKind, Ty, walk_expr};
use ir::VarKind;

/// An argument of inlined code.
#[derive(Clone, Debug)]
pub(super) enum InlineArg<'c> {
    /// Argument of a call.
    Call(&'c CallArg),
    /// Action data.
    Data(RValue),
}

impl Lowering<'_> {
    /// Returns the direction of a parameter.
    pub(super) fn direction(&self, id: LocalId) -> Direction {
        match &self.local_decl(id).kind {
            LocalKind::Param(direction, ..) => *direction,
            _ => Direction::None,
        }
    }

    /// Evaluates arguments and binds parameters. `order` has the parameter indices in the order of
    /// the arguments in the source; arguments are evaluated, and copied out, in this order.
    /// `context` is that of the called code, `action` the called action, if it is one.
    pub(super) fn bind_args(
        &mut self,
        params: &[LocalId],
        args: &[InlineArg],
        order: &[usize],
        context: &LoweringContext,
        action: Option<hir::ActionId>,
    ) -> LowerResult<BoundParams> {
        let mut bound = BoundParams::default();
        for (position, param_index) in order.iter().copied().enumerate() {
            let (Some(param), Some(arg)) = (params.get(param_index), args.get(param_index)) else { continue };
            let ty = self.substitute_params(self.local_decl(*param).ty, &context.subst);
            match arg {
                InlineArg::Data(val) => bound.bindings.push((*param, Binding::Value(val.clone()))),
                InlineArg::Call(CallArg::Missing) => bound.bindings.push((*param, Binding::Const(ConstValue::Missing))),
                InlineArg::Call(CallArg::DontCare) => {
                    let storage = self.param_storage(*param, context, &mut bound)?;
                    self.clear_storage(&storage);
                }
                InlineArg::Call(CallArg::Expr(expr)) => {
                    let later_are_pure =
                        order[position + 1..].iter().all(|later_index| args.get(*later_index).is_none_or(is_pure));
                    let can_share = later_are_pure && self.may_share(params, args, param_index, expr, action);
                    self.bind_arg(*param, ty, expr, can_share, context, &mut bound)?;
                }
            }
        }
        Ok(bound)
    }

    /// Binds one parameter to the argument `expr`. If `can_share`, the parameter uses the
    /// argument's own storage where that cannot be observed; otherwise it has a copy.
    fn bind_arg(
        &mut self,
        param: LocalId,
        ty: Ty,
        expr: &Expr,
        can_share: bool,
        context: &LoweringContext,
        bound: &mut BoundParams,
    ) -> LowerResult<()> {
        if let TypeLayout::Opaque = self.layout(ty) {
            let naming =
                InstanceName { by_type: false, ..self.instance_name(&self.local_decl(param).name, &Vec::new()) };
            let object = self.eval_constructor_arg(expr, &naming)?;
            bound.bindings.push((param, Binding::Const(object)));
            return Ok(());
        }
        let direction = self.direction(param);
        let writes = matches!(direction, Direction::Out | Direction::InOut);
        if can_share && (writes || !matches!(self.layout(ty), TypeLayout::Scalar(_))) {
            match self.resolve_lvalue(expr)? {
                LValue::Storage(storage) if !(writes && self.differs_from_copy(&storage)) => {
                    if direction == Direction::Out {
                        self.clear_storage(&storage);
                    }
                    bound.bindings.push((param, Binding::Storage(storage)));
                    return Ok(());
                }
                LValue::Value(val) if !writes => {
                    bound.bindings.push((param, Binding::Value(val)));
                    return Ok(());
                }
                _ => {}
            }
        }
        match direction {
            Direction::In | Direction::None => self.bind_in(param, ty, expr, context, bound),
            Direction::Out | Direction::InOut => self.bind_out(param, ty, expr, direction, context, bound),
        }
    }

    /// Returns whether in-place writes by a callee differ observably from writes to a copy. A field
    /// of an invalid header does not retain its value, but a parameter does. The validity of a
    /// union member changes that of the union only at copy-out.
    fn differs_from_copy(&self, place: &Storage) -> bool {
        match place {
            Storage::Scalar(var) => matches!(self.pipeline.vars.get(*var).map(|v| v.kind), Some(VarKind::Field(..))),
            Storage::Struct(parts) => parts.iter().any(|part| self.differs_from_copy(part)),
            Storage::Header { id, .. } => !union_members(&self.pipeline, *id).is_empty(),
            Storage::Stack { .. } | Storage::Union { .. } | Storage::Nothing => false,
        }
    }

    /// Binds an `in` parameter, or one without direction, to a copy of the argument's value. Values
    /// without headers need no storage, because SSA values do not change.
    fn bind_in(
        &mut self,
        param: LocalId,
        ty: Ty,
        expr: &Expr,
        context: &LoweringContext,
        bound: &mut BoundParams,
    ) -> LowerResult<()> {
        let val = self.eval_expr(expr)?;
        let val = self.convert_value(val, expr.ty, ty, expr.span)?;
        if self.has_headers(ty) {
            // The value can be in this very storage if it is the result of a nested call of the
            // same function.
            let storage = self.param_storage(param, context, bound)?;
            self.assign_value(&storage, val, ty, expr.span)
        } else {
            bound.bindings.push((param, Binding::Value(val)));
            Ok(())
        }
    }

    /// Binds an `out` or `inout` parameter to storage of its own, and schedules the copy to the
    /// argument's l-value at the end of the call. `out` parameters start with zeros and invalid
    /// headers.
    fn bind_out(
        &mut self,
        param: LocalId,
        ty: Ty,
        expr: &Expr,
        direction: Direction,
        context: &LoweringContext,
        bound: &mut BoundParams,
    ) -> LowerResult<()> {
        let to = self.resolve_lvalue(expr)?;
        if direction == Direction::Out {
            let storage = self.param_storage(param, context, bound)?;
            self.clear_storage(&storage);
            bound.copy_outs.push(CopyOut { to, from: storage, ty, span: expr.span });
        } else {
            let val = self.read_lvalue(&to, ty, expr.span)?;
            let storage = self.param_storage(param, context, bound)?;
            self.assign_value(&storage, val, ty, expr.span)?;
            bound.copy_outs.push(CopyOut { to, from: storage, ty, span: expr.span });
        }
        Ok(())
    }

    /// Acquires separate storage for a parameter.
    fn param_storage(
        &mut self,
        param: LocalId,
        context: &LoweringContext,
        bound: &mut BoundParams,
    ) -> LowerResult<Storage> {
        let outer = self.enter_context(context.clone());
        let place = self.acquire_storage(param);
        self.enter_context(outer);
        let place = place?;
        bound.owned.push((param, place.clone()));
        bound.bindings.push((param, Binding::Storage(place.clone())));
        Ok(place)
    }

    /// Returns whether parameter `param_index`, with the argument `expr`, can share the storage of
    /// its argument: the call reaches that storage in no other way, or all ways only read it.
    /// `action` is the called action, which can also mention the variables of its control.
    fn may_share(
        &mut self,
        params: &[LocalId],
        args: &[InlineArg],
        param_index: usize,
        expr: &Expr,
        action: Option<hir::ActionId>,
    ) -> bool {
        let Some(variable) = root_variable(expr) else { return false };
        if !is_static(expr) || self.locals[variable.index()].is_none() {
            return false;
        }
        if action.is_some_and(|action| self.mentioned_locals(action).contains(&variable)) {
            return false;
        }
        let reads_only = |lower: &Self, n: usize| {
            params.get(n).is_some_and(|p| matches!(lower.direction(*p), Direction::In | Direction::None))
        };
        (0..args.len()).filter(|other_index| *other_index != param_index).all(|other_index| match &args[other_index] {
            InlineArg::Call(CallArg::Expr(other)) if mentions_local(other, variable) => {
                (reads_only(self, param_index) && reads_only(self, other_index)) || self.disjoint(expr, other)
            }
            _ => true,
        })
    }

    /// Returns whether two l-values in one variable are certainly disjoint.
    fn disjoint(&mut self, a: &Expr, b: &Expr) -> bool {
        if !is_static(a) || !is_static(b) {
            return false;
        }
        match (self.resolve_lvalue(a), self.resolve_lvalue(b)) {
            (Ok(LValue::Storage(a)), Ok(LValue::Storage(b))) => !a.overlaps(&b, &self.pipeline),
            _ => false,
        }
    }
}

fn is_pure(arg: &InlineArg) -> bool {
    match arg {
        InlineArg::Call(arg) => is_pure_arg(arg),
        InlineArg::Data(_) => true,
    }
}

/// Returns whether an l-value always resolves to the same storage.
fn is_static(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Local(_) => true,
        ExprKind::Field(base, _) => is_static(base),
        ExprKind::Index(base, index) => is_static(base) && matches!(index.kind, ExprKind::Int(_)),
        _ => false,
    }
}

fn mentions_local(expr: &Expr, local: LocalId) -> bool {
    let mut found = false;
    walk_expr(expr, &mut |e| found |= matches!(&e.kind, ExprKind::Local(id) if *id == local));
    found
}
