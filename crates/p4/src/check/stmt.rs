//! Checks statements.

use super::{CheckContext, Checker};
use crate::ast::{self, BinaryOp, StmtKind as S};
use crate::diag::Diagnostic;
use crate::hir::{Callee, Expr, ExprKind, Stmt, StmtKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks the statements of a block in the innermost scope.
    pub(super) fn check_block(&mut self, block: &ast::Block) -> Vec<Stmt> {
        self.check_annotations(&block.annotations);
        block.stmts.iter().filter_map(|stmt| self.check_stmt(stmt)).collect()
    }

    /// Checks a block in a new scope.
    pub(super) fn check_block_stmt(&mut self, block: &ast::Block) -> Stmt {
        let stmts = self.in_new_scope(|c| c.check_block(block));
        Stmt { kind: StmtKind::Block(stmts), span: block.span }
    }

    /// Checks the branch or body of a statement in a new scope.
    pub(super) fn check_branch(&mut self, stmt: &ast::Stmt) -> Stmt {
        let inner = self.in_new_scope(|c| c.check_stmt(stmt));
        inner.unwrap_or(Stmt { kind: StmtKind::Block(Vec::new()), span: stmt.span })
    }

    /// Checks a statement; `None` if it needs no code.
    pub(super) fn check_stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        self.with_depth(stmt.span, |c| c.check_stmt_kind(stmt)).flatten()
    }

    /// Checks a statement; `None` after an error, and for statements that leave no code, such as
    /// the declaration of a constant.
    fn check_stmt_kind(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        let span = stmt.span;
        let kind = match &stmt.kind {
            S::Assign { target, op, op_span, value } => self.check_assign(target, *op, *op_span, value)?,
            S::Call(call) => return self.call_stmt(call, span),
            S::DirectApply { ty, args } => {
                let member = ast::Ident::new("apply", span);
                let base = ast::Expr { kind: ast::ExprKind::Type(Box::new(ty.clone())), span: ty.span };
                let value = self.check_member_call(&base, &member, &[], args, None, span);
                return self.call_to_stmt(value, span);
            }
            S::Block(block) => return Some(self.check_block_stmt(block)),
            S::If { condition, then_branch, else_branch } => {
                let condition = self.check_condition(condition, "an `if`");
                let then_stmt = self.check_branch(then_branch);
                let else_stmt = else_branch.as_ref().map(|else_stmt| Box::new(self.check_branch(else_stmt)));
                StmtKind::If(condition, Box::new(then_stmt), else_stmt)
            }
            S::Switch { subject, cases } => self.check_switch(subject, cases, span)?,
            S::For(f) => self.check_for(f)?,
            S::ForIn(f) => self.check_for_in(f)?,
            S::Break => self.check_in_loop("break", span, StmtKind::Break)?,
            S::Continue => self.check_in_loop("continue", span, StmtKind::Continue)?,
            S::Return(value) => self.return_stmt(value.as_ref(), span)?,
            S::Exit => {
                if matches!(self.body.context, CheckContext::Function | CheckContext::Method) {
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
                let context_name = super::method::place_name(self.body.context);
                self.error(
                    Diagnostic::error(
                        "instance-place",
                        d.span,
                        format!("`{}` cannot be instantiated in {context_name}", d.name),
                    )
                    .help("declare the instance before the body, among the declarations"),
                );
                self.declare(&d.name, super::scope::ScopeEntity::Unknown);
                return None;
            }
        };
        Some(Stmt { kind, span })
    }

    /// Checks `target = value;` or `target op= value;`. Returns `None` after an error.
    fn check_assign(
        &mut self,
        target: &ast::Expr,
        op: Option<BinaryOp>,
        op_span: Span,
        value: &ast::Expr,
    ) -> Option<StmtKind> {
        let left = self.check_expr(target, None);
        let is_writable = left.ty != Types::UNKNOWN && self.require_lvalue(&left, "this cannot be assigned to");
        let expected = (left.ty != Types::UNKNOWN).then_some(left.ty);
        let right = self.check_expr(value, expected);
        if !is_writable || right.ty == Types::UNKNOWN {
            return None;
        }
        let right = match op {
            None => self.coerce_for(right, left.ty, target.span, "the assigned l-value"),
            Some(op) => self.check_op_assign(op, &left, right, target.span.to(value.span), op_span)?,
        };
        Some(StmtKind::Assign { left, op, right })
    }

    /// Checks `left op right` like the plain operator and returns the converted right side.
    fn check_op_assign(&mut self, op: BinaryOp, left: &Expr, right: Expr, span: Span, op_span: Span) -> Option<Expr> {
        let ty = left.ty;
        let whole = self.check_binary_values(op, left.clone(), right, span);
        if whole.ty == Types::UNKNOWN {
            return None;
        }
        if whole.ty != ty {
            let (found, wanted) = (self.type_text(whole.ty), self.type_text(ty));
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
            self.check_expr(call, None);
            self.error(
                Diagnostic::error("instance-place", span, "a constructor call is not a statement")
                    .help("to apply the instance, write `T(...).apply(...)`"),
            );
            return None;
        }
        let value = self.check_expr(call, None);
        self.call_to_stmt(value, span)
    }

    /// Converts a call to a statement.
    fn call_to_stmt(&mut self, value: Expr, span: Span) -> Option<Stmt> {
        match value.kind {
            ExprKind::Call(call) if !matches!(call.callee, Callee::SizeOf(..)) => {
                Some(Stmt { kind: StmtKind::Call(call), span })
            }
            _ => None,
        }
    }

    /// Checks `return` with or without a value, against the result type of the body.
    fn return_stmt(&mut self, value: Option<&ast::Expr>, span: Span) -> Option<StmtKind> {
        let result_ty = self.body.result;
        match value {
            None if matches!(result_ty, Types::VOID | Types::UNKNOWN) => Some(StmtKind::Return(None)),
            None => {
                let type_text = self.type_text(result_ty);
                self.fail("return-value", span, format!("a value of type `{type_text}` must be returned here"));
                Some(StmtKind::Return(None))
            }
            Some(value) if result_ty == Types::VOID => {
                let reason = match self.body.context {
                    CheckContext::Function | CheckContext::Method => "the function has the result type `void`",
                    _ => "only functions return values",
                };
                self.check_expr(value, None);
                self.fail("return-value", span, format!("nothing can be returned here: {reason}"));
                None
            }
            Some(value) => {
                let value = self.check_expr(value, Some(result_ty));
                let value = self.coerce(value, result_ty);
                Some(StmtKind::Return(Some(value)))
            }
        }
    }
}
