//! Defines macros (`#define`).

use super::definition::{Macro, MacroDefinition};
use super::preprocessor::Preprocessor;
use super::token::{PpToken, PpTokenKind, Symbol, flag};
use super::va_opt::VaOptTracker;
use crate::diag::Diagnostic;
use crate::span::Span;
use std::rc::Rc;

/// The parameters of a macro.
#[derive(Default)]
struct MacroParams {
    names: Vec<Symbol>,
    is_variadic: bool,
}

/// Error of a definition: span, message and help.
type DefinitionError = (Span, String, &'static str);

impl Preprocessor<'_> {
    /// Defines the macros of the caller and those of cpp.
    pub(super) fn define_from_options(&mut self) {
        let options = self.options;
        let own = [("__STDC_HOSTED__", "1"), ("__ASSEMBLER__", "1")];
        for (name, value) in own {
            self.define_text(&format!("{name} {value}"));
        }
        let hosted = self.names.intern("__STDC_HOSTED__");
        self.names.node_mut(hosted).is_guarded = true;
        for (name, value) in &options.defines {
            self.define_text(&format!("{name} {value}"));
        }
    }

    fn define_text(&mut self, text: &str) {
        self.with_internal(text, Preprocessor::execute_define);
    }

    /// Returns the macro name operand of a directive.
    pub(super) fn macro_name(&mut self, directive: &str, defines: bool) -> Option<PpToken> {
        let token = self.lex_token();
        let message = match token.kind {
            PpTokenKind::Name if defines && token.value == self.names.defined => {
                "`defined` cannot be the name of a macro".to_owned()
            }
            // The poisoned name was already reported.
            PpTokenKind::Name => return (!self.names.node(token.value).is_poisoned).then_some(token),
            PpTokenKind::End => {
                let message = format!("the macro's name is missing after `#{directive}`");
                self.report(Diagnostic::error("bad-directive", self.directive_span, message));
                return None;
            }
            PpTokenKind::Number => format!("the number `{}` cannot be the name of a macro", token.spelling()),
            _ => format!("`{}` cannot be the name of a macro", token.spelling()),
        };
        self.report(Diagnostic::error("bad-directive", token.span, message));
        None
    }

    /// Executes `#define` after the word `define`.
    pub(super) fn execute_define(&mut self) {
        let Some(name) = self.macro_name("define", true) else { return };
        let mut params = MacroParams::default();
        let new = self.read_definition(&name, &mut params);
        for param in &params.names {
            self.names.node_mut(*param).parameter = 0;
        }
        self.state.va_args_ok = false;
        match new {
            Ok(new) => self.enter_definition(&name, new),
            Err((span, message, help)) => {
                let diagnostic = Diagnostic::error("bad-directive", span, message);
                let diagnostic = if help.is_empty() { diagnostic } else { diagnostic.help(help) };
                self.report(diagnostic);
            }
        }
    }

    /// Enters the definition `new` of the macro at `name`. Warns if a different definition exists.
    fn enter_definition(&mut self, name: &PpToken, new: Macro) {
        let node = self.names.node(name.value);
        let differs = match &node.definition {
            MacroDefinition::None => false,
            MacroDefinition::Builtin(_) => true,
            MacroDefinition::User(old) => node.is_guarded || !old.same_as(&new),
        };
        if differs {
            let old_span = self.names.user_macro(name.value).map(|old| old.span);
            let message = format!("`{}` is defined differently", name.spelling());
            let mut diagnostic = Diagnostic::warning("macro-redefined", name.span, message);
            if let Some(span) = old_span.filter(|span| *span != Span::default()) {
                diagnostic = diagnostic.label(span, "the definition before");
            }
            self.report(diagnostic.help(format!("write `#undef {}` first if it is meant", name.spelling())));
        }
        // As in cpp, even an equal definition of these names is reported.
        let is_guarded = name.spelling().starts_with("__STDC_");
        self.names.undefine(name.value);
        let node = self.names.node_mut(name.value);
        node.definition = MacroDefinition::User(Rc::new(new));
        node.is_guarded |= is_guarded;
    }

    /// Reads the parameters, which are appended to `params`, and the body of the macro at `name`.
    fn read_definition(&mut self, name: &PpToken, params: &mut MacroParams) -> Result<Macro, DefinitionError> {
        // `(` directly after the name begins parameters; after a blank it belongs to the body.
        let mut peeked = Some(self.lex_direct());
        let mut is_function_like = false;
        if let Some(first) = peeked.as_ref().filter(|first| !first.is_white()) {
            if first.kind == PpTokenKind::OpenParen {
                self.read_macro_params(params)?;
                is_function_like = true;
                peeked = None;
            } else if first.kind != PpTokenKind::End {
                let message = "white space is missing after the macro's name";
                let diagnostic = Diagnostic::warning("bad-directive", first.span.start(), message);
                self.report(diagnostic.help("put a blank there"));
            }
        }
        let mut new = Macro::object(Vec::new(), name.span);
        new.is_function_like = is_function_like;
        new.is_variadic = params.is_variadic;
        new.params = params.names.clone();
        self.read_macro_body(&mut new, peeked)?;
        Ok(new)
    }

    /// Reads the parameters of a macro after the opening parenthesis. `...` alone is the parameter
    /// `__VA_ARGS__`; `name...` is GCC's form with a name.
    fn read_macro_params(&mut self, params: &mut MacroParams) -> Result<(), DefinitionError> {
        let mut is_after_name = false;
        loop {
            let token = self.lex_token();
            let refused = |message: &str, help| Err((token.span, message.to_owned(), help));
            match token.kind {
                PpTokenKind::Name if !is_after_name && !params.is_variadic => {
                    is_after_name = true;
                    self.add_param(params, token.value, token.span)?;
                }
                PpTokenKind::CloseParen if is_after_name || params.names.is_empty() || params.is_variadic => {
                    return Ok(());
                }
                PpTokenKind::Comma if is_after_name && !params.is_variadic => is_after_name = false,
                PpTokenKind::Ellipsis if !params.is_variadic => {
                    params.is_variadic = true;
                    if !is_after_name {
                        self.add_param(params, self.names.va_args, token.span)?;
                        self.state.va_args_ok = true;
                    }
                }
                _ if params.is_variadic => return refused("nothing but `)` can be after `...`", "add `)`"),
                PpTokenKind::End => return refused("the macro's parameters are not closed", "add `)`"),
                _ if is_after_name => {
                    let message = "the macro's parameters are names with commas between them";
                    return refused(message, "write `,` or `)`");
                }
                _ => return refused("the macro's parameters are names with commas between them", "write a name"),
            }
        }
    }

    fn add_param(&mut self, params: &mut MacroParams, name: Symbol, span: Span) -> Result<(), DefinitionError> {
        let node = self.names.node_mut(name);
        if node.parameter != 0 {
            let message = format!("two parameters are named `{}`", node.text);
            return Err((span, message, "rename one"));
        }
        params.names.push(name);
        node.parameter = params.names.len() as u32;
        Ok(())
    }

    /// Returns a token of a macro body. Names of parameters become [`PpTokenKind::Param`].
    fn read_body_token(&mut self) -> PpToken {
        let mut token = self.lex_direct();
        if token.kind == PpTokenKind::Name {
            let parameter = self.names.node(token.value).parameter;
            if let Some(index) = parameter.checked_sub(1) {
                token.kind = PpTokenKind::Param;
                token.value = index;
            }
        }
        token
    }

    /// Reads the body of the macro `new` up to the end of the line. `#` and `##` become flags of
    /// their operands: `STRINGIFY` of the parameter after `#`, `PASTE_LEFT` of the token before
    /// `##`. `peeked` is the first token, if it is already read.
    fn read_macro_body(&mut self, new: &mut Macro, peeked: Option<PpToken>) -> Result<(), DefinitionError> {
        const EDGE: &str = "`##` cannot be at the edge of a macro";
        const EDGE_HELP: &str = "put a token on both sides of it";
        let mut tracker = VaOptTracker::new(new.is_variadic);
        let mut peeked = peeked;
        let mut after_paste: Option<Span> = None;
        let mut va_opt_span = new.span;
        loop {
            let mut token = peeked.take().unwrap_or_else(|| self.read_body_token());
            token.flags &= !flag::LINE_START;
            let is_va_opt = new.is_variadic && token.kind == PpTokenKind::Name && token.value == self.names.va_opt;
            if is_va_opt {
                va_opt_span = token.span;
            }
            // Other uses of `#` are text, because cpp treats it like that for assembler.
            let can_be_stringified = new.is_function_like && (token.kind == PpTokenKind::Param || is_va_opt);
            let is_after_extra_paste = new.extra_pastes.last().is_some_and(|(at, _)| *at == new.body.len());
            if can_be_stringified
                && !is_after_extra_paste
                && new.body.last().is_some_and(|last| last.kind == PpTokenKind::Hash)
                && let Some(hash) = new.body.pop()
            {
                token.set(flag::INNER_WHITE, token.is_white());
                token.set(flag::WHITE, hash.is_white());
                token.flags |= flag::STRINGIFY;
            }
            if token.kind == PpTokenKind::End {
                if let Some(span) = after_paste {
                    return Err((span, EDGE.to_owned(), EDGE_HELP));
                }
                if !tracker.is_complete() {
                    return Err((va_opt_span, "the `(` of `__VA_OPT__` is never closed".to_owned(), "add `)`"));
                }
                break;
            }
            if let Err(misuse) = tracker.update(&token, self.names.va_opt, |_| true) {
                return Err((token.span, misuse.message().to_owned(), ""));
            }
            if token.kind == PpTokenKind::Paste {
                let Some(last) = new.body.last_mut() else {
                    return Err((token.span, EDGE.to_owned(), EDGE_HELP));
                };
                if after_paste.is_some() {
                    new.extra_pastes.push((new.body.len(), token.flags));
                } else {
                    last.flags |= flag::PASTE_LEFT;
                    last.set(flag::INNER_WHITE, last.has(flag::INNER_WHITE) || token.is_white());
                }
                after_paste = Some(token.span);
                continue;
            }
            after_paste = None;
            if !self.spend_tokens(1, token.span) {
                break;
            }
            new.body.push(token);
        }
        if let Some(first) = new.body.first_mut() {
            first.flags &= !flag::WHITE;
        }
        Ok(())
    }
}
