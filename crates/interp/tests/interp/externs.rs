//! Tests externs: counters, meters, registers, hashes, checksums, random numbers, digests, value
//! sets.

use crate::build::*;
use entries::{Counter, EntryId, MeterConfig, StateUpdate, UpdateKind};
use interp::{Config, DigestMessage, Interp};
use ir::*;

const SECOND: u64 = 1_000_000_000;

/// Builds a program with an ingress that gets the header's fields as values. The 32-bit value that
/// `act` returns goes to the header's last field.
fn program(t: Build, fields: &[u32], act: impl FnOnce(&mut BodyBuilder, &Build, &[Value]) -> Option<Value>) -> Interp {
    program_with(t, fields, Config::default(), act)
}

fn program_with(
    mut t: Build,
    fields: &[u32],
    config: Config,
    act: impl FnOnce(&mut BodyBuilder, &Build, &[Value]) -> Option<Value>,
) -> Interp {
    let names: Vec<String> = (0..fields.len()).map(|n| format!("f{n}")).collect();
    let mut types: Vec<(&str, Type)> =
        names.iter().zip(fields).map(|(name, width)| (name.as_str(), Type::Bit(*width))).collect();
    types.push(("result", Type::Bit(32)));
    let h = t.header("h", &types);
    let kinds = match t.p.arch {
        Arch::V1Model => [ControlKind::Parser, ControlKind::Ingress, ControlKind::Deparser],
        Arch::Pna => [ControlKind::MainParser, ControlKind::MainControl, ControlKind::MainDeparser],
    };
    t.parser(kinds[0], &[h]);
    let mut b = BodyBuilder::new();
    if t.p.arch == Arch::Pna {
        let port = b.bits(32, 1u8);
        b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
    }
    let values: Vec<Value> = (0..fields.len()).map(|n| b.load(&t.p, t.field(h, n))).collect();
    if let Some(result) = act(&mut b, &t, &values) {
        let result = b.cast(Type::Bit(32), result);
        b.store(t.field(h, fields.len()), result);
    }
    b.ret();
    t.control(kinds[1], b);
    t.deparser(kinds[2], &[h]);
    t.load_with(config)
}

/// Returns the 32 bits after `input`, as the program left them.
fn result(interp: &mut Interp, input: &[u8], now: u64) -> u32 {
    let mut packet = input.to_vec();
    packet.extend([0; 4]);
    let bytes = sent(&interp.process(&packet, 0, now)).remove(0).1;
    u32::from_be_bytes(bytes[input.len()..input.len() + 4].try_into().unwrap())
}

#[test]
fn counters() {
    let mut t = Build::v1model();
    let kind = ExternKind::Counter { size: 4, unit: CounterUnit::Both, index_type: None };
    let counter = t.object("c", kind);
    let mut interp = program(t, &[8], |b, _, values| {
        b.call_extern(Some(counter), ExternFn::CounterCount, vec![ExternArg::Value(values[0])], &[]);
        None
    });
    for index in [1, 1, 3, 4, 255] {
        result(&mut interp, &[index], 0);
    }
    assert_eq!(interp.counter(counter, 1), Some(Counter { packets: 2, bytes: 10 }));
    assert_eq!(interp.counter(counter, 3), Some(Counter { packets: 1, bytes: 5 }));
    assert_eq!(interp.counter(counter, 4), None);
    write(&mut interp, [StateUpdate::Counter(counter, 1, Counter { packets: u64::MAX, bytes: 0 })]);
    result(&mut interp, &[1], 0);
    assert_eq!(interp.counter(counter, 1), Some(Counter { packets: 0, bytes: 5 }));
    let wrong = StateUpdate::Counter(counter, 4, Counter::default());
    let error = interp.write(&[wrong].into_iter().collect()).unwrap_err();
    assert_eq!(error.to_string(), "update 0: c: index 4 is out of range; the last one is 3");
}

#[test]
fn registers() {
    let mut t = Build::v1model();
    let kind = ExternKind::Register {
        size: 2,
        elem: vec![Type::Bit(8), Type::Bit(100)],
        initial: vec![],
        data_type: DataType::Tuple(vec![DataType::Bit(8), DataType::Bit(100)]),
        index_type: None,
    };
    let register = t.object("r", kind);
    let mut interp = program(t, &[8, 8], |b, _, values| {
        let wide = b.cast(Type::Bit(100), values[1]);
        let args = vec![ExternArg::Value(values[0])];
        let leaves = b.call_extern(Some(register), ExternFn::RegisterRead, args, &[Type::Bit(8), Type::Bit(100)]);
        let (small, big) = (b.add(leaves[0], values[1]), b.binary(BinaryOp::Sub, leaves[1], wide));
        let args = vec![ExternArg::Value(values[0]), ExternArg::Values(vec![small, big])];
        b.call_extern(Some(register), ExternFn::RegisterWrite, args, &[]);
        Some(small)
    });
    assert_eq!([result(&mut interp, &[1, 5], 0), result(&mut interp, &[1, 6], 0)], [5, 11]);
    assert_eq!([result(&mut interp, &[2, 5], 0), result(&mut interp, &[2, 5], 0)], [5, 5]); // out of range
    assert_eq!(interp.register(register, 1), Some(vec![big(11), big((1 << 100) - 11)]));
    assert_eq!(interp.register(register, 2), None);
    write(&mut interp, [StateUpdate::Register(register, None, vec![big(3), big(4)])]);
    assert_eq!(interp.register(register, 0), Some(vec![big(3), big(4)]));
    let wide = StateUpdate::Register(register, Some(0), vec![big(256), big(4)]);
    assert!(interp.write(&[wide].into_iter().collect()).is_err());
}

/// A register with an initial value, and one too large for full allocation.
#[test]
fn register_extremes() {
    let mut t = Build::pna();
    let kind = |size, initial| ExternKind::Register {
        size,
        elem: vec![Type::Bit(32)],
        initial,
        data_type: DataType::Bit(32),
        index_type: None,
    };
    let small = t.object("small", kind(3, vec![Const::new(Type::Bit(32), 7u8)]));
    let huge = t.object("huge", kind(1 << 40, vec![]));
    let interp = program(t, &[8], |_, _, _| None);
    assert_eq!(interp.register(small, 2), Some(vec![big(7)]));
    assert_eq!(interp.register(huge, (1 << 40) - 1), Some(vec![big(0)]));
}

const RATES: MeterConfig = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 };

#[test]
fn meters() {
    let mut t = Build::v1model();
    let meter = t.object("m", ExternKind::Meter { size: 2, unit: MeterUnit::Packets, index_type: None });
    let mut interp = program(t, &[8], |b, _, values| {
        Some(b.call_extern(Some(meter), ExternFn::MeterExecute, vec![ExternArg::Value(values[0])], &[Type::Bit(8)])[0])
    });
    let colours = |interp: &mut Interp, index: u8, now| [(); 3].map(|()| result(interp, &[index], now));
    assert_eq!(colours(&mut interp, 0, 0), [0, 0, 0]); // not configured
    write(&mut interp, [StateUpdate::Meter(meter, 0, Some(RATES))]);
    assert_eq!(colours(&mut interp, 0, 0), [0, 1, 2]);
    assert_eq!(colours(&mut interp, 1, 0), [0, 0, 0]);
    assert_eq!(colours(&mut interp, 0, 5 * SECOND), [0, 1, 2]);
    write(&mut interp, [StateUpdate::Meter(meter, 0, None)]);
    assert_eq!(colours(&mut interp, 0, 5 * SECOND), [0, 0, 0]);
}

/// PNA's colors are an enumeration in the order red, green, yellow; `execute` is color-aware.
#[test]
fn pna_meters() {
    let mut t = Build::pna();
    let members = ["RED", "GREEN", "YELLOW"].map(String::from).to_vec();
    let colour = Type::Enum(t.p.enums.push(Enum { name: "PNA_MeterColor_t".into(), members }));
    let meter = t.object("m", ExternKind::Meter { size: 2, unit: MeterUnit::Packets, index_type: None });
    let mut interp = program(t, &[32], |b, _, values| {
        let before = b.cast(colour, values[0]);
        let index = b.bits(8, 0u8);
        let args = vec![ExternArg::Value(index), ExternArg::Value(before)];
        Some(b.call_extern(Some(meter), ExternFn::MeterExecute, args, &[colour])[0])
    });
    let mut run = |before: u8| result(&mut interp, &[0, 0, 0, before], 0);
    assert_eq!([run(0), run(1), run(2)], [0, 1, 2]);
    write(&mut interp, [StateUpdate::Meter(meter, 0, Some(RATES))]);
    let mut run = |before: u8| result(&mut interp, &[0, 0, 0, before], 0);
    // Red stays red and takes no token; yellow takes a peak token; then green; then no token is
    // left.
    assert_eq!([run(0), run(2), run(1), run(1)], [0, 2, 1, 0]);
}

/// Direct counters and meters of v1model update at the hit, before the action.
#[test]
fn v1model_direct() {
    let mut t = Build::v1model();
    let counter = t.object("c", ExternKind::DirectCounter { unit: CounterUnit::Both });
    let meter = t.object("m", ExternKind::DirectMeter { unit: MeterUnit::Packets });
    let colour = t.meta("meta.colour", 8);
    let (miss, read) = (t.action("miss", &[]), t.action("read", &[]));
    let table = t.table("t", &[(Type::Bit(8), MatchKind::Exact)], &[miss, read]);
    let declared = &mut t.p.tables[table];
    (declared.direct_counter, declared.direct_meter, declared.meter_result) =
        (Some(counter), Some(meter), Some(colour));
    let mut interp = program(t, &[8], |b, t, values| {
        let arms = b.apply_table(&t.p, table, vec![values[0]]);
        let end = b.create_block();
        let result = b.append_param(end, Type::Bit(32));
        b.switch_to(arms[0].block);
        let none = b.bits(32, 9u8);
        b.jump_with(end, vec![none]);
        b.switch_to(arms[1].block);
        b.call_extern(Some(counter), ExternFn::DirectCounterCount, vec![ExternArg::Table(table)], &[]);
        let read =
            b.call_extern(Some(meter), ExternFn::DirectMeterExecute, vec![ExternArg::Table(table)], &[Type::Bit(32)])
                [0];
        let written = b.load(&t.p, colour);
        let shift = b.bits(8, 4u8);
        let high = b.cast(Type::Bit(32), written);
        let high = b.binary(BinaryOp::Shl, high, shift);
        let both = b.binary(BinaryOp::Or, high, read);
        b.jump_with(end, vec![both]);
        b.switch_to(end);
        Some(result)
    });
    let mut given = entry(table, vec![exact(1)], read, &[]);
    given.meter = Some(RATES);
    given.counter = Some(Counter { packets: 10, bytes: 0 });
    insert(&mut interp, given);
    let id = EntryId { table, keys: vec![exact(1)], priority: 0 };
    assert_eq!([(); 3].map(|()| result(&mut interp, &[1], 0)), [0x00, 0x11, 0x22]);
    assert_eq!(result(&mut interp, &[2], 0), 9);
    // Counted once per hit, not again by `count()`.
    assert_eq!(interp.direct_counter(&id), Some(Counter { packets: 13, bytes: 15 }));
    write(
        &mut interp,
        [StateUpdate::DirectMeter(id.clone(), None), StateUpdate::DirectCounter(id.clone(), Counter::default())],
    );
    assert_eq!(result(&mut interp, &[1], 0), 0);
    assert_eq!(interp.direct_counter(&id), Some(Counter { packets: 1, bytes: 5 }));
    // A modified entry keeps its counter.
    write(&mut interp, [StateUpdate::Entry(UpdateKind::Modify, entry(table, vec![exact(1)], read, &[]))]);
    result(&mut interp, &[1], 0);
    assert_eq!(interp.direct_counter(&id), Some(Counter { packets: 2, bytes: 10 }));
}

/// PNA counts where the action calls the counter.
#[test]
fn pna_direct_counter() {
    let mut t = Build::pna();
    let counter = t.object("c", ExternKind::DirectCounter { unit: CounterUnit::Both });
    let (miss, count, silent) = (t.action("miss", &[]), t.action("count", &[]), t.action("silent", &[]));
    let table = t.table("t", &[(Type::Bit(8), MatchKind::Exact)], &[miss, count, silent]);
    t.p.tables[table].direct_counter = Some(counter);
    let mut interp = program(t, &[8], |b, t, values| {
        let arms = b.apply_table(&t.p, table, vec![values[0]]);
        let end = b.create_block();
        for (n, arm) in arms.iter().enumerate() {
            b.switch_to(arm.block);
            if n < 2 {
                let bytes = b.bits(32, 100u8);
                b.call_extern(
                    Some(counter),
                    ExternFn::DirectCounterCount,
                    vec![ExternArg::Table(table), ExternArg::Value(bytes)],
                    &[],
                );
            }
            b.jump(end);
        }
        b.switch_to(end);
        None
    });
    insert(&mut interp, entry(table, vec![exact(1)], count, &[]));
    insert(&mut interp, entry(table, vec![exact(2)], silent, &[]));
    for key in [1, 1, 2, 3] {
        result(&mut interp, &[key], 0);
    }
    let read = |key| interp.direct_counter(&EntryId { table, keys: vec![exact(key)], priority: 0 });
    assert_eq!(read(1), Some(Counter { packets: 2, bytes: 200 }));
    assert_eq!(read(2), Some(Counter::default()));
}

/// `hash` of v1model: base + hash % max; data are packed without gaps and padded to bytes. The CRCs
/// are of "123456789".
#[test]
fn hashes() {
    let run = |algorithm: &str, base: u32, max: u32| {
        let fields = [4u32, 12, 56];
        let mut interp = program(Build::v1model(), &fields, |b, _, values| {
            let (base, max) = (b.bits(32, base), b.bits(32, max));
            let args = vec![
                ExternArg::Str(algorithm.into()),
                ExternArg::Value(base),
                ExternArg::Values(values.to_vec()),
                ExternArg::Value(max),
            ];
            Some(b.call_extern(None, ExternFn::Hash, args, &[Type::Bit(32)])[0])
        });
        result(&mut interp, b"123456789", 0)
    };
    assert_eq!(run("crc32", 0, u32::MAX), 0xcbf4_3926);
    assert_eq!(run("crc32", 5, 1000), 5 + 0xcbf4_3926 % 1000);
    assert_eq!(run("crc16", 0, u32::MAX), 0xbb3d);
    assert_eq!(run("crc32", 17, 0), 17);
    assert_eq!(run("identity", 0, 1 << 16), 0x3738);
    assert_eq!(run("xor16", 0, 1 << 16), 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900);
}

/// A 12-bit field is packed from the most significant bit and padded with zeros after it.
#[test]
fn hash_padding() {
    let mut interp = program(Build::v1model(), &[4, 12], |b, _, values| {
        let (base, max) = (b.bits(32, 0u8), b.bits(32, u32::MAX));
        let args = vec![
            ExternArg::Str("identity".into()),
            ExternArg::Value(base),
            ExternArg::Values(vec![values[1]]),
            ExternArg::Value(max),
        ];
        Some(b.call_extern(None, ExternFn::Hash, args, &[Type::Bit(32)])[0])
    });
    assert_eq!(result(&mut interp, &[0xfa, 0xbc], 0), 0xabc0);
}

/// The common example header for RFC 1071: 45 00 00 73 ... has checksum b861.
#[test]
fn ipv4_checksum() {
    let ipv4: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8,
        0x00, 0xc7,
    ];
    let mut t = Build::v1model();
    let h = t.header("ipv4", &[("front", Type::Bit(80)), ("sum", Type::Bit(16)), ("back", Type::Bit(64))]);
    t.parser(ControlKind::Parser, &[h]);
    let fields: Vec<VarId> = (0..3).map(|n| t.field(h, n)).collect();
    let args = |b: &mut BodyBuilder, t: &Build| {
        let yes = b.bool(true);
        let [front, sum, back] = [0, 1, 2].map(|n| b.load(&t.p, fields[n]));
        vec![
            ExternArg::Value(yes),
            ExternArg::Values(vec![front, back]),
            ExternArg::Value(sum),
            ExternArg::Str("HashAlgorithm.csum16".into()),
        ]
    };
    let mut b = BodyBuilder::new();
    let verify = args(&mut b, &t);
    b.call_extern(None, ExternFn::VerifyChecksum, verify, &[]);
    b.ret();
    t.control(ControlKind::VerifyChecksum, b);
    let mut b = BodyBuilder::new();
    let error = b.load(&t.p, t.std("checksum_error"));
    let error = b.cast(Type::Bit(9), error);
    b.store(t.std("egress_spec"), error);
    b.ret();
    t.control(ControlKind::Ingress, b);
    let mut b = BodyBuilder::new();
    let update = args(&mut b, &t);
    let sum = b.call_extern(None, ExternFn::UpdateChecksum, update, &[Type::Bit(16)])[0];
    b.store(fields[1], sum);
    b.ret();
    t.control(ControlKind::ComputeChecksum, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    assert_eq!(sent(&interp.process(&ipv4, 0, 0)), [(0, ipv4.to_vec())]);
    let mut broken = ipv4;
    broken[10] ^= 1;
    // Port 1 means that the program saw the error. The checksum is correct again when the packet
    // leaves.
    assert_eq!(sent(&interp.process(&broken, 0, 0)), [(1, ipv4.to_vec())]);
}

/// Checksums over data and payload; a false condition leaves the old value.
#[test]
fn checksum_with_payload() {
    for (condition, expected) in [(true, 0xffff - (0x0102 + 0x0304 + 0x0500)), (false, 0)] {
        let mut t = Build::v1model();
        let h = t.header("h", &[("data", Type::Bit(16)), ("sum", Type::Bit(16))]);
        t.parser(ControlKind::Parser, &[h]);
        let mut b = BodyBuilder::new();
        let (data, sum) = (b.load(&t.p, t.field(h, 0)), b.load(&t.p, t.field(h, 1)));
        let yes = b.bool(condition);
        let args = vec![
            ExternArg::Value(yes),
            ExternArg::Values(vec![data]),
            ExternArg::Value(sum),
            ExternArg::Str("HashAlgorithm.csum16".into()),
        ];
        let sum = b.call_extern(None, ExternFn::UpdateChecksumWithPayload, args, &[Type::Bit(16)])[0];
        b.store(t.field(h, 1), sum);
        b.ret();
        t.control(ControlKind::ComputeChecksum, b);
        t.deparser(ControlKind::Deparser, &[h]);
        let mut interp = t.load();
        let bytes = sent(&interp.process(&[1, 2, 0, 0, 3, 4, 5], 0, 0)).remove(0).1;
        assert_eq!(u16::from_be_bytes([bytes[2], bytes[3]]), expected as u16);
        assert_eq!(bytes[4..], [3, 4, 5]);
    }
}

/// RFC 1624, section 4: incremental update.
#[test]
fn internet_checksum() {
    let mut t = Build::pna();
    let object = t.object("ck", ExternKind::InternetChecksum);
    let mut interp = program(t, &[16, 16, 16], |b, _, values| {
        let method = |b: &mut BodyBuilder, func, args| b.call_extern(Some(object), func, args, &[]);
        let state = b.not(values[0]);
        method(b, ExternFn::InternetChecksumSetState, vec![ExternArg::Value(state)]);
        method(b, ExternFn::InternetChecksumSubtract, vec![ExternArg::Values(vec![values[1]])]);
        method(b, ExternFn::InternetChecksumAdd, vec![ExternArg::Values(vec![values[2]])]);
        let sum = b.call_extern(Some(object), ExternFn::InternetChecksumGet, vec![], &[Type::Bit(16)])[0];
        let state = b.call_extern(Some(object), ExternFn::InternetChecksumGetState, vec![], &[Type::Bit(16)])[0];
        Some(b.concat(sum, state))
    });
    assert_eq!(result(&mut interp, &[0xdd, 0x2f, 0x55, 0x55, 0x32, 0x85], 0), 0x0000_ffff);
}

/// PNA `Hash` and `Checksum` objects. The checksum accumulates data over calls and restarts with
/// each packet.
#[test]
fn pna_hash_and_checksum() {
    let mut t = Build::pna();
    let (algorithm, output) = (HashAlgorithm::Crc32, Type::Bit(32));
    let hash = t.object("h", ExternKind::Hash { algorithm, output });
    let sum = t.object("s", ExternKind::Checksum { algorithm, output });
    let mut interp = program(t, &[32, 40], |b, _, values| {
        let whole =
            b.call_extern(Some(hash), ExternFn::HashGet, vec![ExternArg::Values(values.to_vec())], &[Type::Bit(32)])[0];
        for value in values {
            b.call_extern(Some(sum), ExternFn::ChecksumUpdate, vec![ExternArg::Values(vec![*value])], &[]);
        }
        let parts = b.call_extern(Some(sum), ExternFn::ChecksumGet, vec![], &[Type::Bit(32)])[0];
        let (zero, same) = (b.bits(32, 0u8), b.eq(whole, parts));
        Some(b.select(same, whole, zero))
    });
    assert_eq!(result(&mut interp, b"123456789", 0), 0xcbf4_3926);
    assert_eq!(result(&mut interp, b"123456789", 0), 0xcbf4_3926);
}

/// Random numbers stay in their bounds, reach both, and repeat with the seed.
#[test]
fn random() {
    let make = |seed| {
        program_with(Build::v1model(), &[8, 8], Config { seed, ..Config::default() }, |b, _, values| {
            let args = vec![ExternArg::Value(values[0]), ExternArg::Value(values[1])];
            Some(b.call_extern(None, ExternFn::Random, args, &[Type::Bit(8)])[0])
        })
    };
    let mut interp = make(1);
    let draws: Vec<u32> = (0..200).map(|_| result(&mut interp, &[10, 13], 0)).collect();
    assert!((10..=13).all(|n| draws.contains(&n)) && draws.iter().all(|n| (10..=13).contains(n)));
    assert_eq!(result(&mut interp, &[9, 3], 0), 9);
    let again = |seed| {
        let mut interp = make(seed);
        (0..200).map(|_| result(&mut interp, &[10, 13], 0)).collect::<Vec<u32>>()
    };
    assert_eq!(again(1), draws);
    assert_ne!(again(2), draws);
    assert_eq!(interp.seed(), 1);
}

#[test]
fn digests() {
    let mut t = Build::v1model();
    let kind = ExternKind::Digest { data_type: DataType::Tuple(vec![]), fields: vec![Type::Bit(8), Type::Bit(16)] };
    let digest = t.object("d", kind);
    let mut interp = program(t, &[8, 16], |b, _, values| {
        b.call_extern(Some(digest), ExternFn::DigestPack, vec![ExternArg::Values(values.to_vec())], &[]);
        None
    });
    result(&mut interp, &[1, 2, 3], 0);
    result(&mut interp, &[4, 5, 6], 0);
    let message = |a, b| DigestMessage { digest, values: vec![big(a), big(b)] };
    assert_eq!(interp.take_digests(), [message(1, 0x0203), message(4, 0x0506)]);
    assert_eq!(interp.take_digests(), []);
}

#[test]
fn assertions() {
    for func in [ExternFn::Assert, ExternFn::Assume] {
        let mut interp = program(Build::v1model(), &[8], |b, _, values| {
            let zero = b.bits(8, 0u8);
            let holds = b.eq(values[0], zero);
            b.call_extern(None, func, vec![ExternArg::Value(holds), ExternArg::Str("x == 0".into())], &[]);
            None
        });
        assert_eq!(result(&mut interp, &[0], 0), 0);
        let out = interp.process(&[1, 0, 0, 0, 0], 0, 0);
        assert_eq!(drops(&interp, &out), ["assert_failed"]);
    }
}

#[test]
fn value_sets() {
    let mut t = Build::v1model();
    let key = |kind, width| MatchKey::new("k", Type::Bit(width), kind);
    let set = t.p.value_sets.push(ValueSet {
        preamble: named("set"),
        size: 2,
        keys: vec![key(MatchKind::Exact, 8), key(MatchKind::Ternary, 16)],
        loc: SourceLoc::default(),
    });
    let h = t.header("h", &[("a", Type::Bit(8)), ("b", Type::Bit(16))]);
    let found = t.meta("meta.found", 1);
    let mut b = BodyBuilder::new();
    b.extract(h);
    let (x, y) = (b.load(&t.p, t.field(h, 0)), b.load(&t.p, t.field(h, 1)));
    let is = b.in_value_set(set, vec![x, y]);
    let is = b.cast(Type::Bit(1), is);
    b.store(found, is);
    b.ret();
    t.control(ControlKind::Parser, b);
    let mut b = BodyBuilder::new();
    let is = b.load(&t.p, found);
    let is = b.cast(Type::Bit(9), is);
    b.store(t.std("egress_spec"), is);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    let port = |interp: &mut Interp, packet: [u8; 3]| sent(&interp.process(&packet, 0, 0))[0].0;
    assert_eq!(port(&mut interp, [1, 2, 3]), 0);
    let member = vec![exact(1), KeyMatch::Ternary { value: big(0x0200), mask: big(0xff00) }];
    write(&mut interp, [StateUpdate::ValueSet(set, vec![member.clone()])]);
    assert_eq!(port(&mut interp, [1, 2, 3]), 1);
    assert_eq!(port(&mut interp, [1, 3, 3]), 0);
    assert_eq!(port(&mut interp, [2, 2, 3]), 0);
    let error = interp.write(&[StateUpdate::ValueSet(set, vec![member; 3])].into_iter().collect()).unwrap_err();
    assert_eq!(error.to_string(), "update 0: value set set: 3 members given, it can hold 2");
    assert_eq!(port(&mut interp, [1, 2, 3]), 1);
}
