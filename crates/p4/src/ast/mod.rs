//! The syntax tree of P4-16 (version 1.2.5): what was written, before any name is resolved.
//!
//! A plain owned tree. Every node that a diagnostic can name carries a [`Span`] of the file it was written in.
//! Parentheses leave no node, but the span of a parenthesised expression includes them. Nothing here knows
//! types or scopes; the only knowledge of names the parser uses is which names are types, since P4's grammar
//! (P4-16 specification, appendix "P4 grammar") cannot be parsed without it.

mod annotation;
mod container;
mod decl;
mod dump;
mod expr;
mod ident;
mod operator;
mod program;
mod stmt;
mod table;
mod variable;

pub use annotation::*;
pub use container::*;
pub use decl::*;
pub use dump::dump;
pub use expr::*;
pub use ident::*;
pub use operator::*;
pub use program::*;
pub use stmt::*;
pub use table::*;
pub use variable::*;

pub use crate::span::Span;
