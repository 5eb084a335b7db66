//! Executes `#pragma` and `_Pragma` of the preprocessor. Other pragmas have no meaning in P4.

use super::loader::normalize_path;
use super::preprocessor::Preprocessor;
use super::token::{PpToken, PpTokenKind, Symbol};
use crate::diag::Diagnostic;

impl Preprocessor<'_> {
    pub(super) fn execute_pragma(&mut self) {
        self.state.prevent_expansion += 1;
        self.execute_pragma_unexpanded();
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
    }

    /// Executes the pragma after `#pragma`; an unknown one has no effect. Macros are not expanded
    /// in it.
    fn execute_pragma_unexpanded(&mut self) {
        let first = self.get_token();
        match first.spelling() {
            "once" => {
                self.pragma_line_change(&first);
                if self.outer.is_empty() {
                    let message = "`#pragma once` in the main file";
                    self.report(Diagnostic::warning("pragma-once", first.span, message));
                }
                self.check_end("pragma once", false);
                self.once_files.insert(normalize_path(&self.buffer.path));
            }
            "push_macro" => {
                self.pragma_line_change(&first);
                if let Some(name) = self.macro_in_string("push_macro") {
                    let definition = self.names.node(name).definition.clone();
                    self.pushed_macros.push((name, definition));
                }
            }
            "pop_macro" => {
                self.pragma_line_change(&first);
                if let Some(name) = self.macro_in_string("pop_macro") {
                    self.pop_macro(name);
                }
            }
            "GCC" => self.execute_gcc_pragma(&first),
            _ => {}
        }
    }

    /// Executes the pragma after `#pragma GCC`; `space` is the token `GCC`. An unknown one has no
    /// effect.
    fn execute_gcc_pragma(&mut self, space: &PpToken) {
        let name = self.get_token();
        match name.spelling() {
            "poison" => {
                self.pragma_line_change(space);
                self.execute_poison();
            }
            "system_header" => {
                self.pragma_line_change(space);
                if self.outer.is_empty() {
                    let message = "`#pragma GCC system_header` in the main file is ignored";
                    self.report(Diagnostic::warning("pragma", name.span, message));
                }
            }
            "warning" | "error" => {
                self.pragma_line_change(space);
                let is_error = name.spelling() == "error";
                self.pragma_message(&name, is_error);
            }
            _ => {}
        }
    }

    /// Executes `#pragma GCC poison`: each name up to the end of the line is undefined, and any
    /// later use of it is an error.
    fn execute_poison(&mut self) {
        loop {
            self.state.poisoned_ok = true;
            let token = self.lex_token();
            self.state.poisoned_ok = false;
            match token.kind {
                PpTokenKind::End => return,
                PpTokenKind::Name => {
                    if self.names.node(token.value).is_poisoned {
                        continue;
                    }
                    if self.names.is_defined(token.value) {
                        let message = format!("`{}`, which is poisoned here, is a macro", token.spelling());
                        self.report(Diagnostic::warning("poisoned", token.span, message));
                    }
                    self.names.undefine(token.value);
                    self.names.node_mut(token.value).is_poisoned = true;
                }
                _ => {
                    let message = "only names can be poisoned";
                    self.report(Diagnostic::error("bad-directive", token.span, message));
                    return;
                }
            }
        }
    }

    /// Executes `#pragma GCC error "text"` or `warning`.
    fn pragma_message(&mut self, name: &PpToken, is_error: bool) {
        let mut text = String::new();
        loop {
            let token = self.get_token();
            match token.kind {
                PpTokenKind::End => break,
                PpTokenKind::Str => text.push_str(token.spelling().trim_matches('"')),
                _ => {
                    let message = format!("`#pragma GCC {}` needs a string", name.spelling());
                    self.report(Diagnostic::error("bad-directive", token.span, message));
                    return;
                }
            }
        }
        self.report(match is_error {
            true => Diagnostic::error("error-directive", name.span, text),
            false => Diagnostic::warning("warning-directive", name.span, text),
        });
    }

    /// Reads the name in `("NAME")`.
    fn macro_in_string(&mut self, pragma: &str) -> Option<Symbol> {
        let open = self.get_token();
        let string = self.get_token();
        let close = self.get_token();
        let kinds = [open.kind, string.kind, close.kind];
        if kinds != [PpTokenKind::OpenParen, PpTokenKind::Str, PpTokenKind::CloseParen] {
            let message = format!("`#pragma {pragma}` needs a name in quotes and parentheses");
            self.report(Diagnostic::warning("bad-directive", self.directive_span, message));
            return None;
        }
        self.check_end(&format!("pragma {pragma}"), false);
        let name = string.spelling().trim_matches('"').trim().to_owned();
        let is_name = name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        (is_name && !name.is_empty()).then(|| self.names.intern(&name))
    }

    fn pop_macro(&mut self, name: Symbol) {
        let Some(at) = self.pushed_macros.iter().rposition(|(pushed, _)| *pushed == name) else { return };
        let (_, definition) = self.pushed_macros.remove(at);
        self.names.undefine(name);
        self.names.node_mut(name).definition = definition;
    }

    /// Executes `_Pragma("text")` after the word; false if it is malformed.
    pub(super) fn pragma_operator(&mut self, name: &PpToken) -> bool {
        let open = self.get_solid_token();
        let opened = open.kind == PpTokenKind::OpenParen;
        let string = if opened { self.get_solid_token() } else { open };
        let is_string = matches!(string.kind, PpTokenKind::Str | PpTokenKind::WideStr);
        let closed = opened && is_string && self.get_solid_token().kind == PpTokenKind::CloseParen;
        if !closed {
            let message = "`_Pragma` takes a string in parentheses";
            self.report(Diagnostic::error("bad-directive", name.span, message));
            return false;
        }
        let text = string.spelling().trim_start_matches('L');
        let inner = text.get(1..text.len() - 1).unwrap_or("");
        let text = inner.replace("\\\"", "\"").replace("\\\\", "\\");
        self.with_internal(&text, Preprocessor::execute_pragma);
        self.end_line();
        self.push_continued(vec![PpToken::avoid_paste()]);
        true
    }
}
