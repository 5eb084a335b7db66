//! What the architectures, and the way tables are held, add to the language's rules.

use super::Checker;
use crate::hir::{Expr, ExprKind, Table};
use crate::span::Span;

impl Checker<'_> {
    /// Rules about the entries of one table.
    pub(super) fn entry_rules(&mut self, _table: &Table) {}

    /// Rules about the whole program.
    pub(super) fn whole_program(&mut self) {}
}

/// The expression without the places where it is written, to compare it.
pub(super) fn strip(mut expr: Expr) -> Expr {
    expr.span = Span::default();
    expr.kind = match expr.kind {
        ExprKind::Field(base, at) => ExprKind::Field(Box::new(strip(*base)), at),
        ExprKind::Index(base, at) => ExprKind::Index(Box::new(strip(*base)), Box::new(strip(*at))),
        ExprKind::Slice { base, hi, lo } => ExprKind::Slice { base: Box::new(strip(*base)), hi, lo },
        ExprKind::Cast(base) => ExprKind::Cast(Box::new(strip(*base))),
        ExprKind::Unary(op, base) => ExprKind::Unary(op, Box::new(strip(*base))),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(op, Box::new(strip(*a)), Box::new(strip(*b))),
        ExprKind::Mux(c, a, b) => ExprKind::Mux(Box::new(strip(*c)), Box::new(strip(*a)), Box::new(strip(*b))),
        ExprKind::Aggregate(elements) => ExprKind::Aggregate(elements.into_iter().map(strip).collect()),
        other => other,
    };
    expr
}
