//! Text of entries for error messages.

use super::schema::{Schema, TableSchema};
use crate::P4RuntimeError;
use entries::{ActionSpec, TableEntry, format_entry};
use ir::KeyMatch;

impl Schema {
    /// Formats an entry: `(dst=10.0.0.0/8) with priority 5`.
    pub(super) fn describe(&self, table: &TableSchema, keys: &[KeyMatch], priority: i32) -> String {
        let entry = TableEntry::new(table.id, keys.to_vec(), ActionSpec::Member(0));
        let text = format_entry(&self.pipeline, &entry);
        let keys = text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest);
        let keys = keys.split_once(" -> ").map_or(keys, |(keys, _)| keys);
        match priority {
            0 => format!("({keys})"),
            _ => format!("({keys}) with priority {priority}"),
        }
    }

    pub(super) fn no_entry(&self, table: &TableSchema, keys: &[KeyMatch], priority: i32) -> P4RuntimeError {
        let entry = self.describe(table, keys, priority);
        P4RuntimeError::not_found(format!("table {}: there is no entry {entry}; insert it first", table.name))
    }
}
