//! Directives.

use super::buffer::Buffer;
use super::constant::Code;
use super::definition::Definition;
use super::preprocessor::{Arguments, InDirective, Preprocessor};
use super::token::{Kind, PpToken, Symbol, flag};
use crate::diag::Diagnostic;
use std::rc::Rc;

/// The directives that cpp knows. Every other `#` is text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Directive {
    Define,
    Include,
    IncludeNext,
    Import,
    If,
    Ifdef,
    Ifndef,
    Elif,
    Elifdef,
    Elifndef,
    Else,
    Endif,
    Undef,
    Line,
    Error,
    Warning,
    Pragma,
    Ident,
    Assert,
    Unassert,
}

impl Directive {
    fn of(name: &str) -> Option<Directive> {
        Some(match name {
            "define" => Directive::Define,
            "include" => Directive::Include,
            "include_next" => Directive::IncludeNext,
            "import" => Directive::Import,
            "if" => Directive::If,
            "ifdef" => Directive::Ifdef,
            "ifndef" => Directive::Ifndef,
            "elif" => Directive::Elif,
            "elifdef" => Directive::Elifdef,
            "elifndef" => Directive::Elifndef,
            "else" => Directive::Else,
            "endif" => Directive::Endif,
            "undef" => Directive::Undef,
            "line" => Directive::Line,
            "error" => Directive::Error,
            "warning" => Directive::Warning,
            "pragma" => Directive::Pragma,
            "ident" | "sccs" => Directive::Ident,
            "assert" => Directive::Assert,
            "unassert" => Directive::Unassert,
            _ => return None,
        })
    }

    fn is_conditional(self) -> bool {
        use Directive::*;
        matches!(self, If | Ifdef | Ifndef | Elif | Elifdef | Elifndef | Else | Endif)
    }

    fn includes(self) -> bool {
        matches!(self, Directive::Include | Directive::IncludeNext | Directive::Import)
    }
}

impl Preprocessor<'_> {
    /// Executes the directive that `hash` begins; false if it begins none and is text.
    pub(super) fn handle_directive(&mut self, hash: &PpToken) -> bool {
        let arguments = std::mem::replace(&mut self.state.arguments, Arguments::None);
        if arguments != Arguments::None {
            self.state.prevent_expansion = 0;
        }
        self.state.directive = InDirective::Other;
        self.directive_span = hash.span;
        let name = self.lex_token();
        let mut is_text = false;
        let mut directive = None;
        if name.kind == Kind::Name {
            directive = Directive::of(name.spelling());
            is_text = directive.is_none();
        } else if name.kind != Kind::End {
            is_text = true;
        }
        if let Some(known) = directive {
            self.directive_span = hash.span.to(name.span);
            self.state.angled_headers = known.includes();
            self.state.directive_wants_padding = known.includes();
            self.warn_deprecated(known, name.spelling());
            if !self.state.skipping || known.is_conditional() {
                self.execute(known, &name);
            }
        }
        if is_text {
            self.put_back(name);
        } else {
            self.skip_rest_of_line();
        }
        self.state.directive = InDirective::No;
        self.state.angled_headers = false;
        if arguments != Arguments::None {
            self.state.arguments = Arguments::Collected;
            self.state.prevent_expansion = 1;
        }
        !is_text
    }

    fn warn_deprecated(&mut self, directive: Directive, name: &str) {
        let deprecated = matches!(directive, Directive::Import | Directive::Assert | Directive::Unassert);
        if deprecated && !self.state.skipping {
            let message = format!("`#{name}` is deprecated");
            self.report(Diagnostic::warning("deprecated", self.directive_span, message));
        }
    }

    fn execute(&mut self, directive: Directive, name: &PpToken) {
        match directive {
            Directive::Define => self.define(),
            Directive::Undef => self.undef(),
            Directive::Include | Directive::IncludeNext | Directive::Import => self.include(directive),
            Directive::If => self.begin_if(),
            Directive::Ifdef => self.begin_ifdef("ifdef", true),
            Directive::Ifndef => self.begin_ifdef("ifndef", false),
            Directive::Elif | Directive::Elifdef | Directive::Elifndef => self.elif(directive, name.spelling()),
            Directive::Else => self.otherwise(),
            Directive::Endif => self.endif(),
            Directive::Line => self.line_directive(),
            Directive::Error => {
                let message = self.message_text();
                self.report(Diagnostic::error("error-directive", self.directive_span, message));
            }
            Directive::Warning => {
                let message = self.message_text();
                self.report(Diagnostic::warning("warning-directive", self.directive_span, message));
            }
            Directive::Pragma => self.pragma(),
            Directive::Ident => self.ident(name),
            Directive::Assert => self.assert(),
            Directive::Unassert => self.unassert(),
        }
    }

    /// Drops what a directive has not read.
    pub(super) fn skip_rest_of_line(&mut self) {
        while !self.contexts.is_empty() {
            self.pop_context();
        }
        while !self.seen_end && !self.stopped {
            self.lex_token();
        }
    }

    /// Warns of tokens behind a directive that is complete; with `expand`, macros that are nothing
    /// are no tokens.
    pub(super) fn check_end(&mut self, name: &str, expand: bool) {
        if self.seen_end {
            return;
        }
        let token = if expand { self.get_token() } else { self.lex_token() };
        if token.kind != Kind::End {
            let message = format!("what follows `#{name}` does not belong to it and is ignored");
            self.report(Diagnostic::warning("extra-tokens", token.span, message));
        }
    }

    fn undef(&mut self) {
        if let Some(name) = self.macro_name("undef", true) {
            let node = self.names.node(name.value);
            let builtin = matches!(node.definition, Definition::Builtin(_));
            if self.names.is_defined(name.value) && (builtin || node.guarded) {
                let message = format!("`{}`, which the preprocessor has itself, is undefined", name.spelling());
                self.report(Diagnostic::warning("undefined-builtin", name.span, message));
            }
            self.names.undefine(name.value);
        }
        self.check_end("undef", false);
    }

    /// The rest of the line with single blanks.
    fn message_text(&mut self) -> String {
        self.state.prevent_expansion += 1;
        let mut text = String::new();
        loop {
            let token = self.get_token();
            if token.kind == Kind::End {
                break;
            }
            if token.is_white() && !text.is_empty() {
                text.push(' ');
            }
            text.push_str(token.spelling());
        }
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
        if text.is_empty() { "(no message)".to_owned() } else { text }
    }

    /// `#line 12` or `#line 12 "file"`: the next line is line 12.
    fn line_directive(&mut self) {
        let token = self.get_token();
        let digits = token.spelling();
        let is_number = token.kind == Kind::Number && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            let help = "write `#line 12` or `#line 12 \"file\"`";
            let diagnostic = Diagnostic::error("bad-directive", self.directive_span, "`#line` needs a line number");
            self.report(diagnostic.help(help));
            return;
        }
        let mut number = 0u32;
        let mut wrapped = false;
        for digit in digits.bytes() {
            let next = u64::from(number) * 10 + u64::from(digit - b'0');
            wrapped |= next > u64::from(u32::MAX);
            number = next as u32;
        }
        if wrapped {
            let message = "the line number has more than 32 bits, of which the lower ones count";
            self.report(Diagnostic::warning("bad-directive", token.span, message));
        }
        let token = self.get_token();
        let mut name = None;
        match token.kind {
            Kind::Str => {
                name = self.file_name_of(&token);
                self.check_end("line", true);
            }
            Kind::End => {}
            _ => {
                let message = format!("`{}` is no file name", token.spelling());
                let diagnostic = Diagnostic::error("bad-directive", token.span, message);
                self.report(diagnostic.help("write it in quotes"));
                return;
            }
        }
        self.skip_rest_of_line();
        if let Some(name) = &name {
            self.buffer.name = name.as_str().into();
        }
        self.buffer.line = number;
        let next_line = self.buffer.next_line.min(self.buffer.limit) as u32;
        let file = self.buffer.file;
        self.map.renumber(file, next_line, number, name.map(Into::into));
        self.mark_file("");
    }

    /// The text of a string with its escapes carried out; they are reported.
    fn file_name_of(&mut self, token: &PpToken) -> Option<String> {
        let mut bytes = Vec::new();
        let text = token.spelling();
        let inner = text.get(1..text.len() - 1).unwrap_or("");
        let mut rest = inner.as_bytes();
        while !rest.is_empty() {
            let (code, len) = self.character(rest, 8, token.span);
            match code {
                Code::Byte(byte) => bytes.push(byte as u8),
                Code::Character(_) => bytes.extend_from_slice(&rest[..len]),
                Code::Universal(code) => {
                    let character = char::from_u32(code).unwrap_or('\u{fffd}');
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            rest = &rest[len..];
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// `#ident "text"`, which assembler's preprocessor leaves out.
    fn ident(&mut self, name: &PpToken) {
        let token = self.get_token();
        if token.kind != Kind::Str {
            let message = format!("`#{}` needs a string", name.spelling());
            self.report(Diagnostic::error("bad-directive", self.directive_span, message));
        }
        self.check_end(name.spelling(), false);
    }

    /// `predicate(answer)` of an assertion; the answer may be missing in `#unassert` and `#if`.
    pub(super) fn assertion(&mut self, needs_answer: bool) -> Option<(Symbol, Option<Vec<PpToken>>)> {
        self.state.prevent_expansion += 1;
        let found = self.assertion_inner(needs_answer);
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
        found
    }

    fn assertion_inner(&mut self, needs_answer: bool) -> Option<(Symbol, Option<Vec<PpToken>>)> {
        let predicate = self.get_token();
        if predicate.kind != Kind::Name {
            let message = "an assertion needs a name";
            self.report(Diagnostic::error("bad-directive", predicate.span, message));
            return None;
        }
        let open = self.get_token();
        if open.kind != Kind::OpenParen {
            let in_condition = self.state.directive == InDirective::Condition;
            if !needs_answer && (open.kind == Kind::End || in_condition) {
                if open.kind != Kind::End {
                    self.back_up(open);
                }
                return Some((predicate.value, None));
            }
            self.report(Diagnostic::error("bad-directive", open.span, "`(` is missing behind the assertion's name"));
            return None;
        }
        let mut answer: Vec<PpToken> = Vec::new();
        loop {
            let mut token = self.get_token();
            match token.kind {
                Kind::CloseParen => break,
                Kind::End => {
                    let message = "the `)` of the assertion is missing";
                    self.report(Diagnostic::error("bad-directive", token.span, message));
                    return None;
                }
                _ => {
                    if answer.is_empty() {
                        token.set(flag::WHITE, false);
                    }
                    answer.push(token);
                }
            }
        }
        if answer.is_empty() {
            let message = "the assertion's answer is empty";
            self.report(Diagnostic::error("bad-directive", predicate.span, message));
            return None;
        }
        Some((predicate.value, Some(answer)))
    }

    fn assert(&mut self) {
        let Some((predicate, Some(answer))) = self.assertion(true) else { return };
        if self.has_answer(predicate, Some(&answer)) {
            let message = format!("`{}` is asserted twice", self.names.node(predicate).text);
            self.report(Diagnostic::warning("bad-directive", self.directive_span, message));
            return;
        }
        self.names.node_mut(predicate).answers.push(answer);
        self.check_end("assert", false);
    }

    fn unassert(&mut self) {
        let Some((predicate, answer)) = self.assertion(false) else { return };
        match answer {
            None => self.names.node_mut(predicate).answers.clear(),
            Some(answer) => {
                let answers = &mut self.names.node_mut(predicate).answers;
                answers.retain(|known| !same_tokens(known, &answer));
                self.check_end("unassert", false);
            }
        }
    }

    /// Whether the assertion was made; without an answer, whether any was.
    pub(super) fn has_answer(&self, predicate: Symbol, answer: Option<&[PpToken]>) -> bool {
        let answers = &self.names.node(predicate).answers;
        match answer {
            None => !answers.is_empty(),
            Some(answer) => answers.iter().any(|known| same_tokens(known, answer)),
        }
    }

    /// Runs `read` over a line that is in no file.
    pub(super) fn with_internal(&mut self, text: &str, read: impl FnOnce(&mut Self)) {
        let name: Rc<str> = self.buffer.name.clone();
        let internal = Buffer::internal(text, name, self.buffer.line);
        let outer = std::mem::replace(&mut self.buffer, internal);
        let state = self.state.directive;
        let contexts = std::mem::take(&mut self.contexts);
        let put_back = std::mem::take(&mut self.put_back);
        self.state.directive = InDirective::Other;
        self.seen_end = false;
        read(self);
        self.skip_rest_of_line();
        self.state.directive = state;
        self.contexts = contexts;
        self.put_back = put_back;
        self.buffer = outer;
    }
}

fn same_tokens(a: &[PpToken], b: &[PpToken]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_as(b))
}
