//! Temporary directory of the demo's files.

use super::scenario::{REGION, REGION_FILE};
use crate::cli::failure::CommandError;
use std::fs;
use std::path::{Path, PathBuf};

/// Directory with the region file. Dropping it removes the directory.
#[derive(Debug)]
pub struct WorkDir {
    root: PathBuf,
}

impl WorkDir {
    /// Creates the directory and its files.
    pub fn new(name: &str) -> Result<WorkDir, CommandError> {
        let root = std::env::temp_dir().join(format!("terrace-{name}"));
        let work = WorkDir { root };
        work.edit_region(REGION)?;
        Ok(work)
    }

    /// Overwrites the region file, as a tenant's change would.
    pub fn edit_region(&self, text: &str) -> Result<(), CommandError> {
        let path = self.region();
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| {
            CommandError::Environment(format!("cannot write {}: {error}; set TMPDIR to another place", path.display()))
        })
    }

    /// Returns the path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the region file. Relative to [`WorkDir::root`], it is the path in the
    /// repository.
    pub fn region(&self) -> PathBuf {
        self.root.join(REGION_FILE)
    }

    /// Returns the path of another file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
