//! Macro expansion.
//!
//! Expansions are a stack of token lists, of which the top one is read first; when it is used up,
//! the one below goes on. A macro is disabled as long as one of its lists is on the stack, and a
//! name that was met in that time is never expanded again. So expansion ends, whatever the
//! definitions. Around everything that came out of a macro is *padding*, from which the printer
//! knows where white space was and where tokens would become one without a blank.

use super::context::{Context, Tokens};
use super::definition::{Definition, Macro};
use super::preprocessor::{Arguments, Preprocessor};
use super::token::{Kind, PpToken, Symbol, flag};
use crate::diag::Diagnostic;
use crate::span::Span;
use std::rc::Rc;

/// An argument of a call.
#[derive(Default, Debug)]
pub(super) struct Argument {
    pub tokens: Vec<PpToken>,
    /// The tokens with macros expanded, when they have been.
    pub expanded: Option<Vec<PpToken>>,
    /// The argument as a string, when it has been made one.
    pub string: Option<PpToken>,
    /// There is no such argument, not even an empty one: the comma in front of it goes.
    pub missing: bool,
}

impl Preprocessor<'_> {
    /// The next token after expansion; padding between. [`Kind::End`] is the end of what is being
    /// read.
    pub(super) fn get_token(&mut self) -> PpToken {
        let about_to_expand = self.about_to_expand;
        let token = self.get_token_inner();
        self.about_to_expand = about_to_expand;
        token
    }

    fn get_token_inner(&mut self) -> PpToken {
        loop {
            if self.stopped {
                return self.end_token(flag::LINE_START);
            }
            let mut token = match self.contexts.last_mut() {
                None => self.lex_token(),
                Some(context) => match context.next() {
                    Some(token) => {
                        if !self.spend(1, token.span) {
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
            if token.kind == Kind::Comment && self.state.in_directive() {
                continue;
            }
            if token.kind != Kind::Name || token.has(flag::NO_EXPAND) || !self.names.is_defined(token.value) {
                return token;
            }
            if self.names.node(token.value).disabled {
                token.flags |= flag::NO_EXPAND;
                return token;
            }
            if !self.about_to_expand && self.owner().is_none() {
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

    /// As [`Self::get_token`], without padding.
    pub(super) fn get_solid_token(&mut self) -> PpToken {
        loop {
            let token = self.get_token();
            if token.kind != Kind::Padding {
                return token;
            }
        }
    }

    /// The macro of the list on top.
    fn owner(&self) -> Option<Symbol> {
        self.contexts.last().and_then(|context| context.owner)
    }

    /// Takes the top list off and enables its macro again, unless the one below continues it.
    pub(super) fn pop_context(&mut self) {
        let Some(done) = self.contexts.pop() else { return };
        if let Some(owner) = done.owner
            && self.owner() != Some(owner)
        {
            self.names.node_mut(owner).disabled = false;
        }
    }

    fn push(&mut self, tokens: Tokens, owner: Option<Symbol>, origin: Option<(Span, u32)>) {
        self.contexts.push(Context { tokens, at: 0, owner, origin });
    }

    /// Puts tokens in front of what is read next, as a part of the macro that is being expanded.
    pub(super) fn push_continued(&mut self, list: Vec<PpToken>) {
        let origin = self.contexts.last().and_then(|context| context.origin);
        self.push(Tokens::List(list), self.owner(), origin);
    }

    /// Begins the expansion of the macro that `name` names; false if it stays as it is.
    fn enter_macro(&mut self, name: &PpToken) -> bool {
        self.state.angled_headers = false;
        let definition = match &self.names.node(name.value).definition {
            Definition::User(definition) => definition.clone(),
            Definition::Builtin(builtin) => {
                let builtin = *builtin;
                return self.expand_builtin(builtin, name);
            }
            Definition::None => return false,
        };
        self.about_to_expand = true;
        let origin = Some((name.span, name.line));
        if definition.function_like {
            self.state.prevent_expansion += 1;
            self.state.arguments = Arguments::Looked;
            let arguments = self.call(name, &definition);
            self.state.arguments = Arguments::None;
            self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
            let Some(arguments) = arguments else { return false };
            if !definition.params.is_empty() {
                let list = self.replace_arguments(&definition, arguments, name);
                self.push(Tokens::List(list), Some(name.value), origin);
            }
        }
        self.counts.expansions += 1;
        self.names.node_mut(name.value).disabled = true;
        if definition.params.is_empty() {
            self.push(Tokens::Body(definition), Some(name.value), origin);
        }
        true
    }

    /// The arguments, if a parenthesis follows. White space before what follows instead is not
    /// lost.
    fn call(&mut self, name: &PpToken, definition: &Rc<Macro>) -> Option<Vec<Argument>> {
        let mut padding: Option<PpToken> = None;
        let token = loop {
            let token = self.get_token();
            if token.kind != Kind::Padding {
                break token;
            }
            let replaces = padding
                .as_ref()
                .is_none_or(|last| !last.has(flag::SOURCE) || (!last.is_white() && !token.has(flag::SOURCE)));
            if replaces {
                padding = Some(token);
            }
        };
        if token.kind == Kind::OpenParen {
            self.state.arguments = Arguments::Collected;
            return self.collect_arguments(name, definition);
        }
        if token.kind != Kind::End || token.has(flag::ARGUMENT) {
            self.back_up(token);
            if let Some(padding) = padding {
                self.push_continued(vec![padding]);
            }
        }
        None
    }

    /// Makes `token`, which was read last, the next one again.
    pub(super) fn back_up(&mut self, token: PpToken) {
        match self.contexts.last_mut() {
            None => self.put_back(token),
            Some(context) => context.at = context.at.saturating_sub(1),
        }
    }

    /// Reads the arguments of a call, whose parenthesis has been read.
    fn collect_arguments(&mut self, name: &PpToken, definition: &Rc<Macro>) -> Option<Vec<Argument>> {
        let params = definition.params.len();
        let mut arguments: Vec<Argument> = Vec::new();
        let mut count = 0;
        let last = loop {
            count += 1;
            let open_ended = definition.variadic && count == params;
            let (tokens, last) = self.collect_argument(open_ended);
            let argument = Argument { tokens, ..Argument::default() };
            // Of too many, the last counts; none does after all, because that is an error.
            if count <= params.max(1) {
                arguments.push(argument);
            }
            if matches!(last.kind, Kind::CloseParen | Kind::End) {
                break last;
            }
        };
        if last.kind == Kind::End {
            if last.has(flag::ARGUMENT) {
                self.back_up(last);
            }
            if !self.stopped {
                let message = format!("the arguments of macro `{}` are never closed", name.spelling());
                self.report(Diagnostic::error("macro-arguments", name.span, message).help("add `)`"));
            }
            return None;
        }
        if count == 1 && params == 0 && arguments.first().is_some_and(|argument| argument.tokens.is_empty()) {
            count = 0;
        }
        let enough = count == params || (definition.variadic && count + 1 == params);
        if !enough {
            let message = format!("macro `{}` takes {params} arguments, not {count}", name.spelling());
            let diagnostic = Diagnostic::error("macro-arguments", name.span, message);
            self.report(diagnostic.label(definition.span, "defined here"));
            return None;
        }
        if definition.variadic {
            let none = count == 1 && arguments.first().is_some_and(|argument| argument.tokens.is_empty());
            let missing = count < params || none;
            arguments.resize_with(params, Argument::default);
            if let Some(variable) = arguments.last_mut() {
                variable.missing = missing;
            }
        }
        Some(arguments)
    }

    /// The tokens of one argument, and what ended it.
    fn collect_argument(&mut self, open_ended: bool) -> (Vec<PpToken>, PpToken) {
        let mut tokens: Vec<PpToken> = Vec::new();
        let mut depth = 0usize;
        let last = loop {
            let token = self.get_token();
            match token.kind {
                Kind::Padding if tokens.is_empty() => continue,
                Kind::OpenParen => depth += 1,
                Kind::CloseParen if depth == 0 => break token,
                Kind::CloseParen => depth -= 1,
                Kind::Comma if depth == 0 && !open_ended => break token,
                Kind::End => break token,
                Kind::Hash if token.has(flag::LINE_START) => break token,
                _ => {}
            }
            tokens.push(token);
        };
        while tokens.last().is_some_and(|token| token.kind == Kind::Padding) {
            tokens.pop();
        }
        (tokens, last)
    }

    /// Expands an argument, once.
    pub(super) fn expand_argument(&mut self, argument: &mut Argument) {
        if argument.expanded.is_some() {
            return;
        }
        let mut expanded = Vec::new();
        if !argument.tokens.is_empty() && self.enter_nested(argument.tokens[0].span) {
            let mut list = argument.tokens.clone();
            let end = PpToken::new(Kind::End, flag::ARGUMENT, self.last_span);
            list.push(end);
            let depth = self.contexts.len();
            self.push(Tokens::List(list), self.owner(), None);
            let ignored = std::mem::replace(&mut self.state.ignores_pragma, true);
            loop {
                let token = self.get_token();
                if token.kind == Kind::End {
                    break;
                }
                expanded.push(token);
            }
            while self.contexts.len() > depth {
                self.pop_context();
            }
            self.state.ignores_pragma = ignored;
            self.macro_depth -= 1;
        }
        argument.expanded = Some(expanded);
    }

    /// Counts one more level of calls within arguments; false if they are too deep.
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

    /// Reads on from the top list for `##`, without expanding.
    pub(super) fn next_raw(&mut self) -> Option<PpToken> {
        self.contexts.last_mut()?.next()
    }

    /// Undoes [`Self::next_raw`].
    pub(super) fn back_up_raw(&mut self) {
        if let Some(context) = self.contexts.last_mut() {
            context.at = context.at.saturating_sub(1);
        }
    }
}
