//! A file as it is read: logical lines, which are lines of the file spliced at backslashes.
//!
//! As cpp does it: splices vanish before there are tokens, so that they may be anywhere, also
//! within a name, and blanks may be between the backslash and the line's end. A line is spliced in
//! place, and what it got shorter by stays behind it; a comment over several lines that is kept
//! has those bytes in it, in cpp's output as well as here.

use crate::span::{FileId, Span};
use std::path::PathBuf;
use std::rc::Rc;

/// A place of a line to which there is something to say when it is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    /// Offset in the spliced text.
    pub at: usize,
    /// How far the text from here on is moved to the front.
    shift: usize,
    /// Offset of the place in the file.
    pub origin: u32,
    pub kind: NoteKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoteKind {
    /// The line was spliced.
    Splice {
        /// Blanks are between the backslash and the line's end.
        blank: bool,
    },
    /// `??` and a character that C once replaced, and does no more.
    Trigraph {
        /// It is a backslash at the end of the line.
        ends_line: bool,
        /// The third character.
        third: u8,
    },
}

/// A conditional that is open.
#[derive(Debug)]
pub(super) struct Condition {
    /// The `#if`.
    pub span: Span,
    /// `if`, `ifdef`, `ifndef`, `elif` or `else`, which was last.
    pub directive: &'static str,
    /// No `#elif` and no `#else` that follows is read.
    pub skip_others: bool,
    /// The text around the conditional is skipped.
    pub was_skipping: bool,
}

/// Where a file was found, from which `#include_next` goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FoundIn {
    /// Beside the file that includes it.
    Here,
    /// In the include directory of that number.
    Directory(usize),
}

/// A text that is being read.
#[derive(Debug)]
pub(super) struct Buffer {
    pub file: FileId,
    pub path: PathBuf,
    pub found_in: FoundIn,
    /// The name that `__FILE__` and `#line` know.
    pub name: Rc<str>,
    /// The text and a newline; lines that have been read are spliced.
    pub bytes: Vec<u8>,
    /// Length of the text without the newline that was added.
    pub limit: usize,
    /// The next byte.
    pub at: usize,
    /// Where the line, or what follows its last splice, begins. Columns count from here.
    pub line_base: usize,
    /// Where the next line begins. Past `limit` if the last line has no newline or ends with a
    /// backslash.
    pub next_line: usize,
    /// The line is used up.
    pub needs_line: bool,
    notes: Vec<Note>,
    next_note: usize,
    /// Number of the line, as `#line` would have it.
    pub line: u32,
    pub conditions: Vec<Condition>,
    /// Text that no file has: definitions of the command line, `_Pragma`.
    pub is_internal: bool,
}

/// White space within a line.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | 0)
}

impl Buffer {
    pub fn new(file: FileId, path: PathBuf, found_in: FoundIn, name: &str, text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        // A lone `\r` ends a line, too; a newline behind it would make one end of the two.
        bytes.push(if text.ends_with('\r') { b'\r' } else { b'\n' });
        let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Buffer {
            file,
            path,
            found_in,
            name: name.into(),
            limit: text.len(),
            bytes,
            at: start,
            line_base: start,
            next_line: start,
            needs_line: true,
            notes: Vec::new(),
            next_note: 0,
            line: 1,
            conditions: Vec::new(),
            is_internal: false,
        }
    }

    /// A single line that comes from no file.
    pub fn internal(text: &str, name: Rc<str>, line: u32) -> Self {
        let mut buffer = Buffer::new(FileId(u32::MAX), PathBuf::new(), FoundIn::Here, "", text);
        buffer.is_internal = true;
        buffer.name = name;
        buffer.line = line;
        buffer.read_line();
        buffer
    }

    pub fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Column of `at`, from 1, in bytes.
    pub fn column(&self, at: usize) -> u32 {
        (at - self.line_base.min(at)) as u32 + 1
    }

    /// Where the byte `at` of this line is in the file.
    pub fn offset(&self, at: usize) -> u32 {
        let before = self.notes[self.next_note..].iter().take_while(|note| note.at <= at).last();
        let shift = before.or_else(|| self.notes[..self.next_note].last()).map_or(0, |note| note.shift);
        (at + shift).min(self.limit) as u32
    }

    /// The next note that is at or before `at`; each is given once.
    pub fn pass_note(&mut self) -> Option<Note> {
        let note = *self.notes.get(self.next_note).filter(|note| note.at <= self.at)?;
        self.next_note += 1;
        if matches!(note.kind, NoteKind::Splice { .. }) {
            self.line_base = note.at;
            self.line += 1;
        }
        Some(note)
    }

    /// Whether the file has one more line.
    pub fn has_line(&self) -> bool {
        self.next_line < self.limit
    }

    /// Reads the logical line that begins at `next_line`.
    pub fn read_line(&mut self) {
        self.notes.clear();
        self.next_note = 0;
        self.at = self.next_line;
        self.line_base = self.at;
        self.needs_line = false;
        let start = self.at;
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let len = self.bytes[start..].iter().position(is_end).unwrap_or(self.limit.saturating_sub(start));
        let mut source = (start + len).min(self.limit);
        let mut target = source;
        if !self.is_internal {
            self.note_trigraphs(start, source);
        }
        // Of what follows a splice, a backslash counts only if it is behind the splice.
        let mut from = start;
        loop {
            if source == self.limit {
                break;
            }
            if source != target {
                self.bytes[target] = self.bytes[source];
            }
            if self.bytes[source] == b'\r' && self.bytes[source + 1] == b'\n' {
                source += 1;
                if source == self.limit {
                    break;
                }
            }
            let blanks = self.bytes[from..target].iter().rev().take_while(|byte| is_blank(**byte)).count();
            let Some(backslash) = (target - blanks).checked_sub(1).filter(|at| *at >= from) else { break };
            if self.is_internal || self.bytes[backslash] != b'\\' {
                break;
            }
            let shift = source + 1 - backslash;
            let before = self.notes.last().map_or(0, |note| note.shift);
            let origin = (backslash + before) as u32;
            let kind = NoteKind::Splice { blank: blanks > 0 };
            self.notes.push(Note { at: backslash, shift, origin, kind });
            from = backslash;
            target = backslash;
            source += 1;
            while source < self.limit && !matches!(self.bytes[source], b'\n' | b'\r') {
                if let Some(third) = trigraph(&self.bytes[source..]) {
                    let kind = NoteKind::Trigraph { ends_line: false, third };
                    self.notes.push(Note { at: target, shift, origin: source as u32, kind });
                }
                self.bytes[target] = self.bytes[source];
                target += 1;
                source += 1;
            }
        }
        self.bytes[target] = b'\n';
        self.next_line = source + 1;
        self.find_line_ends(target);
    }

    fn note_trigraphs(&mut self, start: usize, end: usize) {
        let mut at = start;
        while let Some(found) = self.bytes[at..end].iter().position(|byte| *byte == b'?') {
            at += found;
            if let Some(third) = trigraph(&self.bytes[at..]) {
                let kind = NoteKind::Trigraph { ends_line: false, third };
                self.notes.push(Note { at, shift: 0, origin: at as u32, kind });
            }
            at += 1;
        }
    }

    /// Marks the trigraphs for a backslash that are at the end of the line, which is at `end`.
    fn find_line_ends(&mut self, end: usize) {
        for index in 0..self.notes.len() {
            let next = self.notes.get(index + 1).map_or(end + 1, |note| note.at);
            let note = &mut self.notes[index];
            if let NoteKind::Trigraph { ends_line, third: b'/' } = &mut note.kind {
                let tail = self.bytes.get(note.at + 3..).unwrap_or(&[]);
                let blanks = tail.iter().take_while(|byte| is_blank(**byte)).count();
                let newline = note.at + 3 + blanks;
                *ends_line = self.bytes.get(newline) == Some(&b'\n') && newline < next;
            }
        }
    }
}

/// The third character of a trigraph at the front.
fn trigraph(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'?', b'?', third, ..] if b"=/'()!<>-".contains(third) => Some(*third),
        _ => None,
    }
}
