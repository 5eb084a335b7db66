//! Reading target files.

use super::{Target, check};
use toml::de::{DeTable, DeValue};

/// Why a target file is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}:{line}: {reason}\n  mend: {mend}")]
pub struct TargetError {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub mend: String,
}

const FILES: [(&str, &str); 3] = [
    ("tofino1.toml", include_str!("../../targets/tofino1.toml")),
    ("tofino2.toml", include_str!("../../targets/tofino2.toml")),
    ("dpu8.toml", include_str!("../../targets/dpu8.toml")),
];

pub(super) fn shipped(name: &str) -> Option<Target> {
    let (file, text) = FILES.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name))?;
    // A test loads all of them, so that this cannot be none for a name of `SHIPPED`.
    from_toml(text, file).ok()
}

pub(super) fn from_toml(text: &str, file: &str) -> Result<Target, TargetError> {
    let error = |line, reason: String, mend: &str| TargetError { file: file.into(), line, reason, mend: mend.into() };
    let target: Target = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_at(text, span.start));
        error(
            line,
            e.message().into(),
            "write it as in `switch/asic/targets/tofino1.toml`, which has every field with its unit",
        )
    })?;
    match check::contradiction(&target) {
        None => Ok(target),
        Some(c) => Err(error(line_of(text, c.key), c.reason, &c.mend)),
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count()
}

/// Line of the value at a dotted key: of the last part of the path that the text has.
fn line_of(text: &str, key: &str) -> usize {
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
    line_at(text, offset)
}
