//! The text format: [`print()`] and [`parse()`], which give back the same pipeline. Grammar: `docs/ir.md`.

mod error;
mod lex;
mod parse;
mod parse_body;
mod parse_decl;
mod parse_extern;
mod parse_table;
mod print;
mod print_body;
mod print_decl;
mod resolve;
mod words;

pub use error::TextError;
pub use parse::parse;
pub use print::{PrintOptions, print, print_with};
