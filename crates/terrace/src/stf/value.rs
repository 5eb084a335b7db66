//! Numbers and match values as written, before their width is known.

use super::StfError;
use super::cursor::Cursor;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Zero};

/// Maximum width of a number in bits, which is the maximum width of a scalar in a pipeline.
const MAX_BITS: u64 = ir::MAX_WIDTH as u64;

/// A number with don't-care digits: `0x0202****`, `0b1*0`, `17`, `-1`, `true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number {
    /// Value, with 0 for each don't-care digit.
    pub value: BigInt,
    /// Mask with 1 for each bit of a don't-care digit. Omitted leading digits are 0, and not
    /// don't-care.
    pub wild: BigUint,
}

/// Match value of a key, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchText {
    /// `*` or `_`: matches anything.
    Any,
    /// A number.
    Number(Number),
    /// `value/length`.
    Prefix(Number, u32),
    /// `value&&&mask`.
    Mask(Number, BigUint),
    /// `low..high` or `low->high`, both included.
    Range(Number, Number),
}

impl Number {
    /// Returns the number as a value of `width` bits (two's complement if negative), or `None` if
    /// it does not fit.
    pub fn bits(&self, width: u32) -> Option<BigUint> {
        let magnitude = self.value.magnitude();
        match self.value.sign() {
            Sign::Minus => {
                let modulus = BigUint::one() << width;
                let fits = width > 0 && *magnitude <= BigUint::one() << (width - 1);
                fits.then(|| modulus - magnitude)
            }
            _ => (magnitude.bits() <= u64::from(width)).then(|| magnitude.clone()),
        }
    }

    /// Returns whether a digit is don't-care.
    pub fn has_wildcards(&self) -> bool {
        !self.wild.is_zero()
    }
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Number { value: value.into(), wild: BigUint::zero() }
    }
}

/// Returns `width` one bits.
pub fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Parses a number. Don't-care digits (`*`) are allowed after `0x`, `0b` and `0o`.
/// Returns the value, and the bits of don't-care digits as ones.
pub fn number(cursor: &mut Cursor<'_>) -> Result<Number, StfError> {
    // Skips blanks, so that an error points to the number.
    cursor.peek();
    let start = cursor.clone();
    let negative = cursor.take("-");
    let text = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '*' || c == '_');
    let help = "write a number such as 10, 0x0a, 0b1010, 0x0a** or -1";
    let lower = text.to_ascii_lowercase();
    let (digits, bits) = match lower.get(..2) {
        Some("0x") => (&lower[2..], 4),
        Some("0b") => (&lower[2..], 1),
        Some("0o") => (&lower[2..], 3),
        _ => return decimal(&lower, negative).ok_or_else(|| start.error("expected a number", help)),
    };
    if digits.is_empty() || digits.len() as u64 * bits > MAX_BITS {
        return Err(start.error("the number has no digits, or too many", help));
    }
    let (mut value, mut wild_bits) = (BigUint::zero(), BigUint::zero());
    for digit in digits.chars().filter(|c| *c != '_') {
        let (digit_value, digit_wild) = match digit {
            '*' => (0, (1u32 << bits) - 1),
            _ => match digit.to_digit(1 << bits) {
                Some(digit) => (digit, 0),
                None => return Err(start.error(format!("`{digit}` is not a digit of this number"), help)),
            },
        };
        value = (value << bits) + digit_value;
        wild_bits = (wild_bits << bits) + digit_wild;
    }
    let sign = if negative { Sign::Minus } else { Sign::Plus };
    Ok(Number { value: BigInt::from_biguint(sign, value), wild: wild_bits })
}

fn decimal(text: &str, negative: bool) -> Option<Number> {
    let magnitude = match text {
        "true" => BigInt::one(),
        "false" => BigInt::zero(),
        _ if !text.is_empty() && text.len() < 5000 && text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok()?,
        _ => return None,
    };
    let value = if negative { -magnitude } else { magnitude };
    Some(Number { value, wild: BigUint::zero() })
}

/// Parses a number without don't-care digits that fits `T`. `what` names it in the error.
pub fn integer<T: TryFrom<BigInt>>(cursor: &mut Cursor<'_>, what: &str) -> Result<T, StfError> {
    cursor.peek();
    let start = cursor.clone();
    let number = number(cursor).map_err(|_| start.error(format!("expected the {what}"), "write it as a number"))?;
    let bits = std::mem::size_of::<T>() * 8;
    let too_large =
        || start.error(format!("the {what} is out of range"), format!("it has to fit {bits} bits, without `*`"));
    if number.has_wildcards() {
        return Err(too_large());
    }
    T::try_from(number.value).map_err(|_| too_large())
}

/// Parses the match value of a key.
/// `*` or `_` alone matches anything.
pub fn match_value(cursor: &mut Cursor<'_>) -> Result<MatchText, StfError> {
    let first = cursor.peek();
    let ends_here = cursor.remaining()[first.map_or(0, char::len_utf8)..].starts_with(|c: char| c.is_whitespace());
    if matches!(first, Some('*' | '_')) && (ends_here || cursor.remaining().len() == 1) {
        cursor.take_while(|c| c == '*' || c == '_');
        return Ok(MatchText::Any);
    }
    let value = number(cursor)?;
    if cursor.take("/") {
        return Ok(MatchText::Prefix(value, integer(cursor, "prefix length")?));
    }
    if cursor.take("&&&") {
        let start = cursor.clone();
        let mask = number(cursor)?;
        let help = "write the mask as a non-negative number without `*`";
        return match mask.value.to_biguint() {
            Some(mask_bits) if !mask.has_wildcards() => Ok(MatchText::Mask(value, mask_bits)),
            _ => Err(start.error("the mask is not a plain number", help)),
        };
    }
    if cursor.take("..") || cursor.take("->") {
        return Ok(MatchText::Range(value, number(cursor)?));
    }
    Ok(MatchText::Number(value))
}
