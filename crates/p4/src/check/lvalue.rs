//! Checks l-values.

use super::Checker;
use crate::ast::Direction;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, LocalKind, TyKind, Types};

impl Checker<'_> {
    /// Returns whether the expression is a writable l-value; reports an error if not. `purpose`
    /// begins the message.
    pub(super) fn require_lvalue(&mut self, expr: &Expr, purpose: &str) -> bool {
        if expr.ty == Types::UNKNOWN {
            return false;
        }
        match self.not_writable_reason(expr) {
            None => true,
            Some(reason) => {
                let mut diagnostic = Diagnostic::error("not-writable", expr.span, format!("{purpose}: {}", reason.0));
                if let Some(span) = reason.1 {
                    diagnostic = diagnostic.label(span, "declared here");
                }
                self.error(match reason.2 {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                });
                false
            }
        }
    }

    /// Returns why an expression cannot be written, `None` if it can: the reason, the declaration
    /// to label, and a help text.
    fn not_writable_reason(&self, expr: &Expr) -> Option<(String, Option<crate::span::Span>, Option<&'static str>)> {
        match &expr.kind {
            ExprKind::Local(id) => {
                let local = self.local_decl(*id);
                let name = &local.name;
                if matches!(self.type_kind(local.ty), TyKind::Extern(..) | TyKind::Object(..)) {
                    return Some((format!("`{name}` is an object"), Some(local.span), None));
                }
                match &local.kind {
                    LocalKind::Var => None,
                    LocalKind::Param(Direction::Out | Direction::InOut, ..) => None,
                    LocalKind::Param(Direction::In, ..) => Some((
                        format!("`{name}` is an `in` parameter"),
                        Some(local.span),
                        Some("make it `inout`, or copy it into a variable first"),
                    )),
                    LocalKind::Param(Direction::None, ..) => Some((
                        format!("`{name}` is a parameter without a direction"),
                        Some(local.span),
                        Some("copy it into a variable first"),
                    )),
                    LocalKind::ConstructorParam(..) => {
                        Some((format!("`{name}` is a constructor parameter"), Some(local.span), None))
                    }
                }
            }
            ExprKind::Field(base, _) => self.not_writable_reason(base),
            ExprKind::Index(base, _) | ExprKind::StackNext(base) | ExprKind::StackLast(base) => {
                self.not_writable_reason(base)
            }
            ExprKind::Slice { base, .. } | ExprKind::DynSlice { base, .. } => self.not_writable_reason(base),
            _ => Some((
                "this is a value, not an l-value".to_owned(),
                None,
                Some("name a variable, parameter or field of one"),
            )),
        }
    }
}
