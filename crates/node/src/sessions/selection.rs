//! [`SessionSelection`]: conditions on sessions, and the tables and keys that they refer to.

use crate::Node;
use crate::admin::present;
use crate::engine::EngineControl;
use crate::nat::last_part;
use entries::{EntryTextError, KeyCondition, KeyFilter, KeyLayout, find_table};
use ir::{Pipeline, TableId};
use jit::FlowQuery;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use thiserror::Error;

/// Conditions on sessions. All of them have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSelection {
    /// The table: its name, or a unique suffix of the name after a dot. `None`: all tables to which
    /// packets add entries and that have the keys of all conditions.
    #[serde(default)]
    pub table: Option<String>,
    /// Conditions `KEY=VALUE` or `KEY=VALUE/LENGTH` ([`KeyCondition::parse`]).
    #[serde(default)]
    pub matches: Vec<String>,
    /// Selects only sessions without a packet for longer than this, in nanoseconds.
    #[serde(default)]
    pub idle_longer_than_ns: Option<u64>,
}

/// A request about sessions is refused.
#[derive(Debug, Error)]
pub(crate) enum SessionError {
    /// No program runs.
    #[error("no program runs; a controller sets one by P4Runtime")]
    NoProgram,
    /// The program has no such table.
    #[error("no table of the program has `add_on_miss`, so packets add no entries")]
    NoFlowTable,
    /// Packets add no entries to the table.
    #[error("packets add no entries to {0}; `terrace show table` shows its entries, and its controller changes them")]
    NotWritten(String),
    /// A name or a value is wrong.
    #[error(transparent)]
    Text(#[from] EntryTextError),
    /// The table has as many readers as it can have.
    #[error("{0}")]
    Busy(String),
    /// The program was replaced during the request.
    #[error("the program has changed meanwhile; repeat the command")]
    ProgramChanged,
    /// The store cannot be written, or another process has taken over.
    #[error("{0}")]
    Device(#[from] p4runtime::P4RuntimeError),
}

/// A table with the conditions on its entries.
pub(crate) struct SelectedTable {
    pub pipeline: Arc<Pipeline>,
    pub table: TableId,
    pub query: FlowQuery,
}

impl SelectedTable {
    /// # Errors
    /// The program of `engine` is no longer the one that the table belongs to.
    pub fn check_program(&self, engine: &dyn EngineControl) -> Result<(), SessionError> {
        if Arc::ptr_eq(engine.pipeline(), &self.pipeline) { Ok(()) } else { Err(SessionError::ProgramChanged) }
    }

    /// Returns the table's name.
    pub fn name(&self) -> &str {
        &self.pipeline.tables[self.table].preamble.name
    }
}

impl Node {
    /// Resolves the names of a selection in the running program.
    pub(crate) fn select_sessions(&self, selection: &SessionSelection) -> Result<Vec<SelectedTable>, SessionError> {
        let pipeline = self.with_engine(|engine, _| engine.pipeline().clone()).ok_or(SessionError::NoProgram)?;
        let vpcs = self.region.vpc_names();
        let matches: Vec<String> = selection.matches.iter().map(|text| with_vpc_number(text, &vpcs)).collect();
        let selection = &SessionSelection { matches, ..selection.clone() };
        let select = |table: TableId| select_in_table(&pipeline, table, selection);
        if let Some(name) = &selection.table {
            let table = find_table(&pipeline, name)?;
            if !pipeline.tables[table].add_on_miss {
                return Err(SessionError::NotWritten(pipeline.tables[table].preamble.name.clone()));
            }
            return Ok(vec![select(table)?]);
        }
        let written = pipeline.tables.iter().filter(|(_, declared)| declared.add_on_miss).map(|(table, _)| table);
        let (mut selected, mut refusal) = (Vec::new(), SessionError::NoFlowTable);
        for table in written {
            match select(table) {
                Ok(table) => selected.push(table),
                // Another table may have the key.
                Err(error @ EntryTextError::UnknownName { .. }) => refusal = error.into(),
                Err(error) => return Err(error.into()),
            }
        }
        if selected.is_empty() { Err(refusal) } else { Ok(selected) }
    }
}

/// Returns a condition on a VPC by its name as one on its number; any other condition unchanged.
fn with_vpc_number(condition: &str, vpcs: &HashMap<u64, String>) -> String {
    let number = condition.split_once('=').and_then(|(key, name)| {
        let is_named = |(_, known): &(&u64, &String)| **known == name.trim();
        let (number, _) = vpcs.iter().filter(|_| last_part(key.trim()) == present::VPC).find(is_named)?;
        Some(format!("{key}={number}"))
    });
    number.unwrap_or_else(|| condition.to_owned())
}

fn select_in_table(
    pipeline: &Arc<Pipeline>,
    table: TableId,
    selection: &SessionSelection,
) -> Result<SelectedTable, EntryTextError> {
    let declared = &pipeline.tables[table];
    let parse = |text: &String| KeyCondition::parse(&declared.preamble.name, &declared.keys, text);
    let conditions: Vec<KeyCondition> = selection.matches.iter().map(parse).collect::<Result<_, _>>()?;
    let keys = KeyFilter::new(&KeyLayout::new(&declared.keys), &conditions);
    let query = FlowQuery { keys, idle_longer_than_ns: selection.idle_longer_than_ns };
    Ok(SelectedTable { pipeline: pipeline.clone(), table, query })
}
