//! The text that comes out: cpp's, to the blank, and where each piece of it was written.
//!
//! P4's scanner reads this text and not the preprocessor's tokens, because p4c's does: where
//! blanks stand, what is a comment and where a string ends are decided there.

use super::token::{Gap, Kind, PpToken, push_quoted};
use crate::lex::Piece;
use std::rc::Rc;

/// Writes the text.
#[derive(Debug)]
pub(super) struct Printer {
    pub text: String,
    pub pieces: Vec<Piece>,
    /// With cpp's line markers.
    markers: bool,
    /// Something is on the line.
    printed: bool,
    /// The line of the source that the line here is.
    line: u32,
    /// Padding since the last token.
    gap: Option<Gap>,
    previous: Option<Previous>,
}

/// What is known of the token before.
#[derive(Clone, Copy, Debug)]
struct Previous {
    kind: Kind,
    backslash: bool,
}

impl Printer {
    pub fn new(markers: bool) -> Self {
        Printer { text: String::new(), pieces: Vec::new(), markers, printed: false, line: 1, gap: None, previous: None }
    }

    /// Writes one token with what has to be in front of it.
    pub fn token(&mut self, token: &PpToken, exact: bool) {
        match token.kind {
            Kind::Padding => {
                self.gap.get_or_insert_default().add(token);
                return;
            }
            Kind::End => return,
            _ => {}
        }
        let white = match self.gap.take() {
            Some(gap) => gap.is_white(token) || self.would_paste(token),
            None => token.is_white(),
        };
        if white {
            self.text.push(' ');
        }
        self.printed = true;
        let spelling = token.spelling();
        self.previous = Some(Previous { kind: token.kind, backslash: spelling.starts_with('\\') });
        let (start, len) = (self.text.len() as u32, spelling.len() as u32);
        self.pieces.push(Piece { start, len, span: token.span, exact });
        self.text.push_str(spelling);
        if token.kind > Kind::Name {
            self.line += spelling.bytes().filter(|byte| *byte == b'\n').count() as u32;
        }
    }

    /// Whether `token` and the one before it would be read as another token. As cpp has it, which
    /// errs on one side.
    fn would_paste(&self, token: &PpToken) -> bool {
        let Some(previous) = self.previous else { return token.kind == Kind::Hash };
        let (before, after) = (previous.kind, token.kind);
        let first = after.text().bytes().next().unwrap_or(0);
        if before <= Kind::ShiftLeft && first == b'=' {
            return true;
        }
        match before {
            Kind::Greater => first == b'>',
            Kind::Less => matches!(first, b'<' | b'%' | b':'),
            Kind::Plus => first == b'+',
            Kind::Minus => matches!(first, b'-' | b'>'),
            Kind::Div => matches!(first, b'/' | b'*'),
            Kind::Mod => matches!(first, b':' | b'>'),
            Kind::And => first == b'&',
            Kind::Or => first == b'|',
            Kind::Colon => matches!(first, b':' | b'>'),
            Kind::Arrow => first == b'*',
            Kind::Dot => matches!(first, b'.' | b'%') || after == Kind::Number,
            Kind::Hash => matches!(first, b'#' | b'%'),
            Kind::Name => {
                let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
                matches!(after, Kind::Name | Kind::Char | Kind::Str)
                    || (after == Kind::Number && token.spelling().bytes().all(is_word))
            }
            Kind::Number => {
                matches!(after, Kind::Number | Kind::Name | Kind::Char) || matches!(first, b'.' | b'+' | b'-')
            }
            Kind::Other => previous.backslash && after == Kind::Name,
            Kind::LessEqual => first == b'>',
            _ => false,
        }
    }

    /// Ends the line, and begins one for the source line `line`.
    pub fn go_to_line(&mut self, line: u32, name: &Rc<str>) {
        if self.printed {
            self.text.push('\n');
            self.line = self.line.wrapping_add(1);
            self.printed = false;
        }
        if line >= self.line && line - self.line < 8 {
            while line > self.line {
                self.text.push('\n');
                self.line += 1;
            }
        } else {
            self.marker(line, name, "");
        }
    }

    /// The line's beginning: blanks up to the token's column.
    pub fn indent(&mut self, column: u32) {
        self.previous = None;
        self.gap = self.gap.map(|_| Gap::default());
        self.printed = true;
        for _ in 2..column {
            self.text.push(' ');
        }
    }

    /// `# 12 "file"`
    pub fn marker(&mut self, line: u32, name: &Rc<str>, flags: &str) {
        if self.printed {
            self.text.push('\n');
        }
        self.printed = false;
        self.line = line;
        if self.markers {
            self.text.push_str(&format!("# {line} \""));
            push_quoted(&mut self.text, name);
            self.text.push('"');
            self.text.push_str(flags);
            self.text.push('\n');
        }
    }

    /// Ends the text.
    pub fn finish(&mut self) {
        if self.printed {
            self.text.push('\n');
            self.printed = false;
        }
    }
}
