//! The preprocessor's state, and the bounds that it keeps: what the passes of the other files read and change.

use super::buffer::{Buffer, FoundIn};
use super::clock::Clock;
use super::context::Context;
use super::definition::Definition;
use super::loader::FileLoader;
use super::names::Names;
use super::options::Options;
use super::printer::Printer;
use super::token::{PpToken, Symbol};
use crate::diag::Diagnostic;
use crate::span::{FileId, SourceMap, Span};
use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;

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

/// Whether the text is in a directive, and in which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InDirective {
    No,
    Other,
    Include,
    Condition,
}

/// Whether the arguments of a call are being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arguments {
    None,
    /// The parenthesis is looked for.
    Looked,
    Collected,
}

/// How the text is to be read at the moment.
#[derive(Debug)]
pub(super) struct State {
    pub directive: InDirective,
    /// A conditional does not hold.
    pub skipping: bool,
    pub arguments: Arguments,
    /// Macros are not expanded while this is not 0.
    pub prevent_expansion: u32,
    /// `<` may begin the name of a file.
    pub angled_headers: bool,
    /// Padding is needed though this is a directive.
    pub directive_wants_padding: bool,
    /// `__VA_ARGS__` means something.
    pub va_args_ok: bool,
    /// Poisoned names may be named.
    pub poisoned_ok: bool,
    /// `_Pragma` waits.
    pub ignores_pragma: bool,
}

impl State {
    pub fn in_directive(&self) -> bool {
        self.directive != InDirective::No
    }

    pub fn keeps_comments(&self) -> bool {
        !self.in_directive()
    }
}

pub(super) struct Preprocessor<'a> {
    pub loader: &'a dyn FileLoader,
    pub options: &'a Options,
    pub map: SourceMap,
    pub names: Names,
    pub main_file: Option<FileId>,
    pub main_name: Rc<str>,
    /// The text that is read, and the files around it.
    pub buffer: Buffer,
    pub outer: Vec<Buffer>,
    /// Tokens that were read too far.
    pub put_back: Vec<PpToken>,
    /// The last token was the directive's end.
    pub seen_end: bool,
    pub state: State,
    pub contexts: Vec<Context>,
    /// A macro is about to be expanded: its arguments are read.
    pub about_to_expand: bool,
    /// The macro whose expansion began outside of any other, and the line of its name.
    pub top_macro: Option<Symbol>,
    pub invocation_line: u32,
    /// Operands that do not matter are being read.
    pub skip_eval: u32,
    pub counter: u64,
    pub clock: Option<Clock>,
    /// Files with `#pragma once`, and all files that were entered.
    pub once: HashSet<PathBuf>,
    pub seen: HashSet<PathBuf>,
    /// Definitions that `#pragma push_macro` set aside.
    pub pushed: Vec<(Symbol, Definition)>,
    pub printer: Printer,
    /// Line and column of the last token that began a line.
    pub line_start: (u32, u32),
    /// The directive, and the token that was read last.
    pub directive_span: Span,
    pub last_span: Span,
    pub diagnostics: Vec<Diagnostic>,
    /// A comment without end was reported.
    pub open_comment: bool,
    pub macro_depth: usize,
    pub counts: Counts,
    /// Tokens and bytes that may still be made.
    pub tokens_left: usize,
    pub bytes_left: usize,
    /// All text has been read.
    pub ended: bool,
    /// A limit was hit: nothing more is read.
    pub stopped: bool,
}

impl<'a> Preprocessor<'a> {
    pub fn new(loader: &'a dyn FileLoader, options: &'a Options, markers: bool) -> Self {
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

    pub fn report(&mut self, diagnostic: Diagnostic) {
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
    pub fn stop_with(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.stopped = true;
    }

    /// Uses up `count` tokens; reports and stops when there are none left.
    pub fn spend(&mut self, count: usize, at: Span) -> bool {
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

    pub fn too_many_tokens(&mut self, at: Span) {
        let limit = self.options.limits.tokens;
        let message = format!("the program has more than {limit} tokens after preprocessing");
        let help = "look for a file that includes itself or a macro that multiplies itself";
        self.stop_with(Diagnostic::error("limit", at, message).help(help));
    }

    /// Uses up `count` bytes of text; reports and stops when there are none left.
    pub fn spend_bytes(&mut self, count: usize, at: Span) -> bool {
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
