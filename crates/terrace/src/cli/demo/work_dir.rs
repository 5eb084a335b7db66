//! The demo's files, in a directory that goes away with it.

use super::scenario::{REGION, REGION_FILE};
use crate::cli::failure::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory with the region file; removed when dropped.
#[derive(Debug)]
pub struct WorkDir {
    root: PathBuf,
}

impl WorkDir {
    /// Makes the directory and its files.
    pub fn new(name: &str) -> Result<WorkDir, Failure> {
        let root = std::env::temp_dir().join(format!("terrace-{name}"));
        let work = WorkDir { root };
        work.edit_region(REGION)?;
        Ok(work)
    }

    /// Writes the region file, as a tenant's change would.
    pub fn edit_region(&self, text: &str) -> Result<(), Failure> {
        let path = self.region();
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|error| {
            Failure::Environment(format!("cannot write {}: {error}; set TMPDIR to another place", path.display()))
        })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The region file. Relative to [`WorkDir::root`], it has the name that it has in the repository.
    pub fn region(&self) -> PathBuf {
        self.root.join(REGION_FILE)
    }

    /// A place for another file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
