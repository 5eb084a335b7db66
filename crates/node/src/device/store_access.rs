//! Work on a node's store, which is closed if it fails.

use super::Inner;
use crate::store::{Store, StoreError};
use p4runtime::Refusal;

impl Inner {
    /// The store has failed, and may differ from the tables: it is opened again with the next write, and written anew when the pipeline is set.
    fn store_failed(&mut self, error: &StoreError) -> Refusal {
        tracing::error!(%error, "the store cannot be written; nothing is taken until the pipeline is set again");
        self.stuck = Some(error.to_string());
        if let Some(store) = self.store.take() {
            self.closed_store = Some((store.path().to_owned(), store.updates()));
        }
        Refusal::from(error)
    }

    /// Does something to the store, if there is one.
    pub(super) fn with_store<T>(
        &mut self,
        work: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Result<Option<T>, Refusal> {
        let Some(store) = &mut self.store else { return Ok(None) };
        let outcome = work(store);
        outcome.map(Some).map_err(|error| self.store_failed(&error))
    }
}
