//! Reads sizing files, for several commands.

use super::failure::CommandError;
use ir::Pipeline;
use offload::sizing::{AllowedNames, Sizing};
use std::path::Path;

/// Maximum size of a target or sizing file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a sizing file for a program. The error lists all mistakes with their locations.
pub(super) fn read_sizing(path: &Path, pipeline: &Pipeline) -> Result<Sizing, CommandError> {
    let text = read_small(path)?;
    Sizing::parse(&text, &AllowedNames::from_pipeline(pipeline)).map_err(|mistakes| {
        let lines: Vec<String> = mistakes.iter().map(|mistake| format!("{}:{mistake}", path.display())).collect();
        CommandError::Refused(lines.join("\n"))
    })
}

/// Reads a file of at most [`MAX_FILE`] bytes.
pub(super) fn read_small(path: &Path) -> Result<String, CommandError> {
    let refuse = |error| CommandError::Refused(format!("cannot read {}: {error}; check the path", path.display()));
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_FILE {
        let text = format!("{} is longer than {MAX_FILE} bytes; that is no such file", path.display());
        return Err(CommandError::Refused(text));
    }
    std::fs::read_to_string(path).map_err(refuse)
}
