//! Whether two expressions are the same but for where they stand.

use crate::hir::{Callee, Expr, ExprKind, ObjectRef, walk_expr_mut};
use crate::span::Span;

/// Whether the expressions are written the same way.
pub(super) fn same_expr(a: &Expr, b: &Expr) -> bool {
    strip(a.clone()) == strip(b.clone())
}

/// The expression without its places.
fn strip(mut expr: Expr) -> Expr {
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
