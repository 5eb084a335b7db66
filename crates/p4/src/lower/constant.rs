//! What is known when the program is instantiated: numbers, enumeration members, objects.

use super::frame::Binding;
use super::known::{Known, Naming, ObjectId};
use super::lowering::{Lower, Res};
use super::shape::Shape;
use super::value::{Val, wrap};
use crate::ast::{BinaryOp, UnaryOp};
use crate::hir::{Callee, Expr, ExprKind, SizeOf, Ty, TyKind};
use crate::span::Span;
use ir::{Const, Type};
use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, ToPrimitive, Zero};

/// Greatest shift of a number of type `int` that is computed.
const MAX_SHIFT: u32 = 1 << 16;

impl Lower<'_> {
    /// The known value of an expression, without complaint if there is none.
    pub(super) fn try_known(&mut self, expr: &Expr) -> Option<Known> {
        Some(match &expr.kind {
            ExprKind::Int(n) => Known::Int(n.clone()),
            ExprKind::Bool(b) => Known::Bool(*b),
            ExprKind::Str(text) => Known::Text(text.clone()),
            ExprKind::Error(n) => Known::Error(*n),
            ExprKind::EnumMember(id, n) => Known::Enum(*id, *n),
            ExprKind::Local(id) => {
                if let Some(Binding::Known(known)) = &self.locals[id.index()] {
                    return Some(known.clone());
                }
                self.objects[self.this.index()].arguments.get(id).cloned()?
            }
            ExprKind::Aggregate(items, _) => {
                Known::Tuple(items.iter().map(|e| self.try_known(e)).collect::<Option<Vec<_>>>()?.into())
            }
            ExprKind::Field(base, n) => match self.try_known(base)? {
                Known::Tuple(items) => items.get(*n).cloned()?,
                _ => return None,
            },
            ExprKind::Default => self.known_default(expr.ty)?,
            ExprKind::Cast(operand) => {
                let known = self.try_known(operand)?;
                self.known_cast(known, expr.ty)?
            }
            ExprKind::Unary(op, operand) => {
                let known = self.try_known(operand)?;
                self.known_unary(*op, known, expr.ty)?
            }
            ExprKind::Binary(op, left, right) => {
                let (a, b) = (self.try_known(left)?, self.try_known(right)?);
                self.known_binary(*op, a, b, expr.ty)?
            }
            ExprKind::Mux(cond, yes, no) => match self.try_known(cond)? {
                Known::Bool(true) => self.try_known(yes)?,
                Known::Bool(false) => self.try_known(no)?,
                _ => return None,
            },
            ExprKind::Slice { base, hi, lo } => {
                let n = self.known_int(base)?;
                let mask = (BigInt::from(1) << (hi - lo + 1)) - 1;
                Known::Int((n >> *lo) & mask)
            }
            ExprKind::Call(call) => match &call.callee {
                Callee::SizeOf(which, ty) => Known::Int(self.size_of(*which, *ty)),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// The known integer of an expression: numbers and members of enumerations with an underlying type.
    pub(super) fn known_int(&mut self, expr: &Expr) -> Option<BigInt> {
        match self.try_known(expr)? {
            Known::Int(n) => Some(n),
            Known::Enum(id, n) => self.hir.enums[id.index()].members.get(n)?.1.clone(),
            Known::Bool(b) => Some(BigInt::from(u8::from(b))),
            _ => None,
        }
    }

    /// The known value of an argument of a constructor; names what is made for it.
    pub(super) fn known(&mut self, expr: &Expr, naming: &Naming) -> Res<Known> {
        match &expr.kind {
            ExprKind::Construct(construct) => self.construct(construct, naming),
            ExprKind::Instance(id) => self.instance(*id),
            ExprKind::Aggregate(items, _) => {
                let items = items.iter().map(|e| self.known(e, naming)).collect::<Res<Vec<_>>>()?;
                Ok(Known::Tuple(items.into()))
            }
            _ => match self.try_known(expr) {
                Some(known) => Ok(known),
                None => self.error("not-constant", expr.span, "this value is not known at compile time"),
            },
        }
    }

    /// A known number that must fit 64 bits.
    pub(super) fn known_u64(&mut self, expr: &Expr) -> Res<u64> {
        match self.known_int(expr).and_then(|n| n.to_u64()) {
            Some(n) => Ok(n),
            None => self.error(
                "not-constant",
                expr.span,
                "this must be a number of at most 64 bits that is known at compile time",
            ),
        }
    }

    /// A known scalar as bits of its type.
    pub(super) fn known_bits(&mut self, expr: &Expr, ty: Type) -> Res<BigUint> {
        let bits = match self.try_known(expr) {
            Some(known) => self.bits_of(&known, ty),
            None => None,
        };
        match bits {
            Some(bits) => Ok(bits),
            None => self.error("not-constant", expr.span, "this value is not known at compile time"),
        }
    }

    /// The bits of a known scalar in a type.
    pub(super) fn bits_of(&self, known: &Known, ty: Type) -> Option<BigUint> {
        Some(match known {
            Known::Int(n) => wrap(n, ty.width()),
            Known::Bool(b) => BigUint::from(u8::from(*b)),
            Known::Error(n) => {
                let name = self.hir.errors.get(*n)?;
                BigUint::from(self.p.errors.iter().position(|e| **e == **name)?)
            }
            Known::Enum(id, n) => match self.hir.enums[id.index()].members.get(*n) {
                Some((_, Some(value))) => wrap(value, ty.width()),
                _ => BigUint::from(*n),
            },
            _ => return None,
        })
    }

    /// A known value as the value of an expression of that type.
    pub(super) fn known_value(&mut self, known: &Known, ty: Ty) -> Val {
        match (known, self.types.kind(ty)) {
            (Known::Int(n), TyKind::InfInt) => return Val::Int(n.clone()),
            (Known::Text(text), _) => return Val::Text(text.clone()),
            (Known::Tuple(items), _) => {
                let parts = items.iter().enumerate().map(|(n, item)| {
                    let ty = self.member_type(ty, n);
                    self.known_value(item, ty)
                });
                return Val::Struct(parts.collect());
            }
            _ => {}
        }
        if let Shape::Scalar(scalar) = self.shape(ty)
            && let Some(bits) = self.bits_of(known, scalar)
        {
            return Val::Scalar(self.b.constant(Const::new(scalar, bits)));
        }
        Val::Object
    }

    fn known_default(&mut self, ty: Ty) -> Option<Known> {
        let ty = self.ty(ty);
        Some(match self.types.kind(ty) {
            TyKind::Bool => Known::Bool(false),
            TyKind::Bit(_) | TyKind::Int(_) | TyKind::InfInt => Known::Int(BigInt::zero()),
            TyKind::Error => Known::Error(0),
            TyKind::Enum(id) => match self.hir.enums[id.index()].underlying {
                Some(_) => Known::Int(BigInt::zero()),
                None => Known::Enum(*id, 0),
            },
            TyKind::NewType(_) => self.known_default(self.behind_new_types(ty))?,
            _ => return None,
        })
    }

    fn known_cast(&mut self, known: Known, ty: Ty) -> Option<Known> {
        let ty = self.ty(ty);
        let number = |lower: &Self| match &known {
            Known::Int(n) => Some(n.clone()),
            Known::Bool(b) => Some(BigInt::from(u8::from(*b))),
            Known::Enum(id, n) => lower.hir.enums[id.index()].members.get(*n)?.1.clone(),
            _ => None,
        };
        match self.types.kind(ty).clone() {
            TyKind::Bit(w) => Some(Known::Int(fit(number(self)?, w, false))),
            TyKind::Int(w) => Some(Known::Int(fit(number(self)?, w, true))),
            TyKind::InfInt => Some(Known::Int(number(self)?)),
            TyKind::Bool => Some(Known::Bool(!number(self)?.is_zero())),
            TyKind::NewType(_) => self.known_cast(known, self.behind_new_types(ty)),
            TyKind::Enum(id) => match (&known, self.hir.enums[id.index()].underlying) {
                (Known::Int(_), Some(of)) => self.known_cast(known, of),
                _ => Some(known),
            },
            _ => Some(known),
        }
    }

    fn known_unary(&mut self, op: UnaryOp, known: Known, ty: Ty) -> Option<Known> {
        Some(match (op, known) {
            (UnaryOp::Not, Known::Bool(b)) => Known::Bool(!b),
            (UnaryOp::BitNot, Known::Int(n)) => self.fitted(-n - 1, ty),
            (UnaryOp::Neg, Known::Int(n)) => self.fitted(-n, ty),
            (UnaryOp::Plus, known) => known,
            _ => return None,
        })
    }

    /// A number in the range of its type.
    fn fitted(&mut self, n: BigInt, ty: Ty) -> Known {
        let ty = self.ty(ty);
        Known::Int(match self.types.kind(ty) {
            TyKind::Bit(w) => fit(n, *w, false),
            TyKind::Int(w) => fit(n, *w, true),
            _ => n,
        })
    }

    fn known_binary(&mut self, op: BinaryOp, a: Known, b: Known, ty: Ty) -> Option<Known> {
        use BinaryOp::*;
        let (a, b) = match (a, b) {
            (Known::Int(a), Known::Int(b)) => (a, b),
            (Known::Bool(a), Known::Bool(b)) => {
                return Some(Known::Bool(match op {
                    And => a && b,
                    Or => a || b,
                    Eq => a == b,
                    Ne => a != b,
                    _ => return None,
                }));
            }
            (Known::Enum(x, a), Known::Enum(y, b)) if x == y => {
                return match op {
                    Eq => Some(Known::Bool(a == b)),
                    Ne => Some(Known::Bool(a != b)),
                    _ => None,
                };
            }
            _ => return None,
        };
        let shift = b.to_u32().filter(|b| *b <= MAX_SHIFT);
        let n = match op {
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
            Eq => return Some(Known::Bool(a == b)),
            Ne => return Some(Known::Bool(a != b)),
            Lt => return Some(Known::Bool(a < b)),
            Le => return Some(Known::Bool(a <= b)),
            Gt => return Some(Known::Bool(a > b)),
            Ge => return Some(Known::Bool(a >= b)),
            _ => return None,
        };
        (n.bits() <= u64::from(ir::MAX_WIDTH)).then(|| self.fitted(n, ty))
    }

    /// `minSizeInBits()` and its kind.
    pub(super) fn size_of(&mut self, which: SizeOf, ty: Ty) -> BigInt {
        let (least, greatest) = self.size_in_bits(ty);
        BigInt::from(match which {
            SizeOf::MinBits => least,
            SizeOf::MaxBits => greatest,
            SizeOf::MinBytes => least.div_ceil(8),
            SizeOf::MaxBytes => greatest.div_ceil(8),
        })
    }

    /// The object that a known value is.
    pub(super) fn known_object(&mut self, known: &Known, span: Span) -> Res<ObjectId> {
        match known {
            Known::Object(id) => Ok(*id),
            _ => self.unsupported(span, "applying this"),
        }
    }
}

/// The number modulo 2^width, in the range of a signed or unsigned type.
fn fit(n: BigInt, width: u32, signed: bool) -> BigInt {
    let bits = BigInt::from(wrap(&n, width));
    if signed && width > 0 && bits.bit(u64::from(width) - 1) { bits - (BigInt::from(1) << width) } else { bits }
}
