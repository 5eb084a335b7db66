//! Passes tokens and line changes to the printer.

use super::preprocessor::{ArgumentProgress, Preprocessor};
use super::token::{PpToken, PpTokenKind};

impl Preprocessor<'_> {
    /// Writes a token.
    pub(super) fn print_token(&mut self, token: &PpToken) {
        if token.kind < PpTokenKind::Padding {
            let spent = self.spend_tokens(1, token.span) && self.spend_bytes(token.spelling().len() + 1, token.span);
            if !spent {
                return;
            }
        }
        let exact = token.kind < PpTokenKind::Padding && self.map.text(token.span) == token.spelling();
        self.printer.write_token(token, exact);
    }

    /// Starts a new output line for a source line that begins with `token`.
    pub(super) fn line_change(&mut self, token: &PpToken) {
        if token.kind == PpTokenKind::End || self.state.arguments != ArgumentProgress::None {
            return;
        }
        let (line, column) = self.line_start;
        self.printer.go_to_line(line, &self.buffer.name);
        if self.spend_bytes(column as usize, token.span) {
            self.printer.write_indent(column);
        }
    }

    /// Writes the output of cpp for a pragma that the preprocessor executes.
    pub(super) fn pragma_line_change(&mut self, first: &PpToken) {
        let column = self.buffer.column(self.column_of(first));
        self.printer.go_to_line(first.line, &self.buffer.name);
        if self.spend_bytes(column as usize, first.span) {
            self.printer.write_indent(column);
        }
    }

    /// Returns the buffer offset of a token of this line.
    fn column_of(&self, token: &PpToken) -> usize {
        let after = self.buffer.offset(self.buffer.at);
        self.buffer.at.saturating_sub(after.saturating_sub(token.span.lo) as usize)
    }

    /// Ends the current output line.
    pub(super) fn end_line(&mut self) {
        let line = self.buffer.line;
        self.printer.go_to_line(line, &self.buffer.name);
        self.printer.write_indent(0);
    }

    /// Writes a line marker, because the file or its line numbers change here.
    pub(super) fn mark_file(&mut self, flags: &str) {
        let name = self.buffer.name.clone();
        self.printer.write_marker(self.buffer.line, &name, flags);
    }

    /// Moves to the line of the `#include` before a file is entered.
    pub(super) fn mark_entry(&mut self) {
        let line = self.buffer.line.saturating_sub(1);
        self.printer.go_to_line(line, &self.buffer.name);
    }
}
