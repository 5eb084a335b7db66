//! Whether two expressions are the same but for where they stand.

use crate::hir::{Call, CallArg, Expr, ExprKind};
use crate::span::Span;

/// Whether the expressions are written the same way.
pub(super) fn same_expr(a: &Expr, b: &Expr) -> bool {
    strip(a.clone()) == strip(b.clone())
}

/// The expression without its places.
fn strip(mut expr: Expr) -> Expr {
    let boxed = |e: Box<Expr>| Box::new(strip(*e));
    expr.span = Span::default();
    expr.kind = match expr.kind {
        ExprKind::Field(base, at) => ExprKind::Field(boxed(base), at),
        ExprKind::Index(base, at) => ExprKind::Index(boxed(base), boxed(at)),
        ExprKind::Slice { base, hi, lo } => ExprKind::Slice { base: boxed(base), hi, lo },
        ExprKind::Cast(base) => ExprKind::Cast(boxed(base)),
        ExprKind::Unary(op, base) => ExprKind::Unary(op, boxed(base)),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(op, boxed(a), boxed(b)),
        ExprKind::Mux(c, a, b) => ExprKind::Mux(boxed(c), boxed(a), boxed(b)),
        ExprKind::Aggregate(elements, order) => ExprKind::Aggregate(elements.into_iter().map(strip).collect(), order),
        ExprKind::Call(call) => {
            let args = call.args.into_iter().map(|arg| match arg {
                CallArg::Expr(e) => CallArg::Expr(strip(e)),
                other => other,
            });
            ExprKind::Call(Box::new(Call { args: args.collect(), span: Span::default(), ..*call }))
        }
        other => other,
    };
    expr
}
