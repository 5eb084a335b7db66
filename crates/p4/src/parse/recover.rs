//! Error recovery of the parser.

use super::cursor::{P4Parser, ParseResult, SyntaxErrorReported};
use super::scope::NameKind;
use crate::ast::Ident;
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;
use crate::suggest::closest_name;

/// Keywords suggested for an unknown type.
const SUGGESTED_KEYWORDS: &[&str] = &[
    "action",
    "bit",
    "bool",
    "const",
    "control",
    "enum",
    "error",
    "extern",
    "header",
    "header_union",
    "int",
    "parser",
    "package",
    "string",
    "struct",
    "table",
    "tuple",
    "typedef",
    "varbit",
    "void",
    "state",
];

/// The suggested keywords that begin no type.
const NON_TYPE_KEYWORDS: &[&str] = &[
    "action",
    "const",
    "control",
    "enum",
    "extern",
    "header",
    "header_union",
    "parser",
    "package",
    "struct",
    "table",
    "typedef",
    "state",
];

impl P4Parser<'_> {
    /// Parses items between braces with `item`. Continues with the next item after a failed one.
    pub fn parse_braced<T>(&mut self, mut item: impl FnMut(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        let open = self.expect(Tok::LBrace)?;
        let mut items = Vec::new();
        while !self.is(Tok::RBrace) {
            self.check_unclosed(open)?;
            if let Some(parsed) = self.parse_or_recover(&mut item) {
                items.push(parsed);
            }
        }
        self.bump();
        Ok(items)
    }

    /// Fails if the brace at `open` is never closed: at the end of the tokens, or at a declaration
    /// that is only allowed at the top level.
    pub fn check_unclosed(&mut self, open: Span) -> ParseResult<()> {
        if !self.is(Tok::Eof) && !self.at_top_level_keyword() {
            return Ok(());
        }
        let message = format!("expected `}}`, found {}", self.token().describe());
        let diagnostic = Diagnostic::error("syntax", self.span(), message).label(open, "this `{` is never closed");
        self.fail_with(diagnostic)
    }

    /// Runs `parse`. If it fails, skips to the next possible start of an item.
    pub fn parse_or_recover<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> Option<T> {
        let start = self.at;
        let scopes = self.scopes.depth();
        let result = parse(self);
        if let Ok(parsed) = result {
            return Some(parsed);
        }
        self.scopes.truncate(scopes);
        self.is_gt_closing = false;
        self.skip_item(start);
        None
    }

    /// Skips the remaining tokens of the item that began at token `start`. Stops after its `;` or
    /// its closing brace, or before a `}` or keyword that belongs to another item.
    fn skip_item(&mut self, start: usize) {
        // Braces of the item that were open at the error, for example of an initialiser.
        let depth_at_error = self.open_brace_count(start);
        let mut depth = depth_at_error;
        loop {
            match self.kind() {
                Tok::Eof => return,
                Tok::RBrace if depth == 0 => return,
                Tok::RBrace => {
                    depth -= 1;
                    if depth == 0 {
                        self.bump();
                        self.eat(Tok::Semi);
                        return;
                    }
                }
                Tok::LBrace => depth += 1,
                Tok::Semi if depth == 0 => {
                    self.bump();
                    return;
                }
                // A keyword at the very start belongs to the item itself.
                _ if self.at > start && self.at_top_level_keyword() => return,
                _ if self.at > start && depth <= depth_at_error && self.at_item_keyword() => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// Returns the number of braces that were opened since token `start` and are still open.
    fn open_brace_count(&self, start: usize) -> u32 {
        let passed = self.tokens_between(start, self.at).iter();
        passed.fold(0, |depth: u32, token| match token.kind {
            Tok::LBrace => depth + 1,
            Tok::RBrace => depth.saturating_sub(1),
            _ => depth,
        })
    }

    /// Returns whether the token begins a line and a declaration that is only allowed at the top
    /// level.
    fn at_top_level_keyword(&self) -> bool {
        let top = matches!(
            self.kind(),
            Tok::Control
                | Tok::Enum
                | Tok::Extern
                | Tok::Header
                | Tok::HeaderUnion
                | Tok::Package
                | Tok::Parser
                | Tok::Struct
                | Tok::Typedef
        );
        top && self.token().is_line_start
    }

    /// Returns whether the token begins a line and an item within braces.
    fn at_item_keyword(&self) -> bool {
        let item = match self.kind() {
            Tok::Action | Tok::Table | Tok::Const | Tok::If | Tok::Switch | Tok::Return | Tok::Transition => true,
            Tok::State => self.is_name_at(1) && self.kind_at(2) == Tok::LBrace,
            Tok::Apply => self.kind_at(1) == Tok::LBrace,
            Tok::Key | Tok::Actions | Tok::Entries => self.kind_at(1) == Tok::Assign,
            _ => false,
        };
        item && self.token().is_line_start
    }

    /// Reports `name`, which is used as a type but is none.
    pub fn report_unknown_type(&mut self, name: &Ident) {
        let known = self.scopes.visible_types().chain(SUGGESTED_KEYWORDS.iter().copied());
        let meant = closest_name(&name.name, known).map(str::to_owned);
        let is_value = self.scopes.lookup(&name.name, false).is_some_and(|kind| kind != NameKind::Type);
        let message = if is_value { format!("`{name}` is not a type") } else { format!("unknown type `{name}`") };
        let help = match meant {
            _ if is_value => "it is declared as a value; a type is needed here".to_owned(),
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("declare `{name}` before it is used, or include the file that declares it"),
        };
        self.report(Diagnostic::error("unknown-type", name.span, message).help(help));
    }

    /// Reports the unknown types collected since `mark`, except those in `declared`.
    pub fn report_unknown_types(&mut self, mark: usize, declared: &[Ident]) {
        if self.unknown_types.len() <= mark {
            return;
        }
        for name in self.unknown_types.split_off(mark) {
            if !declared.iter().any(|param| param.name == name.name) {
                self.report_unknown_type(&name);
            }
        }
    }

    /// Returns whether the unknown name is probably a misspelled keyword before the name of a
    /// declaration.
    pub fn is_misspelled_keyword(&self, name: &str) -> bool {
        let types = self.scopes.visible_types();
        closest_name(name, types.chain(SUGGESTED_KEYWORDS.iter().copied()))
            .is_some_and(|meant| NON_TYPE_KEYWORDS.contains(&meant))
    }

    /// Reports an unknown type and fails.
    pub fn fail_unknown_type<T>(&mut self, name: &Ident) -> ParseResult<T> {
        self.report_unknown_type(name);
        Err(SyntaxErrorReported)
    }
}
