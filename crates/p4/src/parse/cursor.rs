//! The parser's state: where it is, what it has found wrong, how deep it is.

use super::scope::Scopes;
use crate::ast::Ident;
use crate::diag::Diagnostic;
use crate::lex::{Tok, Token};
use crate::span::{SourceMap, Span};

/// Statements, expressions and types nest no deeper. A chain `a + b + c ...` counts as nesting.
pub const MAX_DEPTH: u32 = 256;

/// Parsing of a construct ended early. The diagnostic has been given.
#[derive(Debug)]
pub(super) struct Failed;

pub(super) type Parse<T> = Result<T, Failed>;

pub(super) struct Parser<'t> {
    tokens: &'t [Token],
    pub(super) at: usize,
    pub(super) map: &'t SourceMap,
    pub(super) scopes: Scopes,
    pub(super) diagnostics: Vec<Diagnostic>,
    max_errors: usize,
    /// How deep the constructs nest that are being parsed.
    depth: u32,
    /// Height of the expression or type that was parsed last. Chains of operators make trees high without nesting.
    pub(super) height: u32,
    /// Names in type position that are no types so far; a type parameter that follows may still declare them.
    pub(super) unknown_types: Vec<Ident>,
    /// Within `bit<...>`, `>` closes.
    pub(super) gt_closes: bool,
    eof: Token,
}

impl<'t> Parser<'t> {
    pub fn new(tokens: &'t [Token], map: &'t SourceMap, max_errors: usize) -> Self {
        let end = tokens.last().map(|t| t.span.end()).unwrap_or_default();
        let eof = Token { kind: Tok::Eof, text: "".into(), span: end, spaced: true, line_start: true };
        Parser {
            tokens,
            at: 0,
            map,
            scopes: Scopes::new(),
            diagnostics: Vec::new(),
            max_errors,
            depth: 0,
            height: 0,
            unknown_types: Vec::new(),
            gt_closes: false,
            eof,
        }
    }

    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics
    }

    /// The token `ahead` tokens from here.
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

    /// The span of the token before this one.
    pub fn last_span(&self) -> Span {
        match self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            Some(token) => token.span,
            None => self.span().start(),
        }
    }

    /// From `start` to the token before this one.
    pub fn since(&self, start: Span) -> Span {
        start.to(self.last_span())
    }

    /// The tokens `from..to`.
    pub fn tokens_between(&self, from: usize, to: usize) -> &'t [Token] {
        self.tokens.get(from..to).unwrap_or(&[])
    }

    pub fn is(&self, kind: Tok) -> bool {
        self.kind() == kind
    }

    /// Steps over the current token; never past the end.
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
            self.diagnostics.push(Diagnostic::too_many(self.max_errors, span));
            self.stop();
        }
    }

    /// Goes to the end, so that everything unwinds.
    fn stop(&mut self) {
        self.at = self.tokens.len();
    }

    /// Reports a syntax error here.
    pub fn fail<T>(&mut self, message: impl Into<String>) -> Parse<T> {
        self.fail_with(Diagnostic::error("syntax", self.span(), message))
    }

    pub fn fail_with<T>(&mut self, diagnostic: Diagnostic) -> Parse<T> {
        // At the end after a stop, what is missing is not the program's fault.
        if self.at < self.tokens.len() {
            self.report(diagnostic);
        }
        Err(Failed)
    }

    /// "expected `what`, found ...".
    pub fn fail_expected<T>(&mut self, what: &str) -> Parse<T> {
        let message = format!("expected {what}, found {}", self.token().describe());
        self.fail(message)
    }

    pub fn expect(&mut self, kind: Tok) -> Parse<Span> {
        if self.is(kind) {
            return Ok(self.bump());
        }
        let message = format!("expected {kind}, found {}", self.token().describe());
        let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
        if kind == Tok::Semi && (self.token().line_start || self.is(Tok::RBrace)) && !self.is(Tok::Eof) {
            // Somebody forgot it: what follows is to be understood as if it were there.
            let end = self.last_span().end();
            self.report(diagnostic.label(end, "`;` is missing here"));
            return Ok(end);
        }
        if matches!(kind, Tok::Semi | Tok::RParen | Tok::RBrace | Tok::RBracket | Tok::Comma | Tok::Colon) {
            diagnostic = diagnostic.label(self.last_span().end(), format!("{kind} is missing here"));
        }
        self.fail_with(diagnostic)
    }

    /// Runs `parse` one level deeper; refuses when that is too deep, since the stack is finite.
    pub fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            return self.too_deep(self.span());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Makes the height one more than `children`; refuses when that is too high.
    pub fn grow(&mut self, children: u32, span: Span) -> Parse<()> {
        self.height = children + 1;
        if self.height > MAX_DEPTH { self.too_deep(span) } else { Ok(()) }
    }

    fn too_deep<T>(&mut self, span: Span) -> Parse<T> {
        let message = format!("this nests deeper than {MAX_DEPTH} levels");
        let diagnostic = Diagnostic::error("limit", span, message).help("split it with variables, functions or blocks");
        let result = self.fail_with(diagnostic);
        self.stop();
        result
    }

    /// Whether the token can be a name. P4 lets many of its keywords be names where nothing else is meant.
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

    pub fn name(&mut self) -> Parse<Ident> {
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

    /// Items with commas between them up to `close`, which is consumed; `trailing` allows a comma in front of it.
    pub fn comma_list<T>(
        &mut self,
        close: Tok,
        trailing: bool,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
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
