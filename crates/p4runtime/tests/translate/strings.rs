//! Tests types that the control plane sees as strings (`sdn_string`; sections "User-defined types"
//! and "PSA Metadata Translation").

use crate::bench::*;
use crate::device::Kept;
use entries::{DevicePort, SdnStringUpdate, StateUpdate, WriteBatch};
use p4runtime::proto::v1::{self, entity::Entity as E, table_action::Type as T, update::Type};
use p4runtime::{Code, Device, Oneshots, Schema, StringsOf, Translation, Translations};
use std::sync::Arc;

fn strings_with(translations: &Translations) -> Bench {
    let pipeline = compile("crates/p4runtime/tests/translate/strings.p4");
    // A device config is text that includes the program's translations.
    let pipeline = Arc::new(ir::text::parse(&ir::text::print(&pipeline)).expect("it was printed"));
    ir::verify::verify(&pipeline).expect("it is consistent");
    Bench { schema: Schema::with_translations(pipeline.clone(), translations), device: Kept::new(pipeline) }
}

fn strings() -> Bench {
    strings_with(&Translations::new())
}

fn ports(names: &[(u32, &str)]) -> WriteBatch {
    let port = |(number, name): &(u32, &str)| (*number, DevicePort { name: (*name).to_owned(), is_up: true });
    std::iter::once(StateUpdate::Ports(Some(names.iter().map(port).collect()))).collect()
}

fn tell_ports(bench: &Bench, names: &[(u32, &str)]) {
    bench.device.write(&[ports(names)]).unwrap().remove(0).unwrap();
}

fn nexthop(bench: &Bench, name: &[u8], interface: &[u8]) -> v1::TableEntry {
    bench.entry("nexthops", vec![exact(1, name)], bench.call("set_interface", &[interface]))
}

fn names(bench: &Bench, space: &str) -> Vec<(String, u32)> {
    let state = bench.device.state().unwrap();
    let space = state.sdn_strings().space(space).cloned().unwrap_or_default();
    space.iter().map(|(value, name)| (name.to_string(), u32::try_from(value).unwrap())).collect()
}

/// Reads return the written strings, for all kinds of keys and parameters.
#[test]
fn what_is_written_is_read() {
    let bench = strings();
    let entries = [
        bench.entry("routes", vec![exact(1, b""), lpm(2, b"\x0a\0\0\0", 8)], bench.call("set_nexthop", &[b"nh-1"])),
        bench.entry("routes", vec![exact(1, b"vrf-80")], bench.call("set_nexthop", &[b"nh-2"])),
        bench.entry("nexthops", vec![exact(1, b"nh-1")], bench.call("set_interface", &["r\u{fc}ckweg".as_bytes()])),
        bench.entry("interfaces", vec![exact(1, b"Ethernet0/1")], bench.call("set_port", &[b"1", b"1"])),
    ];
    for entry in &entries {
        ok(bench.insert(entry));
        refused(bench.insert(entry), Code::AlreadyExists, "ingress.");
    }
    let filter = [
        vec![optional(1, b"1"), range(3, b"Ethernet0/1", b"Ethernet0/1")],
        vec![ternary(2, b"management", b"\x03\xff")],
    ];
    for (priority, keys) in (1..).zip(filter) {
        let entry = v1::TableEntry { priority, ..bench.entry("filter", keys, bench.call("drop", &[])) };
        ok(bench.insert(&entry));
        assert!(bench.table_entries("filter").contains(&entry), "{entry:?}");
    }
    assert_eq!(bench.table_entries("nexthops"), [entries[2].clone()]);
    assert_eq!(bench.table_entries("interfaces"), [entries[3].clone()]);
    assert_eq!(bench.table_entries("routes").len(), 2);
    // By its own key, and by a key that no entry has.
    let one = |key: &[u8]| v1::TableEntry {
        action: None,
        ..bench.entry("nexthops", vec![exact(1, key)], bench.call("drop", &[]))
    };
    assert_eq!(bench.entries(one(b"nh-1")), [entries[2].clone()]);
    assert_eq!(bench.entries(one(b"unknown")), []);
    // A string has the same value everywhere: a packet that gets `nh-1` in one table matches it in
    // the next.
    let state = bench.device.state().unwrap();
    let find = |name: &str| state.pipeline().tables.iter().find(|(_, t)| t.preamble.name == name).unwrap().0;
    let routed: Vec<u64> = state.entries(find("ingress.nexthops")).map(|entry| entry.key()[0]).collect();
    assert_eq!(routed, [1]);
    // The program fixes the values of "" and "management", and uses 1 and 2 in `fixed`; no other
    // string gets these.
    assert_eq!(names(&bench, "nexthop_id_t"), [("nh-1".into(), 1), ("nh-2".into(), 2)]);
    assert_eq!(names(&bench, "vrf_id_t"), [("vrf-80".into(), 1)]);
    assert_eq!(names(&bench, "router_interface_id_t"), [("r\u{fc}ckweg".into(), 3), ("Ethernet0/1".into(), 4)]);
    assert_eq!(names(&bench, "example.org/port"), [("1".into(), 1)]);
}

#[test]
fn default_actions_members_sets_registers() {
    let bench = strings();
    let default = v1::TableEntry {
        is_default_action: true,
        ..bench.entry("nexthops", Vec::new(), bench.call("set_interface", &[b"last resort"]))
    };
    ok(bench.modify(&default));
    let wanted = v1::TableEntry { table_id: default.table_id, is_default_action: true, ..Default::default() };
    assert_eq!(bench.entries(wanted), [default]);

    let member = v1::ActionProfileMember {
        action_profile_id: bench.object("others"),
        member_id: 1,
        action: Some(bench.call("set_nexthop", &[b"nh-9"])),
    };
    ok(bench.write(Type::Insert, E::ActionProfileMember(member.clone())));
    let all = v1::ActionProfileMember { member_id: 0, action: None, ..member.clone() };
    assert_eq!(ok(bench.read(E::ActionProfileMember(all))), [E::ActionProfileMember(member)]);

    let set = v1::ValueSetEntry {
        value_set_id: bench.object("known"),
        members: vec![v1::ValueSetMember { r#match: vec![exact(1, b"vrf-7")] }],
    };
    ok(bench.write(Type::Modify, E::ValueSetEntry(set.clone())));
    let wanted = v1::ValueSetEntry { members: Vec::new(), ..set.clone() };
    assert_eq!(ok(bench.read(E::ValueSetEntry(wanted))), [E::ValueSetEntry(set)]);

    let register = |text: &[u8]| v1::RegisterEntry {
        register_id: bench.object("flags"),
        index: Some(v1::Index { index: 1 }),
        data: Some(v1::P4Data { data: Some(v1::p4_data::Data::Bitstring(text.to_vec().into())) }),
    };
    ok(bench.write(Type::Modify, E::RegisterEntry(register(b"on"))));
    let wanted = v1::RegisterEntry { data: None, ..register(b"") };
    assert_eq!(ok(bench.read(E::RegisterEntry(wanted.clone()))), [E::RegisterEntry(register(b"on"))]);
    // Two values, and a register, which is not searched, may hold both. So a third string is
    // rejected whatever the register holds now.
    ok(bench.write(Type::Modify, E::RegisterEntry(register(b"off"))));
    let third = bench.write(Type::Modify, E::RegisterEntry(register(b"maybe")));
    refused(third, Code::ResourceExhausted, "all 2 values of flag_t have a string");
    assert_eq!(ok(bench.read(E::RegisterEntry(wanted))), [E::RegisterEntry(register(b"off"))]);
}

/// Groups that are written with their entry (SAI P4's `wcmp_group_table`), with watch ports by
/// name.
#[test]
fn action_sets_and_watch_ports() {
    let port = Translation { ports: true, ..Translation::default() };
    let bench = strings_with(&[("example.org/port".to_owned(), port)].into());
    tell_ports(&bench, &[(3, "Ethernet0"), (4, "Ethernet4")]);
    let action = |nexthop: &[u8], watch: &str| v1::ActionProfileAction {
        action: Some(bench.call("set_nexthop", &[nexthop])),
        weight: 1,
        watch_kind: Some(v1::action_profile_action::WatchKind::WatchPort(watch.to_owned().into())),
    };
    let entry = |actions: Vec<v1::ActionProfileAction>| {
        let set = v1::ActionProfileActionSet { action_profile_actions: actions, ..Default::default() };
        let action = v1::TableAction { r#type: Some(T::ActionProfileActionSet(set)) };
        v1::TableEntry { action: Some(action), ..bench.entry("groups", vec![exact(1, b"g1")], bench.call("drop", &[])) }
    };
    let group = entry(vec![action(b"nh-1", "Ethernet0"), action(b"nh-2", "Ethernet4")]);
    ok(bench.insert(&group));
    assert_eq!(bench.table_entries("groups"), [group]);
    let unknown = entry(vec![action(b"nh-1", "Ethernet8")]);
    refused(bench.modify(&unknown), Code::InvalidArgument, "watch_port .. \"Ethernet8\" .. Ethernet0, Ethernet4");
    // Copies go to ports by the same names.
    let replica = |name: &str| v1::Replica {
        port_kind: Some(v1::replica::PortKind::Port(name.to_owned().into())),
        ..Default::default()
    };
    let session = v1::CloneSessionEntry { session_id: 1, replicas: vec![replica("Ethernet4")], ..Default::default() };
    let wrapped = |session: v1::CloneSessionEntry| {
        let r#type = Some(v1::packet_replication_engine_entry::Type::CloneSessionEntry(session));
        E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type })
    };
    ok(bench.write(Type::Insert, wrapped(session.clone())));
    assert_eq!(bench.device.state().unwrap().clone_sessions()[&1].replicas[0].port, 4);
    let wanted = v1::CloneSessionEntry { replicas: Vec::new(), ..session.clone() };
    assert_eq!(ok(bench.read(wrapped(wanted))), [wrapped(session)]);
}

/// A rejected update assigns no name. An accepted one assigns its names before later updates use
/// them.
#[test]
fn names_come_and_go_with_updates() {
    let bench = strings();
    let bad = bench.entry("nexthops", vec![exact(1, b"nh-1")], bench.call("set_port", &[b"1", b"1"]));
    refused(bench.insert(&bad), Code::InvalidArgument, "no action");
    refused(bench.delete(&nexthop(&bench, b"nh-1", b"")), Code::NotFound, "no value is named \"nh-1\"");
    refused(bench.modify(&nexthop(&bench, b"nh-1", b"new")), Code::NotFound, "no value is named \"nh-1\"");
    assert_eq!((names(&bench, "nexthop_id_t"), names(&bench, "router_interface_id_t")), (vec![], vec![]));
    // In one request, the second update is rejected, and the third sees the first.
    let updates: Vec<v1::Update> = [nexthop(&bench, b"a", b"x"), bad, nexthop(&bench, b"b", b"x")]
        .map(|entry| update(Type::Insert, E::TableEntry(entry)))
        .into();
    let mut oneshots = Oneshots::new(&bench.schema, bench.device.state().unwrap(), &updates);
    let first = ok(bench.schema.translate_update(&mut oneshots, &updates[0]));
    let named: Vec<&SdnStringUpdate> = first
        .iter()
        .filter_map(|update| if let StateUpdate::SdnString(naming) = update { Some(naming) } else { None })
        .collect();
    assert_eq!(named.iter().map(|naming| &*naming.string).collect::<Vec<_>>(), ["a", "x"]);
    assert!(matches!(first.last(), Some(StateUpdate::Entry(..))), "names come first: {first:?}");
    refused(bench.schema.translate_update(&mut oneshots, &updates[1]), Code::InvalidArgument, "no action");
    let third = ok(bench.schema.translate_update(&mut oneshots, &updates[2]));
    let [StateUpdate::SdnString(b), StateUpdate::Entry(..)] = &third[..] else { panic!("{third:?}") };
    assert_eq!((&*b.string, b.value.clone()), ("b", Some(2u8.into())));
}

/// `nexthop_id_t` has four values. Deletion frees values; existing entries keep theirs.
#[test]
fn values_are_given_up_when_nothing_uses_them() {
    let bench = strings();
    for name in [b"a", b"b", b"c", b"d"] {
        ok(bench.insert(&nexthop(&bench, name, b"if")));
    }
    let [a, b, c, d] = ["a", "b", "c", "d"].map(String::from);
    assert_eq!(names(&bench, "nexthop_id_t"), [(d, 0), (a.clone(), 1), (b.clone(), 2), (c.clone(), 3)]);
    refused(bench.insert(&nexthop(&bench, b"e", b"if")), Code::ResourceExhausted, "all 4 values of nexthop_id_t");
    ok(bench.delete(&nexthop(&bench, b"b", b"")));
    // Its string is kept while no other string needs the value.
    ok(bench.insert(&nexthop(&bench, b"b", b"if")));
    assert_eq!(names(&bench, "nexthop_id_t")[2], (b, 2));
    ok(bench.delete(&nexthop(&bench, b"b", b"")));
    ok(bench.delete(&nexthop(&bench, b"d", b"")));
    ok(bench.insert(&nexthop(&bench, b"e", b"if")));
    assert_eq!(names(&bench, "nexthop_id_t"), [(a, 1), ("e".into(), 2), (c, 3)]);
    let read = bench.table_entries("nexthops");
    assert_eq!(read, [nexthop(&bench, b"a", b"if"), nexthop(&bench, b"c", b"if"), nexthop(&bench, b"e", b"if")]);
    // Used by an action, a member or a default action only: not freed either.
    ok(bench.insert(&bench.entry("routes", vec![exact(1, b"")], bench.call("set_nexthop", &[b"f"]))));
    refused(bench.insert(&nexthop(&bench, b"g", b"if")), Code::ResourceExhausted, "all 4 values");
    // Values that a request frees are available to the next one.
    let updates = [
        update(Type::Delete, E::TableEntry(nexthop(&bench, b"a", b""))),
        update(Type::Insert, E::TableEntry(nexthop(&bench, b"g", b"if"))),
    ];
    let outcome = bench.request(&updates);
    ok(outcome[0].clone());
    refused(outcome[1].clone(), Code::ResourceExhausted, "all 4 values");
    ok(bench.request(&updates[1..]).remove(0));
}

#[test]
fn strings_that_are_refused() {
    let bench = strings();
    let insert = |name: &[u8]| bench.insert(&nexthop(&bench, name, b"if"));
    refused(insert(b""), Code::InvalidArgument, "ingress.nexthops, key meta.nexthop .. empty");
    refused(insert(b"\xff\xfe"), Code::InvalidArgument, "not UTF-8");
    refused(insert(&[b'x'; 513]), Code::InvalidArgument, "513 bytes; 512 at most");
    ok(insert(&[b'x'; 512]));
    refused(insert(b"#4"), Code::InvalidArgument, "\"#4\" is not a string");
    ok(insert(b"#01"));
    let masked = vec![ternary(2, b"management", b"\x03")];
    let masked = v1::TableEntry { priority: 1, ..bench.entry("filter", masked, bench.call("drop", &[])) };
    refused(bench.insert(&masked), Code::Unimplemented, "meta.vrf .. one whole string");
    let between = vec![range(3, b"a", b"b")];
    let between = v1::TableEntry { priority: 1, ..bench.entry("filter", between, bench.call("drop", &[])) };
    refused(bench.insert(&between), Code::Unimplemented, "meta.interface .. one whole string");
    assert_eq!(names(&bench, "router_interface_id_t").len(), 1);
}

/// A value without a string reads as its number, which can be written.
#[test]
fn values_without_a_string() {
    let bench = strings();
    let own = bench.table_entries("fixed");
    assert_eq!(own[0].r#match, [exact(1, b"#1")]);
    let entry = bench.entry("interfaces", vec![exact(1, b"#1")], bench.call("set_port", &[b"#5", b"p"]));
    ok(bench.insert(&entry));
    assert_eq!(bench.table_entries("interfaces"), [entry.clone()]);
    // From now on the value has this string, and no other string gets the value.
    assert_eq!(names(&bench, "example.org/port"), [("#5".into(), 5), ("p".into(), 6)]);
    ok(bench.delete(&entry));

    let state = bench.device.state().unwrap();
    let mut packet = ok(bench.schema.packet_in(&vec![0x02, 0x80, 0, 0x0c, 9].into()));
    bench.schema.name_packet(&StringsOf(&state), &mut packet);
    let values: Vec<&[u8]> = packet.metadata.iter().map(|metadata| &metadata.value[..]).collect();
    assert_eq!(values[..3], [&b"#5"[..], b"#0", b"#3"]);
    let metadata = |id: u32, value: &[u8]| v1::PacketMetadata { metadata_id: id, value: value.to_vec().into() };
    let send = |port: &[u8]| {
        let mut packet = v1::PacketOut { payload: "x".into(), metadata: vec![metadata(1, port), metadata(2, b"\0")] };
        bench.schema.number_packet(&StringsOf(&state), &mut packet)?;
        bench.schema.packet_out(&packet)
    };
    assert_eq!(ok(send(b"p"))[..], *b"\x03\0x");
    refused(send(b"q"), Code::InvalidArgument, "packet_out, metadata egress_port: no value is named \"q\"");
    let digest = bench.schema.info().digests[0].preamble.id;
    let digest = ir::ExternId(
        state
            .pipeline()
            .externs
            .iter()
            .position(|(_, e)| e.preamble.name == bench.schema.info().digests[0].preamble.name)
            .unwrap_or_else(|| panic!("no digest {digest}")) as u32,
    );
    let mut data = ok(bench.schema.encode_digest(digest, &[9u8.into(), 1u8.into()]));
    bench.schema.name_digest(&StringsOf(&state), digest, &mut data);
    let Some(v1::p4_data::Data::Struct(learnt)) = data.data else { panic!("{data:?}") };
    assert_eq!(learnt.members[0].data, Some(v1::p4_data::Data::Bitstring("#9".into())));
}

/// The device's configuration: a table, names of ports, and whether other strings get values.
#[test]
fn translations_of_the_device() {
    let table = |values: &[(&str, u64)], ports, allocate| {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Translation { values, ports, allocate }
    };
    let of = |translation: Translation| strings_with(&[("example.org/port".to_owned(), translation)].into());
    let with_port = |bench: &Bench, name: &[u8]| {
        bench.insert(&bench.entry("interfaces", vec![exact(1, b"i")], bench.call("set_port", &[name, b"Eth1"])))
    };
    let closed = of(table(&[("Eth1", 1), ("Eth2", 2)], false, false));
    refused(
        with_port(&closed, b"Eth3"),
        Code::InvalidArgument,
        "\"Eth3\" is not a string .. known strings are Eth1, Eth2",
    );
    ok(with_port(&closed, b"Eth2"));
    assert_eq!(names(&closed, "example.org/port"), []);
    let open = of(table(&[("Eth1", 1), ("Eth2", 2)], false, true));
    ok(with_port(&open, b"Eth3"));
    assert_eq!(names(&open, "example.org/port"), [("Eth3".into(), 3)]);

    let named = of(table(&[("Eth1", 1)], true, false));
    refused(with_port(&named, b"swp7"), Code::InvalidArgument, "known strings are Eth1");
    tell_ports(&named, &[(7, "swp7")]);
    ok(with_port(&named, b"swp7"));
    // A removed port has no name, and a new port of its number has the new name.
    tell_ports(&named, &[]);
    assert_eq!(named.table_entries("interfaces")[0].action, Some(direct(named.call("set_port", &[b"#7", b"Eth1"]))));
    tell_ports(&named, &[(7, "swp70")]);
    assert_eq!(named.table_entries("interfaces")[0].action, Some(direct(named.call("set_port", &[b"swp70", b"Eth1"]))));
}

/// Without configuration, the strings of a type that the program sends packets to are ports (SAI
/// P4's `port_id_t`).
#[test]
fn strings_that_the_program_sends_packets_to_are_ports() {
    let bench = strings();
    tell_ports(&bench, &[(1, "eth0"), (2, "eth1"), (7, "eth7")]);
    let to = |interface: &[u8], port: &[u8]| {
        bench.entry("interfaces", vec![exact(1, interface)], bench.call("set_port", &[port, port]))
    };
    // By its number or its name, whichever comes first; other strings are not ports of the device.
    for (interface, port) in [(b"a", &b"7"[..]), (b"b", b"eth1"), (b"c", b"Ethernet9")] {
        ok(bench.insert(&to(interface, port)));
    }
    assert_eq!(names(&bench, "example.org/port"), [("eth1".into(), 2), ("7".into(), 7), ("Ethernet9".into(), 8)]);
    let all = [to(b"a", b"7"), to(b"b", b"eth1"), to(b"c", b"Ethernet9")];
    assert_eq!(bench.table_entries("interfaces"), all);
    // No write has named port 1: a packet from it is from `eth0`.
    let state = bench.device.state().unwrap();
    let mut packet = ok(bench.schema.packet_in(&vec![0, 0x83, 0x80, 0, 9].into()));
    bench.schema.name_packet(&StringsOf(&state), &mut packet);
    assert_eq!((&packet.metadata[0].value[..], &packet.metadata[1].value[..]), (&b"eth0"[..], &b"#14"[..]));
    // A watch port is such a string or a number, and is read back as written.
    let action = |watch: &'static [u8]| v1::ActionProfileAction {
        action: Some(bench.call("set_nexthop", &[b"nh"])),
        weight: 1,
        watch_kind: Some(v1::action_profile_action::WatchKind::WatchPort(watch.into())),
    };
    let set = v1::ActionProfileActionSet {
        action_profile_actions: vec![action(b"7"), action(b"eth1"), action(b"\x01")],
        ..Default::default()
    };
    let action = v1::TableAction { r#type: Some(T::ActionProfileActionSet(set)) };
    let group =
        v1::TableEntry { action: Some(action), ..bench.entry("groups", vec![exact(1, b"g")], bench.call("drop", &[])) };
    ok(bench.insert(&group));
    assert_eq!(bench.table_entries("groups"), [group]);
}

/// Strings out of use do not accumulate.
#[test]
fn strings_that_nothing_uses_have_a_bound() {
    let bench = strings();
    for number in 0..5_000 {
        let interface = format!("interface {number}");
        let entry = nexthop(&bench, b"only", interface.as_bytes());
        if number == 0 { ok(bench.insert(&entry)) } else { ok(bench.modify(&entry)) }
    }
    let left = names(&bench, "router_interface_id_t");
    // 4,094 values are available for them, and the last one is in use.
    assert!(left.len() <= 4_096 && left.iter().any(|(name, _)| name == "interface 4999"), "{}", left.len());
}
