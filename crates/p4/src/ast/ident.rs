//! Identifiers and paths.

use super::Span;
use std::fmt;
use std::sync::Arc;

/// A name and its source position.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The name itself.
    pub name: Arc<str>,
    /// Source span.
    pub span: Span,
}

impl Ident {
    /// Creates the name `name` at `span`.
    pub fn new(name: impl Into<Arc<str>>, span: Span) -> Self {
        Ident { name: name.into(), span }
    }

    /// Returns the name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A name, optionally looked up only in the top-level scope (`.name`, specification section "Name
/// resolution").
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Path {
    /// Whether a leading dot was written, which restricts the lookup to the top-level scope.
    pub is_absolute: bool,
    /// The name.
    pub name: Ident,
    /// The name including its dot.
    pub span: Span,
}

impl Path {
    /// Returns the name as a string slice, without the dot.
    pub fn as_str(&self) -> &str {
        &self.name.name
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.is_absolute { "." } else { "" };
        write!(f, "{dot}{}", self.name)
    }
}
