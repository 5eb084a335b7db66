//! Reading and counting sessions, page by page.

use super::{SelectedTable, SessionError, SessionRow};
use crate::Node;
use crate::admin::present;
use crate::engine::EngineControl;
use entries::{ControlState, StoredEntry};
use interp::EntryRuntimeState;
use ir::TableId;
use jit::{FlowEntry, FlowPage, FlowReader};

/// Entries of a page of an engine that holds them in its control state.
pub(super) const STORED_PAGE: usize = 256;

/// A read of the sessions of one table. It holds no lock between two pages.
pub(crate) struct SessionReader<'a> {
    selected: &'a SelectedTable,
    source: SessionSource,
}

enum SessionSource {
    /// The table that packets of native code use.
    FlowTable(Box<FlowReader>),
    /// Entries of a snapshot whose keys match.
    Stored(std::vec::IntoIter<StoredEntry>),
}

impl Node {
    /// Begins to read the sessions of a table.
    pub(crate) fn read_sessions<'a>(&self, selected: &'a SelectedTable) -> Result<SessionReader<'a>, SessionError> {
        let begin = |engine: &dyn EngineControl| {
            selected.check_program(engine)?;
            let reader = engine.flow_tables().and_then(|tables| tables.reader(selected.table, &selected.query));
            match reader {
                Some(Ok(reader)) => Ok(SessionSource::FlowTable(Box::new(reader))),
                Some(Err(error)) => Err(SessionError::Busy(error.to_string())),
                None => Ok(SessionSource::Stored(stored_sessions(engine, selected).into_iter())),
            }
        };
        let source = self.with_engine(|engine, _| begin(engine)).ok_or(SessionError::NoProgram)??;
        Ok(SessionReader { selected, source })
    }

    /// Converts entries of a table to rows.
    pub(crate) fn session_rows(&self, selected: &SelectedTable, entries: &[FlowEntry]) -> Vec<SessionRow> {
        // A snapshot is only held as long as entries are converted, because writes copy what it
        // shares.
        let Some(state) = p4runtime::Device::state(self) else { return Vec::new() };
        let strings = present::ShownNames::new(self, &state);
        let row = |flow: &FlowEntry| {
            let row = present::row(&selected.pipeline, &strings, selected.table, &flow.entry);
            SessionRow {
                table: selected.name().to_owned(),
                keys: row.keys,
                action: row.action,
                arguments: row.arguments,
                idle_ns: flow.idle_ns,
                left_ns: flow.left_ns,
                counter: flow.counter,
            }
        };
        entries.iter().map(row).collect()
    }
}

/// Returns the entries of an engine's control state whose keys match.
pub(super) fn stored_sessions(engine: &dyn EngineControl, selected: &SelectedTable) -> Vec<StoredEntry> {
    let state = engine.with_state(ControlState::clone);
    let matching = |entry: &&StoredEntry| selected.query.keys.matches(|word| entry.key()[word]);
    state.entries(selected.table).filter(matching).cloned().collect()
}

/// Returns an entry with its idle time and counter; `None` if it is gone.
pub(super) fn stored_flow(engine: &dyn EngineControl, table: TableId, entry: &StoredEntry) -> Option<FlowEntry> {
    let EntryRuntimeState { idle_timeout_ns, .. } = engine.entry_level(table, entry)?;
    let idle_ns = engine.entry_idle_for(table, entry)?;
    let counter = engine.pipeline().tables[table].direct_counter.and_then(|_| engine.entry_counter(table, entry));
    let left_ns = (idle_timeout_ns != 0).then(|| idle_timeout_ns.saturating_sub(idle_ns));
    Some(FlowEntry { entry: entry.clone(), idle_ns, left_ns, counter })
}

impl SessionReader<'_> {
    /// Reads the next page; `None` behind the last. Of the sessions that match, at most `wanted` are
    /// returned, and all are counted.
    pub(crate) fn next_page(&mut self, node: &Node, wanted: usize) -> Option<FlowPage> {
        let entries = match &mut self.source {
            SessionSource::FlowTable(reader) => return reader.next_page(wanted),
            SessionSource::Stored(entries) => entries.by_ref().take(STORED_PAGE).collect::<Vec<_>>(),
        };
        if entries.is_empty() {
            return None;
        }
        let SelectedTable { table, query, .. } = self.selected;
        let is_idle = |flow: &FlowEntry| query.idle_longer_than_ns.is_none_or(|least| flow.idle_ns > least);
        let flows = node.with_engine(|engine, _| {
            let flows = entries.iter().filter_map(|entry| stored_flow(engine, *table, entry));
            flows.filter(is_idle).collect::<Vec<_>>()
        });
        let mut flows = flows.unwrap_or_default();
        let matching = flows.len() as u64;
        flows.truncate(wanted);
        Some(FlowPage { entries: flows, matching })
    }
}
