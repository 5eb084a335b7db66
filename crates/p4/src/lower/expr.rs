//! Expressions: evaluation from left to right, with side effects in between.

use super::known::Known;
use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::{Val, holds_reference};
use super::walk::is_pure;
use crate::ast;
use crate::hir::{Callee, Expr, ExprKind, Order, Types};
use ir::{BinaryOp, BlockCall, Type, UnaryOp, Value};

impl Lower<'_> {
    /// Evaluates to a scalar.
    pub(super) fn eval_scalar(&mut self, expr: &Expr) -> Res<Value> {
        let val = self.eval(expr)?;
        self.scalar_value(val, expr.ty, expr.span)
    }

    /// Evaluates.
    pub(super) fn eval(&mut self, expr: &Expr) -> Res<Val> {
        self.check_size(expr.span)?;
        self.deeper(expr.span, |lower| lower.eval_kind(expr))
    }

    fn eval_kind(&mut self, expr: &Expr) -> Res<Val> {
        match &expr.kind {
            ExprKind::Int(n) => match self.shape(expr.ty) {
                Shape::Scalar(ty) => Ok(Val::Scalar(self.constant(ty, n))),
                _ => Ok(Val::Int(n.clone())),
            },
            ExprKind::Bool(b) => Ok(Val::Scalar(self.b.bool(*b))),
            ExprKind::Str(text) => Ok(Val::Text(text.clone())),
            ExprKind::Error(n) => {
                let name = &self.hir.errors[*n];
                Ok(Val::Scalar(self.error_value(name)))
            }
            ExprKind::EnumMember(id, n) => Ok(self.known_value(&Known::Enum(*id, *n), expr.ty)),
            ExprKind::MatchKind(_) => self.unsupported(expr.span, "a match kind as a value"),
            ExprKind::Instance(id) => self.instance(*id).map(|_| Val::Object),
            ExprKind::Construct(construct) => {
                let naming = self.naming("tmp", &Vec::new());
                self.construct(construct, &naming).map(|_| Val::Object)
            }
            // As a value, what is cut is evaluated before the place of the cut.
            ExprKind::DynSlice { base, lo, width } if !is_pure(lo) => {
                let value = self.eval_scalar(base)?;
                let lo = self.eval_scalar(lo)?;
                Ok(Val::Scalar(self.bits_at(value, lo, *width)))
            }
            ExprKind::Local(_)
            | ExprKind::Field(..)
            | ExprKind::Index(..)
            | ExprKind::StackNext(_)
            | ExprKind::StackLast(_)
            | ExprKind::Slice { .. }
            | ExprKind::DynSlice { .. } => {
                let access = self.access(expr)?;
                self.read_access(&access, expr.ty, expr.span)
            }
            ExprKind::StackLastIndex(base) => {
                let (_, next) = self.stack_of(base)?;
                let next = self.b.load(&self.p, next);
                let one = self.b.bits(32, 1u8);
                Ok(Val::Scalar(self.b.binary(BinaryOp::Sub, next, one)))
            }
            ExprKind::Unary(op, operand) => self.eval_unary(*op, operand, expr),
            ExprKind::Binary(op, left, right) => self.eval_binary(*op, left, right, expr),
            ExprKind::Mux(cond, yes, no) => self.eval_mux(cond, yes, no, expr),
            ExprKind::Cast(operand) => {
                let val = self.eval(operand)?;
                self.convert(val, operand.ty, expr.ty, expr.span)
            }
            ExprKind::Aggregate(items, order) => self.eval_aggregate(items, order, expr),
            ExprKind::InvalidHeader => Ok(Val::Invalid(self.ty(expr.ty))),
            ExprKind::Default => Ok(self.default_value(expr.ty)),
            ExprKind::Call(call) => match &call.callee {
                Callee::SizeOf(which, ty) => {
                    let known = Known::Int(self.size_of(*which, *ty));
                    Ok(self.known_value(&known, expr.ty))
                }
                _ => self.call(call, expr.ty),
            },
            ExprKind::ApplyHit(table) => self.apply_hit(*table, expr.span).map(Val::Scalar),
            ExprKind::ApplyMiss(table) => {
                let hit = self.apply_hit(*table, expr.span)?;
                Ok(Val::Scalar(self.b.logical_not(hit)))
            }
        }
    }

    fn eval_aggregate(&mut self, items: &[Expr], order: &Order, expr: &Expr) -> Res<Val> {
        let mut parts = vec![Val::Void; items.len()];
        let positions = order.positions(items.len());
        for (at, n) in positions.iter().copied().enumerate() {
            let item = &items[n];
            let mut val = self.eval(item)?;
            let ty = self.member_type(expr.ty, n);
            if let (Val::Int(_), Shape::Scalar(_)) = (&val, self.shape(ty)) {
                val = Val::Scalar(self.scalar_value(val, ty, item.span)?);
            }
            if holds_reference(&val) && !positions[at + 1..].iter().all(|later| is_pure(&items[*later])) {
                val = self.snapshot(val, item.ty, item.span)?;
            }
            parts[n] = val;
        }
        let ty = self.ty(expr.ty);
        Ok(match self.shape(ty) {
            Shape::Header(..) => Val::Header(parts.into()),
            Shape::Stack(..) => Val::Stack(parts.into(), ty),
            _ => Val::Struct(parts.into()),
        })
    }

    fn eval_unary(&mut self, op: ast::UnaryOp, operand: &Expr, expr: &Expr) -> Res<Val> {
        if let Some(known @ Known::Int(_)) = self.try_known_int(expr) {
            return Ok(self.known_value(&known, expr.ty));
        }
        let value = self.eval_scalar(operand)?;
        let op = match op {
            ast::UnaryOp::Plus => return Ok(Val::Scalar(value)),
            ast::UnaryOp::Neg => UnaryOp::Neg,
            ast::UnaryOp::BitNot => UnaryOp::Not,
            ast::UnaryOp::Not => UnaryOp::LogicalNot,
        };
        Ok(Val::Scalar(self.b.unary(op, value)))
    }

    /// The known value of an expression of type `int`: such are never computed at run time.
    fn try_known_int(&mut self, expr: &Expr) -> Option<Known> {
        if self.is_inf_int(expr.ty) { self.try_known(expr) } else { None }
    }

    fn eval_binary(&mut self, op: ast::BinaryOp, left: &Expr, right: &Expr, expr: &Expr) -> Res<Val> {
        if let Some(known) = self.try_known_int(expr) {
            return Ok(self.known_value(&known, expr.ty));
        }
        if matches!(op, ast::BinaryOp::And | ast::BinaryOp::Or) {
            return self.eval_logical(op, left, right).map(Val::Scalar);
        }
        let mut a = self.eval(left)?;
        if holds_reference(&a) && !is_pure(right) {
            a = self.snapshot(a, left.ty, left.span)?;
        }
        let b = self.eval(right)?;
        if matches!(op, ast::BinaryOp::Eq | ast::BinaryOp::Ne) {
            // An invalid header literal takes the other side's type.
            let ty = if left.ty == Types::INT { right.ty } else { left.ty };
            let same = self.equal(&a, &b, ty, expr.span)?;
            let same = if op == ast::BinaryOp::Ne { self.b.logical_not(same) } else { same };
            return Ok(Val::Scalar(same));
        }
        let keeps = matches!(op, ast::BinaryOp::Shl | ast::BinaryOp::Shr | ast::BinaryOp::Concat);
        let (a, b) = if keeps { (a, b) } else { self.same_width(a, b) };
        let a = self.scalar_value(a, left.ty, left.span)?;
        let b = match (op, b) {
            (ast::BinaryOp::Shl | ast::BinaryOp::Shr, Val::Int(n)) => {
                let bits = u32::try_from(&n).unwrap_or(u32::MAX);
                self.b.bits(32, bits)
            }
            (_, b) => self.scalar_value(b, right.ty, right.span)?,
        };
        self.emit_binary(op, a, b, expr).map(Val::Scalar)
    }

    /// Operands of which one is a number of type `int`: it takes the other's type, or the wider of the two.
    fn same_width(&mut self, a: Val, b: Val) -> (Val, Val) {
        match (a, b) {
            (Val::Int(n), Val::Scalar(b)) => {
                let ty = self.b.value_type(b);
                (Val::Scalar(self.constant(ty, &n)), Val::Scalar(b))
            }
            (Val::Scalar(a), Val::Int(n)) => {
                let ty = self.b.value_type(a);
                (Val::Scalar(a), Val::Scalar(self.constant(ty, &n)))
            }
            (Val::Scalar(a), Val::Scalar(b)) => {
                let (at, bt) = (self.b.value_type(a), self.b.value_type(b));
                match (at, bt) {
                    // Only numbers of type `int` that are known at run time differ in width.
                    (ir::Type::Int(x), ir::Type::Int(y)) if x < y => (Val::Scalar(self.b.cast(bt, a)), Val::Scalar(b)),
                    (ir::Type::Int(x), ir::Type::Int(y)) if x > y => (Val::Scalar(a), Val::Scalar(self.b.cast(at, b))),
                    _ => (Val::Scalar(a), Val::Scalar(b)),
                }
            }
            (a, b) => (a, b),
        }
    }

    /// `&&` and `||`: the right side in a block of its own if it has side effects.
    fn eval_logical(&mut self, op: ast::BinaryOp, left: &Expr, right: &Expr) -> Res<Value> {
        let and = op == ast::BinaryOp::And;
        if let Some(known) = self.known_condition(left) {
            return if known == and { self.eval_scalar(right) } else { Ok(self.b.bool(known)) };
        }
        let a = self.eval_scalar(left)?;
        if is_pure(right) {
            let b = self.eval_scalar(right)?;
            let op = if and { BinaryOp::And } else { BinaryOp::Or };
            return Ok(self.b.binary(op, a, b));
        }
        let (more, join) = (self.b.create_block(), self.b.create_block());
        let result = self.b.append_param(join, Type::Bool);
        let (done, go) = (Self::to_with(join, a), BlockCall::to(more));
        if and {
            self.b.branch_with(a, go, done)
        } else {
            self.b.branch_with(a, done, go)
        }
        self.b.switch_to(more);
        let b = self.eval_scalar(right)?;
        self.b.jump_with(join, vec![b]);
        self.b.switch_to(join);
        Ok(result)
    }

    fn eval_mux(&mut self, cond: &Expr, yes: &Expr, no: &Expr, expr: &Expr) -> Res<Val> {
        if let Some(known) = self.try_known_int(expr) {
            return Ok(self.known_value(&known, expr.ty));
        }
        if let Some(known) = self.known_condition(cond) {
            let side = if known { yes } else { no };
            let val = self.eval(side)?;
            return self.convert(val, side.ty, expr.ty, expr.span);
        }
        let cond = self.eval_scalar(cond)?;
        if let Shape::Scalar(ty) = self.shape(expr.ty) {
            if is_pure(yes) && is_pure(no) {
                let then = self.eval_scalar(yes)?;
                let els = self.eval_scalar(no)?;
                return Ok(Val::Scalar(self.b.select(cond, then, els)));
            }
            return self.mux_blocks(cond, yes, no, ty).map(Val::Scalar);
        }
        let place = self.temporary("mux", expr.ty, expr.span)?;
        let (then, els, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.b.branch(cond, then, els);
        for (block, side) in [(then, yes), (els, no)] {
            self.b.switch_to(block);
            let val = self.eval(side)?;
            self.store(&place, &val, side.span)?;
            self.b.jump(join);
        }
        self.b.switch_to(join);
        Ok(self.read(&place))
    }

    fn mux_blocks(&mut self, cond: Value, yes: &Expr, no: &Expr, ty: Type) -> Res<Value> {
        let (then, els, join) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let result = self.b.append_param(join, ty);
        self.b.branch(cond, then, els);
        for (block, side) in [(then, yes), (els, no)] {
            self.b.switch_to(block);
            let value = self.eval_scalar(side)?;
            self.b.jump_with(join, vec![value]);
        }
        self.b.switch_to(join);
        Ok(result)
    }
}
