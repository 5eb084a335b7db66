//! Checks calls through a dot: methods of externs, headers and stacks, and `apply`.

use super::call::method_signature;
use super::member::MemberBase;
use super::overload::{CallableKind, CallableSignature};
use super::scope::ScopeEntity;
use super::unify::ObjectFamily;
use super::{CheckContext, Checker, unknown_expr};
use crate::ast::{self, Arg, Ident};
use crate::diag::Diagnostic;
use crate::hir::{
    Call, Callee, EvalOrder, Expr, ExprKind, ExternId, ObjectKind, ObjectRef, TableId, Ty, TyKind, TypeDeclId, Types,
};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `base.member<type_args>(args)`: a method or `apply`. `hint` is the type that the
    /// context expects, if any. Returns an expression of unknown type after an error.
    pub(super) fn check_member_call(
        &mut self,
        base: &ast::Expr,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match &base.kind {
            ast::ExprKind::This => return self.check_this_call(member, type_args, args, hint, span),
            ast::ExprKind::Name(path) => {
                if let Some(ScopeEntity::Table(table)) = self.scopes.lookup(path) {
                    let table = *table;
                    return self.check_table_call(table, member, args, span);
                }
            }
            ast::ExprKind::Construct { ty, args: constructor_args } => {
                let Some(construct) = self.check_construct(ty, constructor_args, base.span) else {
                    return unknown_expr(span);
                };
                let ty = self.constructed_type(&construct);
                return match self.type_kind(ty).clone() {
                    TyKind::Object(id, targs) if member.as_str() == "apply" => {
                        self.apply_object(ObjectRef::Construct(Box::new(construct)), id, &targs, args, span)
                    }
                    TyKind::Extern(..) => {
                        let value = Expr { kind: ExprKind::Construct(Box::new(construct)), ty, span: base.span };
                        self.check_method_call(value, member, type_args, args, hint, span)
                    }
                    _ => {
                        self.fail("not-callable", span, format!("`{member}` cannot be called on a nameless instance"));
                        unknown_expr(span)
                    }
                };
            }
            _ => {}
        }
        match self.check_member_base(base) {
            MemberBase::Type(ty) => self.check_type_call(ty, member, args, base.span, span),
            MemberBase::Value(value) => self.check_method_call(value, member, type_args, args, hint, span),
        }
    }

    /// Checks `T.apply(args)` or `T.minSizeInBits()`.
    fn check_type_call(&mut self, ty: Ty, member: &Ident, args: &[Arg], base: Span, span: Span) -> Expr {
        match self.type_kind(ty).clone() {
            TyKind::Unknown => unknown_expr(span),
            TyKind::Object(id, targs) if member.as_str() == "apply" => match self.check_construct_type(ty, &[], base) {
                Some(construct) => self.apply_object(ObjectRef::Construct(Box::new(construct)), id, &targs, args, span),
                None => unknown_expr(span),
            },
            _ => match self.eval_size_method(ty, member, args, span) {
                Some(size) => size,
                None => {
                    let shown = self.type_text(ty);
                    self.fail("unknown-member", span, format!("the type `{shown}` has no method `{member}`"));
                    unknown_expr(span)
                }
            },
        }
    }

    /// Checks `table.apply()`, the only call through a table. Its value tells `hit`, `miss` and the
    /// action that ran.
    fn check_table_call(&mut self, table: TableId, member: &Ident, args: &[Arg], span: Span) -> Expr {
        if member.as_str() != "apply" {
            let methods = ["apply"];
            self.report_unknown_member("a table", member, methods.into_iter());
            return unknown_expr(span);
        }
        if let Some(arg) = args.first() {
            self.fail("arguments", arg.span, "`apply` of a table takes no arguments");
        }
        if self.body.context != CheckContext::ControlApply {
            let context_name = place_name(self.body.context);
            self.error(
                Diagnostic::error("apply-place", span, format!("a table cannot be applied in {context_name}"))
                    .help("apply tables in the `apply` block of the control"),
            );
            return unknown_expr(span);
        }
        let ty = self.intern(TyKind::ApplyResult(table));
        let callee = Callee::ApplyTable(table);
        let call = Call { callee, type_args: Vec::new(), args: Vec::new(), order: EvalOrder::default(), span };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    /// Checks `this.f(args)`.
    fn check_this_call(
        &mut self,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let Some((id, targs)) = self.body.this.clone() else {
            self.fail("misplaced", span, "`this` can only be used in the implementation of an abstract method");
            return unknown_expr(span);
        };
        let (sigs, which) = self.methods_named(id, &targs, member);
        let callees: Vec<Callee> = which.into_iter().map(Callee::This).collect();
        self.call_one_of(id, member, &sigs, &callees, type_args, args, hint, span)
    }

    /// Returns the methods of that name with their indices.
    fn methods_named(&self, id: ExternId, targs: &[Ty], member: &Ident) -> (Vec<CallableSignature>, Vec<usize>) {
        let decl = &self.prog.externs[id.index()];
        let outer: Vec<_> = decl.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let named = decl.methods.iter().enumerate().filter(|(_, m)| *m.name == *member.name);
        named.map(|(at, m)| (CallableSignature { outer: outer.clone(), ..method_signature(m, "method") }, at)).unzip()
    }

    /// Checks a call of one of the methods `sigs` of extern `id` that are named `member`; the
    /// callees have the same order. Reports an unknown method if there are none.
    #[allow(clippy::too_many_arguments)]
    fn call_one_of(
        &mut self,
        id: ExternId,
        member: &Ident,
        sigs: &[CallableSignature],
        callees: &[Callee],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        if sigs.is_empty() {
            let decl = &self.prog.externs[id.index()];
            let owner_text = format!("extern `{}`", decl.name);
            let names: Vec<_> = decl.methods.iter().map(|m| m.name.clone()).collect();
            self.report_unknown_member(&owner_text, member, names.iter().map(|n| &**n));
            return unknown_expr(span);
        }
        self.finish_call(sigs, callees, type_args, args, hint, span)
    }

    /// Checks `base.member(args)` for a value or object `base`: a method of an extern, `apply` of a
    /// parser or control, or a built-in method.
    fn check_method_call(
        &mut self,
        base: Expr,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match self.type_kind(base.ty).clone() {
            TyKind::Unknown => unknown_expr(span),
            TyKind::Extern(id, targs) => {
                let Some(object) = self.object_ref(&base) else { return unknown_expr(span) };
                let (sigs, method_indices) = self.methods_named(id, &targs, member);
                let callees: Vec<Callee> = method_indices
                    .into_iter()
                    .map(|method_index| Callee::Method(object.clone(), id, method_index))
                    .collect();
                let call = self.call_one_of(id, member, &sigs, &callees, type_args, args, hint, span);
                self.check_core_method(call)
            }
            TyKind::Object(id, targs) if member.as_str() == "apply" => {
                let Some(object) = self.object_ref(&base) else { return unknown_expr(span) };
                self.apply_object(object, id, &targs, args, span)
            }
            _ => self.check_builtin_method(base, member, args, span),
        }
    }

    /// Returns the object that a value refers to.
    fn object_ref(&mut self, value: &Expr) -> Option<ObjectRef> {
        match &value.kind {
            ExprKind::Instance(id) => Some(ObjectRef::Instance(*id)),
            ExprKind::Local(id) => Some(ObjectRef::Local(*id)),
            ExprKind::Construct(construct) => Some(ObjectRef::Construct(construct.clone())),
            _ => {
                self.fail("not-callable", value.span, "methods are called on instances and parameters only");
                None
            }
        }
    }

    /// Checks `object.apply(args)`, where `object` is a parser or control with the declaration `id`
    /// and the given type arguments.
    pub(super) fn apply_object(
        &mut self,
        object: ObjectRef,
        id: TypeDeclId,
        type_args: &[Ty],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let decl = &self.prog.objects[id.index()];
        let family_name = match decl.kind {
            ObjectKind::Parser(_) | ObjectKind::ParserType => "parser",
            _ => "control",
        };
        let sig = CallableSignature {
            name: decl.name.clone(),
            what: family_name,
            type_params: Vec::new(),
            outer: decl.type_params.iter().copied().zip(type_args.iter().copied()).collect(),
            params: decl.params.clone(),
            result: Types::VOID,
            span: decl.span,
            kind: CallableKind::Plain,
        };
        if !self.check_apply_place(id, span) {
            return unknown_expr(span);
        }
        self.finish_call(&[sig], &[Callee::Apply(object)], &[], args, None, span)
    }

    /// Checks that an object of the declaration `id` can be applied in the current code: a parser
    /// in a parser state, a control in an `apply` block. Returns false after an error.
    fn check_apply_place(&mut self, id: TypeDeclId, span: Span) -> bool {
        let (family_name, is_allowed, help) = match self.object_family(id) {
            ObjectFamily::Package => ("a package", false, "packages are instantiated, not applied"),
            ObjectFamily::Parser => {
                ("a parser", self.body.context == CheckContext::ParserState, "parsers are applied in parser states")
            }
            ObjectFamily::Control => (
                "a control",
                self.body.context == CheckContext::ControlApply,
                "controls are applied in the `apply` block of controls",
            ),
        };
        if !is_allowed {
            let context_name = place_name(self.body.context);
            self.error(
                Diagnostic::error("apply-place", span, format!("{family_name} cannot be applied in {context_name}"))
                    .help(help),
            );
        }
        is_allowed
    }
}

/// Describes the context of the code for messages.
pub(super) fn place_name(context: CheckContext) -> &'static str {
    match context {
        CheckContext::Top => "the top level",
        CheckContext::ParserLocals => "a parser's declarations",
        CheckContext::ParserState => "a parser",
        CheckContext::ControlLocals => "a control's declarations",
        CheckContext::ControlApply => "a control's `apply` block",
        CheckContext::Action => "an action",
        CheckContext::Function => "a function",
        CheckContext::Method => "a method",
        CheckContext::Table => "a table",
    }
}
