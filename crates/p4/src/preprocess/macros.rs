//! Macro definitions.

use super::Preprocessor;
use crate::diag::Diagnostic;
use crate::lex::{Scanner, Tok, Token};
use crate::span::Span;
use std::rc::Rc;
use std::sync::Arc;

/// A macro as defined.
#[derive(Debug)]
pub(super) struct Macro {
    /// Parameters of a function-like macro; `None` for an object-like one.
    pub params: Option<Vec<Arc<str>>>,
    /// Whether the last parameter is `...`, named `__VA_ARGS__` in the body.
    pub variadic: bool,
    /// The replacement.
    pub body: Vec<Token>,
    /// Where the name was defined.
    pub span: Span,
}

/// Parameters, whether the last is `...`, and the tokens after the closing parenthesis.
type Params<'t> = (Vec<Arc<str>>, bool, &'t [Token]);

impl Macro {
    /// Which parameter `token` names.
    pub fn param_index(&self, token: &Token) -> Option<usize> {
        if !token.kind.is_keyword() && token.kind != Tok::Ident {
            return None;
        }
        self.params.as_ref()?.iter().position(|p| *p == token.text)
    }

    fn same_as(&self, other: &Macro) -> bool {
        self.params == other.params
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).all(|(a, b)| a.text == b.text)
    }
}

impl Preprocessor<'_> {
    /// Defines the macros that the caller passed.
    pub(super) fn define_from_options(&mut self) {
        let options = self.options;
        // The main file has id 0, so these definitions get no file of the map: nothing points into them.
        for (name, value) in &options.defines {
            let text = format!("{name} {value}");
            let mut scanner = Scanner::new(crate::span::FileId(u32::MAX), text.into());
            let mut tokens = Vec::new();
            loop {
                let token = scanner.next_token(&mut self.interner);
                if token.kind == Tok::Eof {
                    break;
                }
                tokens.push(token);
            }
            self.define(&tokens, Span::default());
        }
    }

    /// `#define` with the rest of its line.
    pub(super) fn define(&mut self, line: &[Token], at: Span) {
        let Some((name, rest)) = line.split_first() else {
            self.report(Diagnostic::error("bad-directive", at, "the macro's name is missing after `#define`"));
            return;
        };
        if name.kind != Tok::Ident && !name.kind.is_keyword() || &*name.text == "defined" {
            let message = format!("{} cannot be the name of a macro", name.describe());
            self.report(Diagnostic::error("bad-directive", name.span, message));
            return;
        }
        // A parenthesis right after the name begins parameters; one after a space begins the body.
        let function_like = rest.first().is_some_and(|t| t.kind == Tok::LParen && !t.spaced);
        let (params, variadic, body) = if function_like {
            match self.macro_params(&rest[1..], name.span) {
                Some((params, variadic, body)) => (Some(params), variadic, body),
                None => return,
            }
        } else {
            (None, false, rest)
        };
        if let Some(edge) = [body.first(), body.last()].into_iter().flatten().find(|t| t.kind == Tok::HashHash) {
            let message = "`##` cannot be at the edge of a macro";
            self.report(Diagnostic::error("bad-directive", edge.span, message).help("put a token on both sides of it"));
            return;
        }
        let new = Macro { params, variadic, body: body.to_vec(), span: name.span };
        if let Some(old) = self.macros.get(&name.text).filter(|old| !old.same_as(&new)) {
            let diagnostic =
                Diagnostic::warning("macro-redefined", name.span, format!("`{}` is defined differently", name.text))
                    .label(old.span, "the definition before")
                    .help(format!("write `#undef {}` first if it is meant", name.text));
            self.report(diagnostic);
        }
        self.macros.insert(name.text.clone(), Rc::new(new));
    }

    /// Parameters after the opening parenthesis, and what is left for the body.
    fn macro_params<'t>(&mut self, line: &'t [Token], name: Span) -> Option<Params<'t>> {
        let mut params: Vec<Arc<str>> = Vec::new();
        let mut at = 0;
        if line.first().is_some_and(|t| t.kind == Tok::RParen) {
            return Some((params, false, &line[1..]));
        }
        loop {
            let variadic = match line.get(at) {
                Some(t) if t.kind == Tok::Dots => true,
                Some(t) if t.kind == Tok::Ident || t.kind.is_keyword() => false,
                other => {
                    let span = other.map_or(name, |t| t.span);
                    let message = "the macro's parameters are names with commas between them";
                    self.report(Diagnostic::error("bad-directive", span, message));
                    return None;
                }
            };
            params.push(if variadic { "__VA_ARGS__".into() } else { line[at].text.clone() });
            match line.get(at + 1).map(|t| t.kind) {
                Some(Tok::RParen) => return Some((params, variadic, &line[at + 2..])),
                Some(Tok::Comma) if !variadic => at += 2,
                _ => {
                    let span = line[at].span.end();
                    let message = "the macro's parameters are not closed";
                    self.report(Diagnostic::error("bad-directive", span, message).help("add `)`"));
                    return None;
                }
            }
        }
    }
}
