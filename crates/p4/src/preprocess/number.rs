//! Numbers of `#if`: C's `intmax_t` and `uintmax_t`.

use super::token::PpTokenKind;

/// A signed or unsigned 64-bit number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ConditionInt {
    pub bits: u64,
    pub is_unsigned: bool,
    /// Whether the exact result did not fit.
    pub overflow: bool,
}

impl ConditionInt {
    pub const ZERO: ConditionInt = ConditionInt { bits: 0, is_unsigned: false, overflow: false };

    pub fn from_bool(holds: bool) -> Self {
        ConditionInt { bits: u64::from(holds), ..ConditionInt::ZERO }
    }

    fn signed(self) -> i64 {
        self.bits as i64
    }

    pub fn is_negative(self) -> bool {
        !self.is_unsigned && self.signed() < 0
    }

    /// Returns a number of the same signedness with these bits and no overflow.
    pub fn with_bits(self, bits: u64) -> ConditionInt {
        ConditionInt { bits, overflow: false, ..self }
    }

    pub fn negate(self) -> ConditionInt {
        ConditionInt { overflow: !self.is_unsigned && self.bits == 1 << 63, ..self.with_bits(self.bits.wrapping_neg()) }
    }

    /// Applies a binary operator other than `&&` and `||`. The divisor must not be 0. As in C, the
    /// result is unsigned if one operand is; only signed results can overflow.
    pub fn binary(kind: PpTokenKind, a: ConditionInt, b: ConditionInt) -> ConditionInt {
        let is_unsigned = a.is_unsigned || b.is_unsigned;
        let from_signed = |(bits, overflow): (i64, bool)| ConditionInt {
            bits: bits as u64,
            is_unsigned,
            overflow: overflow && !is_unsigned,
        };
        let from_bits = |bits: u64| ConditionInt { bits, is_unsigned, overflow: false };
        let (a_signed, b_signed) = (a.signed(), b.signed());
        match kind {
            PpTokenKind::Plus => from_signed(a_signed.overflowing_add(b_signed)),
            PpTokenKind::Minus => from_signed(a_signed.overflowing_sub(b_signed)),
            PpTokenKind::Mult => from_signed(a_signed.overflowing_mul(b_signed)),
            PpTokenKind::Div if is_unsigned => from_bits(a.bits / b.bits),
            PpTokenKind::Mod if is_unsigned => from_bits(a.bits % b.bits),
            PpTokenKind::Div => from_signed(a_signed.overflowing_div(b_signed)),
            PpTokenKind::Mod => from_bits(a_signed.wrapping_rem(b_signed) as u64),
            PpTokenKind::And => from_bits(a.bits & b.bits),
            PpTokenKind::Or => from_bits(a.bits | b.bits),
            PpTokenKind::Xor => from_bits(a.bits ^ b.bits),
            PpTokenKind::ShiftLeft | PpTokenKind::ShiftRight => shift_number(a, b, kind == PpTokenKind::ShiftLeft),
            // Keep the overflow flag of the right side, because cpp warns about it a second time.
            PpTokenKind::Comma => b,
            PpTokenKind::Equal => ConditionInt::from_bool(a.bits == b.bits),
            PpTokenKind::NotEqual => ConditionInt::from_bool(a.bits != b.bits),
            _ => ConditionInt::from_bool(compare_numbers(kind, a, b, is_unsigned)),
        }
    }
}

fn compare_numbers(kind: PpTokenKind, a: ConditionInt, b: ConditionInt, is_unsigned: bool) -> bool {
    let order = if is_unsigned { a.bits.cmp(&b.bits) } else { a.signed().cmp(&b.signed()) };
    match kind {
        PpTokenKind::Less => order.is_lt(),
        PpTokenKind::LessEqual => order.is_le(),
        PpTokenKind::Greater => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// Shifts a number. A negative distance reverses the direction. The result has the signedness of
/// the left operand.
fn shift_number(a: ConditionInt, b: ConditionInt, left: bool) -> ConditionInt {
    let left = left != b.is_negative();
    let distance = if b.is_negative() { b.bits.wrapping_neg() } else { b.bits };
    let distance = u32::try_from(distance).unwrap_or(u32::MAX);
    let right = |num: ConditionInt| match num.is_negative() {
        true => (num.signed() >> distance.min(63)) as u64,
        false => num.bits.checked_shr(distance).unwrap_or(0),
    };
    if !left {
        return a.with_bits(right(a));
    }
    let num = a.with_bits(a.bits.checked_shl(distance).unwrap_or(0));
    let lost = if distance >= 64 { a.bits != 0 } else { right(num) != a.bits };
    ConditionInt { overflow: !a.is_unsigned && lost, ..num }
}
