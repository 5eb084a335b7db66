//! Tokens of the text format.

use super::error::TextError;
use num_bigint::BigUint;
use num_traits::Num;
use std::borrow::Cow;

/// Maximum length of a number in characters: the widest scalar (2^16 bits) has 19,729 decimal
/// digits. The limit bounds the quadratic time of decimal conversion.
const MAX_NUMBER_CHARS: usize = 20_000;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum TokenKind<'a> {
    /// `load`, `block0`, `counter.count`, `hdr.vlan[1]`.
    Word(&'a str),
    /// `$hdr.ipv4`, `$"odd name"`.
    Name(Cow<'a, str>),
    /// `"text"`.
    Str(Cow<'a, str>),
    /// `12`, `0xff`.
    Int(BigUint),
    /// A punctuation sign, such as `{`, `=>`, `&&&`.
    Sign(&'static str),
    /// The end of the text.
    End,
}

impl TokenKind<'_> {
    pub fn describe(&self) -> String {
        match self {
            TokenKind::Word(w) => format!("`{}`", clip_for_message(w)),
            TokenKind::Name(n) => format!("`${}`", clip_for_message(n)),
            TokenKind::Str(_) => "a string".into(),
            TokenKind::Int(_) => "a number".into(),
            TokenKind::Sign(s) => format!("`{s}`"),
            TokenKind::End => "the end of the text".into(),
        }
    }
}

/// Returns the start of a word of the input, short enough for a message.
pub(super) fn clip_for_message(text: &str) -> String {
    if text.chars().count() <= 60 { text.to_string() } else { text.chars().take(57).chain("...".chars()).collect() }
}

#[derive(Clone, Debug)]
pub(super) struct TextToken<'a> {
    pub kind: TokenKind<'a>,
    /// Byte offset of the first character.
    pub offset: usize,
    /// First token on its line; statements start with such a token.
    pub is_first_on_line: bool,
    /// Number of open braces around the token; a brace itself counts as outside.
    pub brace_depth: u32,
}

const SIGNS: [&str; 16] = ["&&&", "=>", "..", "{", "}", "(", ")", ",", ":", "=", "<", ">", "/", "@", "-", "?"];

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    tokens: Vec<TextToken<'a>>,
}

/// Returns the line, and the column in characters, of a byte offset; both from 1. Only needed for
/// errors.
pub(super) fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    let lines = before.bytes().filter(|b| *b == b'\n').count();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    (count(lines), count(before[line_start..].chars().count()))
}

/// Splits a text into tokens, the last of which is [`TokenKind::End`]. Each has the number of
/// braces around it.
pub(super) fn lex(text: &str) -> Result<Vec<TextToken<'_>>, TextError> {
    let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new() };
    let mut depth = 0u32;
    let mut last_line = 0;
    loop {
        lexer.skip_blanks();
        let (line, offset) = (lexer.line, lexer.at);
        let kind = lexer.next_token_kind()?;
        let is_end = kind == TokenKind::End;
        // A closing brace has the depth outside of it, like its opening brace.
        if kind == TokenKind::Sign("}") {
            depth = depth.saturating_sub(1);
        }
        let is_opening = kind == TokenKind::Sign("{");
        lexer.tokens.push(TextToken { kind, offset, is_first_on_line: line != last_line, brace_depth: depth });
        depth += u32::from(is_opening);
        last_line = line;
        if is_end {
            return Ok(lexer.tokens);
        }
    }
}

impl<'a> Lexer<'a> {
    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }
    fn error(&self, message: impl Into<String>, help: impl Into<String>) -> TextError {
        let (line, col) = line_and_column(self.text, self.at);
        TextError { line, col, message: message.into(), help: help.into() }
    }
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.remaining_text();
            if rest.starts_with('\n') {
                self.at += 1;
                self.line = self.line.saturating_add(1);
            } else if let Some(c) = rest.chars().next().filter(|c| c.is_whitespace()) {
                self.at += c.len_utf8();
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }
    /// Reads the next token after white space; [`TokenKind::End`] at the end of the text.
    fn next_token_kind(&mut self) -> Result<TokenKind<'a>, TextError> {
        let remaining = self.remaining_text();
        let Some(first) = remaining.chars().next() else { return Ok(TokenKind::End) };
        if first.is_ascii_alphabetic() || first == '_' {
            return Ok(TokenKind::Word(self.lex_word()));
        }
        if first.is_ascii_digit() {
            return self.lex_number();
        }
        if first == '"' {
            return Ok(TokenKind::Str(self.lex_string()?));
        }
        if let Some(after_dollar) = remaining.strip_prefix('$') {
            self.at += 1;
            return match after_dollar.chars().next() {
                Some('"') => Ok(TokenKind::Name(self.lex_string()?)),
                Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                    Ok(TokenKind::Name(Cow::Borrowed(self.lex_word())))
                }
                _ => Err(self.error("`$` without a name", "write `$name` or `$\"odd name\"`")),
            };
        }
        match SIGNS.into_iter().find(|s| remaining.starts_with(s)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(TokenKind::Sign(sign))
            }
            None => Err(self.error(
                format!("the character `{}` has no meaning here", first.escape_default()),
                "remove it, or put names with odd characters in quotes",
            )),
        }
    }
    /// Lexes `word(.word)*`, each with any number of `[digits]`; the caller has checked the first
    /// letter.
    fn lex_word(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits_end = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        loop {
            while bytes.get(self.at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_') {
                self.at += 1;
            }
            while bytes.get(self.at) == Some(&b'[') {
                let end = digits_end(self.at + 1);
                if end == self.at + 1 || bytes.get(end) != Some(&b']') {
                    break;
                }
                self.at = end + 1;
            }
            let has_next_part = bytes.get(self.at) == Some(&b'.')
                && bytes.get(self.at + 1).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
            if !has_next_part {
                return &self.text[start..self.at];
            }
            self.at += 1;
        }
    }
    fn lex_number(&mut self) -> Result<TokenKind<'a>, TextError> {
        let rest = self.remaining_text();
        let (digits, radix) = match rest.strip_prefix("0x") {
            Some(hex) => (hex, 16),
            None => (rest, 10),
        };
        let end = digits.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(digits.len());
        let digits = &digits[..end];
        if digits.len() > MAX_NUMBER_CHARS {
            return Err(self.error("the number is too long", format!("numbers have at most {MAX_NUMBER_CHARS} digits")));
        }
        let value = BigUint::from_str_radix(digits, radix).map_err(|_| {
            self.error(format!("`{}` is not a number", clip_for_message(digits)), "write it as `12` or `0xff`")
        })?;
        self.at += end + if radix == 16 { 2 } else { 0 };
        Ok(TokenKind::Int(value))
    }
    /// Lexes a string; the caller has checked the opening quote.
    fn lex_string(&mut self) -> Result<Cow<'a, str>, TextError> {
        let body = &self.remaining_text()[1..];
        // Most strings have no escapes and are borrowed.
        match body.find(['"', '\\', '\n']) {
            Some(end) if body.as_bytes()[end] == b'"' => {
                self.at += end + 2;
                Ok(Cow::Borrowed(&body[..end]))
            }
            _ => self.lex_escaped_string(body).map(Cow::Owned),
        }
    }
    /// Reads a string with escapes and returns its content. `body` is the text after the opening
    /// quote. The lexer then stands after the closing quote.
    fn lex_escaped_string(&mut self, body: &str) -> Result<String, TextError> {
        let mut content = String::new();
        let mut chars = body.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 2;
                    return Ok(content);
                }
                '\n' => break,
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => content.push('\n'),
                    Some('r') => content.push('\r'),
                    Some('t') => content.push('\t'),
                    Some(c @ ('"' | '\\')) => content.push(c),
                    Some('u') => {
                        let (c, len) = unicode_escape(chars.as_str()).ok_or_else(|| {
                            self.error("this `\\u` escape is no character", "write `\\u{hex digits}`")
                        })?;
                        content.push(c);
                        chars.nth(len - 1);
                    }
                    _ => return Err(self.error("unknown escape in a string", "use \\\" \\\\ \\n \\r \\t \\u{hex}")),
                },
                c => content.push(c),
            }
        }
        Err(self.error("the string has no end", "close it with `\"` on the same line; a line end is `\\n`"))
    }
}

/// Returns the character of `{hex}` at the start of `text`, and the number of characters of the
/// escape.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let (hex, _) = text.strip_prefix('{')?.split_once('}')?;
    let ok = !hex.is_empty() && hex.len() <= 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let c = ok.then(|| u32::from_str_radix(hex, 16).ok()).flatten().and_then(char::from_u32)?;
    Some((c, hex.len() + 2))
}
