//! Token dump for `--dump tokens` and golden files.

use super::Token;
use crate::span::SourceMap;
use std::fmt::Write;

/// Returns one line per token: position, kind, spelling.
pub fn dump(tokens: &[Token], map: &SourceMap) -> String {
    let mut out = String::new();
    for token in tokens {
        let at = map.location(token.span).map_or_else(|| "?".to_owned(), |l| l.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{at}\t{:?}\t{}", token.kind, token.text);
    }
    out
}
