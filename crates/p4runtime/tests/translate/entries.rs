//! Tests `TableEntry`: keys, actions, priorities, default entries, const entries, wildcard reads.

use crate::bench::*;
use crate::device::IDLE;
use p4runtime::proto::v1::{self, entity::Entity as E, update::Type};
use p4runtime::{Code, Oneshots};

fn forward(bench: &Bench) -> v1::Action {
    bench.call("forward", &[b"\x05", b"\x01"])
}

/// Returns an entry of the table with a key of each match kind.
fn kinds(bench: &Bench, priority: i32) -> v1::TableEntry {
    let keys = vec![
        exact(1, b"\x08\x00"),
        ternary(2, b"\x01\x00", b"\xff\x00"),
        range(3, b"\x02", b"\x05"),
        optional(4, b"\x01"),
    ];
    v1::TableEntry { priority, ..bench.entry("kinds", keys, forward(bench)) }
}

#[test]
fn what_is_written_is_read() {
    let bench = bench();
    let entry = v1::TableEntry { metadata: "mine".into(), controller_metadata: 7, ..kinds(&bench, 3) };
    ok(bench.insert(&entry));
    assert_eq!(bench.table_entries("kinds"), [entry.clone()]);
    // All wildcards omitted.
    let bare = v1::TableEntry { r#match: vec![exact(1, b"\x00")], metadata: vec![0xff, 1].into(), ..kinds(&bench, 9) };
    ok(bench.insert(&bare));
    assert_eq!(bench.table_entries("kinds"), [bare.clone(), entry.clone()]);
    let modified =
        v1::TableEntry { action: Some(direct(bench.call("drop", &[]))), metadata: "".into(), ..bare.clone() };
    ok(bench.modify(&modified));
    assert_eq!(bench.table_entries("kinds"), [modified, entry.clone()]);
    // A deletion uses only the keys and the priority.
    ok(bench.delete(&v1::TableEntry { action: None, counter_data: None, ..entry }));
    let nonsense = v1::Action { action_id: 1, params: Vec::new() };
    ok(bench.delete(&v1::TableEntry { action: Some(direct(nonsense)), idle_timeout_ns: -1, ..bare }));
    assert_eq!(bench.table_entries("kinds"), []);
}

#[test]
fn numbers_may_be_longer_than_they_have_to_be() {
    let bench = bench();
    let keys = vec![exact(1, b"\x00\x00\x08\x00"), ternary(2, b"\x00\x01\x00", b"\x00\x00\xff\x00")];
    let entry = v1::TableEntry {
        priority: 1,
        ..bench.entry("kinds", keys, bench.call("forward", &[b"\x00\x05", b"\x00\x01"]))
    };
    ok(bench.insert(&entry));
    let canonical = vec![exact(1, b"\x08\x00"), ternary(2, b"\x01\x00", b"\xff\x00")];
    let shown = v1::TableEntry { r#match: canonical, action: Some(direct(forward(&bench))), ..entry };
    assert_eq!(bench.table_entries("kinds"), [shown]);
}

#[test]
fn signed_numbers_and_enumerations() {
    let bench = bench();
    let keys = vec![exact(1, b"\x9d"), ternary(2, b"\x0f\x00", b"\x0f\x00"), exact(3, b"\x01")];
    let wide = bench.call("wide", &[b"\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", b"\xfd\x1d"]);
    let entry = v1::TableEntry { priority: 1, ..bench.entry("signs", keys.clone(), wide) };
    ok(bench.insert(&entry));
    assert_eq!(bench.table_entries("signs"), [entry.clone()]);
    let long = vec![exact(1, b"\xff\xff\x9d"), keys[1].clone(), keys[2].clone()];
    refused(bench.insert(&v1::TableEntry { r#match: long, ..entry.clone() }), Code::AlreadyExists, "ingress.signs");
    let positive = vec![exact(1, b"\x00\x9d"), keys[1].clone(), keys[2].clone()];
    refused(bench.insert(&v1::TableEntry { r#match: positive, ..entry.clone() }), Code::OutOfRange, "m.signed_");
    let beyond = vec![keys[0].clone(), keys[1].clone(), exact(3, b"\x02")];
    refused(bench.insert(&v1::TableEntry { r#match: beyond, ..entry }), Code::OutOfRange, "m.mood .. last one is 1");
}

/// Section "Match Format".
#[test]
fn keys_that_are_refused() {
    let bench = bench();
    let with = |keys: Vec<v1::FieldMatch>| bench.insert(&v1::TableEntry { r#match: keys, ..kinds(&bench, 1) });
    let type_ = || exact(1, b"\x08\x00");
    refused(with(vec![]), Code::InvalidArgument, "table ingress.kinds .. h.ethernet.type_ .. cannot be left out");
    refused(with(vec![type_(), type_()]), Code::InvalidArgument, "h.ethernet.type_ .. twice");
    refused(with(vec![type_(), exact(9, b"\x01")]), Code::InvalidArgument, "no key with id 9 .. 2 h.ethernet.src");
    refused(with(vec![lpm(1, b"\x08\x00", 16)]), Code::InvalidArgument, "an lpm match is given, but the key is exact");
    let kindless = v1::FieldMatch { field_id: 1, field_match_type: None };
    refused(with(vec![kindless]), Code::InvalidArgument, "without a kind");
    refused(with(vec![exact(1, b"")]), Code::OutOfRange, "h.ethernet.type_ .. empty");
    refused(with(vec![exact(1, b"\x01\x00\x00")]), Code::OutOfRange, "h.ethernet.type_ .. more than the 16");
    refused(with(vec![type_(), ternary(2, b"\x00", b"\x00")]), Code::InvalidArgument, "h.ethernet.src .. mask is 0");
    refused(with(vec![type_(), ternary(2, b"\x03", b"\x01")]), Code::InvalidArgument, "bits where mask .. write 0x1");
    refused(with(vec![type_(), ternary(2, b"", b"\x01")]), Code::OutOfRange, "h.ethernet.src");
    refused(with(vec![type_(), ternary(2, b"\x01", b"")]), Code::OutOfRange, "h.ethernet.src");
    refused(with(vec![type_(), range(3, b"\x05", b"\x02")]), Code::InvalidArgument, "h.wide.c .. lower bound");
    refused(with(vec![type_(), range(3, b"\x00", b"\x0f")]), Code::InvalidArgument, "h.wide.c .. leave the match out");
    refused(with(vec![type_(), range(3, b"\x00", b"\x10")]), Code::OutOfRange, "h.wide.c");
    refused(with(vec![type_(), optional(4, b"")]), Code::OutOfRange, "m.one");
    refused(with(vec![type_(), exact(4, b"\x01")]), Code::InvalidArgument, "m.one .. the key is optional");
    assert_eq!(bench.table_entries("kinds"), []);

    let route = |key| bench.insert(&bench.entry("routes", vec![key], forward(&bench)));
    refused(route(lpm(1, b"\x80", 0)), Code::InvalidArgument, "h.wide.a .. leave the match out");
    refused(route(lpm(1, b"\x80", -1)), Code::InvalidArgument, "h.wide.a .. 1 to 128");
    refused(route(lpm(1, b"\x80", 129)), Code::InvalidArgument, "h.wide.a .. 1 to 128");
    refused(route(lpm(1, b"\x03", 127)), Code::InvalidArgument, "h.wide.a .. after the prefix .. 0x2/127");
    ok(route(lpm(1, b"\x02", 127)));
}

#[test]
fn priorities() {
    let bench = bench();
    refused(bench.insert(&kinds(&bench, 0)), Code::InvalidArgument, "ingress.kinds: priority 0");
    refused(bench.insert(&kinds(&bench, -1)), Code::InvalidArgument, "ingress.kinds: priority -1");
    let route = bench.entry("routes", vec![lpm(1, b"\x02", 127)], forward(&bench));
    refused(bench.insert(&v1::TableEntry { priority: 1, ..route.clone() }), Code::InvalidArgument, "leave it out");
    ok(bench.insert(&route));
    // Keys and priority identify an entry.
    ok(bench.insert(&kinds(&bench, 1)));
    ok(bench.insert(&kinds(&bench, 2)));
    refused(bench.insert(&kinds(&bench, 2)), Code::AlreadyExists, "ingress.kinds .. priority 2");
    refused(bench.modify(&kinds(&bench, 3)), Code::NotFound, "ingress.kinds .. priority 3");
    refused(bench.delete(&kinds(&bench, 3)), Code::NotFound, "ingress.kinds .. priority 3");
}

/// Section "Action Specification".
#[test]
fn actions_that_are_refused() {
    let bench = bench();
    let with = |action: v1::Action| bench.insert(&v1::TableEntry { action: Some(direct(action)), ..kinds(&bench, 1) });
    let param = |param_id, value: &'static [u8]| v1::action::Param { param_id, value: value.into() };
    let forward = |params| v1::Action { action_id: bench.action_id("forward"), params };
    let unknown = v1::Action { action_id: 5, params: vec![] };
    refused(with(unknown), Code::InvalidArgument, "no action with id 0x5 .. ingress.forward");
    refused(with(bench.call("to_port", &[b"\x01"])), Code::InvalidArgument, "no action with id");
    refused(with(forward(vec![param(1, b"\x01")])), Code::InvalidArgument, "parameter dst: it is missing");
    let twice = vec![param(1, b"\x01"), param(1, b"\x01"), param(2, b"\x01")];
    refused(with(forward(twice)), Code::InvalidArgument, "parameter port: it is given twice");
    let more = vec![param(1, b"\x01"), param(2, b"\x01"), param(3, b"\x01")];
    refused(with(forward(more)), Code::InvalidArgument, "ingress.forward: it has no parameter with id 3 .. 2 dst");
    refused(with(forward(vec![param(1, b"\x02\x00"), param(2, b"\x01")])), Code::OutOfRange, "parameter port .. the 9");
    refused(with(forward(vec![param(1, b""), param(2, b"\x01")])), Code::OutOfRange, "parameter port .. empty");
    // The order of parameters has no meaning.
    ok(with(forward(vec![param(2, b"\x01"), param(1, b"\x05")])));
    assert_eq!(bench.table_entries("kinds"), [kinds(&bench, 1)]);

    let none = v1::TableEntry { action: None, ..kinds(&bench, 2) };
    refused(bench.insert(&none), Code::InvalidArgument, "ingress.kinds .. no action");
    let empty = v1::TableEntry { action: Some(v1::TableAction::default()), ..kinds(&bench, 2) };
    refused(bench.insert(&empty), Code::InvalidArgument, "ingress.kinds .. empty");
    let member = v1::TableAction { r#type: Some(v1::table_action::Type::ActionProfileMemberId(1)) };
    let member = v1::TableEntry { action: Some(member), ..kinds(&bench, 2) };
    refused(bench.insert(&member), Code::InvalidArgument, "ingress.kinds .. no action profile");
}

#[test]
fn scopes_of_actions() {
    let bench = bench();
    let last = v1::TableEntry { action: Some(direct(bench.call("last", &[]))), ..kinds(&bench, 1) };
    refused(bench.insert(&last), Code::PermissionDenied, "ingress.kinds .. ingress.last .. @defaultonly");
    let wide = v1::TableEntry { action: Some(direct(bench.call("wide", &[b"\x01", b"\x01"]))), ..kinds(&bench, 1) };
    ok(bench.insert(&wide));
    let default = v1::TableEntry { r#match: vec![], priority: 0, is_default_action: true, ..wide };
    refused(bench.modify(&default), Code::PermissionDenied, "ingress.kinds .. ingress.wide .. @tableonly");
}

#[test]
fn tables_that_are_refused() {
    let bench = bench();
    let in_table = |table_id| bench.insert(&v1::TableEntry { table_id, ..kinds(&bench, 1) });
    refused(in_table(0), Code::InvalidArgument, "table's id is missing");
    refused(in_table(0x0212_3456), Code::NotFound, "no table with id 0x2123456");
    refused(in_table(bench.object("hits")), Code::NotFound, "no table");
    let keyless = bench.entry("keyless", vec![], forward(&bench));
    refused(bench.insert(&keyless), Code::InvalidArgument, "ingress.keyless .. no keys .. is_default_action");
    for number in 1..=3 {
        ok(bench.insert(&bench.entry("routes", vec![lpm(1, &[number], 128)], forward(&bench))));
    }
    let fourth = bench.entry("routes", vec![], forward(&bench));
    refused(bench.insert(&fourth), Code::ResourceExhausted, "ingress.routes .. full (3 entries)");
    let is_const = v1::TableEntry { is_const: true, ..kinds(&bench, 1) };
    refused(bench.insert(&is_const), Code::InvalidArgument, "leave is_const out");
    refused(bench.delete(&is_const), Code::InvalidArgument, "leave is_const out");
    let kindless = bench.write(Type::Unspecified, E::TableEntry(kinds(&bench, 1)));
    refused(kindless, Code::InvalidArgument, "INSERT, MODIFY or DELETE");
    let empty = v1::Update { r#type: Type::Insert.into(), entity: None };
    refused(bench.request(&[empty]).remove(0), Code::InvalidArgument, "no entity");
}

/// Section "Default Entry".
#[test]
fn default_entries() {
    let bench = bench();
    let wanted =
        v1::TableEntry { table_id: bench.table("kinds"), is_default_action: true, ..v1::TableEntry::default() };
    let last = v1::TableEntry { action: Some(direct(bench.call("last", &[]))), ..wanted.clone() };
    assert_eq!(bench.entries(wanted.clone()), [last.clone()]);
    let new = v1::TableEntry { action: Some(direct(forward(&bench))), ..wanted.clone() };
    ok(bench.modify(&new));
    assert_eq!(bench.entries(wanted.clone()), [new.clone()]);
    refused(bench.insert(&new), Code::InvalidArgument, "send MODIFY");
    refused(bench.delete(&new), Code::InvalidArgument, "send MODIFY");
    let keyed = v1::TableEntry { r#match: vec![exact(1, b"\x01")], ..new.clone() };
    refused(bench.modify(&keyed), Code::InvalidArgument, "no keys and no priority");
    let strong = v1::TableEntry { priority: 1, ..new.clone() };
    refused(bench.modify(&strong), Code::InvalidArgument, "no keys and no priority");
    let idle = v1::TableEntry { idle_timeout_ns: 1, ..new.clone() };
    refused(bench.modify(&idle), Code::InvalidArgument, "no idle timeout");
    let since = v1::TableEntry { time_since_last_hit: Some(Default::default()), ..new.clone() };
    refused(bench.modify(&since), Code::InvalidArgument, "no idle timeout");
    let counted = v1::TableEntry { counter_data: Some(Default::default()), ..new.clone() };
    refused(bench.modify(&counted), Code::Unimplemented, "no counter");
    refused(bench.modify(&v1::TableEntry { metadata: "x".into(), ..new }), Code::Unimplemented, "metadata");
    assert_eq!(bench.entries(wanted.clone()).len(), 1);
    // Without an action it reverts to the program's.
    ok(bench.modify(&wanted));
    assert_eq!(bench.entries(wanted), [last]);

    let fixed = v1::TableEntry { table_id: bench.table("fixed"), is_default_action: true, ..v1::TableEntry::default() };
    refused(bench.modify(&fixed), Code::PermissionDenied, "ingress.fixed .. const");
    let drop = v1::TableEntry { action: Some(direct(bench.call("drop", &[]))), ..fixed.clone() };
    refused(bench.modify(&drop), Code::PermissionDenied, "ingress.fixed .. const");
    assert_eq!(bench.entries(fixed), [v1::TableEntry { is_const: true, ..drop }]);
}

/// Sections "Constant Tables" and "Preinitialized tables".
#[test]
fn entries_of_the_program() {
    let bench = bench();
    let fixed = bench.table_entries("fixed");
    let keys = |entries: &[v1::TableEntry]| entries.iter().map(|e| e.r#match.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&fixed), [[exact(1, b"\x08\x00")], [exact(1, b"\x86\xdd")]]);
    assert!(fixed.iter().all(|entry| entry.is_const));
    assert_eq!(fixed[0].action, Some(direct(bench.call("forward", &[b"\x01", b"\x01"]))));
    let plain = |entry: &v1::TableEntry| v1::TableEntry { is_const: false, ..entry.clone() };
    let same = plain(&fixed[0]);
    refused(
        bench.insert(&bench.entry("fixed", vec![exact(1, b"\x01")], forward(&bench))),
        Code::PermissionDenied,
        "const",
    );
    refused(bench.modify(&same), Code::PermissionDenied, "ingress.fixed .. const");
    refused(bench.delete(&same), Code::PermissionDenied, "ingress.fixed .. const");
    // Its counter can be set, without an action.
    let count = v1::CounterData { byte_count: 10, packet_count: 2 };
    let counted = v1::TableEntry { action: None, counter_data: Some(count), ..same.clone() };
    ok(bench.modify(&counted));
    let wanted = v1::TableEntry { counter_data: Some(Default::default()), ..same.clone() };
    assert_eq!(bench.entries(v1::TableEntry { action: None, ..wanted })[0].counter_data, Some(count));
    let remarked = v1::TableEntry { action: None, metadata: "x".into(), ..same.clone() };
    refused(bench.modify(&remarked), Code::PermissionDenied, "ingress.fixed .. const");
    let metered = v1::TableEntry {
        action: None,
        meter_config: Some(v1::MeterConfig { pburst: 1, ..Default::default() }),
        ..same
    };
    refused(bench.modify(&metered), Code::InvalidArgument, "no direct meter");

    let partly = bench.table_entries("partly");
    assert_eq!(partly.iter().map(|entry| entry.is_const).collect::<Vec<_>>(), [true, false]);
    refused(bench.delete(&plain(&partly[0])), Code::PermissionDenied, "ingress.partly .. const");
    ok(bench.delete(&partly[1]));
    ok(bench.insert(&bench.entry("partly", vec![exact(1, b"\x01")], forward(&bench))));
}

#[test]
fn modifications_without_an_action() {
    let bench = bench();
    let entry = v1::TableEntry { metadata: "first".into(), ..kinds(&bench, 1) };
    ok(bench.insert(&entry));
    let remark = v1::TableEntry { action: None, metadata: "second".into(), ..entry.clone() };
    ok(bench.modify(&remark));
    assert_eq!(bench.table_entries("kinds"), [v1::TableEntry { action: entry.action.clone(), ..remark.clone() }]);
    let other = v1::TableEntry { priority: 2, ..remark.clone() };
    refused(bench.modify(&other), Code::NotFound, "ingress.kinds .. priority 2");
    // Updates see the effect of earlier ones in the same request.
    let drop = Some(direct(bench.call("drop", &[])));
    let updates = [
        update(Type::Modify, E::TableEntry(v1::TableEntry { action: drop.clone(), ..entry.clone() })),
        update(Type::Modify, E::TableEntry(remark.clone())),
    ];
    bench.request(&updates).into_iter().for_each(ok);
    assert_eq!(bench.table_entries("kinds"), [v1::TableEntry { action: drop, ..remark }]);
}

/// Section "Wildcard Reads".
#[test]
fn reads_filter() {
    let bench = bench();
    for priority in 1..=3 {
        ok(bench.insert(&v1::TableEntry { controller_metadata: priority as u64, ..kinds(&bench, priority) }));
    }
    let drop = Some(direct(bench.call("drop", &[])));
    let other = vec![exact(1, b"\x01")];
    ok(bench.insert(&v1::TableEntry {
        r#match: other.clone(),
        action: drop,
        metadata: "x".into(),
        ..kinds(&bench, 2)
    }));
    ok(bench.insert(&bench.entry("routes", vec![], forward(&bench))));
    let wanted = || v1::TableEntry { table_id: bench.table("kinds"), ..v1::TableEntry::default() };
    let count = |wanted| bench.entries(wanted).len();
    assert_eq!(count(wanted()), 4);
    assert_eq!(count(v1::TableEntry { priority: 2, ..wanted() }), 2);
    assert_eq!(count(v1::TableEntry { r#match: kinds(&bench, 1).r#match, ..wanted() }), 3);
    assert_eq!(count(v1::TableEntry { r#match: other.clone(), priority: 2, ..wanted() }), 1);
    assert_eq!(count(v1::TableEntry { r#match: other.clone(), priority: 3, ..wanted() }), 0);
    assert_eq!(count(v1::TableEntry { metadata: "x".into(), ..wanted() }), 1);
    assert_eq!(count(v1::TableEntry { controller_metadata: 3, ..wanted() }), 1);
    let by = |name| Some(direct(v1::Action { action_id: bench.action_id(name), params: vec![] }));
    assert_eq!(count(v1::TableEntry { action: by("forward"), ..wanted() }), 3);
    assert_eq!(count(v1::TableEntry { action: by("forward"), r#match: other, priority: 2, ..wanted() }), 0);
    // Four here, one in routes, two each in fixed and partly; none of a hidden table, no default
    // entries.
    assert_eq!(count(v1::TableEntry::default()), 9);
    let read = |wanted| bench.read(E::TableEntry(wanted));
    refused(read(v1::TableEntry { priority: 1, ..Default::default() }), Code::InvalidArgument, "give table_id");
    let argument = v1::TableEntry { action: Some(direct(forward(&bench))), ..wanted() };
    refused(read(argument), Code::InvalidArgument, "arguments");
    let unknown = v1::TableEntry { action: by("to_port"), ..wanted() };
    refused(read(unknown), Code::InvalidArgument, "no action with id");
    let partial = v1::TableEntry { r#match: vec![optional(4, b"\x01")], ..wanted() };
    refused(read(partial), Code::InvalidArgument, "h.ethernet.type_");
    refused(read(v1::TableEntry { table_id: 5, ..wanted() }), Code::NotFound, "no table with id 0x5");
    let empty = bench.schema.read(
        &bench.device,
        &p4runtime::Device::state(&bench.device).unwrap(),
        &v1::Entity::default(),
        &mut |_| std::ops::ControlFlow::Continue(()),
    );
    refused(empty, Code::InvalidArgument, "without a kind");
}

#[test]
fn reading_ends_when_nobody_wants_more() {
    let bench = bench();
    for number in 1..=3 {
        ok(bench.insert(&bench.entry("routes", vec![lpm(1, &[number], 128)], forward(&bench))));
    }
    for wanted in [v1::TableEntry::default(), v1::TableEntry { table_id: bench.table("routes"), ..Default::default() }]
    {
        let (mut seen, state) = (0, p4runtime::Device::state(&bench.device).unwrap());
        let wanted = v1::Entity { entity: Some(E::TableEntry(wanted)) };
        ok(bench.schema.read(&bench.device, &state, &wanted, &mut |_| {
            seen += 1;
            if seen == 2 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        }));
        assert_eq!(seen, 2);
    }
}

/// Section "Idle-timeout".
#[test]
fn idle_timeouts() {
    let bench = bench();
    let entry = bench.entry("routes", vec![lpm(1, b"\x01", 128)], forward(&bench));
    let entry = v1::TableEntry { idle_timeout_ns: 5_000, metadata: "m".into(), ..entry };
    ok(bench.insert(&entry));
    assert_eq!(bench.table_entries("routes"), [entry.clone()]);
    let since = Some(v1::table_entry::IdleTimeout::default());
    let wanted = v1::TableEntry { table_id: entry.table_id, time_since_last_hit: since, ..Default::default() };
    let shown = v1::table_entry::IdleTimeout { elapsed_ns: IDLE as i64 };
    assert_eq!(bench.entries(wanted)[0].time_since_last_hit, Some(shown));
    let all = v1::TableEntry { time_since_last_hit: since, ..Default::default() };
    assert_eq!(bench.entries(all).iter().filter(|entry| entry.time_since_last_hit.is_some()).count(), 1);
    refused(bench.modify(&v1::TableEntry { idle_timeout_ns: -1, ..entry.clone() }), Code::InvalidArgument, "negative");
    refused(
        bench.modify(&v1::TableEntry { time_since_last_hit: since, ..entry.clone() }),
        Code::InvalidArgument,
        "read",
    );
    let kinds = kinds(&bench, 1);
    refused(
        bench.insert(&v1::TableEntry { idle_timeout_ns: 1, ..kinds.clone() }),
        Code::InvalidArgument,
        "no idle timeout",
    );
    let asked = v1::TableEntry { table_id: kinds.table_id, time_since_last_hit: since, ..Default::default() };
    refused(bench.read(E::TableEntry(asked)), Code::InvalidArgument, "ingress.kinds .. no idle timeouts");

    let state = p4runtime::Device::state(&bench.device).unwrap();
    let table = state.pipeline().tables.iter().find(|(_, t)| t.preamble.name == "ingress.routes").unwrap().0;
    let told = bench.schema.encode_idle_entry(table, state.entries(table).next().unwrap(), 6_000).unwrap();
    let since = Some(v1::table_entry::IdleTimeout { elapsed_ns: 6_000 });
    assert_eq!(told, v1::TableEntry { action: None, time_since_last_hit: since, ..entry });
}

/// Section "Translation of Match Fields": numbers are equal on both sides, whatever the widths.
#[test]
fn translated_types() {
    let bench = bench();
    let with =
        |keys| v1::TableEntry { priority: 1, ..bench.entry("ports", keys, bench.call("to_port", &[b"\x01\xff"])) };
    let entry = with(vec![ternary(1, b"\x01\x00", b"\xff\xff\xff\xff")]);
    ok(bench.insert(&entry));
    assert_eq!(bench.table_entries("ports"), [entry]);
    refused(bench.insert(&with(vec![ternary(1, b"\x01", b"\x01")])), Code::Unimplemented, "m.port .. all 32");
    refused(bench.insert(&with(vec![ternary(1, b"\x02\x00", b"\xff\xff\xff\xff")])), Code::OutOfRange, "m.port");
    let drop = bench.call("drop", &[]);
    let prefix = bench.entry("port_prefixes", vec![lpm(1, b"\x07", 32)], drop.clone());
    ok(bench.insert(&prefix));
    assert_eq!(bench.table_entries("port_prefixes"), [prefix]);
    let short = bench.entry("port_prefixes", vec![lpm(1, b"\x00", 24)], drop);
    refused(bench.insert(&short), Code::Unimplemented, "m.port .. all 32 bits");
}

/// Translation depends only on the number of entries; other tables are not copied.
#[test]
fn nothing_is_written_by_translating() {
    let bench = bench();
    let updates = [update(Type::Insert, E::TableEntry(kinds(&bench, 1)))];
    let mut oneshots = Oneshots::new(&bench.schema, p4runtime::Device::state(&bench.device).unwrap(), &updates);
    let written = ok(bench.schema.translate_update(&mut oneshots, &updates[0]));
    assert_eq!(written.len(), 1);
    assert_eq!(bench.table_entries("kinds"), []);
}
