//! Macro definitions.

use super::definition::{Definition, Macro};
use super::preprocessor::Preprocessor;
use super::token::{Kind, PpToken, Symbol, flag};
use super::va_opt::Tracker;
use crate::diag::Diagnostic;
use crate::span::Span;
use std::rc::Rc;

/// The parameters of a macro.
#[derive(Default)]
struct Params {
    names: Vec<Symbol>,
    variadic: bool,
}

/// Why a definition is none; the place, the message and the mend.
type Refused = (Span, String, &'static str);

impl Preprocessor<'_> {
    /// Defines the macros that the caller passed, and those that cpp has.
    pub(super) fn define_from_options(&mut self) {
        let options = self.options;
        let own = [("__STDC_HOSTED__", "1"), ("__ASSEMBLER__", "1")];
        for (name, value) in own {
            self.define_text(&format!("{name} {value}"));
        }
        let hosted = self.names.intern("__STDC_HOSTED__");
        self.names.node_mut(hosted).guarded = true;
        for (name, value) in &options.defines {
            self.define_text(&format!("{name} {value}"));
        }
    }

    fn define_text(&mut self, text: &str) {
        self.with_internal(text, Preprocessor::define);
    }

    /// The name of a macro that a directive is about.
    pub(super) fn macro_name(&mut self, directive: &str, defines: bool) -> Option<PpToken> {
        let token = self.lex_token();
        let message = match token.kind {
            Kind::Name if defines && token.value == self.names.defined => {
                "`defined` cannot be the name of a macro".to_owned()
            }
            // A poisoned name has been reported.
            Kind::Name => return (!self.names.node(token.value).poisoned).then_some(token),
            Kind::End => {
                let message = format!("the macro's name is missing after `#{directive}`");
                self.report(Diagnostic::error("bad-directive", self.directive_span, message));
                return None;
            }
            Kind::Number => format!("the number `{}` cannot be the name of a macro", token.spelling()),
            _ => format!("`{}` cannot be the name of a macro", token.spelling()),
        };
        self.report(Diagnostic::error("bad-directive", token.span, message));
        None
    }

    /// `#define`, of which the word has been read.
    pub(super) fn define(&mut self) {
        let Some(name) = self.macro_name("define", true) else { return };
        let mut params = Params::default();
        let new = self.definition(&name, &mut params);
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

    fn enter_definition(&mut self, name: &PpToken, new: Macro) {
        let node = self.names.node(name.value);
        let differs = match &node.definition {
            Definition::None => false,
            Definition::Builtin(_) => true,
            Definition::User(old) => node.guarded || !old.same_as(&new),
        };
        if differs {
            let label = self.names.user_macro(name.value).map(|old| old.span);
            let message = format!("`{}` is defined differently", name.spelling());
            let mut diagnostic = Diagnostic::warning("macro-redefined", name.span, message);
            if let Some(span) = label.filter(|span| *span != Span::default()) {
                diagnostic = diagnostic.label(span, "the definition before");
            }
            self.report(diagnostic.help(format!("write `#undef {}` first if it is meant", name.spelling())));
        }
        let guarded = name.spelling().starts_with("__STDC_");
        self.names.undefine(name.value);
        let node = self.names.node_mut(name.value);
        node.definition = Definition::User(Rc::new(new));
        node.guarded |= guarded;
    }

    /// Parameters and body.
    fn definition(&mut self, name: &PpToken, params: &mut Params) -> Result<Macro, Refused> {
        let mut peeked = Some(self.lex_direct());
        let mut function_like = false;
        if let Some(first) = peeked.as_ref().filter(|first| !first.is_white()) {
            if first.kind == Kind::OpenParen {
                self.macro_params(params)?;
                function_like = true;
                peeked = None;
            } else if first.kind != Kind::End {
                let message = "white space is missing behind the macro's name";
                let diagnostic = Diagnostic::warning("bad-directive", first.span.start(), message);
                self.report(diagnostic.help("put a blank there"));
            }
        }
        let mut new = Macro::object(Vec::new(), name.span);
        new.function_like = function_like;
        new.variadic = params.variadic;
        new.params = params.names.clone();
        self.macro_body(&mut new, peeked)?;
        Ok(new)
    }

    /// The parameters behind the opening parenthesis.
    fn macro_params(&mut self, params: &mut Params) -> Result<(), Refused> {
        let mut after_name = false;
        loop {
            let token = self.lex_token();
            let refused = |message: &str, help| Err((token.span, message.to_owned(), help));
            match token.kind {
                Kind::Name if !after_name && !params.variadic => {
                    after_name = true;
                    self.add_param(params, token.value, token.span)?;
                }
                Kind::CloseParen if after_name || params.names.is_empty() || params.variadic => return Ok(()),
                Kind::Comma if after_name && !params.variadic => after_name = false,
                Kind::Ellipsis if !params.variadic => {
                    params.variadic = true;
                    if !after_name {
                        self.add_param(params, self.names.va_args, token.span)?;
                        self.state.va_args_ok = true;
                    }
                }
                _ if params.variadic => return refused("nothing but `)` can be after `...`", "add `)`"),
                Kind::End => return refused("the macro's parameters are not closed", "add `)`"),
                _ if after_name => {
                    let message = "the macro's parameters are names with commas between them";
                    return refused(message, "write `,` or `)`");
                }
                _ => return refused("the macro's parameters are names with commas between them", "write a name"),
            }
        }
    }

    fn add_param(&mut self, params: &mut Params, name: Symbol, span: Span) -> Result<(), Refused> {
        let node = self.names.node_mut(name);
        if node.parameter != 0 {
            let message = format!("two parameters are called `{}`", node.text);
            return Err((span, message, "rename one"));
        }
        params.names.push(name);
        node.parameter = params.names.len() as u32;
        Ok(())
    }

    /// A token of a macro's body; parameters are marked.
    fn body_token(&mut self) -> PpToken {
        let mut token = self.lex_direct();
        if token.kind == Kind::Name {
            let parameter = self.names.node(token.value).parameter;
            if let Some(index) = parameter.checked_sub(1) {
                token.kind = Kind::Param;
                token.value = index;
            }
        }
        token
    }

    fn macro_body(&mut self, new: &mut Macro, peeked: Option<PpToken>) -> Result<(), Refused> {
        const EDGE: &str = "`##` cannot be at the edge of a macro";
        const EDGE_HELP: &str = "put a token on both sides of it";
        let mut tracker = Tracker::new(new.variadic);
        let mut peeked = peeked;
        let mut after_paste: Option<Span> = None;
        let mut last_va_opt = new.span;
        loop {
            let mut token = peeked.take().unwrap_or_else(|| self.body_token());
            token.flags &= !flag::LINE_START;
            let is_va_opt = new.variadic && token.kind == Kind::Name && token.value == self.names.va_opt;
            if is_va_opt {
                last_va_opt = token.span;
            }
            // `#` before anything else stays what it is, as it does for assembler.
            let stringified = new.function_like && (token.kind == Kind::Param || is_va_opt);
            let behind_extra = new.extra_pastes.last().is_some_and(|(at, _)| *at == new.body.len());
            if stringified
                && !behind_extra
                && new.body.last().is_some_and(|last| last.kind == Kind::Hash)
                && let Some(hash) = new.body.pop()
            {
                token.set(flag::INNER_WHITE, token.is_white());
                token.set(flag::WHITE, hash.is_white());
                token.flags |= flag::STRINGIFY;
            }
            if token.kind == Kind::End {
                if let Some(span) = after_paste {
                    return Err((span, EDGE.to_owned(), EDGE_HELP));
                }
                if !tracker.is_complete() {
                    return Err((last_va_opt, "the `(` of `__VA_OPT__` is never closed".to_owned(), "add `)`"));
                }
                break;
            }
            if let Err(misuse) = tracker.update(&token, self.names.va_opt, |_| true) {
                return Err((token.span, misuse.message().to_owned(), ""));
            }
            if token.kind == Kind::Paste {
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
            if !self.spend(1, token.span) {
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
