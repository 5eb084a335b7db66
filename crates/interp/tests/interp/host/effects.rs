//! Tests effects that calls request of the architecture, layouts of results, and rejected calls.

use super::twin::{Twin, program};
use crate::build::*;
use interp::host::{ArchEffect, ExternHost, PacketContext, SiteError};
use interp::{Config, Interp};
use ir::*;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Creates a host of a pipeline with one variable.
fn host(t: Build) -> ExternHost {
    ExternHost::new(Arc::new(t.p), Config::default()).expect("the host loads")
}

/// Makes one call with 64-bit arguments. Returns the effect and the results.
fn effect(
    host: &mut ExternHost,
    func: ExternFn,
    args: Vec<ExternArg>,
    words: &[u64],
    results: &[Type],
) -> (ArchEffect, Vec<u64>) {
    let site = host.site(&Inst::Extern { object: None, func, args }, &|_| Type::Bit(64), results).expect("a site");
    assert_eq!(site.arg_words, words.len());
    let mut out = vec![u64::MAX; site.result_words];
    (host.call(site.id, &PacketContext::default(), words, &mut out), out)
}

fn value() -> ExternArg {
    ExternArg::Value(Value(0))
}

#[test]
fn requests() {
    use ExternFn::*;
    let mut t = Build::v1model();
    let kept = t.meta("meta.kept", 8);
    let mut h = host(t);
    let mut ask = |func, args: Vec<ExternArg>, words: &[u64]| effect(&mut h, func, args, words, &[]).0;
    let vars = || ExternArg::Vars(vec![kept]);
    assert_eq!(ask(Clone, vec![ExternArg::Str("I2E".into()), value(), vars()], &[7]), ArchEffect::Clone { session: 7 });
    assert_eq!(ask(Resubmit, vec![vars()], &[]), ArchEffect::Resubmit);
    assert_eq!(ask(Recirculate, vec![vars()], &[]), ArchEffect::Recirculate);
    assert_eq!(ask(Truncate, vec![value()], &[1 << 40]), ArchEffect::Truncate(u32::MAX));
    assert_eq!(ask(MarkToDrop, vec![], &[]), ArchEffect::MarkToDrop);
    assert_eq!(ask(Assert, vec![value()], &[1]), ArchEffect::None);
    assert_eq!(ask(Assert, vec![value()], &[0]), ArchEffect::AssertFailed);
    assert_eq!(ask(Assume, vec![value(), ExternArg::Str("x".into())], &[0]), ArchEffect::AssertFailed);
    assert_eq!(
        ask(LogMsg, vec![ExternArg::Str("{}".into()), ExternArg::Values(vec![Value(0)])], &[5]),
        ArchEffect::None
    );
    let clone = Inst::Extern { object: None, func: Resubmit, args: vec![vars()] };
    assert_eq!(h.site(&clone, &|_| Type::Bool, &[]).expect("a site").preserved, [kept]);

    let mut h = host(Build::pna());
    let mut ask = |func, args: Vec<ExternArg>, words: &[u64]| effect(&mut h, func, args, words, &[]).0;
    assert_eq!(ask(DropPacket, vec![], &[]), ArchEffect::Drop);
    assert_eq!(ask(SendToPort, vec![value()], &[0xffff_fffd]), ArchEffect::SendToPort(0xffff_fffd));
    assert_eq!(ask(MirrorPacket, vec![value(), value()], &[3, 9]), ArchEffect::Mirror { slot: 3, session: 9 });
    assert_eq!(ask(MirrorPacket, vec![value(), value()], &[4, 9]), ArchEffect::None);
    assert_eq!(ask(PnaRecirculate, vec![], &[]), ArchEffect::PnaRecirculate);
    // No effect carries over to the next call.
    let id = effect(&mut h, AllocateFlowId, vec![], &[], &[Type::Bit(32)]);
    assert_eq!(id, (ArchEffect::None, vec![1]));
}

/// Drops, ports, truncation and assertions as results of a whole pass.
#[test]
fn whole_passes() {
    let mut called = HashSet::new();
    let t = program(Build::v1model(), &[Type::Bit(8)], &[], |b, _, values| {
        let bit = |b: &mut BodyBuilder, n| {
            let bit = b.slice(values[0], n, n);
            b.cast(Type::Bool, bit)
        };
        let (low, sure) = (bit(b, 0), bit(b, 1));
        b.call_extern(None, ExternFn::Assert, vec![ExternArg::Value(sure), ExternArg::Str("bit 1".into())], &[]);
        let (drop, keep, end) = (b.create_block(), b.create_block(), b.create_block());
        b.branch(low, drop, keep);
        b.switch_to(drop);
        b.call_extern(None, ExternFn::MarkToDrop, vec![], &[]);
        b.jump(end);
        b.switch_to(keep);
        b.call_extern(None, ExternFn::Truncate, vec![ExternArg::Value(values[0])], &[]);
        b.jump(end);
        b.switch_to(end);
        vec![]
    });
    let mut twin = Twin::new(t, 2100);
    let mut outcomes = [0; 2];
    (0..300).for_each(|_| outcomes[usize::from(twin.random_packet().is_ok())] += 1);
    assert!(outcomes.iter().all(|count| *count > 20), "dropped and sent: {outcomes:?}");
    called.extend(twin.mini.called);

    let ports = [Some(BTreeSet::from([1, 2, 3])), None];
    for (seed, ports) in ports.into_iter().enumerate() {
        let config = Config { ports, host_ports: BTreeSet::from([2, 5]), ..Config::default() };
        let t = program(Build::pna(), &[Type::Bit(3)], &[Type::Bool, Type::Bool, Type::Bit(32)], |b, _, values| {
            let port = || vec![ExternArg::Value(values[0])];
            let host = b.call_extern(None, ExternFn::IsHostPort, port(), &[Type::Bool])[0];
            let net = b.call_extern(None, ExternFn::IsNetPort, port(), &[Type::Bool])[0];
            let id = b.call_extern(None, ExternFn::AllocateFlowId, vec![], &[Type::Bit(32)])[0];
            b.call_extern(
                None,
                ExternFn::LogMsg,
                vec![ExternArg::Str("{}".into()), ExternArg::Values(vec![host])],
                &[],
            );
            vec![host, net, id]
        });
        let mut twin = Twin::with(t, 2200 + seed as u64, config);
        (0..100).for_each(|_| drop(twin.random_packet().expect("sent")));
        assert_eq!(twin.compared, 100);
        called.extend(twin.mini.called);
    }
    use ExternFn::*;
    let wanted =
        HashSet::from([Assert, MarkToDrop, Truncate, SendToPort, IsHostPort, IsNetPort, AllocateFlowId, LogMsg]);
    assert_eq!(called, wanted);
}

/// Checksum objects belong to a packet: two interleaved packets of a batch do not see each other's
/// state.
#[test]
fn lanes() {
    let mut t = Build::pna();
    let kind = ExternKind::Checksum { algorithm: HashAlgorithm::Crc32, output: Type::Bit(32) };
    let (sum, net) = (t.object("s", kind), t.object("n", ExternKind::InternetChecksum));
    let mut h = host(t);
    assert!(h.keeps_packet_state());
    let mut site = |object, func, args: Vec<ExternArg>, results: &[Type]| {
        let inst = Inst::Extern { object: Some(object), func, args };
        h.site(&inst, &|_| Type::Bit(16), results).expect("a site").id
    };
    let data = || vec![ExternArg::Values(vec![Value(0)])];
    let update = site(sum, ExternFn::ChecksumUpdate, data(), &[]);
    let get = site(sum, ExternFn::ChecksumGet, vec![], &[Type::Bit(32)]);
    let add = site(net, ExternFn::InternetChecksumAdd, data(), &[]);
    let state = site(net, ExternFn::InternetChecksumGetState, vec![], &[Type::Bit(16)]);
    let call = |h: &mut ExternHost, site, lane, args: &[u64]| {
        let mut out = [0];
        h.call(site, &PacketContext { lane, ..PacketContext::default() }, args, &mut out);
        out[0]
    };
    for word in [0x3132, 0x3334] {
        for lane in [0, 200, 3] {
            call(&mut h, update, lane, &[word + lane as u64]);
            call(&mut h, add, lane, &[word + lane as u64]);
        }
    }
    let crc = |bytes: &[u8]| interp::host::hash(HashAlgorithm::Crc32, bytes);
    assert_eq!(call(&mut h, get, 0, &[]), crc(b"1234"));
    assert_eq!(call(&mut h, get, 3, &[]), crc(b"1537"));
    assert_eq!([0, 3].map(|lane| call(&mut h, state, lane, &[])), [0x6466, 0x646c]);
    h.begin_block(0);
    assert_eq!([call(&mut h, get, 0, &[]), call(&mut h, state, 0, &[])], [crc(b""), 0]);
    assert_eq!(call(&mut h, get, 3, &[]), crc(b"1537"));
}

/// The clock is the latest time that the host was given, by any call.
#[test]
fn clock() {
    let mut h = host(Build::pna());
    let site = h.site(&Inst::Extern { object: None, func: ExternFn::DropPacket, args: vec![] }, &|_| Type::Bool, &[]);
    let site = site.expect("a site").id;
    for (now, wanted) in [(5, 5), (9, 9), (7, 9)] {
        h.call(site, &PacketContext { now, ..PacketContext::default() }, &[], &mut []);
        assert_eq!(h.now(), wanted);
    }
    h.advance(8);
    assert_eq!(h.now(), 9);
    h.expire(20, &mut entries::ControlState::new(h.pipeline().clone()).expect("a state"));
    assert_eq!(h.now(), 20);
}

/// Every function has a call site; wrong ones are rejected with a reason.
#[test]
fn refusals() {
    let mut t = Build::v1model();
    let counter = t.object("c", ExternKind::Counter { size: 4, unit: CounterUnit::Both, index_type: None });
    let mut h = host(t);
    let ty = |_: Value| Type::Bit(8);
    assert_eq!(h.site(&Inst::PacketLength, &ty, &[Type::Bit(32)]), Err(SiteError::NotACall));
    let mut why = |object, func, args, results: &[Type]| {
        h.site(&Inst::Extern { object, func, args }, &ty, results).expect_err("it is refused").to_string()
    };
    assert_eq!(
        why(None, ExternFn::CounterCount, vec![value()], &[]),
        "the extern call is inconsistent: counter.count is called on an object of another kind; run the IR verifier on the \
         pipeline"
    );
    assert!(why(Some(ExternId(9)), ExternFn::CounterCount, vec![value()], &[]).contains("extern9 does not exist"));
    assert!(why(Some(counter), ExternFn::CounterCount, vec![], &[]).contains("arguments of shape"));
    assert!(why(None, ExternFn::Random, vec![value(), value()], &[]).contains("0 results, 1 wanted"));
    assert!(
        why(None, ExternFn::Resubmit, vec![ExternArg::Vars(vec![VarId(99)])], &[]).contains("var99 does not exist")
    );
    let many = (0..200).map(|_| Value(0)).collect();
    let inst = Inst::Extern {
        object: None,
        func: ExternFn::LogMsg,
        args: vec![ExternArg::Str(String::new()), ExternArg::Values(many)],
    };
    let wide = h.site(&inst, &|_| Type::Bit(MAX_WIDTH), &[]).map(|site| site.arg_words);
    assert_eq!(wide, Ok(200 * 1024));
    let many = (0..2000).map(|_| Value(0)).collect();
    let inst = Inst::Extern {
        object: None,
        func: ExternFn::LogMsg,
        args: vec![ExternArg::Str(String::new()), ExternArg::Values(many)],
    };
    assert!(matches!(h.site(&inst, &|_| Type::Bit(MAX_WIDTH), &[]), Err(SiteError::TooLarge { words: 2_048_000, .. })));
}

/// A varbit length beyond its type's maximum is reduced to the maximum.
#[test]
fn varbit_lengths() {
    let mut t = Build::pna();
    let hash = t.object("h", ExternKind::Hash { algorithm: HashAlgorithm::Crc32, output: Type::Bit(32) });
    let mut h = host(t);
    let inst =
        Inst::Extern { object: Some(hash), func: ExternFn::HashGet, args: vec![ExternArg::Values(vec![Value(0)])] };
    let site = h.site(&inst, &|_| Type::Varbit(16), &[Type::Bit(32)]).expect("a site");
    assert_eq!((site.args[0][0].words, site.args[0][0].is_varbit), (2, true));
    let mut hash = |length| {
        let mut out = [0];
        h.call(site.id, &PacketContext::default(), &[length, 0x1234], &mut out);
        out[0]
    };
    let crc = |bytes: &[u8]| interp::host::hash(HashAlgorithm::Crc32, bytes);
    assert_eq!([hash(8), hash(16), hash(u64::MAX)], [crc(&[0x34]), crc(&[0x12, 0x34]), crc(&[0x12, 0x34])]);
}

/// Workers share a host behind a lock.
#[test]
fn may_be_shared() {
    fn shared<T: Send>() {}
    shared::<ExternHost>();
}

/// Properties that the engines' architecture drivers use.
#[test]
fn architecture() {
    use interp::host::architecture::*;
    let mut t = Build::pna();
    let members = ["RED", "GREEN", "YELLOW"].map(String::from).to_vec();
    t.p.enums.push(Enum { name: "PNA_MeterColor_t".into(), members });
    let (reason, punt) = (t.meta("meta.drop_reason", 8), t.meta("meta.punt_reason", 8));
    let direction = t.std("direction");
    let p = t.p.clone();
    let interp: Interp = t.load();
    assert_eq!((drop_variable(&p), cpu_variable(&p)), (Some(reason), Some(punt)));
    assert_eq!((intrinsic(&p, "istd.direction"), intrinsic(&p, "istd.none")), (Some(direction), None));
    assert_eq!((color_encodings(&p), color_encodings(&Build::v1model().p)), ([1, 2, 0], [0, 1, 2]));
    assert_eq!(reason_table(&p), *interp.reasons());
    assert_eq!((v1model::DROP_PORT, v1model::MAX_PASSES, pna::CPU_PORT, pna::MAX_PASSES), (511, 32, 0xffff_fffd, 7));
    assert_eq!(metadata(&p).count(), p.vars.len());
}
