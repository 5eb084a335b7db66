//! What has to be written so that a device's tables hold what a region asks for.

use super::{Api, Numbers, Part, defaults, visit};
use crate::check::Region;
use entries::{Counter, Entry, EntryError, PackedEntry, State, Update, UpdateKind, WriteBatch};
use ir::TableId;
use std::collections::{BTreeMap, HashSet};

/// The difference between a device's tables and a region: one batch, and what is in it.
#[derive(Debug, Default)]
pub struct Changes {
    /// Deletions, then insertions and modifications, then default actions: to be applied as one.
    pub batch: WriteBatch,
    /// Entries that are added.
    pub inserted: usize,
    /// Entries of which the action becomes another one.
    pub modified: usize,
    /// Entries that are removed.
    pub deleted: usize,
    /// Default actions and counters that are written.
    pub others: usize,
}

impl From<WriteBatch> for Changes {
    fn from(batch: WriteBatch) -> Changes {
        let mut changes = Changes::default();
        for update in &batch.updates {
            let count = match update {
                Update::Entry(kind, _) | Update::Packed(kind, _) => changes.count(*kind),
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
        self.batch.updates.push(Update::Packed(kind, entry));
    }
}

/// Compares the tables of a gateway with what `region` asks for. The tables are the truth, so that
/// nothing has to be remembered of earlier versions of the file: where an entry comes from is no
/// part of it, and a comment changes nothing. `numbers` must have been assigned for `region`, and
/// `fresh` are the numbers of VPCs that this assignment gave anew: their counters start at 0.
///
/// # Errors
/// An entry has no form in the table: the program is no gateway in some way that [`Api::new`] does
/// not look at.
pub fn changes(
    state: &State,
    region: &Region,
    api: &Api,
    numbers: &Numbers,
    fresh: &[u32],
) -> Result<Changes, Box<EntryError>> {
    let mut comparison = Comparison { state, wanted: Changes::default(), present: BTreeMap::new(), refused: None };
    visit(region, api, numbers, &Part::Whole, &mut |entry, _| {
        let packed = state.pack(UpdateKind::Insert, &entry);
        match packed {
            Ok(packed) => comparison.want(packed),
            Err(error) => drop(comparison.refused.get_or_insert(error)),
        }
    });
    if let Some(error) = comparison.refused {
        return Err(Box::new(error));
    }
    let mut changes = comparison.finish(api);
    for (table, action) in defaults(region, api) {
        if state.default_action(table).to_spec(state.pipeline()) != action {
            changes.batch.updates.push(Update::DefaultAction(table, Some(action)));
            changes.others += 1;
        }
    }
    for (counter, index) in api.counters_of(fresh) {
        changes.batch.updates.push(Update::Counter(counter, index, Counter::default()));
        changes.others += 1;
    }
    Ok(changes)
}

/// What is wanted, as far as the tables do not have it.
struct Comparison<'a> {
    state: &'a State,
    wanted: Changes,
    /// By table, the entries that are wanted and there, by their sequence numbers.
    present: BTreeMap<TableId, HashSet<u64>>,
    refused: Option<EntryError>,
}

impl Comparison<'_> {
    fn want(&mut self, entry: PackedEntry) {
        let Some(there) = self.state.find(entry.table, entry.key(), entry.priority) else {
            return self.wanted.push(UpdateKind::Insert, entry);
        };
        self.present.entry(entry.table).or_default().insert(there.sequence());
        if there.action() != entry.action() {
            self.wanted.push(UpdateKind::Modify, entry);
        }
    }

    /// With the deletions of all entries that are in the gateway's tables and were not wanted.
    fn finish(self, api: &Api) -> Changes {
        let mut changes = Changes::default();
        for table in api.tables() {
            let present = self.present.get(&table);
            if present.map_or(0, HashSet::len) == self.state.entry_count(table) {
                continue;
            }
            let is_gone = |entry: &&Entry| {
                !entry.is_const() && present.is_none_or(|present| !present.contains(&entry.sequence()))
            };
            for entry in self.state.entries(table).filter(is_gone) {
                changes.push(UpdateKind::Delete, PackedEntry::of(UpdateKind::Delete, table, entry));
            }
        }
        let Changes { batch, inserted, modified, .. } = self.wanted;
        // What is deleted makes room for what is inserted.
        changes.batch.updates.extend(batch.updates);
        (changes.inserted, changes.modified) = (inserted, modified);
        changes
    }
}
