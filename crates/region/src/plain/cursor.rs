//! [`PlainCursor`]: the position of the plain reader in a text, and its tokens.

use crate::spanned::SourcePos;

/// Error of the plain reader. It has no reason, because the YAML reader then reads the text and
/// reports one.
#[derive(Debug)]
pub(super) struct NotPlain;

/// Position of a reader in a text of ASCII lines. Columns count from 0.
pub(crate) struct PlainCursor<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

/// A scalar, and whether it is quoted.
pub(super) struct PlainScalar<'a> {
    pub text: &'a str,
    pub is_quoted: bool,
}

/// Returns whether names, numbers, addresses and prefixes can contain a byte.
const fn is_scalar_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':')
}

const SCALAR_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = is_scalar_byte(byte as u8);
        byte += 1;
    }
    table
};

impl<'a> PlainCursor<'a> {
    /// Creates a cursor at the start of a line. `at` is its offset and `line` its number, from 1.
    pub(crate) fn new(text: &'a str, at: usize, line: u32) -> PlainCursor<'a> {
        PlainCursor { text, at, line, line_start: at }
    }

    /// Returns the offset of the start of the line, or the end of the text.
    pub(crate) fn line_start(&self) -> usize {
        if self.is_at_end() { self.at } else { self.line_start }
    }

    /// Returns the number of the line. At the end of the text, it is that of the line after the
    /// last.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn column(&self) -> usize {
        self.at - self.line_start
    }

    pub(super) fn position(&self) -> SourcePos {
        SourcePos::saturating(u64::from(self.line), self.column() as u64 + 1)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns whether an item of a block list starts here: `-` and a blank.
    pub(super) fn is_at_item(&self) -> bool {
        self.text.as_bytes()[self.at..].starts_with(b"- ")
    }

    pub(super) fn take(&mut self, byte: u8) -> Result<(), NotPlain> {
        if self.peek() != Some(byte) {
            return Err(NotPlain);
        }
        self.at += 1;
        Ok(())
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Returns whether only blanks and a comment follow on the line.
    pub(super) fn is_line_done(&self) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        match rest.iter().position(|byte| *byte != b' ') {
            Some(blanks) => matches!(rest[blanks], b'\n' | b'\r') || rest[blanks] == b'#' && blanks > 0,
            None => true,
        }
    }

    /// Skips the end of a line with its comment and blanks, and all lines without content. The
    /// cursor is then at the first non-blank character of a line, or at the end.
    pub(super) fn finish_line(&mut self) -> Result<(), NotPlain> {
        let mut is_behind_blank = false;
        loop {
            match self.peek() {
                None => return Ok(()),
                Some(b' ') => (self.at, is_behind_blank) = (self.at + 1, true),
                Some(b'#') if is_behind_blank => self.skip_comment(),
                Some(b'\n' | b'\r') => break,
                Some(_) => return Err(NotPlain),
            }
        }
        loop {
            if self.peek() == Some(b'\r') {
                self.at += 1;
            }
            self.take(b'\n')?;
            self.line = self.line.checked_add(1).ok_or(NotPlain)?;
            self.line_start = self.at;
            self.skip_blanks();
            if self.peek() == Some(b'#') {
                self.skip_comment();
            }
            if !matches!(self.peek(), Some(b'\n' | b'\r')) {
                break;
            }
        }
        // After a comment, only a line end is plain.
        if self.peek().is_none_or(|byte| byte.is_ascii_graphic()) { Ok(()) } else { Err(NotPlain) }
    }

    fn skip_comment(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| !(b' '..=b'~').contains(byte)).unwrap_or(rest.len());
    }

    /// Reads a key and its colon, which a blank or a line end must follow.
    pub(super) fn key(&mut self) -> Result<&'a str, NotPlain> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_of_key = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'_';
        let len = rest.iter().position(|byte| !is_of_key(byte)).ok_or(NotPlain)?;
        if len == 0 || rest[len] != b':' || !matches!(rest.get(len + 1), Some(b' ' | b'\n' | b'\r')) {
            return Err(NotPlain);
        }
        let key = &self.text[self.at..self.at + len];
        self.at += len + 1;
        Ok(key)
    }

    /// Reads a scalar without quotes, or in quotes and without escapes.
    pub(super) fn scalar(&mut self) -> Result<PlainScalar<'a>, NotPlain> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let start = self.at + usize::from(quote.is_some());
        let rest = &self.text.as_bytes()[start..];
        let len = rest.iter().position(|byte| !SCALAR_BYTES[usize::from(*byte)]).unwrap_or(rest.len());
        let text = &self.text[start..start + len];
        self.at = start + len;
        if let Some(quote) = quote {
            self.take(quote)?;
            // A doubled quote is an escape.
            let is_whole = len > 0 && self.peek() != Some(quote);
            return if is_whole { Ok(PlainScalar { text, is_quoted: true }) } else { Err(NotPlain) };
        }
        let is_first = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        // A colon at the end makes the text a key, and `null` is not a text.
        if !rest.first().is_some_and(is_first) || text.ends_with(':') || text.eq_ignore_ascii_case("null") {
            return Err(NotPlain);
        }
        Ok(PlainScalar { text, is_quoted: false })
    }
}
