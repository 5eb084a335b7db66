//! Checks `base.member`: fields, members of enums, and members of stacks and table results.

use super::scope::ScopeEntity;
use super::{CheckContext, Checker, unknown_expr};
use crate::ast::{self, Ident};
use crate::diag::Diagnostic;
use crate::hir::{Callee, Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;

/// Left side of a dot.
pub(super) enum MemberBase {
    /// A type.
    Type(Ty),
    /// A value.
    Value(Expr),
}

impl Checker<'_> {
    /// Checks the left side of a dot: a type or a value.
    pub(super) fn check_member_base(&mut self, base: &ast::Expr) -> MemberBase {
        match &base.kind {
            ast::ExprKind::Type(ty) => MemberBase::Type(self.resolve_type(ty)),
            ast::ExprKind::Name(path)
                if matches!(
                    self.scopes.lookup(path),
                    Some(
                        ScopeEntity::Type(_) | ScopeEntity::Struct(_) | ScopeEntity::Extern(_) | ScopeEntity::Object(_)
                    )
                ) =>
            {
                let kind = ast::TypeKind::Name(path.clone());
                MemberBase::Type(self.resolve_type(&ast::Type { kind, span: base.span }))
            }
            _ => MemberBase::Value(self.check_expr(base, None)),
        }
    }

    /// Checks `base.member` as a value.
    pub(super) fn check_member(&mut self, base: &ast::Expr, member: &Ident, span: Span) -> Expr {
        match self.check_member_base(base) {
            MemberBase::Type(ty) => self.check_type_member(ty, member, span),
            MemberBase::Value(value) => self.check_value_member(value, member, span),
        }
    }

    /// Checks `E.member`, `error.member` or `match_kind.member`. A member of an enum with an
    /// underlying type is its number.
    fn check_type_member(&mut self, ty: Ty, member: &Ident, span: Span) -> Expr {
        match self.type_kind(ty) {
            TyKind::Unknown => unknown_expr(span),
            TyKind::Error => {
                let names = self.prog.errors.clone();
                match names.iter().position(|n| **n == *member.name) {
                    Some(index) => Expr { kind: ExprKind::Error(index), ty, span },
                    None => self.fail_unknown_member("`error`", member, names.iter().map(|n| &**n), span),
                }
            }
            TyKind::MatchKind => {
                let names = self.prog.match_kinds.clone();
                match names.iter().position(|n| **n == *member.name) {
                    Some(index) => Expr { kind: ExprKind::MatchKind(index), ty, span },
                    None => self.fail_unknown_member("`match_kind`", member, names.iter().map(|n| &**n), span),
                }
            }
            TyKind::Enum(id) => {
                let id = *id;
                let decl = self.prog.enums[id.index()].clone();
                match decl.members.iter().position(|(n, _)| **n == *member.name) {
                    Some(index) => {
                        let kind = match &decl.members[index].1 {
                            Some(value) => ExprKind::Int(value.clone()),
                            None => ExprKind::EnumMember(id, index),
                        };
                        Expr { kind, ty, span }
                    }
                    None => {
                        let enum_name = format!("enum `{}`", decl.name);
                        self.fail_unknown_member(&enum_name, member, decl.members.iter().map(|(n, _)| &**n), span)
                    }
                }
            }
            _ => {
                let type_text = self.type_text(ty);
                self.fail("unknown-member", span, format!("the type `{type_text}` has no member `{member}`"));
                unknown_expr(span)
            }
        }
    }

    fn fail_unknown_member<'k>(
        &mut self,
        what: &str,
        member: &Ident,
        known: impl Iterator<Item = &'k str>,
        span: Span,
    ) -> Expr {
        self.report_unknown_member(what, member, known);
        unknown_expr(span)
    }

    /// Checks `base.member` for a value: a field, a member of a stack, or `hit` and `miss` of a
    /// table application.
    fn check_value_member(&mut self, base: Expr, member: &Ident, span: Span) -> Expr {
        match self.type_kind(base.ty).clone() {
            TyKind::Unknown => unknown_expr(span),
            TyKind::Struct(id, args) => {
                let decl = &self.prog.structs[id.index()];
                let field_index = decl.fields.iter().position(|f| *f.name == *member.name);
                let Some(field_index) = field_index else { return self.fail_unknown_field(id, member, span) };
                let ty = self.field_types(id, &args)[field_index];
                self.build_field_access(base, field_index, ty, span)
            }
            TyKind::Stack(element, size) => self.check_stack_member(base, element, size, member, span),
            TyKind::ApplyResult(table) => {
                let kind = match member.as_str() {
                    "hit" => ExprKind::ApplyHit(table),
                    "miss" => ExprKind::ApplyMiss(table),
                    "action_run" => {
                        self.error(
                            Diagnostic::error("action-run", span, "`action_run` can only be used in a `switch`")
                                .help("write `switch (t.apply().action_run) { ... }`"),
                        );
                        return unknown_expr(span);
                    }
                    _ => {
                        let members = ["hit", "miss", "action_run"];
                        return self.fail_unknown_member("the result of `apply`", member, members.into_iter(), span);
                    }
                };
                Expr { kind, ty: Types::BOOL, span }
            }
            _ => {
                let type_text = self.type_text(base.ty);
                let help = match member.as_str() {
                    "apply" | "isValid" | "setValid" | "setInvalid" => "",
                    _ => "only structs, headers, unions and stacks have members",
                };
                let message = format!("`{type_text}` has no `{member}`");
                let diagnostic = Diagnostic::error("unknown-member", span, message);
                self.error(if help.is_empty() { diagnostic } else { diagnostic.help(help) });
                unknown_expr(span)
            }
        }
    }

    fn fail_unknown_field(&mut self, id: crate::hir::StructId, member: &Ident, span: Span) -> Expr {
        let decl = &self.prog.structs[id.index()];
        let what = format!("{} `{}`", decl.kind.as_str(), decl.name);
        let names: Vec<_> = decl.fields.iter().map(|f| f.name.clone()).collect();
        self.fail_unknown_member(&what, member, names.iter().map(|n| &**n), span)
    }

    /// Returns field `at` of a value, or the element of a constant list.
    pub(super) fn build_field_access(&mut self, base: Expr, at: usize, ty: Ty, span: Span) -> Expr {
        match base.kind {
            // Only constants are reduced, because other elements can have side effects.
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

    /// Checks a member of a stack of `size` elements of type `element`. `next`, `last` and
    /// `lastIndex` exist in parsers only; a function can be called by one, so it can use them too.
    fn check_stack_member(&mut self, base: Expr, element: Ty, size: u32, member: &Ident, span: Span) -> Expr {
        let name = member.as_str();
        let kind = match name {
            "size" => return Expr { kind: ExprKind::Int(size.into()), ty: Types::BIT32, span },
            "next" | "last" | "lastIndex" if self.struct_kind(element).is_none_or(|k| k == ast::StructKind::Struct) => {
                self.fail("stack-member", span, format!("`{name}` is defined on stacks of headers only"));
                return unknown_expr(span);
            }
            "next" | "last" | "lastIndex" if !self.in_parser() && self.body.context != CheckContext::Function => {
                self.error(
                    Diagnostic::error(
                        "stack-member",
                        span,
                        format!("`{name}` of a stack can only be used in a parser"),
                    )
                    .help("elsewhere, use an index, as in `stack[0]`"),
                );
                return unknown_expr(span);
            }
            "next" => ExprKind::StackNext(Box::new(base)),
            "last" => ExprKind::StackLast(Box::new(base)),
            "lastIndex" => {
                return Expr { kind: ExprKind::StackLastIndex(Box::new(base)), ty: Types::BIT32, span };
            }
            _ => {
                let members = ["next", "last", "lastIndex", "size", "push_front", "pop_front"];
                return self.fail_unknown_member("a header stack", member, members.into_iter(), span);
            }
        };
        Expr { kind, ty: element, span }
    }

    /// Returns the table if the expression is `t.apply()`.
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
