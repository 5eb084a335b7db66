//! Annotations, unstructured `@x(...)` and structured `@x[...]`.

use super::{Expr, ExprKind, Ident, NamedExpr, Span};
use crate::lex::{Tok, Token, parse_integer};
use num_bigint::BigUint;
use std::sync::Arc;

/// An annotation, or an `@pragma name body` line, whose body is everything to the end of the line.
#[derive(Clone, PartialEq, Debug)]
pub struct Annotation {
    /// The name, without `@`.
    pub name: Ident,
    /// What follows the name.
    pub body: AnnotationBody,
    /// The whole annotation.
    pub span: Span,
}

/// What follows an annotation's name.
#[derive(Clone, PartialEq, Debug)]
pub enum AnnotationBody {
    /// `@x`: nothing.
    None,
    /// `@x(...)`: any tokens with balanced parentheses, plus the body read as expressions where it can be.
    Unstructured(Unstructured),
    /// `@x[a, b]`, also `@x[]`.
    List(Vec<Expr>),
    /// `@x[k = a, l = b]`
    KeyValues(Vec<NamedExpr>),
}

/// The body of `@x(...)`. The language gives it no meaning; each annotation has its own syntax.
#[derive(Clone, PartialEq, Debug)]
pub struct Unstructured {
    /// The tokens between the outer parentheses.
    pub tokens: Vec<Token>,
    /// The tokens as text, one blank apart, as P4Info shows them.
    pub text: Arc<str>,
    /// The tokens as a comma-separated list of expressions, if they are one (`@name("x")`, `@size(4)`); string literals
    /// with `++` between them are one literal.
    pub exprs: Option<Vec<Expr>>,
    /// The tokens as a list of `key = value`, if they are one (`@x(a = 1)`).
    pub key_values: Option<Vec<NamedExpr>>,
}

impl Annotation {
    /// The text of the body's only string literal (`@name("x")`), if that is what it is.
    pub fn single_string(&self) -> Option<&str> {
        match self.exprs()? {
            [Expr { kind: ExprKind::Str(text), .. }] => Some(text),
            _ => None,
        }
    }

    /// The body as expressions, for `(a, b)` and `[a, b]` alike.
    pub fn exprs(&self) -> Option<&[Expr]> {
        match &self.body {
            AnnotationBody::Unstructured(body) => body.exprs.as_deref(),
            AnnotationBody::List(exprs) => Some(exprs),
            AnnotationBody::None | AnnotationBody::KeyValues(_) => None,
        }
    }

    /// The body as `key = value` pairs, for `(k = v)` and `[k = v]` alike.
    pub fn key_values(&self) -> Option<&[NamedExpr]> {
        match &self.body {
            AnnotationBody::Unstructured(body) => body.key_values.as_deref(),
            AnnotationBody::KeyValues(pairs) => Some(pairs),
            AnnotationBody::None | AnnotationBody::List(_) => None,
        }
    }

    /// The body as a list of strings with numbers: `({ {"a", 1}, {"b", 8w2}, })`, with or without a comma behind the last of a list.
    pub fn mappings(&self) -> Option<Vec<(String, BigUint)>> {
        let AnnotationBody::Unstructured(body) = &self.body else { return None };
        let mut tokens = body.tokens.iter().peekable();
        let mut next = |kind: Tok| tokens.next_if(|token| token.kind == kind);
        let mut mappings = Vec::new();
        next(Tok::LBrace)?;
        while next(Tok::RBrace).is_none() {
            next(Tok::LBrace)?;
            let string = unquoted(&next(Tok::Str)?.text);
            next(Tok::Comma)?;
            let value = parse_integer(&next(Tok::Int)?.text).ok()?.value.to_biguint()?;
            next(Tok::Comma);
            next(Tok::RBrace)?;
            mappings.push((string, value));
            if next(Tok::Comma).is_none() {
                next(Tok::RBrace)?;
                break;
            }
        }
        tokens.next().is_none().then_some(mappings)
    }
}

/// What a string literal says: without its quotes and the backslashes that keep a character from being one.
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

/// The annotations in front of a declaration.
pub type Annotations = Vec<Annotation>;
