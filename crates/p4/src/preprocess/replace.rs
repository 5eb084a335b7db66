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
    /// Returns the body of `definition` with `arguments` substituted, used at `name`. Expands the
    /// arguments first, except next to `#` and `##`.
    pub(super) fn replace_arguments(
        &mut self,
        definition: &Macro,
        arguments: Vec<MacroArgument>,
        name: &PpToken,
    ) -> Vec<PpToken> {
        let mut arguments = arguments;
        arguments.resize_with(definition.params.len(), MacroArgument::default);
        let mut new =
            MacroSubstitution { definition, arguments, name: name.clone(), out: Vec::new(), va_opt_start: None };
        self.prepare_arguments(&mut new);
        let mut tracker = VaOptTracker::new(definition.is_variadic);
        for (at, token) in definition.body.iter().enumerate() {
            if self.is_stopped {
                break;
            }
            let update = tracker.update(token, self.names.va_opt, |_| {
                let Some(variable) = new.arguments.last_mut() else { return false };
                self.expand_argument(variable);
                variable.expanded.iter().flatten().any(|token| token.kind != PpTokenKind::Padding)
            });
            match update {
                Ok(VaOptTreatment::Include) if token.kind == PpTokenKind::Param => self.replace_parameter(&mut new, at),
                Ok(VaOptTreatment::Include) => {
                    let token = new.at_use(token);
                    new.out.push(token);
                }
                Ok(VaOptTreatment::Begin) => {
                    if at > 0 && !new.follows_paste(at) {
                        new.out.push(PpToken::padding(token));
                    }
                    new.va_opt_start = new.out.len().checked_sub(1);
                }
                Ok(VaOptTreatment::End) => self.end_va_opt(&mut new, token, tracker.stringify()),
                Ok(VaOptTreatment::Drop) | Err(_) => {}
            }
        }
        if !self.spend_tokens(new.out.len(), name.span) {
            return Vec::new();
        }
        new.out
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

    fn replace_parameter(&mut self, new: &mut MacroSubstitution<'_>, at: usize) {
        let token = &new.definition.body[at];
        let index = token.value as usize;
        let follows_paste = new.follows_paste(at);
        let paste_left = token.has(flag::PASTE_LEFT);
        let Some(argument) = new.arguments.get(index) else { return };
        let mut piece: Vec<PpToken> = if token.has(flag::STRINGIFY) {
            argument.string.iter().cloned().collect()
        } else if paste_left || follows_paste {
            argument.tokens.clone()
        } else {
            argument.expanded.clone().unwrap_or_default()
        };
        let is_missing = argument.is_missing;
        // Index of the token with a `##` flag that depends on the substituted tokens.
        let mut flagged: Option<usize> = None;
        let plain = !token.has(flag::STRINGIFY) && !paste_left;
        if plain
            && follows_paste
            && let Some(last) = new.out.last()
        {
            let variable = new.definition.is_variadic && index + 1 == new.definition.params.len();
            if last.kind == PpTokenKind::Comma && variable {
                if is_missing {
                    new.out.pop();
                } else {
                    flagged = Some(new.out.len() - 1);
                }
            } else if piece.is_empty() {
                flagged = Some(new.out.len() - 1);
            }
        } else if plain && !follows_paste && new.at_va_opt_start() {
            let padding = piece.iter().take_while(|token| token.kind == PpTokenKind::Padding).count();
            piece.drain(..padding);
        }
        let wants_padding = !self.state.in_directive() || self.state.directive_wants_padding;
        if wants_padding && at > 0 && !follows_paste && !new.at_va_opt_start() {
            new.out.push(PpToken::padding(token));
        }
        if !piece.is_empty() {
            if !self.spend_tokens(piece.len(), new.name.span) {
                return;
            }
            new.out.append(&mut piece);
            if paste_left {
                flagged = Some(new.out.len() - 1);
            }
        }
        if !self.state.in_directive() && !paste_left {
            new.out.push(PpToken::avoid_paste());
        }
        if let Some(flagged) = flagged.and_then(|at| new.out.get_mut(at)) {
            flagged.set(flag::PASTE_LEFT, paste_left);
        }
    }

    /// Handles the end of `__VA_OPT__(...)` at its closing parenthesis `close`.
    fn end_va_opt(&mut self, new: &mut MacroSubstitution<'_>, close: &PpToken, stringify: bool) {
        let start = new.va_opt_start.take();
        let first = start.map_or(0, |start| start + 1);
        if stringify {
            let tokens = new.out.split_off(first.min(new.out.len()));
            let pasted = self.paste_within(tokens, &new.name);
            let mut string = self.stringify_tokens(&pasted, &new.name);
            string.set(flag::PASTE_LEFT, close.has(flag::PASTE_LEFT));
            new.out.push(string);
            return;
        }
        let empty = new.out.len() == first;
        if empty
            && let Some(before) = start.and_then(|start| new.out.get_mut(start))
            && before.has(flag::PASTE_LEFT)
        {
            before.set(flag::PASTE_LEFT, false);
        }
        if !close.has(flag::PASTE_LEFT) {
            new.out.push(PpToken::avoid_paste());
            return;
        }
        let is_avoid = |token: &PpToken| token.kind == PpTokenKind::Padding && !token.has(flag::SOURCE);
        while new.out.len() > first && new.out.last().is_some_and(is_avoid) {
            new.out.pop();
        }
        if let Some(last) = new.out.last_mut()
            && last.kind != PpTokenKind::Padding
        {
            last.set(flag::PASTE_LEFT, true);
        }
    }

    /// Applies `##` within a list of tokens.
    fn paste_within(&mut self, tokens: Vec<PpToken>, name: &PpToken) -> Vec<PpToken> {
        let mut out: Vec<PpToken> = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(mut left) = tokens.next() {
            while left.has(flag::PASTE_LEFT) {
                let Some(right) = tokens.peek() else { break };
                let more = right.has(flag::PASTE_LEFT);
                let Some(pasted) = self.paste_tokens(&left, right, name) else {
                    left.set(flag::PASTE_LEFT, false);
                    break;
                };
                tokens.next();
                left = pasted;
                left.set(flag::PASTE_LEFT, more);
            }
            left.set(flag::PASTE_LEFT, false);
            out.push(left);
        }
        out
    }

    /// Applies `#`: returns the spelling of the tokens with single blanks as a string.
    pub(super) fn stringify_tokens(&mut self, tokens: &[PpToken], name: &PpToken) -> PpToken {
        let mut text = String::from("\"");
        let mut gap = PaddingGap::default();
        let mut backslashes = 0;
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
            let backslash = token.kind == PpTokenKind::Other && token.spelling().starts_with('\\');
            backslashes = if backslash { backslashes + 1 } else { 0 };
        }
        let span = tokens.first().map_or(name.span, |first| first.span);
        if backslashes % 2 == 1 {
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
