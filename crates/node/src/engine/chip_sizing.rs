//! [`ChipSizing`]: table sizes on a chip.

use std::collections::BTreeMap;

/// Capacities of tables and externs on a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChipSizing {
    /// Name (for messages) and text of a sizing file (docs/reference/plan.md). It is checked with
    /// each program.
    pub sizing: Option<(String, String)>,
    /// Capacities of tables that the file does not name, by control-plane name.
    pub tables: BTreeMap<String, u64>,
    /// Capacity of all other tables, counters, meters and registers; the size in the program is
    /// used if it is smaller.
    pub others: u64,
}

impl ChipSizing {
    /// Default capacity of a table in entries.
    pub const DEFAULT_ENTRIES: u64 = 1024;
}

impl Default for ChipSizing {
    fn default() -> ChipSizing {
        ChipSizing { sizing: None, tables: BTreeMap::new(), others: ChipSizing::DEFAULT_ENTRIES }
    }
}
