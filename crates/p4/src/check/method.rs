//! Calls through a dot: methods of externs, headers and stacks, and `apply`.

use super::call::method_signature;
use super::member::Base;
use super::overload::{SigKind, Signature};
use super::scope::Entity;
use super::unify::Family;
use super::{Checker, Place, unknown};
use crate::ast::{self, Arg, Ident};
use crate::diag::Diagnostic;
use crate::hir::{
    Call, Callee, Expr, ExprKind, ExternId, ObjectKind, ObjectRef, Order, TableId, Ty, TyKind, TypeDeclId, Types,
};
use crate::span::Span;

impl Checker<'_> {
    /// `base.member<type_args>(args)`
    pub(super) fn call_member(
        &mut self,
        base: &ast::Expr,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match &base.kind {
            ast::ExprKind::This => return self.call_this(member, type_args, args, hint, span),
            ast::ExprKind::Name(path) => {
                if let Some(Entity::Table(table)) = self.scopes.lookup(path) {
                    let table = *table;
                    return self.call_table(table, member, args, span);
                }
            }
            ast::ExprKind::Construct { ty, args: constructor_args } => {
                let Some(construct) = self.construct(ty, constructor_args, base.span) else { return unknown(span) };
                let ty = self.constructed_type(&construct);
                return match self.kind(ty).clone() {
                    TyKind::Object(id, targs) if member.as_str() == "apply" => {
                        self.apply_object(ObjectRef::Construct(Box::new(construct)), id, &targs, args, span)
                    }
                    TyKind::Extern(..) => {
                        let value = Expr { kind: ExprKind::Construct(Box::new(construct)), ty, span: base.span };
                        self.call_method(value, member, type_args, args, hint, span)
                    }
                    _ => {
                        self.fail("not-callable", span, format!("`{member}` cannot be called on a nameless instance"));
                        unknown(span)
                    }
                };
            }
            _ => {}
        }
        match self.base(base) {
            Base::Type(ty) => self.call_static(ty, member, args, base.span, span),
            Base::Value(value) => self.call_method(value, member, type_args, args, hint, span),
        }
    }

    /// `T.apply(args)`, `T.minSizeInBits()`
    fn call_static(&mut self, ty: Ty, member: &Ident, args: &[Arg], base: Span, span: Span) -> Expr {
        match self.kind(ty).clone() {
            TyKind::Unknown => unknown(span),
            TyKind::Object(id, targs) if member.as_str() == "apply" => match self.construct_of(ty, &[], base) {
                Some(construct) => self.apply_object(ObjectRef::Construct(Box::new(construct)), id, &targs, args, span),
                None => unknown(span),
            },
            _ => match self.size_method(ty, member, args, span) {
                Some(size) => size,
                None => {
                    let shown = self.show(ty);
                    self.fail("unknown-member", span, format!("the type `{shown}` has no method `{member}`"));
                    unknown(span)
                }
            },
        }
    }

    fn call_table(&mut self, table: TableId, member: &Ident, args: &[Arg], span: Span) -> Expr {
        if member.as_str() != "apply" {
            let known = ["apply"];
            self.unknown_member("a table", member, known.into_iter());
            return unknown(span);
        }
        if let Some(arg) = args.first() {
            self.fail("arguments", arg.span, "`apply` of a table takes no arguments");
        }
        if self.body.place != Place::ControlApply {
            let place = place_name(self.body.place);
            self.error(
                Diagnostic::error("apply-place", span, format!("a table cannot be applied in {place}"))
                    .help("apply tables in the `apply` block of the control"),
            );
            return unknown(span);
        }
        let ty = self.intern(TyKind::ApplyResult(table));
        let callee = Callee::ApplyTable(table);
        let call = Call { callee, type_args: Vec::new(), args: Vec::new(), order: Order::default(), span };
        Expr { kind: ExprKind::Call(Box::new(call)), ty, span }
    }

    /// `this.f(args)`
    fn call_this(
        &mut self,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let Some((id, targs)) = self.body.this.clone() else {
            self.fail("misplaced", span, "`this` can only be used in the implementation of an abstract method");
            return unknown(span);
        };
        let (sigs, which) = self.methods(id, &targs, member);
        let callees: Vec<Callee> = which.into_iter().map(Callee::This).collect();
        self.call_one_of(id, member, &sigs, &callees, type_args, args, hint, span)
    }

    /// The methods of that name, and their indices.
    fn methods(&self, id: ExternId, targs: &[Ty], member: &Ident) -> (Vec<Signature>, Vec<usize>) {
        let decl = &self.prog.externs[id.index()];
        let outer: Vec<_> = decl.type_params.iter().copied().zip(targs.iter().copied()).collect();
        let named = decl.methods.iter().enumerate().filter(|(_, m)| *m.name == *member.name);
        named.map(|(at, m)| (Signature { outer: outer.clone(), ..method_signature(m, "method") }, at)).unzip()
    }

    #[allow(clippy::too_many_arguments)]
    fn call_one_of(
        &mut self,
        id: ExternId,
        member: &Ident,
        sigs: &[Signature],
        callees: &[Callee],
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        if sigs.is_empty() {
            let decl = &self.prog.externs[id.index()];
            let what = format!("extern `{}`", decl.name);
            let names: Vec<_> = decl.methods.iter().map(|m| m.name.clone()).collect();
            self.unknown_member(&what, member, names.iter().map(|n| &**n));
            return unknown(span);
        }
        self.finish_call(sigs, callees, type_args, args, hint, span)
    }

    fn call_method(
        &mut self,
        base: Expr,
        member: &Ident,
        type_args: &[ast::Type],
        args: &[Arg],
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        match self.kind(base.ty).clone() {
            TyKind::Unknown => unknown(span),
            TyKind::Extern(id, targs) => {
                let Some(object) = self.object_ref(&base) else { return unknown(span) };
                let (sigs, which) = self.methods(id, &targs, member);
                let callees: Vec<Callee> = which.into_iter().map(|at| Callee::Method(object.clone(), id, at)).collect();
                let call = self.call_one_of(id, member, &sigs, &callees, type_args, args, hint, span);
                self.core_method(call)
            }
            TyKind::Object(id, targs) if member.as_str() == "apply" => {
                let Some(object) = self.object_ref(&base) else { return unknown(span) };
                self.apply_object(object, id, &targs, args, span)
            }
            _ => self.language_method(base, member, args, span),
        }
    }

    /// The object that a value names.
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

    /// `object.apply(args)`
    pub(super) fn apply_object(
        &mut self,
        object: ObjectRef,
        id: TypeDeclId,
        type_args: &[Ty],
        args: &[Arg],
        span: Span,
    ) -> Expr {
        let decl = &self.prog.objects[id.index()];
        let what = match decl.kind {
            ObjectKind::Parser(_) | ObjectKind::ParserType => "parser",
            _ => "control",
        };
        let sig = Signature {
            name: decl.name.clone(),
            what,
            type_params: Vec::new(),
            outer: decl.type_params.iter().copied().zip(type_args.iter().copied()).collect(),
            params: decl.params.clone(),
            result: Types::VOID,
            span: decl.span,
            kind: SigKind::Plain,
        };
        if !self.appliable(id, span) {
            return unknown(span);
        }
        self.finish_call(&[sig], &[Callee::Apply(object)], &[], args, None, span)
    }

    fn appliable(&mut self, id: TypeDeclId, span: Span) -> bool {
        let (what, fits, help) = match self.family(id) {
            Family::Package => ("a package", false, "packages are instantiated, not applied"),
            Family::Parser => {
                ("a parser", self.body.place == Place::ParserState, "parsers are applied in parser states")
            }
            Family::Control => (
                "a control",
                self.body.place == Place::ControlApply,
                "controls are applied in the `apply` block of controls",
            ),
        };
        if !fits {
            let place = place_name(self.body.place);
            self.error(
                Diagnostic::error("apply-place", span, format!("{what} cannot be applied in {place}")).help(help),
            );
        }
        fits
    }
}

/// Where code stands, for messages.
pub(super) fn place_name(place: Place) -> &'static str {
    match place {
        Place::Top => "the top level",
        Place::ParserLocals => "a parser's declarations",
        Place::ParserState => "a parser",
        Place::ControlLocals => "a control's declarations",
        Place::ControlApply => "a control's `apply` block",
        Place::Action => "an action",
        Place::Function => "a function",
        Place::Method => "a method",
        Place::Table => "a table",
    }
}
