//! Annotations, unstructured `@x(...)` and structured `@x[...]`.

use super::{Expr, ExprKind, Ident, NamedExpr, Span};
use crate::lex::Token;
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
}

/// The annotations in front of a declaration.
pub type Annotations = Vec<Annotation>;
