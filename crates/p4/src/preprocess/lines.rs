//! Tokens of the text, line by line: white space, comments, directives and skipped text are dealt
//! with here.

use super::buffer::{NoteKind, is_blank};
use super::preprocessor::{Arguments, InDirective, Preprocessor};
use super::scan::scan;
use super::token::{Kind, PpToken, flag};
use crate::diag::Diagnostic;
use crate::span::Span;

impl Preprocessor<'_> {
    /// The next token of the text, or one that was put back. Directives are executed on the way,
    /// and skipped text is skipped.
    pub(super) fn lex_token(&mut self) -> PpToken {
        loop {
            let token = match self.put_back.pop() {
                Some(token) => token,
                None => self.lex_direct(),
            };
            self.seen_end = token.kind == Kind::End;
            if !self.state.in_directive() {
                self.last_span = token.span;
            }
            if token.has(flag::LINE_START) {
                if token.kind == Kind::Hash && self.state.arguments != Arguments::Looked {
                    if self.handle_directive(&token) {
                        continue;
                    }
                    // What is no directive is text, and the line goes on.
                    self.seen_end = false;
                }
                if !self.state.skipping {
                    self.line_change(&token);
                }
            }
            if self.state.in_directive() || !self.state.skipping || token.kind == Kind::End || self.stopped {
                return token;
            }
        }
    }

    /// Puts the token that was read last back.
    pub(super) fn put_back(&mut self, token: PpToken) {
        self.seen_end = false;
        self.put_back.push(token);
    }

    /// The next token of the text. The end of a directive, and of a file within a macro's
    /// arguments, is [`Kind::End`].
    pub(super) fn lex_direct(&mut self) -> PpToken {
        let mut flags = 0;
        loop {
            if self.stopped {
                return self.end_token(flag::LINE_START);
            }
            if self.buffer.needs_line {
                if !self.fresh_line() {
                    let open = self.state.in_directive() || self.state.arguments != Arguments::None;
                    return self.end_token(if open { 0 } else { flag::LINE_START });
                }
                flags = flag::LINE_START;
                if self.state.arguments == Arguments::Collected {
                    flags |= flag::WHITE;
                }
            }
            if let Some(token) = self.lex_on_line(&mut flags) {
                return token;
            }
        }
    }

    /// The next token of the line; `None` at its end and behind a comment that is not kept.
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
                    if self.buffer.at < self.buffer.limit || self.state.directive == InDirective::Include {
                        self.buffer.line += 1;
                    }
                    self.buffer.needs_line = true;
                    *flags = 0;
                    return None;
                }
                b'/' if matches!(self.buffer.bytes.get(self.buffer.at + 1), Some(b'/' | b'*')) => {
                    let comment = self.comment(*flags);
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
        if nul && !self.state.skipping {
            let at = self.buffer.offset(self.buffer.at);
            let span = Span::new(self.buffer.file, at, at);
            self.report(Diagnostic::warning("nul-character", span, "characters with the code 0 are ignored here"));
        }
    }

    /// Steps over the notes up to here.
    fn pass_notes(&mut self, in_comment: bool) {
        while let Some(note) = self.buffer.pass_note() {
            let span = Span::new(self.buffer.file, note.origin, note.origin);
            match note.kind {
                NoteKind::Splice { blank } => self.pass_splice(blank && !in_comment, span),
                NoteKind::Trigraph { ends_line, third } if !in_comment || ends_line => {
                    let message = format!("`??{}` is no other character than it says", char::from(third));
                    self.report(Diagnostic::warning("trigraph", span, message));
                }
                NoteKind::Trigraph { .. } => {}
            }
        }
    }

    fn pass_splice(&mut self, blank: bool, span: Span) {
        self.counts.splices += 1;
        if blank {
            let message = "blanks are between the backslash and the end of its line, which are spliced nevertheless";
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

    fn plain_token(&mut self, flags: u16) -> PpToken {
        let at = self.buffer.at;
        let lo = self.buffer.offset(at);
        let line = self.buffer.line;
        if flags & flag::LINE_START != 0 {
            self.line_start = (line, self.buffer.column(at));
        }
        let scanned = scan(&self.buffer.bytes, at, self.state.angled_headers);
        self.buffer.at = scanned.end;
        let hi = self.buffer.offset(scanned.end - 1) + 1;
        let span = Span::new(self.buffer.file, lo, hi);
        self.last_span = span;
        let mut token = PpToken { line, ..PpToken::new(scanned.kind, flags, span) };
        if scanned.kind >= Kind::Name {
            let text = String::from_utf8_lossy(&self.buffer.bytes[at..scanned.end]);
            if scanned.kind == Kind::Name {
                token.value = self.names.intern(&text);
                token.text = Some(self.names.node(token.value).text.clone());
                drop(text);
                self.check_name(token.value, span);
            } else {
                token.text = Some((&*text).into());
                let nul = text.contains('\0');
                drop(text);
                if nul && !self.state.skipping && scanned.kind != Kind::Other {
                    let message = "characters with the code 0 are in this string";
                    self.report(Diagnostic::warning("nul-character", span, message));
                }
            }
        }
        // A splice within the token counts for what comes behind it.
        self.pass_notes(false);
        token
    }

    /// Reports a name that may not be used here.
    pub(super) fn check_name(&mut self, symbol: u32, span: Span) {
        if self.state.skipping {
            return;
        }
        let poisoned = self.names.node(symbol).poisoned;
        if poisoned && !self.state.poisoned_ok {
            let message = format!("`{}` is poisoned: it must not be used", self.names.node(symbol).text);
            self.report(Diagnostic::error("poisoned", span, message));
        }
        if (symbol == self.names.va_args || symbol == self.names.va_opt) && !self.state.va_args_ok {
            let message = format!("`{}` means something only in a macro with `...`", self.names.node(symbol).text);
            self.report(Diagnostic::warning("not-variadic", span, message));
        }
    }

    /// The comment here. In directives and in arguments it becomes one of `/* */`, because what
    /// follows may end on its line.
    fn comment(&mut self, flags: u16) -> PpToken {
        let start = self.buffer.at;
        let lo = self.buffer.offset(start);
        let line = self.buffer.line;
        if flags & flag::LINE_START != 0 {
            self.line_start = (line, self.buffer.column(start));
        }
        let file = self.buffer.file;
        let of_line = self.buffer.bytes[start + 1] == b'/';
        if of_line {
            while self.buffer.byte() != b'\n' {
                self.buffer.at += 1;
            }
            self.pass_notes(true);
        } else if !self.skip_block_comment() {
            let span = Span::new(file, lo, self.buffer.offset(self.buffer.at));
            let diagnostic = Diagnostic::error("syntax", span, "this comment is never closed");
            self.open_comment = true;
            self.report(diagnostic.help("add the closing `*/`"));
        }
        let hi = self.buffer.offset(self.buffer.at.max(start + 1) - 1) + 1;
        let span = Span::new(file, lo, hi);
        self.last_span = span;
        let mut token = PpToken { line, ..PpToken::new(Kind::Comment, flags, span) };
        if self.state.keeps_comments() && !self.state.skipping {
            let mut bytes = &self.buffer.bytes[start..self.buffer.at.max(start)];
            if let Some((b'\n', head)) = bytes.split_last() {
                bytes = head;
            }
            let text = String::from_utf8_lossy(bytes);
            let in_arguments = self.state.arguments != Arguments::None;
            token.text = Some(if of_line && in_arguments { block_comment(&text).into() } else { (&*text).into() });
        }
        token
    }

    /// Steps over `/* ... */`; false if the file ends first.
    fn skip_block_comment(&mut self) -> bool {
        let mut at = self.buffer.at + 2;
        if self.buffer.bytes.get(at) == Some(&b'/') {
            at += 1;
        }
        loop {
            match self.buffer.bytes.get(at).copied().unwrap_or(b'\n') {
                b'/' if self.buffer.bytes[at - 1] == b'*' => {
                    self.buffer.at = at + 1;
                    self.pass_notes(true);
                    return true;
                }
                b'\n' => {
                    self.buffer.at = at;
                    self.pass_notes(true);
                    if !self.buffer.has_line() {
                        return false;
                    }
                    self.buffer.read_line();
                    self.buffer.line += 1;
                    at = self.buffer.at;
                }
                _ => at += 1,
            }
        }
    }

    /// Goes to a line with text; false at the end of a directive, of everything, and of a file
    /// within arguments.
    fn fresh_line(&mut self) -> bool {
        if self.state.in_directive() {
            return false;
        }
        loop {
            if !self.buffer.needs_line {
                return true;
            }
            if self.buffer.has_line() {
                self.buffer.read_line();
                return true;
            }
            if self.state.arguments != Arguments::None {
                return false;
            }
            if self.outer.is_empty() {
                self.close_conditions();
                self.ended = true;
                return false;
            }
            self.leave_file();
        }
    }

    /// A token for an end.
    pub(super) fn end_token(&self, flags: u16) -> PpToken {
        let span = match self.state.in_directive() {
            true => self.last_span.end(),
            false => {
                let at = self.buffer.at.min(self.buffer.limit) as u32;
                Span::new(self.buffer.file, at, at)
            }
        };
        PpToken { line: self.buffer.line, ..PpToken::new(Kind::End, flags, span) }
    }
}

/// `// text` as `/* text*/`, without what would end it earlier.
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
