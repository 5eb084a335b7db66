//! Parser of target files.

use super::{ChipTarget, check};
use toml::de::{DeTable, DeValue};

/// Reason why a target file is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {reason}\n  help: {help}")]
pub struct TargetError {
    /// File name, as given by the caller.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Description of the error.
    pub reason: String,
    /// Suggested fix.
    pub help: String,
}

const SHIPPED_FILES: [(&str, &str); 3] = [
    ("tofino1.toml", include_str!("../../targets/tofino1.toml")),
    ("tofino2.toml", include_str!("../../targets/tofino2.toml")),
    ("dpu8.toml", include_str!("../../targets/dpu8.toml")),
];

pub(super) fn load_shipped(name: &str) -> Option<ChipTarget> {
    let (file, text) = SHIPPED_FILES.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))?;
    // A test loads all shipped files, so parsing a name of `SHIPPED` always succeeds.
    from_toml(text, file).ok()
}

pub(super) fn from_toml(text: &str, file: &str) -> Result<ChipTarget, TargetError> {
    let error = |line, reason: String, help: &str| TargetError { file: file.into(), line, reason, help: help.into() };
    let target: ChipTarget = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_at_offset(text, span.start));
        error(
            line,
            e.message().into(),
            "write it as in `switch/asic/targets/tofino1.toml`, which has every field with its unit",
        )
    })?;
    match check::find_contradiction(&target) {
        None => Ok(target),
        Some(c) => Err(error(line_of_key(text, c.key), c.reason, &c.help)),
    }
}

fn line_at_offset(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count()
}

/// Returns the line of a dotted key, or of its last component that exists in the text.
fn line_of_key(text: &str, key: &str) -> usize {
    let Ok(document) = DeTable::parse(text) else { return 1 };
    let mut table = document.get_ref();
    let mut offset = document.span().start;
    for part in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else { break };
        offset = name.span().start;
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    line_at_offset(text, offset)
}
