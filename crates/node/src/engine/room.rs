//! [`Room`]: how much fits on a chip.

use std::collections::BTreeMap;

/// How many entries the tables of a chip have room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// A sizing file (docs/plan.md): its name for messages, and its text. It is checked with each program.
    pub sizing: Option<(String, String)>,
    /// For tables that the file does not name, by control-plane name.
    pub tables: BTreeMap<String, u64>,
    /// For those that nothing names, and for the elements of counters, meters and registers: as many as the program says if that is less.
    pub others: u64,
}

impl Room {
    /// Entries that a table has room for, unless something else is said.
    pub const DEFAULT: u64 = 1024;
}

impl Default for Room {
    fn default() -> Room {
        Room { sizing: None, tables: BTreeMap::new(), others: Room::DEFAULT }
    }
}
