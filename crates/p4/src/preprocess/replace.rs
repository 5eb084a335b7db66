//! The body of a macro with its parameters replaced.

use super::definition::Macro;
use super::expand::Argument;
use super::preprocessor::Preprocessor;
use super::token::{Gap, Kind, PpToken, flag, push_quoted};
use super::va_opt::{Tracker, Update};
use crate::diag::Diagnostic;

/// The list that is being made.
struct Replacement<'m> {
    definition: &'m Macro,
    arguments: Vec<Argument>,
    name: PpToken,
    out: Vec<PpToken>,
    /// Within `__VA_OPT__`: index of the token before it, if there is one.
    va_opt_start: Option<usize>,
}

impl Replacement<'_> {
    /// Whether the last token is the one before the `__VA_OPT__` that is being read.
    fn at_va_opt_start(&self) -> bool {
        self.va_opt_start.is_some_and(|start| start + 1 == self.out.len())
    }

    fn follows_paste(&self, at: usize) -> bool {
        at > 0 && self.definition.body[at - 1].has(flag::PASTE_LEFT)
    }

    /// A token of the body, where the macro is used.
    fn at_use(&self, token: &PpToken) -> PpToken {
        PpToken { span: self.name.span, ..token.clone() }
    }
}

impl Preprocessor<'_> {
    /// The body of `definition` with `arguments` in it, used at `name`. Arguments are expanded
    /// before, except next to `#` and `##`.
    pub(super) fn replace_arguments(
        &mut self,
        definition: &Macro,
        arguments: Vec<Argument>,
        name: &PpToken,
    ) -> Vec<PpToken> {
        let mut arguments = arguments;
        arguments.resize_with(definition.params.len(), Argument::default);
        let mut new = Replacement { definition, arguments, name: name.clone(), out: Vec::new(), va_opt_start: None };
        self.prepare_arguments(&mut new);
        let mut tracker = Tracker::new(definition.variadic);
        for (at, token) in definition.body.iter().enumerate() {
            if self.stopped {
                break;
            }
            let update = tracker.update(token, self.names.va_opt, |_| {
                let Some(variable) = new.arguments.last_mut() else { return false };
                self.expand_argument(variable);
                variable.expanded.iter().flatten().any(|token| token.kind != Kind::Padding)
            });
            match update {
                Ok(Update::Include) if token.kind == Kind::Param => self.replace_parameter(&mut new, at),
                Ok(Update::Include) => {
                    let token = new.at_use(token);
                    new.out.push(token);
                }
                Ok(Update::Begin) => {
                    if at > 0 && !new.follows_paste(at) {
                        new.out.push(PpToken::padding(token));
                    }
                    new.va_opt_start = new.out.len().checked_sub(1);
                }
                Ok(Update::End) => self.end_va_opt(&mut new, token, tracker.stringify()),
                Ok(Update::Drop) | Err(_) => {}
            }
        }
        if !self.spend(new.out.len(), name.span) {
            return Vec::new();
        }
        new.out
    }

    /// Expands the arguments, and makes strings of them, as the body needs it: in the body's
    /// order, because that can be seen from `__COUNTER__`.
    fn prepare_arguments(&mut self, new: &mut Replacement<'_>) {
        for (at, token) in new.definition.body.iter().enumerate() {
            if token.kind != Kind::Param {
                continue;
            }
            let pasted = token.has(flag::PASTE_LEFT) || new.follows_paste(at);
            let Some(argument) = new.arguments.get_mut(token.value as usize) else { continue };
            if token.has(flag::STRINGIFY) {
                if argument.string.is_none() {
                    let string = self.stringify(&argument.tokens, &new.name);
                    argument.string = Some(string);
                }
            } else if !pasted {
                self.expand_argument(argument);
            }
        }
    }

    fn replace_parameter(&mut self, new: &mut Replacement<'_>, at: usize) {
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
        let missing = argument.missing;
        // The token whose `##` goes or stays according to what is put behind it.
        let mut flagged: Option<usize> = None;
        let plain = !token.has(flag::STRINGIFY) && !paste_left;
        if plain
            && follows_paste
            && let Some(last) = new.out.last()
        {
            let variable = new.definition.variadic && index + 1 == new.definition.params.len();
            if last.kind == Kind::Comma && variable {
                if missing {
                    new.out.pop();
                } else {
                    flagged = Some(new.out.len() - 1);
                }
            } else if piece.is_empty() {
                flagged = Some(new.out.len() - 1);
            }
        } else if plain && !follows_paste && new.at_va_opt_start() {
            let padding = piece.iter().take_while(|token| token.kind == Kind::Padding).count();
            piece.drain(..padding);
        }
        let wants_padding = !self.state.in_directive() || self.state.directive_wants_padding;
        if wants_padding && at > 0 && !follows_paste && !new.at_va_opt_start() {
            new.out.push(PpToken::padding(token));
        }
        if !piece.is_empty() {
            if !self.spend(piece.len(), new.name.span) {
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

    /// The end of `__VA_OPT__(...)`, whose closing parenthesis is `close`.
    fn end_va_opt(&mut self, new: &mut Replacement<'_>, close: &PpToken, stringify: bool) {
        let start = new.va_opt_start.take();
        let first = start.map_or(0, |start| start + 1);
        if stringify {
            let tokens = new.out.split_off(first.min(new.out.len()));
            let pasted = self.paste_within(tokens, &new.name);
            let mut string = self.stringify(&pasted, &new.name);
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
        let is_avoid = |token: &PpToken| token.kind == Kind::Padding && !token.has(flag::SOURCE);
        while new.out.len() > first && new.out.last().is_some_and(is_avoid) {
            new.out.pop();
        }
        if let Some(last) = new.out.last_mut()
            && last.kind != Kind::Padding
        {
            last.set(flag::PASTE_LEFT, true);
        }
    }

    /// Carries out `##` within a list of tokens.
    fn paste_within(&mut self, tokens: Vec<PpToken>, name: &PpToken) -> Vec<PpToken> {
        let mut out: Vec<PpToken> = Vec::new();
        let mut tokens = tokens.into_iter().peekable();
        while let Some(mut left) = tokens.next() {
            while left.has(flag::PASTE_LEFT) {
                let Some(right) = tokens.peek() else { break };
                let more = right.has(flag::PASTE_LEFT);
                let Some(pasted) = self.paste(&left, right, name) else {
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

    /// `#` of the tokens: their spelling with single blanks as a string.
    pub(super) fn stringify(&mut self, tokens: &[PpToken], name: &PpToken) -> PpToken {
        let mut text = String::from("\"");
        let mut gap = Gap::default();
        let mut backslashes = 0;
        for token in tokens {
            if token.kind == Kind::Padding {
                gap.add(token);
                continue;
            }
            if text.len() > 1 && gap.is_white(token) {
                text.push(' ');
            }
            gap = Gap::default();
            if token.kind.is_quoted() {
                push_quoted(&mut text, token.spelling());
            } else {
                text.push_str(token.spelling());
            }
            let backslash = token.kind == Kind::Other && token.spelling().starts_with('\\');
            backslashes = if backslash { backslashes + 1 } else { 0 };
        }
        let span = tokens.first().map_or(name.span, |first| first.span);
        if backslashes % 2 == 1 {
            let message = "the last backslash is left out, because the string would not end behind it";
            self.report(Diagnostic::warning("bad-string", name.span, message));
            text.pop();
        }
        text.push('"');
        self.counts.strings += 1;
        self.spend(text.len() / 8, name.span);
        PpToken { text: Some(text.into()), line: name.line, ..PpToken::new(Kind::Str, 0, span) }
    }
}
