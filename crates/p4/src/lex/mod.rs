//! Source text to tokens.
//!
//! [`Scanner`] reads one file and knows nothing of directives beyond where lines begin; the preprocessor draws
//! tokens from it. No scanning ever fails: what is no token comes out as [`Tok::Unknown`] or
//! [`Tok::Unterminated`], and whoever uses the token reports it.

mod dump;
mod number;
mod scan;
mod token;

pub use dump::dump;
pub use number::{NumberError, parse_integer};
pub use scan::{Interner, Scanner};
pub use token::*;
