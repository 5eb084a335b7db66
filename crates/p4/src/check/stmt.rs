//! Statements.

use super::{Checker, Place};
use crate::ast::{self, BinaryOp, StmtKind as S};
use crate::diag::Diagnostic;
use crate::hir::{Callee, Expr, ExprKind, Stmt, StmtKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// The statements of a block, in the innermost scope.
    pub(super) fn block(&mut self, block: &ast::Block) -> Vec<Stmt> {
        self.annotations(&block.annotations);
        block.stmts.iter().filter_map(|stmt| self.stmt(stmt)).collect()
    }

    /// A block with a scope of its own.
    pub(super) fn block_stmt(&mut self, block: &ast::Block) -> Stmt {
        let stmts = self.scoped(|c| c.block(block));
        Stmt { kind: StmtKind::Block(stmts), span: block.span }
    }

    /// A statement that is a branch or body of another: declarations in it are its own.
    pub(super) fn branch(&mut self, stmt: &ast::Stmt) -> Stmt {
        let inner = self.scoped(|c| c.stmt(stmt));
        inner.unwrap_or(Stmt { kind: StmtKind::Block(Vec::new()), span: stmt.span })
    }

    /// A statement; `None` if nothing is to be done for it.
    pub(super) fn stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        self.deeper(stmt.span, |c| c.stmt_inner(stmt)).flatten()
    }

    fn stmt_inner(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        let span = stmt.span;
        let kind = match &stmt.kind {
            S::Assign { target, op, op_span, value } => self.assign(target, *op, *op_span, value)?,
            S::Call(call) => return self.call_stmt(call, span),
            S::DirectApply { ty, args } => {
                let member = ast::Ident::new("apply", span);
                let base = ast::Expr { kind: ast::ExprKind::Type(Box::new(ty.clone())), span: ty.span };
                let value = self.call_member(&base, &member, &[], args, None, span);
                return self.effect(value, span);
            }
            S::Block(block) => return Some(self.block_stmt(block)),
            S::If { condition, then_branch, else_branch } => {
                let condition = self.condition(condition, "an `if`");
                let yes = self.branch(then_branch);
                let no = else_branch.as_ref().map(|no| Box::new(self.branch(no)));
                StmtKind::If(condition, Box::new(yes), no)
            }
            S::Switch { subject, cases } => self.switch(subject, cases, span)?,
            S::For(f) => self.for_stmt(f)?,
            S::ForIn(f) => self.for_in(f)?,
            S::Break => self.in_loop("break", span, StmtKind::Break)?,
            S::Continue => self.in_loop("continue", span, StmtKind::Continue)?,
            S::Return(value) => self.return_stmt(value.as_ref(), span)?,
            S::Exit => {
                if matches!(self.body.place, Place::Function | Place::Method) {
                    self.fail("exit-place", span, "`exit` cannot be used in functions");
                    return None;
                }
                StmtKind::Exit
            }
            S::Empty | S::Error => return None,
            S::Const(d) => {
                self.const_decl(d);
                return None;
            }
            S::Var(d) => {
                let (id, init) = self.var_decl(d);
                StmtKind::Var(id, init)
            }
            S::Instance(d) => {
                let place = super::method::place_name(self.body.place);
                self.error(
                    Diagnostic::error(
                        "instance-place",
                        d.span,
                        format!("`{}` cannot be instantiated in {place}", d.name),
                    )
                    .help("declare the instance before the body, among the declarations"),
                );
                self.declare(&d.name, super::scope::Entity::Unknown);
                return None;
            }
        };
        Some(Stmt { kind, span })
    }

    /// `target = value;`, `target op= value;`
    fn assign(
        &mut self,
        target: &ast::Expr,
        op: Option<BinaryOp>,
        op_span: Span,
        value: &ast::Expr,
    ) -> Option<StmtKind> {
        let left = self.expr(target, None);
        let writable = left.ty != Types::UNKNOWN && self.require_lvalue(&left, "this cannot be assigned to");
        let hint = (left.ty != Types::UNKNOWN).then_some(left.ty);
        let right = self.expr(value, hint);
        if !writable || right.ty == Types::UNKNOWN {
            return None;
        }
        let right = match op {
            None => self.coerce_for(right, left.ty, target.span, "what is assigned to"),
            Some(op) => self.op_assigned(op, &left, right, target.span.to(value.span), op_span)?,
        };
        Some(StmtKind::Assign { left, op, right })
    }

    /// Checks `left op right` like the operator alone, and gives the right side as it is then.
    fn op_assigned(&mut self, op: BinaryOp, left: &Expr, right: Expr, span: Span, op_span: Span) -> Option<Expr> {
        let ty = left.ty;
        let whole = self.binary_values(op, left.clone(), right, span);
        if whole.ty == Types::UNKNOWN {
            return None;
        }
        if whole.ty != ty {
            let (found, wanted) = (self.show(whole.ty), self.show(ty));
            let message = format!("`{}=` gives a `{found}`, and a `{wanted}` is assigned to", op.as_str());
            self.fail("type-mismatch", op_span, message);
            return None;
        }
        match whole.kind {
            ExprKind::Binary(_, _, right) => Some(*right),
            _ => None,
        }
    }

    fn call_stmt(&mut self, call: &ast::Expr, span: Span) -> Option<Stmt> {
        if let ast::ExprKind::Construct { .. } = call.kind {
            self.expr(call, None);
            self.error(
                Diagnostic::error("instance-place", span, "a constructor call is no statement")
                    .help("to apply the instance, write `T(...).apply(...)`"),
            );
            return None;
        }
        let value = self.expr(call, None);
        self.effect(value, span)
    }

    /// A call for its effect.
    fn effect(&mut self, value: Expr, span: Span) -> Option<Stmt> {
        match value.kind {
            ExprKind::Call(call) if !matches!(call.callee, Callee::SizeOf(..)) => {
                Some(Stmt { kind: StmtKind::Call(call), span })
            }
            _ => None,
        }
    }

    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        let result = self.body.result;
        match value {
            None if matches!(result, Types::VOID | Types::UNKNOWN) => Some(StmtKind::Return(None)),
            None => {
                let shown = self.show(result);
                self.fail("return-value", span, format!("a value of type `{shown}` must be returned here"));
                Some(StmtKind::Return(None))
            }
            Some(value) if result == Types::VOID => {
                let what = match self.body.place {
                    Place::Function | Place::Method => "the function has the result type `void`",
                    _ => "only functions return values",
                };
                self.expr(value, None);
                self.fail("return-value", span, format!("nothing can be returned here: {what}"));
                None
            }
            Some(value) => {
                let value = self.expr(value, Some(result));
                let value = self.coerce(value, result);
                Some(StmtKind::Return(Some(value)))
            }
        }
    }
}
