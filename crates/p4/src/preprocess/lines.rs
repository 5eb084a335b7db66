//! Reads tokens of the text line by line.
//! Handles white space, comments, directives and skipped text.

use super::buffer::{LineNoteKind, is_blank};
use super::preprocessor::{ArgumentProgress, DirectiveContext, Preprocessor};
use super::scan::scan_token;
use super::token::{PpToken, PpTokenKind, flag};
use crate::diag::Diagnostic;
use crate::span::Span;

impl Preprocessor<'_> {
    /// Returns the next token of the text, or one that was put back. Executes directives and skips
    /// inactive text before it.
    pub(super) fn lex_token(&mut self) -> PpToken {
        loop {
            let token = match self.put_back.pop() {
                Some(token) => token,
                None => self.lex_direct(),
            };
            self.has_seen_end = token.kind == PpTokenKind::End;
            if !self.state.in_directive() {
                self.last_span = token.span;
            }
            if token.has(flag::LINE_START) {
                if token.kind == PpTokenKind::Hash && self.state.arguments != ArgumentProgress::Looked {
                    if self.handle_directive(&token) {
                        continue;
                    }
                    // A `#` line that is no directive is text and continues.
                    self.has_seen_end = false;
                }
                if !self.state.is_skipping {
                    self.line_change(&token);
                }
            }
            if self.state.in_directive() || !self.state.is_skipping || token.kind == PpTokenKind::End || self.is_stopped
            {
                return token;
            }
        }
    }

    /// Puts back the token that was read last.
    pub(super) fn put_back(&mut self, token: PpToken) {
        self.has_seen_end = false;
        self.put_back.push(token);
    }

    /// Returns the next token of the text. [`PpTokenKind::End`] marks the end of a directive, or of
    /// a file within the arguments of a macro. An end token outside of both, at the end of all
    /// text, begins a line.
    pub(super) fn lex_direct(&mut self) -> PpToken {
        let mut flags = 0;
        loop {
            if self.is_stopped {
                return self.end_token(flag::LINE_START);
            }
            if self.buffer.is_line_used_up {
                if !self.fresh_line() {
                    let is_nested_end = self.state.in_directive() || self.state.arguments != ArgumentProgress::None;
                    return self.end_token(if is_nested_end { 0 } else { flag::LINE_START });
                }
                flags = flag::LINE_START;
                if self.state.arguments == ArgumentProgress::Collected {
                    flags |= flag::WHITE;
                }
            }
            if let Some(token) = self.lex_on_line(&mut flags) {
                return token;
            }
        }
    }

    /// Returns the next token of the line; `None` at its end and after a dropped comment. `flags`
    /// are the flag bits for the token: blanks before it add `WHITE`, and a newline clears all.
    fn lex_on_line(&mut self, flags: &mut u16) -> Option<PpToken> {
        loop {
            self.pass_notes(false);
            match self.buffer.byte() {
                byte if is_blank(byte) => {
                    *flags |= flag::WHITE;
                    self.skip_blanks();
                }
                b'\n' => {
                    self.buffer.at += 1;
                    // The newline after the last line starts no line, so it is not counted.
                    if self.buffer.at < self.buffer.limit || self.state.directive == DirectiveContext::Include {
                        self.buffer.line += 1;
                    }
                    self.buffer.is_line_used_up = true;
                    *flags = 0;
                    return None;
                }
                b'/' if matches!(self.buffer.bytes.get(self.buffer.at + 1), Some(b'/' | b'*')) => {
                    let comment = self.read_comment(*flags);
                    if self.state.keeps_comments() {
                        return Some(comment);
                    }
                    *flags |= flag::WHITE;
                    return None;
                }
                _ => return Some(self.plain_token(*flags)),
            }
        }
    }

    fn skip_blanks(&mut self) {
        let mut nul = false;
        while is_blank(self.buffer.byte()) {
            nul |= self.buffer.byte() == 0;
            self.buffer.at += 1;
        }
        if nul && !self.state.is_skipping {
            let at = self.buffer.offset(self.buffer.at);
            let span = Span::new(self.buffer.file, at, at);
            self.report(Diagnostic::warning("nul-character", span, "characters with the code 0 are ignored here"));
        }
    }

    /// Handles the notes up to the current position.
    fn pass_notes(&mut self, in_comment: bool) {
        while let Some(note) = self.buffer.pass_note() {
            let span = Span::new(self.buffer.file, note.origin, note.origin);
            match note.kind {
                LineNoteKind::Splice { blank } => self.pass_splice(blank && !in_comment, span),
                LineNoteKind::Trigraph { ends_line, third } if !in_comment || ends_line => {
                    let message =
                        format!("`??{}` is not replaced, because trigraphs are not supported", char::from(third));
                    self.report(Diagnostic::warning("trigraph", span, message));
                }
                LineNoteKind::Trigraph { .. } => {}
            }
        }
    }

    fn pass_splice(&mut self, blank: bool, span: Span) {
        self.counts.splices += 1;
        if blank {
            let message = "blanks follow the backslash; the lines are spliced nevertheless";
            let diagnostic = Diagnostic::warning("blank-after-backslash", span, message);
            self.report(diagnostic.help("remove the blanks after it"));
        }
        if self.buffer.next_line > self.buffer.limit {
            let at = self.buffer.limit as u32;
            let span = Span::new(self.buffer.file, at, at);
            let message = "a backslash is at the end of the file's last line";
            self.report(Diagnostic::warning("backslash-at-end", span, message).help("remove the backslash"));
            self.buffer.next_line = self.buffer.limit;
        }
    }

    /// Scans the token at the current position, which is neither white space nor a comment, and
    /// moves behind it. Interns names; reports names that cannot be used here and strings with a
    /// zero byte.
    fn plain_token(&mut self, flags: u16) -> PpToken {
        let start = self.buffer.at;
        let span_start = self.buffer.offset(start);
        let line = self.buffer.line;
        if flags & flag::LINE_START != 0 {
            self.line_start = (line, self.buffer.column(start));
        }
        let scanned = scan_token(&self.buffer.bytes, start, self.state.angled_headers);
        self.buffer.at = scanned.end;
        // The end is computed from the last byte, because the byte after it can be on another
        // source line after a splice.
        let span_end = self.buffer.offset(scanned.end - 1) + 1;
        let span = Span::new(self.buffer.file, span_start, span_end);
        self.last_span = span;
        let mut token = PpToken { line, ..PpToken::new(scanned.kind, flags, span) };
        if scanned.kind >= PpTokenKind::Name {
            let text = String::from_utf8_lossy(&self.buffer.bytes[start..scanned.end]);
            if scanned.kind == PpTokenKind::Name {
                token.value = self.names.intern(&text);
                token.text = Some(self.names.node(token.value).text.clone());
                drop(text);
                self.check_name(token.value, span);
            } else {
                token.text = Some((&*text).into());
                let has_nul = text.contains('\0');
                drop(text);
                if has_nul && !self.state.is_skipping && scanned.kind != PpTokenKind::Other {
                    let message = "characters with the code 0 are in this string";
                    self.report(Diagnostic::warning("nul-character", span, message));
                }
            }
        }
        // A splice within the token affects the text after it.
        self.pass_notes(false);
        token
    }

    /// Reports a name that is not allowed here.
    pub(super) fn check_name(&mut self, symbol: u32, span: Span) {
        if self.state.is_skipping {
            return;
        }
        let is_poisoned = self.names.node(symbol).is_poisoned;
        if is_poisoned && !self.state.poisoned_ok {
            let message = format!("`{}` is poisoned: it must not be used", self.names.node(symbol).text);
            self.report(Diagnostic::error("poisoned", span, message));
        }
        if (symbol == self.names.va_args || symbol == self.names.va_opt) && !self.state.va_args_ok {
            let message = format!("`{}` has a meaning only in a macro with `...`", self.names.node(symbol).text);
            self.report(Diagnostic::warning("not-variadic", span, message));
        }
    }

    /// Reads the comment at the current position. In the arguments of a macro, `//` becomes `/*
    /// */`, because further text can follow on its line.
    fn read_comment(&mut self, flags: u16) -> PpToken {
        let start = self.buffer.at;
        let span_start = self.buffer.offset(start);
        let line = self.buffer.line;
        if flags & flag::LINE_START != 0 {
            self.line_start = (line, self.buffer.column(start));
        }
        let file = self.buffer.file;
        let is_line_comment = self.buffer.bytes[start + 1] == b'/';
        if is_line_comment {
            while self.buffer.byte() != b'\n' {
                self.buffer.at += 1;
            }
            self.pass_notes(true);
        } else if !self.skip_block_comment() {
            let span = Span::new(file, span_start, self.buffer.offset(self.buffer.at));
            let diagnostic = Diagnostic::error("syntax", span, "this comment is never closed");
            self.has_open_comment = true;
            self.report(diagnostic.help("add the closing `*/`"));
        }
        let span_end = self.buffer.offset(self.buffer.at.max(start + 1) - 1) + 1;
        let span = Span::new(file, span_start, span_end);
        self.last_span = span;
        let mut token = PpToken { line, ..PpToken::new(PpTokenKind::Comment, flags, span) };
        if self.state.keeps_comments() && !self.state.is_skipping {
            let mut bytes = &self.buffer.bytes[start..self.buffer.at.max(start)];
            if let Some((b'\n', without_newline)) = bytes.split_last() {
                bytes = without_newline;
            }
            let text = String::from_utf8_lossy(bytes);
            let in_arguments = self.state.arguments != ArgumentProgress::None;
            token.text =
                Some(if is_line_comment && in_arguments { block_comment(&text).into() } else { (&*text).into() });
        }
        token
    }

    /// Skips `/* ... */`, also over several lines; returns false if the file ends first.
    fn skip_block_comment(&mut self) -> bool {
        let mut position = self.buffer.at + 2;
        // In `/*/`, the `*` belongs to the opening alone.
        if self.buffer.bytes.get(position) == Some(&b'/') {
            position += 1;
        }
        loop {
            match self.buffer.bytes.get(position).copied().unwrap_or(b'\n') {
                b'/' if self.buffer.bytes[position - 1] == b'*' => {
                    self.buffer.at = position + 1;
                    self.pass_notes(true);
                    return true;
                }
                b'\n' => {
                    self.buffer.at = position;
                    self.pass_notes(true);
                    if !self.buffer.has_line() {
                        return false;
                    }
                    self.buffer.read_line();
                    self.buffer.line += 1;
                    position = self.buffer.at;
                }
                _ => position += 1,
            }
        }
    }

    /// Moves to a line with text, and leaves included files at their end. Returns false at the end
    /// of a directive, of all text, and of a file within the arguments of a macro.
    fn fresh_line(&mut self) -> bool {
        if self.state.in_directive() {
            return false;
        }
        loop {
            if !self.buffer.is_line_used_up {
                return true;
            }
            if self.buffer.has_line() {
                self.buffer.read_line();
                return true;
            }
            if self.state.arguments != ArgumentProgress::None {
                return false;
            }
            if self.outer.is_empty() {
                self.close_conditions();
                self.has_ended = true;
                return false;
            }
            self.leave_file();
        }
    }

    /// Creates an end token.
    pub(super) fn end_token(&self, flags: u16) -> PpToken {
        let span = match self.state.in_directive() {
            true => self.last_span.end(),
            false => {
                let at = self.buffer.at.min(self.buffer.limit) as u32;
                Span::new(self.buffer.file, at, at)
            }
        };
        PpToken { line: self.buffer.line, ..PpToken::new(PpTokenKind::End, flags, span) }
    }
}

/// Converts `// text` to `/* text*/` and masks comment delimiters inside.
fn block_comment(text: &str) -> String {
    let mut bytes: Vec<char> = text.chars().collect();
    if let Some(second) = bytes.get_mut(1) {
        *second = '*';
    }
    bytes.extend(['*', '/']);
    let end = bytes.len() - 2;
    for at in 2..end {
        if bytes[at] == '/' && (bytes[at - 1] == '*' || bytes[at + 1] == '*') {
            bytes[at] = '|';
        }
    }
    bytes.into_iter().collect()
}
