//! Reading a region file: size limits, YAML, and the JSON Schema for editors.

use crate::check::{Region, check};
use crate::model::RegionFile;
use crate::position::Position;
use crate::problem::{Problems, Report};
use std::path::{Path, PathBuf};

/// Greatest size of a region file, in bytes: some ten million machines.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why a region file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be read.
    #[error("can't read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is larger than [`MAX_FILE_BYTES`].
    #[error("{} is larger than {} MiB; split the region", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Its content is wrong.
    #[error("{0}")]
    Wrong(#[from] Problems),
}

/// Reads and checks a region file.
///
/// # Errors
/// If it can't be read, or anything in it is wrong.
pub fn load(path: &Path) -> Result<Region, LoadError> {
    let read = |source| LoadError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(read)?.len();
    if size > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned() });
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    Ok(parse(&path.display().to_string(), &text)?)
}

/// Checks the text of a region file; `name` is the file's name in problems.
///
/// # Errors
/// If anything in it is wrong. Syntax errors and errors of type end the reading at the first one.
pub fn parse(name: &str, text: &str) -> Result<Region, Problems> {
    let file: RegionFile = serde_saphyr::from_str_with_options(text, options()).map_err(|e| {
        let e = e.without_snippet();
        let at =
            e.location().map_or(Position::default(), |l| Position { line: l.line() as u32, column: l.column() as u32 });
        let mut report = Report::new(name);
        report.add(
            at,
            first_line(&e.to_string()),
            "see docs/region.md, or the schema that `terrace region schema` prints",
        );
        report.finish().expect_err("one problem was added")
    })?;
    check(name, file)
}

/// The message without the position, which the problem has of its own.
fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.rsplit_once(" at line ").map_or(line, |(before, _)| before);
    line.chars().take(300).collect()
}

/// No aliases to multiply, no deep nesting; as many nodes as the file has bytes for.
fn options() -> serde_saphyr::Options {
    let mut budget = serde_saphyr::Budget::default();
    budget.max_reader_input_bytes = None;
    budget.max_events = usize::MAX;
    budget.max_nodes = usize::MAX;
    budget.max_total_scalar_bytes = usize::MAX;
    budget.max_aliases = 0;
    budget.max_anchors = 0;
    budget.max_depth = 16;
    let mut options = serde_saphyr::Options::default();
    options.budget = Some(budget);
    options.with_snippet = false;
    options
}

/// JSON Schema of the region file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RegionFile).to_value()
}
