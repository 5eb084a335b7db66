//! `for` loops.

use super::Checker;
use crate::ast::{self, BinaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ForRange, LocalKind, StmtKind, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// `for (init; condition; update) body`
    pub(super) fn for_stmt(&mut self, f: &ast::ForStmt) -> Option<StmtKind> {
        self.annotations(&f.annotations);
        self.scoped(|c| {
            let init = f.init.iter().filter_map(|s| c.stmt(s)).collect();
            let cond = c.condition(&f.condition, "a `for`");
            let update = f.update.iter().filter_map(|s| c.stmt(s)).collect();
            let body = Box::new(c.loop_body(&f.body));
            Some(StmtKind::For { init, cond, update, body })
        })
    }

    fn loop_body(&mut self, body: &ast::Stmt) -> crate::hir::Stmt {
        self.body.loops += 1;
        let body = self.branch(body);
        self.body.loops -= 1;
        body
    }

    /// `for (T v in collection) body`
    pub(super) fn for_in(&mut self, f: &ast::ForInStmt) -> Option<StmtKind> {
        self.annotations(&f.annotations);
        let ty = self.ty(&f.ty);
        let over = self.collection(&f.collection, ty);
        self.scoped(|c| {
            let var = c.new_local(&f.var, ty, LocalKind::Var, &f.var_annotations);
            let body = Box::new(c.loop_body(&f.body));
            Some(StmtKind::ForIn { var, over: over?, body })
        })
    }

    fn collection(&mut self, collection: &ast::Expr, ty: Ty) -> Option<ForRange> {
        if let ast::ExprKind::Binary { op: BinaryOp::Range, left, right, .. } = &collection.kind {
            let (lo, hi) = (self.bound(left, ty)?, self.bound(right, ty)?);
            return Some(ForRange::Range(lo, hi));
        }
        let list = self.intern(TyKind::List(ty));
        let value = self.expr(collection, Some(list));
        let element = match self.kind(value.ty) {
            TyKind::Unknown => return None,
            TyKind::Stack(element, _) | TyKind::List(element) => *element,
            _ => {
                let shown = self.show(value.ty);
                self.error(
                    Diagnostic::error("for-in", collection.span, format!("`{shown}` has no elements to go through"))
                        .help("go through a range `a .. b`, a list or a stack"),
                );
                return None;
            }
        };
        if !self.unify(ty, element) {
            let (var, element) = (self.show(ty), self.show(element));
            let message = format!("the loop variable is of type `{var}`, and the elements are `{element}`");
            self.fail("for-in", collection.span, message);
            return None;
        }
        Some(ForRange::Elements(value))
    }

    fn bound(&mut self, expr: &ast::Expr, ty: Ty) -> Option<Expr> {
        let value = self.expr(expr, Some(ty));
        let value = self.coerce(value, ty);
        if value.ty == Types::UNKNOWN {
            return None;
        }
        if !self.is_numeric(value.ty) && !matches!(self.kind(value.ty), TyKind::Enum(_)) {
            let shown = self.show(value.ty);
            self.fail("for-in", expr.span, format!("a range has integers as bounds, not `{shown}`"));
            return None;
        }
        Some(value)
    }

    /// `break` and `continue`
    pub(super) fn in_loop(&mut self, word: &str, span: Span, kind: StmtKind) -> Option<StmtKind> {
        if self.body.loops == 0 {
            self.fail("loop", span, format!("`{word}` can only be used in a loop"));
            return None;
        }
        Some(kind)
    }
}
