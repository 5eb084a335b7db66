//! From one version of a region's entries to the next.

use super::Entries;
use std::cmp::Ordering;
use tables::{CounterData, TableEntry, Update, UpdateKind, WriteBatch};

/// The writes that make `new` of `old`, to be applied as one. Entries that do not differ are not touched.
pub fn diff(mut old: Entries, mut new: Entries) -> WriteBatch {
    old.entries.sort_by(identity);
    new.entries.sort_by(identity);
    let (mut deletes, mut others) = (Vec::new(), Vec::new());
    let mut old_entries = old.entries.into_iter().peekable();
    for entry in new.entries {
        while let Some(gone) = old_entries.next_if(|o| identity(o, &entry) == Ordering::Less) {
            deletes.push(Update::Entry(UpdateKind::Delete, gone));
        }
        match old_entries.next_if(|o| identity(o, &entry) == Ordering::Equal) {
            None => others.push(Update::Entry(UpdateKind::Insert, entry)),
            Some(same) if same.action == entry.action && same.provenance == entry.provenance => {}
            Some(_) => others.push(Update::Entry(UpdateKind::Modify, entry)),
        }
    }
    deletes.extend(old_entries.map(|gone| Update::Entry(UpdateKind::Delete, gone)));
    let changed = new.defaults.into_iter().filter(|d| !old.defaults.contains(d));
    others.extend(changed.map(|(table, action)| Update::DefaultAction(table, Some(action))));
    others
        .extend(new.reused.into_iter().map(|(counter, index)| Update::Counter(counter, index, CounterData::default())));
    deletes.append(&mut others);
    WriteBatch { updates: deletes }
}

/// Order by what makes an entry the same entry.
fn identity(a: &TableEntry, b: &TableEntry) -> Ordering {
    (a.table, &a.keys, a.priority).cmp(&(b.table, &b.keys, b.priority))
}
