//! Writes the output text with the same blanks as cpp, and records the origin of each piece.
//!
//! As in p4c, the P4 scanner reads this text instead of the preprocessor's tokens, because blanks,
//! comments and the ends of strings are decided there.

use super::token::{PaddingGap, PpToken, PpTokenKind, push_quoted};
use crate::lex::TextPiece;
use std::rc::Rc;

/// Writer of the output text.
#[derive(Debug)]
pub(super) struct OutputPrinter {
    pub text: String,
    pub pieces: Vec<TextPiece>,
    /// Whether to write cpp's line markers.
    markers: bool,
    /// Whether the current line has text.
    printed: bool,
    /// Source line of the current output line.
    line: u32,
    /// Padding since the last token.
    gap: Option<PaddingGap>,
    previous: Option<PreviousToken>,
}

/// Properties of the previous token.
#[derive(Clone, Copy, Debug)]
struct PreviousToken {
    kind: PpTokenKind,
    backslash: bool,
}

impl OutputPrinter {
    pub fn new(markers: bool) -> Self {
        OutputPrinter {
            text: String::new(),
            pieces: Vec::new(),
            markers,
            printed: false,
            line: 1,
            gap: None,
            previous: None,
        }
    }

    /// Writes a token after the necessary white space, and records its origin. `is_verbatim` says
    /// that the text of its span is its spelling. Padding is not written, but decides about the
    /// white space.
    pub fn write_token(&mut self, token: &PpToken, is_verbatim: bool) {
        match token.kind {
            PpTokenKind::Padding => {
                self.gap.get_or_insert_default().add(token);
                return;
            }
            PpTokenKind::End => return,
            _ => {}
        }
        let needs_blank = match self.gap.take() {
            Some(gap) => gap.is_white(token) || self.would_paste(token),
            None => token.is_white(),
        };
        if needs_blank {
            self.text.push(' ');
        }
        self.printed = true;
        let spelling = token.spelling();
        self.previous = Some(PreviousToken { kind: token.kind, backslash: spelling.starts_with('\\') });
        let (start, len) = (self.text.len() as u32, spelling.len() as u32);
        self.pieces.push(TextPiece { start, len, span: token.span, is_verbatim });
        self.text.push_str(spelling);
        if token.kind > PpTokenKind::Name {
            self.line += spelling.bytes().filter(|byte| *byte == b'\n').count() as u32;
        }
    }

    /// Returns whether `token` and the one before could be read as a different token without a
    /// blank between them. Errs towards a blank, as cpp does.
    fn would_paste(&self, token: &PpToken) -> bool {
        let Some(previous) = self.previous else { return token.kind == PpTokenKind::Hash };
        let (before, after) = (previous.kind, token.kind);
        let first_byte = after.text().bytes().next().unwrap_or(0);
        if before <= PpTokenKind::ShiftLeft && first_byte == b'=' {
            return true;
        }
        match before {
            PpTokenKind::Greater => first_byte == b'>',
            PpTokenKind::Less => matches!(first_byte, b'<' | b'%' | b':'),
            PpTokenKind::Plus => first_byte == b'+',
            PpTokenKind::Minus => matches!(first_byte, b'-' | b'>'),
            PpTokenKind::Div => matches!(first_byte, b'/' | b'*'),
            PpTokenKind::Mod => matches!(first_byte, b':' | b'>'),
            PpTokenKind::And => first_byte == b'&',
            PpTokenKind::Or => first_byte == b'|',
            PpTokenKind::Colon => matches!(first_byte, b':' | b'>'),
            PpTokenKind::Arrow => first_byte == b'*',
            PpTokenKind::Dot => matches!(first_byte, b'.' | b'%') || after == PpTokenKind::Number,
            PpTokenKind::Hash => matches!(first_byte, b'#' | b'%'),
            PpTokenKind::Name => {
                let is_word = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
                matches!(after, PpTokenKind::Name | PpTokenKind::Char | PpTokenKind::Str)
                    || (after == PpTokenKind::Number && token.spelling().bytes().all(is_word))
            }
            PpTokenKind::Number => {
                matches!(after, PpTokenKind::Number | PpTokenKind::Name | PpTokenKind::Char)
                    || matches!(first_byte, b'.' | b'+' | b'-')
            }
            PpTokenKind::Other => previous.backslash && after == PpTokenKind::Name,
            PpTokenKind::LessEqual => first_byte == b'>',
            _ => false,
        }
    }

    /// Ends the line and starts one for source line `line`.
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
            self.write_marker(line, name, "");
        }
    }

    /// Indents a new line to the column of its token.
    pub fn write_indent(&mut self, column: u32) {
        self.previous = None;
        self.gap = self.gap.map(|_| PaddingGap::default());
        self.printed = true;
        for _ in 2..column {
            self.text.push(' ');
        }
    }

    /// Writes the line marker `# 12 "file"`.
    pub fn write_marker(&mut self, line: u32, name: &Rc<str>, flags: &str) {
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
