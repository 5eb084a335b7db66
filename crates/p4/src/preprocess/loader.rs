//! File loaders: read source files from disk or memory.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

/// Reads source files, from disk or (tests, fuzzers) from memory.
pub trait FileLoader {
    /// Returns the text of the file at `path`, which must not exceed `max_bytes`. Replaces bytes
    /// that are not UTF-8.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the file does not exist (the next search directory is tried). Any
    /// other kind if it cannot be read (the search ends).
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String>;
}

/// Reads files from disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskLoader;

impl FileLoader for DiskLoader {
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(ErrorKind::NotFound, "it is a directory"));
        }
        let mut bytes = Vec::new();
        // Read one byte more than allowed, to distinguish a file that is too long from one that
        // just fits.
        file.take(max_bytes as u64 + 1).read_to_end(&mut bytes)?;
        if bytes.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })
    }
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, String>,
}

impl MemoryLoader {
    /// Creates a loader without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: impl AsRef<Path>, text: impl Into<String>) -> Self {
        self.files.insert(normalize_path(path.as_ref()), text.into());
        self
    }
}

impl FileLoader for MemoryLoader {
    fn load(&self, path: &Path, max_bytes: usize) -> io::Result<String> {
        let text = self.files.get(&normalize_path(path)).ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
        if text.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        Ok(text.clone())
    }
}

fn too_large(max_bytes: usize) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it has more than {max_bytes} bytes"))
}

/// Removes `.` and resolves `a/..`, so that equivalent paths compare equal.
pub(super) fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}
