//! Inference variables and substitution of type parameters.

use super::Checker;
use crate::hir::{Expr, ExprKind, Ty, TyKind, TypeParamId, Types};

/// Substitution of type parameters by types.
pub(super) type TypeSubst = Vec<(TypeParamId, Ty)>;

impl Checker<'_> {
    /// Creates an inference variable.
    pub(super) fn fresh_var(&mut self) -> Ty {
        self.type_vars.push(None);
        self.intern(TyKind::Infer(self.type_vars.len() as u32 - 1))
    }

    /// Creates inference variables for the type parameters.
    pub(super) fn fresh_vars(&mut self, params: &[TypeParamId]) -> TypeSubst {
        params.iter().map(|p| (*p, self.fresh_var())).collect()
    }

    /// Replaces the solved inference variables of a type.
    pub(super) fn resolve(&mut self, ty: Ty) -> Ty {
        match self.type_kind(ty) {
            TyKind::Infer(var) => match self.type_vars[*var as usize] {
                Some(found) => self.resolve(found),
                None => ty,
            },
            _ => self.map_type(ty, &mut |c, t| c.resolve(t)),
        }
    }

    /// Replaces each `_` in the type of a parameter by a fresh variable, because it can be a
    /// different type at each call.
    pub(super) fn renew_wildcards(&mut self, ty: Ty) -> Ty {
        match self.type_kind(ty) {
            TyKind::Infer(_) => self.fresh_var(),
            _ => self.map_type(ty, &mut |c, t| c.renew_wildcards(t)),
        }
    }

    /// Substitutes type parameters in the type.
    pub(super) fn substitute(&mut self, ty: Ty, subst: &TypeSubst) -> Ty {
        if subst.is_empty() {
            return ty;
        }
        match self.type_kind(ty) {
            TyKind::Param(id) => subst.iter().find(|(p, _)| p == id).map_or(ty, |(_, t)| *t),
            _ => self.map_type(ty, &mut |c, t| c.substitute(t, subst)),
        }
    }

    /// Applies `f` to the component types of a type.
    fn map_type(&mut self, ty: Ty, f: &mut dyn FnMut(&mut Self, Ty) -> Ty) -> Ty {
        let kind = match self.type_kind(ty).clone() {
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

    /// Returns whether `found` holds for the type or one of its components.
    pub(super) fn mentions(&self, ty: Ty, found: &dyn Fn(&TyKind) -> bool) -> bool {
        let kind = self.type_kind(ty);
        found(kind)
            || match kind {
                TyKind::Struct(_, args) | TyKind::Extern(_, args) | TyKind::Object(_, args) => {
                    args.iter().any(|t| self.mentions(*t, found))
                }
                TyKind::Tuple(elements) => elements.iter().any(|t| self.mentions(*t, found)),
                TyKind::List(t) | TyKind::Set(t) | TyKind::Stack(t, _) => self.mentions(*t, found),
                TyKind::Infer(var) => self.type_vars[*var as usize].is_some_and(|t| self.mentions(t, found)),
                _ => false,
            }
    }

    /// Returns whether the type contains an unsolved inference variable.
    pub(super) fn has_infer(&mut self, ty: Ty) -> bool {
        let ty = self.resolve(ty);
        self.mentions(ty, &|k| matches!(k, TyKind::Infer(_)))
    }

    /// Returns whether the type contains a type parameter.
    pub(super) fn has_param(&self, ty: Ty) -> bool {
        self.mentions(ty, &|k| matches!(k, TyKind::Param(_)))
    }

    /// Returns whether the type contains the arbitrary-precision `int`.
    pub(super) fn has_inf_int(&self, ty: Ty) -> bool {
        self.mentions(ty, &|k| matches!(k, TyKind::InfInt))
    }

    /// Replaces solved inference variables in the types of an expression and its parts.
    pub(super) fn resolve_expr_types(&mut self, expr: &mut Expr) {
        expr.ty = self.resolve(expr.ty);
        match &mut expr.kind {
            ExprKind::Aggregate(elements, _) => elements.iter_mut().for_each(|e| self.resolve_expr_types(e)),
            ExprKind::Construct(construct) => {
                for arg in &mut construct.type_args {
                    *arg = self.resolve(*arg);
                }
            }
            _ => {}
        }
    }

    /// Substitutes type parameters in the types of an expression and its parts.
    pub(super) fn substitute_in_expr(&mut self, expr: &mut Expr, subst: &TypeSubst) {
        expr.ty = self.substitute(expr.ty, subst);
        match &mut expr.kind {
            ExprKind::Aggregate(elements, _) => elements.iter_mut().for_each(|e| self.substitute_in_expr(e, subst)),
            ExprKind::Construct(construct) => {
                for arg in &mut construct.type_args {
                    *arg = self.substitute(*arg, subst);
                }
            }
            _ => {}
        }
    }

    /// Solves a variable. Returns false for a type that contains the variable itself.
    pub(super) fn solve_var(&mut self, var: u32, ty: Ty) -> bool {
        let ty = self.resolve(ty);
        if *self.type_kind(ty) == TyKind::Infer(var) {
            return true;
        }
        if self.mentions(ty, &|k| *k == TyKind::Infer(var)) {
            return false;
        }
        self.type_vars[var as usize] = Some(ty);
        true
    }

    /// Sets an unsolved variable to the type `to`.
    pub(super) fn set_var_to(&mut self, ty: Ty, to: Ty) {
        let ty = self.resolve(ty);
        if let TyKind::Infer(var) = *self.type_kind(ty) {
            self.type_vars[var as usize] = Some(to);
        }
    }

    /// Sets an unsolved variable to the unknown type.
    pub(super) fn set_var_unknown(&mut self, ty: Ty) {
        if let TyKind::Infer(var) = *self.type_kind(ty) {
            self.type_vars[var as usize] = Some(Types::UNKNOWN);
        }
    }
}
