//! Executes directives.

use super::buffer::LineBuffer;
use super::constant::ConstantChar;
use super::definition::MacroDefinition;
use super::preprocessor::{ArgumentProgress, DirectiveContext, Preprocessor};
use super::token::{PpToken, PpTokenKind, Symbol, flag};
use crate::diag::Diagnostic;
use std::rc::Rc;

/// The directives that cpp knows. Any other `#` is text.
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
    /// Returns the directive of that name; `None` if cpp knows no such directive.
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
    /// Executes the directive that begins with `hash`. Returns false if the line is text, because
    /// no known directive follows the `#`. A directive within the arguments of a macro call
    /// interrupts their collection, which continues after it.
    pub(super) fn handle_directive(&mut self, hash: &PpToken) -> bool {
        let arguments_before = std::mem::replace(&mut self.state.arguments, ArgumentProgress::None);
        if arguments_before != ArgumentProgress::None {
            self.state.prevent_expansion = 0;
        }
        self.state.directive = DirectiveContext::Other;
        self.directive_span = hash.span;
        let name = self.lex_token();
        let mut is_text = false;
        let mut directive = None;
        if name.kind == PpTokenKind::Name {
            directive = Directive::of(name.spelling());
            is_text = directive.is_none();
        } else if name.kind != PpTokenKind::End {
            is_text = true;
        }
        if let Some(known) = directive {
            self.directive_span = hash.span.to(name.span);
            self.state.angled_headers = known.includes();
            self.state.directive_wants_padding = known.includes();
            self.warn_deprecated(known, name.spelling());
            if !self.state.is_skipping || known.is_conditional() {
                self.execute_directive(known, &name);
            }
        }
        if is_text {
            self.put_back(name);
        } else {
            self.skip_rest_of_line();
        }
        self.state.directive = DirectiveContext::No;
        self.state.angled_headers = false;
        if arguments_before != ArgumentProgress::None {
            self.state.arguments = ArgumentProgress::Collected;
            self.state.prevent_expansion = 1;
        }
        !is_text
    }

    fn warn_deprecated(&mut self, directive: Directive, name: &str) {
        let deprecated = matches!(directive, Directive::Import | Directive::Assert | Directive::Unassert);
        if deprecated && !self.state.is_skipping {
            let message = format!("`#{name}` is deprecated");
            self.report(Diagnostic::warning("deprecated", self.directive_span, message));
        }
    }

    /// Executes a directive after its name `name`; each reads its own arguments. Errors are
    /// reported.
    fn execute_directive(&mut self, directive: Directive, name: &PpToken) {
        match directive {
            Directive::Define => self.execute_define(),
            Directive::Undef => self.execute_undef(),
            Directive::Include | Directive::IncludeNext | Directive::Import => self.execute_include(directive),
            Directive::If => self.execute_if(),
            Directive::Ifdef => self.execute_ifdef("ifdef", true),
            Directive::Ifndef => self.execute_ifdef("ifndef", false),
            Directive::Elif | Directive::Elifdef | Directive::Elifndef => self.execute_elif(directive, name.spelling()),
            Directive::Else => self.execute_else(),
            Directive::Endif => self.execute_endif(),
            Directive::Line => self.execute_line(),
            Directive::Error => {
                let message = self.message_text();
                self.report(Diagnostic::error("error-directive", self.directive_span, message));
            }
            Directive::Warning => {
                let message = self.message_text();
                self.report(Diagnostic::warning("warning-directive", self.directive_span, message));
            }
            Directive::Pragma => self.execute_pragma(),
            Directive::Ident => self.execute_ident(name),
            Directive::Assert => self.execute_assert(),
            Directive::Unassert => self.execute_unassert(),
        }
    }

    /// Drops the unread tokens of a directive.
    pub(super) fn skip_rest_of_line(&mut self) {
        while !self.contexts.is_empty() {
            self.pop_context();
        }
        while !self.has_seen_end && !self.is_stopped {
            self.lex_token();
        }
    }

    /// Warns about tokens after a complete directive. With `expand`, macros with empty expansion do
    /// not count.
    pub(super) fn check_end(&mut self, name: &str, expand: bool) {
        if self.has_seen_end {
            return;
        }
        let token = if expand { self.get_token() } else { self.lex_token() };
        if token.kind != PpTokenKind::End {
            let message = format!("text after `#{name}` is ignored");
            self.report(Diagnostic::warning("extra-tokens", token.span, message));
        }
    }

    fn execute_undef(&mut self) {
        if let Some(name) = self.macro_name("undef", true) {
            let node = self.names.node(name.value);
            let builtin = matches!(node.definition, MacroDefinition::Builtin(_));
            if self.names.is_defined(name.value) && (builtin || node.is_guarded) {
                let message = format!("`{}`, which the preprocessor has itself, is undefined", name.spelling());
                self.report(Diagnostic::warning("undefined-builtin", name.span, message));
            }
            self.names.undefine(name.value);
        }
        self.check_end("undef", false);
    }

    /// Returns the remaining line with single blanks.
    fn message_text(&mut self) -> String {
        self.state.prevent_expansion += 1;
        let mut text = String::new();
        loop {
            let token = self.get_token();
            if token.kind == PpTokenKind::End {
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

    /// Executes `#line 12` or `#line 12 "file"`: the next line is line 12, in that file. Later
    /// positions are reported with these numbers.
    fn execute_line(&mut self) {
        let token = self.get_token();
        let digits = token.spelling();
        let is_number = token.kind == PpTokenKind::Number && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number {
            let help = "write `#line 12` or `#line 12 \"file\"`";
            let diagnostic = Diagnostic::error("bad-directive", self.directive_span, "`#line` needs a line number");
            self.report(diagnostic.help(help));
            return;
        }
        let mut number = 0u32;
        let mut has_overflow = false;
        for digit in digits.bytes() {
            let next = u64::from(number) * 10 + u64::from(digit - b'0');
            has_overflow |= next > u64::from(u32::MAX);
            number = next as u32;
        }
        if has_overflow {
            let message = "the line number has more than 32 bits; the high bits are dropped";
            self.report(Diagnostic::warning("bad-directive", token.span, message));
        }
        let token = self.get_token();
        let mut name = None;
        match token.kind {
            PpTokenKind::Str => {
                name = self.file_name_of(&token);
                self.check_end("line", true);
            }
            PpTokenKind::End => {}
            _ => {
                let message = format!("`{}` is not a file name", token.spelling());
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
        self.map.add_line_directive(file, next_line, number, name.map(Into::into));
        self.mark_file("");
    }

    /// Returns the content of a string with its escape sequences resolved. Reports invalid ones.
    fn file_name_of(&mut self, token: &PpToken) -> Option<String> {
        let mut bytes = Vec::new();
        let text = token.spelling();
        let inner = text.get(1..text.len() - 1).unwrap_or("");
        let mut rest = inner.as_bytes();
        while !rest.is_empty() {
            let (code, len) = self.read_character(rest, 8, token.span);
            match code {
                ConstantChar::Byte(byte) => bytes.push(byte as u8),
                ConstantChar::Character(_) => bytes.extend_from_slice(&rest[..len]),
                ConstantChar::Universal(code) => {
                    let character = char::from_u32(code).unwrap_or('\u{fffd}');
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            rest = &rest[len..];
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Executes `#ident "text"`, which cpp omits from its output for assembler.
    fn execute_ident(&mut self, name: &PpToken) {
        let token = self.get_token();
        if token.kind != PpTokenKind::Str {
            let message = format!("`#{}` needs a string", name.spelling());
            self.report(Diagnostic::error("bad-directive", self.directive_span, message));
        }
        self.check_end(name.spelling(), false);
    }

    /// Reads `predicate(answer)` of an assertion. The answer is optional in `#unassert` and `#if`.
    pub(super) fn read_assertion(&mut self, needs_answer: bool) -> Option<(Symbol, Option<Vec<PpToken>>)> {
        self.state.prevent_expansion += 1;
        let found = self.read_assertion_unexpanded(needs_answer);
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
        found
    }

    /// Reads `predicate(answer)` of `#assert`, `#unassert` or a condition: returns the predicate
    /// and the tokens of the answer. The answer can be omitted, which gives `None` for it, unless
    /// `needs_answer`. Returns `None` after an error.
    fn read_assertion_unexpanded(&mut self, needs_answer: bool) -> Option<(Symbol, Option<Vec<PpToken>>)> {
        let predicate = self.get_token();
        if predicate.kind != PpTokenKind::Name {
            let message = "an assertion needs a name";
            self.report(Diagnostic::error("bad-directive", predicate.span, message));
            return None;
        }
        let open = self.get_token();
        if open.kind != PpTokenKind::OpenParen {
            let in_condition = self.state.directive == DirectiveContext::Condition;
            if !needs_answer && (open.kind == PpTokenKind::End || in_condition) {
                if open.kind != PpTokenKind::End {
                    self.unread_token(open);
                }
                return Some((predicate.value, None));
            }
            self.report(Diagnostic::error("bad-directive", open.span, "`(` is missing after the assertion's name"));
            return None;
        }
        let mut answer: Vec<PpToken> = Vec::new();
        loop {
            let mut token = self.get_token();
            match token.kind {
                PpTokenKind::CloseParen => break,
                PpTokenKind::End => {
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

    fn execute_assert(&mut self) {
        let Some((predicate, Some(answer))) = self.read_assertion(true) else { return };
        if self.has_answer(predicate, Some(&answer)) {
            let message = format!("`{}` is asserted twice", self.names.node(predicate).text);
            self.report(Diagnostic::warning("bad-directive", self.directive_span, message));
            return;
        }
        self.names.node_mut(predicate).answers.push(answer);
        self.check_end("assert", false);
    }

    fn execute_unassert(&mut self) {
        let Some((predicate, answer)) = self.read_assertion(false) else { return };
        match answer {
            None => self.names.node_mut(predicate).answers.clear(),
            Some(answer) => {
                let answers = &mut self.names.node_mut(predicate).answers;
                answers.retain(|known| !same_tokens(known, &answer));
                self.check_end("unassert", false);
            }
        }
    }

    /// Returns whether the assertion was made. Without an answer, any assertion of the predicate
    /// counts.
    pub(super) fn has_answer(&self, predicate: Symbol, answer: Option<&[PpToken]>) -> bool {
        let answers = &self.names.node(predicate).answers;
        match answer {
            None => !answers.is_empty(),
            Some(answer) => answers.iter().any(|known| same_tokens(known, answer)),
        }
    }

    /// Runs `read` on a line that comes from no file.
    pub(super) fn with_internal(&mut self, text: &str, read: impl FnOnce(&mut Self)) {
        let name: Rc<str> = self.buffer.name.clone();
        let internal = LineBuffer::internal(text, name, self.buffer.line);
        let outer = std::mem::replace(&mut self.buffer, internal);
        let state = self.state.directive;
        let contexts = std::mem::take(&mut self.contexts);
        let put_back = std::mem::take(&mut self.put_back);
        self.state.directive = DirectiveContext::Other;
        self.has_seen_end = false;
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
