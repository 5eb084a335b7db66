//! Checks `for` loops.

use super::Checker;
use crate::ast::{self, BinaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ForRange, LocalKind, StmtKind, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `for (init; condition; update) body`.
    pub(super) fn check_for(&mut self, f: &ast::ForStmt) -> Option<StmtKind> {
        self.check_annotations(&f.annotations);
        self.in_new_scope(|c| {
            let init = f.init.iter().filter_map(|s| c.check_stmt(s)).collect();
            let cond = c.check_condition(&f.condition, "a `for`");
            let update = f.update.iter().filter_map(|s| c.check_stmt(s)).collect();
            let body = Box::new(c.check_loop_body(&f.body));
            Some(StmtKind::For { init, cond, update, body })
        })
    }

    fn check_loop_body(&mut self, body: &ast::Stmt) -> crate::hir::Stmt {
        self.body.loops += 1;
        let body = self.check_branch(body);
        self.body.loops -= 1;
        body
    }

    /// Checks `for (T v in collection) body`.
    pub(super) fn check_for_in(&mut self, f: &ast::ForInStmt) -> Option<StmtKind> {
        self.check_annotations(&f.annotations);
        let ty = self.resolve_type(&f.ty);
        let over = self.check_collection(&f.collection, ty);
        self.in_new_scope(|c| {
            let var = c.new_local(&f.var, ty, LocalKind::Var, &f.var_annotations);
            let body = Box::new(c.check_loop_body(&f.body));
            Some(StmtKind::ForIn { var, over: over?, body })
        })
    }

    /// Checks the collection of `for (T var in collection)`: a range `a .. b`, a list or a stack,
    /// with elements of the variable's type `ty`. Returns `None` after an error.
    fn check_collection(&mut self, collection: &ast::Expr, ty: Ty) -> Option<ForRange> {
        if let ast::ExprKind::Binary { op: BinaryOp::Range, left, right, .. } = &collection.kind {
            let (lo, hi) = (self.check_range_bound(left, ty)?, self.check_range_bound(right, ty)?);
            return Some(ForRange::Range(lo, hi));
        }
        let list_ty = self.intern(TyKind::List(ty));
        let value = self.check_expr(collection, Some(list_ty));
        let element_ty = match self.type_kind(value.ty) {
            TyKind::Unknown => return None,
            TyKind::Stack(element_ty, _) | TyKind::List(element_ty) => *element_ty,
            _ => {
                let type_text = self.type_text(value.ty);
                self.error(
                    Diagnostic::error(
                        "for-in",
                        collection.span,
                        format!("`{type_text}` has no elements to iterate over"),
                    )
                    .help("iterate over a range `a .. b`, a list or a stack"),
                );
                return None;
            }
        };
        if !self.unify(ty, element_ty) {
            let (var_text, element_text) = (self.type_text(ty), self.type_text(element_ty));
            let message = format!("the loop variable is of type `{var_text}`, and the elements are `{element_text}`");
            self.fail("for-in", collection.span, message);
            return None;
        }
        Some(ForRange::Elements(value))
    }

    fn check_range_bound(&mut self, expr: &ast::Expr, ty: Ty) -> Option<Expr> {
        let value = self.check_expr(expr, Some(ty));
        let value = self.coerce(value, ty);
        if value.ty == Types::UNKNOWN {
            return None;
        }
        if !self.is_numeric(value.ty) && !matches!(self.type_kind(value.ty), TyKind::Enum(_)) {
            let shown = self.type_text(value.ty);
            self.fail("for-in", expr.span, format!("a range has integers as bounds, not `{shown}`"));
            return None;
        }
        Some(value)
    }

    /// Checks that `break` or `continue` is in a loop.
    pub(super) fn check_in_loop(&mut self, word: &str, span: Span, kind: StmtKind) -> Option<StmtKind> {
        if self.body.loops == 0 {
            self.fail("loop", span, format!("`{word}` can only be used in a loop"));
            return None;
        }
        Some(kind)
    }
}
