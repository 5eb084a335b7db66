//! Difference between two versions of a region's entries.

use super::GatewayEntries;
use entries::{Counter, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use std::cmp::Ordering;

/// Returns the writes that turn `old` into `new`, to be applied atomically. Entries with the same
/// effect are unchanged. Provenance is no part of the effect, so that a comment in the first line,
/// which moves all others, changes nothing. The provenance of a stored entry is then from the file
/// by which it was last written. To display its current source, look it up in `new`.
pub fn diff(mut old: GatewayEntries, mut new: GatewayEntries) -> WriteBatch {
    old.entries.sort_by(identity);
    new.entries.sort_by(identity);
    let (mut deletes, mut others) = (Vec::new(), Vec::new());
    let mut old_entries = old.entries.into_iter().peekable();
    for entry in new.entries {
        while let Some(gone) = old_entries.next_if(|o| identity(o, &entry) == Ordering::Less) {
            deletes.push(StateUpdate::Entry(UpdateKind::Delete, gone));
        }
        match old_entries.next_if(|o| identity(o, &entry) == Ordering::Equal) {
            None => others.push(StateUpdate::Entry(UpdateKind::Insert, entry)),
            Some(same) if same.action == entry.action => {}
            Some(_) => others.push(StateUpdate::Entry(UpdateKind::Modify, entry)),
        }
    }
    deletes.extend(old_entries.map(|gone| StateUpdate::Entry(UpdateKind::Delete, gone)));
    let changed = new.defaults.into_iter().filter(|d| !old.defaults.contains(d));
    others.extend(changed.map(|(table, action)| StateUpdate::DefaultAction(table, Some(action))));
    others.extend(
        new.counters_to_reset
            .into_iter()
            .map(|(counter, index)| StateUpdate::Counter(counter, index, Counter::default())),
    );
    let changed = new.expire_times.into_iter().filter(|time| !old.expire_times.contains(time));
    others.extend(changed.map(|(profile, ns)| StateUpdate::ExpireTime(profile, ns)));
    deletes.append(&mut others);
    WriteBatch { updates: deletes }
}

/// Compares entries by table, keys and priority, which identify them.
fn identity(a: &TableEntry, b: &TableEntry) -> Ordering {
    (a.table, &a.keys, a.priority).cmp(&(b.table, &b.keys, b.priority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use entries::ActionSpec;
    use ir::{ActionCall, ActionId, KeyMatch, TableId};

    fn entry(key: u32, action: u32, line: u32) -> TableEntry {
        let call = ActionCall { action: ActionId(action), args: Vec::new() };
        TableEntry::new(TableId(0), vec![KeyMatch::Exact(key.into())], ActionSpec::Call(call))
            .with_provenance(format!("r.yaml:{line}: VPC v"))
    }

    fn of(entries: Vec<TableEntry>) -> GatewayEntries {
        GatewayEntries { entries, ..GatewayEntries::default() }
    }

    #[test]
    fn an_entry_that_has_moved_in_the_file_is_the_same() {
        let old = of(vec![entry(1, 0, 10), entry(2, 0, 11), entry(3, 0, 12)]);
        let moved = of(vec![entry(1, 0, 11), entry(2, 0, 12), entry(3, 0, 13)]);
        assert_eq!(diff(old.clone(), moved.clone()).updates, []);
        // An entry with another action is modified, and gets the new line.
        let changed = of(vec![entry(1, 0, 11), entry(2, 7, 12), entry(4, 0, 13)]);
        let expected = [
            StateUpdate::Entry(UpdateKind::Delete, entry(3, 0, 12)),
            StateUpdate::Entry(UpdateKind::Modify, entry(2, 7, 12)),
            StateUpdate::Entry(UpdateKind::Insert, entry(4, 0, 13)),
        ];
        assert_eq!(diff(old, changed).updates, expected);
    }
}
