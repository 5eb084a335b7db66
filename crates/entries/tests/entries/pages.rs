//! Tests reading a table page by page while it changes, and snapshots without a table's entries.

use crate::pipeline::{Sample, sample};
use entries::{ActionSpec, ControlState, TableEntry, UpdateKind, WriteBatch};
use ir::{ActionCall, KeyMatch};
use num_bigint::BigUint;

/// Prefixes from this number on come and go between pages.
const CHANGING: u32 = 1 << 31;

/// Writes updates of routes to these addresses.
fn write(sample: &Sample, state: &mut ControlState, kind: UpdateKind, addresses: impl Iterator<Item = u32>) {
    let mut batch = WriteBatch::new();
    for address in addresses {
        let keys = vec![KeyMatch::Exact(BigUint::from(1u8)), KeyMatch::Lpm { value: address.into(), prefix_len: 32 }];
        let action = ActionSpec::Call(ActionCall { action: sample.drop, args: vec![] });
        batch.push(entries::StateUpdate::Entry(kind, TableEntry::new(sample.routes, keys, action)));
    }
    state.apply(&batch).expect("a good batch");
}

#[test]
fn pages_have_each_entry_that_stays_once() {
    for size in [0, 100, 8192, 8193, 30_000u32] {
        let sample = sample();
        let mut state = sample.state.clone();
        write(&sample, &mut state, UpdateKind::Insert, 0..size);
        let (mut seen, mut page, mut changing) = (Vec::new(), Some(0), CHANGING);
        while let Some(number) = page {
            let (entries, next) = state.entries_page(sample.routes, number);
            // The words of a key: the VRF, the address, the prefix length.
            seen.extend(entries.map(|entry| entry.key()[1] as u32).filter(|address| *address < CHANGING));
            page = next;
            write(&sample, &mut state, UpdateKind::Insert, changing..changing + 20);
            write(&sample, &mut state, UpdateKind::Modify, 0..size.min(20));
            write(&sample, &mut state, UpdateKind::Delete, changing..changing + 10);
            changing += 20;
        }
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..size), "{} of {size}", seen.len());
    }
}

#[test]
fn a_snapshot_can_leave_the_entries_of_a_table_out() {
    let sample = sample();
    let mut state = sample.state.clone();
    write(&sample, &mut state, UpdateKind::Insert, 0..10);
    let mut snapshot = state.clone();
    snapshot.leave_entries_out(sample.routes);
    assert!(snapshot.are_entries_left_out(sample.routes) && !state.are_entries_left_out(sample.routes));
    assert_eq!((snapshot.entry_count(sample.routes), state.entry_count(sample.routes)), (0, 10));
    assert_eq!(snapshot.default_action(sample.routes), state.default_action(sample.routes));
}
