//! Access to a node's store, which is closed after a failure.

use super::NodeState;
use crate::store::{Store, StoreError};
use p4runtime::P4RuntimeError;

impl NodeState {
    /// Closes the store after a failure, because it can differ from the tables. The next write
    /// opens it again, and setting the pipeline rewrites it.
    fn handle_store_failure(&mut self, error: &StoreError) -> P4RuntimeError {
        tracing::error!(%error, "the store cannot be written; writes are refused until the pipeline is set again");
        self.store_fault = Some(error.to_string());
        if let Some(store) = self.store.take() {
            self.closed_store = Some((store.path().to_owned(), store.update_count()));
        }
        P4RuntimeError::from(error)
    }

    /// Runs `work` on the store, if the node has one.
    pub(super) fn with_store<T>(
        &mut self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Result<Option<T>, P4RuntimeError> {
        let Some(store) = &mut self.store else { return Ok(None) };
        let outcome = work(store);
        outcome.map(Some).map_err(|error| self.handle_store_failure(&error))
    }
}
