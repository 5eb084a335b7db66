//! [`NamedEntry`]: an entry that packets have added, with keys and arguments by their names in the program.

use crate::nat::last_part;
use entries::{ActionSpec, StoredEntry};
use ir::{Action, KeyMatch, Pipeline, Table, TableId};
use num_bigint::BigUint;

/// An entry with exact keys and an action.
pub(crate) struct NamedEntry<'a> {
    table: &'a Table,
    action: &'a Action,
    keys: Vec<KeyMatch>,
    arguments: Vec<BigUint>,
}

impl<'a> NamedEntry<'a> {
    /// Returns an entry of a table; `None` if it has no action of its own.
    pub fn new(pipeline: &'a Pipeline, table: TableId, entry: &StoredEntry) -> Option<NamedEntry<'a>> {
        let spec = entry.to_table_entry(pipeline, table);
        let ActionSpec::Call(call) = spec.action else { return None };
        let (table, action) = (pipeline.tables.get(table)?, pipeline.actions.get(call.action)?);
        Some(NamedEntry { table, action, keys: spec.keys, arguments: call.args })
    }

    /// Returns the action's name without its controls.
    pub fn action(&self) -> &'a str {
        last_part(&self.action.preamble.name)
    }

    /// Returns the value of a key of at most 32 bits.
    pub fn key(&self, name: &str) -> Option<u32> {
        let position = self.table.match_keys().position(|(_, key)| last_part(&key.name) == name)?;
        match self.keys.get(position)? {
            KeyMatch::Exact(value) => u32::try_from(value).ok(),
            _ => None,
        }
    }

    /// Returns the value of an argument of at most 32 bits.
    pub fn argument(&self, name: &str) -> Option<u32> {
        let position = self.action.params.iter().position(|param| param.name == name)?;
        u32::try_from(self.arguments.get(position)?).ok()
    }
}
