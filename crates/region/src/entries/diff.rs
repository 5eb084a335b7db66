//! From one version of a region's entries to the next.

use super::Entries;
use entries::{Counter, TableEntry, Update, UpdateKind, WriteBatch};
use std::cmp::Ordering;

/// The writes that make `new` of `old`, to be applied as one. Entries that do the same are not touched: where an entry comes from is
/// no part of what it does, so that a comment in the first line, which moves all others, changes nothing. The table's entry then has
/// the provenance of the file by which it was last written; who shows where an entry comes from has to ask for that of `new`.
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
            Some(same) if same.action == entry.action => {}
            Some(_) => others.push(Update::Entry(UpdateKind::Modify, entry)),
        }
    }
    deletes.extend(old_entries.map(|gone| Update::Entry(UpdateKind::Delete, gone)));
    let changed = new.defaults.into_iter().filter(|d| !old.defaults.contains(d));
    others.extend(changed.map(|(table, action)| Update::DefaultAction(table, Some(action))));
    others.extend(new.reused.into_iter().map(|(counter, index)| Update::Counter(counter, index, Counter::default())));
    deletes.append(&mut others);
    WriteBatch { updates: deletes }
}

/// Order by what makes an entry the same entry.
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

    fn of(entries: Vec<TableEntry>) -> Entries {
        Entries { entries, ..Entries::default() }
    }

    #[test]
    fn an_entry_that_has_moved_in_the_file_is_the_same() {
        let old = of(vec![entry(1, 0, 10), entry(2, 0, 11), entry(3, 0, 12)]);
        let moved = of(vec![entry(1, 0, 11), entry(2, 0, 12), entry(3, 0, 13)]);
        assert_eq!(diff(old.clone(), moved.clone()).updates, []);
        // What does something else is changed, and has the new line.
        let changed = of(vec![entry(1, 0, 11), entry(2, 7, 12), entry(4, 0, 13)]);
        let expected = [
            Update::Entry(UpdateKind::Delete, entry(3, 0, 12)),
            Update::Entry(UpdateKind::Modify, entry(2, 7, 12)),
            Update::Entry(UpdateKind::Insert, entry(4, 0, 13)),
        ];
        assert_eq!(diff(old, changed).updates, expected);
    }
}
