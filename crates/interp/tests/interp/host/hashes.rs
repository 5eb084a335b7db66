//! Tests hashes and checksums of random data lists.

use super::twin::{Random, Twin, program};
use crate::build::*;
use ir::*;

const ALGORITHMS: [(HashAlgorithm, &str); 9] = [
    (HashAlgorithm::Crc32, "crc32"),
    (HashAlgorithm::Crc32Custom, "crc32_custom"),
    (HashAlgorithm::Crc16, "crc16"),
    (HashAlgorithm::Crc16Custom, "crc16_custom"),
    (HashAlgorithm::Random, "random"),
    (HashAlgorithm::Identity, "identity"),
    (HashAlgorithm::Csum16, "csum16"),
    (HashAlgorithm::Xor16, "xor16"),
    (HashAlgorithm::TargetDefault, ""),
];

/// Returns types of any widths: single bits, odd ones, several words.
fn types(random: &mut Random) -> Vec<Type> {
    let count = 1 + random.below(6);
    let one = |random: &mut Random| match random.below(8) {
        0 => Type::Bool,
        1 => Type::Int(1 + random.below(70) as u32),
        2 => Type::Bit(65 + random.below(300) as u32),
        3 => Type::Bit(*random.pick(&[8, 16, 32, 64, 128])),
        _ => Type::Bit(1 + random.below(64) as u32),
    };
    (0..count).map(|_| one(random)).collect()
}

/// v1model `hash` with base and maximum, of any result width.
#[test]
fn v1model_hash() {
    let mut compared = 0;
    for (round, (_, name)) in ALGORITHMS.iter().cycle().take(9 * 6).enumerate().filter(|(_, (_, n))| !n.is_empty()) {
        let mut random = Random::new(1000 + round as u64);
        let mut inputs = types(&mut random);
        let data = inputs.len();
        let width = *random.pick(&[1, 8, 14, 16, 32, 64, 100]);
        inputs.extend([Type::Bit(width), Type::Bit(*random.pick(&[8, 16, 32, 64, 128]))]);
        let t = program(Build::v1model(), &inputs, &[Type::Bit(width)], |b, _, values| {
            let (base, most) = (ExternArg::Value(values[data]), ExternArg::Value(values[data + 1]));
            let name = ExternArg::Str(format!("HashAlgorithm.{name}"));
            let args = vec![name, base, ExternArg::Values(values[..data].to_vec()), most];
            b.call_extern(None, ExternFn::Hash, args, &[Type::Bit(width)])
        });
        let mut twin = Twin::new(t, 2000 + round as u64);
        (0..40).for_each(|_| drop(twin.random_packet()));
        compared += twin.compared;
    }
    assert!(compared >= 48 * 40, "only {compared} results were compared");
}

/// PNA `Hash`, with and without base, `Checksum`, which accumulates data, and `Checksum16`.
#[test]
fn objects() {
    let mut compared = 0;
    for (round, (algorithm, _)) in ALGORITHMS.iter().cycle().take(9 * 5).enumerate() {
        let mut random = Random::new(3000 + round as u64);
        let mut inputs = types(&mut random);
        let data = inputs.len();
        let output = Type::Bit(*random.pick(&[8, 16, 20, 32, 64]));
        inputs.extend([output, output]);
        let mut t = Build::pna();
        let hash = t.object("h", ExternKind::Hash { algorithm: *algorithm, output });
        let sum = t.object("s", ExternKind::Checksum { algorithm: *algorithm, output });
        let other = t.object("o", ExternKind::Checksum { algorithm: *algorithm, output });
        let old = t.object("c", ExternKind::Checksum16);
        let t = program(t, &inputs, &[output, output, output, output, Type::Bit(16)], |b, _, values| {
            let all = || ExternArg::Values(values[..data].to_vec());
            let plain = b.call_extern(Some(hash), ExternFn::HashGet, vec![all()], &[output])[0];
            let (base, most) = (ExternArg::Value(values[data]), ExternArg::Value(values[data + 1]));
            let based = b.call_extern(Some(hash), ExternFn::HashGet, vec![base, all(), most], &[output])[0];
            b.call_extern(Some(sum), ExternFn::ChecksumUpdate, vec![ExternArg::Values(vec![values[0]])], &[]);
            b.call_extern(Some(other), ExternFn::ChecksumUpdate, vec![ExternArg::Values(vec![values[0]])], &[]);
            b.call_extern(Some(sum), ExternFn::ChecksumUpdate, vec![all()], &[]);
            let parts = b.call_extern(Some(sum), ExternFn::ChecksumGet, vec![], &[output])[0];
            b.call_extern(Some(other), ExternFn::ChecksumClear, vec![], &[]);
            b.call_extern(Some(other), ExternFn::ChecksumUpdate, vec![all()], &[]);
            let cleared = b.call_extern(Some(other), ExternFn::ChecksumGet, vec![], &[output])[0];
            let old = b.call_extern(Some(old), ExternFn::Checksum16Get, vec![all()], &[Type::Bit(16)])[0];
            vec![plain, based, parts, cleared, old]
        });
        let mut twin = Twin::new(t, 4000 + round as u64);
        (0..40).for_each(|_| drop(twin.random_packet()));
        compared += twin.compared;
    }
    assert!(compared >= 45 * 40, "only {compared} packets were compared");
}

/// RFC 1624 arithmetic with the state carried along.
#[test]
fn internet_checksum() {
    let mut compared = 0;
    for round in 0..20 {
        let mut random = Random::new(5000 + round);
        let mut inputs = types(&mut random);
        inputs.push(Type::Bit(16));
        let data = inputs.len() - 1;
        let mut t = Build::pna();
        let object = t.object("ck", ExternKind::InternetChecksum);
        let sixteen = Type::Bit(16);
        let t = program(t, &inputs, &[sixteen; 5], |b, _, values| {
            use ExternFn::*;
            let all = || vec![ExternArg::Values(values[..data].to_vec())];
            let mut call = |func, args| b.call_extern(Some(object), func, args, &[sixteen]);
            let fresh = call(InternetChecksumGetState, vec![])[0];
            let mut out = vec![fresh];
            let mut change = |func, args| {
                b.call_extern(Some(object), func, args, &[]);
            };
            change(InternetChecksumAdd, all());
            change(InternetChecksumSubtract, vec![ExternArg::Values(vec![values[0]])]);
            out.push(b.call_extern(Some(object), InternetChecksumGet, vec![], &[sixteen])[0]);
            out.push(b.call_extern(Some(object), InternetChecksumGetState, vec![], &[sixteen])[0]);
            b.call_extern(Some(object), InternetChecksumSetState, vec![ExternArg::Value(values[data])], &[]);
            b.call_extern(Some(object), InternetChecksumAdd, all(), &[]);
            out.push(b.call_extern(Some(object), InternetChecksumGet, vec![], &[sixteen])[0]);
            b.call_extern(Some(object), InternetChecksumClear, vec![], &[]);
            out.push(b.call_extern(Some(object), InternetChecksumGet, vec![], &[sixteen])[0]);
            out
        });
        let mut twin = Twin::new(t, 6000 + round);
        (0..60).for_each(|_| drop(twin.random_packet()));
        compared += twin.compared;
    }
    assert!(compared >= 20 * 60, "only {compared} packets were compared");
}

/// v1model's checksum functions in their blocks, over header and payload, with a varying condition.
/// Every second received checksum is correct.
#[test]
fn verify_and_update() {
    let mut compared = 0;
    let mut outcomes = [0, 0];
    for (round, (_, name)) in ALGORITHMS[..8].iter().cycle().take(32).enumerate() {
        let payload = round % 2 == 1;
        let mut random = Random::new(7000 + round as u64);
        let data = types(&mut random);
        let width = *random.pick(&[8, 16, 16, 32, 40]);
        let mut t = Build::v1model();
        let mut fields = vec![("condition".to_owned(), Type::Bool), ("wrong".to_owned(), Type::Bool)];
        fields.push(("sum".to_owned(), Type::Bit(width)));
        fields.push(("new".to_owned(), Type::Bit(width)));
        fields.extend(data.iter().enumerate().map(|(n, ty)| (format!("d{n}"), *ty)));
        let used: u32 = fields.iter().map(|(_, ty)| ty.width()).sum();
        fields.push(("padding".to_owned(), Type::Bit(8 - used % 8)));
        let fields: Vec<(&str, Type)> = fields.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
        let h = t.header("h", &fields);
        t.parser(ControlKind::Parser, &[h]);
        let values = |b: &mut BodyBuilder, t: &Build| -> Vec<Value> {
            (0..4 + data.len()).map(|n| b.load(&t.p, t.field(h, n))).collect()
        };
        let name = || ExternArg::Str(format!("HashAlgorithm.{name}"));
        let (verify, update) = match payload {
            true => (ExternFn::VerifyChecksumWithPayload, ExternFn::UpdateChecksumWithPayload),
            false => (ExternFn::VerifyChecksum, ExternFn::UpdateChecksum),
        };
        // The verified sum is either the one that `update_checksum` computed in a first pass or the
        // received one.
        let mut b = BodyBuilder::new();
        let v = values(&mut b, &t);
        let args = vec![ExternArg::Value(v[0]), ExternArg::Values(v[4..].to_vec()), ExternArg::Value(v[2]), name()];
        b.call_extern(None, verify, args, &[]);
        b.ret();
        t.control(ControlKind::VerifyChecksum, b);
        let mut b = BodyBuilder::new();
        let error = b.load(&t.p, t.std("checksum_error"));
        let error = b.cast(Type::Bool, error);
        b.store(t.field(h, 1), error);
        b.ret();
        t.control(ControlKind::Ingress, b);
        let mut b = BodyBuilder::new();
        let v = values(&mut b, &t);
        let args = vec![ExternArg::Value(v[0]), ExternArg::Values(v[4..].to_vec()), ExternArg::Value(v[3]), name()];
        let sum = b.call_extern(None, update, args, &[Type::Bit(width)])[0];
        b.store(t.field(h, 3), sum);
        b.store(t.field(h, 2), sum);
        b.ret();
        t.control(ControlKind::ComputeChecksum, b);
        t.deparser(ControlKind::Deparser, &[h]);
        let mut twin = Twin::new(t, 8000 + round as u64);
        for _ in 0..30 {
            let (_, bytes) = twin.random_packet().expect("it is sent");
            outcomes[usize::from(bytes[0] & 0x40 != 0)] += 1;
            let (_, bytes) = twin.packet(&bytes).expect("it is sent");
            outcomes[usize::from(bytes[0] & 0x40 != 0)] += 1;
        }
        compared += twin.compared;
    }
    assert!(compared >= 32 * 60, "only {compared} packets were compared");
    assert!(outcomes.iter().all(|count| *count >= 100), "right and wrong checksums: {outcomes:?}");
}

/// A varbit in a data list counts with its current length.
#[test]
fn varbits() {
    let mut t = Build::pna();
    let head = t.header("head", &[("length", Type::Bit(8)), ("sum", Type::Bit(32)), ("out", Type::Bit(32))]);
    let tail = t.header("tail", &[("odd", Type::Bit(3)), ("bits", Type::Varbit(300)), ("rest", Type::Bit(5))]);
    let hash = t.object("h", ExternKind::Hash { algorithm: HashAlgorithm::Crc32, output: Type::Bit(32) });
    let kind = ExternKind::Digest { data_type: DataType::Tuple(vec![]), fields: vec![Type::Varbit(300)] };
    let digest = t.object("d", kind);
    let mut b = BodyBuilder::new();
    b.extract(head);
    let length = b.load(&t.p, t.field(head, 0));
    let length = b.cast(Type::Bit(32), length);
    b.extract_varbit(tail, length);
    b.ret();
    t.control(ControlKind::MainParser, b);
    let mut b = BodyBuilder::new();
    let port = b.bits(32, 1u8);
    b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
    let values: Vec<Value> = (0..3).map(|n| b.load(&t.p, t.field(tail, n))).collect();
    let sum =
        b.call_extern(Some(hash), ExternFn::HashGet, vec![ExternArg::Values(values.clone())], &[Type::Bit(32)])[0];
    b.call_extern(Some(digest), ExternFn::DigestPack, vec![ExternArg::Values(vec![values[1]])], &[]);
    b.store(t.field(head, 1), sum);
    b.ret();
    t.control(ControlKind::MainControl, b);
    t.deparser(ControlKind::MainDeparser, &[head, tail]);
    let mut twin = Twin::new(t, 9000);
    for length in (0..=31).cycle().take(200) {
        let mut bytes = twin.random.bytes(9 + 1 + length);
        bytes[0] = 8 * length as u8;
        twin.packet(&bytes).expect("it is sent");
        twin.compare_reports();
    }
    assert!(twin.compared >= 400, "only {} packets and digests were compared", twin.compared);
}
