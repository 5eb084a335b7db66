//! Tests `ActionProfileMember`, `ActionProfileGroup`, and action sets (section "One Shot Action
//! Selector Programming").

use crate::bench::*;
use p4runtime::proto::v1::{self, entity::Entity as E, table_action::Type as T, update::Type};
use p4runtime::{Code, Device, FIRST_HIDDEN};

fn member(bench: &Bench, profile: &str, member_id: u32, port: u8) -> v1::ActionProfileMember {
    let action = Some(bench.call("forward", &[&[port], b"\x01"]));
    v1::ActionProfileMember { action_profile_id: bench.object(profile), member_id, action }
}

/// Returns a group with members and weights; `max_size` is the program's.
fn group(bench: &Bench, profile: &str, group_id: u32, members: &[(u32, i32)]) -> v1::ActionProfileGroup {
    let member = |(member_id, weight): &(u32, i32)| v1::action_profile_group::Member {
        member_id: *member_id,
        weight: *weight,
        watch_kind: None,
    };
    let max_size = if profile == "ways" { 6 } else { 3 };
    let members = members.iter().map(member).collect();
    v1::ActionProfileGroup { action_profile_id: bench.object(profile), group_id, members, max_size }
}

fn write_member(bench: &Bench, kind: Type, member: v1::ActionProfileMember) -> Result<(), p4runtime::P4RuntimeError> {
    bench.write(kind, E::ActionProfileMember(member))
}

fn write_group(bench: &Bench, kind: Type, group: v1::ActionProfileGroup) -> Result<(), p4runtime::P4RuntimeError> {
    bench.write(kind, E::ActionProfileGroup(group))
}

fn entry(bench: &Bench, table: &str, key: &[u8], action: T) -> v1::TableEntry {
    let action = Some(v1::TableAction { r#type: Some(action) });
    v1::TableEntry { action, ..bench.entry(table, vec![exact(1, key)], v1::Action::default()) }
}

fn set(bench: &Bench, actions: &[(u8, i32)]) -> v1::ActionProfileActionSet {
    let one = |(port, weight): &(u8, i32)| {
        let action = Some(bench.call("forward", &[&[*port], b"\x01"]));
        v1::ActionProfileAction { action, weight: *weight, watch_kind: None }
    };
    v1::ActionProfileActionSet { action_profile_actions: actions.iter().map(one).collect(), ..Default::default() }
}

fn one_shot(bench: &Bench, key: &[u8], actions: &[(u8, i32)]) -> v1::TableEntry {
    entry(bench, "spread", key, T::ActionProfileActionSet(set(bench, actions)))
}

/// Returns the numbers of members and groups in the state, including hidden ones.
fn counts(bench: &Bench) -> (usize, usize) {
    let state = bench.device.state().unwrap();
    let table = state.pipeline().tables.values().find(|t| t.preamble.name == "ingress.spread").unwrap();
    let profile = state.profile(table.implementation.unwrap()).unwrap();
    (profile.members.len(), profile.groups.len())
}

#[test]
fn members() {
    let bench = bench();
    let insert = |member| write_member(&bench, Type::Insert, member);
    let new = |id| member(&bench, "shared", id, 5);
    ok(insert(new(1)));
    refused(insert(new(1)), Code::AlreadyExists, "member 1 of ingress.shared");
    refused(insert(new(0)), Code::InvalidArgument, "ingress.shared .. number them from 1");
    refused(insert(new(FIRST_HIDDEN)), Code::InvalidArgument, "ingress.shared .. server's own");
    refused(
        insert(v1::ActionProfileMember { action: None, ..new(2) }),
        Code::InvalidArgument,
        "member 2 has no action",
    );
    let foreign = Some(bench.call("to_port", &[b"\x01"]));
    refused(insert(v1::ActionProfileMember { action: foreign, ..new(2) }), Code::InvalidArgument, "no action with id");
    refused(insert(v1::ActionProfileMember { action_profile_id: 3, ..new(2) }), Code::NotFound, "no action profile");
    (2..=4).for_each(|id| ok(insert(new(id))));
    refused(insert(new(5)), Code::ResourceExhausted, "ingress.shared is full (4 members)");
    refused(write_member(&bench, Type::Modify, new(5)), Code::NotFound, "ingress.shared has no member 5");
    refused(write_member(&bench, Type::Delete, new(5)), Code::NotFound, "ingress.shared has no member 5");
    ok(write_member(&bench, Type::Modify, member(&bench, "shared", 2, 9)));
    let wanted = |action_profile_id, member_id| {
        E::ActionProfileMember(v1::ActionProfileMember { action_profile_id, member_id, action: None })
    };
    let shared = bench.object("shared");
    assert_eq!(ok(bench.read(wanted(shared, 2))), [E::ActionProfileMember(member(&bench, "shared", 2, 9))]);
    assert_eq!(ok(bench.read(wanted(shared, 0))).len(), 4);
    assert_eq!(ok(bench.read(wanted(0, 0))).len(), 4);
    refused(bench.read(wanted(0, 2)), Code::InvalidArgument, "action_profile_id");
    refused(bench.read(wanted(shared, 9)), Code::NotFound, "ingress.shared has no member 9");
    // In use until the entry is deleted.
    let user = entry(&bench, "indirect", b"\x01", T::ActionProfileMemberId(3));
    ok(bench.insert(&user));
    assert_eq!(bench.table_entries("indirect"), [user.clone()]);
    refused(write_member(&bench, Type::Delete, new(3)), Code::FailedPrecondition, "member 3 .. still used");
    ok(bench.delete(&user));
    ok(write_member(&bench, Type::Delete, v1::ActionProfileMember { action: None, ..new(3) }));
}

#[test]
fn groups() {
    let bench = bench();
    let insert = |group| write_group(&bench, Type::Insert, group);
    (1..=3).for_each(|id| ok(write_member(&bench, Type::Insert, member(&bench, "ways", id, id as u8))));
    let new = |id, members: &[(u32, i32)]| group(&bench, "ways", id, members);
    ok(insert(new(1, &[(1, 2), (3, 1)])));
    ok(insert(new(7, &[])));
    let wanted = |action_profile_id, group_id| {
        E::ActionProfileGroup(v1::ActionProfileGroup { action_profile_id, group_id, ..Default::default() })
    };
    let ways = bench.object("ways");
    assert_eq!(ok(bench.read(wanted(ways, 1))), [E::ActionProfileGroup(new(1, &[(1, 2), (3, 1)]))]);
    assert_eq!(ok(bench.read(wanted(0, 0))).len(), 2);
    refused(bench.read(wanted(ways, 2)), Code::NotFound, "ingress.ways has no group 2");
    refused(insert(new(1, &[])), Code::AlreadyExists, "group 1 of ingress.ways");
    refused(insert(new(0, &[])), Code::InvalidArgument, "number them from 1");
    refused(insert(new(FIRST_HIDDEN + 1, &[])), Code::InvalidArgument, "server's own");
    refused(insert(new(2, &[(9, 1)])), Code::NotFound, "ingress.ways has no member 9");
    refused(insert(new(2, &[(1, 0)])), Code::InvalidArgument, "ingress.ways: weight 0");
    refused(insert(new(2, &[(1, -1)])), Code::InvalidArgument, "ingress.ways: weight -1");
    refused(insert(new(2, &[(1, 1), (1, 1)])), Code::InvalidArgument, "member 1 is named twice");
    refused(insert(new(2, &[(1, 4), (2, 3)])), Code::ResourceExhausted, "group 2 has size 7 .. max_group_size 6");
    let sized = |max_size| v1::ActionProfileGroup { max_size, ..new(2, &[]) };
    refused(insert(sized(0)), Code::InvalidArgument, "max_size 0 .. 1 to 6");
    refused(insert(sized(7)), Code::InvalidArgument, "max_size 7 .. 1 to 6");
    refused(insert(sized(-1)), Code::InvalidArgument, "max_size -1");
    refused(insert(sized(4)), Code::Unimplemented, "give 6");
    refused(insert(group(&bench, "shared", 2, &[])), Code::InvalidArgument, "ingress.shared .. has no groups");
    refused(write_group(&bench, Type::Modify, new(2, &[])), Code::NotFound, "ingress.ways has no group 2");
    refused(write_group(&bench, Type::Delete, new(2, &[])), Code::NotFound, "ingress.ways has no group 2");
    refused(write_member(&bench, Type::Delete, member(&bench, "ways", 1, 1)), Code::FailedPrecondition, "member 1");
    ok(write_group(&bench, Type::Modify, new(1, &[(2, 6)])));
    ok(write_member(&bench, Type::Delete, member(&bench, "ways", 1, 1)));
    // Weights in a selector with a size in members.
    ok(write_member(&bench, Type::Insert, member(&bench, "others", 1, 1)));
    let other = |weight| group(&bench, "others", 1, &[(1, weight)]);
    refused(insert(other(11)), Code::InvalidArgument, "ingress.others: weight 11 .. 1 to 10");
    ok(insert(other(10)));

    let user = entry(&bench, "spread", b"\x01", T::ActionProfileGroupId(1));
    ok(bench.insert(&user));
    assert_eq!(bench.table_entries("spread"), [user]);
    refused(write_group(&bench, Type::Delete, new(1, &[])), Code::FailedPrecondition, "group 1 .. still used");
}

#[test]
fn entries_of_tables_with_profiles() {
    let bench = bench();
    let insert = |table, action| bench.insert(&entry(&bench, table, b"\x01", action));
    let call = || T::Action(bench.call("drop", &[]));
    refused(insert("indirect", call()), Code::InvalidArgument, "ingress.indirect .. a member or group of it instead");
    refused(insert("spread", call()), Code::InvalidArgument, "ingress.spread .. an action set");
    refused(insert("indirect", T::ActionProfileMemberId(2)), Code::NotFound, "ingress.shared has no member 2");
    refused(insert("indirect", T::ActionProfileMemberId(0)), Code::InvalidArgument, "number them from 1");
    refused(insert("indirect", T::ActionProfileGroupId(2)), Code::InvalidArgument, "has no groups");
    refused(insert("spread", T::ActionProfileGroupId(2)), Code::NotFound, "ingress.ways has no group 2");
    refused(insert("spread", T::ActionProfileGroupId(FIRST_HIDDEN)), Code::InvalidArgument, "server's own");
    refused(insert("kinds", T::ActionProfileGroupId(2)), Code::InvalidArgument, "no action profile");
    let empty = || T::ActionProfileActionSet(v1::ActionProfileActionSet::default());
    refused(insert("indirect", empty()), Code::InvalidArgument, "ingress.indirect .. no action selector");
    refused(insert("routes", empty()), Code::InvalidArgument, "");
    let default = entry(&bench, "spread", b"\x01", T::ActionProfileMemberId(1));
    let default = v1::TableEntry { r#match: vec![], is_default_action: true, ..default };
    refused(bench.modify(&default), Code::InvalidArgument, "ingress.spread .. default entry needs an action");
    let filter = v1::TableEntry { r#match: vec![], is_default_action: false, ..default };
    refused(bench.read(E::TableEntry(filter)), Code::InvalidArgument, "cannot be filtered");
}

#[test]
fn action_sets() {
    let bench = bench();
    let first = one_shot(&bench, b"\x01", &[(9, 1), (4, 2), (9, 1)]);
    ok(bench.insert(&first));
    assert_eq!(bench.table_entries("spread"), [first.clone()]);
    let second = v1::TableEntry { metadata: "m".into(), ..one_shot(&bench, b"\x02", &[(1, 6)]) };
    ok(bench.insert(&second));
    assert_eq!(bench.table_entries("spread"), [first.clone(), second.clone()]);
    assert_eq!(counts(&bench), (4, 2));
    // Members and groups of action sets are hidden.
    assert_eq!(ok(bench.read(E::ActionProfileMember(Default::default()))), []);
    assert_eq!(ok(bench.read(E::ActionProfileGroup(Default::default()))), []);
    // The order is preserved, whether a set shrinks or grows.
    let shapes: [&[(u8, i32)]; 5] =
        [&[(3, 1)], &[(8, 1), (7, 1), (6, 1), (5, 1)], &[], &[(2, 2), (1, 1)], &[(7, 3), (7, 3)]];
    for actions in shapes {
        let changed = one_shot(&bench, b"\x01", actions);
        ok(bench.modify(&changed));
        assert_eq!(bench.table_entries("spread"), [changed, second.clone()]);
        assert_eq!(counts(&bench), (actions.len() + 1, 2));
    }
    // Everything but the action.
    let remark = v1::TableEntry { action: None, metadata: "new".into(), ..second.clone() };
    ok(bench.modify(&remark));
    assert_eq!(bench.table_entries("spread")[1], v1::TableEntry { action: second.action.clone(), ..remark });
    refused(bench.insert(&second), Code::AlreadyExists, "ingress.spread");
    refused(bench.modify(&one_shot(&bench, b"\x03", &[(1, 1)])), Code::NotFound, "ingress.spread");
    assert_eq!(counts(&bench), (3, 2));
    ok(bench.delete(&first));
    refused(bench.delete(&first), Code::NotFound, "ingress.spread");
    ok(bench.delete(&second));
    assert_eq!(counts(&bench), (0, 0));
}

#[test]
fn what_action_sets_refuse() {
    let bench = bench();
    let insert = |actions: &[(u8, i32)]| bench.insert(&one_shot(&bench, b"\x01", actions));
    refused(insert(&[(1, 0)]), Code::InvalidArgument, "ingress.ways: weight 0");
    refused(insert(&[(1, -1)]), Code::InvalidArgument, "ingress.ways: weight -1");
    refused(insert(&[(1, 4), (2, 3)]), Code::InvalidArgument, "weights add up to 7 .. max_group_size 6");
    let with = |change: &dyn Fn(&mut v1::ActionProfileActionSet)| {
        let mut set = set(&bench, &[(1, 1)]);
        change(&mut set);
        bench.insert(&entry(&bench, "spread", b"\x01", T::ActionProfileActionSet(set)))
    };
    let action = |call: Option<v1::Action>| with(&|set| set.action_profile_actions[0].action = call.clone());
    refused(action(None), Code::InvalidArgument, "ingress.spread .. missing");
    refused(action(Some(bench.call("to_port", &[b"\x01"]))), Code::InvalidArgument, "no action with id");
    refused(action(Some(bench.call("last", &[]))), Code::PermissionDenied, "@defaultonly");
    refused(with(&|set| set.action_selection_mode = 2), Code::Unimplemented, "selection mode .. HASH");
    refused(with(&|set| set.size_semantics = 2), Code::Unimplemented, "SUM_OF_WEIGHTS");
    refused(with(&|set| set.size_semantics = 9), Code::Unimplemented, "SUM_OF_WEIGHTS");
    assert_eq!(counts(&bench), (0, 0));
    // The selector's default mode may be given, and is read back.
    let mut said = set(&bench, &[(1, 1)]);
    (said.action_selection_mode, said.size_semantics) = (1, 1);
    let said = entry(&bench, "spread", b"\x01", T::ActionProfileActionSet(said));
    ok(bench.insert(&said));
    assert_eq!(bench.table_entries("spread"), [said]);

    let of_members = |actions: &[(u8, i32)]| {
        bench.insert(&entry(&bench, "spread_members", b"\x01", T::ActionProfileActionSet(set(&bench, actions))))
    };
    refused(of_members(&[(1, 1), (2, 1), (3, 1), (4, 1)]), Code::InvalidArgument, "actions are 4 .. max_group_size 3");
    refused(of_members(&[(1, 11)]), Code::InvalidArgument, "ingress.others: weight 11");
    ok(of_members(&[(1, 10), (1, 10), (2, 10)]));
    // Eight members fill the selector.
    ok(bench.insert(&one_shot(&bench, b"\x02", &[(1, 1); 6])));
    let more = bench.insert(&one_shot(&bench, b"\x03", &[(1, 1); 2]));
    refused(more, Code::ResourceExhausted, "ingress.ways is full");
    assert_eq!(counts(&bench), (7, 2));
}

#[test]
fn both_ways_are_not_mixed() {
    let with_sets = bench();
    ok(with_sets.insert(&one_shot(&with_sets, b"\x01", &[])));
    let refusal = write_member(&with_sets, Type::Insert, member(&with_sets, "ways", 1, 1));
    refused(refusal, Code::InvalidArgument, "ingress.ways .. entries with action sets");
    let refusal = write_group(&with_sets, Type::Insert, group(&with_sets, "ways", 1, &[]));
    refused(refusal, Code::InvalidArgument, "ingress.ways .. entries with action sets");
    let refusal = with_sets.modify(&entry(&with_sets, "spread", b"\x01", T::ActionProfileMemberId(1)));
    refused(refusal, Code::InvalidArgument, "ingress.ways .. entries with action sets");
    // Other selectors are unaffected.
    ok(write_member(&with_sets, Type::Insert, member(&with_sets, "others", 1, 1)));

    let with_members = bench();
    ok(write_member(&with_members, Type::Insert, member(&with_members, "ways", 1, 1)));
    let refusal = with_members.insert(&one_shot(&with_members, b"\x01", &[]));
    refused(refusal, Code::InvalidArgument, "ingress.ways .. members and groups");
}

/// Sections "Action Profile Group Programming" and "One Shot Action Selector Programming": a watch
/// port is empty or a port of the device.
#[test]
fn watch_ports() {
    use v1::action_profile_action::WatchKind;
    let bench = bench();
    let with = |watch: WatchKind| {
        let mut set = set(&bench, &[(1, 1), (2, 2)]);
        set.action_profile_actions[0].watch_kind = Some(watch);
        entry(&bench, "spread", b"\x01", T::ActionProfileActionSet(set))
    };
    // The device's ports are unknown, so any is accepted.
    let ninth = with(WatchKind::WatchPort("\x09".into()));
    ok(bench.insert(&ninth));
    assert_eq!(bench.table_entries("spread"), [ninth.clone()]);
    let port = |number| (number, entries::DevicePort { name: format!("eth{number}"), is_up: number != 9 });
    let ports = std::iter::once(entries::StateUpdate::Ports(Some([port(1), port(9)].into()))).collect();
    bench.device.write(&[ports]).unwrap().remove(0).unwrap();
    // Reads return the written value, also while the port is down.
    assert_eq!(bench.table_entries("spread"), [ninth.clone()]);
    refused(bench.modify(&with(WatchKind::WatchPort("\x07".into()))), Code::InvalidArgument, "no port 7; it has 1, 9");
    refused(bench.modify(&with(WatchKind::Watch(-1))), Code::InvalidArgument, "port -1 is negative");
    refused(bench.modify(&with(WatchKind::WatchPort("\x01\0\0\0\0".into()))), Code::OutOfRange, "watch_port");
    ok(bench.modify(&with(WatchKind::Watch(1))));
    assert_eq!(bench.table_entries("spread"), [with(WatchKind::WatchPort("\x01".into()))]);
    for none in [WatchKind::WatchPort("".into()), WatchKind::Watch(0)] {
        ok(bench.modify(&with(none)));
        assert_eq!(bench.table_entries("spread"), [one_shot(&bench, b"\x01", &[(1, 1), (2, 2)])]);
    }
    ok(bench.delete(&ninth));
    // Groups with their own ids.
    ok(write_member(&bench, Type::Insert, member(&bench, "ways", 1, 1)));
    let mut group = group(&bench, "ways", 1, &[(1, 1)]);
    let watch = |port: &'static str| Some(v1::action_profile_group::member::WatchKind::WatchPort(port.into()));
    group.members[0].watch_kind = watch("\x09");
    ok(write_group(&bench, Type::Insert, group.clone()));
    let wanted = v1::ActionProfileGroup { action_profile_id: group.action_profile_id, ..Default::default() };
    assert_eq!(ok(bench.read(E::ActionProfileGroup(wanted))), [E::ActionProfileGroup(group.clone())]);
    group.members[0].watch_kind = watch("\x02");
    refused(
        write_group(&bench, Type::Modify, group),
        Code::InvalidArgument,
        "ingress.ways, watch_port: the device has no port 2",
    );
}

/// Updates of one request see each other.
#[test]
fn within_one_request() {
    let bench = bench();
    let first = one_shot(&bench, b"\x01", &[(1, 1), (2, 2)]);
    let second = one_shot(&bench, b"\x02", &[(3, 3)]);
    let shorter = one_shot(&bench, b"\x01", &[(5, 5)]);
    let all = |kind, entry: &v1::TableEntry| update(kind, E::TableEntry(entry.clone()));
    let updates = [
        all(Type::Insert, &first),
        all(Type::Insert, &first),
        all(Type::Insert, &second),
        all(Type::Modify, &shorter),
        all(Type::Delete, &second),
        all(Type::Modify, &second),
    ];
    let outcome = bench.request(&updates);
    let codes: Vec<_> = outcome.iter().map(|one| one.as_ref().map_err(|refusal| refusal.code).copied()).collect();
    let (exists, missing) = (Err(Code::AlreadyExists), Err(Code::NotFound));
    assert_eq!(codes, [Ok(()), exists, Ok(()), Ok(()), Ok(()), missing]);
    assert_eq!(bench.table_entries("spread"), [shorter]);
    assert_eq!(counts(&bench), (1, 1));
}
