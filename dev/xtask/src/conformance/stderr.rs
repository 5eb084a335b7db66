//! Which places p4c names in the errors that it prints for a program.
//!
//! A message starts with `FILE(LINE): [--Werror=kind] error: text` or `FILE(LINE):syntax error, text`; excerpts follow, and further
//! places as `FILE(LINE)` or `FILE(LINE): text`. Warnings have `warning:` in the place of `error:`, and theirs are not taken.

use std::collections::BTreeSet;

/// What p4c says of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Whether there is an error at all.
    pub errors: bool,
    /// File name without folders, and line, of each place in an error.
    pub places: BTreeSet<(String, u32)>,
}

/// Reads p4c's output.
pub fn named(text: &str) -> Named {
    let mut named = Named::default();
    let mut in_error = false;
    for line in text.lines() {
        if line.contains("warning: ") && line.contains("[--Wwarn") {
            in_error = false;
            continue;
        }
        if line.contains("error: ") || line.contains("syntax error") {
            in_error = true;
            // "1 errors encountered" alone is no message of its own.
            named.errors |= !line.contains("overlimit");
        }
        if let Some(place) = place(line)
            && in_error
        {
            named.places.insert(place);
        }
    }
    named
}

/// `FILE.p4(LINE)` at the start of a line.
fn place(line: &str) -> Option<(String, u32)> {
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
    use super::named;

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
        let found = named(text);
        assert!(found.errors);
        let places: Vec<_> = found.places.iter().map(|(file, line)| (file.as_str(), *line)).collect();
        assert_eq!(places, [("a.p4", 2), ("a.p4", 9), ("a.p4", 12), ("b.p4", 7)]);
    }

    #[test]
    fn warnings_alone_are_no_errors() {
        let found = named("a.p4(3): [--Wwarn=unused] warning: 'error: x' is unused\n  f(1)\n");
        assert_eq!(found, super::Named::default());
    }
}
