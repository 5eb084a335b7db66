//! Names.

use super::Span;
use std::fmt;
use std::sync::Arc;

/// A name, where it was written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ident {
    /// The name itself.
    pub name: Arc<str>,
    /// Where it stands.
    pub span: Span,
}

impl Ident {
    /// The name `name` at `span`.
    pub fn new(name: impl Into<Arc<str>>, span: Span) -> Self {
        Ident { name: name.into(), span }
    }

    /// The name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A name that may be looked up from the top-level scope alone (`.name`, specification section "Name resolution").
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Path {
    /// Whether a leading dot was written: look up in the top-level scope only.
    pub absolute: bool,
    /// The name.
    pub name: Ident,
    /// The name with its dot.
    pub span: Span,
}

impl Path {
    /// The name as a string slice, without the dot.
    pub fn as_str(&self) -> &str {
        &self.name.name
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.absolute { "." } else { "" };
        write!(f, "{dot}{}", self.name)
    }
}
