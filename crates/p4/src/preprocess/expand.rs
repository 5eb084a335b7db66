//! Macro expansion.
//!
//! Expansions form a stack of token lists. The top list is read first; reading then continues with
//! the one below. A macro is disabled while one of its lists is on the stack. A name read while its
//! macro is disabled is never expanded later. So expansion terminates for any definitions.
//! *Padding* tokens surround the tokens of an expansion. From them the printer knows where white
//! space was, and where a blank must separate tokens.

use super::context::{ContextTokens, MacroContext};
use super::definition::{Macro, MacroDefinition};
use super::preprocessor::{ArgumentProgress, Preprocessor};
use super::token::{PpToken, PpTokenKind, Symbol, flag};
use crate::diag::Diagnostic;
use crate::span::Span;
use std::rc::Rc;

/// An argument of a macro call.
#[derive(Default, Debug)]
pub(super) struct MacroArgument {
    pub tokens: Vec<PpToken>,
    /// The tokens with macros expanded; `None` until needed.
    pub expanded: Option<Vec<PpToken>>,
    /// The argument as a string (`#`); `None` until needed.
    pub string: Option<PpToken>,
    /// Whether the call has no such argument, not even an empty one. The comma before it is then
    /// removed.
    pub is_missing: bool,
}

impl Preprocessor<'_> {
    /// Returns the next token after expansion, including padding. [`PpTokenKind::End`] is the end
    /// of the text being read.
    pub(super) fn get_token(&mut self) -> PpToken {
        let is_about_to_expand = self.is_about_to_expand;
        let token = self.get_token_inner();
        self.is_about_to_expand = is_about_to_expand;
        token
    }

    /// Returns the next token after macro expansion: from the top context, or from the text if
    /// there is none. A macro name starts its expansion and gives padding; a name that is not
    /// expanded is returned as it is. Within directives, padding and comments are dropped.
    fn get_token_inner(&mut self) -> PpToken {
        loop {
            if self.is_stopped {
                return self.end_token(flag::LINE_START);
            }
            let mut token = match self.contexts.last_mut() {
                None => self.lex_token(),
                Some(context) => match context.next() {
                    Some(token) => {
                        if !self.spend_tokens(1, token.span) {
                            continue;
                        }
                        if token.has(flag::PASTE_LEFT) {
                            let padding = PpToken::padding(&token);
                            self.paste_all(token);
                            if self.state.in_directive() {
                                continue;
                            }
                            return padding;
                        }
                        token
                    }
                    None => {
                        self.pop_context();
                        if self.state.in_directive() {
                            continue;
                        }
                        return PpToken::avoid_paste();
                    }
                },
            };
            if token.kind == PpTokenKind::Comment && self.state.in_directive() {
                continue;
            }
            if token.kind != PpTokenKind::Name || token.has(flag::NO_EXPAND) || !self.names.is_defined(token.value) {
                return token;
            }
            if self.names.node(token.value).is_disabled {
                token.flags |= flag::NO_EXPAND;
                return token;
            }
            if !self.is_about_to_expand && self.top_owner().is_none() {
                self.invocation_line = token.line;
                self.top_macro = Some(token.value);
            }
            if self.state.prevent_expansion > 0 || !self.enter_macro(&token) {
                return token;
            }
            if !self.state.in_directive() {
                return PpToken::padding(&token);
            }
        }
    }

    /// Returns the next token after expansion, without padding.
    pub(super) fn get_solid_token(&mut self) -> PpToken {
        loop {
            let token = self.get_token();
            if token.kind != PpTokenKind::Padding {
                return token;
            }
        }
    }

    /// Returns the macro of the top list.
    fn top_owner(&self) -> Option<Symbol> {
        self.contexts.last().and_then(|context| context.owner)
    }

    /// Pops the top list and enables its macro, unless the list below belongs to the same macro.
    pub(super) fn pop_context(&mut self) {
        let Some(done) = self.contexts.pop() else { return };
        if let Some(owner) = done.owner
            && self.top_owner() != Some(owner)
        {
            self.names.node_mut(owner).is_disabled = false;
        }
    }

    fn push_context(&mut self, tokens: ContextTokens, owner: Option<Symbol>, origin: Option<(Span, u32)>) {
        self.contexts.push(MacroContext { tokens, at: 0, owner, origin });
    }

    /// Pushes tokens to be read next, as part of the macro being expanded.
    pub(super) fn push_continued(&mut self, list: Vec<PpToken>) {
        let origin = self.contexts.last().and_then(|context| context.origin);
        self.push_context(ContextTokens::List(list), self.top_owner(), origin);
    }

    /// Starts the expansion of the macro at `name`: pushes its body as a context and disables the
    /// macro. Returns false if the name remains, because a function-like macro has no arguments
    /// here, or its arguments are wrong.
    fn enter_macro(&mut self, name: &PpToken) -> bool {
        self.state.angled_headers = false;
        let definition = match &self.names.node(name.value).definition {
            MacroDefinition::User(definition) => definition.clone(),
            MacroDefinition::Builtin(builtin) => {
                let builtin = *builtin;
                return self.expand_builtin(builtin, name);
            }
            MacroDefinition::None => return false,
        };
        // Uses of other macros in the arguments then keep the line of this use for `__LINE__`.
        self.is_about_to_expand = true;
        let origin = Some((name.span, name.line));
        if definition.is_function_like {
            // Arguments are collected unexpanded, because the operands of `#` and `##` remain so.
            self.state.prevent_expansion += 1;
            self.state.arguments = ArgumentProgress::Looked;
            let arguments = self.read_call_arguments(name, &definition);
            self.state.arguments = ArgumentProgress::None;
            self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
            let Some(arguments) = arguments else { return false };
            if !definition.params.is_empty() {
                let list = self.replace_arguments(&definition, arguments, name);
                self.push_context(ContextTokens::List(list), Some(name.value), origin);
            }
        }
        self.counts.expansions += 1;
        self.names.node_mut(name.value).is_disabled = true;
        if definition.params.is_empty() {
            self.push_context(ContextTokens::Body(definition), Some(name.value), origin);
        }
        true
    }

    /// Returns the arguments of the macro use at `name` if a parenthesis follows. Otherwise
    /// restores the white space that was read, and returns `None`, as after an error in the
    /// arguments.
    fn read_call_arguments(&mut self, name: &PpToken, definition: &Rc<Macro>) -> Option<Vec<MacroArgument>> {
        let mut padding: Option<PpToken> = None;
        let token = loop {
            let token = self.get_token();
            if token.kind != PpTokenKind::Padding {
                break token;
            }
            // Of several padding tokens, one is kept: the last with a source, or one with white
            // space.
            let replaces = padding
                .as_ref()
                .is_none_or(|kept| !kept.has(flag::SOURCE) || (!kept.is_white() && !token.has(flag::SOURCE)));
            if replaces {
                padding = Some(token);
            }
        };
        if token.kind == PpTokenKind::OpenParen {
            self.state.arguments = ArgumentProgress::Collected;
            return self.collect_arguments(name, definition);
        }
        if token.kind != PpTokenKind::End || token.has(flag::ARGUMENT) {
            self.unread_token(token);
            if let Some(padding) = padding {
                self.push_continued(vec![padding]);
            }
        }
        None
    }

    /// Makes `token`, which was read last, the next token.
    pub(super) fn unread_token(&mut self, token: PpToken) {
        match self.contexts.last_mut() {
            None => self.put_back(token),
            Some(context) => context.at = context.at.saturating_sub(1),
        }
    }

    /// Reads the arguments of the macro call at `name`, after its opening parenthesis. A variadic
    /// macro has one argument for `...`, which can be missing. Returns `None` after an error: a
    /// parenthesis that is never closed, or a wrong number of arguments.
    fn collect_arguments(&mut self, name: &PpToken, definition: &Rc<Macro>) -> Option<Vec<MacroArgument>> {
        let params = definition.params.len();
        let mut arguments: Vec<MacroArgument> = Vec::new();
        let mut count = 0;
        let delimiter = loop {
            count += 1;
            let open_ended = definition.is_variadic && count == params;
            let (tokens, delimiter) = self.collect_argument(open_ended);
            let argument = MacroArgument { tokens, ..MacroArgument::default() };
            // Extra arguments are dropped, because they are an error in any case.
            if count <= params.max(1) {
                arguments.push(argument);
            }
            if matches!(delimiter.kind, PpTokenKind::CloseParen | PpTokenKind::End) {
                break delimiter;
            }
        };
        if delimiter.kind == PpTokenKind::End {
            if delimiter.has(flag::ARGUMENT) {
                self.unread_token(delimiter);
            }
            if !self.is_stopped {
                let message = format!("the arguments of macro `{}` are never closed", name.spelling());
                self.report(Diagnostic::error("macro-arguments", name.span, message).help("add `)`"));
            }
            return None;
        }
        // `M()` of a macro without parameters has one empty argument, which is none.
        if count == 1 && params == 0 && arguments.first().is_some_and(|argument| argument.tokens.is_empty()) {
            count = 0;
        }
        let count_fits = count == params || (definition.is_variadic && count + 1 == params);
        if !count_fits {
            let message = format!("macro `{}` takes {params} arguments, not {count}", name.spelling());
            let diagnostic = Diagnostic::error("macro-arguments", name.span, message);
            self.report(diagnostic.label(definition.span, "defined here"));
            return None;
        }
        if definition.is_variadic {
            let is_only_empty = count == 1 && arguments.first().is_some_and(|argument| argument.tokens.is_empty());
            let is_missing = count < params || is_only_empty;
            arguments.resize_with(params, MacroArgument::default);
            if let Some(variadic) = arguments.last_mut() {
                variadic.is_missing = is_missing;
            }
        }
        Some(arguments)
    }

    /// Returns the tokens of one argument, without padding at its ends, and the delimiter after it:
    /// a comma, `)`, the end, or the `#` of a directive. Commas belong to an `open_ended` argument
    /// (`...`).
    fn collect_argument(&mut self, open_ended: bool) -> (Vec<PpToken>, PpToken) {
        let mut tokens: Vec<PpToken> = Vec::new();
        let mut depth = 0usize;
        let delimiter = loop {
            let token = self.get_token();
            match token.kind {
                PpTokenKind::Padding if tokens.is_empty() => continue,
                PpTokenKind::OpenParen => depth += 1,
                PpTokenKind::CloseParen if depth == 0 => break token,
                PpTokenKind::CloseParen => depth -= 1,
                PpTokenKind::Comma if depth == 0 && !open_ended => break token,
                PpTokenKind::End => break token,
                PpTokenKind::Hash if token.has(flag::LINE_START) => break token,
                _ => {}
            }
            tokens.push(token);
        };
        while tokens.last().is_some_and(|token| token.kind == PpTokenKind::Padding) {
            tokens.pop();
        }
        (tokens, delimiter)
    }

    /// Expands the macros in an argument and stores the result in it, unless that is done already.
    pub(super) fn expand_argument(&mut self, argument: &mut MacroArgument) {
        if argument.expanded.is_some() {
            return;
        }
        let mut expanded = Vec::new();
        if !argument.tokens.is_empty() && self.enter_nested(argument.tokens[0].span) {
            let mut list = argument.tokens.clone();
            // An end token closes the argument, because the expansion must not read the text after
            // it.
            let end = PpToken::new(PpTokenKind::End, flag::ARGUMENT, self.last_span);
            list.push(end);
            let depth = self.contexts.len();
            self.push_context(ContextTokens::List(list), self.top_owner(), None);
            let ignored_before = std::mem::replace(&mut self.state.ignores_pragma, true);
            loop {
                let token = self.get_token();
                if token.kind == PpTokenKind::End {
                    break;
                }
                expanded.push(token);
            }
            while self.contexts.len() > depth {
                self.pop_context();
            }
            self.state.ignores_pragma = ignored_before;
            self.macro_depth -= 1;
        }
        argument.expanded = Some(expanded);
    }

    /// Enters another level of calls within arguments; false if they are too deep.
    fn enter_nested(&mut self, at: Span) -> bool {
        let limit = self.options.limits.macro_depth;
        if self.macro_depth >= limit {
            let message = format!("macro calls nest deeper than {limit} in arguments");
            self.stop_with(Diagnostic::error("limit", at, message).help("nest fewer calls"));
            return false;
        }
        self.macro_depth += 1;
        true
    }

    /// Returns the next token of the top list for `##`, without expanding it.
    pub(super) fn next_raw(&mut self) -> Option<PpToken> {
        self.contexts.last_mut()?.next()
    }

    /// Undoes [`Self::next_raw`].
    pub(super) fn unread_raw(&mut self) {
        if let Some(context) = self.contexts.last_mut() {
            context.at = context.at.saturating_sub(1);
        }
    }
}
