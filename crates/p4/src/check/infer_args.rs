//! Infers type arguments from the arguments of a call or from its expected type.

use super::Checker;
use super::overload::{CallableKind, CallableSignature};
use crate::diag::Diagnostic;
use crate::hir::{CallArg, LocalId, Ty, TyKind, TypeParamId, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Infers a type argument that only the expected type of the call determines.
    pub(super) fn infer_result(&mut self, result: Ty, hint: Option<Ty>) {
        let result = self.resolve(result);
        if let (TyKind::Infer(var), Some(hint)) = (self.type_kind(result).clone(), hint)
            && !self.has_infer(hint)
        {
            self.solve_var(var, hint);
        }
    }

    /// Sets the remaining variables of parameters to the types of their arguments: `int` for
    /// literals without a width.
    pub(super) fn default_to_int(&mut self, bound: &[(LocalId, Ty, CallArg)]) {
        for (_, ty, arg) in bound {
            let ty = self.resolve(*ty);
            if let (TyKind::Infer(var), CallArg::Expr(value)) = (self.type_kind(ty).clone(), arg) {
                self.solve_var(var, value.ty);
            }
        }
    }

    /// Sets a type argument to `void` if only omitted optional parameters use it.
    pub(super) fn unused_type_args(
        &mut self,
        own: &[(TypeParamId, Ty)],
        sig: &CallableSignature,
        bound: &[(LocalId, Ty, CallArg)],
    ) {
        for (param, ty) in own {
            let mentions = |c: &Self, ty: Ty| c.mentions(ty, &|k| *k == TyKind::Param(*param));
            let mut of = bound.iter().filter(|(p, ..)| mentions(self, self.local_decl(*p).ty)).peekable();
            if of.peek().is_some() && of.all(|b| b.2 == CallArg::Missing) && !mentions(self, sig.result) {
                self.set_var_to(*ty, Types::VOID);
            }
        }
    }

    pub(super) fn finish_type_args(
        &mut self,
        own: &[(TypeParamId, Ty)],
        sig: &CallableSignature,
        span: Span,
    ) -> Option<Vec<Ty>> {
        let mut types = Vec::new();
        for (param, ty) in own {
            let ty = self.resolve(*ty);
            let name = self.prog.type_params[param.index()].clone();
            let problem = if self.has_infer(ty) {
                self.set_var_unknown(ty);
                Some("cannot be inferred from the arguments")
            } else if ty == Types::VOID && sig.params.is_empty() {
                Some("cannot be `void`")
            } else if sig.kind != CallableKind::Constructor && self.has_inf_int(ty) {
                Some("has no width: a number here has none")
            } else {
                None
            };
            if let Some(problem) = problem {
                let message = format!("type argument `{name}` of `{}` {problem}", sig.name);
                let help = match self.has_inf_int(ty) {
                    true => "give the numbers a width, as in `16w5`".to_owned(),
                    false => format!("write it, as in `{}<...>(...)`", sig.name),
                };
                self.error(Diagnostic::error("infer-type", span, message).label(sig.span, "declared here").help(help));
                return None;
            }
            types.push(ty);
        }
        Some(types)
    }

    /// Solves inference variables in the type of a parameter from that of its argument. Literals
    /// without a width determine nothing yet. Mismatches are reported later.
    pub(super) fn infer_from(&mut self, param: Ty, arg: Ty) {
        let (param, arg) = (self.resolve(param), self.resolve(arg));
        match (self.type_kind(param).clone(), self.type_kind(arg).clone()) {
            (TyKind::Infer(_), TyKind::InfInt | TyKind::Infer(_) | TyKind::InvalidHeader) => {}
            (TyKind::Infer(var), _) => {
                self.solve_var(var, arg);
            }
            (TyKind::Struct(a, xs), TyKind::Struct(b, ys)) if a == b => self.infer_all(&xs, &ys),
            (TyKind::Struct(id, xs), TyKind::Tuple(ys)) => {
                let fields = self.field_types(id, &xs);
                self.infer_all(&fields, &ys);
            }
            (TyKind::Extern(a, xs), TyKind::Extern(b, ys)) if a == b => self.infer_all(&xs, &ys),
            (TyKind::Tuple(xs), TyKind::Tuple(ys)) => self.infer_all(&xs, &ys),
            (TyKind::List(x), TyKind::List(y)) => self.infer_from(x, y),
            (TyKind::List(x), TyKind::Tuple(ys)) => ys.into_iter().for_each(|y| self.infer_from(x, y)),
            (TyKind::Stack(x, _), TyKind::Stack(y, _)) => self.infer_from(x, y),
            (TyKind::Object(..), TyKind::Object(..)) => {
                self.unify(param, arg);
            }
            _ => {}
        }
    }

    fn infer_all(&mut self, params: &[Ty], args: &[Ty]) {
        for (param, arg) in params.iter().zip(args) {
            self.infer_from(*param, *arg);
        }
    }
}
