//! Compares the full text of rejections: table, key, value and fix.

use crate::pipeline::*;
use entries::*;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, TableId};

/// Returns the message for one update and checks that the state is unchanged.
fn refused(s: &mut Sample, update: StateUpdate) -> String {
    let (version, before) = (s.state.version(), s.state.clone());
    let error = s.state.apply(&[update.clone()].into_iter().collect()).expect_err("refused");
    assert_eq!(s.state.version(), version);
    for table in s.state.pipeline().tables.keys() {
        assert_eq!(s.state.entry_count(table), before.entry_count(table));
        assert_eq!(s.state.default_action(table), before.default_action(table));
    }
    assert_eq!(s.state.check(&[update].into_iter().collect()), Err(error.clone()));
    error.error.to_string()
}

fn insert(s: &mut Sample, entry: TableEntry) -> String {
    refused(s, StateUpdate::Entry(UpdateKind::Insert, entry))
}

#[test]
fn keys() {
    let mut s = sample();
    let with = |mut entry: TableEntry, at: usize, key: KeyMatch| {
        entry.keys[at] = key;
        entry
    };
    let cases = [
        (
            with(s.host(1, 1), 0, exact(1 << 48)),
            "table ingress.host, key hdr.mac: 0x1000000000000 does not fit in 48 bits; the largest value is 0xffffffffffff",
        ),
        (
            with(s.host(1, 1), 0, ternary(1, 1)),
            "table ingress.host, key hdr.mac: a match of kind ternary was given; the key is exact, so write it as 10",
        ),
        (
            s.route(1, 0x0a000001, 8, 1),
            "table ingress.routes, key hdr.dst: 0xa000001/8 has bits set after the prefix; write 0xa000000/8",
        ),
        (
            s.route(1, 0, 33, 1),
            "table ingress.routes, key hdr.dst: prefix length 33 exceeds the key's 32 bits; use at most 32",
        ),
        (
            with(s.acl(1, 1), 1, ternary(0xff, 0xf0)),
            "table ingress.acl, key hdr.src: value 0xff has bits where mask 0xf0 has none; write 0xf0",
        ),
        (
            with(s.acl(1, 1), 2, range(5, 4)),
            "table ingress.acl, key hdr.port: the range 0x5..0x4 is empty; the lower bound comes first",
        ),
        // -1 (0xff) is less than 1 for an int<8>, 1 is not less than -1.
        (
            with(s.acl(1, 1), 3, range(1, 0xff)),
            "table ingress.acl, key hdr.offset: the range 0x1..0xff is empty; the lower bound comes first",
        ),
        (
            s.acl(1, 0),
            "table ingress.acl: priority 0 given; it has ternary, range or optional keys, so give a priority from 1 up, the greatest wins",
        ),
        (
            s.host(1, 1).with_priority(4),
            "table ingress.host: priority 4 given; its keys are exact and lpm, so entries have no priority: leave it out",
        ),
        (
            TableEntry { keys: vec![], ..s.host(1, 1) },
            "table ingress.host: 0 keys given, but it has 1 (hdr.mac); give one match for each",
        ),
        (TableEntry { table: TableId(99), ..s.host(1, 1) }, "there is no table number 99; the program has 4 tables"),
    ];
    for (entry, message) in cases {
        assert_eq!(insert(&mut s, entry), message);
    }
    let fine = with(s.acl(1, 1), 3, range(0xff, 1));
    s.state.apply(WriteBatch::new().insert(fine)).unwrap();
}

#[test]
fn actions() {
    let mut s = sample();
    let with = |s: &Sample, action: ActionSpec| TableEntry { action, ..s.host(1, 1) };
    let cases = [
        (
            s.call(s.forward, &[1]),
            "table ingress.host, action ingress.forward: 1 arguments given, 2 needed (port, mac)",
        ),
        (
            s.call(s.forward, &[512, 0]),
            "table ingress.host, action ingress.forward, parameter port: 0x200 does not fit in 9 bits; the largest value is 0x1ff",
        ),
        (
            s.call(ActionId(2), &[]),
            "table ingress.host: it has no action ingress.other; its actions are ingress.drop, ingress.forward",
        ),
        (
            s.call(ActionId(77), &[]),
            "table ingress.host: it has no action number 77; its actions are ingress.drop, ingress.forward",
        ),
        (
            ActionSpec::Member(1),
            "table ingress.host: it has no action profile; give an action instead of a member or group",
        ),
    ];
    for (action, message) in cases {
        let entry = with(&s, action);
        assert_eq!(insert(&mut s, entry), message);
    }
    let table_only = StateUpdate::DefaultAction(s.host, Some(s.call(s.forward, &[1, 2])));
    assert_eq!(
        refused(&mut s, table_only),
        "table ingress.host: action ingress.forward is @tableonly; the default needs another action"
    );
    let fixed = StateUpdate::DefaultAction(s.fixed, Some(s.call(s.drop, &[])));
    assert_eq!(
        refused(&mut s, fixed),
        "table egress.fixed: its default action is const, it can only be changed in the program"
    );
}

#[test]
fn presence() {
    let mut s = sample();
    s.state.apply(WriteBatch::new().insert(s.host(1, 1)).insert(s.host(2, 1)).insert(s.host(3, 1))).unwrap();
    let (again, fourth) = (s.host(2, 9), s.host(4, 1));
    assert_eq!(
        insert(&mut s, again),
        "table ingress.host: there is already an entry (hdr.mac=0x2); modify it, or delete it first"
    );
    assert_eq!(
        insert(&mut s, fourth.clone()),
        "table ingress.host: it is full (3 entries); delete some, or give it a greater size in the program"
    );
    for kind in [UpdateKind::Modify, UpdateKind::Delete] {
        let update = StateUpdate::Entry(kind, fourth.clone());
        assert_eq!(refused(&mut s, update), "table ingress.host: there is no entry (hdr.mac=0x4); insert it first");
    }
    let fixed = TableEntry::new(s.fixed, vec![exact(7)], s.call(s.drop, &[]));
    for kind in [UpdateKind::Insert, UpdateKind::Modify, UpdateKind::Delete] {
        let update = StateUpdate::Entry(kind, fixed.clone());
        assert_eq!(
            refused(&mut s, update),
            "table egress.fixed: its entries are const, they can only be changed in the program"
        );
    }
    let strong = s.acl(1, 5);
    s.state.apply(WriteBatch::new().insert(strong)).unwrap();
    let gone = StateUpdate::Entry(UpdateKind::Delete, s.acl(1, 6));
    assert!(refused(&mut s, gone).ends_with("with priority 6; insert it first"));
}

#[test]
fn attributes() {
    let mut s = sample();
    let rates = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1 };
    let host = s.host(1, 1);
    let cases = [
        (
            TableEntry { idle_timeout_ns: 1, ..host.clone() },
            "table ingress.host: entries have no idle timeout; leave it out, or declare support for it in the program",
        ),
        (
            TableEntry { counter: Some(Counter::default()), ..host.clone() },
            "table ingress.host: it has no direct counter; leave the counter data out",
        ),
        (
            TableEntry { meter: Some(rates), ..host },
            "table ingress.host: it has no direct meter; leave the meter configuration out",
        ),
    ];
    for (entry, message) in cases {
        assert_eq!(insert(&mut s, entry), message);
    }
    let route = TableEntry { idle_timeout_ns: 5, ..s.route(1, 0, 0, 1) };
    s.state.apply(WriteBatch::new().insert(route)).unwrap();
}

#[test]
fn objects() {
    let mut s = sample();
    let (counter, none) = (s.counter, Counter::default());
    let member = ActionProfileMember { profile: counter, id: 1, action: ActionCall { action: s.drop, args: vec![] } };
    let group = |id| MulticastGroup { id, replicas: vec![] };
    let many = MulticastGroup { id: 1, replicas: vec![Replica { port: 1, instance: 0 }; 1025] };
    let cases = [
        (StateUpdate::Counter(counter, 8, none), "ingress.drops: index 8 is out of range; the last one is 7"),
        (StateUpdate::Counter(ExternId(9), 0, none), "there is no extern object number 9; the program has 1"),
        (StateUpdate::Meter(counter, 0, None), "ingress.drops is a counter, not a meter"),
        (StateUpdate::Register(counter, None, vec![]), "ingress.drops is a counter, not a register"),
        (
            StateUpdate::Member(UpdateKind::Insert, member),
            "ingress.drops is a counter, not a action profile or selector",
        ),
        (
            StateUpdate::Multicast(UpdateKind::Insert, group(0)),
            "multicast group 0 is not possible, because 0 means none; number them from 1",
        ),
        (
            StateUpdate::Multicast(UpdateKind::Modify, group(1)),
            "the packet replication engine has no multicast group 1; insert it first",
        ),
        (
            StateUpdate::Multicast(UpdateKind::Insert, many),
            "multicast group 1: 1025 copies are more than possible (1024)",
        ),
        (StateUpdate::ValueSet(ir::ValueSetId(0), vec![]), "there is no value set number 0; the program has 0"),
    ];
    for (update, message) in cases {
        assert_eq!(refused(&mut s, update), message);
    }
}
