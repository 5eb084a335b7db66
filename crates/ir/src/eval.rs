//! Width-exact arithmetic on constants: the semantics of the pure instructions as documented in
//! [`crate::Inst`], [`crate::UnaryOp`] and [`crate::BinaryOp`]. Used by the passes to fold
//! constants.
//!
//! Bits are those of [`crate::Const`]: the value modulo 2^width, so `int<8>` -1 is 255. Operands
//! wider than their type are taken modulo 2^width; nothing panics. [`narrow`] implements the same
//! operations on `u128`, for types of at most 128 bits.

use crate::body::{BinaryOp, Inst, UnaryOp};
use crate::entity::Value;
use crate::result_types::{binary_type, concat_type, slice_type};
use crate::types::{Const, Type};
use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive, Zero};

/// Returns the value modulo 2^width.
pub fn wrap(width: u32, bits: &BigUint) -> BigUint {
    if bits.bits() <= u64::from(width) { bits.clone() } else { bits % (BigUint::one() << width) }
}

/// Returns the number that the bits represent in that type: negative if it is signed and the top
/// bit is set.
pub fn to_number(ty: Type, bits: &BigUint) -> BigInt {
    let width = ty.width();
    let bits = wrap(width, bits);
    let negative = ty.is_signed() && width > 0 && bits.bit(u64::from(width) - 1);
    let number = BigInt::from(bits);
    if negative { number - (BigInt::one() << width) } else { number }
}

/// Returns the bits of a number in that type: the number modulo 2^width.
pub fn from_number(ty: Type, number: &BigInt) -> BigUint {
    let modulus = BigInt::one() << ty.width();
    let rest = number % &modulus;
    let rest = if rest < BigInt::zero() { rest + modulus } else { rest };
    rest.to_biguint().unwrap_or_default()
}

/// Computes `op a`, where operand and result have type `ty`.
pub fn unary(op: UnaryOp, ty: Type, a: &BigUint) -> BigUint {
    let width = ty.width();
    let a = wrap(width, a);
    match op {
        UnaryOp::Neg => wrap(width, &((BigUint::one() << width) - a)),
        UnaryOp::Not => (BigUint::one() << width) - BigUint::one() - a,
        UnaryOp::LogicalNot => BigUint::from(u8::from(a.is_zero())),
    }
}

/// Computes `a op b`. `ty` is the type of `a`, and of `b` unless `op` is a shift; then `b` is
/// unsigned, of any width. A comparison gives 0 or 1.
pub fn binary(op: BinaryOp, ty: Type, a: &BigUint, b: &BigUint) -> BigUint {
    let width = ty.width();
    // Narrow types have a faster implementation on machine words.
    if width <= 128 {
        let to_u128 = |bits: &BigUint| wrap(128, bits).to_u128().unwrap_or_default();
        // A shift by 2^128 or more equals one by 2^127: both exceed any width.
        let right = if b.bits() > 127 && matches!(op, BinaryOp::Shl | BinaryOp::Shr) { 1 << 127 } else { to_u128(b) };
        return BigUint::from(narrow::binary(op, ty, to_u128(a), right));
    }
    if let BinaryOp::Shl | BinaryOp::Shr = op {
        return wide_shift(op, ty, &wrap(width, a), b);
    }
    let (a_number, b_number) = (to_number(ty, a), to_number(ty, b));
    let from_bool = |f: bool| BigUint::from(u8::from(f));
    let number = match op {
        BinaryOp::Add => a_number + b_number,
        BinaryOp::Sub => a_number - b_number,
        BinaryOp::Mul => a_number * b_number,
        BinaryOp::Div if b_number.is_zero() => BigInt::zero(),
        BinaryOp::Div => a_number / b_number,
        BinaryOp::Mod if b_number.is_zero() => a_number,
        BinaryOp::Mod => a_number % b_number,
        BinaryOp::AddSat => saturate(ty, a_number + b_number),
        BinaryOp::SubSat => saturate(ty, a_number - b_number),
        BinaryOp::And => return wrap(width, a) & wrap(width, b),
        BinaryOp::Or => return wrap(width, a) | wrap(width, b),
        BinaryOp::Xor => return wrap(width, a) ^ wrap(width, b),
        BinaryOp::Eq => return from_bool(a_number == b_number),
        BinaryOp::Ne => return from_bool(a_number != b_number),
        BinaryOp::Lt => return from_bool(a_number < b_number),
        BinaryOp::Le => return from_bool(a_number <= b_number),
        BinaryOp::Gt => return from_bool(a_number > b_number),
        BinaryOp::Ge => return from_bool(a_number >= b_number),
        BinaryOp::Shl | BinaryOp::Shr => BigInt::zero(),
    };
    from_number(ty, &number)
}

fn saturate(ty: Type, number: BigInt) -> BigInt {
    let width = ty.width();
    let (min, max) = match ty.is_signed() {
        true if width > 0 => (-(BigInt::one() << (width - 1)), (BigInt::one() << (width - 1)) - 1),
        true => (BigInt::zero(), BigInt::zero()),
        false => (BigInt::zero(), (BigInt::one() << width) - 1),
    };
    number.clamp(min, max)
}

fn wide_shift(op: BinaryOp, ty: Type, a: &BigUint, by: &BigUint) -> BigUint {
    let width = ty.width();
    // A shift by more than the width equals one by the width.
    let by = by.to_u32().unwrap_or(u32::MAX).min(width);
    match op {
        BinaryOp::Shl => wrap(width, &(a << by)),
        // BigInt's shift rounds down, which is the arithmetic shift.
        _ => from_number(ty, &(to_number(ty, a) >> by)),
    }
}

/// Casts bits to another type: sign-extended if `from` is `int`, otherwise zero-extended; or
/// truncated to the low bits.
pub fn cast(from: Type, to: Type, bits: &BigUint) -> BigUint {
    if from.is_signed() && to.width() > from.width() {
        from_number(to, &to_number(from, bits))
    } else {
        wrap(to.width(), &wrap(from.width(), bits))
    }
}

/// Returns bits `hi..=lo`.
pub fn slice(bits: &BigUint, hi: u32, lo: u32) -> BigUint {
    wrap(slice_type(hi, lo).width(), &(bits >> lo))
}

/// Computes `high ++ low`, where `low` has `low_width` bits.
pub fn concat(high: &BigUint, low: &BigUint, low_width: u32) -> BigUint {
    (high << low_width) | wrap(low_width, low)
}

/// Returns the result of an instruction, if it follows from constant operands alone. `varbit`
/// operands are not folded, because their length is known only at run time.
pub fn fold<'c>(inst: &Inst, constant: impl Fn(Value) -> Option<&'c Const>) -> Option<Const> {
    let constant_scalar = |v: &Value| constant(*v).filter(|c| !matches!(c.ty, Type::Varbit(_)));
    match inst {
        Inst::Const(c) => Some(c.clone()),
        Inst::Unary(op, a) => {
            let a = constant_scalar(a)?;
            Some(Const { ty: a.ty, bits: unary(*op, a.ty, &a.bits) })
        }
        Inst::Binary(op, a, b) => {
            let (a, b) = (constant_scalar(a)?, constant_scalar(b)?);
            Some(Const { ty: binary_type(*op, a.ty), bits: binary(*op, a.ty, &a.bits, &b.bits) })
        }
        Inst::Cast(to, a) => {
            let a = constant_scalar(a).filter(|_| !matches!(to, Type::Varbit(_)))?;
            Some(Const { ty: *to, bits: cast(a.ty, *to, &a.bits) })
        }
        Inst::Slice { value, hi, lo } => {
            let a = constant_scalar(value)?;
            Some(Const { ty: slice_type(*hi, *lo), bits: slice(&a.bits, *hi, *lo) })
        }
        Inst::Concat(high, low) => {
            let (high, low) = (constant_scalar(high)?, constant_scalar(low)?);
            Some(Const { ty: concat_type(high.ty, low.ty), bits: concat(&high.bits, &low.bits, low.ty.width()) })
        }
        Inst::Select { cond, then, els } => {
            let chosen = if constant_scalar(cond)?.bits.is_zero() { els } else { then };
            constant_scalar(chosen).cloned()
        }
        _ => None,
    }
}

/// Arithmetic on `u128`, for types of at most 128 bits. Wider types are treated as 128 bits wide.
pub mod narrow {
    use super::{BinaryOp, Type, UnaryOp};

    /// Returns a mask with ones in the low `width` bits.
    pub fn mask(width: u32) -> u128 {
        if width >= 128 { u128::MAX } else { (1 << width) - 1 }
    }

    /// Returns the two's complement number that the low `width` bits represent.
    pub fn sign_extend(width: u32, bits: u128) -> i128 {
        match width {
            0 => 0,
            1..=127 => ((bits << (128 - width)) as i128) >> (128 - width),
            _ => bits as i128,
        }
    }

    /// Computes `op a`, as [`super::unary`] does.
    pub fn unary(op: UnaryOp, ty: Type, a: u128) -> u128 {
        let mask = mask(ty.width());
        match op {
            UnaryOp::Neg => a.wrapping_neg() & mask,
            UnaryOp::Not => !a & mask,
            UnaryOp::LogicalNot => u128::from(a & mask == 0),
        }
    }

    /// Computes `a op b`, as [`super::binary`] does.
    pub fn binary(op: BinaryOp, ty: Type, a: u128, b: u128) -> u128 {
        let width = ty.width().min(128);
        let mask = mask(width);
        let a = a & mask;
        match op {
            BinaryOp::Shl => return if b >= u128::from(width) { 0 } else { (a << b) & mask },
            BinaryOp::Shr if ty.is_signed() => {
                let by = b.min(127) as u32;
                return (sign_extend(width, a) >> by) as u128 & mask;
            }
            BinaryOp::Shr => return if b >= u128::from(width) { 0 } else { a >> b },
            _ => {}
        }
        let b = b & mask;
        if ty.is_signed() { signed(op, width, a, b) } else { unsigned(op, mask, a, b) }
    }

    fn unsigned(op: BinaryOp, mask: u128, a: u128, b: u128) -> u128 {
        match op {
            BinaryOp::Div => a.checked_div(b).unwrap_or(0),
            BinaryOp::Mod => a.checked_rem(b).unwrap_or(a),
            BinaryOp::AddSat => a.saturating_add(b).min(mask),
            BinaryOp::SubSat => a.saturating_sub(b),
            BinaryOp::Lt => u128::from(a < b),
            BinaryOp::Le => u128::from(a <= b),
            BinaryOp::Gt => u128::from(a > b),
            BinaryOp::Ge => u128::from(a >= b),
            op => either(op, mask, a, b),
        }
    }

    fn signed(op: BinaryOp, width: u32, a: u128, b: u128) -> u128 {
        let mask = mask(width);
        let (x, y) = (sign_extend(width, a), sign_extend(width, b));
        let max = (mask >> 1) as i128;
        let min = if width == 0 { 0 } else { -max - 1 };
        match op {
            BinaryOp::Div if y == 0 => 0,
            BinaryOp::Div => x.wrapping_div(y) as u128 & mask,
            BinaryOp::Mod if y == 0 => a,
            BinaryOp::Mod => x.wrapping_rem(y) as u128 & mask,
            BinaryOp::AddSat => x.saturating_add(y).clamp(min, max) as u128 & mask,
            BinaryOp::SubSat => x.saturating_sub(y).clamp(min, max) as u128 & mask,
            BinaryOp::Lt => u128::from(x < y),
            BinaryOp::Le => u128::from(x <= y),
            BinaryOp::Gt => u128::from(x > y),
            BinaryOp::Ge => u128::from(x >= y),
            op => either(op, mask, a, b),
        }
    }

    /// Computes the operations that do not depend on the sign.
    fn either(op: BinaryOp, mask: u128, a: u128, b: u128) -> u128 {
        match op {
            BinaryOp::Add => a.wrapping_add(b) & mask,
            BinaryOp::Sub => a.wrapping_sub(b) & mask,
            BinaryOp::Mul => a.wrapping_mul(b) & mask,
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Ne => u128::from(a != b),
            // Only `Eq` remains: the callers handle the sign-dependent operations.
            _ => u128::from(a == b),
        }
    }
}
