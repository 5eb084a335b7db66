//! Source positions: byte spans, and the map from spans to file, line and column.
//!
//! A [`Span`] points into the file in which the text was *written*, not into preprocessed text. A
//! token of an `#include`d file is located in that file; a token that a macro produced is located
//! at the use of the macro.

use std::fmt;
use std::sync::Arc;

/// Index of a source file in a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct FileId(pub u32);

/// A half-open range of bytes `lo..hi` in one source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The file that contains the text.
    pub file: FileId,
    /// Offset of the first byte.
    pub lo: u32,
    /// Offset after the last byte.
    pub hi: u32,
}

impl Span {
    /// Creates the span of bytes `lo..hi` of `file`.
    pub fn new(file: FileId, lo: u32, hi: u32) -> Self {
        Span { file, lo, hi }
    }

    /// Returns the smallest span that covers both. Returns `self` if they are in different files (a
    /// declaration that an `#include` interrupts).
    pub fn to(self, end: Span) -> Span {
        if self.file != end.file {
            return self;
        }
        Span { file: self.file, lo: self.lo.min(end.lo), hi: self.hi.max(end.hi) }
    }

    /// Returns the empty span directly before this one.
    pub fn start(self) -> Span {
        Span { hi: self.lo, ..self }
    }

    /// Returns the empty span directly after this one.
    pub fn end(self) -> Span {
        Span { lo: self.hi, ..self }
    }

    /// Returns the number of bytes covered.
    pub fn len(self) -> u32 {
        self.hi.saturating_sub(self.lo)
    }

    /// Returns whether the span covers no byte.
    pub fn is_empty(self) -> bool {
        self.hi <= self.lo
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}..{}", self.file.0, self.lo, self.hi)
    }
}

/// Human-readable position: file name, line and column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Location {
    /// The path by which the file was opened.
    pub file: Arc<str>,
    /// Line number, starting at 1.
    pub line: u32,
    /// Column, starting at 1, in characters (not bytes).
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Path and text of one file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The path by which the file was opened; shown in diagnostics.
    pub path: Arc<str>,
    /// The whole text.
    pub text: Arc<str>,
    /// Offset of the first byte of each line.
    line_starts: Vec<u32>,
    /// `#line` directives in file order.
    line_directives: Vec<LineDirective>,
}

/// Effect of a `#line` directive on the lines after it.
#[derive(Clone, Debug)]
struct LineDirective {
    /// Byte offset at which the new numbers start.
    from: u32,
    /// Line number of the line at `from`.
    line: u32,
    /// Name of the file that the lines come from.
    path: Arc<str>,
}

impl SourceFile {
    fn new(path: Arc<str>, text: Arc<str>) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at as u32 + 1)).collect();
        SourceFile { path, text, line_starts, line_directives: Vec::new() }
    }

    /// Returns the index (from 0) of the line that contains byte `offset`.
    fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Returns the last `#line` directive before `offset`.
    fn last_renumbering(&self, offset: u32) -> Option<&LineDirective> {
        self.line_directives.iter().rev().find(|r| r.from <= offset)
    }

    /// Returns the byte range of the line that contains `offset`, without its line end; `None` past
    /// the end of the file.
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

/// All files that one compilation read, indexed by [`FileId`].
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Creates a map without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and returns its id. Callers limit the size of `text` (see
    /// [`crate::preprocess::PreprocessLimits`]), because spans cannot address text beyond 4 GiB.
    pub fn add(&mut self, path: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile::new(path.into(), text.into()));
        id
    }

    /// Returns the file with the given id.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// Iterates over all files in the order in which they were opened; the first is the main
    /// program.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(at, file)| (FileId(at as u32), file))
    }

    /// Records a `#line line "path"` directive: the line of `file` that begins at byte `from` gets
    /// number `line` of `path`. Without a path, the lines keep their file name.
    pub fn add_line_directive(&mut self, file: FileId, from: u32, line: u32, path: Option<Arc<str>>) {
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            let path =
                path.unwrap_or_else(|| file.last_renumbering(from).map_or(file.path.clone(), |r| r.path.clone()));
            file.line_directives.push(LineDirective { from, line, path });
        }
    }

    /// Returns the text that a span covers; empty if the span is not of this map.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(span.lo as usize..span.hi as usize)).unwrap_or("")
    }

    /// Returns file, line and column of the first byte of the span, with `#line` directives
    /// applied; `None` if the span is not of this map.
    pub fn location(&self, span: Span) -> Option<Location> {
        let file = self.file(span.file)?;
        let line = file.line_index(span.lo);
        let start = file.line_starts[line] as usize;
        let before = file.text.get(start..span.lo as usize).unwrap_or("");
        let column = before.chars().count() as u32 + 1;
        Some(match file.last_renumbering(span.lo) {
            None => Location { file: file.path.clone(), line: line as u32 + 1, column },
            Some(r) => {
                let since = (line - file.line_index(r.from)) as u32;
                Location { file: r.path.clone(), line: r.line.saturating_add(since), column }
            }
        })
    }

    /// Returns the source line that contains the first byte of the span, without its line end.
    pub fn line(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(f.line_range(span.lo)?)).unwrap_or("")
    }
}
