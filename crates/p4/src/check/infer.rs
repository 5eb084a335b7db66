//! Inference variables and substitution of type parameters.

use super::Checker;
use crate::hir::{Expr, ExprKind, Ty, TyKind, TypeParamId, Types};

/// What type parameters stand for.
pub(super) type Subst = Vec<(TypeParamId, Ty)>;

impl Checker<'_> {
    /// A type that is to be found out.
    pub(super) fn fresh(&mut self) -> Ty {
        self.vars.push(None);
        self.intern(TyKind::Infer(self.vars.len() as u32 - 1))
    }

    /// Fresh variables for the type parameters.
    pub(super) fn fresh_for(&mut self, params: &[TypeParamId]) -> Subst {
        params.iter().map(|p| (*p, self.fresh())).collect()
    }

    /// The type with the variables replaced that are known by now.
    pub(super) fn resolve(&mut self, ty: Ty) -> Ty {
        match self.kind(ty) {
            TyKind::Infer(var) => match self.vars[*var as usize] {
                Some(found) => self.resolve(found),
                None => ty,
            },
            _ => self.map_type(ty, &mut |c, t| c.resolve(t)),
        }
    }

    /// The type of a parameter as one call sees it: each `_` in it stands for any type, another at each call.
    pub(super) fn renewed(&mut self, ty: Ty) -> Ty {
        match self.kind(ty) {
            TyKind::Infer(_) => self.fresh(),
            _ => self.map_type(ty, &mut |c, t| c.renewed(t)),
        }
    }

    /// The type with type parameters replaced.
    pub(super) fn subst(&mut self, ty: Ty, subst: &Subst) -> Ty {
        if subst.is_empty() {
            return ty;
        }
        match self.kind(ty) {
            TyKind::Param(id) => subst.iter().find(|(p, _)| p == id).map_or(ty, |(_, t)| *t),
            _ => self.map_type(ty, &mut |c, t| c.subst(t, subst)),
        }
    }

    /// Applies `f` to the types that a type is made of.
    fn map_type(&mut self, ty: Ty, f: &mut dyn FnMut(&mut Self, Ty) -> Ty) -> Ty {
        let kind = match self.kind(ty).clone() {
            TyKind::Struct(id, args) if !args.is_empty() => TyKind::Struct(id, self.map_all(&args, f)),
            TyKind::Extern(id, args) if !args.is_empty() => TyKind::Extern(id, self.map_all(&args, f)),
            TyKind::Object(id, args) if !args.is_empty() => TyKind::Object(id, self.map_all(&args, f)),
            TyKind::Tuple(elements) => TyKind::Tuple(self.map_all(&elements, f)),
            TyKind::List(element) => TyKind::List(f(self, element)),
            TyKind::Set(element) => TyKind::Set(f(self, element)),
            TyKind::Stack(element, n) => TyKind::Stack(f(self, element), n),
            _ => return ty,
        };
        self.intern(kind)
    }

    fn map_all(&mut self, types: &[Ty], f: &mut dyn FnMut(&mut Self, Ty) -> Ty) -> Vec<Ty> {
        types.iter().map(|t| f(self, *t)).collect()
    }

    /// Whether `found` is of the type or of a part of it.
    pub(super) fn mentions(&self, ty: Ty, found: &dyn Fn(&TyKind) -> bool) -> bool {
        let kind = self.kind(ty);
        found(kind)
            || match kind {
                TyKind::Struct(_, args) | TyKind::Extern(_, args) | TyKind::Object(_, args) => {
                    args.iter().any(|t| self.mentions(*t, found))
                }
                TyKind::Tuple(elements) => elements.iter().any(|t| self.mentions(*t, found)),
                TyKind::List(t) | TyKind::Set(t) | TyKind::Stack(t, _) => self.mentions(*t, found),
                TyKind::Infer(var) => self.vars[*var as usize].is_some_and(|t| self.mentions(t, found)),
                _ => false,
            }
    }

    /// Whether something of the type is still to be found out.
    pub(super) fn has_infer(&mut self, ty: Ty) -> bool {
        let ty = self.resolve(ty);
        self.mentions(ty, &|k| matches!(k, TyKind::Infer(_)))
    }

    /// Whether the type is, or is made of, type parameters.
    pub(super) fn has_param(&self, ty: Ty) -> bool {
        self.mentions(ty, &|k| matches!(k, TyKind::Param(_)))
    }

    /// Whether an arbitrary-precision `int` is within a type, where no value could have it.
    pub(super) fn has_inf_int(&self, ty: Ty) -> bool {
        self.mentions(ty, &|k| matches!(k, TyKind::InfInt))
    }

    /// Replaces what is known by now in the type of an expression and of its parts.
    pub(super) fn settle(&mut self, expr: &mut Expr) {
        expr.ty = self.resolve(expr.ty);
        match &mut expr.kind {
            ExprKind::Aggregate(elements, _) => elements.iter_mut().for_each(|e| self.settle(e)),
            ExprKind::Construct(construct) => {
                for arg in &mut construct.type_args {
                    *arg = self.resolve(*arg);
                }
            }
            _ => {}
        }
    }

    /// Replaces type parameters in the types of an expression and of its parts.
    pub(super) fn subst_expr(&mut self, expr: &mut Expr, subst: &Subst) {
        expr.ty = self.subst(expr.ty, subst);
        match &mut expr.kind {
            ExprKind::Aggregate(elements, _) => elements.iter_mut().for_each(|e| self.subst_expr(e, subst)),
            ExprKind::Construct(construct) => {
                for arg in &mut construct.type_args {
                    *arg = self.subst(*arg, subst);
                }
            }
            _ => {}
        }
    }

    /// Sets a variable. A type that contains the variable itself is refused.
    pub(super) fn bind(&mut self, var: u32, ty: Ty) -> bool {
        let ty = self.resolve(ty);
        if *self.kind(ty) == TyKind::Infer(var) {
            return true;
        }
        if self.mentions(ty, &|k| *k == TyKind::Infer(var)) {
            return false;
        }
        self.vars[var as usize] = Some(ty);
        true
    }

    /// Decides the variables of a type that nothing else decides.
    pub(super) fn give_up_to(&mut self, ty: Ty, to: Ty) {
        let ty = self.resolve(ty);
        if let TyKind::Infer(var) = *self.kind(ty) {
            self.vars[var as usize] = Some(to);
        }
    }

    /// Ends inference for a variable that nothing decided.
    pub(super) fn give_up(&mut self, ty: Ty) {
        if let TyKind::Infer(var) = *self.kind(ty) {
            self.vars[var as usize] = Some(Types::UNKNOWN);
        }
    }
}
