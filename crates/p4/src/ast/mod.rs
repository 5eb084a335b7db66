//! The syntax tree of P4-16 (version 1.2.5), before name resolution.
//!
//! The tree is plain and owned. Every node that a diagnostic can point at carries a [`Span`] of the
//! file in which it was written. Parentheses leave no node, but the span of a parenthesised
//! expression includes them. The tree contains no types or scopes. The parser only tracks which
//! names are types, because the P4 grammar (P4-16 specification, appendix "P4 grammar") cannot be
//! parsed without that.

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
