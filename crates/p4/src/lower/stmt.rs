//! Lowers statements.

use super::frame::Binding;
use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::RValue;
use crate::ast;
use crate::hir::{Expr, LocalId, Stmt, StmtKind};

impl Lowering<'_> {
    /// Lowers statements in order. Omits unreachable statements after a `return` or `exit`.
    /// Continues after an error, so that one run finds several errors.
    pub(super) fn lower_stmts(&mut self, stmts: &[Stmt]) -> LowerResult<()> {
        let mut done = Ok(());
        for stmt in stmts {
            if self.builder.is_terminated() || self.is_stopped {
                break;
            }
            self.set_location(stmt.span);
            let result =
                self.check_size(stmt.span).and_then(|()| self.with_depth(stmt.span, |lower| lower.lower_stmt(stmt)));
            done = done.and(result);
        }
        done
    }

    /// Lowers one statement into the current block.
    fn lower_stmt(&mut self, stmt: &Stmt) -> LowerResult<()> {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.lower_stmts(stmts),
            StmtKind::Var(id, init) => self.declare_var(*id, init.as_ref()),
            StmtKind::Instance(id) => self.resolve_instance(*id).map(|_| ()),
            StmtKind::Assign { left, op, right } => self.assignment(left, *op, right),
            StmtKind::Call(call) => self.lower_call(call, crate::hir::Types::VOID).map(|_| ()),
            StmtKind::If(cond, then, els) => self.lower_if(cond, then, els.as_deref()),
            StmtKind::SwitchAction { table, cases } => self.switch_action(*table, cases, stmt.span),
            StmtKind::SwitchValue { on, cases } => self.switch_value(on, cases),
            StmtKind::For { init, cond, update, body } => self.lower_for(init, cond, update, body),
            StmtKind::ForIn { var, over, body } => self.lower_for_in(*var, over, body, stmt.span),
            StmtKind::Break => self.leave_loop(true, stmt.span),
            StmtKind::Continue => self.leave_loop(false, stmt.span),
            StmtKind::Return(value) => self.lower_return(value.as_ref(), stmt.span),
            StmtKind::Exit => {
                self.lower_exit();
                Ok(())
            }
        }
    }

    /// Lowers a variable declaration and binds the variable. Without initial value, it starts with
    /// zeros and invalid headers. A declaration in a loop uses the same storage each time.
    pub(super) fn declare_var(&mut self, id: LocalId, init: Option<&Expr>) -> LowerResult<()> {
        let val = match init {
            Some(init) => Some(self.eval_expr(init)?),
            None => None,
        };
        let ty = self.substitute_scope_params(self.local_decl(id).ty);
        if let TypeLayout::CompileTime | TypeLayout::List(_) | TypeLayout::Opaque = self.layout(ty) {
            self.bind_local(id, Binding::Value(val.unwrap_or(RValue::Void)));
            return Ok(());
        }
        let storage = match &self.locals[id.index()] {
            Some(Binding::Storage(storage)) if self.is_declared_in_frame(id) => storage.clone(),
            _ => {
                let storage = self.acquire_storage(id)?;
                self.record_owned_storage(id, storage.clone());
                storage
            }
        };
        match val {
            Some(val) => self.assign_value(&storage, val, ty, self.local_decl(id).span)?,
            None => self.clear_storage(&storage),
        }
        self.bind_local(id, Binding::Storage(storage));
        Ok(())
    }

    /// Lowers `left = right` or `left op= right`. The l-value is resolved once, before the right
    /// side is evaluated, so that an index in it has its effects once.
    fn assignment(&mut self, left: &Expr, op: Option<ast::BinaryOp>, right: &Expr) -> LowerResult<()> {
        let access = self.resolve_lvalue(left)?;
        let val = match op {
            None => {
                let val = self.eval_expr(right)?;
                self.fit_value(val, right, left)?
            }
            Some(op) => {
                let current = self.read_lvalue(&access, left.ty, left.span)?;
                let left_value = self.scalar_value(current, left.ty, left.span)?;
                let right_value = match (op, self.eval_expr(right)?) {
                    (ast::BinaryOp::Shl | ast::BinaryOp::Shr, RValue::Int(n)) => {
                        // A larger amount shifts out all bits as well.
                        let bits = u32::try_from(&n).unwrap_or(u32::MAX);
                        self.builder.bits(32, bits)
                    }
                    (_, val) => self.scalar_value(val, left.ty, right.span)?,
                };
                RValue::Scalar(self.emit_binary(op, left_value, right_value, right)?)
            }
        };
        self.write_lvalue(&access, val, left.ty, left.span)
    }

    /// Converts a number of type `int` or a struct to the type of the assigned l-value.
    fn fit_value(&mut self, val: RValue, right: &Expr, left: &Expr) -> LowerResult<RValue> {
        match val {
            RValue::Int(_) => Ok(RValue::Scalar(self.scalar_value(val, left.ty, right.span)?)),
            RValue::Struct(_) => self.convert_value(val, right.ty, left.ty, right.span),
            val => Ok(val),
        }
    }

    /// Lowers `if`. A condition that is known at compile time leaves one branch. Both branches are
    /// lowered even after an error in one, so that all errors are reported.
    fn lower_if(&mut self, cond: &Expr, then: &Stmt, els: Option<&Stmt>) -> LowerResult<()> {
        if let Some(known) = self.known_condition(cond) {
            let taken = if known { Some(then) } else { els };
            return taken.map_or(Ok(()), |taken| self.lower_stmts(std::slice::from_ref(taken)));
        }
        let cond = self.eval_scalar(cond)?;
        let then_block = self.builder.create_block();
        let els_block = self.builder.create_block();
        let mut join = None;
        self.builder.branch(cond, then_block, els_block);
        self.builder.switch_to(then_block);
        let mut outcome = self.lower_stmts(std::slice::from_ref(then));
        self.join_at(&mut join);
        self.builder.switch_to(els_block);
        if let Some(els) = els {
            outcome = outcome.and(self.lower_stmts(std::slice::from_ref(els)));
        }
        self.join_at(&mut join);
        self.continue_at(join);
        outcome
    }

    /// Jumps to the join block, which is created on demand.
    pub(super) fn join_at(&mut self, join: &mut Option<ir::Block>) {
        if !self.builder.is_terminated() {
            let block = *join.get_or_insert_with(|| self.builder.create_block());
            self.builder.jump(block);
        }
    }

    /// Continues at the join block. Without one, the following code is unreachable.
    pub(super) fn continue_at(&mut self, join: Option<ir::Block>) {
        if let Some(block) = join {
            self.builder.switch_to(block);
        }
    }
}
