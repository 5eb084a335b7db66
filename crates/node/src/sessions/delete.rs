//! Deleting sessions, page by page.

use super::read::{STORED_PAGE, stored_flow, stored_sessions};
use super::{SelectedTable, SessionError};
use crate::Node;
use entries::StoredEntry;

/// A deletion of sessions of one table. It holds no lock between two pages.
pub(crate) struct SessionDeletion<'a> {
    selected: &'a SelectedTable,
    progress: DeletionProgress,
}

enum DeletionProgress {
    /// Goes on at this record of a flow table.
    FlowTable(Option<u32>),
    /// Entries of a snapshot whose keys match.
    Stored(std::vec::IntoIter<StoredEntry>),
}

impl Node {
    /// Begins to delete the sessions of a table.
    pub(crate) fn delete_sessions<'a>(&self, selected: &'a SelectedTable) -> Result<SessionDeletion<'a>, SessionError> {
        let progress = self.with_engine(|engine, _| {
            selected.check_program(engine)?;
            let is_flow_table = engine.flow_tables().is_some_and(|tables| tables.info(selected.table).is_some());
            Ok::<_, SessionError>(match is_flow_table {
                true => DeletionProgress::FlowTable(Some(1)),
                false => DeletionProgress::Stored(stored_sessions(engine, selected).into_iter()),
            })
        });
        Ok(SessionDeletion { selected, progress: progress.ok_or(SessionError::NoProgram)?? })
    }
}

impl SessionDeletion<'_> {
    /// Deletes the sessions of the next page from the tables and the store. Returns how many; `None`
    /// behind the last page.
    ///
    /// # Errors
    /// The store cannot be written, another process has taken over, or the program has changed.
    pub(crate) fn next_page(&mut self, node: &Node) -> Result<Option<u64>, SessionError> {
        match &mut self.progress {
            DeletionProgress::FlowTable(cursor) => {
                let Some(from) = *cursor else { return Ok(None) };
                let page = node.remove_flows(self.selected, from)?;
                *cursor = page.next;
                Ok(Some(page.removed))
            }
            DeletionProgress::Stored(entries) => {
                let mut page: Vec<StoredEntry> = entries.by_ref().take(STORED_PAGE).collect();
                if page.is_empty() {
                    return Ok(None);
                }
                let SelectedTable { table, query, .. } = self.selected;
                if let Some(least_ns) = query.idle_longer_than_ns {
                    node.with_engine(|engine, _| {
                        page.retain(|entry| {
                            stored_flow(engine, *table, entry).is_some_and(|flow| flow.idle_ns > least_ns)
                        });
                    });
                }
                page.retain(|entry| !entry.is_const());
                node.delete_stored(self.selected, &page).map(Some)
            }
        }
    }
}
