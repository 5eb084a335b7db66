//! Splits text into tokens.
//!
//! The scanner reads the output text of the preprocessor, as p4c's does. Scanning never fails.
//! Characters that form no token become [`Tok::Unknown`], which the parser reports.

mod dump;
mod number;
mod scan;
mod token;

pub use dump::dump;
pub use number::{NumberError, parse_integer};
pub(crate) use scan::{TextPiece, scan_tokens};
pub use token::*;
