//! [`CachedEntries`]: the copies in the upper half of entries that packets have added.

use ir::TableId;
use jit::{FlowChanges, FlowReader};
use offload::entry_leases::EntryLeases;
use std::collections::BTreeMap;

/// Copies in the upper half of entries that packets have added.
#[derive(Default)]
pub struct CachedEntries {
    pub tables: BTreeMap<TableId, CachedTable>,
    pub leases: EntryLeases,
    /// Scans begin at most once in this time.
    pub scan_interval_ns: u64,
    /// Time of the last scan.
    pub last_scan_ns: u64,
}

/// Counts since the start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct CachedEntryCounts {
    /// Entries that got to the upper half.
    pub added: u64,
    /// Entries that left it, because they were idle, or had ended.
    pub removed: u64,
    /// Leases that were renewed because of hits.
    pub renewed: u64,
    /// Entries for which there was no room.
    pub without_room: u64,
}

/// A table to which packets add entries, some of which the upper half has.
#[derive(Default)]
pub struct CachedTable {
    /// New entries of the lower half, if it reports them.
    pub changes: Option<FlowChanges>,
    /// Scan in progress.
    pub scan: Option<FlowReader>,
    pub counts: CachedEntryCounts,
}

impl CachedEntries {
    /// Creates the copies of these tables: none yet.
    pub fn new(tables: impl Iterator<Item = TableId>, scan_interval_ns: u64) -> CachedEntries {
        let tables = tables.map(|table| (table, CachedTable::default())).collect();
        CachedEntries { tables, scan_interval_ns, ..CachedEntries::default() }
    }

    /// Returns the counts of a table; `None` for another table.
    pub fn counts(&self, table: TableId) -> Option<CachedEntryCounts> {
        self.tables.get(&table).map(|cached| cached.counts)
    }

    /// Changes the counts of a table.
    pub fn count(&mut self, table: TableId, change: impl FnOnce(&mut CachedEntryCounts)) {
        if let Some(cached) = self.tables.get_mut(&table) {
            change(&mut cached.counts);
        }
    }

    /// Returns whether a table is one of these.
    pub fn contains(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }
}
