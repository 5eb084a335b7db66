//! [`CachedEntries`]: the copies in the upper half of entries that packets have added.

use entries::StoredEntry;
use ir::TableId;
use jit::{FlowChanges, FlowQuery, FlowReader, FlowTables};
use offload::entry_leases::EntryLeases;
use std::collections::BTreeMap;

/// New entries that one call takes.
const NEW_ENTRIES: u32 = 4096;
/// Entries that one page of a scan returns at most.
const SCANNED_ENTRIES: usize = 4096;

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

impl CachedTable {
    /// Visits entries of table `id` that were added since the last call, and those of a page of the scan
    /// that were hit in the last `recent_ns`. A scan begins if none is in progress and one is due.
    pub fn poll(
        &mut self,
        id: TableId,
        flows: &FlowTables,
        (is_scan_due, recent_ns): (bool, u64),
        visit: &mut impl FnMut(StoredEntry),
    ) {
        if self.changes.is_none() {
            self.changes = flows.changes(id).and_then(Result::ok);
        }
        if let Some(changes) = &mut self.changes {
            changes.poll(NEW_ENTRIES, &mut *visit);
        }
        if self.scan.is_none() && is_scan_due {
            self.scan = flows.reader(id, &FlowQuery::default()).and_then(Result::ok);
        }
        match self.scan.as_mut().and_then(|scan| scan.next_page(SCANNED_ENTRIES)) {
            Some(page) => {
                let recent = page.entries.into_iter().filter(|flow| flow.idle_ns < recent_ns);
                recent.for_each(|flow| visit(flow.entry));
            }
            None => self.scan = None,
        }
    }
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
