//! Entries of a table for a read: of the snapshot, or of the device in pages, for tables that packets
//! write.

use super::schema::Schema;
use crate::{Code, Device, DeviceEntry, EntryValues, P4RuntimeError};
use entries::{ControlState, StoredEntry};
use ir::{Pipeline, TableId};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Leaves the tables that the device reads in pages out of a snapshot, so that a long read keeps none
/// of their entries.
pub(crate) fn leave_paged_tables_out(device: &dyn Device, pipeline: &Arc<Pipeline>, state: &mut ControlState) {
    for (table, declared) in pipeline.tables.iter() {
        if declared.add_on_miss && device.entry_pages(pipeline, table, EntryValues::default()).is_some() {
            state.leave_entries_out(table);
        }
    }
}

fn replaced() -> P4RuntimeError {
    P4RuntimeError::new(Code::Aborted, "another pipeline was set during the read; read again")
}

/// Returns an entry of a snapshot with its values.
fn with_values(device: &dyn Device, table: TableId, entry: &StoredEntry, values: EntryValues) -> DeviceEntry {
    DeviceEntry {
        entry: entry.clone(),
        counter: values.counter.then(|| device.direct_counter(table, entry)).flatten(),
        idle_ns: values.idle.then(|| device.idle_for(table, entry)).flatten(),
    }
}

impl Schema {
    /// Passes the entries of a table that `matches` accepts to `visit`, until it breaks.
    ///
    /// # Errors
    /// `ABORTED`: another pipeline runs by now.
    pub(super) fn visit_entries(
        &self,
        (device, state): (&dyn Device, &ControlState),
        table: TableId,
        values: EntryValues,
        matches: &dyn Fn(&StoredEntry) -> bool,
        visit: &mut dyn FnMut(DeviceEntry) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, P4RuntimeError> {
        if let Some(mut pages) = device.entry_pages(&self.pipeline, table, values) {
            while let Some(page) = pages.next_page() {
                for entry in page.into_iter().filter(|entry| matches(&entry.entry)) {
                    if visit(entry).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        if state.are_entries_left_out(table) {
            return Err(replaced());
        }
        for entry in state.entries(table).filter(|entry| matches(entry)) {
            if visit(with_values(device, table, entry, values)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the entry with this key and priority, without reading others.
    ///
    /// # Errors
    /// `ABORTED`: another pipeline runs by now.
    pub(super) fn find_entry(
        &self,
        (device, state): (&dyn Device, &ControlState),
        table: TableId,
        (key, priority): (&[u64], i32),
        values: EntryValues,
    ) -> Result<Option<DeviceEntry>, P4RuntimeError> {
        if let Some(pages) = device.entry_pages(&self.pipeline, table, values) {
            return Ok(pages.find(key).filter(|_| priority == 0));
        }
        if state.are_entries_left_out(table) {
            return Err(replaced());
        }
        Ok(state.get_entry(table, key, priority).map(|entry| with_values(device, table, entry, values)))
    }
}
