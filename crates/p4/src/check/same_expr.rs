//! Compares expressions without their source positions.

use crate::hir::{Callee, Expr, ExprKind, ObjectRef, walk_expr_mut};
use crate::span::Span;

/// Returns whether the expressions are equal except for their spans.
pub(super) fn same_expr(a: &Expr, b: &Expr) -> bool {
    clear_spans(a.clone()) == clear_spans(b.clone())
}

/// Returns the expression with all spans cleared.
fn clear_spans(mut expr: Expr) -> Expr {
    walk_expr_mut(&mut expr, &mut |e| {
        e.span = Span::default();
        match &mut e.kind {
            ExprKind::Construct(construct) => construct.span = Span::default(),
            ExprKind::Call(call) => {
                call.span = Span::default();
                if let Callee::Method(ObjectRef::Construct(construct), ..)
                | Callee::Apply(ObjectRef::Construct(construct)) = &mut call.callee
                {
                    construct.span = Span::default();
                }
            }
            _ => {}
        }
    });
    expr
}
