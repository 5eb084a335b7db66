//! What happens after an error.

use super::cursor::{Failed, Parse, Parser};
use super::scope::NameKind;
use crate::ast::Ident;
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;
use crate::suggest::closest;

/// Words that somebody who wrote an unknown type may have meant.
const DECLARATION_WORDS: &[&str] = &[
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

/// Those of them that no type begins with.
const BODY_WORDS: &[&str] = &[
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

impl Parser<'_> {
    /// Items between braces, each parsed by `item`; after an item that fails, goes on with the next.
    pub fn braced<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let open = self.expect(Tok::LBrace)?;
        let mut items = Vec::new();
        while !self.is(Tok::RBrace) {
            self.check_unclosed(open)?;
            if let Some(parsed) = self.recovering(&mut item) {
                items.push(parsed);
            }
        }
        self.bump();
        Ok(items)
    }

    /// Fails when the brace at `open` is obviously never closed: at the end, or where a declaration begins that can
    /// only stand at the top level.
    pub fn check_unclosed(&mut self, open: Span) -> Parse<()> {
        if !self.is(Tok::Eof) && !self.at_top_level_keyword() {
            return Ok(());
        }
        let message = format!("expected `}}`, found {}", self.token().describe());
        let diagnostic = Diagnostic::error("syntax", self.span(), message).label(open, "this `{` is never closed");
        self.fail_with(diagnostic)
    }

    /// Runs `parse`; if it fails, skips to where the next item may begin.
    pub fn recovering<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Option<T> {
        let start = self.at;
        let scopes = self.scopes.depth();
        let result = parse(self);
        if let Ok(parsed) = result {
            return Some(parsed);
        }
        self.scopes.truncate(scopes);
        self.gt_closes = false;
        self.skip_item(start);
        None
    }

    /// Skips what is left of the item that began at token `start`: to after its `;` or its closing brace, or to a `}` or
    /// keyword that ends or begins something else.
    fn skip_item(&mut self, start: usize) {
        // Braces of the item that were open where it failed (of an initialiser, say).
        let failed_in = self.open_braces(start);
        let mut depth = failed_in;
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
                _ if self.at > start && self.at_top_level_keyword() => return,
                _ if self.at > start && depth <= failed_in && self.at_item_keyword() => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// How many braces that were opened since token `start` are open here.
    fn open_braces(&self, start: usize) -> u32 {
        let passed = self.tokens_between(start, self.at).iter();
        passed.fold(0, |depth: u32, token| match token.kind {
            Tok::LBrace => depth + 1,
            Tok::RBrace => depth.saturating_sub(1),
            _ => depth,
        })
    }

    /// At a keyword that begins a line and a declaration which stands only at the top level.
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
        top && self.token().line_start
    }

    /// At a keyword that begins a line and an item within braces.
    fn at_item_keyword(&self) -> bool {
        let item = match self.kind() {
            Tok::Action | Tok::Table | Tok::Const | Tok::If | Tok::Switch | Tok::Return | Tok::Transition => true,
            Tok::State => self.is_name_at(1) && self.kind_at(2) == Tok::LBrace,
            Tok::Apply => self.kind_at(1) == Tok::LBrace,
            Tok::Key | Tok::Actions | Tok::Entries => self.kind_at(1) == Tok::Assign,
            _ => false,
        };
        item && self.token().line_start
    }

    /// Reports `name`, which stands where a type must be, and is none.
    pub fn unknown_type(&mut self, name: &Ident) {
        let known = self.scopes.types().chain(DECLARATION_WORDS.iter().copied());
        let meant = closest(&name.name, known).map(str::to_owned);
        let is_value = self.scopes.lookup(&name.name, false).is_some_and(|kind| kind != NameKind::Type);
        let message = if is_value { format!("`{name}` is not a type") } else { format!("unknown type `{name}`") };
        let help = match meant {
            _ if is_value => "it is declared as a value; a type is needed here".to_owned(),
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("declare `{name}` before it is used, or include the file that declares it"),
        };
        self.report(Diagnostic::error("unknown-type", name.span, message).help(help));
    }

    /// Reports the unknown types that were collected since `mark`, except those in `declared`.
    pub fn settle_unknown_types(&mut self, mark: usize, declared: &[Ident]) {
        if self.unknown_types.len() <= mark {
            return;
        }
        for name in self.unknown_types.split_off(mark) {
            if !declared.iter().any(|param| param.name == name.name) {
                self.unknown_type(&name);
            }
        }
    }

    /// Whether the name, which is no type, is likely a misspelled keyword in front of a declaration's name.
    pub fn is_misspelled_keyword(&self, name: &str) -> bool {
        let types = self.scopes.types();
        closest(name, types.chain(DECLARATION_WORDS.iter().copied())).is_some_and(|meant| BODY_WORDS.contains(&meant))
    }

    /// Fails with an unknown type.
    pub fn fail_unknown_type<T>(&mut self, name: &Ident) -> Parse<T> {
        self.unknown_type(name);
        Err(Failed)
    }
}
