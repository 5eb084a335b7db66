//! Cursor over one line of a test.
//!
//! STF has no tokens that are valid in every context: `0101` is a number after `:`, but packet
//! bytes after `packet 1`; `1..5` is a range, while `a.b` is a name. So the parser requests the
//! token that the grammar allows at each position.

use super::StfError;

/// Maximum length of a line, in bytes. Sufficient for twice the hex digits of the longest packet.
pub const MAX_LINE: usize = 1 << 17;

/// Position in a line.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    file: &'a str,
    line: u32,
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `text`, which is line number `line` of `file`. A comment
    /// (`#` outside quotes) is removed.
    pub fn new(file: &'a str, line: u32, text: &'a str) -> Self {
        let mut quoted = false;
        let comment = text.char_indices().find(|(_, c)| {
            quoted ^= *c == '"';
            *c == '#' && !quoted
        });
        let text = &text[..comment.map_or(text.len(), |(at, _)| at)];
        Cursor { file, line, text: text.trim_end(), at: 0 }
    }

    /// Returns the remaining text.
    pub fn remaining(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips blanks, and returns whether the line is at its end.
    pub fn at_end(&mut self) -> bool {
        self.skip_blanks();
        self.remaining().is_empty()
    }

    /// Skips blanks, and returns the next character without consuming it.
    pub fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.remaining().chars().next()
    }

    /// Skips blanks, and consumes `text` if it is next. Returns whether it was.
    pub fn take(&mut self, text: &str) -> bool {
        self.skip_blanks();
        let found = self.remaining().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Consumes characters while they satisfy `wanted`, without skipping blanks first.
    pub fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.remaining();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Consumes `text`, or returns an error with `help` if it is missing.
    pub fn expect_text(&mut self, text: &str, help: &str) -> Result<(), StfError> {
        if self.take(text) { Ok(()) } else { Err(self.error(format!("expected `{text}`"), help)) }
    }

    /// Consumes a word of letters, digits and `_`; empty if there is none.
    pub fn word(&mut self) -> &'a str {
        self.skip_blanks();
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Consumes a name: dotted, with `$`, with stack indices, or in double quotes. `what` names it
    /// in the error.
    pub fn name(&mut self, what: &str) -> Result<String, StfError> {
        self.skip_blanks();
        let start = self.clone();
        if self.take("\"") {
            let name = self.take_while(|c| c != '"').to_owned();
            return match self.take("\"") && !name.is_empty() {
                true => Ok(name),
                false => {
                    Err(start.error(format!("the quoted {what} does not end"), "close it with `\"` on the same line"))
                }
            };
        }
        let starts = |c: char| c.is_ascii_alphabetic() || c == '_' || c == '$';
        if !self.remaining().starts_with(starts) {
            return Err(
                start.error(format!("expected the {what}"), "names start with a letter, `_` or `$`, or are quoted")
            );
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '[' | ']'));
        Ok(name.to_owned())
    }

    /// Returns an error at the cursor.
    pub fn error(&self, message: impl Into<String>, help: impl Into<String>) -> StfError {
        let token: String = self.remaining().trim_start().chars().take_while(|c| !c.is_whitespace()).take(40).collect();
        let blanks = self.remaining().len() - self.remaining().trim_start().len();
        let column = self.text[..self.at + blanks].chars().count() as u32 + 1;
        StfError {
            file: self.file.to_owned(),
            line: self.line,
            column,
            token: (!token.is_empty()).then_some(token),
            message: message.into(),
            help: help.into(),
        }
    }

    /// Returns the number of the line, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }
}
