//! The scanner: one file's characters to tokens.

use super::{Tok, Token};
use crate::span::{FileId, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Makes equal spellings share memory, and knows the keywords.
#[derive(Debug)]
pub struct Interner {
    names: HashSet<Arc<str>>,
    keywords: HashMap<&'static str, Tok>,
}

impl Default for Interner {
    fn default() -> Self {
        let keywords = Tok::FIXED.iter().filter(|tok| tok.is_keyword());
        Interner { names: HashSet::new(), keywords: keywords.map(|tok| (tok.text(), *tok)).collect() }
    }
}

impl Interner {
    /// The shared copy of `text`.
    pub fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.names.insert(new.clone());
        new
    }

    fn word(&self, text: &str) -> Tok {
        self.keywords.get(text).copied().unwrap_or(Tok::Ident)
    }
}

/// Punctuation, longest first among those with the same first character.
const PUNCTUATION: &[Tok] = &[
    Tok::InvalidHeader,
    Tok::PlusSatAssign,
    Tok::MinusSatAssign,
    Tok::Dots,
    Tok::Mask,
    Tok::ShlAssign,
    Tok::PlusSat,
    Tok::MinusSat,
    Tok::DotDot,
    Tok::Shl,
    Tok::AmpAmp,
    Tok::BarBar,
    Tok::EqEq,
    Tok::Ne,
    Tok::Ge,
    Tok::Le,
    Tok::PlusPlus,
    Tok::PlusColon,
    Tok::PlusAssign,
    Tok::MinusAssign,
    Tok::StarAssign,
    Tok::SlashAssign,
    Tok::PercentAssign,
    Tok::AmpAssign,
    Tok::BarAssign,
    Tok::CaretAssign,
    Tok::HashHash,
    Tok::Plus,
    Tok::Minus,
    Tok::Star,
    Tok::Slash,
    Tok::Percent,
    Tok::Bar,
    Tok::Amp,
    Tok::Caret,
    Tok::Tilde,
    Tok::LParen,
    Tok::RParen,
    Tok::LBracket,
    Tok::RBracket,
    Tok::LBrace,
    Tok::RBrace,
    Tok::Lt,
    Tok::Gt,
    Tok::Not,
    Tok::Colon,
    Tok::Comma,
    Tok::Question,
    Tok::Dot,
    Tok::Assign,
    Tok::Semi,
    Tok::At,
    Tok::Hash,
];

/// Reads the tokens of one file, one at a time.
#[derive(Debug)]
pub struct Scanner {
    file: FileId,
    text: Arc<str>,
    at: usize,
    /// Nothing but white space since the line began.
    at_line_start: bool,
    /// The line began with `#`: strings end with it.
    in_directive: bool,
    /// Text is skipped by `#if`: strings end with their line, since what is skipped need not be P4.
    pub lenient: bool,
}

/// What ended the white space in front of a token.
enum Trivia {
    None,
    Some,
    /// A `/*` without end, at this offset.
    Unterminated(usize),
}

impl Scanner {
    /// Reads `text`, which is the text of `file`.
    pub fn new(file: FileId, text: Arc<str>) -> Self {
        Scanner { file, text, at: 0, at_line_start: true, in_directive: false, lenient: false }
    }

    /// Goes back to `token`, the first of its line, so that it is read again.
    pub fn unread(&mut self, token: &Token) {
        self.at = token.span.lo as usize;
        self.at_line_start = token.line_start;
        self.in_directive = false;
    }

    /// The next token; [`Tok::Eof`] at the end, again and again.
    pub fn next_token(&mut self, interner: &mut Interner) -> Token {
        let trivia = self.skip_trivia();
        let line_start = std::mem::replace(&mut self.at_line_start, false);
        if line_start {
            self.in_directive = false;
        }
        let (kind, start) = match trivia {
            Trivia::Unterminated(start) => (Tok::Unterminated, start),
            _ => (self.scan_kind(), self.at),
        };
        let end = match kind {
            Tok::Unterminated if matches!(trivia, Trivia::Unterminated(_)) => self.text.len(),
            _ => self.at + self.token_len(kind),
        };
        self.at = end;
        if line_start && kind == Tok::Hash {
            self.in_directive = true;
        }
        let spelled = &self.text[start..end];
        let kind = if kind == Tok::Ident { interner.word(spelled) } else { kind };
        Token {
            kind,
            text: interner.intern(spelled),
            span: Span::new(self.file, start as u32, end as u32),
            spaced: !matches!(trivia, Trivia::None),
            line_start: line_start || kind == Tok::Eof,
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space, comments and line continuations. A newline within a comment does not begin a line, as in C.
    fn skip_trivia(&mut self) -> Trivia {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.at_line_start = true;
                    self.in_directive = false;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'\\' => match continuation_len(self.rest()) {
                    Some(len) => self.at += len,
                    None => break,
                },
                b'/' if self.rest().starts_with("//") => self.skip_line_comment(),
                b'/' if self.rest().starts_with("/*") => match self.rest()[2..].find("*/") {
                    Some(end) => self.at += end + 4,
                    None => return Trivia::Unterminated(self.at),
                },
                _ => break,
            }
        }
        if self.at == start { Trivia::None } else { Trivia::Some }
    }

    /// Skips to the newline; one after a backslash does not end the comment.
    fn skip_line_comment(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => return,
                b'\\' => self.at += continuation_len(self.rest()).unwrap_or(1),
                _ => self.at += 1,
            }
        }
    }

    fn scan_kind(&self) -> Tok {
        let Some(byte) = self.peek() else { return Tok::Eof };
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Tok::Ident,
            b'0'..=b'9' => Tok::Int,
            b'"' => match self.string_len() {
                (_, true) => Tok::Str,
                (_, false) => Tok::Unterminated,
            },
            _ => {
                let rest = self.rest();
                PUNCTUATION.iter().copied().find(|tok| rest.starts_with(tok.text())).unwrap_or(Tok::Unknown)
            }
        }
    }

    fn token_len(&self, kind: Tok) -> usize {
        match kind {
            Tok::Ident | Tok::Int => {
                self.rest().bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
            }
            Tok::Str | Tok::Unterminated => self.string_len().0,
            Tok::Unknown => self.rest().chars().next().map_or(0, char::len_utf8),
            fixed => fixed.text().len(),
        }
    }

    /// Length of the string literal here in bytes, and whether it is closed. It ends at the first quote that has
    /// not an odd number of backslashes in front; newlines are allowed in it, except in directives.
    fn string_len(&self) -> (usize, bool) {
        let bytes = self.rest().as_bytes();
        let mut at = 1;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => return (at + 1, true),
                b'\n' if self.in_directive || self.lenient => return (at, false),
                // A byte after a backslash may be the first of several of a character; the others are
                // not quotes, so that stepping over one is right.
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        (bytes.len(), false)
    }
}

/// Length of a backslash-newline at the start of `text`.
fn continuation_len(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'\\', b'\n', ..] => Some(2),
        [b'\\', b'\r', b'\n', ..] => Some(3),
        _ => None,
    }
}
