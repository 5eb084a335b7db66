//! The macros that the preprocessor itself has.

use super::clock::Clock;
use super::definition::Builtin;
use super::preprocessor::Preprocessor;
use super::token::{Kind, PpToken, flag, push_quoted};
use crate::diag::Diagnostic;

impl Preprocessor<'_> {
    /// Expands the builtin macro that `name` names; false if it stays as it is.
    pub(super) fn expand_builtin(&mut self, builtin: Builtin, name: &PpToken) -> bool {
        let (kind, text) = match builtin {
            Builtin::Pragma => {
                if self.state.in_directive() || self.state.ignores_pragma {
                    return false;
                }
                return self.pragma_operator(name);
            }
            Builtin::Line => (Kind::Number, self.line_of(name).to_string()),
            Builtin::File => (Kind::Str, quoted(&self.buffer.name)),
            Builtin::BaseFile => (Kind::Str, quoted(&self.main_name)),
            Builtin::IncludeLevel => (Kind::Number, self.outer.len().to_string()),
            Builtin::Counter => {
                self.counter += 1;
                (Kind::Number, (self.counter - 1).to_string())
            }
            Builtin::Date => (Kind::Str, quoted(&self.clock.get_or_insert_with(Clock::now).date)),
            Builtin::Time => (Kind::Str, quoted(&self.clock.get_or_insert_with(Clock::now).time)),
            // What cpp says of a file whose time it does not know.
            Builtin::Timestamp => (Kind::Str, quoted("??? ??? ?? ??:??:?? ????")),
            Builtin::One => (Kind::Number, "1".to_owned()),
            Builtin::HasInclude | Builtin::HasIncludeNext => {
                let found = self.has_include(name, builtin == Builtin::HasIncludeNext);
                (Kind::Number, u8::from(found).to_string())
            }
        };
        self.state.skipping = false;
        let token = PpToken { text: Some(text.into()), line: name.line, ..PpToken::new(kind, 0, name.span) };
        self.push_continued(vec![token]);
        true
    }

    /// The line that `__LINE__` stands for: of the outermost macro's name, or of itself in an
    /// argument.
    fn line_of(&self, name: &PpToken) -> u32 {
        let in_call = self
            .top_macro
            .and_then(|symbol| self.names.user_macro(symbol))
            .is_some_and(|definition| definition.function_like);
        if in_call { name.line } else { self.invocation_line }
    }

    /// `__has_include("file")`, `__has_include(<file>)`
    fn has_include(&mut self, name: &PpToken, next: bool) -> bool {
        if !self.state.in_directive() {
            let message = format!("`{}` can be used in conditions only", name.spelling());
            self.report(Diagnostic::error("bad-condition", name.span, message));
            // What follows is read and dropped, as in a condition.
        }
        self.state.angled_headers = true;
        let wants_padding = std::mem::replace(&mut self.state.directive_wants_padding, true);
        let mut token = self.get_solid_unless_end();
        let parenthesis = token.kind == Kind::OpenParen;
        if parenthesis {
            token = self.get_solid_unless_end();
        } else {
            let message = format!("`(` is missing after `{}`", name.spelling());
            self.report(Diagnostic::error("bad-condition", token.span, message));
        }
        self.state.angled_headers = false;
        let file = match token.kind {
            Kind::Str | Kind::Header => {
                let text = token.spelling();
                Some(text.get(1..text.len() - 1).unwrap_or("").to_owned())
            }
            Kind::Less => Some(self.glue_header()),
            _ => {
                let message = format!("`{}` needs a file name in quotes or between `<` and `>`", name.spelling());
                self.report(Diagnostic::error("bad-condition", token.span, message));
                None
            }
        };
        self.state.directive_wants_padding = wants_padding;
        let quoted = token.kind == Kind::Str;
        let found = file.is_some_and(|file| self.skip_eval == 0 && self.find_file(&file, quoted, next).is_some());
        if parenthesis && self.get_solid_unless_end().kind != Kind::CloseParen {
            let message = format!("`)` is missing after `{}`", name.spelling());
            self.report(Diagnostic::error("bad-condition", token.span, message));
        }
        found
    }

    /// The next token; the end of an argument is not used up.
    fn get_solid_unless_end(&mut self) -> PpToken {
        let token = self.get_solid_token();
        if token.kind == Kind::End && token.has(flag::ARGUMENT) {
            self.back_up_raw();
        }
        token
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    push_quoted(&mut out, text);
    out.push('"');
    out
}
