//! Tests indexed counters, meters and registers, and externs of other types.

use crate::bench::*;
use p4runtime::Code;
use p4runtime::proto::v1::{self, entity::Entity as E, p4_data::Data as D, update::Type};

fn index(index: i64) -> Option<v1::Index> {
    Some(v1::Index { index })
}

#[test]
fn counters() {
    let bench = bench();
    let id = bench.object("hits");
    let data = Some(v1::CounterData { byte_count: 640, packet_count: 10 });
    let message = |index, data| v1::CounterEntry { counter_id: id, index, data };
    let with = |index, data| E::CounterEntry(message(index, data));
    ok(bench.write(Type::Modify, with(index(3), data)));
    assert_eq!(ok(bench.read(with(index(3), None))), [with(index(3), data)]);
    // Index 0 is not a wildcard.
    assert_eq!(ok(bench.read(with(index(0), None))), [with(index(0), Some(Default::default()))]);
    let all = ok(bench.read(with(None, None)));
    assert_eq!(all.len(), 16);
    assert_eq!(all[3], with(index(3), data));
    assert_eq!(ok(bench.read(E::CounterEntry(Default::default()))).len(), 16);
    // A write without data changes nothing; one without an index changes all elements.
    ok(bench.write(Type::Modify, with(index(3), None)));
    assert_eq!(ok(bench.read(with(index(3), None))), [with(index(3), data)]);
    ok(bench.write(Type::Modify, with(None, data)));
    assert!(ok(bench.read(with(None, None))).iter().all(|one| matches!(one, E::CounterEntry(one) if one.data == data)));

    let modify = |entity| bench.write(Type::Modify, entity);
    refused(bench.write(Type::Insert, with(index(1), data)), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with(index(1), data)), Code::InvalidArgument, "MODIFY");
    refused(modify(with(index(-1), data)), Code::InvalidArgument, "ingress.hits: index -1");
    refused(modify(with(index(16), data)), Code::OutOfRange, "ingress.hits: index 16 .. last one is 15");
    refused(modify(with(index(16), None)), Code::OutOfRange, "ingress.hits: index 16");
    refused(bench.read(with(index(16), None)), Code::OutOfRange, "ingress.hits: index 16");
    refused(bench.read(with(index(-1), None)), Code::InvalidArgument, "ingress.hits: index -1");
    let negative = Some(v1::CounterData { byte_count: 0, packet_count: -1 });
    refused(modify(with(index(1), negative)), Code::InvalidArgument, "packet count -1");
    let of = |counter_id| E::CounterEntry(v1::CounterEntry { counter_id, ..message(index(1), data) });
    refused(modify(of(0)), Code::InvalidArgument, "counter's id is missing");
    refused(modify(of(bench.object("rates"))), Code::NotFound, "no counter with id");
    refused(bench.read(of(0)), Code::InvalidArgument, "give its id too");
    refused(bench.read(of(7)), Code::NotFound, "no counter with id 0x7");
}

#[test]
fn meters() {
    let bench = bench();
    let id = bench.object("rates");
    let good = v1::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    let config = Some(good);
    let message = |index, config| v1::MeterEntry { meter_id: id, index, config, counter_data: None };
    let with = |index, config| E::MeterEntry(message(index, config));
    let modify = |entity| bench.write(Type::Modify, entity);
    ok(modify(with(index(2), config)));
    assert_eq!(ok(bench.read(with(index(2), None))), [with(index(2), config)]);
    assert_eq!(ok(bench.read(with(index(0), None))), [with(index(0), None)]);
    assert_eq!(ok(bench.read(E::MeterEntry(Default::default()))).len(), 8);
    ok(modify(with(None, config)));
    assert!(
        ok(bench.read(with(None, None))).iter().all(|one| matches!(one, E::MeterEntry(one) if one.config == config))
    );
    ok(modify(with(None, None)));
    assert!(
        ok(bench.read(with(None, None))).iter().all(|one| matches!(one, E::MeterEntry(one) if one.config.is_none()))
    );
    refused(bench.write(Type::Insert, with(index(1), config)), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with(index(1), config)), Code::InvalidArgument, "MODIFY");
    refused(modify(with(index(-1), config)), Code::InvalidArgument, "ingress.rates: index -1");
    refused(modify(with(index(8), config)), Code::OutOfRange, "ingress.rates: index 8 .. last one is 7");
    let bad = |change: fn(&mut v1::MeterConfig)| {
        let mut config = good;
        change(&mut config);
        modify(with(index(1), Some(config)))
    };
    refused(bad(|c| c.pir = -3), Code::InvalidArgument, "ingress.rates .. pir is -3");
    refused(bad(|c| c.eburst = 3), Code::InvalidArgument, "ingress.rates .. leave eburst out");
    refused(bad(|c| c.cir = 9), Code::InvalidArgument, "ingress.rates .. peak rate 3 is below");
    refused(bad(|c| c.pburst = 0), Code::InvalidArgument, "ingress.rates .. peak burst is 0");
    let coloured = E::MeterEntry(v1::MeterEntry { counter_data: Some(Default::default()), ..message(index(1), None) });
    refused(modify(coloured.clone()), Code::Unimplemented, "ingress.rates .. colours");
    refused(bench.read(coloured), Code::Unimplemented, "ingress.rates .. colours");
    refused(modify(E::MeterEntry(v1::MeterEntry { meter_id: 9, ..message(None, None) })), Code::NotFound, "no meter");
}

fn data(data: D) -> v1::P4Data {
    v1::P4Data { data: Some(data) }
}

fn bits(bytes: &'static [u8]) -> v1::P4Data {
    data(D::Bitstring(bytes.into()))
}

fn members(members: Vec<v1::P4Data>) -> v1::P4Data {
    data(D::Struct(v1::P4StructLike { members }))
}

#[test]
fn registers() {
    let bench = bench();
    let with = |name, index, data| E::RegisterEntry(v1::RegisterEntry { register_id: bench.object(name), index, data });
    let modify = |entity| bench.write(Type::Modify, entity);
    let record = |right, set, big| {
        let pair = members(vec![bits(b"\x0f\xff\xff"), bits(right)]);
        Some(members(vec![pair, data(D::Bool(set)), bits(big)]))
    };
    let some = record(b"\x9d", true, b"\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01");
    ok(modify(with("records", index(1), some.clone())));
    assert_eq!(ok(bench.read(with("records", index(1), None))), [with("records", index(1), some.clone())]);
    ok(modify(with("words", None, Some(bits(b"\x07")))));
    let words = ok(bench.read(with("words", None, None)));
    assert_eq!(words, [0, 1, 2, 3].map(|at| with("words", index(at), Some(bits(b"\x07")))));
    assert_eq!(ok(bench.read(E::RegisterEntry(Default::default()))).len(), 8);

    refused(bench.write(Type::Insert, with("words", index(1), some.clone())), Code::InvalidArgument, "MODIFY");
    refused(bench.write(Type::Delete, with("words", index(1), some.clone())), Code::InvalidArgument, "MODIFY");
    refused(modify(with("words", index(-1), Some(bits(b"\x07")))), Code::InvalidArgument, "ingress.words: index -1");
    refused(modify(with("words", index(4), Some(bits(b"\x07")))), Code::OutOfRange, "ingress.words: index 4");
    refused(bench.read(with("words", index(4), None)), Code::OutOfRange, "ingress.words: index 4");
    refused(modify(with("words", index(1), None)), Code::InvalidArgument, "ingress.words: no data");
    refused(modify(with("words", index(1), some)), Code::InvalidArgument, "ingress.words .. a bit string is needed");
    refused(modify(with("words", index(1), Some(bits(b"\x01\0\0\0\0")))), Code::OutOfRange, "ingress.words");
    refused(modify(with("words", index(1), Some(v1::P4Data::default()))), Code::InvalidArgument, "a bit string");
    refused(modify(with("records", index(1), Some(bits(b"\x01")))), Code::InvalidArgument, "a struct is needed");
    let short = Some(members(vec![bits(b"\x01")]));
    refused(modify(with("records", index(1), short)), Code::InvalidArgument, "3 members instead of 1");
    refused(modify(with("records", index(1), record(b"\x00\x9d", true, b"\x01"))), Code::OutOfRange, "ingress.records");
    let not_bool = Some(members(vec![members(vec![bits(b"\x01"), bits(b"\x01")]), bits(b"\x01"), bits(b"\x01")]));
    refused(modify(with("records", index(1), not_bool)), Code::InvalidArgument, "a bool is needed");
    let unknown = E::RegisterEntry(v1::RegisterEntry { register_id: 3, ..Default::default() });
    refused(modify(unknown.clone()), Code::NotFound, "no register");
    refused(bench.read(unknown), Code::NotFound, "no register");
}

#[test]
fn externs_of_other_kinds() {
    let bench = bench();
    let with = |extern_type_id| E::ExternEntry(v1::ExternEntry { extern_type_id, ..Default::default() });
    assert_eq!(ok(bench.read(with(0))), []);
    refused(bench.read(with(0x81)), Code::Unimplemented, "no extern type with id 0x81");
    refused(bench.write(Type::Insert, with(0x81)), Code::Unimplemented, "no extern type with id 0x81");
}
