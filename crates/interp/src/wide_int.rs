//! Arithmetic on values of any width, as 64-bit words, least significant first.
//!
//! The instruction loop itself computes on single words; this module handles wide and rare
//! operations. Values, also those of `int<W>`, are modulo 2^width.

use ir::BinaryOp;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Returns ones in the low `width` bits; at most 128.
pub fn mask128(width: u32) -> u128 {
    match width {
        0 => 0,
        1..=127 => (1 << width) - 1,
        _ => u128::MAX,
    }
}

/// Returns ones in the low `width` bits; at most 64.
pub fn mask64(width: u32) -> u64 {
    mask128(width.min(64)) as u64
}

/// Returns the first two words as a number.
pub fn load128(words: &[u64]) -> u128 {
    match words {
        [] => 0,
        [one] => u128::from(*one),
        [low, high, ..] => u128::from(*low) | u128::from(*high) << 64,
    }
}

/// Stores a number into words; excess words become 0.
pub fn store128(words: &mut [u64], value: u128) {
    for (index, word) in words.iter_mut().enumerate() {
        *word = if index < 2 { (value >> (64 * index)) as u64 } else { 0 };
    }
}

/// Stores a number into words; excess words become 0.
pub fn store_big(words: &mut [u64], value: &BigUint) {
    let mut digits = value.iter_u64_digits();
    for word in words {
        *word = digits.next().unwrap_or(0);
    }
}

/// Truncates a number modulo 2^width.
pub fn truncate_to_width(value: BigUint, width: u32) -> BigUint {
    if value.bits() <= u64::from(width) { value } else { value & ((BigUint::one() << width) - BigUint::one()) }
}

/// Converts two's complement bits to a number.
pub fn to_signed(value: &BigUint, width: u32) -> BigInt {
    let negative = width > 0 && value.bit(u64::from(width) - 1);
    let value = BigInt::from(value.clone());
    if negative { value - (BigInt::one() << width) } else { value }
}

/// Converts a number to two's complement bits, modulo 2^width.
pub fn from_signed(value: &BigInt, width: u32) -> BigUint {
    let magnitude = truncate_to_width(value.magnitude().clone(), width);
    if value.sign() == Sign::Minus && !magnitude.is_zero() { (BigUint::one() << width) - magnitude } else { magnitude }
}

/// Returns `a op b` for values of `width` bits; with `signed`, in two's complement. For shifts `b`
/// is the distance. Comparisons return 0 or 1. A division by 0 returns 0, its remainder `a`.
pub fn binary_big(op: BinaryOp, signed: bool, width: u32, a: &BigUint, b: &BigUint) -> BigUint {
    use BinaryOp::*;
    let boolean = |is_true: bool| BigUint::from(u8::from(is_true));
    let (signed_a, signed_b) = (to_signed(a, width), to_signed(b, width));
    let compare = || if signed { signed_a.cmp(&signed_b) } else { a.cmp(b) };
    let max_signed = || (BigInt::one() << (width.max(1) - 1)) - BigInt::one();
    let clamp = |value: BigInt| {
        let (low, high) = (-max_signed() - BigInt::one(), max_signed());
        from_signed(&value.clamp(low, high), width)
    };
    match op {
        Add => truncate_to_width(a + b, width),
        Sub => truncate_to_width(a + (BigUint::one() << width) - b, width),
        Mul => truncate_to_width(a * b, width),
        Div if b.is_zero() => BigUint::ZERO,
        Div if signed => from_signed(&(signed_a / signed_b), width),
        Div => a / b,
        Mod if b.is_zero() => a.clone(),
        Mod if signed => from_signed(&(signed_a % signed_b), width),
        Mod => a % b,
        AddSat if signed => clamp(signed_a + signed_b),
        AddSat => (a + b).min((BigUint::one() << width) - BigUint::one()),
        SubSat if signed => clamp(signed_a - signed_b),
        SubSat if a < b => BigUint::ZERO,
        SubSat => a - b,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => match b.to_u32().filter(|n| *n < width) {
            Some(n) => truncate_to_width(a << n, width),
            None => BigUint::ZERO,
        },
        Shr => match b.to_u32().filter(|n| *n < width) {
            Some(n) if signed => from_signed(&(signed_a >> n), width),
            Some(n) => a >> n,
            None if signed && signed_a.is_negative() => from_signed(&BigInt::from(-1), width),
            None => BigUint::ZERO,
        },
        Eq => boolean(a == b),
        Ne => boolean(a != b),
        Lt => boolean(compare().is_lt()),
        Le => boolean(compare().is_le()),
        Gt => boolean(compare().is_gt()),
        Ge => boolean(compare().is_ge()),
    }
}
