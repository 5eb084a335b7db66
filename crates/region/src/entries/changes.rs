//! Computes the writes that bring a device's tables to the state of a region.

use super::{GatewayApi, IdAssignments, RegionPart, defaults, visit};
use crate::check::ResolvedRegion;
use entries::{ControlState, Counter, EntryError, PackedEntry, StateUpdate, StoredEntry, UpdateKind, WriteBatch};
use ir::TableId;
use std::collections::{BTreeMap, HashSet};

/// The difference between a device's tables and a region: one batch, with its statistics.
#[derive(Debug, Default)]
pub struct Changes {
    /// Deletions, then insertions and modifications, then default actions. Applied atomically.
    pub batch: WriteBatch,
    /// Number of entries that are added.
    pub inserted: usize,
    /// Number of entries that get another action.
    pub modified: usize,
    /// Number of entries that are removed.
    pub deleted: usize,
    /// Number of default actions, idle times and counters that are written.
    pub others: usize,
}

impl From<WriteBatch> for Changes {
    fn from(batch: WriteBatch) -> Changes {
        let mut changes = Changes::default();
        for update in &batch.updates {
            let count = match update {
                StateUpdate::Entry(kind, _) | StateUpdate::Packed(kind, _) => changes.count(*kind),
                _ => &mut changes.others,
            };
            *count += 1;
        }
        Changes { batch, ..changes }
    }
}

impl Changes {
    fn count(&mut self, kind: UpdateKind) -> &mut usize {
        match kind {
            UpdateKind::Insert => &mut self.inserted,
            UpdateKind::Modify => &mut self.modified,
            UpdateKind::Delete => &mut self.deleted,
        }
    }

    fn push(&mut self, kind: UpdateKind, entry: PackedEntry) {
        *self.count(kind) += 1;
        self.batch.updates.push(StateUpdate::Packed(kind, entry));
    }
}

/// Compares the tables of a gateway with the entries of `region`. Needs no earlier version of the
/// file, because the tables are the reference. An entry's source line is not compared, so that a
/// comment in the file changes nothing. `numbers` must have been assigned for `region`. `fresh` are
/// the ids of VPCs that this assignment added; their counters are set to 0.
///
/// # Errors
/// A table cannot express an entry, because the program differs from the gateway in something that
/// [`GatewayApi::new`] does not check.
pub fn changes(
    state: &ControlState,
    region: &ResolvedRegion,
    api: &GatewayApi,
    numbers: &IdAssignments,
    fresh: &[u32],
) -> Result<Changes, Box<EntryError>> {
    let mut comparison = TableComparison { state, wanted: Changes::default(), present: BTreeMap::new(), refused: None };
    visit(region, api, numbers, &RegionPart::Whole, &mut |entry, _| {
        let packed = state.pack_entry(UpdateKind::Insert, &entry);
        match packed {
            Ok(packed) => comparison.add_wanted(packed),
            Err(error) => drop(comparison.refused.get_or_insert(error)),
        }
    });
    if let Some(error) = comparison.refused {
        return Err(Box::new(error));
    }
    let mut changes = comparison.finish(api);
    for (table, action) in defaults(region, api, numbers) {
        if state.default_action(table).to_spec(state.pipeline()) != action {
            changes.batch.updates.push(StateUpdate::DefaultAction(table, Some(action)));
            changes.others += 1;
        }
    }
    for (profile, ns) in super::expire_times(region) {
        if state.expire_times().get(&profile) != Some(&ns) {
            changes.batch.updates.push(StateUpdate::ExpireTime(profile, ns));
            changes.others += 1;
        }
    }
    for (counter, index) in api.counters_of(fresh) {
        changes.batch.updates.push(StateUpdate::Counter(counter, index, Counter::default()));
        changes.others += 1;
    }
    Ok(changes)
}

/// Entries of the region that the tables lack.
struct TableComparison<'a> {
    state: &'a ControlState,
    wanted: Changes,
    /// By table, the sequence numbers of present entries that the region has.
    present: BTreeMap<TableId, HashSet<u64>>,
    refused: Option<EntryError>,
}

impl TableComparison<'_> {
    fn add_wanted(&mut self, entry: PackedEntry) {
        let Some(there) = self.state.get_entry(entry.table, entry.key(), entry.priority) else {
            return self.wanted.push(UpdateKind::Insert, entry);
        };
        self.present.entry(entry.table).or_default().insert(there.sequence());
        if there.action() != entry.action() {
            self.wanted.push(UpdateKind::Modify, entry);
        }
    }

    /// Returns the changes, with deletions of all entries of the gateway's tables that the region
    /// lacks.
    fn finish(self, api: &GatewayApi) -> Changes {
        let mut changes = Changes::default();
        for table in api.tables() {
            let present = self.present.get(&table);
            if present.map_or(0, HashSet::len) == self.state.entry_count(table) {
                continue;
            }
            let is_gone = |entry: &&StoredEntry| {
                !entry.is_const()
                    && present.is_none_or(|present| !present.contains(&entry.sequence()))
                    && !api.is_of_kernel(self.state, table, entry)
            };
            for entry in self.state.entries(table).filter(is_gone) {
                changes.push(UpdateKind::Delete, PackedEntry::from_stored(UpdateKind::Delete, table, entry));
            }
        }
        let Changes { batch, inserted, modified, .. } = self.wanted;
        // Deletions come first, because they free space for insertions.
        changes.batch.updates.extend(batch.updates);
        (changes.inserted, changes.modified) = (inserted, modified);
        changes
    }
}
