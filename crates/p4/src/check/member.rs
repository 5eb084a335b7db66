//! `base.member`: fields, members of enums, and what stacks and table results offer.

use super::scope::Entity;
use super::{Checker, Place, unknown};
use crate::ast::{self, Ident};
use crate::diag::Diagnostic;
use crate::hir::{Callee, Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;

/// What stands left of a dot.
pub(super) enum Base {
    /// A type.
    Type(Ty),
    /// A value.
    Value(Expr),
}

impl Checker<'_> {
    /// The left side of a dot: a type or a value.
    pub(super) fn base(&mut self, base: &ast::Expr) -> Base {
        match &base.kind {
            ast::ExprKind::Type(ty) => Base::Type(self.ty(ty)),
            ast::ExprKind::Name(path)
                if matches!(
                    self.scopes.lookup(path),
                    Some(Entity::Type(_) | Entity::Struct(_) | Entity::Extern(_) | Entity::Object(_))
                ) =>
            {
                let kind = ast::TypeKind::Name(path.clone());
                Base::Type(self.ty(&ast::Type { kind, span: base.span }))
            }
            _ => Base::Value(self.expr(base, None)),
        }
    }

    /// `base.member` as a value.
    pub(super) fn member(&mut self, base: &ast::Expr, member: &Ident, span: Span) -> Expr {
        match self.base(base) {
            Base::Type(ty) => self.type_member(ty, member, span),
            Base::Value(value) => self.value_member(value, member, span),
        }
    }

    /// `E.member`, `error.member`, `match_kind.member`
    fn type_member(&mut self, ty: Ty, member: &Ident, span: Span) -> Expr {
        match self.kind(ty) {
            TyKind::Unknown => unknown(span),
            TyKind::Error => {
                let names = self.prog.errors.clone();
                match names.iter().position(|n| **n == *member.name) {
                    Some(at) => Expr { kind: ExprKind::Error(at), ty, span },
                    None => self.no_member("`error`", member, names.iter().map(|n| &**n), span),
                }
            }
            TyKind::MatchKind => {
                let names = self.prog.match_kinds.clone();
                match names.iter().position(|n| **n == *member.name) {
                    Some(at) => Expr { kind: ExprKind::MatchKind(at), ty, span },
                    None => self.no_member("`match_kind`", member, names.iter().map(|n| &**n), span),
                }
            }
            TyKind::Enum(id) => {
                let id = *id;
                let decl = self.prog.enums[id.index()].clone();
                match decl.members.iter().position(|(n, _)| **n == *member.name) {
                    Some(at) => {
                        let kind = match &decl.members[at].1 {
                            Some(value) => ExprKind::Int(value.clone()),
                            None => ExprKind::EnumMember(id, at),
                        };
                        Expr { kind, ty, span }
                    }
                    None => {
                        let what = format!("enum `{}`", decl.name);
                        self.no_member(&what, member, decl.members.iter().map(|(n, _)| &**n), span)
                    }
                }
            }
            _ => {
                let shown = self.show(ty);
                self.fail("unknown-member", span, format!("the type `{shown}` has no member `{member}`"));
                unknown(span)
            }
        }
    }

    fn no_member<'k>(&mut self, what: &str, member: &Ident, known: impl Iterator<Item = &'k str>, span: Span) -> Expr {
        self.unknown_member(what, member, known);
        unknown(span)
    }

    fn value_member(&mut self, base: Expr, member: &Ident, span: Span) -> Expr {
        match self.kind(base.ty).clone() {
            TyKind::Unknown => unknown(span),
            TyKind::Struct(id, args) => {
                let decl = &self.prog.structs[id.index()];
                let at = decl.fields.iter().position(|f| *f.name == *member.name);
                let Some(at) = at else { return self.no_field(id, member, span) };
                let ty = self.fields_of(id, &args)[at];
                self.field_of(base, at, ty, span)
            }
            TyKind::Stack(element, size) => self.stack_member(base, element, size, member, span),
            TyKind::ApplyResult(table) => {
                let kind = match member.as_str() {
                    "hit" => ExprKind::ApplyHit(table),
                    "miss" => ExprKind::ApplyMiss(table),
                    "action_run" => {
                        self.error(
                            Diagnostic::error("action-run", span, "`action_run` can only be used in a `switch`")
                                .help("write `switch (t.apply().action_run) { ... }`"),
                        );
                        return unknown(span);
                    }
                    _ => {
                        let known = ["hit", "miss", "action_run"];
                        return self.no_member("the result of `apply`", member, known.into_iter(), span);
                    }
                };
                Expr { kind, ty: Types::BOOL, span }
            }
            _ => {
                let shown = self.show(base.ty);
                let help = match member.as_str() {
                    "apply" | "isValid" | "setValid" | "setInvalid" => "",
                    _ => "only structs, headers, unions and stacks have members",
                };
                let message = format!("`{shown}` has no `{member}`");
                let diagnostic = Diagnostic::error("unknown-member", span, message);
                self.error(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
                unknown(span)
            }
        }
    }

    fn no_field(&mut self, id: crate::hir::StructId, member: &Ident, span: Span) -> Expr {
        let decl = &self.prog.structs[id.index()];
        let what = format!("{} `{}`", decl.kind.as_str(), decl.name);
        let names: Vec<_> = decl.fields.iter().map(|f| f.name.clone()).collect();
        self.no_member(&what, member, names.iter().map(|n| &**n), span)
    }

    /// Field `at` of a value; of a list, its element.
    pub(super) fn field_of(&mut self, base: Expr, at: usize, ty: Ty, span: Span) -> Expr {
        match base.kind {
            // Elements that are not constants may have effects, which must not be lost.
            ExprKind::Aggregate(mut elements, _)
                if at < elements.len() && elements.iter().all(|e| self.is_known(e)) =>
            {
                Expr { span, ..elements.swap_remove(at) }
            }
            ExprKind::Default if self.struct_kind(base.ty) == Some(ast::StructKind::Struct) => {
                self.default_value(ty, span)
            }
            _ => Expr { kind: ExprKind::Field(Box::new(base), at), ty, span },
        }
    }

    fn stack_member(&mut self, base: Expr, element: Ty, size: u32, member: &Ident, span: Span) -> Expr {
        let name = member.as_str();
        let kind = match name {
            "size" => return Expr { kind: ExprKind::Int(size.into()), ty: Types::BIT32, span },
            "next" | "last" | "lastIndex" if self.struct_kind(element).is_none_or(|k| k == ast::StructKind::Struct) => {
                self.fail("stack-member", span, format!("`{name}` is defined on stacks of headers only"));
                return unknown(span);
            }
            "next" | "last" | "lastIndex" if !self.in_parser() && self.body.place != Place::Function => {
                self.error(
                    Diagnostic::error(
                        "stack-member",
                        span,
                        format!("`{name}` of a stack can only be used in a parser"),
                    )
                    .help("elsewhere, use an index, as in `stack[0]`"),
                );
                return unknown(span);
            }
            "next" => ExprKind::StackNext(Box::new(base)),
            "last" => ExprKind::StackLast(Box::new(base)),
            "lastIndex" => {
                return Expr { kind: ExprKind::StackLastIndex(Box::new(base)), ty: Types::BIT32, span };
            }
            _ => {
                let known = ["next", "last", "lastIndex", "size", "push_front", "pop_front"];
                return self.no_member("a header stack", member, known.into_iter(), span);
            }
        };
        Expr { kind, ty: element, span }
    }

    /// The table that `t.apply()` applies, if the expression is that.
    pub(super) fn applied_table(&self, expr: &Expr) -> Option<crate::hir::TableId> {
        match &expr.kind {
            ExprKind::Call(call) => match call.callee {
                Callee::ApplyTable(table) => Some(table),
                _ => None,
            },
            _ => None,
        }
    }
}
