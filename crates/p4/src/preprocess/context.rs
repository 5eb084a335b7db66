//! Token lists that are read in place of the text: what macros were replaced by.

use super::definition::Macro;
use super::token::{PpToken, Symbol};
use crate::span::Span;
use std::rc::Rc;

/// Tokens of an expansion.
#[derive(Debug)]
pub(super) enum Tokens {
    /// The body of a macro without parameters.
    Body(Rc<Macro>),
    List(Vec<PpToken>),
}

/// A token list on the stack.
#[derive(Debug)]
pub(super) struct Context {
    pub tokens: Tokens,
    pub at: usize,
    /// The macro that is disabled as long as the list is read.
    pub owner: Option<Symbol>,
    /// Where the outermost use of a macro is that led here, and its line; `None` for an argument.
    pub origin: Option<(Span, u32)>,
}

impl Context {
    /// The next token, as a part of what it was used for.
    pub fn next(&mut self) -> Option<PpToken> {
        let mut token = match &self.tokens {
            Tokens::Body(definition) => definition.body.get(self.at)?.clone(),
            Tokens::List(list) => list.get(self.at)?.clone(),
        };
        self.at += 1;
        if let Some((span, line)) = self.origin {
            token.line = line;
            if matches!(self.tokens, Tokens::Body(_)) {
                token.span = span;
            }
        }
        Some(token)
    }
}
