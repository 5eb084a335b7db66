//! Loads a region file: size limits, YAML, and the JSON Schema for editors.

use crate::abridged;
use crate::check::{ResolvedRegion, check_with_text};
use crate::model::RegionFile;
use crate::problem::{ProblemCollector, Problems};
use crate::sections::Sections;
use crate::spanned::SourcePos;
use crate::syntax::explain;
use crate::yaml;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// Maximum size of a region file, in bytes: enough for about ten million machines.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Why a region file could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum RegionLoadError {
    /// The file could not be read.
    #[error("can't read {}: {source}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
    /// The file is larger than [`MAX_FILE_BYTES`].
    #[error("{} is larger than {} MiB; split the region", path.display(), MAX_FILE_BYTES >> 20)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The content of the file is wrong.
    #[error("{0}")]
    Wrong(#[from] Problems),
}

/// Reads and checks a region file.
///
/// # Errors
/// The file can't be read, or its content is wrong.
pub fn load(path: &Path) -> Result<ResolvedRegion, RegionLoadError> {
    let text = read(path)?;
    Ok(parse(&path.display().to_string(), &text)?)
}

/// Reads the text of a region file without parsing it.
///
/// # Errors
/// The file can't be read, is too large, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, RegionLoadError> {
    let read = |source| RegionLoadError::Read { path: path.to_owned(), source };
    // The read itself is bounded, because a pipe or a device has no size in its metadata.
    let file = File::open(path).map_err(read)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len().min(MAX_FILE_BYTES));
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(RegionLoadError::TooLarge { path: path.to_owned() });
    }
    let name = path.display().to_string();
    Ok(String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?)
}

/// Reports where a file stops being UTF-8, and whether it is UTF-16.
fn not_utf8(name: &str, error: &FromUtf8Error) -> Problems {
    let bytes = error.as_bytes();
    let before = &bytes[..error.utf8_error().valid_up_to()];
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let lines = before.iter().filter(|b| **b == b'\n').count() as u64;
    let columns = String::from_utf8_lossy(&before[line_start..]).chars().count() as u64;
    let message = if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        "the file is UTF-16, not UTF-8".to_owned()
    } else {
        format!("the byte 0x{:02x} is not UTF-8", bytes[before.len()])
    };
    let mut report = ProblemCollector::new(name);
    report.add(SourcePos::saturating(lines + 1, columns + 1), message, "save the file as UTF-8");
    report.finish().expect_err("one problem was added")
}

/// Parses and checks the text of a region file; `name` is the file's name in problems.
///
/// # Errors
/// The content is wrong. Syntax and type errors stop the parse at the first one.
pub fn parse(name: &str, text: &str) -> Result<ResolvedRegion, Problems> {
    parse_with_sections(name, text, &Sections::of(text))
}

/// Parses and checks a region file as [`parse`] does, with the positions of its lists in
/// `sections`.
pub(crate) fn parse_with_sections(name: &str, text: &str, sections: &Sections) -> Result<ResolvedRegion, Problems> {
    let file = match abridged::read_abridged(text, sections) {
        Some(file) => file,
        None => yaml::read(text, text.len()).map_err(|error| {
            let explained = explain(&error, text);
            let mut report = ProblemCollector::new(name);
            report.add(explained.at, explained.message, explained.help);
            report.finish().expect_err("one problem was added")
        })?,
    };
    check_with_text(name, file, text)
}

/// Returns the JSON Schema of the region file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RegionFile).to_value()
}
