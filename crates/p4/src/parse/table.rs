//! Tables.

use super::cursor::{Parse, Parser};
use super::scope::NameKind;
use crate::ast::{ActionRef, Annotations, Entry, Expr, KeyElement, PropertyValue, TableDecl, TableProperty};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

impl Parser<'_> {
    pub fn table_decl(&mut self, annotations: Annotations, start: Span) -> Parse<TableDecl> {
        self.expect(Tok::Table)?;
        let name = self.name()?;
        self.scopes.declare(&name.name, NameKind::Value);
        let properties = self.braced(Self::table_property)?;
        if properties.is_empty() && self.kind_at(0) != Tok::Eof {
            let diagnostic = Diagnostic::error("syntax", self.last_span(), format!("table `{name}` has no properties"));
            self.report(diagnostic.help("it needs at least `actions = { ... }`"));
        }
        Ok(TableDecl { annotations, name, properties, span: self.since(start) })
    }

    fn table_property(&mut self) -> Parse<TableProperty> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_const = self.eat(Tok::Const);
        let kind = self.kind();
        let name = match kind {
            Tok::Default => return self.default_property(),
            _ => self.name()?,
        };
        self.expect(Tok::Assign)?;
        let value = match kind {
            Tok::Key | Tok::Actions if is_const => {
                let diagnostic = Diagnostic::error("syntax", name.span, format!("`{name}` cannot be `const`"));
                return self.fail_with(diagnostic.help("remove `const`"));
            }
            Tok::Key => PropertyValue::Key(self.braced(Self::key_element)?),
            Tok::Actions => PropertyValue::Actions(self.braced(Self::listed_action)?),
            Tok::Entries => PropertyValue::Entries(self.braced(Self::entry)?),
            _ => {
                let value = self.expr()?;
                self.expect(Tok::Semi)?;
                PropertyValue::Expr(value)
            }
        };
        Ok(TableProperty { annotations, is_const, name, value, span: self.since(start) })
    }

    fn default_property(&mut self) -> Parse<TableProperty> {
        let diagnostic = Diagnostic::error("syntax", self.span(), "expected a property, found `default`");
        self.fail_with(diagnostic.help("did you mean `default_action`?"))
    }

    fn key_element(&mut self) -> Parse<KeyElement> {
        let start = self.span();
        let expr = self.expr()?;
        self.expect(Tok::Colon)?;
        let match_kind = self.name()?;
        let annotations = self.annotations()?;
        self.expect(Tok::Semi)?;
        Ok(KeyElement { expr, match_kind, annotations, span: self.since(start) })
    }

    fn listed_action(&mut self) -> Parse<ActionRef> {
        let annotations = self.annotations()?;
        let action = self.action_ref(annotations)?;
        self.expect(Tok::Semi)?;
        Ok(action)
    }

    fn action_ref(&mut self, annotations: Annotations) -> Parse<ActionRef> {
        let start = annotations.first().map_or(self.span(), |first| first.span);
        let name = self.path()?;
        let args = if self.is(Tok::LParen) { Some(self.args()?) } else { None };
        Ok(ActionRef { annotations, name, args, span: self.since(start) })
    }

    /// `const priority = 1: keyset : action @annotations;`
    fn entry(&mut self) -> Parse<Entry> {
        let start = self.span();
        let is_const = self.eat(Tok::Const);
        let priority = self.entry_priority()?;
        let keyset = self.keyset()?;
        self.expect(Tok::Colon)?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.annotations()?;
        self.expect(Tok::Semi)?;
        Ok(Entry { is_const, priority, keyset, action, annotations, span: self.since(start) })
    }

    /// `priority = 1:` or `priority = (expr):`
    fn entry_priority(&mut self) -> Parse<Option<Expr>> {
        if !self.is(Tok::Priority) || self.kind_at(1) != Tok::Assign {
            return Ok(None);
        }
        self.bump();
        self.bump();
        if !matches!(self.kind(), Tok::Int | Tok::LParen) {
            return self.fail_expected("an integer or an expression in parentheses");
        }
        let value = self.primary()?;
        self.expect(Tok::Colon)?;
        Ok(Some(value))
    }
}
