//! Parses the error locations in p4c's output.
//!
//! A message starts with `FILE(LINE): [--Werror=kind] error: text` or `FILE(LINE):syntax error,
//! text`. Excerpts and further locations follow, as `FILE(LINE)` or `FILE(LINE): text`. Warnings
//! have `warning:` instead of `error:`; their locations are ignored.

use std::collections::BTreeSet;

/// Errors in p4c's output for a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct P4cErrors {
    /// Whether there are any errors.
    pub errors: bool,
    /// File name without folders, and line, of each location in an error.
    pub places: BTreeSet<(String, u32)>,
}

/// Parses p4c's output.
/// Locations of warnings do not count.
pub fn parse_errors(text: &str) -> P4cErrors {
    let mut named = P4cErrors::default();
    let mut in_error = false;
    for line in text.lines() {
        if line.contains("warning: ") && line.contains("[--Wwarn") {
            in_error = false;
            continue;
        }
        if line.contains("error: ") || line.contains("syntax error") {
            in_error = true;
            // The summary "1 errors encountered" is not an error message.
            named.errors |= !line.contains("overlimit");
        }
        if let Some(place) = parse_location(line)
            && in_error
        {
            named.places.insert(place);
        }
    }
    named
}

/// Parses `FILE.p4(LINE)` at the start of a line.
fn parse_location(line: &str) -> Option<(String, u32)> {
    let (file, rest) = line.split_once('(')?;
    let (number, _) = rest.split_once(')')?;
    let name = file.trim_start().rsplit('/').next()?;
    if !name.ends_with(".p4") || name.contains(char::is_whitespace) {
        return None;
    }
    Some((name.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse_errors;

    #[test]
    fn errors_with_their_places() {
        let text = "\
dir/a.p4(3): [--Wwarn=unused] warning: 'x' is unused
  bit<8> x;
         ^
a.p4(4)
a.p4(9): [--Werror=type-error] error: y: wrong
  y = 1;
  ^
a.p4(2)
b.p4(7): in the other file
a.p4(12):syntax error, unexpected ;
[--Werror=overlimit] error: 2 errors encountered, aborting compilation
";
        let found = parse_errors(text);
        assert!(found.errors);
        let places: Vec<_> = found.places.iter().map(|(file, line)| (file.as_str(), *line)).collect();
        assert_eq!(places, [("a.p4", 2), ("a.p4", 9), ("a.p4", 12), ("b.p4", 7)]);
    }

    #[test]
    fn warnings_alone_are_no_errors() {
        let found = parse_errors("a.p4(3): [--Wwarn=unused] warning: 'error: x' is unused\n  f(1)\n");
        assert_eq!(found, super::P4cErrors::default());
    }
}
