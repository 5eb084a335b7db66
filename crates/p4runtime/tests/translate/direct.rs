//! Tests direct counters and meters, within entries and alone.

use crate::bench::*;
use p4runtime::Code;
use p4runtime::proto::v1::{self, entity::Entity as E, update::Type};

fn entry(bench: &Bench) -> v1::TableEntry {
    v1::TableEntry { priority: 1, ..bench.entry("kinds", vec![exact(1, b"\x01")], bench.call("drop", &[])) }
}

fn count(packets: i64) -> v1::CounterData {
    v1::CounterData { byte_count: 100 * packets, packet_count: packets }
}

fn meter(cir: i64) -> v1::MeterConfig {
    v1::MeterConfig { cir, cburst: 10, pir: cir + 5, pburst: 20, eburst: 0 }
}

/// Reads the entry with its counter and meter.
fn read(bench: &Bench) -> v1::TableEntry {
    let (counter_data, meter_config) = (Some(Default::default()), Some(Default::default()));
    let wanted = v1::TableEntry { counter_data, meter_config, ..entry(bench) };
    bench.entries(v1::TableEntry { action: None, ..wanted }).remove(0)
}

/// Section "Direct Resources": the meaning of set and unset fields.
#[test]
fn in_entries() {
    let bench = bench();
    let plain = entry(&bench);
    ok(bench.insert(&plain));
    assert_eq!(read(&bench), v1::TableEntry { counter_data: Some(count(0)), ..plain.clone() });
    let full = v1::TableEntry { counter_data: Some(count(3)), meter_config: Some(meter(7)), ..plain.clone() };
    ok(bench.modify(&full));
    assert_eq!(read(&bench), full);
    // A read returns them only if it requests them.
    assert_eq!(bench.table_entries("kinds"), [plain.clone()]);
    let all = v1::TableEntry { counter_data: Some(Default::default()), ..Default::default() };
    assert_eq!(bench.entries(all).iter().filter(|entry| entry.counter_data.is_some()).count(), 3);
    // A modification without them leaves the counter and resets the meter.
    ok(bench.modify(&plain));
    assert_eq!(read(&bench), v1::TableEntry { counter_data: Some(count(3)), ..plain.clone() });
    ok(bench.delete(&plain));
    ok(bench.insert(&full));
    assert_eq!(read(&bench), full);
}

#[test]
fn what_entries_refuse() {
    let bench = bench();
    let plain = entry(&bench);
    let insert = |entry: v1::TableEntry| bench.insert(&entry);
    let negative = v1::CounterData { byte_count: -1, packet_count: 0 };
    let counted = v1::TableEntry { counter_data: Some(negative), ..plain.clone() };
    refused(insert(counted), Code::InvalidArgument, "ingress.kinds: byte count -1");
    let metered = |config| v1::TableEntry { meter_config: Some(config), ..plain.clone() };
    let cases = [
        (v1::MeterConfig { cir: -1, ..meter(1) }, "cir is -1"),
        (v1::MeterConfig { cburst: -1, ..meter(1) }, "cburst is -1"),
        (v1::MeterConfig { pir: -1, ..meter(1) }, "pir is -1"),
        (v1::MeterConfig { pburst: -1, ..meter(1) }, "pburst is -1"),
        (v1::MeterConfig { eburst: 1, ..meter(1) }, "leave eburst out"),
        (v1::MeterConfig { pir: 1, ..meter(7) }, "peak rate 1 is below"),
        (v1::MeterConfig { pburst: 0, ..meter(7) }, "burst is 0"),
    ];
    for (config, words) in cases {
        refused(insert(metered(config)), Code::InvalidArgument, &format!("ingress.kinds .. {words}"));
    }
    let coloured = v1::TableEntry { meter_counter_data: Some(Default::default()), ..plain.clone() };
    refused(insert(coloured.clone()), Code::Unimplemented, "ingress.kinds .. colours");
    refused(bench.read(E::TableEntry(coloured)), Code::Unimplemented, "ingress.kinds .. colours");
    // Tables without them.
    let route = bench.entry("routes", vec![], bench.call("drop", &[]));
    let counted = v1::TableEntry { counter_data: Some(count(1)), ..route.clone() };
    refused(insert(counted.clone()), Code::InvalidArgument, "ingress.routes .. no direct counter");
    refused(bench.read(E::TableEntry(counted)), Code::InvalidArgument, "ingress.routes .. no direct counter");
    let metered = v1::TableEntry { meter_config: Some(meter(1)), ..route };
    refused(insert(metered.clone()), Code::InvalidArgument, "ingress.routes .. no direct meter");
    refused(bench.read(E::TableEntry(metered)), Code::InvalidArgument, "ingress.routes .. no direct meter");
}

/// Returns the fields that identify the entry.
fn key(entry: &v1::TableEntry) -> Option<v1::TableEntry> {
    Some(v1::TableEntry { action: None, ..entry.clone() })
}

#[test]
fn counters() {
    let bench = bench();
    let entry = entry(&bench);
    let with = |data| E::DirectCounterEntry(v1::DirectCounterEntry { table_entry: key(&entry), data });
    refused(bench.write(Type::Modify, with(Some(count(1)))), Code::NotFound, "ingress.kinds");
    refused(bench.read(with(None)), Code::NotFound, "ingress.kinds");
    refused(bench.write(Type::Modify, with(None)), Code::NotFound, "ingress.kinds");
    ok(bench.insert(&entry));
    ok(bench.write(Type::Modify, with(Some(count(5)))));
    assert_eq!(ok(bench.read(with(None))), [with(Some(count(5)))]);
    ok(bench.write(Type::Modify, with(None)));
    assert_eq!(ok(bench.read(with(None))), [with(Some(count(5)))]);
    refused(bench.write(Type::Insert, with(Some(count(1)))), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with(Some(count(1)))), Code::InvalidArgument, "MODIFY");
    // All of one table, and all of all tables (two entries are the program's).
    let of = |table_id| {
        let table_entry = Some(v1::TableEntry { table_id, ..Default::default() });
        E::DirectCounterEntry(v1::DirectCounterEntry { table_entry, data: None })
    };
    assert_eq!(ok(bench.read(of(entry.table_id))), [with(Some(count(5)))]);
    assert_eq!(ok(bench.read(of(0))).len(), 3);
    assert_eq!(ok(bench.read(E::DirectCounterEntry(Default::default()))).len(), 3);
    refused(bench.read(of(bench.table("routes"))), Code::InvalidArgument, "no direct counter");
    refused(bench.read(of(5)), Code::NotFound, "no table");
    let none = E::DirectCounterEntry(Default::default());
    refused(bench.write(Type::Modify, none), Code::InvalidArgument, "table_entry is missing");
    refused(bench.write(Type::Modify, of(bench.table("routes"))), Code::InvalidArgument, "no direct counter");
    let default = v1::TableEntry { table_id: entry.table_id, is_default_action: true, ..Default::default() };
    let default = E::DirectCounterEntry(v1::DirectCounterEntry { table_entry: Some(default), data: Some(count(1)) });
    refused(bench.write(Type::Modify, default.clone()), Code::Unimplemented, "default entry");
    refused(bench.read(default), Code::Unimplemented, "default entry");
}

#[test]
fn meters() {
    let bench = bench();
    let entry = entry(&bench);
    let message = |config| v1::DirectMeterEntry { table_entry: key(&entry), config, counter_data: None };
    let with = |config| E::DirectMeterEntry(message(config));
    refused(bench.write(Type::Modify, with(Some(meter(1)))), Code::NotFound, "ingress.kinds");
    ok(bench.insert(&entry));
    ok(bench.write(Type::Modify, with(Some(meter(1)))));
    assert_eq!(ok(bench.read(with(None))), [with(Some(meter(1)))]);
    assert_eq!(ok(bench.read(E::DirectMeterEntry(Default::default()))), [with(Some(meter(1)))]);
    // Unset is the default: always green.
    ok(bench.write(Type::Modify, with(None)));
    assert_eq!(ok(bench.read(with(None))), [with(None)]);
    refused(bench.write(Type::Insert, with(None)), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with(None)), Code::InvalidArgument, "MODIFY");
    let bad = with(Some(v1::MeterConfig { pir: 0, ..meter(7) }));
    refused(bench.write(Type::Modify, bad), Code::InvalidArgument, "peak rate");
    let coloured =
        E::DirectMeterEntry(v1::DirectMeterEntry { counter_data: Some(Default::default()), ..message(None) });
    refused(bench.write(Type::Modify, coloured.clone()), Code::Unimplemented, "colours");
    refused(bench.read(coloured), Code::Unimplemented, "colours");
    let route = v1::TableEntry { table_id: bench.table("routes"), ..Default::default() };
    let route = v1::DirectMeterEntry { table_entry: Some(route), ..Default::default() };
    refused(bench.write(Type::Modify, E::DirectMeterEntry(route)), Code::InvalidArgument, "no direct meter");
}
