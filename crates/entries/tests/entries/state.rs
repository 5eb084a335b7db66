//! Tests that batches apply completely or not at all, that snapshots never change, and that lookups
//! agree with a naive model.

use crate::pipeline::*;
use entries::*;
use ir::KeyMatch;
use proptest::prelude::*;

/// Returns all visible properties of a state.
fn contents(s: &ControlState) -> Vec<String> {
    let mut lines = Vec::new();
    for table in s.pipeline().tables.keys() {
        lines.extend(s.entries(table).map(|e| format!("{:?}", e.to_table_entry(s.pipeline(), table))));
        lines.push(format!("{table} default {:?}", s.default_action(table)));
    }
    lines.push(format!("{:?}{:?}{:?}", s.multicast_groups(), s.clone_sessions(), s.expire_times()));
    lines.sort();
    lines
}

#[test]
fn order_within_a_batch() {
    let mut s = sample();
    s.state.apply(WriteBatch::new().insert(s.host(1, 1))).unwrap();
    let mut batch = WriteBatch::new();
    batch.delete(s.host(1, 0)).insert(s.host(1, 2)).modify(s.host(1, 3));
    let changes = s.state.apply(&batch).unwrap();
    assert!(matches!(changes[..], [StateChange::Deleted(..), StateChange::Inserted(..), StateChange::Modified(..)]));
    let found = s.state.lookup(s.host, &[big(1)]).unwrap();
    assert_eq!(found.action(), StoredActionRef::Call(s.forward, &[3, 0]));
    assert_eq!(s.state.version(), 2);
}

#[test]
fn snapshots_stand_still() {
    let mut s = sample();
    s.state.apply(WriteBatch::new().insert(s.host(1, 1))).unwrap();
    let (snapshot, before) = (s.state.clone(), contents(&s.state));
    let mut batch = WriteBatch::new();
    batch.modify(s.host(1, 2)).insert(s.host(2, 2)).insert(s.acl(3, 4));
    s.state.apply(&batch).unwrap();
    assert_eq!(contents(&snapshot), before);
    assert_ne!(contents(&s.state), before);
    assert_eq!((snapshot.version(), s.state.version()), (1, 2));
}

/// The program's entries exist from the start and report their origin.
#[test]
fn program_entries() {
    let s = sample();
    let entry = s.state.lookup(s.fixed, &[big(7)]).unwrap();
    assert_eq!((entry.is_const(), entry.provenance().map(|p| &**p)), (true, Some("sample.p4:33")));
    assert!(s.state.lookup(s.fixed, &[big(8)]).is_none());
}

#[test]
fn add_from_data_plane() {
    let mut s = sample();
    let key = |mac: u64| PackedKey::from_slice(&[mac]);
    let action = StoredAction::Call(s.forward, Box::new([1, 2]));
    for mac in 1..=3 {
        assert!(s.state.add_from_data_plane(s.host, key(mac), action.clone(), 0).is_some());
    }
    assert!(s.state.add_from_data_plane(s.host, key(3), action.clone(), 0).is_none());
    assert!(s.state.add_from_data_plane(s.host, key(4), action.clone(), 0).is_none()); // full
    assert!(s.state.add_from_data_plane(s.fixed, key(4), action, 0).is_none()); // const
    assert_eq!((s.state.entry_count(s.host), s.state.version()), (3, 3));
}

/// Returns a random update with small numbers, so that updates collide.
fn update() -> impl Strategy<Value = (u8, u8, u8, u8)> {
    (0..9u8, 0..4u8, 0..4u8, any::<u8>())
}

fn state_update(s: &Sample, (what, a, b, c): (u8, u8, u8, u8)) -> StateUpdate {
    let kind = [UpdateKind::Insert, UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Delete][usize::from(b)];
    let (x, y) = (u128::from(a), u128::from(c));
    match what {
        0 | 1 => StateUpdate::Entry(kind, s.host(x, y)),
        2 | 3 => {
            let len = u32::from(c) % 5;
            StateUpdate::Entry(kind, s.route(x % 2, (y >> 4 << 28) >> (32 - len.max(1)) << (32 - len.max(1)), len, y))
        }
        4 | 5 => StateUpdate::Entry(kind, s.acl(x, i32::from(c % 3) + 1)),
        6 => StateUpdate::DefaultAction(s.host, (c % 2 == 0).then(|| s.call(s.drop, &[]))),
        7 => {
            let replicas = vec![Replica { port: u32::from(c), instance: 0 }];
            StateUpdate::Multicast(kind, MulticastGroup { id: u32::from(a), replicas })
        }
        _ => StateUpdate::ExpireTime(a, u64::from(c)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A batch has the effect of its updates one by one; if one is rejected, it has none.
    #[test]
    fn all_or_nothing(batches in proptest::collection::vec(proptest::collection::vec(update(), 1..8), 1..30)) {
        let mut s = sample();
        let (mut applied, mut refused) = (0, 0);
        for seeds in batches {
            let batch: WriteBatch = seeds.iter().map(|seed| state_update(&s, *seed)).collect();
            let before = contents(&s.state);
            let mut single = s.state.clone();
            let one_by_one =
                batch.updates.iter().position(|u| single.apply(&[u.clone()].into_iter().collect()).is_err());
            match s.state.apply(&batch) {
                Ok(changes) => {
                    applied += 1;
                    prop_assert_eq!((one_by_one, changes.len()), (None, batch.updates.len()));
                    prop_assert_eq!(contents(&s.state), contents(&single));
                }
                Err(error) => {
                    refused += 1;
                    prop_assert_eq!(one_by_one, Some(error.index));
                    prop_assert_eq!(contents(&s.state), before);
                }
            }
        }
        prop_assert!(applied + refused > 0);
    }

    /// A packed entry unpacks to itself.
    #[test]
    fn packing(vpc in 0..1u128 << 20, src in any::<u128>(), mask in any::<u128>(), lo in any::<u16>(), hi in any::<u16>(),
               proto in any::<Option<u8>>(), port in 0..512u128, mac in 0..1u128 << 48) {
        let mut s = sample();
        let keys = vec![
            exact(vpc),
            ternary(src & mask, mask),
            range(u128::from(lo.min(hi)), u128::from(lo.max(hi))),
            range(0xfe, 3),
            KeyMatch::Optional(proto.map(|p| big(u128::from(p)))),
        ];
        let given = TableEntry::new(s.acl, keys, s.call(s.forward, &[port, mac])).with_priority(3).with_provenance("here");
        s.state.apply(WriteBatch::new().insert(given.clone())).unwrap();
        let kept = s.state.entries(s.acl).next().unwrap().to_table_entry(s.state.pipeline(), s.acl);
        prop_assert_eq!(kept, given);
    }
}
