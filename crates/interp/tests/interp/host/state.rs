//! Tests stateful externs: registers, counters, meters, random numbers, digests; and value sets and
//! profiles.

use super::twin::{Twin, program};
use crate::build::*;
use entries::{
    ActionProfileGroup, ActionProfileMember, ActionSpec, Counter, GroupMember, MeterConfig, StateUpdate, TableEntry,
    UpdateKind,
};
use interp::Config;
use ir::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn registers() {
    let leaves = [Type::Bit(8), Type::Bit(100), Type::Bool, Type::Int(33)];
    let kind = |size, initial: Vec<Const>| ExternKind::Register {
        size,
        elem: leaves.to_vec(),
        initial,
        data_type: DataType::Tuple(vec![]),
        index_type: None,
    };
    let mut t = Build::v1model();
    let initial = leaves.iter().map(|ty| Const::new(*ty, 1u8)).collect();
    let (small, huge) = (t.object("small", kind(5, initial)), t.object("huge", kind(1 << 40, vec![])));
    let inputs: Vec<Type> = [Type::Bit(3), Type::Bit(40)].into_iter().chain(leaves).collect();
    let outputs: Vec<Type> = leaves.iter().chain(&leaves).copied().collect();
    let t = program(t, &inputs, &outputs, |b, _, values| {
        let mut out = Vec::new();
        for (object, index) in [(small, values[0]), (huge, values[1])] {
            out.extend(b.call_extern(Some(object), ExternFn::RegisterRead, vec![ExternArg::Value(index)], &leaves));
            let args = vec![ExternArg::Value(index), ExternArg::Values(values[2..].to_vec())];
            b.call_extern(Some(object), ExternFn::RegisterWrite, args, &[]);
        }
        out
    });
    let mut twin = Twin::new(t, 100);
    for round in 0..200 {
        // Each of the two indices occurs twice.
        let again = [(round as u8 & 1) << 5, 0, 0, 0, 0];
        if round % 2 == 0 {
            twin.packet_of(&again).expect("sent")
        } else {
            twin.random_packet().expect("sent")
        };
        if round % 9 == 0 {
            let index = (round % 5 != 0).then(|| twin.random.below(7));
            let values = leaves.iter().map(|ty| twin.random.below(1 << ty.width().min(8)).into()).collect();
            twin.write([StateUpdate::Register(small, index, values)]);
        }
        twin.same_state();
    }
    assert!(twin.compared >= 2000, "only {} results and elements were compared", twin.compared);
    // An engine may write to the array itself. The array keeps its address after a write of all
    // elements.
    let host = &mut twin.mini.host;
    let words = host.words_mut(small).expect("a small array is kept as a whole");
    assert_eq!(words.len(), 5 * 5);
    words[5..8].copy_from_slice(&[77, 88, 0]);
    let place = words.as_ptr();
    assert_eq!(host.register(small, 1).expect("it is there")[..2], [big(77), big(88)]);
    twin.write([StateUpdate::Register(small, None, leaves.map(|_| big(1)).to_vec())]);
    let words = twin.mini.host.words_mut(small).expect("it is there");
    assert_eq!((words.as_ptr(), words[5]), (place, 1));
    assert!(twin.mini.host.words_mut(huge).is_none());
}

#[test]
fn counters() {
    for arch in [Arch::V1Model, Arch::Pna] {
        let mut t = if arch == Arch::Pna { Build::pna() } else { Build::v1model() };
        let kind = ExternKind::Counter { size: 4, unit: CounterUnit::Both, index_type: None };
        let counter = t.object("c", kind);
        let t = program(t, &[Type::Bit(3), Type::Bit(21)], &[], |b, _, values| {
            b.call_extern(Some(counter), ExternFn::CounterCount, vec![ExternArg::Value(values[0])], &[]);
            if arch == Arch::Pna {
                let args = vec![ExternArg::Value(values[0]), ExternArg::Value(values[1])];
                b.call_extern(Some(counter), ExternFn::CounterCount, args, &[]);
            }
            vec![]
        });
        let mut twin = Twin::new(t, 200);
        for round in 0..100 {
            twin.random_packet().expect("sent");
            if round % 10 == 0 {
                let data = Counter { packets: u64::MAX - 1, bytes: twin.random.word() };
                let index = twin.random.below(5);
                twin.write([StateUpdate::Counter(counter, index, data)]);
            }
            twin.same_state();
        }
        assert!(twin.compared >= 2000);
        assert_eq!(twin.mini.host.words_mut(counter).map(|words| words.len()), Some(8));
    }
}

/// Random sizes at random times, some of them older. Configurations are added, changed and removed.
#[test]
fn meters() {
    let mut seen = [0; 3];
    for (round, unit) in [MeterUnit::Packets, MeterUnit::Bytes].into_iter().cycle().take(8).enumerate() {
        let pna = round >= 4;
        let mut t = if pna { Build::pna() } else { Build::v1model() };
        // PNA's colors are an enumeration with its own order.
        let members = ["RED", "GREEN", "YELLOW"].map(String::from).to_vec();
        let enumeration = Type::Enum(t.p.enums.push(Enum { name: "PNA_MeterColor_t".into(), members }));
        let colour = if pna { enumeration } else { Type::Bit(2) };
        let meter = t.object("m", ExternKind::Meter { size: 4, unit, index_type: None });
        let t = program(t, &[Type::Bit(3), Type::Bit(2)], &[Type::Bit(32), Type::Bit(32)], |b, _, values| {
            let index = ExternArg::Value(values[0]);
            let blind = b.call_extern(Some(meter), ExternFn::MeterExecute, vec![index.clone()], &[colour])[0];
            let before = b.cast(Type::Bit(32), values[1]);
            let before = b.cast(colour, before);
            let aware =
                b.call_extern(Some(meter), ExternFn::MeterExecute, vec![index, ExternArg::Value(before)], &[colour])[0];
            vec![b.cast(Type::Bit(32), blind), b.cast(Type::Bit(32), aware)]
        });
        let mut twin = Twin::new(t, 300 + round as u64);
        for step in 0..400 {
            if step % 20 == 0 {
                let index = twin.random.below(5);
                let scale = if unit == MeterUnit::Packets { 1 } else { 500 };
                let [cir, more, cburst, pburst] = [9, 5, 6, 9].map(|most| scale * twin.random.below(most));
                let config = MeterConfig { cir, cburst, pir: cir + more, pburst: pburst + 1 };
                let config = (twin.random.below(6) != 0).then_some(config);
                twin.write([StateUpdate::Meter(meter, index, config)]);
            }
            twin.pass_time(SECOND);
            let index = twin.random.below(5) as u8;
            let before = twin.random.below(3) as u8;
            let start = [index << 5 | before << 3];
            let late = twin.random.below(4) == 0;
            // Sometimes calls the plain function instead of sending a packet.
            if twin.random.below(10) == 0 {
                twin.mark(meter, index.into());
            }
            let out = if late { twin.late_packet_of(&start, SECOND) } else { twin.packet_of(&start) };
            let (_, bytes) = out.expect("sent");
            // The first result starts at bit 5.
            let result = u64::from_be_bytes(bytes[..8].try_into().unwrap()) << 5 >> 32;
            seen[(result as usize + if pna { 2 } else { 0 }) % 3] += 1;
        }
        twin.same_state();
        assert!(twin.compared >= 400);
    }
    assert!(seen.iter().all(|count| *count > 10), "green, yellow, red: {seen:?}");
}

/// All callers share one sequence of numbers, of any width, also for reversed bounds.
#[test]
fn random_numbers() {
    for seed in 0..6 {
        let wide = Type::Bit(if seed % 2 == 0 { 128 } else { 37 });
        let config = Config { seed: 77 + seed, ..Config::default() };
        let t =
            program(Build::v1model(), &[wide, wide, Type::Bit(8), Type::Bit(8)], &[wide, Type::Bit(8)], |b, _, v| {
                let call = |b: &mut BodyBuilder, low: Value, high: Value, ty| {
                    b.call_extern(None, ExternFn::Random, vec![ExternArg::Value(low), ExternArg::Value(high)], &[ty])[0]
                };
                vec![call(b, v[0], v[1], wide), call(b, v[2], v[3], Type::Bit(8))]
            });
        let mut twin = Twin::with(t, 400 + seed, config);
        (0..100).for_each(|_| drop(twin.random_packet()));
        assert_eq!((twin.compared, twin.mini.host.seed()), (100, 77 + seed));
    }
    let mut t = Build::pna();
    let bound = |value: u128| Const::new(Type::Bit(100), value);
    let object = t.object("r", ExternKind::Random { min: bound(10), max: bound((1 << 99) + 3) });
    let t = program(t, &[], &[Type::Bit(100)], |b, _, _| {
        b.call_extern(Some(object), ExternFn::RandomRead, vec![], &[Type::Bit(100)])
    });
    let mut twin = Twin::new(t, 450);
    (0..100).for_each(|_| drop(twin.random_packet()));
    assert_eq!(twin.compared, 100);
}

/// Messages of all types, in order, and messages lost because the queue was not drained.
#[test]
fn digests() {
    let fields = [Type::Bit(8), Type::Bool, Type::Int(16), Type::Bit(200)];
    let mut t = Build::v1model();
    let kind = ExternKind::Digest { data_type: DataType::Tuple(vec![]), fields: fields.to_vec() };
    let digest = t.object("d", kind);
    let t = program(t, &fields, &[], |b, _, values| {
        b.call_extern(Some(digest), ExternFn::DigestPack, vec![ExternArg::Values(values.to_vec())], &[]);
        vec![]
    });
    let mut twin = Twin::new(t, 500);
    let mut told = 0;
    for round in 0..100 {
        twin.random_packet().expect("sent");
        if round % 7 == 0 {
            told += twin.compare_reports();
        }
    }
    assert!(told > 90, "only {told} messages were compared");
    let bytes = [0; 29];
    for _ in 0..(1 << 16) + 10 {
        twin.interp.process(&bytes, 0, 0);
    }
    for _ in 0..(1 << 16) + 10 {
        twin.mini.process(&bytes, 0).expect("sent");
    }
    assert_eq!(twin.mini.host.lost_messages(), 11);
    assert!(twin.compare_reports() == 1 << 16);
}

/// Members of a value set with every match kind.
#[test]
fn value_sets() {
    let mut t = Build::v1model();
    let keys = [
        (MatchKind::Exact, Type::Bit(2)),
        (MatchKind::Ternary, Type::Bit(70)),
        (MatchKind::Lpm, Type::Bit(5)),
        (MatchKind::Range, Type::Int(4)),
        (MatchKind::Optional, Type::Bit(2)),
    ];
    let key = |(kind, ty)| MatchKey::new("k", ty, kind);
    let declared =
        ValueSet { preamble: named("set"), size: 64, keys: keys.map(key).to_vec(), loc: SourceLoc::default() };
    let set = t.p.value_sets.push(declared);
    let mut fields: Vec<(String, Type)> = keys.iter().enumerate().map(|(n, (_, ty))| (format!("k{n}"), *ty)).collect();
    fields.push(("padding".into(), Type::Bit(5)));
    let fields: Vec<(&str, Type)> = fields.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
    let h = t.header("h", &fields);
    let mut b = BodyBuilder::new();
    b.extract(h);
    let values = (0..5).map(|n| b.load(&t.p, t.field(h, n))).collect();
    let found = b.in_value_set(set, values);
    let found = b.cast(Type::Bit(1), found);
    let found = b.cast(Type::Bit(9), found);
    b.store(t.std("egress_spec"), found);
    b.ret();
    t.control(ControlKind::Parser, b);
    let mut b = BodyBuilder::new();
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut twin = Twin::new(t, 600);
    let mut hits = 0;
    for _ in 0..20 {
        let members = (0..30).map(|_| {
            let r = &mut twin.random;
            let mask = [0u64, 1, 3][r.below(3) as usize];
            let prefix_len = r.below(4) as u32;
            vec![
                KeyMatch::Exact(r.below(4).into()),
                KeyMatch::Ternary {
                    value: (big(r.below(4).into()) & big(mask.into())) << 60,
                    mask: big(mask.into()) << 60,
                },
                KeyMatch::Lpm { value: ((r.below(32) >> (5 - prefix_len)) << (5 - prefix_len)).into(), prefix_len },
                KeyMatch::Range { lo: (8 + r.below(8)).into(), hi: r.below(8).into() },
                KeyMatch::Optional((r.below(2) == 0).then(|| r.below(4).into())),
            ]
        });
        let members = members.collect();
        twin.write([StateUpdate::ValueSet(set, members)]);
        for _ in 0..50 {
            hits += twin.random_packet().expect("sent").0;
        }
    }
    assert!(twin.compared >= 1000 && (100..900).contains(&hits), "{hits} of {} packets match", twin.compared);
}

/// Members and groups of a selector, for each hash. They change, and groups are sometimes empty.
#[test]
fn selectors() {
    let algorithms = [HashAlgorithm::Crc32, HashAlgorithm::Crc16, HashAlgorithm::Identity, HashAlgorithm::Random];
    for (round, algorithm) in algorithms.into_iter().cycle().take(8).enumerate() {
        let mut t = Build::v1model();
        let output_width = [3, 16, 32, 64, 8, 14, 1, 20][round];
        let profile = t.object("s", ExternKind::ActionSelector { algorithm, size: 100, output_width });
        let fields = [
            ("key", Type::Bit(2)),
            ("a", Type::Bit(13)),
            ("b", Type::Bit(100)),
            ("c", Type::Bool),
            ("out", Type::Bit(20)),
        ];
        let h = t.header("h", &fields);
        t.parser(ControlKind::Parser, &[h]);
        let (miss, give, other) = (t.action("miss", &[]), t.action("give", &[20]), t.action("other", &[4, 90, 20]));
        let keys = [
            (Type::Bit(13), MatchKind::Selector),
            (Type::Bit(2), MatchKind::Exact),
            (Type::Bit(100), MatchKind::Selector),
            (Type::Bool, MatchKind::Selector),
        ];
        let table = t.table("t", &keys, &[miss, give, other]);
        t.p.tables[table].implementation = Some(profile);
        let mut b = BodyBuilder::new();
        let keys = [1, 0, 2, 3].map(|n| b.load(&t.p, t.field(h, n))).to_vec();
        let arms = b.apply_table(&t.p, table, keys);
        for (index, arm) in arms.iter().enumerate() {
            b.switch_to(arm.block);
            let value = arm.params.last().copied();
            let value = value.unwrap_or_else(|| b.bits(20, index as u32));
            b.store(t.field(h, 4), value);
            b.ret();
        }
        t.control(ControlKind::Ingress, b);
        t.deparser(ControlKind::Deparser, &[h]);
        let mut twin = Twin::new(t, 700 + round as u64);
        let member = |kind, id: u32, value: u32| {
            let action = match id % 2 {
                0 => ActionCall { action: give, args: vec![value.into()] },
                _ => ActionCall { action: other, args: vec![1u8.into(), 2u8.into(), value.into()] },
            };
            StateUpdate::Member(kind, ActionProfileMember { profile, id, action })
        };
        twin.write((0..10).map(|id| member(UpdateKind::Insert, id, 100 + id)));
        let group = |kind, id, members| StateUpdate::Group(kind, ActionProfileGroup { profile, id, members });
        twin.write([group(UpdateKind::Insert, 1, vec![]), group(UpdateKind::Insert, 2, vec![])]);
        let entry =
            |key, action| StateUpdate::Entry(UpdateKind::Insert, TableEntry::new(table, vec![exact(key)], action));
        twin.write([entry(0, ActionSpec::Member(4)), entry(1, ActionSpec::Group(1)), entry(2, ActionSpec::Group(2))]);
        for _ in 0..20 {
            let (id, value) = (twin.random.below(10) as u32, twin.random.below(1000) as u32);
            twin.write([member(UpdateKind::Modify, id, value)]);
            let weight = |twin: &mut Twin| 1 + twin.random.below(4) as u32;
            let count = twin.random.below(5) as u32;
            let members = (0..count).map(|n| GroupMember::new(2 * n + id % 2, weight(&mut twin))).collect();
            twin.write([group(UpdateKind::Modify, 1 + id % 2, members)]);
            (0..20).for_each(|_| drop(twin.random_packet().expect("sent")));
        }
        assert!(twin.compared >= 400);
    }
}
