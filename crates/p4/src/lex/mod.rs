//! Source text to tokens.

mod token;

pub use token::*;
