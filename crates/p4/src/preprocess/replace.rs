//! Substitutes arguments for the parameters of a macro body.

use super::definition::Macro;
use super::expand::MacroArgument;
use super::preprocessor::Preprocessor;
use super::token::{PaddingGap, PpToken, PpTokenKind, flag, push_quoted};
use super::va_opt::{VaOptTracker, VaOptTreatment};
use crate::diag::Diagnostic;

/// A macro body during substitution.
struct MacroSubstitution<'m> {
    definition: &'m Macro,
    arguments: Vec<MacroArgument>,
    name: PpToken,
    out: Vec<PpToken>,
    /// Within `__VA_OPT__`: index of the token before it, if it exists.
    va_opt_start: Option<usize>,
}

impl MacroSubstitution<'_> {
    /// Returns whether no token was added since the current `__VA_OPT__` began.
    fn at_va_opt_start(&self) -> bool {
        self.va_opt_start.is_some_and(|start| start + 1 == self.out.len())
    }

    fn follows_paste(&self, at: usize) -> bool {
        at > 0 && self.definition.body[at - 1].has(flag::PASTE_LEFT)
    }

    /// Returns a copy of a body token, located at the use of the macro.
    fn at_use(&self, token: &PpToken) -> PpToken {
        PpToken { span: self.name.span, ..token.clone() }
    }
}

impl Preprocessor<'_> {
    /// Returns the body of `definition` with `arguments` substituted, for the macro use at `name`.
    /// Arguments are expanded first, except next to `#` and `##`. Returns no tokens if the budget
    /// of tokens is exhausted.
    pub(super) fn replace_arguments(
        &mut self,
        definition: &Macro,
        arguments: Vec<MacroArgument>,
        name: &PpToken,
    ) -> Vec<PpToken> {
        let mut arguments = arguments;
        arguments.resize_with(definition.params.len(), MacroArgument::default);
        let mut substitution =
            MacroSubstitution { definition, arguments, name: name.clone(), out: Vec::new(), va_opt_start: None };
        self.prepare_arguments(&mut substitution);
        let mut va_opt = VaOptTracker::new(definition.is_variadic);
        for (position, token) in definition.body.iter().enumerate() {
            if self.is_stopped {
                break;
            }
            let update = va_opt.update(token, self.names.va_opt, |_| {
                // `__VA_OPT__` keeps its content if the variable arguments expand to at least one
                // token.
                let Some(variadic) = substitution.arguments.last_mut() else { return false };
                self.expand_argument(variadic);
                variadic.expanded.iter().flatten().any(|token| token.kind != PpTokenKind::Padding)
            });
            match update {
                Ok(VaOptTreatment::Include) if token.kind == PpTokenKind::Param => {
                    self.replace_parameter(&mut substitution, position)
                }
                Ok(VaOptTreatment::Include) => {
                    let token = substitution.at_use(token);
                    substitution.out.push(token);
                }
                Ok(VaOptTreatment::Begin) => {
                    if position > 0 && !substitution.follows_paste(position) {
                        substitution.out.push(PpToken::padding(token));
                    }
                    substitution.va_opt_start = substitution.out.len().checked_sub(1);
                }
                Ok(VaOptTreatment::End) => self.end_va_opt(&mut substitution, token, va_opt.stringify()),
                Ok(VaOptTreatment::Drop) | Err(_) => {}
            }
        }
        if !self.spend_tokens(substitution.out.len(), name.span) {
            return Vec::new();
        }
        substitution.out
    }

    /// Expands or stringifies the arguments that the body needs. The order is that of the body,
    /// because `__COUNTER__` makes it visible.
    fn prepare_arguments(&mut self, new: &mut MacroSubstitution<'_>) {
        for (at, token) in new.definition.body.iter().enumerate() {
            if token.kind != PpTokenKind::Param {
                continue;
            }
            let pasted = token.has(flag::PASTE_LEFT) || new.follows_paste(at);
            let Some(argument) = new.arguments.get_mut(token.value as usize) else { continue };
            if token.has(flag::STRINGIFY) {
                if argument.string.is_none() {
                    let string = self.stringify_tokens(&argument.tokens, &new.name);
                    argument.string = Some(string);
                }
            } else if !pasted {
                self.expand_argument(argument);
            }
        }
    }

    /// Appends the argument for the parameter at index `position` of the macro body: as a string
    /// after `#`, unexpanded next to `##`, otherwise expanded. Padding around it keeps its tokens
    /// apart from the body's. As in GCC, `, ## __VA_ARGS__` drops the comma if the variable
    /// arguments are missing.
    fn replace_parameter(&mut self, substitution: &mut MacroSubstitution<'_>, position: usize) {
        let token = &substitution.definition.body[position];
        let param_index = token.value as usize;
        let follows_paste = substitution.follows_paste(position);
        let paste_left = token.has(flag::PASTE_LEFT);
        let Some(argument) = substitution.arguments.get(param_index) else { return };
        let mut tokens: Vec<PpToken> = if token.has(flag::STRINGIFY) {
            argument.string.iter().cloned().collect()
        } else if paste_left || follows_paste {
            argument.tokens.clone()
        } else {
            argument.expanded.clone().unwrap_or_default()
        };
        let is_missing = argument.is_missing;
        // Index of the token with a `##` flag that depends on the substituted tokens.
        let mut flagged: Option<usize> = None;
        let is_plain = !token.has(flag::STRINGIFY) && !paste_left;
        if is_plain
            && follows_paste
            && let Some(last) = substitution.out.last()
        {
            let is_variadic_param =
                substitution.definition.is_variadic && param_index + 1 == substitution.definition.params.len();
            if last.kind == PpTokenKind::Comma && is_variadic_param {
                if is_missing {
                    substitution.out.pop();
                } else {
                    flagged = Some(substitution.out.len() - 1);
                }
            } else if tokens.is_empty() {
                flagged = Some(substitution.out.len() - 1);
            }
        } else if is_plain && !follows_paste && substitution.at_va_opt_start() {
            let padding = tokens.iter().take_while(|token| token.kind == PpTokenKind::Padding).count();
            tokens.drain(..padding);
        }
        let needs_padding = !self.state.in_directive() || self.state.directive_wants_padding;
        if needs_padding && position > 0 && !follows_paste && !substitution.at_va_opt_start() {
            substitution.out.push(PpToken::padding(token));
        }
        if !tokens.is_empty() {
            if !self.spend_tokens(tokens.len(), substitution.name.span) {
                return;
            }
            substitution.out.append(&mut tokens);
            if paste_left {
                flagged = Some(substitution.out.len() - 1);
            }
        }
        if !self.state.in_directive() && !paste_left {
            substitution.out.push(PpToken::avoid_paste());
        }
        if let Some(flagged) = flagged.and_then(|position| substitution.out.get_mut(position)) {
            flagged.set(flag::PASTE_LEFT, paste_left);
        }
    }

    /// Handles the end of `__VA_OPT__(...)` at its closing parenthesis `close`: joins the content
    /// to a string if `stringify`, and moves the `##` of the parenthesis to the last token of the
    /// content.
    fn end_va_opt(&mut self, substitution: &mut MacroSubstitution<'_>, close: &PpToken, stringify: bool) {
        let before_index = substitution.va_opt_start.take();
        let first = before_index.map_or(0, |before_index| before_index + 1);
        if stringify {
            let tokens = substitution.out.split_off(first.min(substitution.out.len()));
            let pasted = self.paste_within(tokens, &substitution.name);
            let mut string = self.stringify_tokens(&pasted, &substitution.name);
            string.set(flag::PASTE_LEFT, close.has(flag::PASTE_LEFT));
            substitution.out.push(string);
            return;
        }
        let is_empty = substitution.out.len() == first;
        if is_empty
            && let Some(before) = before_index.and_then(|before_index| substitution.out.get_mut(before_index))
            && before.has(flag::PASTE_LEFT)
        {
            before.set(flag::PASTE_LEFT, false);
        }
        if !close.has(flag::PASTE_LEFT) {
            substitution.out.push(PpToken::avoid_paste());
            return;
        }
        let only_separates = |token: &PpToken| token.kind == PpTokenKind::Padding && !token.has(flag::SOURCE);
        while substitution.out.len() > first && substitution.out.last().is_some_and(only_separates) {
            substitution.out.pop();
        }
        if let Some(last) = substitution.out.last_mut()
            && last.kind != PpTokenKind::Padding
        {
            last.set(flag::PASTE_LEFT, true);
        }
    }

    /// Applies `##` within a list of tokens, from left to right. If two tokens do not form one, the
    /// error is reported at `name`, and both remain.
    fn paste_within(&mut self, tokens: Vec<PpToken>, name: &PpToken) -> Vec<PpToken> {
        let mut out: Vec<PpToken> = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(mut left) = tokens.next() {
            while left.has(flag::PASTE_LEFT) {
                let Some(right) = tokens.peek() else { break };
                let is_pasted_again = right.has(flag::PASTE_LEFT);
                let Some(pasted) = self.paste_tokens(&left, right, name) else {
                    left.set(flag::PASTE_LEFT, false);
                    break;
                };
                tokens.next();
                left = pasted;
                left.set(flag::PASTE_LEFT, is_pasted_again);
            }
            left.set(flag::PASTE_LEFT, false);
            out.push(left);
        }
        out
    }

    /// Applies `#`: returns the spelling of the tokens, with single blanks in place of white space,
    /// as a string. Quotes and backslashes in strings are escaped. `name` is the use of the macro.
    pub(super) fn stringify_tokens(&mut self, tokens: &[PpToken], name: &PpToken) -> PpToken {
        let mut text = String::from("\"");
        let mut gap = PaddingGap::default();
        let mut trailing_backslashes = 0;
        for token in tokens {
            if token.kind == PpTokenKind::Padding {
                gap.add(token);
                continue;
            }
            if text.len() > 1 && gap.is_white(token) {
                text.push(' ');
            }
            gap = PaddingGap::default();
            if token.kind.is_quoted() {
                push_quoted(&mut text, token.spelling());
            } else {
                text.push_str(token.spelling());
            }
            let is_backslash = token.kind == PpTokenKind::Other && token.spelling().starts_with('\\');
            trailing_backslashes = if is_backslash { trailing_backslashes + 1 } else { 0 };
        }
        let span = tokens.first().map_or(name.span, |first| first.span);
        if trailing_backslashes % 2 == 1 {
            let message = "the last backslash is dropped, because it would escape the closing quote";
            self.report(Diagnostic::warning("bad-string", name.span, message));
            text.pop();
        }
        text.push('"');
        self.counts.strings += 1;
        self.spend_tokens(text.len() / 8, name.span);
        PpToken { text: Some(text.into()), line: name.line, ..PpToken::new(PpTokenKind::Str, 0, span) }
    }
}
