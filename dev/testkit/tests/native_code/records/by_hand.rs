//! Tests cases that random programs seldom have: large indices, more decisions than are recorded,
//! reused entry numbers.

use super::run;
use entries::{ActionSpec, Counter, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use interp::{Config, DeferredCount};
use ir::{ActionCall, KeyMatch, Pipeline, TableId};
use jit::{Jit, MAX_DECISIONS};
use packet::{Batch, BatchOutput, Engine, PortId};
use std::convert::Infallible;
use std::sync::Arc;
use testkit::differ::case::{PacketIn, ProgramSource, TestCase, TestEvent};
use testkit::differ::compile;

/// Indices of all sizes, and a drop that only the packet decides.
const COUNTERS: [&str; 2] = [
    "bit<80> wide; bit<32> index; bit<7> pad; bit<9> port;",
    "counter<bit<80>>(16, CounterType.packets) few;
    counter<bit<32>>(33554432, CounterType.packets_and_bytes) many;
    apply {
        few.count(hdr.h.wide);
        many.count(hdr.h.index);
        std.egress_spec = hdr.h.port;
    }",
];

/// Returns a program that parses a header of these fields and runs this ingress.
fn of_one_header([fields, ingress]: [&str; 2]) -> Arc<Pipeline> {
    let text = format!(
        "#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>
header h_t {{ {fields} }}
struct headers {{ h_t h; }}
struct metadata {{}}
parser p(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t std) {{
    state start {{ pkt.extract(hdr.h); transition accept; }}
}}
control nothing(inout headers hdr, inout metadata meta) {{ apply {{}} }}
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {{
    {ingress}
}}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {{ apply {{}} }}
control deparse(packet_out pkt, in headers hdr) {{ apply {{ pkt.emit(hdr.h); }} }}
V1Switch(p(), nothing(), ingress(), egress(), nothing(), deparse()) main;
"
    );
    Arc::new(compile::compile(&text, true).expect("it compiles"))
}

#[test]
fn indices_of_all_sizes() {
    let pipeline = of_one_header(COUNTERS);
    let mut rng = fastrand::Rng::with_seed(5);
    let mut packet = || {
        let wide: u128 = rng.choice([0, 5, 15, 16, 1 << 40, (1 << 64) - 1, 1 << 64, (1 << 64) + 3]).unwrap_or(0);
        let index: u32 = rng.choice([0, 7, 1 << 24, 1 << 25, u32::MAX]).unwrap_or(0);
        let port: u16 = rng.choice([1, 510, 511]).unwrap_or(0);
        let mut bytes = [&wide.to_be_bytes()[6..], &index.to_be_bytes(), &port.to_be_bytes()].concat();
        if rng.u8(..10) == 0 {
            bytes.truncate(12);
        }
        PacketIn { port: 3, at: 0, bytes }
    };
    let steps = vec![TestEvent::Packets((0..400).map(|_| packet()).collect())];
    let source = ProgramSource::File("the text above".to_owned());
    let seen = run(&TestCase { seed: 0, source, pipeline, setup: Config::default(), steps });
    // Too short for the parser, or not; dropped, or not; a short one has port 0.
    assert!(seen.handed == 0 && seen.packets == 400 && seen.counts == 800 && seen.ways == 3, "{seen:?}");
}

/// Parser with a decision at each byte.
const LONG: &str = r#"
#include <core.p4>
#include <v1model.p4>
struct headers {}
struct metadata {}
parser p(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start {
        transition select(pkt.lookahead<bit<8>>()) { 1: more; default: accept; }
    }
    state more {
        pkt.advance(8);
        transition start;
    }
}
control nothing(inout headers hdr, inout metadata meta) { apply {} }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 1; }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply {} }
control deparse(packet_out pkt, in headers hdr) { apply {} }
V1Switch(p(), nothing(), ingress(), egress(), nothing(), deparse()) main;
"#;

/// A packet with more decisions than fit is processed as usual. Its record is bounded and marked as
/// truncated; other packets' records are complete.
#[test]
fn a_full_record_says_so() {
    let pipeline = Arc::new(compile::compile(LONG, true).expect("it compiles"));
    let mut jit = Jit::new_recording(pipeline.clone(), Config::default()).expect("native code is made");
    assert_eq!(jit.fallback_reason(), None);
    let mut plain = Jit::new(pipeline, Config::default()).expect("native code is made");
    let lengths = [3, 9000, 4, MAX_DECISIONS + 1, 9000, 3];
    let batch = || {
        let mut batch = Batch::new();
        for length in lengths {
            let mut bytes = vec![1; length];
            bytes.push(0);
            batch.push_bytes(&bytes, PortId(0), 0).expect("a packet is short enough");
        }
        batch
    };
    let (mut recorded, mut ordinary) = (batch(), batch());
    let [mut out, mut expected] = [BatchOutput::new(), BatchOutput::new()];
    let mut ways = Vec::new();
    jit.process_recorded(&mut recorded, &mut out, &mut |_, record| {
        assert_eq!(record.is_complete, record.decisions.len() < MAX_DECISIONS);
        ways.push(record.decisions.to_vec());
    });
    plain.process(&mut ordinary, &mut expected);
    let said = |out: &BatchOutput, batch: &Batch| -> Vec<String> {
        out.iter(batch).map(|(emission, packet)| format!("{:?} {:?}", emission.verdict, packet.bytes())).collect()
    };
    assert_eq!(said(&out, &recorded), said(&expected, &ordinary));
    let noted: Vec<usize> = ways.iter().map(Vec::len).collect();
    assert!(noted[1] == MAX_DECISIONS && noted[3] == MAX_DECISIONS && noted[4] == MAX_DECISIONS, "{noted:?}");
    assert!(ways[0] == ways[5] && ways[0] != ways[2] && noted[2] == noted[0] + 1, "{noted:?}");
}

/// Table with entries that count.
const COUNTED: [&str; 2] = [
    "bit<8> key;",
    "direct_counter(CounterType.packets_and_bytes) hits;
    action to(bit<9> port) { std.egress_spec = port; }
    table counted {
        key = { hdr.h.key: exact; }
        actions = { to; NoAction; }
        counters = hits;
        default_action = NoAction();
    }
    apply { counted.apply(); }",
];

/// Returns the entry that a packet with this key hits.
fn found(jit: &mut Jit, key: u8) -> Option<u32> {
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    batch.push_bytes(&[key], PortId(0), 0).expect("a packet is short enough");
    let mut found = None;
    jit.process_recorded(&mut batch, &mut out, &mut |_, record| {
        assert_eq!(record.lookup_key(&record.lookups[0]), [u64::from(key)]);
        found = record.lookups[0].entry_id;
    });
    found
}

/// Deferred counts, entries and arguments refer to the entry that has the number now, only if it
/// has the expected generation. Also after all numbers were reassigned, and from another worker.
#[test]
fn numbers_are_used_again() {
    let pipeline = of_one_header(COUNTED);
    let (table, to) = (TableId(0), pipeline.tables[TableId(0)].actions[0].action);
    let mut jit = Jit::new_recording(pipeline, Config::default()).expect("native code is made");
    assert_eq!(jit.fallback_reason(), None);
    let update = |kind: UpdateKind, key: u8| -> WriteBatch {
        let action = ActionSpec::Call(ActionCall { action: to, args: vec![key.into()] });
        [StateUpdate::Entry(kind, TableEntry::new(table, vec![KeyMatch::Exact(key.into())], action))]
            .into_iter()
            .collect()
    };
    let counted = |jit: &Jit, number: u32| {
        let entry = jit.entry_by_id(table, number)?;
        jit.entry_counter(table, &entry)
    };
    let packets = |packets: u64| Counter { packets, bytes: packets };
    jit.write(&update(UpdateKind::Insert, 1)).expect("an entry is taken");
    let number = found(&mut jit, 1).expect("it is there");
    let old = jit.generation(table, number);
    let hit = |generation: u32| DeferredCount::Hit { table, number, generation };
    jit.credit(&hit(old), 10, 10, 0);
    assert_eq!(counted(&jit, number), Some(packets(11)));
    jit.write(&update(UpdateKind::Delete, 1)).expect("an entry is deleted");
    assert_eq!((found(&mut jit, 1), jit.entry_by_id(table, number)), (None, None));
    jit.credit(&hit(old), 10, 10, 0);
    // A number is not reused while a worker can still hit the old entry.
    let again = (2..20).find(|key| {
        jit.write(&update(UpdateKind::Insert, *key)).expect("an entry is taken");
        found(&mut jit, *key) == Some(number)
    });
    let key = again.expect("the number is used again");
    let new = jit.generation(table, number);
    assert_ne!(old, new);
    jit.credit(&hit(old), 100, 100, 0);
    jit.credit(&DeferredCount::Direct { table, number, generation: old }, 100, 100, 0);
    assert_eq!(counted(&jit, number), Some(packets(1)));
    let mut worker = jit.new_worker();
    worker.credit(&hit(new), 5, 5, 0);
    assert_eq!((found(&mut worker, key), counted(&jit, number)), (Some(number), Some(packets(7))));
    worker.credit(&DeferredCount::Applied { table, arm: 0, hit: true }, 1000, 2000, 0);
    let hits: u64 = jit.stats().tables.iter().map(|tally| tally.actions[0].hits.packets).sum();
    assert!(hits > 1000, "{hits}");
    drop(worker);
    jit.load_batches([Ok::<_, Infallible>(update(UpdateKind::Insert, 100))].into_iter())
        .unwrap_or_else(|never| match never {});
    for key in [key, 100] {
        let number = found(&mut jit, key).expect("it is there");
        let mut words = Vec::new();
        assert!(jit.copy_action_data(table, Some(number), &mut words) && words == [u64::from(key)], "{words:?}");
        assert_ne!(jit.generation(table, number), new);
    }
}

/// Emits the time of each packet, which never decreases.
const TIMES: [&str; 2] = [
    "bit<48> time;",
    "counter<bit<8>>(4, CounterType.packets_and_bytes) seen;
    apply {
        seen.count(2);
        hdr.h.time = std.ingress_global_timestamp;
        std.egress_spec = 1;
    }",
];

/// Recorded and unrecorded batches, in turn, share one sequence of times and of counts.
#[test]
fn noted_and_quiet_batches_are_one_sequence() {
    let pipeline = of_one_header(TIMES);
    let mut jit = Jit::new_recording(pipeline.clone(), Config::default()).expect("it is loaded");
    let mut interp = interp::Interp::new(pipeline.clone(), Config::default()).expect("it is loaded");
    let (mut rng, mut noted, mut backwards) = (fastrand::Rng::with_seed(9), 0, 0);
    let mut latest = 0;
    for round in 0..200u64 {
        let mut batches = [Batch::new(), Batch::new()];
        for _ in 0..rng.usize(1..20) {
            let at = 1_000 * (1 + rng.u64(10 * round..10 * round + 100));
            backwards += u32::from(at < latest);
            latest = at;
            batches.iter_mut().for_each(|batch| batch.push_bytes(&[0; 60], PortId(3), at).expect("a batch has room"));
        }
        let [batch, other] = &mut batches;
        let mut outs = [BatchOutput::new(), BatchOutput::new()];
        match rng.bool() {
            true => jit.process_recorded(batch, &mut outs[0], &mut |_, _| noted += 1),
            false => jit.process(batch, &mut outs[0]),
        }
        Engine::process(&mut interp, other, &mut outs[1]);
        assert_eq!(outs[0].verdicts(), outs[1].verdicts());
        for (own, others) in batch.packets().iter().zip(other.packets()) {
            assert_eq!(own.bytes(), others.bytes());
        }
    }
    let seen = pipeline.externs.keys().next().expect("a counter");
    let (counted, same) = (jit.counter(seen, 2), interp.counter(seen, 2));
    assert_eq!(counted, same);
    let packets = counted.expect("it is one").packets;
    assert!(noted > packets / 4 && noted < packets * 3 / 4 && backwards > 100, "{noted} of {packets}, {backwards}");
}
