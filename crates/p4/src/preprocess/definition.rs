//! Macro definitions as data.

use super::token::{PpToken, Symbol};
use crate::span::Span;
use std::rc::Rc;

/// A built-in macro.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BuiltinMacro {
    Line,
    File,
    BaseFile,
    IncludeLevel,
    Counter,
    Date,
    Time,
    Timestamp,
    One,
    HasInclude,
    HasIncludeNext,
    Pragma,
}

/// Definition of a name.
#[derive(Clone, Debug)]
pub(super) enum MacroDefinition {
    None,
    User(Rc<Macro>),
    Builtin(BuiltinMacro),
}

/// A macro as defined.
#[derive(Debug)]
pub(super) struct Macro {
    pub params: Vec<Symbol>,
    pub is_function_like: bool,
    /// Whether the last parameter takes all remaining arguments.
    pub is_variadic: bool,
    /// The replacement. `##` is stored as a flag of the token before it.
    pub body: Vec<PpToken>,
    /// Positions (number of tokens before) and flags of the second and further `##` in a row. They
    /// have no effect.
    pub extra_pastes: Vec<(usize, u16)>,
    /// Span of the name in the definition.
    pub span: Span,
}

impl Macro {
    /// Creates an object-like macro.
    pub fn object(body: Vec<PpToken>, span: Span) -> Self {
        Macro { params: Vec::new(), is_function_like: false, is_variadic: false, body, extra_pastes: Vec::new(), span }
    }

    /// Returns whether both definitions are equal, so that a redefinition is allowed.
    pub fn same_as(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.is_function_like == other.is_function_like
            && self.is_variadic == other.is_variadic
            && self.extra_pastes == other.extra_pastes
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.same_as(b))
    }
}
