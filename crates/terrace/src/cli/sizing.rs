//! Sizing files, as several commands read them.

use super::failure::Failure;
use ir::Pipeline;
use offload::sizing::{Names, Sizing};
use std::path::Path;

/// Longest target or sizing file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a sizing file for a program. All that is wrong is named, with its place.
pub(super) fn sizing(path: &Path, pipeline: &Pipeline) -> Result<Sizing, Failure> {
    let text = read_small(path)?;
    Sizing::parse(&text, &Names::of(pipeline)).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display())).collect();
        Failure::Refused(lines.join("\n"))
    })
}

/// Reads a file that people write by hand.
pub(super) fn read_small(path: &Path) -> Result<String, Failure> {
    let refuse = |error| Failure::Refused(format!("cannot read {}: {error}; check the path", path.display()));
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_FILE {
        let text = format!("{} is longer than {MAX_FILE} bytes; that is no such file", path.display());
        return Err(Failure::Refused(text));
    }
    std::fs::read_to_string(path).map_err(refuse)
}
