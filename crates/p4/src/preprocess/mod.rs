//! The preprocessor: reproduces `cpp -E -C -undef -nostdinc -x assembler-with-cpp`, because p4c
//! reads programs through that command.
//!
//! In order: [`buffer`] splices lines, [`scan`] forms cpp tokens, [`lines`] executes directives,
//! [`expand`] replaces macros, [`print`] writes the output text, with the same blanks as cpp. The
//! P4 scanner ([`crate::lex`]) reads that text; each of its tokens records its origin. A test
//! compares the output with that of the installed cpp on generated inputs.
//!
//! Where cpp warns or fails, this preprocessor reports a diagnostic with a source excerpt. Input
//! can be hostile, so [`PreprocessLimits`] bound the depth of inclusion, the size of files and the
//! output of expansion. The input causes recursion only through macro calls in arguments of calls.

mod buffer;
mod builtin;
mod clock;
mod condition;
mod constant;
mod context;
mod definition;
mod directive;
mod expand;
mod expression;
mod include;
mod lines;
mod loader;
mod macros;
mod names;
mod number;
mod options;
mod paste;
mod pragma;
mod preprocessor;
mod print;
mod printer;
mod replace;
mod scan;
mod token;
mod va_opt;

pub(crate) use include::INCLUDE_NOT_FOUND;
pub use loader::{DiskLoader, FileLoader, MemoryLoader};
pub use options::{PreprocessLimits, PreprocessOptions};
pub use preprocessor::PreprocessCounts;

use crate::diag::Diagnostic;
use crate::lex::{Token, scan_tokens};
use crate::span::{SourceMap, Span};
use buffer::{LineBuffer, SearchLocation};
use preprocessor::Preprocessor;
use std::path::Path;
use token::PpTokenKind;

/// The tokens of a program and its includes.
#[derive(Debug)]
pub struct Preprocessed {
    /// The source files.
    pub source_map: SourceMap,
    /// The tokens; the last is [`crate::lex::Tok::Eof`].
    pub tokens: Vec<Token>,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

/// The text of a program and its includes, in cpp's output format.
#[derive(Debug)]
pub struct PreprocessedText {
    /// The source files.
    pub source_map: SourceMap,
    /// The text, with cpp's line markers.
    pub text: String,
    /// Errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Counters of the preprocessor.
    pub counts: PreprocessCounts,
}

/// Preprocesses `main` and its includes into P4 tokens.
///
/// An unreadable file, like any other fault, is reported as a diagnostic, and preprocessing
/// continues.
pub fn preprocess(loader: &dyn FileLoader, main: &Path, options: &PreprocessOptions) -> Preprocessed {
    let mut pp = Preprocessor::new(loader, options, false);
    pp.preprocess_main(main);
    let end = pp.main_file.and_then(|file| pp.map.file(file).map(|f| f.text.len() as u32)).unwrap_or(0);
    let file = pp.main_file.unwrap_or_default();
    let end_span = Span::new(file, end, end);
    let max_tokens = options.limits.tokens;
    let tokens = scan_tokens(&pp.printer.text, &pp.printer.pieces, &mut pp.map, end_span, max_tokens);
    let is_stopped = pp.is_stopped;
    for diagnostic in tokens.diagnostics {
        // After a stop, cut-off text is not the fault of the program. An unclosed comment was
        // already reported.
        let is_consequence = is_stopped || (pp.has_open_comment && diagnostic.is_error());
        if !is_consequence && !pp.is_stopped {
            pp.report(diagnostic);
        }
    }
    if let Some(at) = tokens.truncated_at {
        pp.too_many_tokens(at);
    }
    Preprocessed { source_map: pp.map, tokens: tokens.tokens, diagnostics: pp.diagnostics }
}

/// Preprocesses `main` and its includes into text. The text equals the output of `cpp -C -undef
/// -nostdinc -x assembler-with-cpp` from the line `# 1 "main"` on.
pub fn preprocess_text(loader: &dyn FileLoader, main: &Path, options: &PreprocessOptions) -> PreprocessedText {
    let mut pp = Preprocessor::new(loader, options, true);
    pp.preprocess_main(main);
    PreprocessedText { source_map: pp.map, text: pp.printer.text, diagnostics: pp.diagnostics, counts: pp.counts }
}

impl Preprocessor<'_> {
    /// Reads the main file to its end and prints its tokens. A file that cannot be read is
    /// reported.
    fn preprocess_main(&mut self, main: &Path) {
        let name = main.display().to_string();
        match self.loader.load(main, self.options.limits.file_bytes) {
            Ok(text) => {
                // The main file has id 0. Definitions that come from no file have no span.
                let file = self.map.add(name.as_str(), text.as_str());
                self.main_file = Some(file);
                self.main_name = name.as_str().into();
                self.buffer.name = self.main_name.clone();
                self.define_from_options();
                self.spend_bytes(text.len(), Span::new(file, 0, 0));
                self.buffer = LineBuffer::new(file, main.to_path_buf(), SearchLocation::Here, &name, &text);
                self.entered_files.insert(loader::normalize_path(main));
                self.mark_file("");
            }
            Err(error) => {
                let file = self.map.add(name.as_str(), "");
                let message = format!("cannot read `{}`: {error}", main.display());
                self.report(Diagnostic::error("cannot-read", Span::new(file, 0, 0), message));
                return;
            }
        }
        while !self.is_stopped {
            let token = self.get_token();
            if token.kind == PpTokenKind::End && self.has_ended && self.contexts.is_empty() {
                break;
            }
            self.print_token(&token);
        }
        self.printer.finish();
    }
}
