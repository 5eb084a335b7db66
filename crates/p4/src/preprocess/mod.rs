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
pub use options::{Limits, Options};
pub use preprocessor::Counts;

use crate::diag::Diagnostic;
use crate::lex::{Token, tokens_of};
use crate::span::{SourceMap, Span};
use buffer::{Buffer, FoundIn};
use preprocessor::Preprocessor;
use std::path::Path;
use token::Kind;

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

impl Preprocessor<'_> {
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
}
