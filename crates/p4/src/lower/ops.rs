//! Lowers operators on scalars, and conversions.

use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::RValue;
use crate::ast;
use crate::hir::{Expr, Ty};
use crate::span::Span;
use ir::{BinaryOp, Type, Value};

/// Extra width in bits of the result of a cast to `int`.
const RUNTIME_INT_MARGIN: u32 = 64;

impl Lowering<'_> {
    /// Emits an operator on two scalars, which have the same type except in shifts and `++`. `expr`
    /// is the whole expression, for errors.
    pub(super) fn emit_binary(&mut self, op: ast::BinaryOp, a: Value, b: Value, expr: &Expr) -> LowerResult<Value> {
        use ast::BinaryOp as Ast;
        let op = match op {
            Ast::Concat => return Ok(self.builder.concat(a, b)),
            Ast::Mul => BinaryOp::Mul,
            Ast::Div => BinaryOp::Div,
            Ast::Mod => BinaryOp::Mod,
            Ast::Add => BinaryOp::Add,
            Ast::Sub => BinaryOp::Sub,
            Ast::AddSat => BinaryOp::AddSat,
            Ast::SubSat => BinaryOp::SubSat,
            Ast::Shl => BinaryOp::Shl,
            Ast::Shr => BinaryOp::Shr,
            Ast::Lt => BinaryOp::Lt,
            Ast::Le => BinaryOp::Le,
            Ast::Gt => BinaryOp::Gt,
            Ast::Ge => BinaryOp::Ge,
            Ast::Eq => BinaryOp::Eq,
            Ast::Ne => BinaryOp::Ne,
            Ast::BitAnd | Ast::And => BinaryOp::And,
            Ast::BitOr | Ast::Or => BinaryOp::Or,
            Ast::BitXor => BinaryOp::Xor,
            Ast::Mask | Ast::Range => return self.unsupported(expr.span, "a set as a value"),
        };
        let b = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { self.unsigned(b) } else { b };
        Ok(self.builder.binary(op, a, b))
    }

    /// Casts a scalar to `bit<W>`.
    pub(super) fn unsigned(&mut self, value: Value) -> Value {
        let width = self.builder.value_type(value).width();
        self.builder.cast(Type::Bit(width), value)
    }

    /// Converts the value `val` of type `from` to the type `to`, member by member for structs,
    /// headers and stacks. The checker has accepted the conversion.
    pub(super) fn convert_value(&mut self, val: RValue, from: Ty, to: Ty, span: Span) -> LowerResult<RValue> {
        match self.layout(to) {
            TypeLayout::Scalar(ty) => match val {
                RValue::Int(n) if ty == Type::Bool => Ok(RValue::Scalar(self.builder.bool(n.bit(0)))),
                RValue::Int(n) => Ok(RValue::Scalar(self.scalar_constant(ty, &n))),
                // A struct of one field converts to the type of the field (specification, section
                // "Casts").
                RValue::Struct(parts) if parts.len() == 1 => {
                    let from = self.member_type(from, 0);
                    self.convert_value(parts[0].clone(), from, to, span)
                }
                val => {
                    let value = self.scalar_value(val, from, span)?;
                    Ok(RValue::Scalar(self.builder.cast(ty, value)))
                }
            },
            TypeLayout::Struct(members) => match val {
                RValue::Struct(parts) => {
                    let types: Vec<Ty> = members.iter().map(|m| m.ty).collect();
                    Ok(RValue::Struct(self.convert_parts(&parts, from, &types, span)?.into()))
                }
                other => Ok(other),
            },
            TypeLayout::Header(_, members) => match val {
                RValue::Struct(parts) | RValue::Header(parts) => {
                    let types: Vec<Ty> = members.iter().map(|m| m.ty).collect();
                    Ok(RValue::Header(self.convert_parts(&parts, from, &types, span)?.into()))
                }
                RValue::Invalid(_) => Ok(RValue::Invalid(self.substitute_scope_params(to))),
                other => Ok(other),
            },
            TypeLayout::Stack(element_ty, _) => match val {
                RValue::Struct(parts) | RValue::Stack(parts, _) => {
                    let types = vec![element_ty; parts.len()];
                    let to = self.substitute_scope_params(to);
                    Ok(RValue::Stack(self.convert_parts(&parts, from, &types, span)?.into(), to))
                }
                other => Ok(other),
            },
            TypeLayout::Union(_) => match val {
                RValue::Invalid(_) => Ok(RValue::Invalid(self.substitute_scope_params(to))),
                other => Ok(other),
            },
            TypeLayout::CompileTime if self.is_inf_int(to) => match val {
                // A run-time number of type `int`: wide enough that overflow is not observable.
                RValue::Scalar(value) => {
                    let width =
                        self.builder.value_type(value).width().saturating_add(RUNTIME_INT_MARGIN).min(ir::MAX_WIDTH);
                    Ok(RValue::Scalar(self.builder.cast(Type::Int(width), value)))
                }
                other => Ok(other),
            },
            _ => Ok(val),
        }
    }

    fn convert_parts(&mut self, parts: &[RValue], from: Ty, to: &[Ty], span: Span) -> LowerResult<Vec<RValue>> {
        let mut converted = Vec::with_capacity(parts.len());
        for (n, (part, to)) in parts.iter().zip(to).enumerate() {
            let from = self.member_type(from, n);
            converted.push(self.convert_value(part.clone(), from, *to, span)?);
        }
        Ok(converted)
    }
}
