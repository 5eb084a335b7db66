//! Compares the explainer with the interpreter: the same outputs, and the same steps before them.
//! The explainer takes its entries from a snapshot of the interpreter's state, and its registers
//! from the interpreter before it processes the packet.

use entries::{ControlState, PackedEntry, UpdateKind, WriteBatch};
use interp::{Config as Setup, Explainer, Interp, PacketTrace, Registers, TraceEvent};
use ir::{ExternKind, Pipeline, TableId};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use testkit::differ::case::{PacketIn, TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::{compile, plan};

/// Cases of the run.
const CASES: u64 = 300;

/// Amounts compared.
#[derive(Default, Debug)]
struct Tally {
    compared: u64,
    /// Packets that used a meter, a random number or a flow id. An explainer has these in their
    /// initial state.
    exempt: u64,
    hits: u64,
    misses: u64,
    through_profiles: u64,
    /// Hits in tables with a single probe, with a probe per prefix length, and with a scan.
    ways: [u64; 3],
    register_reads: u64,
    entries_added: u64,
}

/// Returns whether the packet used state that has left its initial form in the interpreter.
fn is_exempt(trace: &PacketTrace) -> bool {
    trace.events().any(|event| match event {
        TraceEvent::Extern { call, .. } => {
            let call = call.to_ascii_lowercase();
            ["execute", "random", ".read", "allocate_flow_id"].iter().any(|part| call.ends_with(part))
                && !is_register_read(&call)
        }
        _ => false,
    })
}

fn is_register_read(call: &str) -> bool {
    call.contains("reg") && call.ends_with(".read")
}

impl Tally {
    fn add(&mut self, pipeline: &Pipeline, trace: &PacketTrace) {
        self.compared += 1;
        for event in trace.events() {
            match event {
                TraceEvent::Table { table, hit: Some(hit), .. } => {
                    self.hits += 1;
                    self.through_profiles += u64::from(hit.through.is_some());
                    let declared = pipeline.tables.values().find(|t| t.preamble.name == *table);
                    let kinds = declared.into_iter().flat_map(|t| t.match_keys().map(|(_, key)| key.kind));
                    let others: Vec<_> = kinds.filter(|kind| *kind != ir::MatchKind::Exact).collect();
                    let way = match others[..] {
                        [] => 0,
                        [ir::MatchKind::Lpm] => 1,
                        _ => 2,
                    };
                    self.ways[way] += 1;
                }
                TraceEvent::Table { .. } => self.misses += 1,
                TraceEvent::Extern { call, .. } if is_register_read(&call.to_ascii_lowercase()) => {
                    self.register_reads += 1
                }
                TraceEvent::Extern { call, results, .. } if call == "add_entry" => {
                    self.entries_added += u64::from(results.iter().any(|result| result == "1" || result == "true"));
                }
                _ => {}
            }
        }
    }
}

struct Pair {
    oracle: Arc<Mutex<Interp>>,
    explainer: Explainer,
    registers: Registers,
}

impl Pair {
    fn new(pipeline: &Arc<Pipeline>, setup: &Setup) -> Pair {
        let oracle = Arc::new(Mutex::new(Interp::new(pipeline.clone(), setup.clone()).expect("a program that loads")));
        let explainer = Explainer::new(pipeline.clone(), setup.clone()).expect("a program that loads");
        let read = oracle.clone();
        let registers = Registers::new(move |register, index| read.lock().unwrap().register(register, index));
        Pair { oracle, explainer, registers }
    }

    fn compare(&mut self, packet: &PacketIn, now: u64, what: &str, tally: &mut Tally) {
        let state = self.oracle.lock().unwrap().state().clone();
        let before = state.version();
        let explained = self.explainer.explain(&state, &self.registers, &packet.bytes, packet.port, now);
        let (outputs, trace) = explained.expect("a state of this pipeline");
        assert_eq!(state.version(), before);
        let (expected, steps) = self.oracle.lock().unwrap().trace(&packet.bytes, packet.port, packet.at);
        if is_exempt(&steps) {
            tally.exempt += 1;
            return;
        }
        for (number, (a, b)) in steps.steps.iter().zip(&trace.steps).enumerate() {
            assert_eq!(a, b, "{what}, step {number} of {packet:?}");
        }
        assert_eq!(steps.steps.len(), trace.steps.len(), "{what}, {packet:?}");
        assert_eq!(expected, outputs, "{what}, {packet:?}");
        tally.add(self.explainer.pipeline(), &steps);
    }
}

fn compare(case: &TestCase, what: &str, tally: &mut Tally) {
    let mut pair = Pair::new(&case.pipeline, &case.setup);
    let mut now = 0;
    for step in &case.steps {
        match step {
            // Rejected writes are part of it.
            TestEvent::Write(batch) => drop(pair.oracle.lock().unwrap().write(batch)),
            TestEvent::Tick(at) => {
                now = now.max(*at);
                pair.oracle.lock().unwrap().advance_time(*at);
            }
            TestEvent::Packets(packets) => {
                for packet in packets {
                    now = now.max(packet.at);
                    pair.compare(packet, now, what, tally);
                }
            }
        }
    }
}

#[test]
fn the_explainer_says_what_the_interpreter_says() {
    let first: u64 = std::env::var("DIFFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(70_000);
    let mut tally = Tally::default();
    for seed in first..first + CASES {
        let case = plan::generate_case(seed, &Config::small());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        if case.pipeline.externs.values().any(|object| matches!(object.kind, ExternKind::DirectMeter { .. })) {
            continue;
        }
        compare(&case, &format!("seed {seed}"), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.compared >= CASES * 50, "{tally:?}");
    assert!(tally.ways.iter().all(|hits| *hits >= CASES), "{tally:?}");
    assert!(tally.misses >= CASES && tally.through_profiles >= 100 && tally.register_reads >= 100, "{tally:?}");
    assert!(tally.entries_added >= 10, "{tally:?}");
}

#[test]
fn the_explainer_explains_the_gateway() {
    let mut tally = Tally::default();
    for seed in 71_000..71_004 {
        let case = plan::gateway_case(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        compare(&case, &format!("gateway, seed {seed}"), &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.compared >= 900 && tally.hits >= 500 && tally.ways[1] > 0, "{tally:?}");
}

const THREE_WAYS: &str = r"
#include <core.p4>
#include <v1model.p4>
header ways_t { bit<32> exact; bit<32> prefix; bit<32> ternary; }
struct headers_t { ways_t h; }
struct meta_t { }
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    meter(16, MeterType.packets) limit;
    action to(bit<9> port) { s.egress_spec = port; }
    table exact { key = { hdr.h.exact: exact; } actions = { to; NoAction; } size = 2000000; }
    table prefix { key = { hdr.h.prefix: lpm; } actions = { to; NoAction; } size = 2000000; }
    table ternary { key = { hdr.h.ternary: ternary; } actions = { to; NoAction; } size = 2000000; }
    apply {
        exact.apply();
        prefix.apply();
        ternary.apply();
        bit<2> colour;
        limit.execute_meter(0, colour);
        if (colour == 2) { mark_to_drop(s); }
    }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

fn table(pipeline: &Pipeline, name: &str) -> TableId {
    let found = pipeline.tables.iter().find(|(_, table)| table.preamble.name.ends_with(name));
    found.map(|(id, _)| id).unwrap_or_else(|| panic!("no table {name}"))
}

/// Returns a state with `count` entries in one table. Of `ternary`, only the last one matches.
fn filled(pipeline: &Arc<Pipeline>, name: &str, count: u32) -> ControlState {
    let mut state = ControlState::new(pipeline.clone()).unwrap();
    let table = table(pipeline, name);
    let action = pipeline.actions.iter().find(|(_, action)| action.preamble.name.ends_with("to")).unwrap().0;
    let mut batch = WriteBatch::new();
    for number in 0..count {
        let value = u64::from(number.wrapping_mul(0x9e37_79b1));
        let key: Vec<u64> = match name {
            "exact" => vec![value],
            // Lengths 8 to 32.
            "prefix" => {
                let len = 32 - u64::from(number % 2);
                vec![value >> (32 - len) << (32 - len), len]
            }
            _ => vec![value, 0xffff_ffff],
        };
        let priority = i32::from(name == "ternary");
        let entry = PackedEntry::new(table, &key, entries::StoredActionRef::Call(action, &[u64::from(number % 500)]));
        batch.push_packed(UpdateKind::Insert, entry.with_priority(priority));
        if batch.updates.len() == 10_000 || number + 1 == count {
            // Prefixes of 31 bits collide sometimes.
            for update in std::mem::take(&mut batch).updates {
                let _ = state.apply(&WriteBatch { updates: vec![update] });
            }
        }
    }
    state
}

/// A million entries do not slow an answer down, except in scanned tables. The time is printed, not
/// bounded; but thousands of questions would make this test take minutes if each cost as much as a
/// million entries.
#[test]
fn an_answer_does_not_wait_for_a_million_entries() {
    let pipeline = Arc::new(compile::compile(THREE_WAYS, true).expect("a program that compiles"));
    for (name, count, questions) in
        [("exact", 1_000_000u32, 5_000), ("prefix", 1_000_000, 5_000), ("ternary", 100_000, 20)]
    {
        let state = filled(&pipeline, name, count);
        let entries = state.entry_count(table(&pipeline, name));
        assert!(entries as u32 >= count / 100 * 99, "{entries}");
        let start = Instant::now();
        let mut explainer = Explainer::new(pipeline.clone(), Setup::default()).unwrap();
        let made = start.elapsed();
        let start = Instant::now();
        for question in 0..questions {
            let number = question * (count / questions);
            let value = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
            let (outputs, trace) =
                explainer.explain(&state, &Registers::initial(), &[value; 3].concat(), 1, 0).expect("its own state");
            let hit = |event: &TraceEvent| matches!(event, TraceEvent::Table { table, hit: Some(_), .. } if table.ends_with(name));
            assert!(trace.events().any(hit), "{name} {number}: {trace}");
            let port = outputs.sent().next().map(|(port, _)| port);
            assert!(name == "prefix" || port == Some(number % 500), "{name} {number}: {trace}");
        }
        println!("{name}: {entries} entries, made in {made:?}, an answer in {:?}", start.elapsed() / questions);
    }
}

/// Each answer is independent: a meter that a packet has emptied is full for the next one, and the
/// state is unchanged.
#[test]
fn an_answer_leaves_nothing_behind() {
    let pipeline = Arc::new(compile::compile(THREE_WAYS, true).expect("a program that compiles"));
    let mut state = filled(&pipeline, "exact", 10);
    let meter = pipeline.externs.iter().find(|(_, o)| matches!(o.kind, ExternKind::Meter { .. })).unwrap().0;
    let config = entries::MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1 };
    state.apply(&WriteBatch { updates: vec![entries::StateUpdate::Meter(meter, 0, Some(config))] }).unwrap();
    let mut explainer = Explainer::new(pipeline.clone(), Setup::default()).unwrap();
    let mut ask = |bytes: &[u8], now| explainer.explain(&state, &Registers::initial(), bytes, 1, now).unwrap();
    let first = ask(&[0; 12], 5);
    assert_eq!(first, ask(&[0; 12], 5));
    assert_eq!(first.0.sent().count(), 1, "{}", first.1);
    assert_eq!(ask(&[0; 12], 3), ask(&[0; 12], 3), "a time before the last one");
    let mut interp = Interp::new(pipeline.clone(), Setup::default()).unwrap();
    interp.write(&WriteBatch { updates: vec![entries::StateUpdate::Meter(meter, 0, Some(config))] }).unwrap();
    let sent: Vec<usize> = (0..2).map(|_| interp.process(&[0; 12], 1, 5).sent().count()).collect();
    assert_eq!(sent, [1, 0], "the meter of an engine is empty after a packet");

    let other = Arc::new(compile::compile(THREE_WAYS, true).unwrap());
    let mut explainer = Explainer::new(other, Setup::default()).unwrap();
    assert!(explainer.explain(&state, &Registers::initial(), &[0; 12], 1, 0).is_none(), "a state of another pipeline");
}
