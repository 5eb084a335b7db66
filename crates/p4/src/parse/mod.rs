//! The parser: builds the syntax tree from tokens by recursive descent and continues after errors.
//!
//! The parser keeps the scopes of declared names (`scope`), because P4's grammar depends on which
//! names are types (`a < b` or `a<b>(c)`, `(a) - b`). After an error it skips to the next `;`, to
//! the brace that closes the enclosing construct, or to a keyword that begins a declaration, and
//! continues there. Tree depth is limited, so that recursive walks cannot overflow the stack.

mod annotation;
mod container;
mod cursor;
mod decl;
mod expr;
mod keyset;
mod postfix;
mod recover;
mod scope;
mod stmt;
mod table;
mod types;

use crate::ast::Program;
use crate::diag::Diagnostic;
use crate::lex::Token;
use crate::preprocess::{FileLoader, PreprocessOptions, preprocess};
use crate::span::SourceMap;
pub use cursor::MAX_DEPTH;
use cursor::P4Parser;
use std::path::Path;

/// The syntax tree of a program with its diagnostics.
#[derive(Debug)]
pub struct ParsedProgram {
    /// The source files; the first is the main one.
    pub source_map: SourceMap,
    /// The tokens after preprocessing.
    pub tokens: Vec<Token>,
    /// The parts of the program that could be parsed.
    pub program: Program,
    /// Diagnostics in the order in which they were found.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedProgram {
    /// Returns whether the program is rejected.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads, preprocesses and parses the program at `main`.
///
/// ```
/// use p4::{parse::parse_program, preprocess::{MemoryLoader, PreprocessOptions}};
/// use std::path::Path;
///
/// let loader = MemoryLoader::new().with("main.p4", "const bit<8> ttl = 64;");
/// let parsed = parse_program(&loader, Path::new("main.p4"), &PreprocessOptions::default());
/// assert!(parsed.diagnostics.is_empty());
/// assert_eq!(parsed.program.decls.len(), 1);
/// ```
pub fn parse_program(loader: &dyn FileLoader, main: &Path, options: &PreprocessOptions) -> ParsedProgram {
    let preprocessed = preprocess(loader, main, options);
    let (program, mut found) = parse_tokens(&preprocessed.tokens, &preprocessed.source_map, options.limits.errors);
    let mut diagnostics = preprocessed.diagnostics;
    diagnostics.append(&mut found);
    ParsedProgram { source_map: preprocessed.source_map, tokens: preprocessed.tokens, program, diagnostics }
}

/// Parses tokens up to the final [`crate::lex::Tok::Eof`]. Stops after `max_errors` errors.
pub fn parse_tokens(tokens: &[Token], map: &SourceMap, max_errors: usize) -> (Program, Vec<Diagnostic>) {
    let mut parser = P4Parser::new(tokens, map, max_errors);
    let program = parser.parse_declarations();
    (program, parser.into_diagnostics())
}
