//! State and limits of the preprocessor, shared by its other files.

use super::buffer::{LineBuffer, SearchLocation};
use super::clock::BuildClock;
use super::context::MacroContext;
use super::definition::MacroDefinition;
use super::loader::FileLoader;
use super::names::NameTable;
use super::options::PreprocessOptions;
use super::printer::OutputPrinter;
use super::token::{PpToken, Symbol};
use crate::diag::Diagnostic;
use crate::span::{FileId, SourceMap, Span};
use std::collections::HashSet;
use std::path::PathBuf;
use std::rc::Rc;

/// Counters of the preprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PreprocessCounts {
    /// Macro expansions.
    pub expansions: usize,
    /// Pairs of tokens joined by `##`.
    pub pastes: usize,
    /// Pairs of tokens that `##` could not join.
    pub failed_pastes: usize,
    /// Arguments converted to strings.
    pub strings: usize,
    /// Branches of conditionals that were read.
    pub branches: usize,
    /// Line splices.
    pub splices: usize,
    /// Included files.
    pub includes: usize,
}

/// Kind of the directive being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DirectiveContext {
    No,
    Other,
    Include,
    Condition,
}

/// Progress in reading the arguments of a macro call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArgumentProgress {
    None,
    /// Looking for the opening parenthesis.
    Looked,
    Collected,
}

/// Mode in which the text is read.
#[derive(Debug)]
pub(super) struct LexMode {
    pub directive: DirectiveContext,
    /// Whether a conditional excludes the text.
    pub is_skipping: bool,
    pub arguments: ArgumentProgress,
    /// Macros are expanded only while this is 0.
    pub prevent_expansion: u32,
    /// Whether `<` can begin a file name.
    pub angled_headers: bool,
    /// Whether this directive needs padding.
    pub directive_wants_padding: bool,
    /// Whether `__VA_ARGS__` has a meaning.
    pub va_args_ok: bool,
    /// Whether poisoned names are allowed.
    pub poisoned_ok: bool,
    /// Whether `_Pragma` is deferred.
    pub ignores_pragma: bool,
}

impl LexMode {
    pub fn in_directive(&self) -> bool {
        self.directive != DirectiveContext::No
    }

    pub fn keeps_comments(&self) -> bool {
        !self.in_directive()
    }
}

pub(super) struct Preprocessor<'a> {
    pub loader: &'a dyn FileLoader,
    pub options: &'a PreprocessOptions,
    pub map: SourceMap,
    pub names: NameTable,
    pub main_file: Option<FileId>,
    pub main_name: Rc<str>,
    /// The current text, and the texts that include it.
    pub buffer: LineBuffer,
    pub outer: Vec<LineBuffer>,
    /// Tokens read too far.
    pub put_back: Vec<PpToken>,
    /// Whether the last token was the end of the directive.
    pub has_seen_end: bool,
    pub state: LexMode,
    pub contexts: Vec<MacroContext>,
    /// Whether the arguments of a macro are being read for its expansion.
    pub is_about_to_expand: bool,
    /// The outermost macro being expanded, and the line of its name.
    pub top_macro: Option<Symbol>,
    pub invocation_line: u32,
    /// Nesting of unevaluated operands.
    pub skip_eval: u32,
    pub counter: u64,
    pub clock: Option<BuildClock>,
    /// Files with `#pragma once`, and all files entered.
    pub once_files: HashSet<PathBuf>,
    pub entered_files: HashSet<PathBuf>,
    /// Definitions saved by `#pragma push_macro`.
    pub pushed_macros: Vec<(Symbol, MacroDefinition)>,
    pub printer: OutputPrinter,
    /// Line and column of the last token that began a line.
    pub line_start: (u32, u32),
    /// Spans of the directive and of the last token.
    pub directive_span: Span,
    pub last_span: Span,
    pub diagnostics: Vec<Diagnostic>,
    /// Whether an unclosed comment was reported.
    pub has_open_comment: bool,
    pub macro_depth: usize,
    pub counts: PreprocessCounts,
    /// Remaining budgets of tokens and bytes.
    pub tokens_left: usize,
    pub bytes_left: usize,
    /// Whether all text has been read.
    pub has_ended: bool,
    /// Whether a limit was hit, so that reading stopped.
    pub is_stopped: bool,
}

impl<'a> Preprocessor<'a> {
    /// Creates a preprocessor without any text yet. With `markers`, the output contains lines such
    /// as `# 12 "file"`, as cpp writes them.
    pub fn new(loader: &'a dyn FileLoader, options: &'a PreprocessOptions, markers: bool) -> Self {
        Preprocessor {
            loader,
            options,
            map: SourceMap::new(),
            names: NameTable::default(),
            main_file: None,
            main_name: "".into(),
            buffer: LineBuffer::new(FileId::default(), PathBuf::new(), SearchLocation::Here, "", ""),
            outer: Vec::new(),
            put_back: Vec::new(),
            has_seen_end: false,
            state: LexMode {
                directive: DirectiveContext::No,
                is_skipping: false,
                arguments: ArgumentProgress::None,
                prevent_expansion: 0,
                angled_headers: false,
                directive_wants_padding: false,
                va_args_ok: false,
                poisoned_ok: false,
                ignores_pragma: false,
            },
            contexts: Vec::new(),
            is_about_to_expand: false,
            top_macro: None,
            invocation_line: 0,
            skip_eval: 0,
            counter: 0,
            clock: None,
            once_files: HashSet::new(),
            entered_files: HashSet::new(),
            pushed_macros: Vec::new(),
            printer: OutputPrinter::new(markers),
            line_start: (1, 1),
            directive_span: Span::default(),
            last_span: Span::default(),
            diagnostics: Vec::new(),
            has_open_comment: false,
            macro_depth: 0,
            counts: PreprocessCounts::default(),
            tokens_left: options.limits.tokens,
            bytes_left: options.limits.text_bytes,
            has_ended: false,
            is_stopped: false,
        }
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        if self.is_stopped {
            return;
        }
        let span = diagnostic.primary;
        self.diagnostics.push(diagnostic);
        if self.diagnostics.len() == self.options.limits.errors {
            self.diagnostics.push(Diagnostic::limit_reached(self.options.limits.errors, span));
            self.is_stopped = true;
        }
    }

    /// Reports a limit and stops reading.
    pub fn stop_with(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.is_stopped = true;
    }

    /// Consumes `count` tokens of the budget. Reports the limit and stops if the budget is
    /// exhausted.
    pub fn spend_tokens(&mut self, count: usize, at: Span) -> bool {
        if self.is_stopped {
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

    /// Consumes `count` bytes of the budget. Reports the limit and stops if the budget is
    /// exhausted.
    pub fn spend_bytes(&mut self, count: usize, at: Span) -> bool {
        if self.is_stopped {
            return false;
        }
        if let Some(left) = self.bytes_left.checked_sub(count) {
            self.bytes_left = left;
            return true;
        }
        let limit = self.options.limits.text_bytes;
        let message = format!("the files and their macro expansions have more than {limit} bytes");
        let diagnostic = Diagnostic::error("limit", at, message);
        self.stop_with(diagnostic.help("look for a macro that multiplies a long text"));
        false
    }
}
