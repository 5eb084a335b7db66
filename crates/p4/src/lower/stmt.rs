//! Statements.

use super::frame::Binding;
use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::Val;
use crate::ast;
use crate::hir::{Expr, LocalId, Stmt, StmtKind};

impl Lower<'_> {
    /// Lowers statements in order. What follows a `return` or `exit` can't be reached and is left out; after an error the
    /// next statement is tried, so that one run finds more than one error.
    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Res<()> {
        let mut done = Ok(());
        for stmt in stmts {
            if self.b.is_terminated() || self.stopped {
                break;
            }
            self.at(stmt.span);
            let result = self.check_size(stmt.span).and_then(|()| self.deeper(stmt.span, |lower| lower.stmt(stmt)));
            done = done.and(result);
        }
        done
    }

    fn stmt(&mut self, stmt: &Stmt) -> Res<()> {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.stmts(stmts),
            StmtKind::Var(id, init) => self.declare_var(*id, init.as_ref()),
            StmtKind::Instance(id) => self.instance(*id).map(|_| ()),
            StmtKind::Assign { left, op, right } => self.assignment(left, *op, right),
            StmtKind::Call(call) => self.call(call, crate::hir::Types::VOID).map(|_| ()),
            StmtKind::If(cond, then, els) => self.if_stmt(cond, then, els.as_deref()),
            StmtKind::SwitchAction { table, cases } => self.switch_action(*table, cases, stmt.span),
            StmtKind::SwitchValue { on, cases } => self.switch_value(on, cases),
            StmtKind::For { init, cond, update, body } => self.for_loop(init, cond, update, body),
            StmtKind::ForIn { var, over, body } => self.for_in(*var, over, body, stmt.span),
            StmtKind::Break => self.leave_loop(true, stmt.span),
            StmtKind::Continue => self.leave_loop(false, stmt.span),
            StmtKind::Return(value) => self.return_stmt(value.as_ref(), stmt.span),
            StmtKind::Exit => {
                self.exit();
                Ok(())
            }
        }
    }

    /// A variable comes into being.
    pub(super) fn declare_var(&mut self, id: LocalId, init: Option<&Expr>) -> Res<()> {
        let val = match init {
            Some(init) => Some(self.eval(init)?),
            None => None,
        };
        let ty = self.ty(self.local(id).ty);
        if let Shape::Known | Shape::List(_) | Shape::Opaque = self.shape(ty) {
            self.bind(id, Binding::Val(val.unwrap_or(Val::Void)));
            return Ok(());
        }
        let place = match &self.locals[id.index()] {
            Some(Binding::Place(place)) if self.frame_owns(id) => place.clone(),
            _ => {
                let place = self.acquire(id)?;
                self.frame_takes(id, place.clone());
                place
            }
        };
        match val {
            Some(val) => self.assign(&place, val, ty, self.local(id).span)?,
            None => self.clear(&place),
        }
        self.bind(id, Binding::Place(place));
        Ok(())
    }

    fn assignment(&mut self, left: &Expr, op: Option<ast::BinaryOp>, right: &Expr) -> Res<()> {
        let access = self.access(left)?;
        let val = match op {
            None => {
                let val = self.eval(right)?;
                self.fit_value(val, right, left)?
            }
            Some(op) => {
                let old = self.read_access(&access, left.ty, left.span)?;
                let a = self.scalar_value(old, left.ty, left.span)?;
                let b = match (op, self.eval(right)?) {
                    (ast::BinaryOp::Shl | ast::BinaryOp::Shr, Val::Int(n)) => {
                        let bits = u32::try_from(&n).unwrap_or(u32::MAX);
                        self.b.bits(32, bits)
                    }
                    (_, val) => self.scalar_value(val, left.ty, right.span)?,
                };
                Val::Scalar(self.emit_binary(op, a, b, right)?)
            }
        };
        self.write_access(&access, val, left.ty, left.span)
    }

    /// A number of type `int` in the type of what it is assigned to.
    fn fit_value(&mut self, val: Val, right: &Expr, left: &Expr) -> Res<Val> {
        match val {
            Val::Int(_) => Ok(Val::Scalar(self.scalar_value(val, left.ty, right.span)?)),
            Val::Struct(_) => self.convert(val, right.ty, left.ty, right.span),
            val => Ok(val),
        }
    }

    fn if_stmt(&mut self, cond: &Expr, then: &Stmt, els: Option<&Stmt>) -> Res<()> {
        if let Some(known) = self.known_condition(cond) {
            let taken = if known { Some(then) } else { els };
            return taken.map_or(Ok(()), |taken| self.stmts(std::slice::from_ref(taken)));
        }
        let cond = self.eval_scalar(cond)?;
        let then_block = self.b.create_block();
        let els_block = self.b.create_block();
        let mut join = None;
        self.b.branch(cond, then_block, els_block);
        self.b.switch_to(then_block);
        let mut done = self.stmts(std::slice::from_ref(then));
        self.join_at(&mut join);
        self.b.switch_to(els_block);
        if let Some(els) = els {
            done = done.and(self.stmts(std::slice::from_ref(els)));
        }
        self.join_at(&mut join);
        self.resume(join);
        done
    }

    /// Goes on at the join, which is made when the first way gets there.
    pub(super) fn join_at(&mut self, join: &mut Option<ir::Block>) {
        if !self.b.is_terminated() {
            let block = *join.get_or_insert_with(|| self.b.create_block());
            self.b.jump(block);
        }
    }

    /// Goes on at the join; if no way gets there, what follows can't be reached.
    pub(super) fn resume(&mut self, join: Option<ir::Block>) {
        if let Some(block) = join {
            self.b.switch_to(block);
        }
    }
}
