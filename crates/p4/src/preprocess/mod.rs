//! The preprocessor: what `cpp -E -C -undef -nostdinc -x assembler-with-cpp` does, which is how
//! p4c reads a program.
//!
//! In order: [`buffer`] splices lines, [`scan`] makes cpp's tokens of them, [`lines`] executes
//! directives, [`expand`] replaces macros, [`print`] writes the text that comes out, to the blank
//! as cpp writes it. P4's scanner ([`crate::lex`]) reads that text, and every token of it knows
//! where it was written. A test holds all of it against the cpp of the machine with generated
//! inputs.
//!
//! Where cpp warns or errs, so does this, with an excerpt of the source. Input is hostile: depth
//! of inclusion, size of files and what expansion makes are bounded by [`Limits`], and nothing
//! recurses by the input but calls in arguments of calls.

mod buffer;
mod builtin;
mod clock;
mod condition;
mod constant;
mod directive;
mod expand;
mod expression;
mod include;
mod lines;
mod loader;
mod macros;
mod names;
mod number;
mod paste;
mod pragma;
mod print;
mod replace;
mod scan;
mod token;
mod va_opt;

pub use loader::{DiskLoader, FileLoader, MemoryLoader};
pub(crate) use print::Piece;

use crate::diag::Diagnostic;
use crate::lex::{Token, tokens_of};
use crate::span::{FileId, SourceMap, Span};
use buffer::Buffer;
use expand::Context;
use include::FoundIn;
use names::{Names, Symbol};
use print::Printer;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use token::{Kind, PpToken};

/// The code of the finding that an included file does not exist.
pub(crate) const INCLUDE_NOT_FOUND: &str = "include-not-found";

/// What the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories in which `#include` searches, in order. For `#include "x"`, the including
    /// file's directory comes first.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the first line: name (with parameters, if any: `f(x)`) and
    /// replacement.
    pub defines: Vec<(String, String)>,
    /// Bounds on time and memory.
    pub limits: Limits,
}

/// Bounds that hostile input runs into and other input does not.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How deep `#include` nests; cpp's bound.
    pub include_depth: usize,
    /// How many files are read in all.
    pub files: usize,
    /// Bytes in one file.
    pub file_bytes: usize,
    /// Bytes of all files, and of the text that comes out.
    pub text_bytes: usize,
    /// Tokens that are put out, and tokens that macro expansion makes on the way.
    pub tokens: usize,
    /// How deep macro calls nest in arguments of macro calls.
    pub macro_depth: usize,
    /// Errors after which the rest is not looked at.
    pub errors: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            include_depth: 200,
            files: 1000,
            file_bytes: 16 << 20,
            text_bytes: 128 << 20,
            tokens: 4_000_000,
            macro_depth: 200,
            errors: 100,
        }
    }
}

/// The tokens of a program and all it includes.
#[derive(Debug)]
pub struct Preprocessed {
    /// The files that were read.
    pub source_map: SourceMap,
    /// The tokens; the last is [`crate::lex::Tok::Eof`].
    pub tokens: Vec<Token>,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// The text of a program and all it includes, as cpp writes it.
#[derive(Debug)]
pub struct PreprocessedText {
    /// The files that were read.
    pub source_map: SourceMap,
    /// The text, with cpp's line markers.
    pub text: String,
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// What was done for it.
    pub counts: Counts,
}

/// How much the preprocessor did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Macros that were expanded.
    pub expansions: usize,
    /// Pairs of tokens of which `##` made one.
    pub pastes: usize,
    /// Pairs of tokens that `##` left as they were.
    pub failed_pastes: usize,
    /// Arguments that were made strings.
    pub strings: usize,
    /// Branches of conditionals that were read.
    pub branches: usize,
    /// Lines that were spliced.
    pub splices: usize,
    /// Files that were included.
    pub includes: usize,
}

/// Reads `main` and all that it includes.
///
/// A file that cannot be read, and everything else that is wrong, is a diagnostic; the rest is
/// read nevertheless.
pub fn preprocess(loader: &dyn FileLoader, main: &Path, options: &Options) -> Preprocessed {
    let mut pp = Preprocessor::new(loader, options, false);
    pp.run(main);
    let end = pp.main_file.and_then(|file| pp.map.file(file).map(|f| f.text.len() as u32)).unwrap_or(0);
    let file = pp.main_file.unwrap_or_default();
    let end = Span::new(file, end, end);
    let most = options.limits.tokens;
    let tokens = tokens_of(&pp.printer.text, &pp.printer.pieces, &mut pp.map, end, most);
    let stopped = pp.stopped;
    for diagnostic in tokens.diagnostics {
        // What is cut off by a stop is not the program's fault, and a comment has been reported.
        let closed = stopped || (pp.open_comment && diagnostic.is_error());
        if !closed && !pp.stopped {
            pp.report(diagnostic);
        }
    }
    if let Some(at) = tokens.cut {
        pp.too_many_tokens(at);
    }
    Preprocessed { source_map: pp.map, tokens: tokens.tokens, diagnostics: pp.diagnostics }
}

/// Reads `main` and all that it includes and writes what `cpp -C -undef -nostdinc -x
/// assembler-with-cpp` would, from the line `# 1 "main"` on.
pub fn preprocess_text(loader: &dyn FileLoader, main: &Path, options: &Options) -> PreprocessedText {
    let mut pp = Preprocessor::new(loader, options, true);
    pp.run(main);
    PreprocessedText { source_map: pp.map, text: pp.printer.text, diagnostics: pp.diagnostics, counts: pp.counts }
}

/// Whether the text is in a directive, and in which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum InDirective {
    No,
    Other,
    Include,
    Condition,
}

/// Whether the arguments of a call are being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arguments {
    None,
    /// The parenthesis is looked for.
    Looked,
    Collected,
}

/// How the text is to be read at the moment.
#[derive(Debug)]
struct State {
    directive: InDirective,
    /// A conditional does not hold.
    skipping: bool,
    arguments: Arguments,
    /// Macros are not expanded while this is not 0.
    prevent_expansion: u32,
    /// `<` may begin the name of a file.
    angled_headers: bool,
    /// Padding is needed though this is a directive.
    directive_wants_padding: bool,
    /// `__VA_ARGS__` means something.
    va_args_ok: bool,
    /// Poisoned names may be named.
    poisoned_ok: bool,
    /// `_Pragma` waits.
    ignores_pragma: bool,
}

impl State {
    fn in_directive(&self) -> bool {
        self.directive != InDirective::No
    }

    fn keeps_comments(&self) -> bool {
        !self.in_directive()
    }
}

struct Preprocessor<'a> {
    loader: &'a dyn FileLoader,
    options: &'a Options,
    map: SourceMap,
    names: Names,
    main_file: Option<FileId>,
    main_name: Rc<str>,
    /// The text that is read, and the files around it.
    buffer: Buffer,
    outer: Vec<Buffer>,
    /// Tokens that were read too far.
    put_back: Vec<PpToken>,
    /// The last token was the directive's end.
    seen_end: bool,
    state: State,
    contexts: Vec<Context>,
    /// A macro is about to be expanded: its arguments are read.
    about_to_expand: bool,
    /// The macro whose expansion began outside of any other, and the line of its name.
    top_macro: Option<Symbol>,
    invocation_line: u32,
    /// Operands that do not matter are being read.
    skip_eval: u32,
    counter: u64,
    clock: Option<clock::Clock>,
    /// Files with `#pragma once`, and all files that were entered.
    once: HashSet<PathBuf>,
    seen: HashSet<PathBuf>,
    pushed: pragma::Pushed,
    printer: Printer,
    /// Line and column of the last token that began a line.
    line_start: (u32, u32),
    /// The directive, and the token that was read last.
    directive_span: Span,
    last_span: Span,
    diagnostics: Vec<Diagnostic>,
    /// A comment without end was reported.
    open_comment: bool,
    macro_depth: usize,
    counts: Counts,
    /// Tokens and bytes that may still be made.
    tokens_left: usize,
    bytes_left: usize,
    /// All text has been read.
    ended: bool,
    /// A limit was hit: nothing more is read.
    stopped: bool,
}

impl<'a> Preprocessor<'a> {
    fn new(loader: &'a dyn FileLoader, options: &'a Options, markers: bool) -> Self {
        Preprocessor {
            loader,
            options,
            map: SourceMap::new(),
            names: Names::default(),
            main_file: None,
            main_name: "".into(),
            buffer: Buffer::new(FileId::default(), PathBuf::new(), FoundIn::Here, "", ""),
            outer: Vec::new(),
            put_back: Vec::new(),
            seen_end: false,
            state: State {
                directive: InDirective::No,
                skipping: false,
                arguments: Arguments::None,
                prevent_expansion: 0,
                angled_headers: false,
                directive_wants_padding: false,
                va_args_ok: false,
                poisoned_ok: false,
                ignores_pragma: false,
            },
            contexts: Vec::new(),
            about_to_expand: false,
            top_macro: None,
            invocation_line: 0,
            skip_eval: 0,
            counter: 0,
            clock: None,
            once: HashSet::new(),
            seen: HashSet::new(),
            pushed: Vec::new(),
            printer: Printer::new(markers),
            line_start: (1, 1),
            directive_span: Span::default(),
            last_span: Span::default(),
            diagnostics: Vec::new(),
            open_comment: false,
            macro_depth: 0,
            counts: Counts::default(),
            tokens_left: options.limits.tokens,
            bytes_left: options.limits.text_bytes,
            ended: false,
            stopped: false,
        }
    }

    /// Reads the main file to its end.
    fn run(&mut self, main: &Path) {
        let name = main.display().to_string();
        match self.loader.load(main, self.options.limits.file_bytes) {
            Ok(text) => {
                // The main file has id 0; definitions that are in no file point nowhere.
                let file = self.map.add(name.as_str(), text.as_str());
                self.main_file = Some(file);
                self.main_name = name.as_str().into();
                self.buffer.name = self.main_name.clone();
                self.define_from_options();
                self.spend_bytes(text.len(), Span::new(file, 0, 0));
                self.buffer = Buffer::new(file, main.to_path_buf(), FoundIn::Here, &name, &text);
                self.seen.insert(loader::normal(main));
                self.mark_file("");
            }
            Err(error) => {
                let file = self.map.add(name.as_str(), "");
                let message = format!("cannot read `{}`: {error}", main.display());
                self.report(Diagnostic::error("cannot-read", Span::new(file, 0, 0), message));
                return;
            }
        }
        while !self.stopped {
            let token = self.get_token();
            if token.kind == Kind::End && self.ended && self.contexts.is_empty() {
                break;
            }
            self.print(&token);
        }
        self.printer.finish();
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.stopped {
            return;
        }
        let span = diagnostic.primary;
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() == self.options.limits.errors {
            self.diagnostics.push(Diagnostic::too_many(self.options.limits.errors, span));
            self.stopped = true;
        }
    }

    /// Reports the limit that was hit. Nothing more is read.
    fn stop_with(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.stopped = true;
    }

    /// Uses up `count` tokens; reports and stops when there are none left.
    fn spend(&mut self, count: usize, at: Span) -> bool {
        if self.stopped {
            return false;
        }
        if let Some(left) = self.tokens_left.checked_sub(count) {
            self.tokens_left = left;
            return true;
        }
        self.too_many_tokens(at);
        false
    }

    fn too_many_tokens(&mut self, at: Span) {
        let limit = self.options.limits.tokens;
        let message = format!("the program has more than {limit} tokens after preprocessing");
        let help = "look for a file that includes itself or a macro that multiplies itself";
        self.stop_with(Diagnostic::error("limit", at, message).help(help));
    }

    /// Uses up `count` bytes of text; reports and stops when there are none left.
    fn spend_bytes(&mut self, count: usize, at: Span) -> bool {
        if self.stopped {
            return false;
        }
        if let Some(left) = self.bytes_left.checked_sub(count) {
            self.bytes_left = left;
            return true;
        }
        let limit = self.options.limits.text_bytes;
        let message = format!("the files and what macros make of them have more than {limit} bytes");
        let diagnostic = Diagnostic::error("limit", at, message);
        self.stop_with(diagnostic.help("look for a macro that multiplies a long text"));
        false
    }
}
