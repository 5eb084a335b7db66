//! The state of the parser: position, diagnostics and nesting depth.

use super::scope::TypeNameScopes;
use crate::ast::Ident;
use crate::diag::Diagnostic;
use crate::lex::{Tok, Token};
use crate::span::{SourceMap, Span};

/// Maximum nesting of statements, expressions and types. A chain `a + b + c ...` counts as nesting.
pub const MAX_DEPTH: u32 = 256;

/// Parsing of a construct failed. The error was already reported.
#[derive(Debug)]
pub(super) struct SyntaxErrorReported;

pub(super) type ParseResult<T> = Result<T, SyntaxErrorReported>;

pub(super) struct P4Parser<'t> {
    tokens: &'t [Token],
    pub(super) at: usize,
    pub(super) map: &'t SourceMap,
    pub(super) scopes: TypeNameScopes,
    pub(super) diagnostics: Vec<Diagnostic>,
    max_errors: usize,
    /// Nesting depth of the constructs being parsed.
    depth: u32,
    /// Height of the last parsed expression or type. Operator chains make trees high without
    /// nesting.
    pub(super) height: u32,
    /// Names in type position that are not known as types. A type parameter that follows can still
    /// declare them.
    pub(super) unknown_types: Vec<Ident>,
    /// Whether `>` closes the construct, as within `bit<...>`.
    pub(super) is_gt_closing: bool,
    eof: Token,
}

impl<'t> P4Parser<'t> {
    pub fn new(tokens: &'t [Token], map: &'t SourceMap, max_errors: usize) -> Self {
        let end = tokens.last().map(|t| t.span.end()).unwrap_or_default();
        let eof = Token { kind: Tok::Eof, text: "".into(), span: end, has_space_before: true, is_line_start: true };
        P4Parser {
            tokens,
            at: 0,
            map,
            scopes: TypeNameScopes::new(),
            diagnostics: Vec::new(),
            max_errors,
            depth: 0,
            height: 0,
            unknown_types: Vec::new(),
            is_gt_closing: false,
            eof,
        }
    }

    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// Returns the token `ahead` tokens after the current one.
    pub fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).unwrap_or(&self.eof)
    }

    pub fn token(&self) -> &Token {
        self.peek_at(0)
    }

    pub fn kind(&self) -> Tok {
        self.token().kind
    }

    pub fn kind_at(&self, ahead: usize) -> Tok {
        self.peek_at(ahead).kind
    }

    pub fn span(&self) -> Span {
        self.token().span
    }

    /// Returns the span of the token before this one.
    pub fn last_span(&self) -> Span {
        match self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            Some(token) => token.span,
            None => self.span().start(),
        }
    }

    /// Returns the span from `start` to the token before this one.
    pub fn span_since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    /// Returns the tokens `from..to`.
    pub fn tokens_between(&self, from: usize, to: usize) -> &'t [Token] {
        self.tokens.get(from..to).unwrap_or(&[])
    }

    pub fn is(&self, kind: Tok) -> bool {
        self.kind() == kind
    }

    /// Advances by one token, never past the end. Returns its span.
    pub fn bump(&mut self) -> Span {
        let span = self.span();
        self.at = (self.at + 1).min(self.tokens.len());
        span
    }

    pub fn eat(&mut self, kind: Tok) -> bool {
        let found = self.is(kind);
        if found {
            self.bump();
        }
        found
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        let span = diagnostic.primary;
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() == self.max_errors {
            self.diagnostics.push(Diagnostic::limit_reached(self.max_errors, span));
            self.skip_to_end();
        }
    }

    /// Moves to the end of the tokens, so that all constructs unwind.
    fn skip_to_end(&mut self) {
        self.at = self.tokens.len();
    }

    /// Reports a syntax error at the current token.
    pub fn fail<T>(&mut self, message: impl Into<String>) -> ParseResult<T> {
        self.fail_with(Diagnostic::error("syntax", self.span(), message))
    }

    pub fn fail_with<T>(&mut self, diagnostic: Diagnostic) -> ParseResult<T> {
        // After a stop, the missing tokens are not the fault of the program.
        if self.at < self.tokens.len() {
            self.report(diagnostic);
        }
        Err(SyntaxErrorReported)
    }

    /// Reports "expected `what`, found ...".
    pub fn fail_expected<T>(&mut self, what: &str) -> ParseResult<T> {
        let message = format!("expected {what}, found {}", self.token().describe());
        self.fail(message)
    }

    pub fn expect(&mut self, kind: Tok) -> ParseResult<Span> {
        if self.is(kind) {
            return Ok(self.bump());
        }
        let message = format!("expected {kind}, found {}", self.token().describe());
        let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
        if kind == Tok::Semi && (self.token().is_line_start || self.is(Tok::RBrace)) && !self.is(Tok::Eof) {
            // Treat a forgotten `;` as written, so that the following tokens parse correctly.
            let end = self.last_span().end();
            self.report(diagnostic.label(end, "`;` is missing here"));
            return Ok(end);
        }
        if matches!(kind, Tok::Semi | Tok::RParen | Tok::RBrace | Tok::RBracket | Tok::Comma | Tok::Colon) {
            diagnostic = diagnostic.label(self.last_span().end(), format!("{kind} is missing here"));
        }
        self.fail_with(diagnostic)
    }

    /// Runs `parse` one level deeper. Fails if that is too deep, because the stack is finite.
    pub fn parse_nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= MAX_DEPTH {
            return self.fail_too_deep(self.span());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Sets the height to `children + 1`. Fails if that is too high.
    pub fn set_height_above(&mut self, children: u32, span: Span) -> ParseResult<()> {
        self.height = children + 1;
        if self.height > MAX_DEPTH { self.fail_too_deep(span) } else { Ok(()) }
    }

    fn fail_too_deep<T>(&mut self, span: Span) -> ParseResult<T> {
        let message = format!("this nests deeper than {MAX_DEPTH} levels");
        let diagnostic = Diagnostic::error("limit", span, message).help("split it with variables, functions or blocks");
        let result = self.fail_with(diagnostic);
        self.skip_to_end();
        result
    }

    /// Returns whether the token can be a name. P4 allows many of its keywords as names where no
    /// other meaning is possible.
    pub fn is_name_at(&self, ahead: usize) -> bool {
        matches!(
            self.kind_at(ahead),
            Tok::Ident
                | Tok::Actions
                | Tok::Apply
                | Tok::Entries
                | Tok::Key
                | Tok::List
                | Tok::Priority
                | Tok::State
                | Tok::Type
        )
    }

    pub fn parse_name(&mut self) -> ParseResult<Ident> {
        if self.is_name_at(0) {
            let name = Ident::new(self.token().text.clone(), self.span());
            self.bump();
            return Ok(name);
        }
        let found = self.token().describe();
        let mut diagnostic = Diagnostic::error("syntax", self.span(), format!("expected a name, found {found}"));
        if self.kind().is_keyword() {
            diagnostic = diagnostic.help(format!("{found} is a keyword; choose another name"));
        }
        self.fail_with(diagnostic)
    }

    /// Parses comma-separated items up to `close`, which is consumed. `trailing` allows a comma
    /// before `close`.
    pub fn parse_comma_list<T>(
        &mut self,
        close: Tok,
        trailing: bool,
        mut item: impl FnMut(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.is(Tok::Comma) {
                let message = format!("expected `,` or {close}, found {}", self.token().describe());
                return self.fail(message);
            }
            self.bump();
            if trailing && self.eat(close) {
                return Ok(items);
            }
        }
    }
}
