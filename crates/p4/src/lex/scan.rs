//! The scanner: splits the output text of the preprocessor into P4 tokens.

use super::{Tok, Token};
use crate::diag::Diagnostic;
use crate::span::{SourceMap, Span};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// String interner: equal spellings share memory. It also recognises keywords.
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
    /// Returns the shared copy of `text`.
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.names.insert(new.clone());
        new
    }

    fn keyword_or_ident(&self, text: &str) -> Tok {
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

/// A range of the preprocessed text and its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPiece {
    /// Byte offset in the text.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
    /// Span where the text was written, or of the macro use that produced it.
    pub span: Span,
    /// Whether the text at `span` is identical, so that offsets within the piece are offsets within
    /// `span`.
    pub is_verbatim: bool,
}

/// The tokens of a text and the diagnostics about it.
pub(crate) struct ScannedTokens {
    pub tokens: Vec<Token>,
    pub diagnostics: Vec<Diagnostic>,
    /// Position at which the token limit was exceeded.
    pub truncated_at: Option<Span>,
}

/// Returns all tokens of `text`. `pieces` gives the origin of each range of the text. The last
/// token is [`Tok::Eof`] at `end`. After `max_tokens` tokens, scanning stops, and the result says
/// where.
///
/// A line that begins with `#` is not part of the program: `# 12 "file"` sets the origin of the
/// next line. Other such lines are reported as unknown directives.
pub(crate) fn scan_tokens(
    text: &str,
    pieces: &[TextPiece],
    map: &mut SourceMap,
    end: Span,
    max_tokens: usize,
) -> ScannedTokens {
    let mut scanner = Scanner {
        text,
        at: 0,
        at_line_start: true,
        sources: TextOrigins { pieces, at: 0 },
        interner: Interner::default(),
        found: ScannedTokens { tokens: Vec::new(), diagnostics: Vec::new(), truncated_at: None },
    };
    while scanner.next_token(map) {
        if scanner.found.tokens.len() > max_tokens {
            scanner.found.truncated_at = scanner.found.tokens.pop().map(|token| token.span);
            break;
        }
    }
    let empty = scanner.interner.intern("");
    scanner.found.tokens.push(Token {
        kind: Tok::Eof,
        text: empty,
        span: end,
        has_space_before: true,
        is_line_start: true,
    });
    scanner.found
}

/// Maps text offsets to the spans of their origin.
struct TextOrigins<'t> {
    pieces: &'t [TextPiece],
    /// Index of the piece that contains the last token.
    at: usize,
}

impl TextOrigins<'_> {
    /// Returns the span of `start..end`. Calls must be in order of the tokens.
    fn span(&mut self, start: usize, end: usize) -> Span {
        while self.pieces.get(self.at + 1).is_some_and(|next| next.start as usize <= start) {
            self.at += 1;
        }
        let Some(first) = self.pieces.get(self.at) else { return Span::default() };
        let mut last = self.at;
        while self.pieces.get(last + 1).is_some_and(|next| (next.start as usize) < end) {
            last += 1;
        }
        let span = piece_span(first, start, end);
        if last == self.at { span } else { span.to(piece_span(&self.pieces[last], start, end)) }
    }
}

/// Returns the span of the intersection of `start..end` with a piece.
fn piece_span(piece: &TextPiece, start: usize, end: usize) -> Span {
    if !piece.is_verbatim {
        return piece.span;
    }
    let from = (start as u32).saturating_sub(piece.start).min(piece.len);
    let to = (end as u32).saturating_sub(piece.start).min(piece.len);
    Span::new(piece.span.file, piece.span.lo + from, piece.span.lo + to)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// Only blanks were read since the line began.
    at_line_start: bool,
    sources: TextOrigins<'t>,
    interner: Interner,
    found: ScannedTokens,
}

impl Scanner<'_> {
    /// Reads one token, or a line that begins with `#`, which gives none. Returns false at the end
    /// of the text.
    fn next_token(&mut self, map: &mut SourceMap) -> bool {
        let previous_end = self.at;
        // A `#` after a comment at the beginning of a line is no directive, but it is still the
        // first token of its line.
        let mut line_start = self.skip_blanks();
        if self.at_line_start && self.peek() == Some(b'#') {
            self.skip_directive(map);
            return true;
        }
        while self.remaining_text().starts_with("//") || self.remaining_text().starts_with("/*") {
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
        let kind = if kind == Tok::Ident { self.interner.keyword_or_ident(spelled) } else { kind };
        let span = self.sources.span(start, self.at);
        if kind == Tok::Unterminated {
            let diagnostic = Diagnostic::error("syntax", span, "this string is never closed");
            self.found.diagnostics.push(diagnostic.help("add the closing `\"`"));
            return true;
        }
        let text = self.interner.intern(spelled);
        self.found.tokens.push(Token {
            kind,
            text,
            span,
            has_space_before: start > previous_end,
            is_line_start: line_start,
        });
        true
    }

    fn remaining_text(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space; returns whether it contained a newline.
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

    /// Skips the comment at the current position; returns false if it is not closed.
    fn skip_comment(&mut self) -> bool {
        let start = self.at;
        if self.remaining_text().starts_with("//") {
            self.at += self.remaining_text().find('\n').unwrap_or(self.remaining_text().len());
            return true;
        }
        if let Some(end) = self.remaining_text()[2..].find("*/") {
            self.at += end + 4;
            return true;
        }
        let span = self.sources.span(start, self.text.len());
        let diagnostic = Diagnostic::error("syntax", span, "this comment is never closed");
        self.found.diagnostics.push(diagnostic.help("add the closing `*/`"));
        self.at = self.text.len();
        false
    }

    /// Skips a line that begins with `#`. `# 12 "file"` or `#line 12 "file"` sets the line number
    /// and file name of the next line in `map`; any other is reported.
    fn skip_directive(&mut self, map: &mut SourceMap) {
        let start = self.at;
        let len = self.remaining_text().find('\n').unwrap_or(self.remaining_text().len());
        self.at += len;
        let line = self.text[start..self.at].trim_end();
        let span = self.sources.span(start, start + line.len());
        let words = line[1..].strip_prefix("line").unwrap_or(&line[1..]).trim_start();
        let digits = words.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(number) = words[..digits].parse::<u32>() {
            let name = words[digits..].trim_start().strip_prefix('"').and_then(|name| name.split('"').next());
            let text = map.file(span.file).map(|file| file.text.clone()).unwrap_or_default();
            let after_line = text.get(span.hi as usize..).unwrap_or("");
            let next_line = after_line.find('\n').map_or(text.len(), |newline| span.hi as usize + newline + 1);
            map.add_line_directive(span.file, next_line as u32, number, name.map(Arc::from));
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
                let rest = self.remaining_text();
                PUNCTUATION.iter().copied().find(|tok| rest.starts_with(tok.text())).unwrap_or(Tok::Unknown)
            }
        })
    }

    fn token_len(&self, kind: Tok) -> usize {
        match kind {
            Tok::Ident | Tok::Int => {
                self.remaining_text().bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
            }
            Tok::Str | Tok::Unterminated => self.string_len().0,
            Tok::Unknown => self.remaining_text().chars().next().map_or(0, char::len_utf8),
            fixed => fixed.text().len(),
        }
    }

    /// Returns the length of the string literal at the current position in bytes, and whether it is
    /// closed. It ends at the first quote that an even number of backslashes precedes. It can
    /// contain newlines.
    fn string_len(&self) -> (usize, bool) {
        let bytes = self.remaining_text().as_bytes();
        let mut at = 1;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => return (at + 1, true),
                // The byte after a backslash can start a multi-byte character. Skipping only that
                // byte is right, because continuation bytes are never quotes.
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        (bytes.len(), false)
    }
}
