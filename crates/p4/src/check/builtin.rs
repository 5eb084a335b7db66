//! Checks built-in methods of the language, and rules of core.p4 functions beyond their types.

use super::method::place_name;
use super::{Checker, unknown_expr};
use crate::ast::{Arg, Ident, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{Call, CallArg, Callee, EvalOrder, Expr, ExprKind, SizeOf, Ty, TyKind, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

impl Checker<'_> {
    /// Checks a call of a built-in method such as `h.isValid()`, `s.push_front(n)` or
    /// `x.minSizeInBits()`. Anything else is an unknown method.
    pub(super) fn check_builtin_method(&mut self, base: Expr, member: &Ident, args: &[Arg], span: Span) -> Expr {
        let is_header = matches!(self.struct_kind(base.ty), Some(StructKind::Header));
        let is_union = matches!(self.struct_kind(base.ty), Some(StructKind::HeaderUnion));
        let is_stack = matches!(self.type_kind(base.ty), TyKind::Stack(..));
        match member.as_str() {
            "isValid" if is_header || is_union => {
                self.check_no_args(member, args);
                self.build_builtin_call(Callee::IsValid(base), Types::BOOL, span)
            }
            "setValid" | "setInvalid" if is_header => {
                self.check_no_args(member, args);
                if !self.require_lvalue(&base, &format!("`{member}` writes the header")) {
                    return unknown_expr(span);
                }
                let callee =
                    if member.as_str() == "setValid" { Callee::SetValid(base) } else { Callee::SetInvalid(base) };
                self.build_builtin_call(callee, Types::VOID, span)
            }
            "push_front" | "pop_front" if is_stack => self.check_stack_shift(base, member, args, span),
            name => match self.eval_size_method(base.ty, member, args, span) {
                Some(size) => size,
                None => {
                    let type_text = self.type_text(base.ty);
                    let mut diagnostic = Diagnostic::error(
                        "unknown-member",
                        member.span,
                        format!("`{type_text}` has no method `{name}`"),
                    );
                    if matches!(name, "setValid" | "setInvalid") && is_union {
                        diagnostic = diagnostic.help("set the validity of one of the union's headers");
                    } else if matches!(name, "isValid" | "setValid" | "setInvalid") {
                        diagnostic = diagnostic.help("only headers are valid or invalid");
                    }
                    self.error(diagnostic);
                    unknown_expr(span)
                }
            },
        }
    }

    fn build_builtin_call(&mut self, callee: Callee, ty: Ty, span: Span) -> Expr {
        let call = Call { callee, type_args: Vec::new(), args: Vec::new(), order: EvalOrder::default(), span };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    fn check_no_args(&mut self, member: &Ident, args: &[Arg]) {
        if let Some(arg) = args.first() {
            self.fail("arguments", arg.span, format!("`{member}` takes no arguments"));
        }
    }

    /// Checks `s.push_front(n)` or `s.pop_front(n)`; `n` is known at compile time.
    fn check_stack_shift(&mut self, base: Expr, member: &Ident, args: &[Arg], span: Span) -> Expr {
        if self.in_parser() {
            self.fail("stack-member", span, format!("`{member}` cannot be used in a parser"));
            return unknown_expr(span);
        }
        let [arg] = args else {
            self.fail("arguments", span, format!("`{member}` takes one argument, the number of elements"));
            return unknown_expr(span);
        };
        let Some(count) = self.eval_const_int(&arg.value, "the number of elements") else { return unknown_expr(span) };
        if count.is_negative() {
            self.fail("arguments", arg.span, format!("`{member}` takes a number that is not negative"));
            return unknown_expr(span);
        }
        if !self.require_lvalue(&base, &format!("`{member}` writes the stack")) {
            return unknown_expr(span);
        }
        let count = count.to_u32().unwrap_or(u32::MAX);
        let callee = if member.as_str() == "push_front" {
            Callee::PushFront(base, count)
        } else {
            Callee::PopFront(base, count)
        };
        self.build_builtin_call(callee, Types::VOID, span)
    }

    /// Evaluates `minSizeInBits` or a related method on a value of type `ty`; `None` for another
    /// name. In generic code the call remains, because the size depends on type arguments.
    pub(super) fn eval_size_method(&mut self, ty: Ty, member: &Ident, args: &[Arg], span: Span) -> Option<Expr> {
        let measure = match member.as_str() {
            "minSizeInBits" => SizeOf::MinBits,
            "maxSizeInBits" => SizeOf::MaxBits,
            "minSizeInBytes" => SizeOf::MinBytes,
            "maxSizeInBytes" => SizeOf::MaxBytes,
            _ => return None,
        };
        self.check_no_args(member, args);
        if self.has_param(ty) {
            return Some(self.build_builtin_call(Callee::SizeOf(measure, ty), Types::INT, span));
        }
        let Some((min, max)) = self.bit_range(ty) else {
            let type_text = self.type_text(ty);
            self.fail("size", span, format!("values of type `{type_text}` have no size in bits"));
            return Some(unknown_expr(span));
        };
        let size = match measure {
            SizeOf::MinBits => min,
            SizeOf::MaxBits => max,
            SizeOf::MinBytes => min.div_ceil(8),
            SizeOf::MaxBytes => max.div_ceil(8),
        };
        Some(Expr { kind: ExprKind::Int(BigInt::from(size)), ty: Types::INT, span })
    }

    /// Checks calls of `verify` and `static_assert` of core.p4.
    pub(super) fn check_core_function(&mut self, call: Expr) -> Expr {
        let ExprKind::Call(inner) = &call.kind else { return call };
        let Callee::ExternFunction(id) = inner.callee else { return call };
        match &*self.prog.extern_functions[id.index()].name {
            "verify" if !self.in_parser() => {
                let place = place_name(self.body.context);
                self.fail("verify-place", call.span, format!("`verify` can only be called in parsers, not in {place}"));
                unknown_expr(call.span)
            }
            "static_assert" => self.check_static_assert(inner, call.span),
            _ => call,
        }
    }

    fn check_static_assert(&mut self, call: &Call, span: Span) -> Expr {
        let ty = Types::BOOL;
        match call.args.first() {
            Some(CallArg::Expr(Expr { kind: ExprKind::Bool(true), .. })) => {}
            Some(CallArg::Expr(Expr { kind: ExprKind::Bool(false), .. })) => {
                let message = match call.args.get(1) {
                    Some(CallArg::Expr(Expr { kind: ExprKind::Str(text), .. })) => text.to_string(),
                    _ => "a static assertion does not hold".to_owned(),
                };
                self.fail("static-assert", span, message);
            }
            Some(CallArg::Expr(value)) if value.ty != Types::UNKNOWN => {
                let at = value.span;
                self.fail("not-constant", at, "the asserted condition must be known at compile time");
            }
            _ => {}
        }
        Expr { kind: ExprKind::Bool(true), ty, span }
    }

    /// Checks the type argument in calls of `extract`, `lookahead` and `emit` of core.p4, beyond
    /// what their declarations say. Returns the call unchanged.
    pub(super) fn check_core_method(&mut self, call: Expr) -> Expr {
        let ExprKind::Call(call_parts) = &call.kind else { return call };
        let Callee::Method(_, id, method_index) = call_parts.callee else { return call };
        let decl = &self.prog.externs[id.index()];
        let (object, method) = (decl.name.clone(), decl.methods[method_index].name.clone());
        let Some(&ty) = call_parts.type_args.first() else { return call };
        let arg_count = call_parts.args.len();
        let span = call_parts.args.first().map_or(call.span, |arg| match arg {
            CallArg::Expr(value) => value.span,
            _ => call.span,
        });
        if self.has_param(ty) || ty == Types::UNKNOWN {
            return call;
        }
        let type_text = self.type_text(ty);
        let problem = match (&*object, &*method) {
            ("packet_in", "extract") if self.struct_kind(ty) != Some(StructKind::Header) => {
                Some((format!("`extract` fills headers, and this is of type `{type_text}`"), None))
            }
            ("packet_in", "extract") if arg_count == 1 && self.has_varbit(ty) => Some((
                format!("header `{type_text}` has a `varbit` field, whose size is not given"),
                Some("give the size in bits of the field as second argument"),
            )),
            ("packet_in", "extract") if arg_count == 2 && !self.has_varbit(ty) => Some((
                format!("header `{type_text}` has no `varbit` field to give a size to"),
                Some("use `extract` with one argument"),
            )),
            ("packet_in", "lookahead") if self.has_varbit(ty) || self.bit_range(ty).is_none() => {
                Some((format!("`lookahead` needs a type of fixed width, and `{type_text}` has none"), None))
            }
            ("packet_out", "emit") if !self.is_emittable(ty) => {
                Some((format!("`emit` takes headers, unions, stacks and structs of them, not `{type_text}`"), None))
            }
            _ => None,
        };
        if let Some((message, help)) = problem {
            let diagnostic = Diagnostic::error("packet-method", span, message);
            self.error(match help {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
        }
        call
    }

    /// Returns whether a value consists of headers.
    fn is_emittable(&mut self, ty: Ty) -> bool {
        match self.type_kind(ty).clone() {
            TyKind::Struct(id, args) => match self.prog.structs[id.index()].kind {
                StructKind::Header | StructKind::HeaderUnion => true,
                StructKind::Struct => self.field_types(id, &args).into_iter().all(|f| self.is_emittable(f)),
            },
            TyKind::Stack(element, _) => self.is_emittable(element),
            TyKind::Tuple(types) => types.into_iter().all(|t| self.is_emittable(t)),
            TyKind::Unknown | TyKind::Param(_) => true,
            _ => false,
        }
    }
}
