//! The text format: [`parse()`] returns the pipeline that [`print()`] printed. Grammar:
//! `docs/reference/ir.md`.

mod error;
mod keywords;
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

pub use error::TextError;
pub use parse::parse;
pub use print::{PrintOptions, print, print_with};
