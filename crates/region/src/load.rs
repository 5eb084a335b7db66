//! Reading a region file: size limits, YAML, and the JSON Schema for editors.

use crate::abridged;
use crate::check::{Region, check_with_text};
use crate::model::RegionFile;
use crate::position::Position;
use crate::problem::{Problems, Report};
use crate::sections::Sections;
use crate::syntax::explain;
use crate::yaml;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

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
    let text = read(path)?;
    Ok(parse(&path.display().to_string(), &text)?)
}

/// Reads a region file's text, which is not looked at.
///
/// # Errors
/// If it can't be read, is too large, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, LoadError> {
    let read = |source| LoadError::Read { path: path.to_owned(), source };
    // A pipe or a device has no size to look at, so that the reading itself is bounded.
    let file = File::open(path).map_err(read)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len().min(MAX_FILE_BYTES));
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned() });
    }
    let name = path.display().to_string();
    Ok(String::from_utf8(bytes).map_err(|error| not_utf8(&name, &error))?)
}

/// Where a file stops being UTF-8, and which encoding it has instead if that can be seen.
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
    let mut report = Report::new(name);
    report.add(Position::saturating(lines + 1, columns + 1), message, "save the file as UTF-8");
    report.finish().expect_err("one problem was added")
}

/// Checks the text of a region file; `name` is the file's name in problems.
///
/// # Errors
/// If anything in it is wrong. Syntax errors and errors of type end the reading at the first one.
pub fn parse(name: &str, text: &str) -> Result<Region, Problems> {
    parse_with_sections(name, text, &Sections::of(text))
}

/// As [`parse`], for whom knows where lists are.
pub(crate) fn parse_with_sections(name: &str, text: &str, sections: &Sections) -> Result<Region, Problems> {
    let file = match abridged::read(text, sections) {
        Some(file) => file,
        None => yaml::read(text, text.len()).map_err(|error| {
            let explained = explain(&error, text);
            let mut report = Report::new(name);
            report.add(explained.at, explained.message, explained.mend);
            report.finish().expect_err("one problem was added")
        })?,
    };
    check_with_text(name, file, text)
}

/// JSON Schema of the region file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RegionFile).to_value()
}
