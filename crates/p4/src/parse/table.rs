//! Parses tables.

use super::cursor::{P4Parser, ParseResult};
use super::scope::NameKind;
use crate::ast::{ActionRef, Annotations, Entry, Expr, KeyElement, PropertyValue, TableDecl, TableProperty};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

impl P4Parser<'_> {
    pub fn table_decl(&mut self, annotations: Annotations, start: Span) -> ParseResult<TableDecl> {
        self.expect(Tok::Table)?;
        let name = self.parse_name()?;
        self.scopes.declare(&name.name, NameKind::Value);
        let properties = self.parse_braced(Self::parse_table_property)?;
        if properties.is_empty() && self.kind_at(0) != Tok::Eof {
            let diagnostic = Diagnostic::error("syntax", self.last_span(), format!("table `{name}` has no properties"));
            self.report(diagnostic.help("it needs at least `actions = { ... }`"));
        }
        Ok(TableDecl { annotations, name, properties, span: self.span_since(start) })
    }

    /// Parses one property of a table: key, actions, entries, or `name = expression;`.
    fn parse_table_property(&mut self) -> ParseResult<TableProperty> {
        let start = self.span();
        let annotations = self.parse_annotations()?;
        let is_const = self.eat(Tok::Const);
        let kind = self.kind();
        let name = match kind {
            Tok::Default => return self.fail_default_property(),
            _ => self.parse_name()?,
        };
        self.expect(Tok::Assign)?;
        let value = match kind {
            Tok::Key | Tok::Actions if is_const => {
                let diagnostic = Diagnostic::error("syntax", name.span, format!("`{name}` cannot be `const`"));
                return self.fail_with(diagnostic.help("remove `const`"));
            }
            Tok::Key => PropertyValue::Key(self.parse_braced(Self::parse_key_element)?),
            Tok::Actions => PropertyValue::Actions(self.parse_braced(Self::parse_listed_action)?),
            Tok::Entries => PropertyValue::Entries(self.parse_braced(Self::parse_entry)?),
            _ => {
                let value = self.parse_expr()?;
                self.expect(Tok::Semi)?;
                PropertyValue::Expr(value)
            }
        };
        Ok(TableProperty { annotations, is_const, name, value, span: self.span_since(start) })
    }

    fn fail_default_property(&mut self) -> ParseResult<TableProperty> {
        let diagnostic = Diagnostic::error("syntax", self.span(), "expected a property, found `default`");
        self.fail_with(diagnostic.help("did you mean `default_action`?"))
    }

    fn parse_key_element(&mut self) -> ParseResult<KeyElement> {
        let start = self.span();
        let expr = self.parse_expr()?;
        self.expect(Tok::Colon)?;
        let match_kind = self.parse_name()?;
        let annotations = self.parse_annotations()?;
        self.expect(Tok::Semi)?;
        Ok(KeyElement { expr, match_kind, annotations, span: self.span_since(start) })
    }

    fn parse_listed_action(&mut self) -> ParseResult<ActionRef> {
        let annotations = self.parse_annotations()?;
        let action = self.parse_action_ref(annotations)?;
        self.expect(Tok::Semi)?;
        Ok(action)
    }

    fn parse_action_ref(&mut self, annotations: Annotations) -> ParseResult<ActionRef> {
        let start = annotations.first().map_or(self.span(), |first| first.span);
        let name = self.parse_path()?;
        let args = if self.is(Tok::LParen) { Some(self.parse_args()?) } else { None };
        Ok(ActionRef { annotations, name, args, span: self.span_since(start) })
    }

    /// Parses `const priority = 1: keyset : action @annotations;`.
    fn parse_entry(&mut self) -> ParseResult<Entry> {
        let start = self.span();
        let is_const = self.eat(Tok::Const);
        let priority = self.parse_entry_priority()?;
        let keyset = self.parse_keyset()?;
        self.expect(Tok::Colon)?;
        let action = self.parse_action_ref(Vec::new())?;
        let annotations = self.parse_annotations()?;
        self.expect(Tok::Semi)?;
        Ok(Entry { is_const, priority, keyset, action, annotations, span: self.span_since(start) })
    }

    /// Parses `priority = 1:` or `priority = (expr):`.
    fn parse_entry_priority(&mut self) -> ParseResult<Option<Expr>> {
        if !self.is(Tok::Priority) || self.kind_at(1) != Tok::Assign {
            return Ok(None);
        }
        self.bump();
        self.bump();
        if !matches!(self.kind(), Tok::Int | Tok::LParen) {
            return self.fail_expected("an integer or an expression in parentheses");
        }
        let value = self.parse_primary()?;
        self.expect(Tok::Colon)?;
        Ok(Some(value))
    }
}
