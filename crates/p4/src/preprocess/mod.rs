//! The preprocessor: directives and macros over the tokens of files.
//!
//! The subset that the specification asks for (section "Preprocessing"), and what P4 programs in the field use of
//! C's preprocessor beyond it: macros with arguments, `#` and `##`, `#error`, `#warning`, `#line`,
//! `#pragma once`. It works on tokens, not on text, so that every token keeps the place it was written at.
//! Input is hostile: depth of inclusion, size of files and the number of tokens made are bounded by [`Limits`].

mod condition;
mod directive;
mod expand;
mod loader;
mod macros;

pub use loader::{DiskLoader, FileLoader, MemoryLoader};

use crate::diag::Diagnostic;
use crate::lex::{Interner, Scanner, Tok, Token};
use crate::span::{FileId, SourceMap, Span};
use condition::Conditions;
use expand::Source;
use macros::Macro;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The code of the finding that an included file does not exist.
pub(crate) const INCLUDE_NOT_FOUND: &str = "include-not-found";

/// What the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories in which `#include` searches, in order. For `#include "x"`, the including file's directory comes first.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name (with parameters, if any: `f(x)`) and replacement.
    pub defines: Vec<(String, String)>,
    /// Bounds on time and memory.
    pub limits: Limits,
}

/// Bounds that hostile input runs into and other input does not.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How deep `#include` nests.
    pub include_depth: usize,
    /// How many files are read in all.
    pub files: usize,
    /// Bytes in one file.
    pub file_bytes: usize,
    /// Tokens that are put out, and tokens that macro expansion makes on the way.
    pub tokens: usize,
    /// How deep macro calls nest in arguments of macro calls.
    pub macro_depth: usize,
    /// Errors after which the rest is not looked at.
    pub errors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { include_depth: 64, files: 1000, file_bytes: 16 << 20, tokens: 2_000_000, macro_depth: 64, errors: 100 }
    }
}

/// The tokens of a program and all it includes.
#[derive(Debug)]
pub struct Preprocessed {
    /// The files that were read.
    pub source_map: SourceMap,
    /// The tokens; the last is [`Tok::Eof`].
    pub tokens: Vec<Token>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads `main` and all that it includes.
///
/// A file that cannot be read, and everything else that is wrong, is a diagnostic; the rest is read nevertheless.
pub fn preprocess(loader: &dyn FileLoader, main: &Path, options: &Options) -> Preprocessed {
    let mut pp = Preprocessor::new(loader, options);
    pp.define_from_options();
    let main_file = pp.open_main(main);
    let end = main_file.and_then(|file| pp.map.file(file).map(|f| f.text.len() as u32)).unwrap_or(0);
    if let Some(file) = main_file {
        pp.run_file(file, main);
    }
    let file = main_file.unwrap_or_default();
    pp.out.push(Token {
        kind: Tok::Eof,
        text: "".into(),
        span: Span::new(file, end, end),
        spaced: true,
        line_start: true,
    });
    Preprocessed { source_map: pp.map, tokens: pp.out, diagnostics: pp.diagnostics }
}

struct Preprocessor<'a> {
    loader: &'a dyn FileLoader,
    options: &'a Options,
    map: SourceMap,
    interner: Interner,
    macros: HashMap<Arc<str>, Rc<Macro>>,
    /// Files with `#pragma once`.
    once: HashSet<PathBuf>,
    out: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
    include_depth: usize,
    macro_depth: usize,
    /// Tokens that may still be made.
    budget: usize,
    /// A limit was hit: nothing more is read.
    stopped: bool,
}

/// The file that is being read.
struct OpenFile {
    scanner: Scanner,
    path: PathBuf,
    /// A token that was read too far.
    peeked: Option<Token>,
    conditions: Conditions,
}

impl OpenFile {
    fn next_token(&mut self, interner: &mut Interner) -> Token {
        self.peeked.take().unwrap_or_else(|| self.scanner.next_token(interner))
    }

    fn peek(&mut self, interner: &mut Interner) -> &Token {
        self.peeked.get_or_insert_with(|| self.scanner.next_token(interner))
    }
}

impl<'a> Preprocessor<'a> {
    fn new(loader: &'a dyn FileLoader, options: &'a Options) -> Self {
        Preprocessor {
            loader,
            options,
            map: SourceMap::new(),
            interner: Interner::default(),
            macros: HashMap::new(),
            once: HashSet::new(),
            out: Vec::new(),
            diagnostics: Vec::new(),
            include_depth: 0,
            macro_depth: 0,
            budget: options.limits.tokens,
            stopped: false,
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        let span = diagnostic.primary;
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() == self.options.limits.errors {
            self.diagnostics.push(Diagnostic::too_many(self.options.limits.errors, span));
            self.stopped = true;
        }
    }

    /// Uses up `count` tokens; reports and stops when there are none left.
    fn spend(&mut self, count: usize, at: Span) -> bool {
        if self.stopped {
            return false;
        }
        if let Some(left) = self.budget.checked_sub(count) {
            self.budget = left;
            return true;
        }
        let limit = self.options.limits.tokens;
        self.report(
            Diagnostic::error("limit", at, format!("the program has more than {limit} tokens after preprocessing"))
                .help("look for a file that includes itself or a macro that multiplies itself"),
        );
        self.stopped = true;
        false
    }

    /// Opens the main file. The id 0 is always the main file's, so that a missing one can be reported.
    fn open_main(&mut self, path: &Path) -> Option<FileId> {
        match self.loader.load(path, self.options.limits.file_bytes) {
            Ok(text) => Some(self.map.add(path.display().to_string(), text)),
            Err(error) => {
                let file = self.map.add(path.display().to_string(), "");
                let message = format!("cannot read `{}`: {error}", path.display());
                self.report(Diagnostic::error("cannot-read", Span::new(file, 0, 0), message));
                None
            }
        }
    }

    /// Puts out all tokens of a file.
    fn run_file(&mut self, file: FileId, path: &Path) {
        let Some(text) = self.map.file(file).map(|f| f.text.clone()) else { return };
        let mut open = OpenFile {
            scanner: Scanner::new(file, text),
            path: path.to_owned(),
            peeked: None,
            conditions: Conditions::default(),
        };
        while !self.stopped {
            let token = open.next_token(&mut self.interner);
            match token.kind {
                Tok::Eof => break,
                Tok::Hash if token.line_start => self.directive(token, &mut open),
                _ if !open.conditions.active() => {}
                kind if self.names_macro(kind, &token.text) => {
                    self.expand_use(token, &mut open);
                }
                _ => self.emit(token),
            }
        }
        if let Some(span) = open.conditions.open_at() {
            self.report(
                Diagnostic::error("unbalanced-conditional", span, "this conditional is never closed")
                    .help("add `#endif`"),
            );
        }
    }

    fn names_macro(&self, kind: Tok, name: &str) -> bool {
        (kind == Tok::Ident || kind.is_keyword()) && (self.macros.contains_key(name) || is_builtin(name))
    }

    /// Expands the macro use that begins with `token`, reading its arguments from the file.
    fn expand_use(&mut self, token: Token, open: &mut OpenFile) {
        let mut source = Source::of_file(token, open);
        while let Some(expanded) = self.next_expanded(&mut source) {
            self.emit(expanded);
            if source.is_drained() {
                break;
            }
        }
    }

    fn emit(&mut self, token: Token) {
        match token.kind {
            Tok::Unterminated if token.text.starts_with('"') => self.report(
                Diagnostic::error("syntax", token.span, "this string is never closed").help("add the closing `\"`"),
            ),
            Tok::Unterminated => self.report(
                Diagnostic::error("syntax", token.span, "this comment is never closed").help("add the closing `*/`"),
            ),
            _ => {
                if self.spend(1, token.span) {
                    self.out.push(token);
                }
            }
        }
    }
}

/// Macros that the preprocessor itself defines.
fn is_builtin(name: &str) -> bool {
    matches!(name, "__FILE__" | "__LINE__")
}
