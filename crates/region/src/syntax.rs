//! What the YAML reader says, in words for somebody who wrote a region file and does not know the reader.

use crate::fields::NO_VALUE;
use crate::position::Position;
use crate::problem::did_you_mean;
use crate::values::{quoted, visible};
use serde_saphyr::{Error, Location};
use std::borrow::Cow;

/// The deepest nesting that a region file can have a use for.
pub(crate) const MAX_DEPTH: usize = 16;

/// A problem without the file's name: its place, what is wrong, and the mend.
pub(crate) struct Explained {
    pub(crate) at: Position,
    pub(crate) message: String,
    pub(crate) mend: String,
}

const SEE_DOCS: &str = "see docs/region.md, or the schema that `terrace region schema` prints";
const WRITE_A_VALUE: &str = "write a value (`[]` for an empty list), or remove the key";
const DECIMAL: &str = "write it in decimal digits, without quotes";

/// Explains why `text` is no region file.
pub(crate) fn explain(error: &Error, text: &str) -> Explained {
    // Of a file that is not even a mapping, the reader has no place.
    let at = error.location().map(Position::from).filter(|at| at.line > 0).unwrap_or(Position { line: 1, column: 1 });
    let (message, mend) = match error.without_snippet() {
        Error::AliasError { error, locations, .. } => return in_alias(error, locations, text),
        Error::Eof { .. } if is_blank(text) => {
            ("the file is empty".to_owned(), "start with `region: NAME`, and see docs/region.md".into())
        }
        Error::Eof { .. } => ("the file ends too early".to_owned(), "check whether it was cut off".into()),
        Error::MultipleDocuments { .. } => {
            let mend = "remove `---` or `...` and what follows, or put it in a file of its own";
            ("a second YAML document begins here; a region file is one".to_owned(), mend.into())
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            let mend = "write one value; several of them need a rule, or an item, each";
            ("a single value is needed here".to_owned(), mend.into())
        }
        Error::Unexpected { expected, .. } => (format!("{} is needed here", shape(expected)), SEE_DOCS.into()),
        Error::NullIntoString { .. } => ("a value is missing here".to_owned(), WRITE_A_VALUE.into()),
        Error::InvalidScalar { ty, .. } => scalar(ty, text, at),
        Error::InvalidBooleanStrict { .. } => scalar("boolean", text, at),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or("a key".to_owned(), |key| format!("the key {}", quoted(key)));
            (format!("{key} is there twice"), "keep one of the two".into())
        }
        Error::UnknownAnchor { .. } => {
            let mend = "declare the anchor above, as in `subnets: &NAME [...]`, or correct its name";
            (format!("{} refers to no anchor", token(text, at)), mend.into())
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("the anchor contains itself".to_owned(), "write the value out".into())
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("`<<` takes the keys of a mapping".to_owned(), "name an anchor that is before `key: value` pairs".into())
        }
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => too_many_copies(),
        Error::Budget { breach, .. } => budget(breach),
        error => of_model(error, text, at),
    };
    match indenting_tab(text, at).filter(|_| message.contains("tab")) {
        Some(at) => {
            let (message, mend) =
                ("a tab in the indentation".to_owned(), "indent with blanks, as YAML wants it".to_owned());
            Explained { at, message, mend }
        }
        None => Explained { at, message, mend: mend.into_owned() },
    }
}

/// The first tab that indents a line, from a place on: the reader names what stands before it.
fn indenting_tab(text: &str, at: Position) -> Option<Position> {
    let from = (1..).zip(text.split('\n')).skip(at.line.saturating_sub(1) as usize);
    let tab = |line: &str| line.find(|c: char| c != ' ').filter(|first| line[*first..].starts_with('\t'));
    from.take(1000).find_map(|(number, line)| Some(Position::saturating(number, tab(line)? as u64 + 1)))
}

type Said = (String, Cow<'static, str>);

/// What serde says of a value that the model does not take.
fn of_model(error: &Error, text: &str, at: Position) -> Said {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let mut mend = match did_you_mean(field, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are {}", expected.join(", ")),
            };
            if text.contains("<<") {
                mend += "; if the key is right in its own line, look for the `<<` that takes it to where it is not";
            }
            (format!("there is no key {} here", quoted(field)), mend.into())
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let mend = match did_you_mean(variant, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write one of {}", expected.join(", ")),
            };
            (format!("{} is none of {}", quoted(variant), expected.join(", ")), mend.into())
        }
        Error::SerdeMissingField { field, .. } => {
            (format!("the key `{field}` is missing here"), format!("add `{field}:` with a value").into())
        }
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            let found = if unexpected == "map" { "a mapping" } else { unexpected };
            let mend = if expected == "a list" { "write `[...]`, or lines that begin with `- `" } else { SEE_DOCS };
            (format!("{expected} is needed here, not {}", first_line(found)), mend.into())
        }
        Error::SerdeInvalidLength { len, .. } => {
            (format!("a list of {len} is wrong here"), "name two VPCs, as in `between: [a, b]`".into())
        }
        error => {
            let message = first_line(&error.to_string());
            if message.contains(NO_VALUE) {
                return (NO_VALUE.to_owned(), WRITE_A_VALUE.into());
            }
            if message.contains("invalid IP address") {
                let mend = "write it as in 192.0.2.1 or 2001:db8::1: no leading zeros, no prefix length";
                return (format!("{} is not an IP address", token(text, at)), mend.into());
            }
            if message.contains("recursion limit") || message.contains("nesting") {
                return too_deep();
            }
            (message, SEE_DOCS.into())
        }
    }
}

/// A problem in the value of an alias: it is in the anchor's line, and matters in the alias's line.
fn in_alias(error: &Error, locations: &serde_saphyr::Locations, text: &str) -> Explained {
    let mut explained = explain(error, text);
    let defined = Position::from(locations.defined_location);
    explained.at = Position::from(locations.reference_location);
    if defined.line != 0 && defined.line != explained.at.line {
        explained.message += &format!(" (the value is in line {})", defined.line);
    }
    explained
}

fn scalar(kind: &str, text: &str, at: Position) -> Said {
    let token = token(text, at);
    match kind {
        _ if is_missing(&token) => ("a value is missing here".to_owned(), WRITE_A_VALUE.into()),
        "u16" => (format!("{token} is not a whole number from 0 to {}", u16::MAX), DECIMAL.into()),
        "u32" => (format!("{token} is not a whole number from 0 to {}", u32::MAX), DECIMAL.into()),
        "boolean" => (format!("{token} is neither true nor false"), "write `true` or `false`".into()),
        other => (format!("{token} is not a value of type {other}"), SEE_DOCS.into()),
    }
}

fn is_missing(token: &str) -> bool {
    matches!(token, "``" | "`~`" | "`:`") || token.eq_ignore_ascii_case("`null`")
}

/// What the reader calls the start of a node.
fn shape(expected: &str) -> &str {
    match expected {
        "mapping start" => "a mapping (`key: value`)",
        "sequence start" => "a list (`[a, b]`, or lines that begin with `- `)",
        other => other,
    }
}

fn budget(breach: &serde_saphyr::budget::BudgetBreach) -> Said {
    use serde_saphyr::budget::BudgetBreach;
    match breach {
        BudgetBreach::Depth { .. } => too_deep(),
        _ => too_many_copies(),
    }
}

fn too_deep() -> Said {
    (format!("the file is nested more than {MAX_DEPTH} deep"), "check brackets and indentation".into())
}

fn too_many_copies() -> Said {
    let mend = "write values out, or split the region; an alias is meant for lists that a few VPCs share";
    ("aliases make too many copies of their anchors".to_owned(), mend.into())
}

/// The message without the position, which the problem has of its own.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.rsplit_once(" at line ").map_or(line, |(before, _)| before);
    line.chars().take(300).map(visible).collect()
}

/// Whether there is nothing in the text but blanks, comments, and the marks of a document.
fn is_blank(text: &str) -> bool {
    let line = |line: &str| line.is_empty() || line.starts_with('#') || line == "---" || line == "...";
    text.trim_start_matches('\u{feff}').lines().all(|one| line(one.trim()))
}

/// The value that begins at a place, for a message.
fn token(text: &str, at: Position) -> String {
    let line = text.split('\n').nth((at.line as usize).saturating_sub(1)).unwrap_or_default();
    let from: String = line.chars().skip((at.column as usize).saturating_sub(1)).take(200).collect();
    let quote = from.chars().next().filter(|c| matches!(c, '"' | '\''));
    let end = match quote {
        Some(quote) => from[1..].find(quote).map_or(from.len(), |end| end + 2),
        None => from.find([',', ']', '}', '\r']).unwrap_or(from.len()).min(from.find(" #").unwrap_or(from.len())),
    };
    quoted(from[..end].trim())
}

impl From<Location> for Position {
    fn from(location: Location) -> Position {
        Position::saturating(location.line(), location.column())
    }
}
