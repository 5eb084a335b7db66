//! Composition of entry maps.

use super::{EntryMap, EntryMapError};
use entries::WriteBatch;

/// Identity map of a pipeline.
pub(super) struct IdentityMap;

impl EntryMap for IdentityMap {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, EntryMapError> {
        Ok(batch.clone())
    }

    fn origins(&self) -> &[usize] {
        &[]
    }

    fn undo(&mut self) {}
}

/// Two maps in sequence.
pub(super) struct ChainedMap {
    first: Box<dyn EntryMap>,
    second: Box<dyn EntryMap>,
    origins: Vec<usize>,
}

impl ChainedMap {
    pub(super) fn new(first: Box<dyn EntryMap>, second: Box<dyn EntryMap>) -> ChainedMap {
        ChainedMap { first, second, origins: Vec::new() }
    }
}

/// Returns the origin of an update; an update without an entry in the list is its own origin.
fn origin_of(origins: &[usize], index: usize) -> usize {
    origins.get(index).copied().unwrap_or(index)
}

impl EntryMap for ChainedMap {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, EntryMapError> {
        let between = self.first.translate(batch)?;
        match self.second.translate(&between) {
            Ok(batch) => {
                let (first, second) = (self.first.origins(), self.second.origins());
                let of = |index| origin_of(first, origin_of(second, index));
                self.origins = (0..batch.updates.len()).map(of).collect();
                Ok(batch)
            }
            Err(error) => {
                let index = origin_of(self.first.origins(), error.index);
                self.first.undo();
                Err(EntryMapError { index, ..error })
            }
        }
    }

    fn origins(&self) -> &[usize] {
        &self.origins
    }

    fn undo(&mut self) {
        self.second.undo();
        self.first.undo();
    }

    fn stats(&self) -> Vec<(String, f64)> {
        [self.first.stats(), self.second.stats()].concat()
    }
}
