//! The P4-16 front-end: P4 source text to verified IR, with diagnostics
//!
//! In order: [`preprocess`] (cpp's work: directives and macros), [`lex`] (P4's tokens), [`parse`] (the tree of [`ast`]),
//! then checking and lowering. Positions are [`span::Span`]s into the files as written; everything that is
//! wrong becomes a [`diag::Diagnostic`]. No input makes this crate panic.

mod architectures;
pub mod ast;
pub mod check;
pub mod compile;
pub mod diag;
pub mod hir;
pub mod lex;
pub mod lower;
pub mod parse;
pub mod preprocess;
pub mod span;
pub mod suggest;
