//! Evaluates number and character constants in `#if`.

use super::number::ConditionInt;
use super::preprocessor::Preprocessor;
use super::token::{PpToken, PpTokenKind};
use crate::diag::Diagnostic;
use crate::span::Span;

/// One character of a constant.
pub(super) enum ConstantChar {
    /// A numeric code from an escape sequence.
    Byte(u32),
    /// A character as written.
    Character(u32),
    /// A character named as `\u1234`.
    Universal(u32),
}

impl Preprocessor<'_> {
    fn bad_constant(&mut self, span: Span, message: String) -> ConditionInt {
        self.report(Diagnostic::error("bad-condition", span, message));
        ConditionInt::ZERO
    }

    fn warn_constant(&mut self, span: Span, message: &str) {
        self.report(Diagnostic::warning("bad-constant", span, message));
    }

    /// Returns the value of a number. Reports an invalid one and returns 0. A number without suffix
    /// is signed unless it needs all 64 bits.
    pub(super) fn eval_number(&mut self, token: &PpToken) -> ConditionInt {
        let text = token.spelling();
        let bytes = text.as_bytes();
        let (base, start): (u32, usize) = match bytes {
            [b'0', b'x' | b'X', next, ..] if next.is_ascii_hexdigit() || *next == b'.' => (16, 2),
            [b'0', b'b' | b'B', b'0' | b'1', ..] => (2, 2),
            [b'0', ..] => (8, 1),
            _ => (10, 0),
        };
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (base == 16 && byte.is_ascii_hexdigit());
        let len = bytes[start..].iter().take_while(|byte| is_digit(byte)).count();
        let (digits, suffix) = bytes[start..].split_at(len);
        let exponent = if base == 16 { [b'p', b'P'] } else { [b'e', b'E'] };
        if suffix.first().is_some_and(|byte| *byte == b'.' || (base != 2 && exponent.contains(byte))) {
            return self.bad_constant(token.span, format!("`{text}` is not an integer"));
        }
        if let Some(digit) = digits.iter().find(|byte| !char::from(**byte).is_digit(base)) {
            let message = format!("`{}` is not a digit of base {base}, which `{text}` has", char::from(*digit));
            return self.bad_constant(token.span, message);
        }
        let Some(is_unsigned) = suffix_of(suffix) else {
            let shown = String::from_utf8_lossy(suffix).into_owned();
            return self.bad_constant(token.span, format!("`{shown}` cannot be at the end of a number in a condition"));
        };
        let mut num = ConditionInt { is_unsigned, ..ConditionInt::ZERO };
        let mut overflow = false;
        for digit in digits {
            let digit = u64::from(char::from(*digit).to_digit(base).unwrap_or(0));
            let exact = u128::from(num.bits) * u128::from(base) + u128::from(digit);
            num.overflow = exact > u128::from(u64::MAX);
            overflow |= num.overflow;
            num.bits = exact as u64;
        }
        if overflow {
            self.warn_constant(token.span, "the number has more than 64 bits; the high bits are dropped");
        } else if !is_unsigned && num.bits >> 63 == 1 {
            if base == 10 {
                self.warn_constant(token.span, "the number is too large for a signed value and becomes unsigned");
            }
            num.is_unsigned = true;
        }
        num
    }

    /// Returns the value of `'c'` or `L'c'`. In a constant of several characters, each has 8 bits
    /// and the last four count, as in cpp. In a wide constant, the last character counts.
    pub(super) fn character_constant(&mut self, token: &PpToken) -> ConditionInt {
        let is_wide = token.kind == PpTokenKind::WideChar;
        let text = token.spelling();
        let content = text.get(if is_wide { 2 } else { 1 }..text.len() - 1).unwrap_or("");
        let mut remaining = content.as_bytes();
        let mut codes: Vec<u32> = Vec::new();
        let mut units = 0usize;
        let mut value = 0u32;
        while !remaining.is_empty() {
            let (code, len) = self.read_character(remaining, if is_wide { 32 } else { 8 }, token.span);
            match code {
                ConstantChar::Byte(code) => {
                    codes.push(code);
                    value = if is_wide { code } else { value << 8 | code };
                    units += 1;
                }
                ConstantChar::Character(code) | ConstantChar::Universal(code) => {
                    let character = char::from_u32(code).unwrap_or('\u{fffd}');
                    codes.push(code);
                    if is_wide {
                        value = code;
                        units += 1;
                    } else {
                        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                            value = value << 8 | u32::from(byte);
                            units += 1;
                        }
                    }
                }
            }
            remaining = &remaining[len..];
        }
        if units == 0 {
            return self.bad_constant(token.span, "the character constant is empty".to_owned());
        }
        match units {
            1 => {}
            _ if is_wide || units > 4 => self.warn_constant(token.span, "the constant has too many characters"),
            _ => self.warn_constant(token.span, "the constant has several characters"),
        }
        // A single character is a signed `char`, so its bit 7 is the sign.
        let signed = if units == 1 && !is_wide { i64::from(value as u8 as i8) } else { i64::from(value as i32) };
        ConditionInt { bits: signed as u64, ..ConditionInt::ZERO }
    }

    /// Returns the first character or escape of `text`, which is not empty, and the number of bytes
    /// that it takes there. Numeric escapes have `width` bits.
    pub(super) fn read_character(&mut self, text: &[u8], width: u32, span: Span) -> (ConstantChar, usize) {
        if text[0] != b'\\' {
            return match first_character(text) {
                Some(character) => (ConstantChar::Character(u32::from(character)), character.len_utf8()),
                None => (ConstantChar::Byte(u32::from(text[0])), 1),
            };
        }
        let Some(&letter) = text.get(1) else { return (ConstantChar::Byte(u32::from(b'\\')), 1) };
        let code = match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => 10,
            b'r' => 13,
            b't' => 9,
            b'v' => 11,
            b'e' | b'E' => 27,
            b'\\' | b'\'' | b'"' | b'?' | b'(' | b'{' | b'[' | b'%' => u32::from(letter),
            b'x' => return self.numeric_escape(text, 2, 16, usize::MAX, width, span),
            b'0'..=b'7' => return self.numeric_escape(text, 1, 8, 3, width, span),
            b'u' | b'U' => return self.universal_escape(text, if letter == b'u' { 4 } else { 8 }, span),
            _ => {
                let message = format!("`\\{}` is not a known escape sequence", char::from(letter));
                self.warn_constant(span, &message);
                let (code, len) = self.read_character(&text[1..], width, span);
                return (code, len + 1);
            }
        };
        (ConstantChar::Byte(code), 2)
    }

    /// Reads a numeric escape of `text`: digits of `base` from index `start` on, at most
    /// `max_digits` of them. Returns its code, reduced to `width` bits, and the number of bytes of
    /// the whole escape.
    fn numeric_escape(
        &mut self,
        text: &[u8],
        start: usize,
        base: u32,
        max_digits: usize,
        width: u32,
        span: Span,
    ) -> (ConstantChar, usize) {
        let digits = text[start..].iter().take(max_digits).take_while(|byte| char::from(**byte).is_digit(base)).count();
        let mut code = 0u64;
        let mut has_overflow = false;
        for digit in &text[start..start + digits] {
            has_overflow |= code >> 60 != 0;
            code = code << base.trailing_zeros() | u64::from(char::from(*digit).to_digit(base).unwrap_or(0));
        }
        if digits == 0 {
            self.report(Diagnostic::error("bad-condition", span, "digits are missing after `\\x`"));
        }
        let mask = u64::from(u32::MAX) >> (32 - width);
        if has_overflow || code > mask {
            self.warn_constant(span, "the escape sequence is a number that is too large");
        }
        (ConstantChar::Byte((code & mask) as u32), start + digits)
    }

    fn universal_escape(&mut self, text: &[u8], digits: usize, span: Span) -> (ConstantChar, usize) {
        let found = text[2..].iter().take(digits).take_while(|byte| byte.is_ascii_hexdigit()).count();
        let code = text[2..2 + found]
            .iter()
            .fold(0u32, |code, digit| code << 4 | char::from(*digit).to_digit(16).unwrap_or(0));
        if found < digits || char::from_u32(code).is_none() {
            self.report(Diagnostic::error("bad-condition", span, "the escape sequence names no character"));
        }
        (ConstantChar::Universal(code), 2 + found)
    }
}

/// Returns the first character if it is valid UTF-8.
fn first_character(text: &[u8]) -> Option<char> {
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    valid.chars().next()
}

/// Returns whether the suffix makes a number unsigned; `None` for an invalid suffix.
fn suffix_of(suffix: &[u8]) -> Option<bool> {
    let lower = suffix.to_ascii_lowercase();
    let known = matches!(lower.as_slice(), b"" | b"u" | b"l" | b"ul" | b"lu" | b"ll" | b"ull" | b"llu");
    let mixed = suffix.windows(2).any(|pair| matches!(pair, b"lL" | b"Ll"));
    (known && !mixed).then(|| lower.contains(&b'u'))
}
