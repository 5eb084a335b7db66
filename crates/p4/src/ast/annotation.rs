//! Annotations: unstructured `@x(...)` and structured `@x[...]`.

use super::{Expr, ExprKind, Ident, NamedExpr, Span};
use crate::lex::{Tok, Token, parse_integer};
use num_bigint::BigUint;
use std::sync::Arc;

/// An annotation, or an `@pragma name body` line. The body of the latter extends to the end of the
/// line.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    /// The name, without `@`.
    pub name: Ident,
    /// The body.
    pub body: AnnotationBody,
    /// The whole annotation.
    pub span: Span,
}

/// Body of an annotation.
#[derive(Clone, PartialEq, Debug)]
pub enum AnnotationBody {
    /// `@x`, without a body.
    None,
    /// `@x(...)`: any tokens with balanced parentheses. Includes the parsed expressions if the
    /// tokens form some.
    Unstructured(Unstructured),
    /// `@x[a, b]`, also `@x[]`.
    List(Vec<Expr>),
    /// `@x[k = a, l = b]`
    KeyValues(Vec<NamedExpr>),
}

/// The body of `@x(...)`. P4 leaves its syntax and meaning to each annotation.
#[derive(Clone, PartialEq, Debug)]
pub struct Unstructured {
    /// The tokens between the outer parentheses.
    pub tokens: Vec<Token>,
    /// The tokens as text, separated by blanks, as P4Info shows them.
    pub text: Arc<str>,
    /// The tokens parsed as a comma-separated list of expressions (`@name("x")`, `@size(4)`).
    /// String literals joined by `++` are one literal.
    pub exprs: Option<Vec<Expr>>,
    /// The tokens parsed as a list of `key = value` (`@x(a = 1)`).
    pub key_values: Option<Vec<NamedExpr>>,
}

impl Annotation {
    /// Returns the text if the body is a single string literal (`@name("x")`).
    pub fn single_string(&self) -> Option<&str> {
        match self.exprs()? {
            [Expr { kind: ExprKind::Str(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// Returns the expressions of `(a, b)` or `[a, b]`.
    pub fn exprs(&self) -> Option<&[Expr]> {
        match &self.body {
            AnnotationBody::Unstructured(body) => body.exprs.as_deref(),
            AnnotationBody::List(exprs) => Some(exprs),
            AnnotationBody::None | AnnotationBody::KeyValues(_) => None,
        }
    }

    /// Returns the pairs of `(k = v)` or `[k = v]`.
    pub fn key_values(&self) -> Option<&[NamedExpr]> {
        match &self.body {
            AnnotationBody::Unstructured(body) => body.key_values.as_deref(),
            AnnotationBody::KeyValues(pairs) => Some(pairs),
            AnnotationBody::None | AnnotationBody::List(_) => None,
        }
    }

    /// Returns the body as a list of strings with numbers: `({ {"a", 1}, {"b", 8w2}, })`. The last
    /// comma of each list is optional. Returns `None` for any other body.
    pub fn mappings(&self) -> Option<Vec<(String, BigUint)>> {
        let AnnotationBody::Unstructured(body) = &self.body else { return None };
        let mut tokens = body.tokens.iter().peekable();
        let mut eat = |kind: Tok| tokens.next_if(|token| token.kind == kind);
        let mut mappings = Vec::new();
        eat(Tok::LBrace)?;
        while eat(Tok::RBrace).is_none() {
            eat(Tok::LBrace)?;
            let string = unquoted(&eat(Tok::Str)?.text);
            eat(Tok::Comma)?;
            let value = parse_integer(&eat(Tok::Int)?.text).ok()?.value.to_biguint()?;
            eat(Tok::Comma);
            eat(Tok::RBrace)?;
            mappings.push((string, value));
            if eat(Tok::Comma).is_none() {
                eat(Tok::RBrace)?;
                break;
            }
        }
        tokens.next().is_none().then_some(mappings)
    }
}

/// Returns the content of a string literal: removes the quotes and the escaping backslashes.
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

/// The annotations before a declaration.
pub type Annotations = Vec<Annotation>;
