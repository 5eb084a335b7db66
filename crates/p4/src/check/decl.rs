//! Checks top-level declarations, and constants and variables anywhere.

use super::Checker;
use super::scope::ScopeEntity;
use crate::ast::{self, Decl, Ident};
use crate::diag::Diagnostic;
use crate::hir::{
    Enum, EnumId, Expr, ExprKind, Local, LocalDecl, LocalId, LocalKind, NewType, NewTypeId, Ty, TyKind, Types,
};
use num_bigint::BigInt;
use std::sync::Arc;

impl Checker<'_> {
    /// Checks a top-level declaration, declares its name and adds it to the program.
    pub(super) fn check_decl(&mut self, decl: &Decl) {
        if let (Some(name), false) = (decl.name(), matches!(decl, Decl::Instance(_) | Decl::Function(_)))
            && name.as_str() == "main"
        {
            self.fail("main", name.span, "`main` must be an instance of a package");
        }
        match decl {
            Decl::Const(d) => self.const_decl(d),
            Decl::Instance(d) => {
                if let Some(id) = self.instance_decl(d) {
                    self.prog.globals.push(id);
                }
            }
            Decl::Action(d) => {
                self.action_decl(d);
            }
            Decl::Function(d) => self.function_decl(d),
            Decl::Extern(d) => self.extern_decl(d),
            Decl::ExternFunction(d) => self.extern_function_decl(d),
            Decl::Parser(d) => self.parser_decl(d),
            Decl::Control(d) => self.control_decl(d),
            Decl::Package(d) => self.package_decl(d),
            Decl::Struct(d) => {
                self.struct_decl(d);
            }
            Decl::Enum(d) => {
                self.enum_decl(d);
            }
            // The names are taken out of the program while they grow, because `add_members` reports
            // duplicates through the checker.
            Decl::Error(d) => {
                let mut names = std::mem::take(&mut self.prog.errors);
                self.add_members(&mut names, &d.members, "error");
                self.prog.errors = names;
            }
            Decl::MatchKind(d) => {
                let mut names = std::mem::take(&mut self.prog.match_kinds);
                self.add_members(&mut names, &d.members, "match kind");
                self.prog.match_kinds = names;
            }
            Decl::Typedef(d) => self.typedef_decl(d),
        }
    }

    fn add_members(&mut self, names: &mut Vec<Arc<str>>, new: &[Ident], what: &str) {
        self.check_distinct_names(new.iter());
        let before = names.len();
        for member in new {
            if names[..before].contains(&member.name) {
                let message = format!("the {what} `{member}` is declared already");
                self.error(
                    Diagnostic::error("duplicate", member.span, message)
                        .help("all declarations share one set of names: use the existing member"),
                );
            } else {
                names.push(member.name.clone());
            }
        }
    }

    /// Checks `const T x = e;` and declares the constant by its value, which must be known at
    /// compile time. After an error it is declared as unknown, so that its uses cause no further
    /// errors.
    pub(super) fn const_decl(&mut self, decl: &ast::ConstDecl) {
        self.check_annotations(&decl.annotations);
        let ty = self.resolve_type(&decl.ty);
        if matches!(self.type_kind(ty), TyKind::Extern(..) | TyKind::Object(..) | TyKind::Void) {
            let type_text = self.type_text(ty);
            self.fail("const-type", decl.name.span, format!("a constant cannot be of type `{type_text}`"));
            self.declare(&decl.name, ScopeEntity::Unknown);
            return;
        }
        let value = self.check_expr(&decl.value, Some(ty));
        let value = self.coerce_for(value, ty, decl.ty.span, "the type of the constant");
        let is_known = value.ty == Types::UNKNOWN || self.is_known(&value);
        if !is_known {
            self.error(
                Diagnostic::error(
                    "not-constant",
                    decl.value.span,
                    "the value of a constant must be known at compile time",
                )
                .label(decl.name.span, "the constant"),
            );
        }
        let entity = match is_known && ty != Types::UNKNOWN {
            true if value.ty == Types::UNKNOWN => ScopeEntity::Unknown,
            true => {
                let ty = self.resolve(ty);
                match self.check_constant_size(&value) {
                    true => ScopeEntity::Const(Box::new(Expr { ty, ..value })),
                    false => ScopeEntity::Unknown,
                }
            }
            false => ScopeEntity::Unknown,
        };
        if decl.name.as_str() != "_" {
            self.declare(&decl.name, entity);
        }
    }

    /// Checks `T x = e;` in a parser, control or block and declares the variable. Returns the
    /// variable and its initial value, if one is written.
    pub(super) fn var_decl(&mut self, decl: &ast::VarDecl) -> (LocalId, Option<Expr>) {
        self.check_annotations(&decl.annotations);
        let mut ty = self.resolve_type(&decl.ty);
        if !self.variable_fits(ty) {
            let type_text = self.type_text(ty);
            let message = format!("a variable cannot be of type `{type_text}`");
            let mut diagnostic = Diagnostic::error("variable-type", decl.span, message);
            if matches!(self.type_kind(ty), TyKind::Extern(..) | TyKind::Object(..)) {
                diagnostic = diagnostic.help(format!("to make an instance, write `{type_text}() {};`", decl.name));
            } else if ty == Types::INT {
                diagnostic = diagnostic.help("`int` is for constants: give the variable a width, as in `int<32>`");
            }
            self.error(diagnostic);
            ty = Types::UNKNOWN;
        }
        let init = decl.init.as_ref().map(|init| {
            let value = self.check_expr(init, Some(ty));
            self.coerce_for(value, ty, decl.ty.span, "the type of the variable")
        });
        let id = self.new_local(&decl.name, ty, LocalKind::Var, &decl.annotations);
        (id, init)
    }

    /// Returns whether variables of that type are allowed.
    pub(super) fn variable_fits(&self, ty: Ty) -> bool {
        !matches!(
            self.type_kind(ty),
            TyKind::Void
                | TyKind::Str
                | TyKind::InfInt
                | TyKind::MatchKind
                | TyKind::Extern(..)
                | TyKind::Object(..)
                | TyKind::Set(_)
                | TyKind::List(_)
        )
    }

    /// Declares a variable or parameter.
    pub(super) fn new_local(
        &mut self,
        name: &Ident,
        ty: Ty,
        kind: LocalKind,
        annotations: &ast::Annotations,
    ) -> LocalId {
        let ty = self.resolve(ty);
        let local = Local { name: name.name.clone(), ty, kind, annotations: annotations.clone(), span: name.span };
        let id = self.add_local(local);
        self.declare(name, ScopeEntity::Local(id));
        id
    }

    /// Checks a constant, variable or instance among the declarations of a parser or control.
    pub(super) fn local_value(&mut self, local: &ast::Local) -> Option<LocalDecl> {
        match local {
            ast::Local::Const(d) => {
                self.const_decl(d);
                None
            }
            ast::Local::Var(d) => {
                let (id, init) = self.var_decl(d);
                Some(LocalDecl::Var(id, init))
            }
            ast::Local::Instance(d) => self.instance_decl(d).map(LocalDecl::Instance),
            _ => None,
        }
    }

    /// Checks `typedef T X`, which gives the type another name, or `type T X`, which makes a new
    /// type. After an error, the name is declared as unknown, so that its uses cause no further
    /// errors.
    fn typedef_decl(&mut self, decl: &ast::TypedefDecl) {
        let annotations = self.check_annotations(&decl.annotations);
        let target = match &decl.ty {
            ast::TypedefTarget::Type(ty) => self.resolve_type(ty),
            ast::TypedefTarget::Struct(d) => self.struct_decl(d),
            ast::TypedefTarget::Enum(d) => self.enum_decl(d),
        };
        if !decl.is_new {
            let entity = if target == Types::UNKNOWN { ScopeEntity::Unknown } else { ScopeEntity::Type(target) };
            self.declare(&decl.name, entity);
            return;
        }
        if target == Types::UNKNOWN {
            self.declare(&decl.name, ScopeEntity::Unknown);
            return;
        }
        if !matches!(self.type_kind(target), TyKind::Bool | TyKind::Bit(_) | TyKind::Int(_) | TyKind::NewType(_)) {
            let type_text = self.type_text(target);
            let message = format!("`type` cannot make a new type of `{type_text}`");
            self.error(
                Diagnostic::error("new-type", decl.span, message).help(
                    "`type` applies to `bit`, `int` with a width and `bool`; `typedef` gives any type another name",
                ),
            );
            self.declare(&decl.name, ScopeEntity::Unknown);
            return;
        }
        self.prog.newtypes.push(NewType { name: decl.name.name.clone(), annotations, of: target, span: decl.span });
        let ty = self.intern(TyKind::NewType(NewTypeId(self.prog.newtypes.len() as u32 - 1)));
        let entity = if self.check_type_size(ty, decl.span) { ScopeEntity::Type(ty) } else { ScopeEntity::Unknown };
        self.declare(&decl.name, entity);
    }

    /// Checks an `enum` with or without underlying type, declares it and returns its type.
    pub(super) fn enum_decl(&mut self, decl: &ast::EnumDecl) -> Ty {
        self.check_annotations(&decl.annotations);
        self.check_distinct_names(decl.members.iter().map(|m| &m.name));
        let underlying = decl.underlying.as_ref().map(|ty| self.check_underlying_type(ty, decl));
        let mut members = Vec::new();
        for member in &decl.members {
            let value = self.eval_enum_value(member, underlying);
            members.push((member.name.name.clone(), value));
        }
        self.prog.enums.push(Enum {
            name: decl.name.name.clone(),
            annotations: decl.annotations.clone(),
            underlying: underlying.filter(|ty| *ty != Types::UNKNOWN),
            members,
            span: decl.span,
        });
        let ty = self.intern(TyKind::Enum(EnumId(self.prog.enums.len() as u32 - 1)));
        self.declare(&decl.name, ScopeEntity::Type(ty));
        ty
    }

    fn check_underlying_type(&mut self, written: &ast::Type, decl: &ast::EnumDecl) -> Ty {
        let ty = self.resolve_type(written);
        if matches!(self.type_kind(ty), TyKind::Bit(_) | TyKind::Int(_) | TyKind::Unknown) {
            return ty;
        }
        let shown = self.type_text(ty);
        self.error(
            Diagnostic::error("enum-type", written.span, format!("an enum cannot have the underlying type `{shown}`"))
                .label(decl.name.span, "of this enum")
                .help("use `bit<W>` or `int<W>`"),
        );
        Types::UNKNOWN
    }

    /// Returns the value of an enum member, which it has exactly if the enum has an underlying
    /// type. `None` after an error or without underlying type. A value that is too large is
    /// reported and truncated.
    fn eval_enum_value(&mut self, member: &ast::EnumMember, underlying: Option<Ty>) -> Option<BigInt> {
        let Some(ty) = underlying else {
            if let Some(value) = &member.value {
                self.error(
                    Diagnostic::error("enum-value", value.span, "a member has a value only in an enum with a type")
                        .help("give the enum an underlying type, as in `enum bit<8> E { ... }`"),
                );
            }
            return None;
        };
        let Some(written) = &member.value else {
            let message = format!("member `{}` needs a value, as the enum has an underlying type", member.name);
            self.fail("enum-value", member.name.span, message);
            return None;
        };
        let value = self.check_expr(written, Some(ty));
        if ty == Types::UNKNOWN {
            return None;
        }
        if let (ExprKind::Int(v), Types::INT) = (&value.kind, value.ty)
            && self.truncate_to_type(v, ty) != *v
        {
            let message = format!("value {v} does not fit in `{}`", self.type_text(ty));
            self.fail("enum-value", member.name.span.to(written.span), message);
            return Some(self.truncate_to_type(v, ty));
        }
        let value = self.coerce(value, ty);
        match value.kind {
            ExprKind::Int(value) => Some(value),
            _ => {
                if value.ty != Types::UNKNOWN {
                    self.fail("not-constant", written.span, "the value of a member must be a constant");
                }
                None
            }
        }
    }
}
