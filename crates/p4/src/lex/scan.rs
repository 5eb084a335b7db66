//! The scanner: the text that the preprocessor wrote to P4's tokens.

use super::{Tok, Token};
use crate::diag::Diagnostic;
use crate::span::{SourceMap, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Makes equal spellings share memory, and knows the keywords.
#[derive(Debug)]
struct Interner {
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
    fn intern(&mut self, text: &str) -> Arc<str> {
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

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Offset in the text.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
    /// Where it was written, or the macro that it came out of was used.
    pub span: Span,
    /// The text at `span` is the same, so that a part of the piece is a part of it.
    pub exact: bool,
}

/// The tokens of a text, and what is wrong with it.
pub(crate) struct Scanned {
    pub tokens: Vec<Token>,
    pub diagnostics: Vec<Diagnostic>,
    /// Where there were more tokens than may be.
    pub cut: Option<Span>,
}

/// All tokens of `text`, whose pieces tell where it was written; the last is [`Tok::Eof`] at
/// `end`.
///
/// A line of it that begins with `#` is no part of the program: `# 12 "file"` says where the next
/// line comes from, and what it says otherwise is not known.
pub(crate) fn tokens_of(text: &str, pieces: &[Piece], map: &mut SourceMap, end: Span, most: usize) -> Scanned {
    let mut scanner = Scanner {
        text,
        at: 0,
        at_line_start: true,
        sources: Sources { pieces, at: 0 },
        interner: Interner::default(),
        found: Scanned { tokens: Vec::new(), diagnostics: Vec::new(), cut: None },
    };
    while scanner.next_token(map) {
        if scanner.found.tokens.len() > most {
            scanner.found.cut = scanner.found.tokens.pop().map(|token| token.span);
            break;
        }
    }
    let empty = scanner.interner.intern("");
    scanner.found.tokens.push(Token { kind: Tok::Eof, text: empty, span: end, spaced: true, line_start: true });
    scanner.found
}

/// Where offsets of the text were written.
struct Sources<'t> {
    pieces: &'t [Piece],
    /// The piece of the last token.
    at: usize,
}

impl Sources<'_> {
    /// The span of `start..end`; tokens come in order.
    fn span(&mut self, start: usize, end: usize) -> Span {
        while self.pieces.get(self.at + 1).is_some_and(|next| next.start as usize <= start) {
            self.at += 1;
        }
        let Some(first) = self.pieces.get(self.at) else { return Span::default() };
        let mut last = self.at;
        while self.pieces.get(last + 1).is_some_and(|next| (next.start as usize) < end) {
            last += 1;
        }
        let span = part(first, start, end);
        if last == self.at { span } else { span.to(part(&self.pieces[last], start, end)) }
    }
}

/// The span of what `start..end` has of a piece.
fn part(piece: &Piece, start: usize, end: usize) -> Span {
    if !piece.exact {
        return piece.span;
    }
    let from = (start as u32).saturating_sub(piece.start).min(piece.len);
    let to = (end as u32).saturating_sub(piece.start).min(piece.len);
    Span::new(piece.span.file, piece.span.lo + from, piece.span.lo + to)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// Nothing but blanks since the line began.
    at_line_start: bool,
    sources: Sources<'t>,
    interner: Interner,
    found: Scanned,
}

impl Scanner<'_> {
    /// Reads one token; false at the end.
    fn next_token(&mut self, map: &mut SourceMap) -> bool {
        let before = self.at;
        // A comment at the beginning of a line makes `#` behind it no directive, but the token is
        // still the first.
        let mut line_start = self.skip_blanks();
        if self.at_line_start && self.peek() == Some(b'#') {
            self.skip_directive(map);
            return true;
        }
        while self.rest().starts_with("//") || self.rest().starts_with("/*") {
            self.at_line_start = false;
            if !self.skip_comment() {
                return false;
            }
            line_start |= self.skip_blanks();
            if self.at_line_start && self.peek() == Some(b'#') {
                self.skip_directive(map);
                return true;
            }
        }
        let start = self.at;
        let Some(kind) = self.scan_kind() else { return false };
        self.at += self.token_len(kind);
        let line_start = line_start || start == 0 || self.found.tokens.is_empty();
        self.at_line_start = false;
        let spelled = &self.text[start..self.at];
        let kind = if kind == Tok::Ident { self.interner.word(spelled) } else { kind };
        let span = self.sources.span(start, self.at);
        if kind == Tok::Unterminated {
            let diagnostic = Diagnostic::error("syntax", span, "this string is never closed");
            self.found.diagnostics.push(diagnostic.help("add the closing `\"`"));
            return true;
        }
        let text = self.interner.intern(spelled);
        self.found.tokens.push(Token { kind, text, span, spaced: start > before, line_start });
        true
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space; whether a line began.
    fn skip_blanks(&mut self) -> bool {
        let mut began = false;
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    began = true;
                    self.at_line_start = true;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                _ => break,
            }
            self.at += 1;
        }
        began
    }

    /// Skips the comment here; false if it has no end.
    fn skip_comment(&mut self) -> bool {
        let start = self.at;
        if self.rest().starts_with("//") {
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            return true;
        }
        if let Some(end) = self.rest()[2..].find("*/") {
            self.at += end + 4;
            return true;
        }
        let span = self.sources.span(start, self.text.len());
        let diagnostic = Diagnostic::error("syntax", span, "this comment is never closed");
        self.found.diagnostics.push(diagnostic.help("add the closing `*/`"));
        self.at = self.text.len();
        false
    }

    /// Skips a line that begins with `#`.
    fn skip_directive(&mut self, map: &mut SourceMap) {
        let start = self.at;
        let len = self.rest().find('\n').unwrap_or(self.rest().len());
        self.at += len;
        let line = self.text[start..self.at].trim_end();
        let span = self.sources.span(start, start + line.len());
        let words = line[1..].strip_prefix("line").unwrap_or(&line[1..]).trim_start();
        let digits = words.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(number) = words[..digits].parse::<u32>() {
            let name = words[digits..].trim_start().strip_prefix('"').and_then(|name| name.split('"').next());
            let text = map.file(span.file).map(|file| file.text.clone()).unwrap_or_default();
            let tail = text.get(span.hi as usize..).unwrap_or("");
            let next = tail.find('\n').map_or(text.len(), |newline| span.hi as usize + newline + 1);
            map.renumber(span.file, next as u32, number, name.map(Arc::from));
            return;
        }
        let word: String = words.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let message = format!("unknown directive `#{word}` is ignored");
        self.found.diagnostics.push(Diagnostic::warning("unknown-directive", span, message));
    }

    fn scan_kind(&self) -> Option<Tok> {
        Some(match self.peek()? {
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
        })
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

    /// Length of the string literal here in bytes, and whether it is closed. It ends at the first
    /// quote that has not an odd number of backslashes in front; newlines are allowed in it.
    fn string_len(&self) -> (usize, bool) {
        let bytes = self.rest().as_bytes();
        let mut at = 1;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => return (at + 1, true),
                // A byte after a backslash may be the first of several of a character; the others
                // are not quotes, so that stepping over one is right.
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        (bytes.len(), false)
    }
}
