//! Integer literals (specification, section "Integer literals").

use crate::ast::{IntLiteral, LiteralWidth};
use num_bigint::BigInt;
use thiserror::Error;

/// Longest literal in digits. The limit exists because conversion takes quadratic time.
const MAX_DIGITS: usize = 20_000;

/// Reason why a token that begins with a digit is not an integer.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NumberError {
    /// A letter, or a digit outside the base.
    #[error("`{digit}` is not a digit of base {base}")]
    Digit {
        /// The character.
        digit: char,
        /// The literal's base.
        base: u32,
    },
    /// The literal ends after its prefix: `0x`, `8w`.
    #[error("digits are missing after `{prefix}`")]
    NoDigits {
        /// The text before the missing digits.
        prefix: String,
    },
    /// A width that does not fit in 32 bits.
    #[error("the width `{0}` is too large")]
    Width(String),
    /// More digits than the limit.
    #[error("the literal has {0} digits; the limit is 20000")]
    TooLong(usize),
}

/// Parses an integer literal: `42`, `1_000`, `0xFF`, `0b1`, `0o7`, `0d9`, `8w255`, `4s0x7`.
///
/// # Errors
/// Returns an error if the text is not such a literal.
pub fn parse_integer(text: &str) -> Result<IntLiteral, NumberError> {
    let (width, rest) = split_width(text)?;
    let (base, digits) = split_base(rest);
    let clean: String = digits.chars().filter(|c| *c != '_').collect();
    if clean.is_empty() {
        let prefix = text.strip_suffix(digits).unwrap_or(text).to_owned();
        return Err(NumberError::NoDigits { prefix });
    }
    if clean.len() > MAX_DIGITS {
        return Err(NumberError::TooLong(clean.len()));
    }
    if let Some(digit) = clean.chars().find(|c| !c.is_digit(base)) {
        return Err(NumberError::Digit { digit, base });
    }
    let value = BigInt::parse_bytes(clean.as_bytes(), base).unwrap_or_default();
    Ok(IntLiteral { value, width, base })
}

/// Splits the prefix `8w` or `8s` off.
fn split_width(text: &str) -> Result<(Option<LiteralWidth>, &str), NumberError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let signed = match text.as_bytes().get(digits) {
        Some(b'w') => false,
        Some(b's') => true,
        _ => return Ok((None, text)),
    };
    let bits = text[..digits].parse().map_err(|_| NumberError::Width(text[..digits].to_owned()))?;
    Ok((Some(LiteralWidth { bits, is_signed: signed }), &text[digits + 1..]))
}

/// Splits the prefix `0x`, `0o`, `0b` or `0d` off.
fn split_base(text: &str) -> (u32, &str) {
    let base = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', b'b' | b'B', ..] => 2,
        [b'0', b'd' | b'D', ..] => 10,
        _ => return (10, text),
    };
    (base, &text[2..])
}
