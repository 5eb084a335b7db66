//! Translates errors of the YAML reader into messages for the authors of region files.

use crate::fields::{NO_MAPPING, NO_VALUE};
use crate::problem::did_you_mean;
use crate::spanned::SourcePos;
use crate::values::{quoted, visible};
use serde_saphyr::{Error, Location};
use std::borrow::Cow;

/// Maximum nesting depth; deeper nesting has no use in a region file.
pub(crate) const MAX_DEPTH: usize = 16;

/// A problem without the file's name: position, message, and fix.
pub(crate) struct ExplainedError {
    pub(crate) at: SourcePos,
    pub(crate) message: String,
    pub(crate) help: String,
}

const SEE_DOCS: &str = "see docs/reference/region.md, or the schema that `terrace region schema` prints";
const WRITE_A_VALUE: &str = "write a value (`[]` for an empty list), or remove the key";
const DECIMAL: &str = "write it in decimal digits, without quotes";

/// Explains why `text` is not a valid region file.
pub(crate) fn explain(error: &Error, text: &str) -> ExplainedError {
    // The reader reports no position for a file that is not even a mapping.
    let at = error.location().map(SourcePos::from).filter(|at| at.line > 0).unwrap_or(SourcePos { line: 1, column: 1 });
    let (message, help) = match error.without_snippet() {
        Error::AliasError { error, locations, .. } => return explain_alias_error(error, locations, text),
        Error::Eof { .. } if is_blank(text) => {
            ("the file is empty".to_owned(), "start with `region: NAME`, and see docs/reference/region.md".into())
        }
        Error::Eof { .. } => ("the file ends too early".to_owned(), "check whether it was cut off".into()),
        Error::MultipleDocuments { .. } => {
            let help = "remove `---` or `...` and what follows, or put it in a file of its own";
            ("a second YAML document starts here; a region file has a single one".to_owned(), help.into())
        }
        Error::Unexpected { expected: "string scalar", .. } => {
            let help = "write one value; several of them need a rule, or an item, each";
            ("a single value is needed here".to_owned(), help.into())
        }
        Error::Unexpected { expected, .. } => (format!("{} is needed here", node_kind(expected)), SEE_DOCS.into()),
        Error::NullIntoString { .. } => ("a value is missing here".to_owned(), WRITE_A_VALUE.into()),
        Error::InvalidScalar { ty, .. } => explain_scalar(ty, text, at),
        Error::InvalidBooleanStrict { .. } => explain_scalar("boolean", text, at),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or("a key".to_owned(), |key| format!("the key {}", quoted(key)));
            (format!("{key} occurs twice"), "keep one of the two".into())
        }
        Error::UnknownAnchor { .. } => {
            let help = "declare the anchor above, as in `subnets: &NAME [...]`, or correct its name";
            (format!("{} refers to no anchor", token(text, at)), help.into())
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
        Error::Budget { breach, .. } => explain_budget(breach),
        error => explain_model_error(error, text, at),
    };
    match indenting_tab(text, at).filter(|_| message.contains("tab")) {
        Some(at) => {
            let (message, help) =
                ("a tab in the indentation".to_owned(), "indent with blanks, as YAML wants it".to_owned());
            ExplainedError { at, message, help }
        }
        None => ExplainedError { at, message, help: help.into_owned() },
    }
}

/// Returns the first tab that indents a line, starting at `at`, because the reader reports the
/// position of the token before it.
fn indenting_tab(text: &str, at: SourcePos) -> Option<SourcePos> {
    let from = (1..).zip(text.split('\n')).skip(at.line.saturating_sub(1) as usize);
    let tab = |line: &str| line.find(|c: char| c != ' ').filter(|first| line[*first..].starts_with('\t'));
    from.take(1000).find_map(|(number, line)| Some(SourcePos::saturating(number, tab(line)? as u64 + 1)))
}

type MessageAndHelp = (String, Cow<'static, str>);

/// Explains an error that serde reports for a value that does not fit the model.
fn explain_model_error(error: &Error, text: &str, at: SourcePos) -> MessageAndHelp {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            let mut help = match did_you_mean(field, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys here are {}", expected.join(", ")),
            };
            if text.contains("<<") {
                help += "; if the key is right in its own line, look for the `<<` that merges it here";
            }
            (format!("there is no key {} here", quoted(field)), help.into())
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let help = match did_you_mean(variant, expected.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("write one of {}", expected.join(", ")),
            };
            (format!("{} is none of {}", quoted(variant), expected.join(", ")), help.into())
        }
        Error::SerdeMissingField { field, .. } => {
            (format!("the key `{field}` is missing here"), format!("add `{field}:` with a value").into())
        }
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            let found = if unexpected == "map" { "a mapping" } else { unexpected };
            let help = if expected == "a list" { "write `[...]`, or lines that begin with `- `" } else { SEE_DOCS };
            (format!("{expected} is needed here, not {}", first_line(found)), help.into())
        }
        Error::SerdeInvalidLength { len, .. } => {
            (format!("a list of {len} is wrong here"), "name two VPCs, as in `between: [a, b]`".into())
        }
        error => {
            let message = first_line(&error.to_string());
            if message.contains(NO_VALUE) {
                return (NO_VALUE.to_owned(), WRITE_A_VALUE.into());
            }
            if message.contains(NO_MAPPING) {
                return (NO_MAPPING.to_owned(), "write `{}` for the defaults, or remove the key".into());
            }
            if message.contains("invalid IP address") {
                let help = "write it as in 192.0.2.1 or 2001:db8::1: no leading zeros, no prefix length";
                return (format!("{} is not an IP address", token(text, at)), help.into());
            }
            if message.contains("recursion limit") || message.contains("nesting") {
                return too_deep();
            }
            (message, SEE_DOCS.into())
        }
    }
}

/// Explains a problem in the value of an alias. Its position is that of the alias; the message also
/// names the line of the value.
fn explain_alias_error(error: &Error, locations: &serde_saphyr::Locations, text: &str) -> ExplainedError {
    let mut explained = explain(error, text);
    let defined = SourcePos::from(locations.defined_location);
    explained.at = SourcePos::from(locations.reference_location);
    if defined.line != 0 && defined.line != explained.at.line {
        explained.message += &format!(" (the value is in line {})", defined.line);
    }
    explained
}

fn explain_scalar(kind: &str, text: &str, at: SourcePos) -> MessageAndHelp {
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

/// Describes the YAML reader's name for the start of a node.
fn node_kind(expected: &str) -> &str {
    match expected {
        "mapping start" => "a mapping (`key: value`)",
        "sequence start" => "a list (`[a, b]`, or lines that begin with `- `)",
        other => other,
    }
}

fn explain_budget(breach: &serde_saphyr::budget::BudgetBreach) -> MessageAndHelp {
    use serde_saphyr::budget::BudgetBreach;
    match breach {
        BudgetBreach::Depth { .. } => too_deep(),
        _ => too_many_copies(),
    }
}

fn too_deep() -> MessageAndHelp {
    (format!("the file is nested more than {MAX_DEPTH} deep"), "check brackets and indentation".into())
}

fn too_many_copies() -> MessageAndHelp {
    let help = "write values out, or split the region; an alias is meant for lists that a few VPCs share";
    ("aliases make too many copies of their anchors".to_owned(), help.into())
}

/// Returns the first line of a message without the position, because the problem has its own.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.rsplit_once(" at line ").map_or(line, |(before, _)| before);
    line.chars().take(300).map(visible).collect()
}

/// Returns whether a text has only blanks, comments, and document markers.
fn is_blank(text: &str) -> bool {
    let line = |line: &str| line.is_empty() || line.starts_with('#') || line == "---" || line == "...";
    text.trim_start_matches('\u{feff}').lines().all(|one| line(one.trim()))
}

/// Returns the value that starts at a position, quoted for a message.
fn token(text: &str, at: SourcePos) -> String {
    let line = text.split('\n').nth((at.line as usize).saturating_sub(1)).unwrap_or_default();
    let from: String = line.chars().skip((at.column as usize).saturating_sub(1)).take(200).collect();
    let quote = from.chars().next().filter(|c| matches!(c, '"' | '\''));
    let end = match quote {
        Some(quote) => from[1..].find(quote).map_or(from.len(), |end| end + 2),
        None => from.find([',', ']', '}', '\r']).unwrap_or(from.len()).min(from.find(" #").unwrap_or(from.len())),
    };
    quoted(from[..end].trim())
}

impl From<Location> for SourcePos {
    fn from(location: Location) -> SourcePos {
        SourcePos::saturating(location.line(), location.column())
    }
}
