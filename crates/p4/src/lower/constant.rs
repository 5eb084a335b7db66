//! Evaluates compile-time known values: numbers, enumeration members, objects.

use super::const_value::{ConstValue, InstanceName, ObjectInstanceId};
use super::frame::Binding;
use super::lowering::{LowerResult, Lowering};
use super::type_layout::TypeLayout;
use super::value::{RValue, wrap_to_width};
use crate::ast::{BinaryOp, UnaryOp};
use crate::hir::{Callee, Expr, ExprKind, SizeOf, Ty, TyKind};
use crate::span::Span;
use ir::{Const, Type};
use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, ToPrimitive, Zero};

/// Largest evaluated shift of a number of type `int`, in bits.
const MAX_SHIFT: u32 = 1 << 16;

impl Lowering<'_> {
    /// Returns the compile-time known value of an expression; `None` without an error if it has
    /// none.
    pub(super) fn try_eval_const(&mut self, expr: &Expr) -> Option<ConstValue> {
        Some(match &expr.kind {
            ExprKind::Int(n) => ConstValue::Int(n.clone()),
            ExprKind::Bool(b) => ConstValue::Bool(*b),
            ExprKind::Str(text) => ConstValue::Text(text.clone()),
            ExprKind::Error(n) => ConstValue::Error(*n),
            ExprKind::EnumMember(id, n) => ConstValue::Enum(*id, *n),
            ExprKind::Local(id) => {
                if let Some(Binding::Const(constant)) = &self.locals[id.index()] {
                    return Some(constant.clone());
                }
                self.objects[self.current_object.index()].arguments.get(id).cloned()?
            }
            ExprKind::Aggregate(items, _) => {
                ConstValue::Tuple(items.iter().map(|e| self.try_eval_const(e)).collect::<Option<Vec<_>>>()?.into())
            }
            ExprKind::Field(base, n) => match self.try_eval_const(base)? {
                ConstValue::Tuple(items) => items.get(*n).cloned()?,
                _ => return None,
            },
            ExprKind::Default => self.known_default(expr.ty)?,
            ExprKind::Cast(operand) => {
                let constant = self.try_eval_const(operand)?;
                self.known_cast(constant, expr.ty)?
            }
            ExprKind::Unary(op, operand) => {
                let constant = self.try_eval_const(operand)?;
                self.known_unary(*op, constant, expr.ty)?
            }
            ExprKind::Binary(op, left, right) => {
                let (a, b) = (self.try_eval_const(left)?, self.try_eval_const(right)?);
                self.known_binary(*op, a, b, expr.ty)?
            }
            ExprKind::Mux(cond, yes, no) => match self.try_eval_const(cond)? {
                ConstValue::Bool(true) => self.try_eval_const(yes)?,
                ConstValue::Bool(false) => self.try_eval_const(no)?,
                _ => return None,
            },
            ExprKind::Slice { base, hi, lo } => {
                let n = self.try_eval_int(base)?;
                let mask = (BigInt::from(1) << (hi - lo + 1)) - 1;
                ConstValue::Int((n >> *lo) & mask)
            }
            ExprKind::Call(call) => match &call.callee {
                Callee::SizeOf(which, ty) => ConstValue::Int(self.eval_size(*which, *ty)),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Returns the known integer of an expression. Includes members of enumerations with an
    /// underlying type.
    pub(super) fn try_eval_int(&mut self, expr: &Expr) -> Option<BigInt> {
        match self.try_eval_const(expr)? {
            ConstValue::Int(n) => Some(n),
            ConstValue::Enum(id, n) => self.hir.enums[id.index()].members.get(n)?.1.clone(),
            ConstValue::Bool(b) => Some(BigInt::from(u8::from(b))),
            _ => None,
        }
    }

    /// Returns the known value of a constructor argument. `naming` names objects created for it.
    pub(super) fn eval_constructor_arg(&mut self, expr: &Expr, naming: &InstanceName) -> LowerResult<ConstValue> {
        match &expr.kind {
            ExprKind::Construct(construct) => self.instantiate(construct, naming),
            ExprKind::Instance(id) => self.resolve_instance(*id),
            ExprKind::Aggregate(items, _) => {
                let items =
                    items.iter().map(|e| self.eval_constructor_arg(e, naming)).collect::<LowerResult<Vec<_>>>()?;
                Ok(ConstValue::Tuple(items.into()))
            }
            _ => match self.try_eval_const(expr) {
                Some(known) => Ok(known),
                None => self.error("not-constant", expr.span, "this value is not known at compile time"),
            },
        }
    }

    /// Returns a known number of at most 64 bits; reports an error otherwise.
    pub(super) fn eval_u64(&mut self, expr: &Expr) -> LowerResult<u64> {
        match self.try_eval_int(expr).and_then(|n| n.to_u64()) {
            Some(n) => Ok(n),
            None => self.error(
                "not-constant",
                expr.span,
                "this must be a number of at most 64 bits that is known at compile time",
            ),
        }
    }

    /// Returns a known scalar as bits of its type.
    pub(super) fn eval_bits(&mut self, expr: &Expr, ty: Type) -> LowerResult<BigUint> {
        let bits = match self.try_eval_const(expr) {
            Some(known) => self.const_bits(&known, ty),
            None => None,
        };
        match bits {
            Some(bits) => Ok(bits),
            None => self.error("not-constant", expr.span, "this value is not known at compile time"),
        }
    }

    /// Returns the bits of a known scalar in the given type.
    pub(super) fn const_bits(&self, known: &ConstValue, ty: Type) -> Option<BigUint> {
        Some(match known {
            ConstValue::Int(n) => wrap_to_width(n, ty.width()),
            ConstValue::Bool(b) => BigUint::from(u8::from(*b)),
            ConstValue::Error(n) => {
                let name = self.hir.errors.get(*n)?;
                BigUint::from(self.pipeline.errors.iter().position(|e| **e == **name)?)
            }
            ConstValue::Enum(id, n) => match self.hir.enums[id.index()].members.get(*n) {
                Some((_, Some(value))) => wrap_to_width(value, ty.width()),
                _ => BigUint::from(*n),
            },
            _ => return None,
        })
    }

    /// Converts the known value `constant` to the value of an expression of type `ty`. Objects and
    /// other values without run-time representation give [`RValue::Object`].
    pub(super) fn const_to_rvalue(&mut self, constant: &ConstValue, ty: Ty) -> RValue {
        match (constant, self.types.kind(ty)) {
            (ConstValue::Int(n), TyKind::InfInt) => return RValue::Int(n.clone()),
            (ConstValue::Text(text), _) => return RValue::Text(text.clone()),
            (ConstValue::Tuple(items), _) => {
                let parts = items.iter().enumerate().map(|(n, item)| {
                    let ty = self.member_type(ty, n);
                    self.const_to_rvalue(item, ty)
                });
                return RValue::Struct(parts.collect());
            }
            _ => {}
        }
        if let TypeLayout::Scalar(scalar) = self.layout(ty)
            && let Some(bits) = self.const_bits(constant, scalar)
        {
            return RValue::Scalar(self.builder.constant(Const::new(scalar, bits)));
        }
        RValue::Object
    }

    fn known_default(&mut self, ty: Ty) -> Option<ConstValue> {
        let ty = self.substitute_scope_params(ty);
        Some(match self.types.kind(ty) {
            TyKind::Bool => ConstValue::Bool(false),
            TyKind::Bit(_) | TyKind::Int(_) | TyKind::InfInt => ConstValue::Int(BigInt::zero()),
            TyKind::Error => ConstValue::Error(0),
            TyKind::Enum(id) => match self.hir.enums[id.index()].underlying {
                Some(_) => ConstValue::Int(BigInt::zero()),
                None => ConstValue::Enum(*id, 0),
            },
            TyKind::NewType(_) => self.known_default(self.behind_new_types(ty))?,
            _ => return None,
        })
    }

    /// Returns a known value cast to `ty`. Numbers are truncated to the width; `None` if a number
    /// is needed and the value is none.
    fn known_cast(&mut self, constant: ConstValue, ty: Ty) -> Option<ConstValue> {
        let ty = self.substitute_scope_params(ty);
        let as_number = |lower: &Self| match &constant {
            ConstValue::Int(n) => Some(n.clone()),
            ConstValue::Bool(b) => Some(BigInt::from(u8::from(*b))),
            ConstValue::Enum(id, n) => lower.hir.enums[id.index()].members.get(*n)?.1.clone(),
            _ => None,
        };
        match self.types.kind(ty).clone() {
            TyKind::Bit(width) => Some(ConstValue::Int(fit_to_width(as_number(self)?, width, false))),
            TyKind::Int(width) => Some(ConstValue::Int(fit_to_width(as_number(self)?, width, true))),
            TyKind::InfInt => Some(ConstValue::Int(as_number(self)?)),
            TyKind::Bool => Some(ConstValue::Bool(!as_number(self)?.is_zero())),
            TyKind::NewType(_) => self.known_cast(constant, self.behind_new_types(ty)),
            TyKind::Enum(id) => match (&constant, self.hir.enums[id.index()].underlying) {
                (ConstValue::Int(_), Some(underlying_ty)) => self.known_cast(constant, underlying_ty),
                _ => Some(constant),
            },
            _ => Some(constant),
        }
    }

    fn known_unary(&mut self, op: UnaryOp, known: ConstValue, ty: Ty) -> Option<ConstValue> {
        Some(match (op, known) {
            (UnaryOp::Not, ConstValue::Bool(b)) => ConstValue::Bool(!b),
            (UnaryOp::BitNot, ConstValue::Int(n)) => self.truncate_const(-n - 1, ty),
            (UnaryOp::Neg, ConstValue::Int(n)) => self.truncate_const(-n, ty),
            (UnaryOp::Plus, known) => known,
            _ => return None,
        })
    }

    /// Truncates a number to the range of its type.
    fn truncate_const(&mut self, n: BigInt, ty: Ty) -> ConstValue {
        let ty = self.substitute_scope_params(ty);
        ConstValue::Int(match self.types.kind(ty) {
            TyKind::Bit(w) => fit_to_width(n, *w, false),
            TyKind::Int(w) => fit_to_width(n, *w, true),
            _ => n,
        })
    }

    /// Returns the result of a binary operator on known values, in the type `ty`. `None` if it is
    /// not known: other operands, a division by zero or a negative number, a huge shift or result.
    fn known_binary(&mut self, op: BinaryOp, a: ConstValue, b: ConstValue, ty: Ty) -> Option<ConstValue> {
        use BinaryOp::*;
        let (a, b) = match (a, b) {
            (ConstValue::Int(a), ConstValue::Int(b)) => (a, b),
            (ConstValue::Bool(a), ConstValue::Bool(b)) => {
                return Some(ConstValue::Bool(match op {
                    And => a && b,
                    Or => a || b,
                    Eq => a == b,
                    Ne => a != b,
                    _ => return None,
                }));
            }
            (ConstValue::Enum(x, a), ConstValue::Enum(y, b)) if x == y => {
                return match op {
                    Eq => Some(ConstValue::Bool(a == b)),
                    Ne => Some(ConstValue::Bool(a != b)),
                    _ => None,
                };
            }
            _ => return None,
        };
        // Limits keep constant evaluation from using all memory.
        let shift = b.to_u32().filter(|b| *b <= MAX_SHIFT);
        let result = match op {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            Div if b.is_positive() => a / b,
            Mod if b.is_positive() => a % b,
            Shl => a << shift?,
            Shr => a >> shift?,
            BitAnd => a & b,
            BitOr => a | b,
            BitXor => a ^ b,
            Eq => return Some(ConstValue::Bool(a == b)),
            Ne => return Some(ConstValue::Bool(a != b)),
            Lt => return Some(ConstValue::Bool(a < b)),
            Le => return Some(ConstValue::Bool(a <= b)),
            Gt => return Some(ConstValue::Bool(a > b)),
            Ge => return Some(ConstValue::Bool(a >= b)),
            _ => return None,
        };
        (result.bits() <= u64::from(ir::MAX_WIDTH)).then(|| self.truncate_const(result, ty))
    }

    /// Evaluates `minSizeInBits()` or a related method.
    pub(super) fn eval_size(&mut self, which: SizeOf, ty: Ty) -> BigInt {
        let (least, greatest) = self.size_in_bits(ty);
        BigInt::from(match which {
            SizeOf::MinBits => least,
            SizeOf::MaxBits => greatest,
            SizeOf::MinBytes => least.div_ceil(8),
            SizeOf::MaxBytes => greatest.div_ceil(8),
        })
    }

    /// Returns the object that a known value refers to.
    pub(super) fn known_object(&mut self, known: &ConstValue, span: Span) -> LowerResult<ObjectInstanceId> {
        match known {
            ConstValue::Object(id) => Ok(*id),
            _ => self.unsupported(span, "applying this"),
        }
    }
}

/// Returns the number modulo 2^width, in the range of a signed or unsigned type.
fn fit_to_width(n: BigInt, width: u32, signed: bool) -> BigInt {
    let bits = BigInt::from(wrap_to_width(&n, width));
    if signed && width > 0 && bits.bit(u64::from(width) - 1) { bits - (BigInt::from(1) << width) } else { bits }
}
