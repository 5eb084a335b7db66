//! Deletion of entries that packets have added, from the engine and from the store.

use super::Node;
use super::requests::no_pipeline_error;
use crate::sessions::{SelectedTable, SessionError};
use entries::{StoredEntry, UpdateKind, WriteBatch};
use jit::RemovedFlows;
use p4runtime::{Code, P4RuntimeError};

/// Pages of a flow table between two writes of the store, because each write waits for the disk.
const PAGES_PER_APPEND: usize = 8;

impl Node {
    /// Removes the selected entries among some thousand records of a flow table, from record
    /// `cursor` on. Packets go on meanwhile.
    pub(crate) fn remove_flows(&self, selected: &SelectedTable, cursor: u32) -> Result<RemovedFlows, SessionError> {
        let mut inner = self.lock_for_write()?;
        inner.check_store()?;
        let current = inner.current.as_ref().ok_or_else(no_pipeline_error)?;
        selected.check_program(&*current.engine)?;
        let tables = current.engine.flow_tables().ok_or(SessionError::ProgramChanged)?;
        let mut page = RemovedFlows { next: Some(cursor), ..RemovedFlows::default() };
        for _ in 0..PAGES_PER_APPEND {
            let Some(cursor) = page.next else { break };
            let more =
                tables.remove_page(selected.table, &selected.query, cursor).ok_or(SessionError::ProgramChanged)?;
            page.entries.extend(more.entries);
            (page.removed, page.next) = (page.removed + more.removed, more.next);
        }
        let batch = deletions(selected, &page.entries);
        if !batch.updates.is_empty() {
            inner.with_store(|store| store.append_batches(std::iter::once(&batch)))?;
        }
        Ok(page)
    }

    /// Deletes entries from an engine that holds them in its control state. Returns how many there
    /// were; an entry that has expired meanwhile is none.
    pub(crate) fn delete_stored(&self, selected: &SelectedTable, entries: &[StoredEntry]) -> Result<u64, SessionError> {
        let mut inner = self.lock_for_write()?;
        inner.check_store()?;
        let current = inner.current.as_mut().ok_or_else(no_pipeline_error)?;
        selected.check_program(&*current.engine)?;
        let batches: Vec<WriteBatch> =
            entries.iter().map(|entry| deletions(selected, std::slice::from_ref(entry))).collect();
        let outcomes = current.engine.write_many(&batches);
        let deleted: Vec<&WriteBatch> =
            batches.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok()).map(|(batch, _)| batch).collect();
        let count = deleted.len() as u64;
        inner.with_store(|store| store.append_batches(deleted.into_iter()))?;
        Ok(count)
    }
}

impl super::NodeState {
    /// # Errors
    /// `UNAVAILABLE`: the last write was not stored.
    pub(super) fn check_store(&self) -> Result<(), P4RuntimeError> {
        let Some(why) = &self.store_fault else { return Ok(()) };
        let message = format!(
            "writes are refused until the pipeline is set again, because the last write was not stored ({why})"
        );
        Err(P4RuntimeError::new(Code::Unavailable, message))
    }
}

fn deletions(selected: &SelectedTable, entries: &[StoredEntry]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for entry in entries {
        batch.push_stored(UpdateKind::Delete, selected.table, entry);
    }
    batch
}
