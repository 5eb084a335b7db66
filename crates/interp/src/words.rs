//! Arithmetic on values of any width, kept as 64-bit words, least significant first.
//!
//! The instruction loop computes on single words itself; what is wider or rare comes here. Values are kept
//! modulo 2^width, also those of `int<W>`.

use ir::BinaryOp;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};

/// All ones in the low `width` bits; `width` at most 128.
pub fn mask128(width: u32) -> u128 {
    match width {
        0 => 0,
        1..=127 => (1 << width) - 1,
        _ => u128::MAX,
    }
}

/// All ones in the low `width` bits; `width` at most 64.
pub fn mask64(width: u32) -> u64 {
    mask128(width.min(64)) as u64
}

/// The first two words as a number.
pub fn load128(words: &[u64]) -> u128 {
    match words {
        [] => 0,
        [one] => u128::from(*one),
        [low, high, ..] => u128::from(*low) | u128::from(*high) << 64,
    }
}

/// Stores a number into words, as many as there are.
pub fn store128(words: &mut [u64], value: u128) {
    for (index, word) in words.iter_mut().enumerate() {
        *word = if index < 2 { (value >> (64 * index)) as u64 } else { 0 };
    }
}

/// Stores a number into words, as many as there are.
pub fn store_big(words: &mut [u64], value: &BigUint) {
    let mut digits = value.iter_u64_digits();
    for word in words {
        *word = digits.next().unwrap_or(0);
    }
}

/// A number modulo 2^width.
pub fn cut(value: BigUint, width: u32) -> BigUint {
    if value.bits() <= u64::from(width) { value } else { value & ((BigUint::one() << width) - BigUint::one()) }
}

fn signed128(value: u128, width: u32) -> i128 {
    match width {
        0 => 0,
        _ => {
            let free = 128 - width.min(128);
            ((value << free) as i128) >> free
        }
    }
}

/// `a op b` for widths of at most 128 bits. For shifts `b` is the distance. Comparisons give 0 or 1.
pub fn binary128(op: BinaryOp, signed: bool, width: u32, a: u128, b: u128) -> u128 {
    use BinaryOp::*;
    let mask = mask128(width);
    let (sa, sb) = (signed128(a, width), signed128(b, width));
    let order = if signed { sa.cmp(&sb) } else { a.cmp(&b) };
    match op {
        Add => a.wrapping_add(b) & mask,
        Sub => a.wrapping_sub(b) & mask,
        Mul => a.wrapping_mul(b) & mask,
        Div if b == 0 => 0,
        Div if signed => sa.wrapping_div(sb) as u128 & mask,
        Div => a / b,
        Mod if b == 0 => a,
        Mod if signed => sa.wrapping_rem(sb) as u128 & mask,
        Mod => a % b,
        AddSat if signed => clamp(sa.saturating_add(sb), width),
        AddSat => a.saturating_add(b).min(mask),
        SubSat if signed => clamp(sa.saturating_sub(sb), width),
        SubSat => a.saturating_sub(b),
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl if b >= u128::from(width) => 0,
        Shl => (a << b) & mask,
        Shr if signed => (sa >> b.min(127)) as u128 & mask,
        Shr if b >= u128::from(width) => 0,
        Shr => a >> b,
        Eq => u128::from(a == b),
        Ne => u128::from(a != b),
        Lt => u128::from(order.is_lt()),
        Le => u128::from(order.is_le()),
        Gt => u128::from(order.is_gt()),
        Ge => u128::from(order.is_ge()),
    }
}

/// Brings a number into the range of `int<width>`.
fn clamp(value: i128, width: u32) -> u128 {
    if width == 0 {
        return 0;
    }
    let greatest = (mask128(width) >> 1) as i128;
    value.clamp(-greatest - 1, greatest) as u128 & mask128(width)
}

/// The number that two's complement bits stand for.
pub fn to_signed(value: &BigUint, width: u32) -> BigInt {
    let negative = width > 0 && value.bit(u64::from(width) - 1);
    let value = BigInt::from(value.clone());
    if negative { value - (BigInt::one() << width) } else { value }
}

/// A number as two's complement bits, modulo 2^width.
pub fn from_signed(value: &BigInt, width: u32) -> BigUint {
    let magnitude = cut(value.magnitude().clone(), width);
    if value.sign() == Sign::Minus && !magnitude.is_zero() { (BigUint::one() << width) - magnitude } else { magnitude }
}

/// As [`binary128`], for any width.
pub fn binary_big(op: BinaryOp, signed: bool, width: u32, a: &BigUint, b: &BigUint) -> BigUint {
    use BinaryOp::*;
    let truth = |yes: bool| BigUint::from(u8::from(yes));
    let (sa, sb) = (to_signed(a, width), to_signed(b, width));
    let order = || if signed { sa.cmp(&sb) } else { a.cmp(b) };
    let greatest = || (BigInt::one() << (width.max(1) - 1)) - BigInt::one();
    let clamp = |value: BigInt| {
        let (low, high) = (-greatest() - BigInt::one(), greatest());
        from_signed(&value.clamp(low, high), width)
    };
    match op {
        Add => cut(a + b, width),
        Sub => cut(a + (BigUint::one() << width) - b, width),
        Mul => cut(a * b, width),
        Div if b.is_zero() => BigUint::ZERO,
        Div if signed => from_signed(&(sa / sb), width),
        Div => a / b,
        Mod if b.is_zero() => a.clone(),
        Mod if signed => from_signed(&(sa % sb), width),
        Mod => a % b,
        AddSat if signed => clamp(sa + sb),
        AddSat => (a + b).min((BigUint::one() << width) - BigUint::one()),
        SubSat if signed => clamp(sa - sb),
        SubSat if a < b => BigUint::ZERO,
        SubSat => a - b,
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => match b.to_u32().filter(|n| *n < width) {
            Some(n) => cut(a << n, width),
            None => BigUint::ZERO,
        },
        Shr => match b.to_u32().filter(|n| *n < width) {
            Some(n) if signed => from_signed(&(sa >> n), width),
            Some(n) => a >> n,
            None if signed && sa.is_negative() => from_signed(&BigInt::from(-1), width),
            None => BigUint::ZERO,
        },
        Eq => truth(a == b),
        Ne => truth(a != b),
        Lt => truth(order().is_lt()),
        Le => truth(order().is_le()),
        Gt => truth(order().is_gt()),
        Ge => truth(order().is_ge()),
    }
}
