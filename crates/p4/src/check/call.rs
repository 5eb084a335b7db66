//! Checks calls: arguments against parameters, and the places where a call is allowed.

use super::infer::TypeSubst;
use super::overload::{CallableKind, CallableSignature};
use super::scope::{OverloadedFunction, ScopeEntity};
use super::{CheckContext, Checker, unknown_expr};
use crate::ast::{self, Arg, Direction, Path};
use crate::diag::Diagnostic;
use crate::hir::{Call, CallArg, Callee, EvalOrder, Expr, ExprKind, LocalId, LocalKind, Method, Ty, TyKind, Types};
use crate::span::Span;

/// Checked arguments of a call.
pub(super) struct CheckedArgs {
    pub type_args: Vec<Ty>,
    /// One argument for each parameter.
    pub args: Vec<CallArg>,
    pub result: Ty,
}

impl Checker<'_> {
    /// Checks `callee<type_args>(args)`.
    pub(super) fn check_call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match &callee.kind {
            ast::ExprKind::Name(path) => self.check_named_call(path, type_args, args, hint, span),
            ast::ExprKind::Member { base, member } => self.check_member_call(base, member, type_args, args, hint, span),
            ast::ExprKind::Error => unknown_expr(span),
            _ => {
                self.check_expr(callee, None);
                self.fail("not-callable", callee.span, "this cannot be called");
                unknown_expr(span)
            }
        }
    }

    /// Checks `name<type_args>(args)`. `hint` is the type that the context expects, if it expects
    /// one. Returns an expression of unknown type after an error.
    fn check_named_call(
        &mut self,
        path: &Path,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let Some(entity) = self.lookup(path) else {
            for arg in args.iter().filter(|a| a.value.kind != ast::ExprKind::DontCare) {
                self.check_expr(&arg.value, None);
            }
            return unknown_expr(span);
        };
        match entity {
            ScopeEntity::Functions(funcs) => self.check_function_call(&funcs, type_args, args, hint, span),
            ScopeEntity::Action(id) => {
                let action = &self.prog.actions[id.index()];
                let sig = CallableSignature {
                    name: action.name.clone(),
                    what: "action",
                    type_params: Vec::new(),
                    outer: Vec::new(),
                    params: action.params.clone(),
                    result: Types::VOID,
                    span: action.span,
                    kind: CallableKind::Action,
                };
                if !self.check_action_call_place(span) {
                    return unknown_expr(span);
                }
                self.finish_call(&[sig], &[Callee::Action(id)], type_args, args, hint, span)
            }
            ScopeEntity::Table(_) => {
                self.error(
                    Diagnostic::error("not-callable", path.span, format!("`{path}` is a table, which is not called"))
                        .help(format!("apply it: `{path}.apply()`")),
                );
                unknown_expr(span)
            }
            other => {
                let message = format!("`{path}` is {}, which cannot be called", other.what());
                self.fail("not-callable", path.span, message);
                unknown_expr(span)
            }
        }
    }

    fn check_action_call_place(&mut self, span: Span) -> bool {
        let place = match self.body.context {
            CheckContext::ControlApply | CheckContext::Action => return true,
            CheckContext::ParserLocals | CheckContext::ParserState => "in parsers",
            CheckContext::Function | CheckContext::Method => "in functions",
            _ => "here",
        };
        self.error(
            Diagnostic::error("action-call", span, format!("actions cannot be called {place}"))
                .help("actions are called in a control's `apply` block and in actions"),
        );
        false
    }

    /// Checks a call of one of the overloads `funcs`, which are functions of the program or of the
    /// architecture. `hint` is the type that the context expects.
    fn check_function_call(
        &mut self,
        funcs: &[OverloadedFunction],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let (mut sigs, mut callees) = (Vec::new(), Vec::new());
        for func in funcs {
            match *func {
                OverloadedFunction::Own(id) => {
                    let f = &self.prog.functions[id.index()];
                    sigs.push(CallableSignature {
                        name: f.name.clone(),
                        what: "function",
                        type_params: f.type_params.clone(),
                        outer: Vec::new(),
                        params: f.params.clone(),
                        result: f.result,
                        span: f.span,
                        kind: CallableKind::Plain,
                    });
                    callees.push(Callee::Function(id));
                }
                OverloadedFunction::Extern(id) => {
                    let method = &self.prog.extern_functions[id.index()];
                    sigs.push(method_signature(method, "function"));
                    callees.push(Callee::ExternFunction(id));
                }
            }
        }
        let call = self.finish_call(&sigs, &callees, type_args, args, hint, span);
        self.check_core_function(call)
    }

    /// Selects one of the signatures `sigs`, checks the arguments, and builds the call of the
    /// callee with the same index in `callees`. `hint` is the type that the context expects.
    /// Returns an expression of unknown type after an error.
    pub(super) fn finish_call(
        &mut self,
        sigs: &[CallableSignature],
        callees: &[Callee],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let Some((selected, arg_of_param)) = self.select_signature(sigs, type_args, args, span) else {
            return unknown_expr(span);
        };
        let Some(bound) = self.bind_args(&sigs[selected], &arg_of_param, type_args, args, hint, span) else {
            return unknown_expr(span);
        };
        let call = Call {
            callee: callees[selected].clone(),
            type_args: bound.type_args,
            args: bound.args,
            order: EvalOrder::of_places(&arg_of_param),
            span,
        };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: bound.result, span }
    }

    /// Checks the arguments against the parameters and infers type arguments that were not written.
    /// `arg_of_param` has the index of the argument for each parameter, `None` for an omitted one.
    /// `hint` is the type that the context expects of the result, from which type arguments can be
    /// inferred. Returns `None` after an error, unless the type of the result is known
    /// nevertheless.
    pub(super) fn bind_args(
        &mut self,
        sig: &CallableSignature,
        arg_of_param: &[Option<usize>],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Option<CheckedArgs> {
        let mut subst = sig.outer.clone();
        let own_type_args = match type_args {
            [] => self.fresh_vars(&sig.type_params),
            written => sig
                .type_params
                .iter()
                .copied()
                .zip(written.iter().map(|t| self.resolve_type(t)).collect::<Vec<_>>())
                .collect(),
        };
        subst.extend(own_type_args.iter().copied());
        let mut args_ok = true;
        let mut bound = Vec::new();
        for (param, arg_index) in sig.params.iter().zip(arg_of_param) {
            let ty = self.local_decl(*param).ty;
            let ty = self.renew_wildcards(ty);
            let ty = self.substitute(ty, &subst);
            let arg = match arg_index {
                Some(at) => self.check_arg(*param, ty, &args[*at], sig),
                None => Some(self.default_arg(*param, &subst)),
            };
            args_ok &= arg.is_some();
            bound.push((*param, ty, arg.unwrap_or(CallArg::Missing)));
        }
        let result = self.substitute(sig.result, &subst);
        if !args_ok {
            // Set all type arguments to unknown, because further errors can be consequences of this
            // one.
            for (_, ty) in &own_type_args {
                let ty = self.resolve(*ty);
                self.set_var_unknown(ty);
            }
            let result = self.resolve(result);
            let is_known = !self.mentions(result, &|kind| matches!(kind, TyKind::Unknown));
            let args = vec![CallArg::Missing; sig.params.len()];
            return is_known.then(|| CheckedArgs { type_args: Vec::new(), args, result });
        }
        self.infer_result(result, hint);
        self.default_to_int(&bound);
        self.unused_type_args(&own_type_args, sig, &bound);
        let type_args = self.finish_type_args(&own_type_args, sig, span)?;
        let args = bound.into_iter().map(|(param, ty, arg)| self.convert_arg(param, ty, arg, sig)).collect();
        let result = self.resolve(result);
        Some(CheckedArgs { type_args, args, result })
    }

    /// Checks an argument before all type arguments are known. The type `ty` of the parameter can
    /// still contain inference variables, which the argument determines. Returns `None` after an
    /// error.
    fn check_arg(&mut self, param: LocalId, ty: Ty, arg: &Arg, sig: &CallableSignature) -> Option<CallArg> {
        let direction = self.direction(param);
        if arg.value.kind == ast::ExprKind::DontCare {
            if direction == Direction::Out {
                return Some(CallArg::DontCare);
            }
            let name = self.local_decl(param).name.clone();
            self.fail("arguments", arg.span, format!("`_` is allowed only as an `out` argument, and `{name}` is none"));
            return None;
        }
        let value = self.check_expr(&arg.value, Some(ty));
        if value.ty == Types::UNKNOWN {
            return None;
        }
        if matches!(direction, Direction::Out | Direction::InOut) {
            let name = self.local_decl(param).name.clone();
            let purpose = format!("argument for the `{}` parameter `{name}` cannot be written", direction.as_str());
            if !self.require_lvalue(&value, &purpose) {
                return None;
            }
            if !self.unify(ty, value.ty) {
                let declared = self.local_decl(param).span;
                let role = format!("`{}` parameter of {} `{}`", direction.as_str(), sig.what, sig.name);
                self.report_mismatch(&value, ty, Some((declared, role)), true);
                return None;
            }
        } else {
            self.infer_from(ty, value.ty);
        }
        Some(CallArg::Expr(value))
    }

    /// Converts an argument to the type of its parameter. `ty` is that type with the inferred type
    /// arguments. Arguments for `out` and `inout` are not converted, because they are l-values.
    /// Returns an expression of unknown type after an error.
    fn convert_arg(&mut self, param: LocalId, ty: Ty, arg: CallArg, sig: &CallableSignature) -> CallArg {
        let CallArg::Expr(mut value) = arg else { return arg };
        let direction = self.direction(param);
        if matches!(direction, Direction::Out | Direction::InOut) {
            self.resolve_expr_types(&mut value);
            return CallArg::Expr(value);
        }
        let declared = self.local_decl(param).span;
        let name = self.local_decl(param).name.clone();
        let role = format!("parameter `{name}` of {} `{}`", sig.what, sig.name);
        let ty = self.resolve(ty);
        let not_a_value = match self.type_kind(value.ty) {
            // An object is a valid argument only if the parameter has an object type, not if its
            // type is a type parameter.
            TyKind::Object(..) => !matches!(self.type_kind(self.local_decl(param).ty), TyKind::Object(..)),
            TyKind::Str => direction != Direction::None,
            _ => false,
        };
        if not_a_value && sig.kind != CallableKind::Constructor {
            let type_text = self.type_text(value.ty);
            let message = format!("a value of type `{type_text}` cannot be the argument for `{name}`");
            self.error(Diagnostic::error("argument-type", value.span, message).label(declared, role));
            return CallArg::Expr(unknown_expr(value.span));
        }
        if let (TyKind::Object(wanted, wanted_args), TyKind::Object(found, found_args)) =
            (self.type_kind(ty).clone(), self.type_kind(value.ty).clone())
        {
            if let Err(reason) = self.unify_objects(wanted, &wanted_args, found, &found_args) {
                self.report_object_mismatch(&value, ty, &reason, declared, &role);
                return CallArg::Expr(unknown_expr(value.span));
            }
            if let TyKind::Object(_, args) = self.type_kind(value.ty).clone() {
                // Set undetermined type arguments to `void`, because they do not affect the object.
                args.into_iter().for_each(|arg| self.set_var_to(arg, Types::VOID));
            }
            self.resolve_expr_types(&mut value);
            return CallArg::Expr(value);
        }
        let span = value.span;
        let value = self.coerce_for(value, ty, declared, &role);
        let must_be_known = direction == Direction::None && sig.kind != CallableKind::Action;
        if must_be_known && value.ty != Types::UNKNOWN && !self.is_known(&value) {
            let message = format!("the argument for `{name}` must be known at compile time");
            self.error(
                Diagnostic::error("not-constant", span, message).label(declared, "the parameter has no direction"),
            );
            return CallArg::Expr(unknown_expr(span));
        }
        CallArg::Expr(value)
    }

    fn report_object_mismatch(&mut self, value: &Expr, ty: Ty, reason: &str, declared: Span, why: &str) {
        let (have, want) = (self.type_text(value.ty), self.type_text(ty));
        let mut message = format!("`{have}` does not fit `{want}`");
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        self.error(Diagnostic::error("object-type", value.span, message).label(declared, why.to_owned()));
    }

    fn default_arg(&mut self, param: LocalId, subst: &TypeSubst) -> CallArg {
        match &self.local_decl(param).kind {
            LocalKind::Param(_, Some(default), _) | LocalKind::ConstructorParam(Some(default), _) => {
                let mut value = (**default).clone();
                self.substitute_in_expr(&mut value, subst);
                CallArg::Expr(value)
            }
            _ => CallArg::Missing,
        }
    }
}

/// Returns the signature of an extern function, method or constructor.
pub(super) fn method_signature(method: &Method, what: &'static str) -> CallableSignature {
    CallableSignature {
        name: method.name.clone(),
        what,
        type_params: method.type_params.clone(),
        outer: Vec::new(),
        params: method.params.clone(),
        result: method.result,
        span: method.span,
        kind: CallableKind::Extern,
    }
}
