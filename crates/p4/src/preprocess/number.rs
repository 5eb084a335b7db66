//! The numbers of `#if`: C's `intmax_t` and `uintmax_t`.

use super::token::Kind;

/// A number of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Num {
    pub bits: u64,
    pub unsigned: bool,
    /// The number is wrong because the right one does not fit.
    pub overflow: bool,
}

impl Num {
    pub const ZERO: Num = Num { bits: 0, unsigned: false, overflow: false };

    pub fn truth(holds: bool) -> Self {
        Num { bits: u64::from(holds), ..Num::ZERO }
    }

    fn signed(self) -> i64 {
        self.bits as i64
    }

    pub fn is_negative(self) -> bool {
        !self.unsigned && self.signed() < 0
    }

    /// The number with these bits, which is right.
    pub fn with_bits(self, bits: u64) -> Num {
        Num { bits, overflow: false, ..self }
    }

    pub fn negate(self) -> Num {
        Num { overflow: !self.unsigned && self.bits == 1 << 63, ..self.with_bits(self.bits.wrapping_neg()) }
    }

    /// The result of an operator with two operands, except `&&` and `||`. The divisor is not 0.
    pub fn binary(kind: Kind, a: Num, b: Num) -> Num {
        let unsigned = a.unsigned || b.unsigned;
        let made = |(bits, overflow): (i64, bool)| Num { bits: bits as u64, unsigned, overflow: overflow && !unsigned };
        let plain = |bits: u64| Num { bits, unsigned, overflow: false };
        let (x, y) = (a.signed(), b.signed());
        match kind {
            Kind::Plus => made(x.overflowing_add(y)),
            Kind::Minus => made(x.overflowing_sub(y)),
            Kind::Mult => made(x.overflowing_mul(y)),
            Kind::Div if unsigned => plain(a.bits / b.bits),
            Kind::Mod if unsigned => plain(a.bits % b.bits),
            Kind::Div => made(x.overflowing_div(y)),
            Kind::Mod => plain(x.wrapping_rem(y) as u64),
            Kind::And => plain(a.bits & b.bits),
            Kind::Or => plain(a.bits | b.bits),
            Kind::Xor => plain(a.bits ^ b.bits),
            Kind::ShiftLeft | Kind::ShiftRight => shift(a, b, kind == Kind::ShiftLeft),
            // cpp warns of an overflow on the right once more.
            Kind::Comma => b,
            Kind::Equal => Num::truth(a.bits == b.bits),
            Kind::NotEqual => Num::truth(a.bits != b.bits),
            _ => Num::truth(compare(kind, a, b, unsigned)),
        }
    }
}

fn compare(kind: Kind, a: Num, b: Num, unsigned: bool) -> bool {
    let order = if unsigned { a.bits.cmp(&b.bits) } else { a.signed().cmp(&b.signed()) };
    match kind {
        Kind::Less => order.is_lt(),
        Kind::LessEqual => order.is_le(),
        Kind::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// A negative distance shifts the other way. The result is of the left operand's kind.
fn shift(a: Num, b: Num, left: bool) -> Num {
    let left = left != b.is_negative();
    let distance = if b.is_negative() { b.bits.wrapping_neg() } else { b.bits };
    let distance = u32::try_from(distance).unwrap_or(u32::MAX);
    let right = |num: Num| match num.is_negative() {
        true => (num.signed() >> distance.min(63)) as u64,
        false => num.bits.checked_shr(distance).unwrap_or(0),
    };
    if !left {
        return a.with_bits(right(a));
    }
    let num = a.with_bits(a.bits.checked_shl(distance).unwrap_or(0));
    let lost = if distance >= 64 { a.bits != 0 } else { right(num) != a.bits };
    Num { overflow: !a.unsigned && lost, ..num }
}
