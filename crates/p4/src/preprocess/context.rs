//! The macro contexts: token lists from expansions, which are read before the text continues.

use super::definition::Macro;
use super::token::{PpToken, Symbol};
use crate::span::Span;
use std::rc::Rc;

/// Tokens of an expansion.
#[derive(Debug)]
pub(super) enum ContextTokens {
    /// The body of a macro without parameters.
    Body(Rc<Macro>),
    List(Vec<PpToken>),
}

/// A token list on the stack.
#[derive(Debug)]
pub(super) struct MacroContext {
    pub tokens: ContextTokens,
    pub at: usize,
    /// The macro that is disabled while the list is read.
    pub owner: Option<Symbol>,
    /// Span and line of the outermost macro use that produced the list; `None` for an argument.
    pub origin: Option<(Span, u32)>,
}

impl MacroContext {
    /// Returns the next token, located at the macro use that produced it.
    pub fn next(&mut self) -> Option<PpToken> {
        let mut token = match &self.tokens {
            ContextTokens::Body(definition) => definition.body.get(self.at)?.clone(),
            ContextTokens::List(list) => list.get(self.at)?.clone(),
        };
        self.at += 1;
        if let Some((span, line)) = self.origin {
            token.line = line;
            if matches!(self.tokens, ContextTokens::Body(_)) {
                token.span = span;
            }
        }
        Some(token)
    }
}
