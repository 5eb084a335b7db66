//! Macro expansion.
//!
//! Prosser's algorithm, which the C standard's wording comes from: each token carries the names of the macros it came
//! out of, its *hide set*, and is not expanded by them again. So recursion ends, whatever the definitions.

use super::macros::Macro;
use super::{OpenFile, Preprocessor, is_builtin};
use crate::diag::Diagnostic;
use crate::lex::{Scanner, Tok, Token, spell};
use crate::span::{FileId, Span};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// The macros that a token came out of.
type HideSet = Option<Rc<Hidden>>;

#[derive(Debug)]
struct Hidden {
    name: Arc<str>,
    rest: HideSet,
    /// Number of names in the set.
    len: usize,
}

/// The set with one more name.
fn hide(name: &Arc<str>, rest: HideSet) -> HideSet {
    let len = 1 + rest.as_ref().map_or(0, |hidden| hidden.len);
    Some(Rc::new(Hidden { name: name.clone(), rest, len }))
}

/// Macros that lead to each other in a row. Real programs have a handful; the bound keeps sets short.
const MAX_CHAIN: usize = 256;

fn hides(mut set: &HideSet, name: &str) -> bool {
    while let Some(hidden) = set {
        if *hidden.name == *name {
            return true;
        }
        set = &hidden.rest;
    }
    false
}

/// A token with its hide set.
#[derive(Clone, Debug)]
struct Marked {
    token: Token,
    hidden: HideSet,
}

/// Where tokens are drawn from: what expansion put back, and then the file, if there is one.
pub(super) struct Source<'f> {
    pending: VecDeque<Marked>,
    file: Option<&'f mut OpenFile>,
}

impl<'f> Source<'f> {
    /// `first`, and what follows it in the file.
    pub fn of_file(first: Token, file: &'f mut OpenFile) -> Self {
        Source { pending: VecDeque::from([Marked { token: first, hidden: None }]), file: Some(file) }
    }

    /// A closed run of tokens: a directive's line, an argument.
    pub fn of_tokens(tokens: Vec<Token>) -> Self {
        Source { pending: tokens.into_iter().map(|token| Marked { token, hidden: None }).collect(), file: None }
    }

    fn of_marked(tokens: Vec<Marked>) -> Self {
        Source { pending: tokens.into(), file: None }
    }

    /// Whether all that expansion put back has been drawn.
    pub fn is_drained(&self) -> bool {
        self.pending.is_empty()
    }
}

impl Preprocessor<'_> {
    /// All tokens of `tokens`, expanded.
    pub(super) fn expand_all(&mut self, tokens: Vec<Token>) -> Vec<Token> {
        let mut source = Source::of_tokens(tokens);
        let mut out = Vec::new();
        while let Some(token) = self.next_expanded(&mut source) {
            out.push(token);
        }
        out
    }

    /// The next token that needs no more expansion. `None` when the pending tokens are used up.
    pub(super) fn next_expanded(&mut self, source: &mut Source<'_>) -> Option<Token> {
        self.next_marked(source).map(|marked| marked.token)
    }

    fn next_marked(&mut self, source: &mut Source<'_>) -> Option<Marked> {
        while !self.stopped {
            let marked = source.pending.pop_front()?;
            if marked.token.kind != Tok::Ident && !marked.token.kind.is_keyword() {
                return Some(marked);
            }
            if is_builtin(&marked.token.text) {
                return Some(Marked { token: self.builtin(&marked.token), hidden: None });
            }
            let Some(definition) = self.macros.get(&marked.token.text).cloned() else { return Some(marked) };
            if hides(&marked.hidden, &marked.token.text) {
                return Some(marked);
            }
            if marked.hidden.as_ref().is_some_and(|hidden| hidden.len >= MAX_CHAIN) {
                let message = format!("more than {MAX_CHAIN} macros lead to each other");
                self.report(Diagnostic::error("limit", marked.token.span, message));
                self.stopped = true;
                return None;
            }
            if definition.params.is_none() {
                let hidden = hide(&marked.token.text, marked.hidden.clone());
                self.substitute(&definition, &[], &marked.token, &hidden, source);
            } else if self.opens_arguments(source) {
                self.call(&definition, marked, source);
            } else {
                return Some(marked);
            }
        }
        None
    }

    /// `__FILE__` and `__LINE__` at `token`.
    fn builtin(&mut self, token: &Token) -> Token {
        let location = self.map.location(token.span);
        let (kind, text) = match (&*token.text, location) {
            ("__LINE__", Some(at)) => (Tok::Int, at.line.to_string()),
            (_, Some(at)) => (Tok::Str, quote(&at.file)),
            (_, None) => (Tok::Int, "0".to_owned()),
        };
        Token { kind, text: self.interner.intern(&text), ..token.clone() }
    }

    /// Whether the next token is the parenthesis that makes the name before it a call.
    fn opens_arguments(&mut self, source: &mut Source<'_>) -> bool {
        match (source.pending.front(), &mut source.file) {
            (Some(marked), _) => marked.token.kind == Tok::LParen,
            (None, Some(file)) => file.peek(&mut self.interner).kind == Tok::LParen,
            (None, None) => false,
        }
    }

    /// Draws a raw token of the argument list. The end of the file, or a directive in the list, ends it.
    fn draw(&mut self, source: &mut Source<'_>) -> Option<Marked> {
        if let Some(marked) = source.pending.pop_front() {
            return Some(marked);
        }
        let file = source.file.as_deref_mut()?;
        let next = file.peek(&mut self.interner);
        if next.kind == Tok::Eof || (next.kind == Tok::Hash && next.line_start) {
            return None;
        }
        Some(Marked { token: file.next_token(&mut self.interner), hidden: None })
    }

    /// Expands a call of a function-like macro, whose name is `name` and whose parenthesis is next.
    fn call(&mut self, definition: &Macro, name: Marked, source: &mut Source<'_>) {
        let Some((args, close)) = self.arguments(definition, &name.token, source) else { return };
        let params = definition.params.as_ref().map_or(0, Vec::len);
        let enough = args.len() == params || (definition.variadic && args.len() + 1 == params);
        if !enough {
            let message = format!("macro `{}` takes {params} arguments, not {}", name.token.text, args.len());
            self.report(
                Diagnostic::error("macro-arguments", name.token.span, message).label(definition.span, "defined here"),
            );
            return;
        }
        if self.macro_depth >= self.options.limits.macro_depth {
            let limit = self.options.limits.macro_depth;
            let message = format!("macro calls nest deeper than {limit}");
            self.report(Diagnostic::error("limit", name.token.span, message));
            self.stopped = true;
            return;
        }
        let hidden = intersection(&name.hidden, &close);
        let hidden = hide(&name.token.text, hidden);
        self.macro_depth += 1;
        self.substitute(definition, &args, &name.token, &hidden, source);
        self.macro_depth -= 1;
    }

    /// The arguments of a call, and the hide set of the closing parenthesis.
    fn arguments(
        &mut self,
        definition: &Macro,
        name: &Token,
        source: &mut Source<'_>,
    ) -> Option<(Vec<Vec<Marked>>, HideSet)> {
        self.draw(source)?;
        let params = definition.params.as_ref().map_or(0, Vec::len);
        let mut args: Vec<Vec<Marked>> = vec![Vec::new()];
        let mut depth = 0usize;
        loop {
            let Some(mut marked) = self.draw(source) else {
                let message = format!("the arguments of macro `{}` are never closed", name.text);
                self.report(Diagnostic::error("macro-arguments", name.span, message).help("add `)`"));
                return None;
            };
            if !self.spend(1, name.span) {
                return None;
            }
            let open_ended = definition.variadic && args.len() == params;
            match marked.token.kind {
                Tok::RParen if depth == 0 => {
                    if params == 0 && args.len() == 1 && args[0].is_empty() {
                        args.clear();
                    }
                    return Some((args, marked.hidden));
                }
                Tok::Comma if depth == 0 && !open_ended => {
                    args.push(Vec::new());
                    continue;
                }
                Tok::LParen => depth += 1,
                Tok::RParen => depth -= 1,
                _ => {}
            }
            marked.token.spaced |= std::mem::take(&mut marked.token.line_start);
            if let Some(arg) = args.last_mut() {
                arg.push(marked);
            }
        }
    }

    /// Puts the body with its parameters replaced in front of what is pending.
    fn substitute(
        &mut self,
        definition: &Macro,
        args: &[Vec<Marked>],
        name: &Token,
        hidden: &HideSet,
        source: &mut Source<'_>,
    ) {
        let mut out: Vec<Marked> = Vec::new();
        let mut expanded: Vec<Option<Vec<Marked>>> = vec![None; args.len()];
        let body = &definition.body;
        let mut at = 0;
        while at < body.len() && !self.stopped {
            let token = &body[at];
            let pasted = at > 0 && body[at - 1].kind == Tok::HashHash;
            let before_paste = body.get(at + 1).is_some_and(|next| next.kind == Tok::HashHash);
            let next_param = || body.get(at + 1).and_then(|next| definition.param_index(next));
            let mut piece = if token.kind == Tok::Hash
                && let Some(param) = next_param()
            {
                at += 1;
                vec![self.stringify(args.get(param).map_or(&[], Vec::as_slice), token)]
            } else if let Some(param) = definition.param_index(token) {
                let raw = args.get(param).map_or(&[][..], Vec::as_slice);
                if pasted || before_paste {
                    if raw.is_empty() { vec![placemarker(name)] } else { raw.to_vec() }
                } else {
                    self.expanded_argument(param, raw, &mut expanded)
                }
            } else {
                vec![Marked { token: self.at_use(token, name), hidden: None }]
            };
            if !self.spend(piece.len() + 1, name.span) {
                return;
            }
            if let Some(first) = piece.first_mut() {
                first.token.spaced = token.spaced;
            }
            if pasted {
                self.paste(&mut out, piece, name);
            } else {
                out.append(&mut piece);
            }
            at += if body.get(at + 1).is_some_and(|next| next.kind == Tok::HashHash) { 2 } else { 1 };
        }
        self.put_back(out, name, hidden, source);
    }

    fn expanded_argument(&mut self, param: usize, raw: &[Marked], expanded: &mut [Option<Vec<Marked>>]) -> Vec<Marked> {
        if let Some(Some(done)) = expanded.get(param) {
            return done.clone();
        }
        let mut source = Source::of_marked(raw.to_vec());
        let mut out = Vec::new();
        while let Some(marked) = self.next_marked(&mut source) {
            out.push(marked);
        }
        if let Some(slot) = expanded.get_mut(param) {
            *slot = Some(out.clone());
        }
        out
    }

    fn put_back(&mut self, mut out: Vec<Marked>, name: &Token, hidden: &HideSet, source: &mut Source<'_>) {
        out.retain(|marked| !marked.token.text.is_empty());
        if let Some(first) = out.first_mut() {
            first.token.spaced = name.spaced;
            first.token.line_start = name.line_start;
        }
        for mut marked in out.into_iter().rev() {
            marked.hidden = union(marked.hidden, hidden);
            source.pending.push_front(marked);
        }
    }

    /// A token of a macro's body, placed where the macro is used.
    fn at_use(&self, token: &Token, name: &Token) -> Token {
        Token { span: name.span, line_start: false, ..token.clone() }
    }

    /// `#param`: the argument's spelling as a string.
    fn stringify(&mut self, arg: &[Marked], hash: &Token) -> Marked {
        let tokens: Vec<Token> = arg.iter().map(|marked| marked.token.clone()).collect();
        let text = self.interner.intern(&quote(&spell(&tokens)));
        let span = tokens.first().map_or(hash.span, |first| first.span);
        let token = Token { kind: Tok::Str, text, span, spaced: hash.spaced, line_start: false };
        Marked { token, hidden: None }
    }

    /// Glues the first token of `piece` to the last of `out` and reads the result anew.
    fn paste(&mut self, out: &mut Vec<Marked>, piece: Vec<Marked>, name: &Token) {
        let mut piece = piece.into_iter();
        let Some(right) = piece.next() else { return };
        let Some(left) = out.pop() else {
            out.push(right);
            out.extend(piece);
            return;
        };
        let text = format!("{}{}", left.token.text, right.token.text);
        let mut scanner = Scanner::new(FileId(u32::MAX), text.clone().into());
        let glued = scanner.next_token(&mut self.interner);
        if glued.text.len() == text.len() && glued.kind != Tok::Unterminated {
            let token = Token { span: name.span, spaced: left.token.spaced, line_start: false, ..glued };
            out.push(Marked { token, hidden: None });
        } else {
            let message = format!("`{}` and `{}` do not make one token", left.token.text, right.token.text);
            self.report(Diagnostic::error("bad-paste", name.span, message).help("remove `##` between them"));
            out.push(left);
            out.push(right);
        }
        out.extend(piece);
    }
}

/// Stands for an empty argument next to `##`, so that the paste does not reach past it.
fn placemarker(name: &Token) -> Marked {
    let token = Token { kind: Tok::Eof, text: "".into(), span: name.span, spaced: false, line_start: false };
    Marked { token, hidden: None }
}

fn union(set: HideSet, more: &HideSet) -> HideSet {
    if set.is_none() {
        return more.clone();
    }
    let mut out = set;
    let mut next = more;
    while let Some(hidden) = next {
        if !hides(&out, &hidden.name) {
            out = hide(&hidden.name, out);
        }
        next = &hidden.rest;
    }
    out
}

fn intersection(a: &HideSet, b: &HideSet) -> HideSet {
    let mut out = None;
    let mut next = a;
    while let Some(hidden) = next {
        if hides(b, &hidden.name) {
            out = hide(&hidden.name, out);
        }
        next = &hidden.rest;
    }
    out
}

/// The text as a string literal.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The span of a run of tokens.
pub(super) fn span_of(tokens: &[Token], otherwise: Span) -> Span {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => first.span.to(last.span),
        _ => otherwise,
    }
}
