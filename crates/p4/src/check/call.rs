//! Calls: arguments against parameters, and who may call what where.

use super::infer::Subst;
use super::overload::{SigKind, Signature};
use super::scope::{Entity, Func};
use super::{Checker, Place, unknown};
use crate::ast::{self, Arg, Direction, Path};
use crate::diag::Diagnostic;
use crate::hir::{Call, CallArg, Callee, Expr, ExprKind, LocalId, LocalKind, Method, Order, Ty, TyKind, Types};
use crate::span::Span;

/// The arguments of a call, checked.
pub(super) struct Bound {
    pub type_args: Vec<Ty>,
    /// One for each parameter.
    pub args: Vec<CallArg>,
    pub result: Ty,
}

impl Checker<'_> {
    /// `callee<type_args>(args)`
    pub(super) fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match &callee.kind {
            ast::ExprKind::Name(path) => self.call_name(path, type_args, args, hint, span),
            ast::ExprKind::Member { base, member } => self.call_member(base, member, type_args, args, hint, span),
            ast::ExprKind::Error => unknown(span),
            _ => {
                self.expr(callee, None);
                self.fail("not-callable", callee.span, "this cannot be called");
                unknown(span)
            }
        }
    }

    fn call_name(&mut self, path: &Path, type_args: &[ast::Type], args: &[Arg], hint: Option<Ty>, span: Span) -> Expr {
        let Some(entity) = self.lookup(path) else {
            for arg in args.iter().filter(|a| a.value.kind != ast::ExprKind::DontCare) {
                self.expr(&arg.value, None);
            }
            return unknown(span);
        };
        match entity {
            Entity::Functions(funcs) => self.call_function(&funcs, type_args, args, hint, span),
            Entity::Action(id) => {
                let action = &self.prog.actions[id.index()];
                let sig = Signature {
                    name: action.name.clone(),
                    what: "action",
                    type_params: Vec::new(),
                    outer: Vec::new(),
                    params: action.params.clone(),
                    result: Types::VOID,
                    span: action.span,
                    kind: SigKind::Action,
                };
                if !self.action_callable(span) {
                    return unknown(span);
                }
                self.finish_call(&[sig], &[Callee::Action(id)], type_args, args, hint, span)
            }
            Entity::Table(_) => {
                self.error(
                    Diagnostic::error("not-callable", path.span, format!("`{path}` is a table, which is not called"))
                        .help(format!("apply it: `{path}.apply()`")),
                );
                unknown(span)
            }
            other => {
                let message = format!("`{path}` is {}, which cannot be called", other.what());
                self.fail("not-callable", path.span, message);
                unknown(span)
            }
        }
    }

    fn action_callable(&mut self, span: Span) -> bool {
        let place = match self.body.place {
            Place::ControlApply | Place::Action => return true,
            Place::ParserLocals | Place::ParserState => "in parsers",
            Place::Function | Place::Method => "in functions",
            _ => "here",
        };
        self.error(
            Diagnostic::error("action-call", span, format!("actions cannot be called {place}"))
                .help("actions are called in a control's `apply` block and in actions"),
        );
        false
    }

    fn call_function(
        &mut self,
        funcs: &[Func],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let (mut sigs, mut callees) = (Vec::new(), Vec::new());
        for func in funcs {
            match *func {
                Func::Own(id) => {
                    let f = &self.prog.functions[id.index()];
                    sigs.push(Signature {
                        name: f.name.clone(),
                        what: "function",
                        type_params: f.type_params.clone(),
                        outer: Vec::new(),
                        params: f.params.clone(),
                        result: f.result,
                        span: f.span,
                        kind: SigKind::Plain,
                    });
                    callees.push(Callee::Function(id));
                }
                Func::Extern(id) => {
                    let method = &self.prog.extern_functions[id.index()];
                    sigs.push(method_signature(method, "function"));
                    callees.push(Callee::ExternFunction(id));
                }
            }
        }
        let call = self.finish_call(&sigs, &callees, type_args, args, hint, span);
        self.core_function(call)
    }

    /// Chooses among the signatures, checks the arguments, and makes the call.
    pub(super) fn finish_call(
        &mut self,
        sigs: &[Signature],
        callees: &[Callee],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let Some((at, places)) = self.pick(sigs, type_args, args, span) else { return unknown(span) };
        let Some(bound) = self.bind_args(&sigs[at], &places, type_args, args, hint, span) else {
            return unknown(span);
        };
        let call = Call {
            callee: callees[at].clone(),
            type_args: bound.type_args,
            args: bound.args,
            order: Order::of_places(&places),
            span,
        };
        Expr { kind: ExprKind::Call(Box::new(call)), ty: bound.result, span }
    }

    /// Checks the arguments against the parameters, and finds the type arguments that were not written.
    pub(super) fn bind_args(
        &mut self,
        sig: &Signature,
        places: &[Option<usize>],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Option<Bound> {
        let mut subst = sig.outer.clone();
        let own = match type_args {
            [] => self.fresh_for(&sig.type_params),
            written => {
                sig.type_params.iter().copied().zip(written.iter().map(|t| self.ty(t)).collect::<Vec<_>>()).collect()
            }
        };
        subst.extend(own.iter().copied());
        let mut ok = true;
        let mut bound = Vec::new();
        for (param, place) in sig.params.iter().zip(places) {
            let ty = self.local(*param).ty;
            let ty = self.renewed(ty);
            let ty = self.subst(ty, &subst);
            let arg = match place {
                Some(at) => self.arg(*param, ty, &args[*at], sig),
                None => Some(self.missing_arg(*param, &subst)),
            };
            ok &= arg.is_some();
            bound.push((*param, ty, arg.unwrap_or(CallArg::Missing)));
        }
        let result = self.subst(sig.result, &subst);
        if !ok {
            // What else is wrong may follow from that.
            for (_, ty) in &own {
                let ty = self.resolve(*ty);
                self.give_up(ty);
            }
            let result = self.resolve(result);
            let known = !self.mentions(result, &|k| matches!(k, TyKind::Unknown));
            let args = vec![CallArg::Missing; sig.params.len()];
            return known.then(|| Bound { type_args: Vec::new(), args, result });
        }
        self.infer_result(result, hint);
        self.default_to_int(&bound);
        self.unused_type_args(&own, sig, &bound);
        let type_args = self.finish_type_args(&own, sig, span)?;
        let args = bound.into_iter().map(|(param, ty, arg)| self.finish_arg(param, ty, arg, sig)).collect();
        let result = self.resolve(result);
        Some(Bound { type_args, args, result })
    }

    /// An argument, before all type arguments are known.
    fn arg(&mut self, param: LocalId, ty: Ty, arg: &Arg, sig: &Signature) -> Option<CallArg> {
        let direction = self.direction(param);
        if arg.value.kind == ast::ExprKind::DontCare {
            if direction == Direction::Out {
                return Some(CallArg::DontCare);
            }
            let name = self.local(param).name.clone();
            self.fail("arguments", arg.span, format!("`_` can stand only for an `out` argument, and `{name}` is none"));
            return None;
        }
        let value = self.expr(&arg.value, Some(ty));
        if value.ty == Types::UNKNOWN {
            return None;
        }
        if matches!(direction, Direction::Out | Direction::InOut) {
            let name = self.local(param).name.clone();
            let purpose = format!("argument for the `{}` parameter `{name}` cannot be written", direction.as_str());
            if !self.require_lvalue(&value, &purpose) {
                return None;
            }
            if !self.unify(ty, value.ty) {
                let declared = self.local(param).span;
                let why = format!("`{}` parameter of {} `{}`", direction.as_str(), sig.what, sig.name);
                self.mismatch(&value, ty, Some((declared, why)), true);
                return None;
            }
        } else {
            self.infer_from(ty, value.ty);
        }
        Some(CallArg::Expr(value))
    }

    /// An argument, converted to the parameter's type.
    fn finish_arg(&mut self, param: LocalId, ty: Ty, arg: CallArg, sig: &Signature) -> CallArg {
        let CallArg::Expr(mut value) = arg else { return arg };
        let direction = self.direction(param);
        if matches!(direction, Direction::Out | Direction::InOut) {
            self.settle(&mut value);
            return CallArg::Expr(value);
        }
        let declared = self.local(param).span;
        let name = self.local(param).name.clone();
        let why = format!("parameter `{name}` of {} `{}`", sig.what, sig.name);
        let ty = self.resolve(ty);
        let not_a_value = match self.kind(value.ty) {
            // An object is an argument where the parameter says so, not where it is of any type.
            TyKind::Object(..) => !matches!(self.kind(self.local(param).ty), TyKind::Object(..)),
            TyKind::Str => direction != Direction::None,
            _ => false,
        };
        if not_a_value && sig.kind != SigKind::Constructor {
            let shown = self.show(value.ty);
            let message = format!("a value of type `{shown}` cannot be the argument for `{name}`");
            self.error(Diagnostic::error("argument-type", value.span, message).label(declared, why));
            return CallArg::Expr(unknown(value.span));
        }
        if let (TyKind::Object(want, wargs), TyKind::Object(have, hargs)) =
            (self.kind(ty).clone(), self.kind(value.ty).clone())
        {
            if let Err(reason) = self.unify_objects(want, &wargs, have, &hargs) {
                self.object_mismatch(&value, ty, &reason, declared, &why);
                return CallArg::Expr(unknown(value.span));
            }
            if let TyKind::Object(_, args) = self.kind(value.ty).clone() {
                // Type arguments that nothing decides are of no matter to the object.
                args.into_iter().for_each(|arg| self.give_up_to(arg, Types::VOID));
            }
            self.settle(&mut value);
            return CallArg::Expr(value);
        }
        let span = value.span;
        let value = self.coerce_for(value, ty, declared, &why);
        let known = direction == Direction::None && sig.kind != SigKind::Action;
        if known && value.ty != Types::UNKNOWN && !self.is_known(&value) {
            let message = format!("the argument for `{name}` must be known at compile time");
            self.error(
                Diagnostic::error("not-constant", span, message).label(declared, "the parameter has no direction"),
            );
            return CallArg::Expr(unknown(span));
        }
        CallArg::Expr(value)
    }

    fn object_mismatch(&mut self, value: &Expr, ty: Ty, reason: &str, declared: Span, why: &str) {
        let (have, want) = (self.show(value.ty), self.show(ty));
        let mut message = format!("`{have}` does not fit `{want}`");
        if !reason.is_empty() {
            message = format!("{message}: {reason}");
        }
        self.error(Diagnostic::error("object-type", value.span, message).label(declared, why.to_owned()));
    }

    fn missing_arg(&mut self, param: LocalId, subst: &Subst) -> CallArg {
        match &self.local(param).kind {
            LocalKind::Param(_, Some(default), _) | LocalKind::ConstructorParam(Some(default), _) => {
                let mut value = (**default).clone();
                self.subst_expr(&mut value, subst);
                CallArg::Expr(value)
            }
            _ => CallArg::Missing,
        }
    }
}

/// The signature of an extern function, method or constructor.
pub(super) fn method_signature(method: &Method, what: &'static str) -> Signature {
    Signature {
        name: method.name.clone(),
        what,
        type_params: method.type_params.clone(),
        outer: Vec::new(),
        params: method.params.clone(),
        result: method.result,
        span: method.span,
        kind: SigKind::Extern,
    }
}
