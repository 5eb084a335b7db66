//! Parameters: copy-in and copy-out (specification, section "Calling convention: call by copy in/copy out").
//!
//! A parameter shares its argument's storage only where nobody can tell: nothing else that the callee reaches overlaps it,
//! and no argument evaluated later has side effects.

use super::frame::{Binding, Bound, Context, CopyOut};
use super::known::{Known, Naming};
use super::lowering::{Lower, Res};
use super::place::{Place, union_members};
use super::shape::Shape;
use super::value::{Access, Val};
use super::walk::{is_pure_arg, root};
use crate::ast::Direction;
use crate::hir::{self, CallArg, Expr, ExprKind, LocalId, LocalKind, Ty, walk_expr};
use ir::VarKind;

/// An argument.
#[derive(Clone, Debug)]
pub(super) enum Arg<'c> {
    /// Of a call.
    Call(&'c CallArg),
    /// Action data.
    Data(Val),
}

impl Lower<'_> {
    /// Direction of a parameter.
    pub(super) fn direction(&self, id: LocalId) -> Direction {
        match &self.local(id).kind {
            LocalKind::Param(direction, ..) => *direction,
            _ => Direction::None,
        }
    }

    /// Evaluates arguments in the order of the text and binds parameters; copies go out in the
    /// same order.
    pub(super) fn bind_args(
        &mut self,
        params: &[LocalId],
        args: &[Arg],
        order: &[usize],
        context: &Context,
        action: Option<hir::ActionId>,
    ) -> Res<Bound> {
        let mut bound = Bound::default();
        for (at, n) in order.iter().copied().enumerate() {
            let (Some(param), Some(arg)) = (params.get(n), args.get(n)) else { continue };
            let ty = self.replace(self.local(*param).ty, &context.subst);
            match arg {
                Arg::Data(val) => bound.bindings.push((*param, Binding::Val(val.clone()))),
                Arg::Call(CallArg::Missing) => bound.bindings.push((*param, Binding::Known(Known::Missing))),
                Arg::Call(CallArg::DontCare) => {
                    let place = self.param_storage(*param, context, &mut bound)?;
                    self.clear(&place);
                }
                Arg::Call(CallArg::Expr(expr)) => {
                    let later_are_pure = order[at + 1..].iter().all(|later| args.get(*later).is_none_or(is_pure));
                    let shared = later_are_pure && self.may_share(params, args, n, expr, action);
                    self.bind_arg(*param, ty, expr, shared, context, &mut bound)?;
                }
            }
        }
        Ok(bound)
    }

    fn bind_arg(
        &mut self,
        param: LocalId,
        ty: Ty,
        expr: &Expr,
        shared: bool,
        context: &Context,
        bound: &mut Bound,
    ) -> Res<()> {
        if let Shape::Opaque = self.shape(ty) {
            let naming = Naming { by_type: false, ..self.naming(&self.local(param).name, &Vec::new()) };
            let known = self.known(expr, &naming)?;
            bound.bindings.push((param, Binding::Known(known)));
            return Ok(());
        }
        let direction = self.direction(param);
        let writes = matches!(direction, Direction::Out | Direction::InOut);
        if shared && (writes || !matches!(self.shape(ty), Shape::Scalar(_))) {
            match self.access(expr)? {
                Access::Place(place) if !(writes && self.differs_from_copy(&place)) => {
                    if direction == Direction::Out {
                        self.clear(&place);
                    }
                    bound.bindings.push((param, Binding::Place(place)));
                    return Ok(());
                }
                Access::Val(val) if !writes => {
                    bound.bindings.push((param, Binding::Val(val)));
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

    /// Whether a callee that writes the place itself could see what it would not see of a copy. A
    /// field of an invalid header keeps nothing, but a parameter does; the validity of a union's
    /// member becomes that of the union with the copy back only.
    fn differs_from_copy(&self, place: &Place) -> bool {
        match place {
            Place::Scalar(var) => matches!(self.p.vars.get(*var).map(|v| v.kind), Some(VarKind::Field(..))),
            Place::Struct(parts) => parts.iter().any(|part| self.differs_from_copy(part)),
            Place::Header { id, .. } => !union_members(&self.p, *id).is_empty(),
            Place::Stack { .. } | Place::Union { .. } | Place::Nothing => false,
        }
    }

    fn bind_in(&mut self, param: LocalId, ty: Ty, expr: &Expr, context: &Context, bound: &mut Bound) -> Res<()> {
        let val = self.eval(expr)?;
        let val = self.convert(val, expr.ty, ty, expr.span)?;
        if self.has_headers(ty) {
            // What a nested call of the same function gave may still be in this very storage.
            let place = self.param_storage(param, context, bound)?;
            self.assign(&place, val, ty, expr.span)
        } else {
            bound.bindings.push((param, Binding::Val(val)));
            Ok(())
        }
    }

    fn bind_out(
        &mut self,
        param: LocalId,
        ty: Ty,
        expr: &Expr,
        direction: Direction,
        context: &Context,
        bound: &mut Bound,
    ) -> Res<()> {
        let to = self.access(expr)?;
        if direction == Direction::Out {
            let place = self.param_storage(param, context, bound)?;
            self.clear(&place);
            bound.copy_outs.push(CopyOut { to, from: place, ty, span: expr.span });
        } else {
            let val = self.read_access(&to, ty, expr.span)?;
            let place = self.param_storage(param, context, bound)?;
            self.assign(&place, val, ty, expr.span)?;
            bound.copy_outs.push(CopyOut { to, from: place, ty, span: expr.span });
        }
        Ok(())
    }

    /// Storage of its own for a parameter.
    fn param_storage(&mut self, param: LocalId, context: &Context, bound: &mut Bound) -> Res<Place> {
        let outer = self.enter(context.clone());
        let place = self.acquire(param);
        self.enter(outer);
        let place = place?;
        bound.owned.push((param, place.clone()));
        bound.bindings.push((param, Binding::Place(place.clone())));
        Ok(place)
    }

    /// Whether parameter `n` may use its argument's storage as its own.
    fn may_share(
        &mut self,
        params: &[LocalId],
        args: &[Arg],
        n: usize,
        expr: &Expr,
        action: Option<hir::ActionId>,
    ) -> bool {
        let Some(local) = root(expr) else { return false };
        if !is_static(expr) || self.locals[local.index()].is_none() {
            return false;
        }
        if action.is_some_and(|action| self.mentioned(action).contains(&local)) {
            return false;
        }
        let reads_only = |lower: &Self, n: usize| {
            params.get(n).is_some_and(|p| matches!(lower.direction(*p), Direction::In | Direction::None))
        };
        (0..args.len()).filter(|m| *m != n).all(|m| match &args[m] {
            Arg::Call(CallArg::Expr(other)) if mentions(other, local) => {
                (reads_only(self, n) && reads_only(self, m)) || self.disjoint(expr, other)
            }
            _ => true,
        })
    }

    /// Whether two places of one variable have nothing in common; if that isn't certain, they are taken to.
    fn disjoint(&mut self, a: &Expr, b: &Expr) -> bool {
        if !is_static(a) || !is_static(b) {
            return false;
        }
        match (self.access(a), self.access(b)) {
            (Ok(Access::Place(a)), Ok(Access::Place(b))) => !a.overlaps(&b, &self.p),
            _ => false,
        }
    }
}

fn is_pure(arg: &Arg) -> bool {
    match arg {
        Arg::Call(arg) => is_pure_arg(arg),
        Arg::Data(_) => true,
    }
}

/// Whether an l-value is the same place whenever it is evaluated.
fn is_static(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Local(_) => true,
        ExprKind::Field(base, _) => is_static(base),
        ExprKind::Index(base, index) => is_static(base) && matches!(index.kind, ExprKind::Int(_)),
        _ => false,
    }
}

fn mentions(expr: &Expr, local: LocalId) -> bool {
    let mut found = false;
    walk_expr(expr, &mut |e| found |= matches!(&e.kind, ExprKind::Local(id) if *id == local));
    found
}
