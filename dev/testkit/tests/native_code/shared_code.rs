//! Engines of a process share the code of a program: equal programs with equal settings, and nothing
//! else. Each engine has its own entries, counters and settings all the same.

use entries::{StateUpdate, UpdateKind, WriteBatch, parse_entry};
use interp::Config;
use ir::Pipeline;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::sync::Arc;
use testkit::differ::compile::compile;
use testkit::differ::pair::pna;

/// Returns a program that sends packets to port 2. A table writes their first byte; on a miss it is
/// `missed`.
fn program(missed: u8) -> Arc<Pipeline> {
    let text = pna(
        "header part_h { bit<8> key; bit<8> value; }
        struct headers_t { part_h h; } struct metadata_t { }",
        "state start { packet.extract(hdr.h); transition accept; }",
        &format!(
            "Counter<bit<64>, bit<8>>(8, PNA_CounterType_t.PACKETS) counted;
            action put(bit<8> value) {{ hdr.h.value = value; }}
            table lookup {{ key = {{ hdr.h.key: exact; }} actions = {{ put; }} default_action = put({missed}); }}
            apply {{ send_to_port((PortId_t) 2); lookup.apply(); counted.count(hdr.h.key); }}"
        ),
        "packet.emit(hdr.h);",
    );
    Arc::new(compile(&text, true).unwrap_or_else(|errors| panic!("{errors}")))
}

fn engine(missed: u8) -> Jit {
    Jit::new(program(missed), Config::default()).expect("native code is made")
}

/// Runs a packet with key 1. Returns its verdict and its value afterwards.
fn run(engine: &mut Jit) -> (Verdict, u8) {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(&[1, 0], PortId(1), 0).expect("a batch has room");
    engine.process(&mut batch, &mut out);
    let (sent, packet) = out.iter(&batch).next().expect("one packet");
    (sent.verdict, packet.bytes()[1])
}

#[test]
fn equal_programs_share_their_code() {
    let (first, second, other) = (engine(200), engine(200), engine(201));
    assert!(first.code_bytes() > 0 && first.shares_code_with(&second), "one program, two compilations of it");
    assert!(!first.shares_code_with(&other), "another constant");
    let recording = Jit::new_recording(program(200), Config::default()).expect("native code is made");
    assert!(!first.shares_code_with(&recording), "code that records is other code");
    let ports = Config { ports: Some([1, 2].into()), ..Config::default() };
    let with_ports = Jit::new(program(200), ports).expect("native code is made");
    assert!(first.shares_code_with(&with_ports), "existing ports are checked outside of the code");
}

#[test]
fn engines_that_share_code_have_their_own_state_and_settings() {
    let pipeline = program(200);
    let [mut plain, mut written] = [engine(200), engine(200)];
    let config = Config { ports: Some([1].into()), ..Config::default() };
    let mut without_port = Jit::new(pipeline.clone(), config).expect("native code is made");
    assert!(plain.shares_code_with(&written) && plain.shares_code_with(&without_port));
    let entry = parse_entry(&pipeline, "lookup: hdr.h.key=1 -> put(value=7)").expect("an entry");
    let mut batch = WriteBatch::new();
    batch.updates.push(StateUpdate::Entry(UpdateKind::Insert, entry));
    written.write(&batch).expect("the entry is taken");
    let to_port = Verdict::Forward { port: PortId(2) };
    assert_eq!(run(&mut plain), (to_port, 200));
    assert_eq!(run(&mut written), (to_port, 7));
    assert!(matches!(run(&mut without_port).0, Verdict::Drop(_)), "port 2 does not exist there");
    let counter = pipeline.externs.keys().next().expect("the counter");
    let [one, two] = [&plain, &written].map(|engine| engine.counter(counter, 1).map(|counter| counter.packets));
    assert_eq!([one, two], [Some(1), Some(1)], "each counts its own packets");
}

#[test]
fn code_is_compiled_once_by_threads_that_need_it_at_once() {
    let engines: Vec<Jit> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| engine(77))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an engine")).collect()
    });
    assert!(engines.iter().all(|engine| engine.shares_code_with(&engines[0])));
}
