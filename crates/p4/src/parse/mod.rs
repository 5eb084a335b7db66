//! Tokens to the syntax tree: a recursive-descent parser that goes on after errors.
//!
//! P4's grammar needs to know which names are types (`a < b` or `a<b>(c)`, `(a) - b`), so the parser keeps the scopes
//! of declared names (`scope`), and nothing else of their meaning. After an error it skips to the next `;`, to the
//! brace that closes what it was in, or to a keyword that begins a declaration, and goes on. How deep trees get is
//! bounded, so that nobody who walks a tree needs to fear for the stack.

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
use crate::preprocess::{FileLoader, Options, preprocess};
use crate::span::SourceMap;
pub use cursor::MAX_DEPTH;
use cursor::Parser;
use std::path::Path;

/// A program as written, and what is wrong with it.
#[derive(Debug)]
pub struct Parsed {
    /// The files that were read; the first is the main one.
    pub source_map: SourceMap,
    /// The tokens after preprocessing.
    pub tokens: Vec<Token>,
    /// What could be understood.
    pub program: Program,
    /// What is wrong, in the order it was found.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Whether anything is wrong enough to refuse the program.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Reads, preprocesses and parses the program at `main`.
///
/// ```
/// use p4::{parse::parse_program, preprocess::{MemoryLoader, Options}};
/// use std::path::Path;
///
/// let loader = MemoryLoader::new().with("main.p4", "const bit<8> ttl = 64;");
/// let parsed = parse_program(&loader, Path::new("main.p4"), &Options::default());
/// assert!(parsed.diagnostics.is_empty());
/// assert_eq!(parsed.program.decls.len(), 1);
/// ```
pub fn parse_program(loader: &dyn FileLoader, main: &Path, options: &Options) -> Parsed {
    let preprocessed = preprocess(loader, main, options);
    let (program, mut found) = parse_tokens(&preprocessed.tokens, &preprocessed.source_map, options.limits.errors);
    let mut diagnostics = preprocessed.diagnostics;
    diagnostics.append(&mut found);
    Parsed { source_map: preprocessed.source_map, tokens: preprocessed.tokens, program, diagnostics }
}

/// Parses tokens, of which the last is [`crate::lex::Tok::Eof`]; stops after `max_errors` errors.
pub fn parse_tokens(tokens: &[Token], map: &SourceMap, max_errors: usize) -> (Program, Vec<Diagnostic>) {
    let mut parser = Parser::new(tokens, map, max_errors);
    let program = parser.program();
    (program, parser.into_diagnostics())
}
