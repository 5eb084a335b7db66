//! Compares arithmetic with unbounded big integers.

use ir::eval::{self, narrow};
use ir::*;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Signed, ToPrimitive, Zero};
use proptest::prelude::*;

const OPS: [BinaryOp; 18] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::AddSat,
    BinaryOp::SubSat,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];

/// Returns the bits of a number modulo 2^width, digit by digit.
fn bits_of(width: u32, number: &BigInt) -> BigUint {
    (0..u64::from(width)).filter(|n| number.bit(*n)).fold(BigUint::zero(), |all, n| all | (BigUint::one() << n))
}

fn number_of(ty: Type, bits: &BigUint) -> BigInt {
    let unsigned = BigInt::from(bits.clone());
    let top = i64::from(ty.width()) - 1;
    if ty.is_signed() && top >= 0 && bits.bit(top as u64) { unsigned - (BigInt::one() << ty.width()) } else { unsigned }
}

fn divide(x: &BigInt, y: &BigInt) -> BigInt {
    let magnitude = x.abs() / y.abs();
    if (x.sign() == Sign::Minus) != (y.sign() == Sign::Minus) { -magnitude } else { magnitude }
}

fn reference(op: BinaryOp, ty: Type, a: &BigUint, b: &BigUint) -> BigUint {
    let width = ty.width();
    let (x, y) = (number_of(ty, a), number_of(ty, b));
    let flag = |f: bool| BigUint::from(u8::from(f));
    let half = BigInt::one() << width.saturating_sub(1);
    let (least, greatest) = match (ty.is_signed(), width) {
        (_, 0) => (BigInt::zero(), BigInt::zero()),
        (true, _) => (-half.clone(), half - 1),
        (false, w) => (BigInt::zero(), (BigInt::one() << w) - 1),
    };
    let by = b.to_u64().unwrap_or(u64::MAX).min(u64::from(width) + 1);
    let power = BigInt::one() << by;
    let number = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => {
            if y.is_zero() {
                y
            } else {
                divide(&x, &y)
            }
        }
        BinaryOp::Mod => {
            if y.is_zero() {
                x
            } else {
                &x - divide(&x, &y) * &y
            }
        }
        BinaryOp::AddSat => (x + y).max(least).min(greatest),
        BinaryOp::SubSat => (x - y).max(least).min(greatest),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl => x * power,
        // An arithmetic shift rounds down.
        BinaryOp::Shr => (&x - ((&x % &power) + &power) % &power) / &power,
        BinaryOp::Eq => return flag(x == y),
        BinaryOp::Ne => return flag(x != y),
        BinaryOp::Lt => return flag(x < y),
        BinaryOp::Le => return flag(x <= y),
        BinaryOp::Gt => return flag(x > y),
        BinaryOp::Ge => return flag(x >= y),
    };
    bits_of(width, &number)
}

/// Returns operands; numbers near the ends of their range are as frequent as all others.
fn operand(ty: Type) -> impl Strategy<Value = BigUint> {
    let width = ty.width();
    let all = (BigUint::one() << width) - 1u8;
    let top = if width == 0 { BigUint::zero() } else { BigUint::one() << (width - 1) };
    let special = vec![
        BigUint::zero(),
        eval::wrap(width, &BigUint::one()),
        all.clone(),
        top.clone(),
        eval::wrap(width, &(top + 1u8)),
        &all >> 1,
    ];
    let random = prop::collection::vec(any::<u8>(), width.div_ceil(8) as usize)
        .prop_map(move |b| eval::wrap(width, &BigUint::from_bytes_be(&b)));
    prop_oneof![prop::sample::select(special), random]
}

fn types() -> impl Strategy<Value = Type> {
    let width = prop_oneof![0u32..20, 60u32..70, 120u32..140, Just(300u32)];
    (any::<bool>(), width).prop_map(|(signed, w)| if signed { Type::Int(w) } else { Type::Bit(w) })
}

fn operands() -> impl Strategy<Value = (Type, BigUint, BigUint, BigUint)> {
    types().prop_flat_map(|ty| {
        let amount = prop_oneof![(0u32..400).prop_map(BigUint::from), operand(Type::Bit(200))];
        (Just(ty), operand(ty), operand(ty), amount)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn binary_operations((ty, a, b, amount) in operands(), op in prop::sample::select(OPS.to_vec())) {
        let b = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { amount } else { b };
        let expected = reference(op, ty, &a, &b);
        prop_assert_eq!(eval::binary(op, ty, &a, &b), expected.clone(), "{:?} {:?}", op, ty);
        // Runs the path for wide types on a narrow type: the sign-extended operands give the same
        // result.
        if ty.width() <= 128 && let (Some(x), Some(y)) = (a.to_u128(), b.to_u128()) {
            prop_assert_eq!(BigUint::from(narrow::binary(op, ty, x, y)), expected);
        }
    }

    #[test]
    fn unary_operations((ty, a, _, _) in operands()) {
        let x = number_of(ty, &a);
        prop_assert_eq!(eval::unary(UnaryOp::Neg, ty, &a), bits_of(ty.width(), &-x.clone()));
        prop_assert_eq!(eval::unary(UnaryOp::Not, ty, &a), bits_of(ty.width(), &(-x - 1)));
        for flag in [0u8, 1] {
            let not = eval::unary(UnaryOp::LogicalNot, Type::Bool, &BigUint::from(flag));
            prop_assert_eq!(not, BigUint::from(1 - flag));
        }
        if ty.width() <= 128 && let Some(small) = a.to_u128() {
            for op in [UnaryOp::Neg, UnaryOp::Not] {
                prop_assert_eq!(BigUint::from(narrow::unary(op, ty, small)), eval::unary(op, ty, &a));
            }
        }
    }

    #[test]
    fn casts_keep_the_number_modulo_the_width((from, a, _, _) in operands(), to in types()) {
        prop_assert_eq!(eval::cast(from, to, &a), bits_of(to.width(), &number_of(from, &a)));
    }

    #[test]
    fn slices_and_concatenations((ty, a, b, _) in operands()) {
        let whole = eval::concat(&a, &b, ty.width());
        let width = ty.width();
        prop_assert_eq!(&whole, &((&a << width) + &b));
        if width > 0 {
            prop_assert_eq!(eval::slice(&whole, 2 * width - 1, width), a);
            prop_assert_eq!(eval::slice(&whole, width - 1, 0), b);
        }
    }
}

#[test]
fn what_the_documentation_of_the_operations_says() {
    let big = |n: u32| BigUint::from(n);
    let (unsigned, signed) = (Type::Bit(8), Type::Int(8));
    let check =
        |op, ty, a, b, expected: u32| assert_eq!(eval::binary(op, ty, &big(a), &big(b)), big(expected), "{op:?}");
    check(BinaryOp::Div, unsigned, 7, 0, 0);
    check(BinaryOp::Mod, unsigned, 7, 0, 7);
    check(BinaryOp::Div, signed, 0x80, 0xff, 0x80);
    check(BinaryOp::Div, signed, 0xf9, 2, 0xfd);
    check(BinaryOp::Mod, signed, 0xf9, 2, 0xff);
    check(BinaryOp::Shr, signed, 0x80, 200, 0xff);
    check(BinaryOp::Shr, unsigned, 0x80, 8, 0);
    check(BinaryOp::Shl, unsigned, 0x81, 1, 2);
    check(BinaryOp::AddSat, signed, 0x7f, 1, 0x7f);
    check(BinaryOp::SubSat, signed, 0x80, 1, 0x80);
    check(BinaryOp::AddSat, unsigned, 0xff, 1, 0xff);
    check(BinaryOp::SubSat, unsigned, 1, 2, 0);
    check(BinaryOp::Lt, signed, 0xff, 0, 1);
    check(BinaryOp::Lt, unsigned, 0xff, 0, 0);
}
