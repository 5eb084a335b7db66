//! The P4-16 front-end: compiles P4 source text to verified IR and reports diagnostics.
//!
//! Stages in order: [`preprocess`] (directives and macros, like cpp), [`lex`] (P4 tokens),
//! [`parse`] (builds the [`ast`] tree), [`check`] (typed program, [`hir`]) and [`lower`] (IR).
//! Positions are [`span::Span`]s into the files as written. Every fault of a program becomes a
//! [`diag::Diagnostic`]. No input makes this crate panic.

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
