//! Text to tokens.
//!
//! The scanner reads what the preprocessor wrote, as p4c's does. No scanning ever fails: what is
//! no token comes out as [`Tok::Unknown`], and whatever uses the token reports it.

mod dump;
mod number;
mod scan;
mod token;

pub use dump::dump;
pub use number::{NumberError, parse_integer};
pub(crate) use scan::{Piece, tokens_of};
pub use token::*;
