//! Parses parsers and controls.

use super::cursor::{P4Parser, ParseResult};
use super::scope::NameKind;
use crate::ast::{
    Annotations, Block, ControlBody, ControlDecl, Ident, Local, Param, ParserBody, ParserDecl, ParserState, SelectCase,
    Stmt, Transition, TransitionKind, TypeParam, ValueSetDecl,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

/// An item between the braces of a parser, in source order.
enum ParserItem {
    Local(Local),
    State(ParserState),
}

/// An item between the braces of a control.
enum ControlItem {
    Local(Local),
    Apply(Block),
}

/// The part of a declaration before the braces.
struct ParsedSignature {
    name: Ident,
    type_params: Vec<TypeParam>,
    params: Vec<Param>,
}

impl P4Parser<'_> {
    pub fn parser_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<ParserDecl> {
        let scope = self.scopes.depth();
        let signature = self.parse_signature();
        let body = signature.and_then(|signature| Ok((signature, self.parser_body()?)));
        self.scopes.truncate(scope);
        let (ParsedSignature { name, type_params, params }, body) = body?;
        Ok(ParserDecl { annotations, name, type_params, params, body, span: self.span_since(start) })
    }

    pub fn control_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<ControlDecl> {
        let scope = self.scopes.depth();
        let signature = self.parse_signature();
        let body = signature.and_then(|signature| {
            let body = self.control_body(&signature.name)?;
            Ok((signature, body))
        });
        self.scopes.truncate(scope);
        let (ParsedSignature { name, type_params, params }, body) = body?;
        Ok(ControlDecl { annotations, name, type_params, params, body, span: self.span_since(start) })
    }

    /// Parses keyword, name, type parameters and parameters. Opens the scope of the body.
    fn parse_signature(&mut self) -> ParseResult<ParsedSignature> {
        self.bump();
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Type);
        self.scopes.push();
        let type_params = self.parse_type_params()?;
        let params = self.parse_params()?;
        Ok(ParsedSignature { name, type_params, params })
    }

    /// Parses the `;` of a type declaration, or the constructor parameters before a body.
    fn constructor_params(&mut self) -> ParseResult<Option<Vec<Param>>> {
        if self.eat(Tok::Semi) {
            return Ok(None);
        }
        let params = if self.is(Tok::LParen) { self.parse_params()? } else { Vec::new() };
        if !self.is(Tok::LBrace) {
            let message = format!("expected `{{` or `;`, found {}", self.token().describe());
            return self.fail(message);
        }
        Ok(Some(params))
    }

    /// Parses the rest of a parser after its parameters; `None` for a parser type, which has no
    /// body. Declarations after a state are reported and kept.
    fn parser_body(&mut self) -> ParseResult<Option<ParserBody>> {
        let Some(constructor_params) = self.constructor_params()? else { return Ok(None) };
        let start = self.span();
        let errors_before = self.diagnostics.len();
        let mut locals = Vec::new();
        let mut states: Vec<ParserState> = Vec::new();
        let items = self.parse_braced(Self::parser_item)?;
        let span = self.span_since(start);
        for item in items {
            match item {
                ParserItem::State(state) => states.push(state),
                ParserItem::Local(local) => {
                    if let Some(first) = states.first() {
                        let diagnostic =
                            Diagnostic::error("syntax", local.name().span, "declarations come before states")
                                .label(first.name.span, "the first state")
                                .help("move the declaration before it");
                        self.report(diagnostic);
                    }
                    locals.push(local);
                }
            }
        }
        if states.is_empty() && self.diagnostics.len() == errors_before {
            let diagnostic = Diagnostic::error("syntax", self.last_span(), "the parser has no state");
            self.report(diagnostic.help("add `state start { ... }`"));
        }
        Ok(Some(ParserBody { constructor_params, locals, states, span }))
    }

    fn parser_item(&mut self) -> ParseResult<ParserItem> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        match self.kind() {
            Tok::State if self.is_name_at(1) => Ok(ParserItem::State(self.parser_state(annotations, start)?)),
            Tok::Const => Ok(ParserItem::Local(Local::Const(self.const_decl(annotations, start)?))),
            Tok::ValueSet => Ok(ParserItem::Local(Local::ValueSet(self.value_set(annotations, start)?))),
            Tok::Action | Tok::Table => {
                let what = if self.is(Tok::Table) { "a table" } else { "an action" };
                let diagnostic = Diagnostic::error("syntax", self.span(), format!("{what} is not allowed in a parser"));
                self.fail_with(diagnostic.help("declare it in a control"))
            }
            _ => Ok(ParserItem::Local(self.var_or_instance_local(annotations, start, "a declaration or a state")?)),
        }
    }

    /// Parses `T x;`, `T x = e;` or `T(args) x;`.
    fn var_or_instance_local(&mut self, annotations: Annotations, start: Span, expected: &str) -> ParseResult<Local> {
        if !self.at_type() && !self.is_name_at(0) && !self.is(Tok::Dot) {
            return self.fail_expected(expected);
        }
        let ty = self.parse_type()?;
        if self.is(Tok::LParen) {
            return Ok(Local::Instance(self.instance_decl(annotations, ty, start)?));
        }
        let mut var = self.var_decl(annotations, ty, start)?;
        self.expect(Tok::Semi)?;
        var.span = self.span_since(start);
        Ok(Local::Var(var))
    }

    /// Parses `value_set<T>(size) name;`.
    fn value_set(&mut self, annotations: Annotations, start: Span) -> ParseResult<ValueSetDecl> {
        self.expect(Tok::ValueSet)?;
        self.expect(Tok::Lt)?;
        let ty = self.parse_type()?;
        self.expect(Tok::Gt)?;
        self.expect(Tok::LParen)?;
        let size = self.parse_expr()?;
        self.expect(Tok::RParen)?;
        let name = self.parse_name()?;
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(ValueSetDecl { annotations, ty, size, name, span: self.span_since(start) })
    }

    fn parser_state(&mut self, annotations: Annotations, start: Span) -> ParseResult<ParserState> {
        self.expect(Tok::State)?;
        let name = self.parse_name()?;
        let scope = self.scopes.depth();
        self.scopes.push();
        let body = self.state_body();
        self.scopes.truncate(scope);
        let (stmts, transition) = body?;
        Ok(ParserState { annotations, name, stmts, transition, span: self.span_since(start) })
    }

    /// Parses the statements of a state from `{` to `}`, and its final transition, if there is one.
    /// An error in a statement is reported, and parsing continues after that statement.
    fn state_body(&mut self) -> ParseResult<(Vec<Stmt>, Option<Transition>)> {
        let open_brace = self.expect(Tok::LBrace)?;
        let mut stmts = Vec::new();
        let mut transition = None;
        while !self.is(Tok::RBrace) {
            self.check_unclosed(open_brace)?;
            if self.is(Tok::State) && self.is_name_at(1) && self.kind_at(2) == Tok::LBrace {
                let diagnostic = Diagnostic::error("syntax", self.span(), "expected `}`, found another state");
                return self.fail_with(diagnostic.label(open_brace, "this `{` is never closed"));
            }
            if let Some(last_transition) = &transition {
                let last_transition: &Transition = last_transition;
                let span = last_transition.span;
                let diagnostic =
                    Diagnostic::error("syntax", self.span(), "nothing can follow the transition of a state");
                self.report(diagnostic.label(span, "the transition"));
                // The error is reported already; failing makes the parser skip the statement.
                self.parse_or_recover(|_| ParseResult::<()>::Err(super::cursor::SyntaxErrorReported));
                continue;
            }
            if self.is(Tok::Transition) {
                transition = self.parse_or_recover(Self::parse_transition);
            } else {
                stmts.extend(self.parse_or_recover(Self::state_stmt));
            }
        }
        self.bump();
        Ok((stmts, transition))
    }

    /// Parses a statement of a parser state. The grammar allows fewer kinds here than in a control.
    fn state_stmt(&mut self) -> ParseResult<Stmt> {
        if matches!(self.kind(), Tok::Switch | Tok::For | Tok::Return | Tok::Exit | Tok::Break | Tok::Continue) {
            let message = format!("{} is not allowed in a parser state", self.token().describe());
            let diagnostic = Diagnostic::error("syntax", self.span(), message);
            return self.fail_with(
                diagnostic.help("choose with `transition select`, repeat with a state that leads to itself"),
            );
        }
        self.parse_stmt()
    }

    fn parse_transition(&mut self) -> ParseResult<Transition> {
        let start = self.expect(Tok::Transition)?;
        let kind = if self.is(Tok::Select) {
            self.parse_select()?
        } else {
            let state = self.parse_name()?;
            self.expect(Tok::Semi)?;
            TransitionKind::State(state)
        };
        Ok(Transition { kind, span: self.span_since(start) })
    }

    fn parse_select(&mut self) -> ParseResult<TransitionKind> {
        self.expect(Tok::Select)?;
        self.expect(Tok::LParen)?;
        let exprs = self.parse_comma_list(Tok::RParen, false, Self::parse_expr)?;
        let cases = self.parse_braced(Self::select_case)?;
        Ok(TransitionKind::Select { exprs, cases })
    }

    fn select_case(&mut self) -> ParseResult<SelectCase> {
        let start = self.span();
        let keyset = self.parse_keyset()?;
        self.expect(Tok::Colon)?;
        let state = self.parse_name()?;
        self.expect(Tok::Semi)?;
        Ok(SelectCase { keyset, state, span: self.span_since(start) })
    }

    /// Parses the rest of the control `name` after its parameters; `None` for a control type, which
    /// has no body. A missing `apply` block is reported and becomes an empty one.
    fn control_body(&mut self, name: &Ident) -> ParseResult<Option<ControlBody>> {
        let Some(constructor_params) = self.constructor_params()? else { return Ok(None) };
        let start = self.span();
        let errors_before = self.diagnostics.len();
        let items = self.parse_braced(Self::control_item)?;
        let span = self.span_since(start);
        let mut locals = Vec::new();
        let mut apply: Option<Block> = None;
        for item in items {
            match (item, &apply) {
                (ControlItem::Apply(block), None) => apply = Some(block),
                (ControlItem::Apply(block), Some(first)) => {
                    let diagnostic = Diagnostic::error("syntax", block.span.start(), "a second `apply`");
                    self.report(diagnostic.label(first.span.start(), "the first"));
                }
                (ControlItem::Local(local), None) => locals.push(local),
                (ControlItem::Local(local), Some(_)) => {
                    let diagnostic = Diagnostic::error("syntax", local.name().span, "declarations come before `apply`");
                    self.report(diagnostic.help("move the declaration before it"));
                    locals.push(local);
                }
            }
        }
        let apply = apply.unwrap_or_else(|| {
            if self.diagnostics.len() == errors_before {
                let end = self.last_span();
                let diagnostic = Diagnostic::error("syntax", end, format!("control `{name}` has no `apply` block"));
                self.report(diagnostic.help("add `apply { ... }` at its end"));
            }
            Block { annotations: Vec::new(), stmts: Vec::new(), span: span.end() }
        });
        Ok(Some(ControlBody { constructor_params, locals, apply, span }))
    }

    /// Parses a declaration in a control, or its `apply` block.
    fn control_item(&mut self) -> ParseResult<ControlItem> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        let local = match self.kind() {
            Tok::Apply if matches!(self.kind_at(1), Tok::LBrace | Tok::At) => {
                self.bump();
                let annotations = self.parse_annotations()?;
                return Ok(ControlItem::Apply(self.parse_block(annotations)?));
            }
            Tok::Const => Local::Const(self.const_decl(annotations, start)?),
            Tok::Action => Local::Action(self.action_decl(annotations, start)?),
            Tok::Table => Local::Table(self.table_decl(annotations, start)?),
            Tok::State | Tok::Transition if self.is_misplaced_decl() => return self.fail_misplaced_decl(),
            Tok::ValueSet => {
                let diagnostic = Diagnostic::error("syntax", self.span(), "a value set is not allowed in a control");
                return self.fail_with(diagnostic.help("declare it in a parser"));
            }
            _ => self.var_or_instance_local(annotations, start, "a declaration or `apply`")?,
        };
        Ok(ControlItem::Local(local))
    }
}
