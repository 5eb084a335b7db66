//! Resources that a writer holds (entries, entry ids, copies), and when it releases them.

use crate::pipeline::*;
use entries::*;
use lookup::{LiveError, LiveTables, LookupError, ValueLayout};
use std::sync::Arc;
use std::time::Duration;

fn update(kind: UpdateKind, entry: TableEntry) -> WriteBatch {
    WriteBatch::from_iter([StateUpdate::Entry(kind, entry)])
}

fn inserted(live: &mut LiveTables, entry: TableEntry) -> (StoredEntry, Option<u32>) {
    let written = live.write(&update(UpdateKind::Insert, entry)).unwrap();
    let mut changes = written.changes_with_ids();
    let Some((StateChange::Inserted(_, entry, _), number)) = changes.next() else { panic!("{written:?}") };
    assert!(changes.next().is_none());
    (entry.clone(), number)
}

#[test]
fn a_number_is_not_given_again_while_a_reader_may_meet_its_entry() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |table| table == o.hosts).unwrap();
    let (first, number) = inserted(&mut live, o.host(1, 1, 1));
    assert_eq!((number, live.entry_id(o.hosts, &first)), (Some(0), Some(0)));
    let (route, number) = inserted(&mut live, o.route(1, 0, 8, 1));
    assert_eq!((number, live.entry_id(o.routes, &route)), (None, None), "nobody asked for numbers of routes");
    assert_eq!(inserted(&mut live, o.host(1, 2, 1)).1, Some(1));
    let modified = live.write(&update(UpdateKind::Modify, o.host(1, 1, 2))).unwrap();
    assert_eq!(modified.changes_with_ids().next().unwrap().1, Some(0), "a modified entry keeps its number");

    let mut reader = live.reader();
    reader.acquire();
    let deleted = live.write(&update(UpdateKind::Delete, o.host(1, 1, 0))).unwrap();
    assert_eq!(deleted.changes_with_ids().next().unwrap().1, Some(0));
    assert_eq!(live.entry_id(o.hosts, &first), None);
    // The reader is still in its batch.
    live.set_reader_timeout(Duration::ZERO);
    assert_eq!(inserted(&mut live, o.host(1, 3, 1)).1, Some(2));
    assert_eq!(reader.acquire().entry_id_bound(o.hosts), 3);
    assert_eq!(inserted(&mut live, o.host(1, 4, 1)).1, Some(0));
    assert_eq!(inserted(&mut live, o.host(1, 5, 1)).1, Some(3));
    assert_eq!(reader.acquire().entry_id_bound(o.hosts), 4);
}

#[test]
fn numbers_of_a_refused_batch_are_not_lost() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    for n in 0..100 {
        let mut batch = update(UpdateKind::Insert, o.host(1, n, 1));
        batch.insert(o.host(1 << 30, n, 1));
        assert_eq!(live.write(&batch).unwrap_err().index, 1);
    }
    assert_eq!(inserted(&mut live, o.host(1, 1, 1)).1, Some(0));
}

#[test]
fn what_is_gone_is_freed() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    let mut reader = live.reader();
    let entry = inserted(&mut live, o.host(1, 1, 1)).0;
    reader.acquire();
    live.write(&update(UpdateKind::Delete, o.host(1, 1, 1))).unwrap();
    // The change is kept for the copy that the reader holds.
    assert!(entry.reference_count() > 1);
    assert!(!live.sync_standby(), "a reader holds the copy with the entry");
    reader.acquire();
    assert!(live.sync_standby());
    assert_eq!(entry.reference_count(), 1, "nobody needs the entry any more");
    let held = reader.acquire().clone();
    reader.release();
    live.set_reader_timeout(Duration::ZERO);
    for n in 0..5 {
        inserted(&mut live, o.host(2, n, 1));
    }
    // A third copy exists only for the reader.
    let three = live.memory_bytes();
    assert!(!live.sync_standby());
    drop(held);
    assert!(live.sync_standby());
    assert!(live.memory_bytes() < three, "{} of {three} bytes", live.memory_bytes());
}

#[test]
fn a_group_is_published_at_its_end() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let mut reader = live.reader();
    let mut group = live.begin_publish_group();
    for n in 0..3 {
        group.write(&update(UpdateKind::Insert, o.host(1, n, 1))).unwrap();
        assert_eq!(reader.acquire().version(), 0);
    }
    group.write(&update(UpdateKind::Insert, o.host(1, 0, 1))).unwrap_err();
    let key = PackedKey::from_slice(&[1, 9]);
    let action = StoredAction::Call(o.forward, Box::new([1, 1]));
    let added = group.add_from_data_plane(o.hosts, key.clone(), action.clone(), 5).unwrap();
    assert!(group.add_from_data_plane(o.hosts, key, action, 5).is_none(), "it is there already");
    assert_eq!(group.state().entry_count(o.hosts), 4);
    drop(group);
    assert_eq!((reader.acquire().version(), added.version()), (4, 4));
    let [StateChange::Inserted(_, entry, _)] = added.changes() else { panic!("{added:?}") };
    reader.release();
    assert_eq!(live.remove_idle(o.hosts, entry).unwrap().version(), 5);
    assert!(live.remove_idle(o.hosts, entry).is_none(), "it is gone already");
    assert_eq!((reader.acquire().version(), live.state().entry_count(o.hosts)), (5, 3));
}

#[test]
fn a_write_that_can_wait_waits_for_no_reader() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let mut reader = live.reader();
    reader.acquire();
    let soon = |live: &mut LiveTables, n| live.write_deferred(&update(UpdateKind::Insert, o.host(1, n, 1))).unwrap();
    soon(&mut live, 1);
    assert_eq!(live.reader().acquire().version(), 1);
    // The reader now holds the other copy.
    let written = soon(&mut live, 2);
    assert_eq!((live.reader().acquire().version(), written.version()), (1, 2));
    assert!(!live.try_publish());
    reader.acquire();
    soon(&mut live, 3);
    assert_eq!(live.reader().acquire().version(), 3);
    // After the timeout, the writer stops waiting.
    live.set_reader_timeout(Duration::ZERO);
    soon(&mut live, 4);
    assert_eq!(live.reader().acquire().version(), 4);
}

#[test]
fn a_table_of_too_many_actions_is_refused() {
    let mut o = overlay();
    let actions: Vec<_> = (0..ValueLayout::MAX_ARMS + 1).map(|_| action(&mut o.pipeline, &[])).collect();
    table(&mut o.pipeline, vec![], &actions);
    let error = LiveTables::new(Arc::new(o.pipeline), |_| false).err().unwrap();
    let LiveError::Lookup(LookupError::TooManyActions { table, got: 241, most: 240 }) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(table, "table2");
    assert_eq!(error.to_string(), "table table2: 241 actions exceed the maximum of 240; split the table");
}
