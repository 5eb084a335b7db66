//! Lowers expressions, which are evaluated from left to right including their side effects.

use super::const_value::ConstValue;
use super::effects::is_pure;
use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::{RValue, holds_reference};
use crate::ast;
use crate::hir::{Callee, EvalOrder, Expr, ExprKind, Types};
use ir::{BinaryOp, BlockCall, Type, UnaryOp, Value};

impl Lowering<'_> {
    /// Evaluates an expression to a scalar.
    pub(super) fn eval_scalar(&mut self, expr: &Expr) -> LowerResult<Value> {
        let val = self.eval_expr(expr)?;
        self.scalar_value(val, expr.ty, expr.span)
    }

    /// Evaluates an expression.
    pub(super) fn eval_expr(&mut self, expr: &Expr) -> LowerResult<RValue> {
        self.check_size(expr.span)?;
        self.with_depth(expr.span, |lower| lower.eval_kind(expr))
    }

    /// Evaluates an expression by its kind. A number of type `int` stays a number; headers and
    /// other values in storage are returned as references, not copied.
    fn eval_kind(&mut self, expr: &Expr) -> LowerResult<RValue> {
        match &expr.kind {
            ExprKind::Int(n) => match self.layout(expr.ty) {
                TypeLayout::Scalar(ty) => Ok(RValue::Scalar(self.scalar_constant(ty, n))),
                _ => Ok(RValue::Int(n.clone())),
            },
            ExprKind::Bool(b) => Ok(RValue::Scalar(self.builder.bool(*b))),
            ExprKind::Str(text) => Ok(RValue::Text(text.clone())),
            ExprKind::Error(index) => {
                let name = &self.hir.errors[*index];
                Ok(RValue::Scalar(self.error_value(name)))
            }
            ExprKind::EnumMember(id, n) => Ok(self.const_to_rvalue(&ConstValue::Enum(*id, *n), expr.ty)),
            ExprKind::MatchKind(_) => self.unsupported(expr.span, "a match kind as a value"),
            ExprKind::Instance(id) => self.resolve_instance(*id).map(|_| RValue::Object),
            ExprKind::Construct(construct) => {
                let naming = self.instance_name("tmp", &Vec::new());
                self.instantiate(construct, &naming).map(|_| RValue::Object)
            }
            // In a value context, the base is evaluated before the bit position.
            ExprKind::DynSlice { base, lo, width } if !is_pure(lo) => {
                let value = self.eval_scalar(base)?;
                let lo = self.eval_scalar(lo)?;
                Ok(RValue::Scalar(self.extract_bits_at(value, lo, *width)))
            }
            ExprKind::Local(_)
            | ExprKind::Field(..)
            | ExprKind::Index(..)
            | ExprKind::StackNext(_)
            | ExprKind::StackLast(_)
            | ExprKind::Slice { .. }
            | ExprKind::DynSlice { .. } => {
                let access = self.resolve_lvalue(expr)?;
                self.read_lvalue(&access, expr.ty, expr.span)
            }
            ExprKind::StackLastIndex(base) => {
                let (_, next) = self.resolve_stack(base)?;
                let next = self.builder.load(&self.pipeline, next);
                let one = self.builder.bits(32, 1u8);
                Ok(RValue::Scalar(self.builder.binary(BinaryOp::Sub, next, one)))
            }
            ExprKind::Unary(op, operand) => self.eval_unary(*op, operand, expr),
            ExprKind::Binary(op, left, right) => self.eval_binary(*op, left, right, expr),
            ExprKind::Mux(cond, yes, no) => self.eval_mux(cond, yes, no, expr),
            ExprKind::Cast(operand) => {
                let val = self.eval_expr(operand)?;
                self.convert_value(val, operand.ty, expr.ty, expr.span)
            }
            ExprKind::Aggregate(items, order) => self.eval_aggregate(items, order, expr),
            ExprKind::InvalidHeader => Ok(RValue::Invalid(self.substitute_scope_params(expr.ty))),
            ExprKind::Default => Ok(self.default_value(expr.ty)),
            ExprKind::Call(call) => match &call.callee {
                Callee::SizeOf(measure, ty) => {
                    let size = ConstValue::Int(self.eval_size(*measure, *ty));
                    Ok(self.const_to_rvalue(&size, expr.ty))
                }
                _ => self.lower_call(call, expr.ty),
            },
            ExprKind::ApplyHit(table) => self.apply_hit(*table, expr.span).map(RValue::Scalar),
            ExprKind::ApplyMiss(table) => {
                let hit = self.apply_hit(*table, expr.span)?;
                Ok(RValue::Scalar(self.builder.logical_not(hit)))
            }
        }
    }

    /// Evaluates the struct, header, stack or list `expr` with the members `items`, in the order
    /// `order`. A member that refers to storage is copied if a later one has side effects, which
    /// could change it.
    fn eval_aggregate(&mut self, items: &[Expr], order: &EvalOrder, expr: &Expr) -> LowerResult<RValue> {
        let mut members = vec![RValue::Void; items.len()];
        let positions = order.positions(items.len());
        for (position, member_index) in positions.iter().copied().enumerate() {
            let item = &items[member_index];
            let mut member = self.eval_expr(item)?;
            let ty = self.member_type(expr.ty, member_index);
            if let (RValue::Int(_), TypeLayout::Scalar(_)) = (&member, self.layout(ty)) {
                member = RValue::Scalar(self.scalar_value(member, ty, item.span)?);
            }
            if holds_reference(&member)
                && !positions[position + 1..].iter().all(|later_index| is_pure(&items[*later_index]))
            {
                member = self.snapshot(member, item.ty, item.span)?;
            }
            members[member_index] = member;
        }
        let ty = self.substitute_scope_params(expr.ty);
        Ok(match self.layout(ty) {
            TypeLayout::Header(..) => RValue::Header(members.into()),
            TypeLayout::Stack(..) => RValue::Stack(members.into(), ty),
            _ => RValue::Struct(members.into()),
        })
    }

    fn eval_unary(&mut self, op: ast::UnaryOp, operand: &Expr, expr: &Expr) -> LowerResult<RValue> {
        if let Some(known @ ConstValue::Int(_)) = self.try_known_int(expr) {
            return Ok(self.const_to_rvalue(&known, expr.ty));
        }
        let value = self.eval_scalar(operand)?;
        let op = match op {
            ast::UnaryOp::Plus => return Ok(RValue::Scalar(value)),
            ast::UnaryOp::Neg => UnaryOp::Neg,
            ast::UnaryOp::BitNot => UnaryOp::Not,
            ast::UnaryOp::Not => UnaryOp::LogicalNot,
        };
        Ok(RValue::Scalar(self.builder.unary(op, value)))
    }

    /// Returns the known value of an expression of type `int`, because such expressions are never
    /// computed at run time.
    fn try_known_int(&mut self, expr: &Expr) -> Option<ConstValue> {
        if self.is_inf_int(expr.ty) { self.try_eval_const(expr) } else { None }
    }

    /// Evaluates the binary operator expression `expr`. Both sides get the same width first, except
    /// in shifts and `++`.
    fn eval_binary(&mut self, op: ast::BinaryOp, left: &Expr, right: &Expr, expr: &Expr) -> LowerResult<RValue> {
        if let Some(known) = self.try_known_int(expr) {
            return Ok(self.const_to_rvalue(&known, expr.ty));
        }
        if matches!(op, ast::BinaryOp::And | ast::BinaryOp::Or) {
            return self.eval_logical(op, left, right).map(RValue::Scalar);
        }
        let mut left_value = self.eval_expr(left)?;
        if holds_reference(&left_value) && !is_pure(right) {
            left_value = self.snapshot(left_value, left.ty, left.span)?;
        }
        let right_value = self.eval_expr(right)?;
        if matches!(op, ast::BinaryOp::Eq | ast::BinaryOp::Ne) {
            // An invalid header literal takes the type of the other side.
            let ty = if left.ty == Types::INT { right.ty } else { left.ty };
            let is_equal = self.emit_equal(&left_value, &right_value, ty, expr.span)?;
            let is_equal = if op == ast::BinaryOp::Ne { self.builder.logical_not(is_equal) } else { is_equal };
            return Ok(RValue::Scalar(is_equal));
        }
        let keeps_widths = matches!(op, ast::BinaryOp::Shl | ast::BinaryOp::Shr | ast::BinaryOp::Concat);
        let (left_value, right_value) =
            if keeps_widths { (left_value, right_value) } else { self.same_width(left_value, right_value) };
        let left_value = self.scalar_value(left_value, left.ty, left.span)?;
        let right_value = match (op, right_value) {
            (ast::BinaryOp::Shl | ast::BinaryOp::Shr, RValue::Int(n)) => {
                // A larger amount shifts out all bits as well.
                let bits = u32::try_from(&n).unwrap_or(u32::MAX);
                self.builder.bits(32, bits)
            }
            (_, right_value) => self.scalar_value(right_value, right.ty, right.span)?,
        };
        self.emit_binary(op, left_value, right_value, expr).map(RValue::Scalar)
    }

    /// Converts an operand of type `int` to the type of the other operand, or to the wider type if
    /// both are integers.
    fn same_width(&mut self, left: RValue, right: RValue) -> (RValue, RValue) {
        match (left, right) {
            (RValue::Int(n), RValue::Scalar(right)) => {
                let ty = self.builder.value_type(right);
                (RValue::Scalar(self.scalar_constant(ty, &n)), RValue::Scalar(right))
            }
            (RValue::Scalar(left), RValue::Int(n)) => {
                let ty = self.builder.value_type(left);
                (RValue::Scalar(left), RValue::Scalar(self.scalar_constant(ty, &n)))
            }
            (RValue::Scalar(left), RValue::Scalar(right)) => {
                let (left_ty, right_ty) = (self.builder.value_type(left), self.builder.value_type(right));
                match (left_ty, right_ty) {
                    // Only run-time numbers of type `int` can differ in width.
                    (ir::Type::Int(left_bits), ir::Type::Int(right_bits)) if left_bits < right_bits => {
                        (RValue::Scalar(self.builder.cast(right_ty, left)), RValue::Scalar(right))
                    }
                    (ir::Type::Int(left_bits), ir::Type::Int(right_bits)) if left_bits > right_bits => {
                        (RValue::Scalar(left), RValue::Scalar(self.builder.cast(left_ty, right)))
                    }
                    _ => (RValue::Scalar(left), RValue::Scalar(right)),
                }
            }
            (left, right) => (left, right),
        }
    }

    /// Lowers `&&` or `||`. The right side gets its own block if it has side effects.
    fn eval_logical(&mut self, op: ast::BinaryOp, left: &Expr, right: &Expr) -> LowerResult<Value> {
        let is_and = op == ast::BinaryOp::And;
        if let Some(known) = self.known_condition(left) {
            return if known == is_and { self.eval_scalar(right) } else { Ok(self.builder.bool(known)) };
        }
        let left_value = self.eval_scalar(left)?;
        if is_pure(right) {
            let right_value = self.eval_scalar(right)?;
            let op = if is_and { BinaryOp::And } else { BinaryOp::Or };
            return Ok(self.builder.binary(op, left_value, right_value));
        }
        let (right_block, join) = (self.builder.create_block(), self.builder.create_block());
        // The result of a skipped right side is the left value, passed as the block's argument.
        let result = self.builder.append_param(join, Type::Bool);
        let (to_join, to_right) = (Self::call_with_arg(join, left_value), BlockCall::to(right_block));
        if is_and {
            self.builder.branch_with(left_value, to_right, to_join)
        } else {
            self.builder.branch_with(left_value, to_join, to_right)
        }
        self.builder.switch_to(right_block);
        let right_value = self.eval_scalar(right)?;
        self.builder.jump_with(join, vec![right_value]);
        self.builder.switch_to(join);
        Ok(result)
    }

    /// Evaluates the conditional expression `expr`. Scalars without side effects become a select,
    /// because it needs no branch; other scalars a block parameter, and other values temporary
    /// storage.
    fn eval_mux(&mut self, cond: &Expr, yes: &Expr, no: &Expr, expr: &Expr) -> LowerResult<RValue> {
        if let Some(known) = self.try_known_int(expr) {
            return Ok(self.const_to_rvalue(&known, expr.ty));
        }
        if let Some(known) = self.known_condition(cond) {
            let side = if known { yes } else { no };
            let val = self.eval_expr(side)?;
            return self.convert_value(val, side.ty, expr.ty, expr.span);
        }
        let cond = self.eval_scalar(cond)?;
        if let TypeLayout::Scalar(ty) = self.layout(expr.ty) {
            if is_pure(yes) && is_pure(no) {
                let yes_value = self.eval_scalar(yes)?;
                let no_value = self.eval_scalar(no)?;
                return Ok(RValue::Scalar(self.builder.select(cond, yes_value, no_value)));
            }
            return self.emit_mux_blocks(cond, yes, no, ty).map(RValue::Scalar);
        }
        let storage = self.allocate_temporary("mux", expr.ty, expr.span)?;
        let (then_block, else_block, join) =
            (self.builder.create_block(), self.builder.create_block(), self.builder.create_block());
        self.builder.branch(cond, then_block, else_block);
        for (block, side) in [(then_block, yes), (else_block, no)] {
            self.builder.switch_to(block);
            let val = self.eval_expr(side)?;
            self.store_value(&storage, &val, side.span)?;
            self.builder.jump(join);
        }
        self.builder.switch_to(join);
        Ok(self.read_storage(&storage))
    }

    fn emit_mux_blocks(&mut self, cond: Value, yes: &Expr, no: &Expr, ty: Type) -> LowerResult<Value> {
        let (then, els, join) = (self.builder.create_block(), self.builder.create_block(), self.builder.create_block());
        let result = self.builder.append_param(join, ty);
        self.builder.branch(cond, then, els);
        for (block, side) in [(then, yes), (els, no)] {
            self.builder.switch_to(block);
            let value = self.eval_scalar(side)?;
            self.builder.jump_with(join, vec![value]);
        }
        self.builder.switch_to(join);
        Ok(result)
    }
}
