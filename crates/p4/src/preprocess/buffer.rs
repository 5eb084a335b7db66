//! Reads a file as logical lines: physical lines, joined at trailing backslashes.
//!
//! As in cpp, lines are spliced before tokens are formed. So a splice can be anywhere, even within
//! a name, and blanks can precede the end of the line after the backslash. A line is spliced in
//! place; the bytes saved remain after its new end. As in cpp's output, a kept comment over several
//! lines includes those bytes.

use crate::span::{FileId, Span};
use std::path::PathBuf;
use std::rc::Rc;

/// A position of a line with an event that is handled when the position is reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineNote {
    /// Byte offset in the spliced text.
    pub at: usize,
    /// Number of bytes by which the text after this position is moved forward.
    shift: usize,
    /// Byte offset of the position in the file.
    pub origin: u32,
    pub kind: LineNoteKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineNoteKind {
    /// A line splice.
    Splice {
        /// Whether blanks follow the backslash.
        blank: bool,
    },
    /// `??` and a character that formed a trigraph in old C and is ordinary text here.
    Trigraph {
        /// Whether it would be a backslash at the end of the line.
        ends_line: bool,
        /// The third character.
        third: u8,
    },
}

/// An open conditional.
#[derive(Debug)]
pub(super) struct OpenConditional {
    /// Span of the `#if`.
    pub span: Span,
    /// The last directive: `if`, `ifdef`, `ifndef`, `elif` or `else`.
    pub directive: &'static str,
    /// Whether all further `#elif` and `#else` branches are skipped.
    pub skip_others: bool,
    /// Whether the text around the conditional is skipped.
    pub was_skipping: bool,
}

/// Search location of a file, from which `#include_next` continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SearchLocation {
    /// The directory of the including file.
    Here,
    /// The include directory with this index.
    Directory(usize),
}

/// A text being read.
#[derive(Debug)]
pub(super) struct LineBuffer {
    pub file: FileId,
    pub path: PathBuf,
    pub found_in: SearchLocation,
    /// The name used by `__FILE__` and `#line`.
    pub name: Rc<str>,
    /// The text and a final newline. Lines already read are spliced.
    pub bytes: Vec<u8>,
    /// Length of the text without the added newline, in bytes.
    pub limit: usize,
    /// Offset of the next byte.
    pub at: usize,
    /// Start of the line, or of the text after its last splice. Columns count from here.
    pub line_base: usize,
    /// Start of the next line. Past `limit` if the last line has no newline or ends with a
    /// backslash.
    pub next_line: usize,
    /// Whether the current line is used up.
    pub is_line_used_up: bool,
    notes: Vec<LineNote>,
    next_note: usize,
    /// Line number, with `#line` applied.
    pub line: u32,
    pub conditions: Vec<OpenConditional>,
    /// Whether the text comes from no file: definitions of the command line, `_Pragma`.
    pub is_internal: bool,
}

/// Returns whether the byte is white space within a line.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | 0)
}

impl LineBuffer {
    /// Creates the buffer of a file, before its first line; a byte order mark is skipped. `path` is
    /// where the file was read, `name` its name for `__FILE__`.
    pub fn new(file: FileId, path: PathBuf, found_in: SearchLocation, name: &str, text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        bytes.extend_from_slice(text.as_bytes());
        // A lone `\r` ends a line as well. After a `\r`, append another `\r`, because `\r\n` would
        // be a single line end.
        bytes.push(if text.ends_with('\r') { b'\r' } else { b'\n' });
        let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
        LineBuffer {
            file,
            path,
            found_in,
            name: name.into(),
            limit: text.len(),
            bytes,
            at: start,
            line_base: start,
            next_line: start,
            is_line_used_up: true,
            notes: Vec::new(),
            next_note: 0,
            line: 1,
            conditions: Vec::new(),
            is_internal: false,
        }
    }

    /// Creates a buffer of a single line that comes from no file.
    pub fn internal(text: &str, name: Rc<str>, line: u32) -> Self {
        let mut buffer = LineBuffer::new(FileId(u32::MAX), PathBuf::new(), SearchLocation::Here, "", text);
        buffer.is_internal = true;
        buffer.name = name;
        buffer.line = line;
        buffer.read_line();
        buffer
    }

    pub fn byte(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b'\n')
    }

    /// Returns the column of `at`, from 1, in bytes.
    pub fn column(&self, at: usize) -> u32 {
        (at - self.line_base.min(at)) as u32 + 1
    }

    /// Returns the file offset of byte `at` of this line.
    pub fn offset(&self, at: usize) -> u32 {
        let before = self.notes[self.next_note..].iter().take_while(|note| note.at <= at).last();
        let shift = before.or_else(|| self.notes[..self.next_note].last()).map_or(0, |note| note.shift);
        (at + shift).min(self.limit) as u32
    }

    /// Returns the next note at or before the current position. Each note is returned once.
    pub fn pass_note(&mut self) -> Option<LineNote> {
        let note = *self.notes.get(self.next_note).filter(|note| note.at <= self.at)?;
        self.next_note += 1;
        if matches!(note.kind, LineNoteKind::Splice { .. }) {
            self.line_base = note.at;
            self.line += 1;
        }
        Some(note)
    }

    /// Returns whether the file has another line.
    pub fn has_line(&self) -> bool {
        self.next_line < self.limit
    }

    /// Reads the logical line that begins at `next_line`. Physical lines are joined in place: a
    /// splice (backslash and newline) is removed by moving the following bytes down. Each splice
    /// and trigraph becomes a note at its position, which also tells by how many bytes the text
    /// after it was moved.
    pub fn read_line(&mut self) {
        self.notes.clear();
        self.next_note = 0;
        self.at = self.next_line;
        self.line_base = self.at;
        self.is_line_used_up = false;
        let start = self.at;
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let len = self.bytes[start..].iter().position(is_end).unwrap_or(self.limit.saturating_sub(start));
        let mut read_at = (start + len).min(self.limit);
        let mut write_at = read_at;
        if !self.is_internal {
            self.note_trigraphs(start, read_at);
        }
        // After a splice, only a backslash in the appended text can start another splice.
        let mut splice_limit = start;
        loop {
            if read_at == self.limit {
                break;
            }
            if read_at != write_at {
                self.bytes[write_at] = self.bytes[read_at];
            }
            if self.bytes[read_at] == b'\r' && self.bytes[read_at + 1] == b'\n' {
                read_at += 1;
                if read_at == self.limit {
                    break;
                }
            }
            let blanks = self.bytes[splice_limit..write_at].iter().rev().take_while(|byte| is_blank(**byte)).count();
            let Some(backslash) = (write_at - blanks).checked_sub(1).filter(|at| *at >= splice_limit) else { break };
            if self.is_internal || self.bytes[backslash] != b'\\' {
                break;
            }
            let shift = read_at + 1 - backslash;
            let shift_before = self.notes.last().map_or(0, |note| note.shift);
            let origin = (backslash + shift_before) as u32;
            let kind = LineNoteKind::Splice { blank: blanks > 0 };
            self.notes.push(LineNote { at: backslash, shift, origin, kind });
            splice_limit = backslash;
            write_at = backslash;
            read_at += 1;
            while read_at < self.limit && !matches!(self.bytes[read_at], b'\n' | b'\r') {
                if let Some(third) = trigraph_third(&self.bytes[read_at..]) {
                    let kind = LineNoteKind::Trigraph { ends_line: false, third };
                    self.notes.push(LineNote { at: write_at, shift, origin: read_at as u32, kind });
                }
                self.bytes[write_at] = self.bytes[read_at];
                write_at += 1;
                read_at += 1;
            }
        }
        self.bytes[write_at] = b'\n';
        self.next_line = read_at + 1;
        self.find_line_ends(write_at);
    }

    fn note_trigraphs(&mut self, start: usize, end: usize) {
        let mut at = start;
        while let Some(found) = self.bytes[at..end].iter().position(|byte| *byte == b'?') {
            at += found;
            if let Some(third) = trigraph_third(&self.bytes[at..]) {
                let kind = LineNoteKind::Trigraph { ends_line: false, third };
                self.notes.push(LineNote { at, shift: 0, origin: at as u32, kind });
            }
            at += 1;
        }
    }

    /// Marks the backslash trigraphs at the ends of the physical lines. `end` is the end of the
    /// logical line.
    fn find_line_ends(&mut self, end: usize) {
        for index in 0..self.notes.len() {
            let next = self.notes.get(index + 1).map_or(end + 1, |note| note.at);
            let note = &mut self.notes[index];
            if let LineNoteKind::Trigraph { ends_line, third: b'/' } = &mut note.kind {
                let tail = self.bytes.get(note.at + 3..).unwrap_or(&[]);
                let blanks = tail.iter().take_while(|byte| is_blank(**byte)).count();
                let newline = note.at + 3 + blanks;
                *ends_line = self.bytes.get(newline) == Some(&b'\n') && newline < next;
            }
        }
    }
}

/// Returns the third character of a trigraph at the start of `bytes`.
fn trigraph_third(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [b'?', b'?', third, ..] if b"=/'()!<>-".contains(third) => Some(*third),
        _ => None,
    }
}
