//! What of the program is printed: tokens, and lines where the source has them.

use super::preprocessor::{Arguments, Preprocessor};
use super::token::{Kind, PpToken};

impl Preprocessor<'_> {
    /// Writes a token.
    pub(super) fn print(&mut self, token: &PpToken) {
        if token.kind < Kind::Padding {
            let spent = self.spend(1, token.span) && self.spend_bytes(token.spelling().len() + 1, token.span);
            if !spent {
                return;
            }
        }
        let exact = token.kind < Kind::Padding && self.map.text(token.span) == token.spelling();
        self.printer.token(token, exact);
    }

    /// A line of the source begins with `token`.
    pub(super) fn line_change(&mut self, token: &PpToken) {
        if token.kind == Kind::End || self.state.arguments != Arguments::None {
            return;
        }
        let (line, column) = self.line_start;
        self.printer.go_to_line(line, &self.buffer.name);
        if self.spend_bytes(column as usize, token.span) {
            self.printer.indent(column);
        }
    }

    /// What cpp writes for a pragma that it carries out.
    pub(super) fn pragma_line_change(&mut self, first: &PpToken) {
        let column = self.buffer.column(self.column_of(first));
        self.printer.go_to_line(first.line, &self.buffer.name);
        if self.spend_bytes(column as usize, first.span) {
            self.printer.indent(column);
        }
    }

    /// Offset in the buffer of a token of this line.
    fn column_of(&self, token: &PpToken) -> usize {
        let after = self.buffer.offset(self.buffer.at);
        self.buffer.at.saturating_sub(after.saturating_sub(token.span.lo) as usize)
    }

    /// Ends the line that is being written.
    pub(super) fn end_line(&mut self) {
        let line = self.buffer.line;
        self.printer.go_to_line(line, &self.buffer.name);
        self.printer.indent(0);
    }

    /// The file or the numbers of its lines are others from here on.
    pub(super) fn mark_file(&mut self, flags: &str) {
        let name = self.buffer.name.clone();
        self.printer.marker(self.buffer.line, &name, flags);
    }

    /// A file is about to be included.
    pub(super) fn mark_entry(&mut self) {
        let line = self.buffer.line.saturating_sub(1);
        self.printer.go_to_line(line, &self.buffer.name);
    }
}
