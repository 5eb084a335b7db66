//! Maps one after the other.

use super::{EntryMap, MapError};
use entries::WriteBatch;

/// The map of a pipeline to itself.
pub(super) struct Unchanged;

impl EntryMap for Unchanged {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, MapError> {
        Ok(batch.clone())
    }

    fn origins(&self) -> &[usize] {
        &[]
    }

    fn undo(&mut self) {}
}

/// One map and then another one.
pub(super) struct Chain {
    first: Box<dyn EntryMap>,
    second: Box<dyn EntryMap>,
    origins: Vec<usize>,
}

impl Chain {
    pub(super) fn new(first: Box<dyn EntryMap>, second: Box<dyn EntryMap>) -> Chain {
        Chain { first, second, origins: Vec::new() }
    }
}

/// An update that no list of origins names is made from itself.
fn origin(origins: &[usize], index: usize) -> usize {
    origins.get(index).copied().unwrap_or(index)
}

impl EntryMap for Chain {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, MapError> {
        let between = self.first.translate(batch)?;
        match self.second.translate(&between) {
            Ok(batch) => {
                let (first, second) = (self.first.origins(), self.second.origins());
                let of = |index| origin(first, origin(second, index));
                self.origins = (0..batch.updates.len()).map(of).collect();
                Ok(batch)
            }
            Err(error) => {
                let index = origin(self.first.origins(), error.index);
                self.first.undo();
                Err(MapError { index, ..error })
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

    fn figures(&self) -> Vec<(String, f64)> {
        [self.first.figures(), self.second.figures()].concat()
    }
}
