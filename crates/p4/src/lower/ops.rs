//! Operators on scalars, and conversions.

use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::Val;
use crate::ast;
use crate::hir::{Expr, Ty};
use crate::span::Span;
use ir::{BinaryOp, Type, Value};

/// How many bits wider than its operand the result of a cast to `int` is.
const RUNTIME_INT_MARGIN: u32 = 64;

impl Lower<'_> {
    /// An operator on two scalars.
    pub(super) fn emit_binary(&mut self, op: ast::BinaryOp, a: Value, b: Value, expr: &Expr) -> Res<Value> {
        use ast::BinaryOp as Ast;
        let op = match op {
            Ast::Concat => return Ok(self.b.concat(a, b)),
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
        Ok(self.b.binary(op, a, b))
    }

    /// The bits as `bit<W>`.
    pub(super) fn unsigned(&mut self, value: Value) -> Value {
        let width = self.b.value_type(value).width();
        self.b.cast(Type::Bit(width), value)
    }

    /// A value in another type.
    pub(super) fn convert(&mut self, val: Val, from: Ty, to: Ty, span: Span) -> Res<Val> {
        match self.shape(to) {
            Shape::Scalar(ty) => match val {
                Val::Int(n) if ty == Type::Bool => Ok(Val::Scalar(self.b.bool(n.bit(0)))),
                Val::Int(n) => Ok(Val::Scalar(self.constant(ty, &n))),
                // A struct of one field converts to its type (specification, section "Casts").
                Val::Struct(parts) if parts.len() == 1 => {
                    let from = self.member_type(from, 0);
                    self.convert(parts[0].clone(), from, to, span)
                }
                val => {
                    let value = self.scalar_value(val, from, span)?;
                    Ok(Val::Scalar(self.b.cast(ty, value)))
                }
            },
            Shape::Struct(members) => match val {
                Val::Struct(parts) => {
                    let types: Vec<Ty> = members.iter().map(|m| m.ty).collect();
                    Ok(Val::Struct(self.convert_parts(&parts, from, &types, span)?.into()))
                }
                other => Ok(other),
            },
            Shape::Header(_, members) => match val {
                Val::Struct(parts) | Val::Header(parts) => {
                    let types: Vec<Ty> = members.iter().map(|m| m.ty).collect();
                    Ok(Val::Header(self.convert_parts(&parts, from, &types, span)?.into()))
                }
                Val::Invalid(_) => Ok(Val::Invalid(self.ty(to))),
                other => Ok(other),
            },
            Shape::Stack(of, _) => match val {
                Val::Struct(parts) | Val::Stack(parts, _) => {
                    let types = vec![of; parts.len()];
                    let to = self.ty(to);
                    Ok(Val::Stack(self.convert_parts(&parts, from, &types, span)?.into(), to))
                }
                other => Ok(other),
            },
            Shape::Union(_) => match val {
                Val::Invalid(_) => Ok(Val::Invalid(self.ty(to))),
                other => Ok(other),
            },
            Shape::Known if self.is_inf_int(to) => match val {
                // A number of type `int` that is only known at run time: wide enough that no program sees an end of it.
                Val::Scalar(value) => {
                    let width = self.b.value_type(value).width().saturating_add(RUNTIME_INT_MARGIN).min(ir::MAX_WIDTH);
                    Ok(Val::Scalar(self.b.cast(Type::Int(width), value)))
                }
                other => Ok(other),
            },
            _ => Ok(val),
        }
    }

    fn convert_parts(&mut self, parts: &[Val], from: Ty, to: &[Ty], span: Span) -> Res<Vec<Val>> {
        let mut converted = Vec::with_capacity(parts.len());
        for (n, (part, to)) in parts.iter().zip(to).enumerate() {
            let from = self.member_type(from, n);
            converted.push(self.convert(part.clone(), from, *to, span)?);
        }
        Ok(converted)
    }
}
