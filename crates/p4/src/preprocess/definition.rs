//! What a name is replaced by: macros as data.

use super::token::{PpToken, Symbol};
use crate::span::Span;
use std::rc::Rc;

/// A macro that the preprocessor itself has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Builtin {
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

/// What a name is replaced by.
#[derive(Clone, Debug)]
pub(super) enum Definition {
    None,
    User(Rc<Macro>),
    Builtin(Builtin),
}

/// A macro as defined.
#[derive(Debug)]
pub(super) struct Macro {
    pub params: Vec<Symbol>,
    pub function_like: bool,
    /// The last parameter takes all arguments that are left.
    pub variadic: bool,
    /// The replacement. `##` is a flag of the token before it.
    pub body: Vec<PpToken>,
    /// The second and further of `##` in a row, with the number of tokens before: they mean
    /// nothing.
    pub extra_pastes: Vec<(usize, u16)>,
    /// Where the name was defined.
    pub span: Span,
}

impl Macro {
    /// An object-like macro.
    pub fn object(body: Vec<PpToken>, span: Span) -> Self {
        Macro { params: Vec::new(), function_like: false, variadic: false, body, extra_pastes: Vec::new(), span }
    }

    /// Whether a definition anew by the other changes nothing.
    pub fn same_as(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.function_like == other.function_like
            && self.variadic == other.variadic
            && self.extra_pastes == other.extra_pastes
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.same_as(b))
    }
}
