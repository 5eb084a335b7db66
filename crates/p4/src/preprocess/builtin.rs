//! Expands the built-in macros.

use super::clock::BuildClock;
use super::definition::BuiltinMacro;
use super::preprocessor::Preprocessor;
use super::token::{PpToken, PpTokenKind, flag, push_quoted};
use crate::diag::Diagnostic;

impl Preprocessor<'_> {
    /// Expands the built-in macro at `name` to one token; returns false if the name remains, which
    /// is `_Pragma` where it has no effect.
    pub(super) fn expand_builtin(&mut self, builtin: BuiltinMacro, name: &PpToken) -> bool {
        let (kind, text) = match builtin {
            BuiltinMacro::Pragma => {
                if self.state.in_directive() || self.state.ignores_pragma {
                    return false;
                }
                return self.pragma_operator(name);
            }
            BuiltinMacro::Line => (PpTokenKind::Number, self.line_number_of(name).to_string()),
            BuiltinMacro::File => (PpTokenKind::Str, quote_string(&self.buffer.name)),
            BuiltinMacro::BaseFile => (PpTokenKind::Str, quote_string(&self.main_name)),
            BuiltinMacro::IncludeLevel => (PpTokenKind::Number, self.outer.len().to_string()),
            BuiltinMacro::Counter => {
                self.counter += 1;
                (PpTokenKind::Number, (self.counter - 1).to_string())
            }
            BuiltinMacro::Date => {
                (PpTokenKind::Str, quote_string(&self.clock.get_or_insert_with(BuildClock::now).date))
            }
            BuiltinMacro::Time => {
                (PpTokenKind::Str, quote_string(&self.clock.get_or_insert_with(BuildClock::now).time))
            }
            // The text that cpp produces for a file with unknown time.
            BuiltinMacro::Timestamp => (PpTokenKind::Str, quote_string("??? ??? ?? ??:??:?? ????")),
            BuiltinMacro::One => (PpTokenKind::Number, "1".to_owned()),
            BuiltinMacro::HasInclude | BuiltinMacro::HasIncludeNext => {
                let exists = self.eval_has_include(name, builtin == BuiltinMacro::HasIncludeNext);
                (PpTokenKind::Number, u8::from(exists).to_string())
            }
        };
        self.state.is_skipping = false;
        let token = PpToken { text: Some(text.into()), line: name.line, ..PpToken::new(kind, 0, name.span) };
        self.push_continued(vec![token]);
        true
    }

    /// Returns the line for `__LINE__`: that of the name of the outermost macro, or its own within
    /// an argument.
    fn line_number_of(&self, name: &PpToken) -> u32 {
        let in_call = self
            .top_macro
            .and_then(|symbol| self.names.user_macro(symbol))
            .is_some_and(|definition| definition.is_function_like);
        if in_call { name.line } else { self.invocation_line }
    }

    /// Evaluates `__has_include("file")` or `__has_include(<file>)`: returns whether the file
    /// exists. With `starts_after_current`, the search starts after the directory of the current
    /// file. `name` is the macro's use.
    fn eval_has_include(&mut self, name: &PpToken, starts_after_current: bool) -> bool {
        if !self.state.in_directive() {
            let message = format!("`{}` can be used in conditions only", name.spelling());
            self.report(Diagnostic::error("bad-condition", name.span, message));
            // The operand is read and dropped as in a condition.
        }
        self.state.angled_headers = true;
        let wants_padding = std::mem::replace(&mut self.state.directive_wants_padding, true);
        let mut token = self.get_solid_unless_end();
        let has_parenthesis = token.kind == PpTokenKind::OpenParen;
        if has_parenthesis {
            token = self.get_solid_unless_end();
        } else {
            let message = format!("`(` is missing after `{}`", name.spelling());
            self.report(Diagnostic::error("bad-condition", token.span, message));
        }
        self.state.angled_headers = false;
        let file = match token.kind {
            PpTokenKind::Str | PpTokenKind::Header => {
                let text = token.spelling();
                Some(text.get(1..text.len() - 1).unwrap_or("").to_owned())
            }
            PpTokenKind::Less => Some(self.glue_header()),
            _ => {
                let message = format!("`{}` needs a file name in quotes or between `<` and `>`", name.spelling());
                self.report(Diagnostic::error("bad-condition", token.span, message));
                None
            }
        };
        self.state.directive_wants_padding = wants_padding;
        let is_quoted = token.kind == PpTokenKind::Str;
        // No file is searched in an operand that is not evaluated.
        let exists = file.is_some_and(|file| {
            self.skip_eval == 0 && self.find_file(&file, is_quoted, starts_after_current).is_some()
        });
        if has_parenthesis && self.get_solid_unless_end().kind != PpTokenKind::CloseParen {
            let message = format!("`)` is missing after `{}`", name.spelling());
            self.report(Diagnostic::error("bad-condition", token.span, message));
        }
        exists
    }

    /// Returns the next token. The end of an argument is not consumed.
    fn get_solid_unless_end(&mut self) -> PpToken {
        let token = self.get_solid_token();
        if token.kind == PpTokenKind::End && token.has(flag::ARGUMENT) {
            self.unread_raw();
        }
        token
    }
}

fn quote_string(text: &str) -> String {
    let mut out = String::from("\"");
    push_quoted(&mut out, text);
    out.push('"');
    out
}
