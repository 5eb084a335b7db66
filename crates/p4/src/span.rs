//! Where text is: byte spans in source files, and the map from spans to file, line and column.
//!
//! A [`Span`] points into the file the text was *written* in, not into preprocessed text: a token that came
//! out of an `#include`d file is located in that file, and a token that came out of a macro is located at
//! the macro's use.

use std::fmt;
use std::sync::Arc;

/// A source file of a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileId(pub u32);

/// A half-open range of bytes `lo..hi` in one source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The file that the text is in.
    pub file: FileId,
    /// Offset of the first byte.
    pub lo: u32,
    /// Offset after the last byte.
    pub hi: u32,
}

impl Span {
    /// The span of bytes `lo..hi` of `file`.
    pub fn new(file: FileId, lo: u32, hi: u32) -> Self {
        Span { file, lo, hi }
    }

    /// The smallest span that covers both. When they are in different files (a declaration that an
    /// `#include` interrupts), there is no such span and `self` is returned.
    pub fn to(self, end: Span) -> Span {
        if self.file != end.file {
            return self;
        }
        Span { file: self.file, lo: self.lo.min(end.lo), hi: self.hi.max(end.hi) }
    }

    /// The empty span right before this one.
    pub fn start(self) -> Span {
        Span { hi: self.lo, ..self }
    }

    /// The empty span right after this one.
    pub fn end(self) -> Span {
        Span { lo: self.hi, ..self }
    }

    /// Number of bytes covered.
    pub fn len(self) -> u32 {
        self.hi.saturating_sub(self.lo)
    }

    /// Whether no byte is covered.
    pub fn is_empty(self) -> bool {
        self.hi <= self.lo
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}..{}", self.file.0, self.lo, self.hi)
    }
}

/// A position for people: file name, line and column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The path by which the file was opened.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters (not bytes).
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One file's path and text.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path by which the file was opened; shown in diagnostics.
    pub path: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
    /// Offset of the first byte of each line.
    line_starts: Vec<u32>,
    /// `#line` directives in the order of the file.
    renumberings: Vec<Renumbering>,
}

/// What a `#line` directive says about the lines after it.
#[derive(Clone, Debug)]
struct Renumbering {
    /// Offset from which it holds.
    from: u32,
    /// The number that the line at `from` has.
    line: u32,
    /// The file that the lines are from.
    path: Arc<str>,
}

impl SourceFile {
    fn new(path: Arc<str>, text: Arc<str>) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        SourceFile { path, text, line_starts, renumberings: Vec::new() }
    }

    /// Index (from 0) of the line that holds the byte at `offset`.
    fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The last `#line` directive before `offset`.
    fn presumed(&self, offset: u32) -> Option<&Renumbering> {
        self.renumberings.iter().rev().find(|r| r.from <= offset)
    }

    /// The bytes of the line that holds `offset`, without its line end; `None` past the end of the file.
    pub fn line_range(&self, offset: u32) -> Option<std::ops::Range<usize>> {
        if offset as usize > self.text.len() {
            return None;
        }
        let index = self.line_index(offset);
        let start = *self.line_starts.get(index)? as usize;
        let end = self.line_starts.get(index + 1).map_or(self.text.len(), |next| *next as usize);
        let line = self.text.get(start..end)?.trim_end_matches(['\n', '\r']);
        Some(start..start + line.len())
    }
}

/// All files that one compilation read, by [`FileId`].
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// A map without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and gives its id. Text beyond 4 GiB cannot be addressed by spans; callers bound the size
    /// of what they read (see [`crate::preprocess::Limits`]).
    pub fn add(&mut self, path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile::new(path.into(), text.into()));
        id
    }

    /// The file of that id.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// All files in the order they were opened; the first is the main program.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(at, file)| (FileId(at as u32), file))
    }

    /// Records `#line line "path"`: the line of `file` that begins at byte `from` is to be called `line` of `path`
    /// (of the file's own name without a path).
    pub fn renumber(&mut self, file: FileId, from: u32, line: u32, path: Option<Arc<str>>) {
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            let path = path.unwrap_or_else(|| file.presumed(from).map_or(file.path.clone(), |r| r.path.clone()));
            file.renumberings.push(Renumbering { from, line, path });
        }
    }

    /// The text that a span covers; empty if the span is not of this map.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(span.lo as usize..span.hi as usize)).unwrap_or("")
    }

    /// File, line and column of the span's first byte, as `#line` directives would have it; `None` if the span is not of this map.
    pub fn location(&self, span: Span) -> Option<Location> {
        let file = self.file(span.file)?;
        let line = file.line_index(span.lo);
        let start = file.line_starts[line] as usize;
        let before = file.text.get(start..span.lo as usize).unwrap_or("");
        let column = before.chars().count() as u32 + 1;
        Some(match file.presumed(span.lo) {
            None => Location { file: file.path.clone(), line: line as u32 + 1, column },
            Some(r) => {
                let since = (line - file.line_index(r.from)) as u32;
                Location { file: r.path.clone(), line: r.line.saturating_add(since), column }
            }
        })
    }

    /// The source line that holds the span's first byte, without its line end.
    pub fn line(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(f.line_range(span.lo)?)).unwrap_or("")
    }
}
