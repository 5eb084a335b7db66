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

    /// Returns the type arguments of a call in order, after all arguments are checked. `own_params`
    /// has the type parameters of the callee with their inference variables. Reports an argument
    /// that is not determined or cannot be used, and returns `None`.
    pub(super) fn finish_type_args(
        &mut self,
        own_params: &[(TypeParamId, Ty)],
        sig: &CallableSignature,
        span: Span,
    ) -> Option<Vec<Ty>> {
        let mut types = Vec::new();
        for (param, ty) in own_params {
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
            (TyKind::Struct(param_id, param_types), TyKind::Struct(arg_id, arg_types)) if param_id == arg_id => {
                self.infer_all(&param_types, &arg_types)
            }
            (TyKind::Struct(id, param_types), TyKind::Tuple(arg_types)) => {
                let fields = self.field_types(id, &param_types);
                self.infer_all(&fields, &arg_types);
            }
            (TyKind::Extern(param_id, param_types), TyKind::Extern(arg_id, arg_types)) if param_id == arg_id => {
                self.infer_all(&param_types, &arg_types)
            }
            (TyKind::Tuple(param_types), TyKind::Tuple(arg_types)) => self.infer_all(&param_types, &arg_types),
            (TyKind::List(param_element), TyKind::List(arg_element)) => self.infer_from(param_element, arg_element),
            (TyKind::List(param_element), TyKind::Tuple(arg_types)) => {
                arg_types.into_iter().for_each(|arg_element| self.infer_from(param_element, arg_element))
            }
            (TyKind::Stack(param_element, _), TyKind::Stack(arg_element, _)) => {
                self.infer_from(param_element, arg_element)
            }
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
