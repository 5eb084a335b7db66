//! Constant folding of operators on literals.

use super::Checker;
use crate::ast::{BinaryOp, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind};
use crate::span::Span;
use num_bigint::{BigInt, Sign};
use num_traits::{Signed, ToPrimitive, Zero};

/// Limit of shifts of arbitrary-precision integers, in bits.
const MAX_SHIFT: u32 = 65_536;

/// Returns the low `width` bits of `value` as a non-negative number.
pub(super) fn wrap_unsigned(value: &BigInt, width: u32) -> BigInt {
    let modulus = BigInt::from(1) << width;
    let rest = value % &modulus;
    if rest.is_negative() { rest + modulus } else { rest }
}

/// Returns the low `width` bits of `value` as two's complement.
pub(super) fn wrap_signed(value: &BigInt, width: u32) -> BigInt {
    let bits = wrap_unsigned(value, width);
    if width > 0 && bits.bit(u64::from(width) - 1) { bits - (BigInt::from(1) << width) } else { bits }
}

/// Returns the smallest and largest value of a type of `width` bits.
pub(super) fn type_bounds(width: u32, signed: bool) -> (BigInt, BigInt) {
    let one = BigInt::from(1);
    match (signed, width) {
        (false, _) => (BigInt::zero(), (one << width) - 1),
        (true, 0) => (BigInt::zero(), BigInt::zero()),
        (true, _) => (-(BigInt::from(1) << (width - 1)), (one << (width - 1)) - 1),
    }
}

impl Checker<'_> {
    /// Truncates the value to the width of the type.
    pub(super) fn truncate_to_type(&self, value: &BigInt, ty: Ty) -> BigInt {
        match self.type_kind(ty) {
            TyKind::Bit(w) => wrap_unsigned(value, *w),
            TyKind::Int(w) => wrap_signed(value, *w),
            TyKind::NewType(id) => self.truncate_to_type(value, self.prog.newtypes[id.index()].of),
            TyKind::Enum(id) => match self.prog.enums[id.index()].underlying {
                Some(under) => self.truncate_to_type(value, under),
                None => value.clone(),
            },
            _ => value.clone(),
        }
    }

    /// Truncates the value to the width of the type and warns if that changes it.
    pub(super) fn truncate_or_warn(&mut self, value: &BigInt, ty: Ty, span: Span) -> BigInt {
        let cut = self.truncate_to_type(value, ty);
        if cut == *value {
            return cut;
        }
        let shown = self.type_text(ty);
        let warning = if value.sign() == Sign::Minus && matches!(self.type_kind(ty), TyKind::Bit(_)) {
            format!("negative value {value} in the unsigned type `{shown}` becomes {cut}")
        } else {
            format!("value {value} does not fit in `{shown}` and becomes {cut}")
        };
        self.report(Diagnostic::warning("overflow", span, warning));
        cut
    }

    /// Folds a unary operator on a literal.
    pub(super) fn fold_unary(&mut self, op: UnaryOp, operand: Expr, span: Span) -> Expr {
        let ty = operand.ty;
        let kind = match (&operand.kind, op) {
            (ExprKind::Bool(b), UnaryOp::Not) => ExprKind::Bool(!b),
            (ExprKind::Int(v), UnaryOp::Neg) => ExprKind::Int(self.truncate_to_type(&-v, ty)),
            (ExprKind::Int(v), UnaryOp::BitNot) => ExprKind::Int(self.truncate_to_type(&!v, ty)),
            _ => ExprKind::Unary(op, Box::new(operand)),
        };
        Expr { kind, ty, span }
    }

    /// Folds a binary operator on literals; `ty` is the type of the result. Returns the operator
    /// expression if it cannot be folded.
    pub(super) fn fold_binary(&mut self, op: BinaryOp, left: Expr, right: Expr, ty: Ty, span: Span) -> Expr {
        let folded = match (&left.kind, &right.kind) {
            (ExprKind::Int(a), ExprKind::Int(b)) => {
                let (a, b) = (a.clone(), b.clone());
                self.fold_ints(op, &a, &b, (left.ty, right.ty, ty), span)
            }
            (ExprKind::Bool(a), ExprKind::Bool(b)) => fold_bools(op, *a, *b),
            (ExprKind::Bool(false), _) if op == BinaryOp::And => Some(ExprKind::Bool(false)),
            (ExprKind::Bool(true), _) if op == BinaryOp::Or => Some(ExprKind::Bool(true)),
            (ExprKind::Str(a), ExprKind::Str(b)) if op == BinaryOp::Concat => {
                let fits = self.check_string_size(a.len() + b.len(), span);
                Some(ExprKind::Str(if fits { format!("{a}{b}").into() } else { a.clone() }))
            }
            (a, b) if matches!(op, BinaryOp::Eq | BinaryOp::Ne) => {
                same_constant(a, b).map(|equal| ExprKind::Bool(equal == (op == BinaryOp::Eq)))
            }
            _ => None,
        };
        match folded {
            Some(kind) => Expr { kind, ty, span },
            None => Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), ty, span },
        }
    }

    /// Folds an operator on two integers. `tys` are the types of the left operand, the right
    /// operand and the result. Returns `None` if the operator is not for integers or its result is
    /// not known, such as after a division by zero.
    fn fold_ints(&mut self, op: BinaryOp, a: &BigInt, b: &BigInt, tys: (Ty, Ty, Ty), span: Span) -> Option<ExprKind> {
        use BinaryOp::*;
        let (left_ty, right_ty, ty) = tys;
        let value = match op {
            Lt => return Some(ExprKind::Bool(a < b)),
            Le => return Some(ExprKind::Bool(a <= b)),
            Gt => return Some(ExprKind::Bool(a > b)),
            Ge => return Some(ExprKind::Bool(a >= b)),
            Eq => return Some(ExprKind::Bool(a == b)),
            Ne => return Some(ExprKind::Bool(a != b)),
            Mul => a * b,
            Add => a + b,
            Sub => a - b,
            Div => a / non_zero(b)?,
            Mod => a % non_zero(b)?,
            BitAnd => a & b,
            BitOr => a | b,
            BitXor => a ^ b,
            AddSat => self.saturate(a + b, ty),
            SubSat => self.saturate(a - b, ty),
            Shl | Shr => self.fold_shift(op, a, b, ty, span)?,
            Concat => {
                let (left_bits, right_bits) = (self.width_bits(left_ty)?, self.width_bits(right_ty)?);
                (wrap_unsigned(a, left_bits) << right_bits) | wrap_unsigned(b, right_bits)
            }
            And | Or | Mask | Range => return None,
        };
        if !self.check_int_size(&value, span) {
            return Some(ExprKind::Int(BigInt::zero()));
        }
        // Only these lose bits by mistake; the others cannot leave the type or do so on purpose.
        let value = if matches!(op, Add | Sub | Mul) {
            self.truncate_or_warn(&value, ty, span)
        } else {
            self.truncate_to_type(&value, ty)
        };
        Some(ExprKind::Int(value))
    }

    fn saturate(&self, value: BigInt, ty: Ty) -> BigInt {
        let (lo, hi) = match self.type_kind(ty) {
            TyKind::Bit(w) => type_bounds(*w, false),
            TyKind::Int(w) => type_bounds(*w, true),
            _ => return value,
        };
        value.clamp(lo, hi)
    }

    fn fold_shift(&mut self, op: BinaryOp, a: &BigInt, b: &BigInt, ty: Ty, span: Span) -> Option<BigInt> {
        let width = self.width_bits(ty);
        let amount = b.to_u32().unwrap_or(u32::MAX);
        if op == BinaryOp::Shr {
            return Some(a >> amount.min(a.bits().min(u64::from(u32::MAX)) as u32 + 1));
        }
        let limit = width.unwrap_or(MAX_SHIFT);
        if amount > limit && width.is_none() {
            self.fail("shift", span, format!("a shift by {b} is not supported; the limit is {MAX_SHIFT}"));
            return Some(BigInt::zero());
        }
        Some(a << amount.min(limit))
    }

    /// Returns the width in bits of a type with fixed width, looking through `type` and enums.
    pub(super) fn width_bits(&self, ty: Ty) -> Option<u32> {
        match self.type_kind(ty) {
            TyKind::Bit(w) | TyKind::Int(w) => Some(*w),
            TyKind::NewType(id) => self.width_bits(self.prog.newtypes[id.index()].of),
            TyKind::Enum(id) => self.width_bits(self.prog.enums[id.index()].underlying?),
            _ => None,
        }
    }
}

fn non_zero(value: &BigInt) -> Option<&BigInt> {
    (!value.is_zero()).then_some(value)
}

fn fold_bools(op: BinaryOp, a: bool, b: bool) -> Option<ExprKind> {
    Some(ExprKind::Bool(match op {
        BinaryOp::And => a && b,
        BinaryOp::Or => a || b,
        BinaryOp::Eq => a == b,
        BinaryOp::Ne => a != b,
        _ => return None,
    }))
}

/// Returns whether two constants are equal; `None` if one of them is not a constant.
pub(super) fn same_constant(a: &ExprKind, b: &ExprKind) -> Option<bool> {
    match (a, b) {
        (ExprKind::Int(a), ExprKind::Int(b)) => Some(a == b),
        (ExprKind::Bool(a), ExprKind::Bool(b)) => Some(a == b),
        (ExprKind::Str(a), ExprKind::Str(b)) => Some(a == b),
        (ExprKind::Error(a), ExprKind::Error(b)) => Some(a == b),
        (ExprKind::MatchKind(a), ExprKind::MatchKind(b)) => Some(a == b),
        (ExprKind::EnumMember(x, a), ExprKind::EnumMember(y, b)) => Some(x == y && a == b),
        (ExprKind::Aggregate(xs, _), ExprKind::Aggregate(ys, _)) if xs.len() == ys.len() => {
            let mut equal = true;
            for (x, y) in xs.iter().zip(ys) {
                equal &= same_constant(&x.kind, &y.kind)?;
            }
            Some(equal)
        }
        (ExprKind::InvalidHeader, ExprKind::InvalidHeader) => Some(true),
        _ => None,
    }
}
