//! Tests explanations of passing packets, with their outcome, and of hypothetical packets.

use crate::support::{CPU, Wired, entry, frame, mark, marks, tiers};
use entries::{StateUpdate, UpdateKind, WriteBatch};
use io::IdlePolicy;
use node::engine::native;
use node::explain::filter::{BpfInstruction, PacketFilter};
use node::explain::trace_json::{TraceJson, VerdictJson};
use node::explain::{
    ExplainError, HypotheticalTrace, LiveTrace, MAX_SESSIONS, NextPacket, TraceFilter, TraceRequest, TraceResponse,
};
use node::{Node, NodeParts, WorkerSpec};
use p4runtime::{Device, ReconcileMode};
use packet::{hex, unhex};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// Starts a node with entries: destination 1 leaves on port 1 with marks 7.
fn started() -> Wired {
    let wired = Wired::start(1, None);
    wired.commit(&marks(&[]), ReconcileMode::Nothing);
    let mut batch = WriteBatch::new();
    batch.insert(entry(&wired.node, "forward", 1, "out_of", &[1]));
    wired.write(&batch);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 7));
    wired
}

/// Returns a frame to a destination other than 1.
fn to(destination: u8, number: u32) -> Vec<u8> {
    let mut bytes = frame(number);
    bytes[5] = destination;
    bytes
}

fn next(trace: &mut LiveTrace<'_>) -> Box<TraceJson> {
    match trace.next(MINUTE) {
        NextPacket::Packet(traced) => traced,
        other => panic!("{other:?}"),
    }
}

fn hits(traced: &TraceJson) -> Vec<String> {
    let steps = &traced.explanation.as_ref().expect("an explanation").steps;
    let hit = |step: &interp::TraceStep| match &step.event {
        interp::TraceEvent::Table { table, hit: Some(hit), .. } => Some(format!("{table} {}", hit.entry)),
        _ => None,
    };
    steps.iter().filter_map(hit).collect()
}

/// Waits until `count` packets have returned.
fn come_back(end: &mut io::memory::MemoryPort, count: usize) {
    let deadline = Instant::now() + MINUTE;
    let mut came = 0;
    while came < count {
        match end.take() {
            Some(_) => came += 1,
            None => std::thread::yield_now(),
        }
        assert!(Instant::now() < deadline, "{came} of {count} packets came back");
    }
}

/// Returns a filter for packets with this value in byte 5, as libpcap compiles it.
fn destination(value: u8) -> PacketFilter {
    let dead = pcap::Capture::dead(pcap::Linktype::ETHERNET).expect("libpcap");
    let program = dead.compile(&format!("ether[5] == {value}"), true).expect("a filter");
    let one = |instruction: &pcap::BpfInstruction| {
        let numbers: Vec<u32> =
            instruction.to_string().split(' ').map(|word| word.parse().expect("a number")).collect();
        BpfInstruction { code: numbers[0] as u16, jt: numbers[1] as u8, jf: numbers[2] as u8, k: numbers[3] }
    };
    PacketFilter::new(&program.get_instructions().iter().map(one).collect::<Vec<_>>()).expect("libpcap's are good")
}

#[test]
fn packets_that_pass_are_shown_with_what_became_of_them_and_why() {
    let mut wired = started();
    let node = &wired.node;
    let mut all = node.trace(TraceFilter::default(), 4, MINUTE).expect("room");
    let filter = Some(destination(1));
    let mut filtered = node.trace(TraceFilter { filter, ..TraceFilter::default() }, 1, MINUTE).expect("room");
    let mut drops = node.trace(TraceFilter { drops: true, ..TraceFilter::default() }, 9, MINUTE).expect("room");
    let reason = Some("no_destination".to_owned());
    let mut others = node.trace(TraceFilter { reason, ..TraceFilter::default() }, 9, MINUTE).expect("room");
    let mut elsewhere = node.trace(TraceFilter { port: Some(2), ..TraceFilter::default() }, 9, MINUTE).expect("room");
    let before = io::now();
    for (destination, number) in [(2, 0), (1, 1), (3, 2), (1, 3)] {
        wired.ends[0].send_bytes(&to(destination, number)).expect("short");
    }
    for (number, destination) in [2, 1, 3, 1].into_iter().enumerate() {
        let traced = next(&mut all);
        let sent = to(destination, number as u32);
        assert_eq!((traced.number, traced.worker, traced.packet.port), (number as u64 + 1, 0, 1));
        assert_eq!(traced.packet.hex, hex(&sent));
        assert!((before..=io::now()).contains(&traced.packet.at_ns));
        assert_eq!((traced.mismatch.as_deref(), traced.omitted_verdicts), (None, 0));
        assert_eq!(traced.explanation.as_ref().map(|e| &e.verdicts), Some(&traced.verdicts));
        match (destination, &traced.verdicts[..]) {
            (1, [VerdictJson::Forward { port: 1, hex, origin: None }]) => {
                // The sent bytes, with both marks and the program's number.
                assert_eq!(unhex(hex).expect("digits")[18..23], [0, 7, 0, 7, 1]);
                let hits = hits(&traced);
                assert!(
                    hits.len() == 3 && hits[2].contains("forward") && hits[2].contains("00:00:00:00:00:01"),
                    "{hits:?}"
                );
            }
            (_, [VerdictJson::Drop { reason, origin: None }]) => assert_eq!(reason, "program_drop"),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(all.next(Duration::ZERO), NextPacket::Ended), "there are as many as were asked for");
    assert_eq!(next(&mut filtered).packet.hex, hex(&to(1, 1)));
    assert!(matches!(filtered.next(Duration::ZERO), NextPacket::Ended));
    let dropped = [next(&mut drops), next(&mut drops)].map(|traced| traced.packet.hex);
    assert_eq!(dropped, [hex(&to(2, 0)), hex(&to(3, 2))]);
    for trace in [&mut drops, &mut others, &mut elsewhere] {
        assert!(matches!(trace.next(Duration::ZERO), NextPacket::Waiting), "nothing else is to be shown");
        assert_eq!(trace.lost(), 0);
    }
}

#[test]
fn what_changed_in_between_is_said() {
    let mut wired = started();
    let node = &wired.node;
    let mut trace = node.trace(TraceFilter::default(), 10, MINUTE).expect("room");
    wired.ends[0].send_bytes(&frame(1)).expect("short");
    come_back(&mut wired.ends[0], 1);
    let batch = [StateUpdate::Entry(UpdateKind::Modify, entry(node, "forward", 1, "out_of", &[3]))];
    node.write(&[batch.into_iter().collect()]).expect("a pipeline runs")[0].clone().expect("a good batch");
    let traced = next(&mut trace);
    assert!(matches!(traced.verdicts[..], [VerdictJson::Forward { port: 1, .. }]), "{traced:?}");
    let explained = &traced.explanation.as_ref().expect("an explanation").verdicts[..];
    assert!(matches!(explained, [VerdictJson::Forward { port: 3, .. }]), "{explained:?}");
    let differs = traced.mismatch.expect("it differs");
    assert!(differs.contains("sent on port 1") && differs.contains("the explanation says sent on port 3"), "{differs}");

    wired.ends[0].send_bytes(&to(9, 2)).expect("short");
    let deadline = Instant::now() + MINUTE;
    while node.counts()[0].received.packets < 2 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
    node.commit(&crate::support::forwarding(node, &marks(&["PROGRAM=2"])), ReconcileMode::ValidObjects)
        .expect("a good config");
    let traced = next(&mut trace);
    assert_eq!(traced.explanation, None);
    assert!(traced.mismatch.expect("said").contains("program has been changed"));
    assert_eq!(traced.verdicts, [VerdictJson::Drop { reason: "program_drop".into(), origin: None }]);
}

/// An unread trace does not affect packets. Records that do not fit are counted.
#[test]
fn a_tracer_that_does_not_read_costs_no_packet_and_bounded_memory() {
    let mut wired = started();
    let end = &mut wired.ends[0];
    let mut trace = wired.node.trace(TraceFilter::default(), 100_000, MINUTE).expect("room");
    let count = 20_000;
    for first in (0..count).step_by(500) {
        for number in first..first + 500 {
            assert!(end.send_bytes(&frame(number)).expect("short"));
        }
        come_back(end, 500);
    }
    let lost = trace.lost();
    assert!(lost > u64::from(count) / 2, "{lost}");
    // The queue holds the first packets; the others are not kept.
    let mut kept = 0;
    while let NextPacket::Packet(traced) = trace.next(Duration::ZERO) {
        kept += 1;
        assert_eq!((traced.number, &traced.packet.hex), (kept, &hex(&frame(kept as u32 - 1))));
    }
    assert_eq!(kept + lost, u64::from(count));
    assert!(kept <= 2048, "{kept}");
    assert_eq!(wired.node.counts()[0].drops.len(), 0);
}

/// Returns all responses to a client that reads to the end.
fn trace_responses(node: &Node, of: &TraceRequest) -> Vec<TraceResponse> {
    let mut said = Vec::new();
    let say = |answer| {
        said.push(answer);
        Ok(())
    };
    node.serve_trace(of, || true, say).expect("it can be said");
    said
}

#[test]
fn traces_are_bounded_and_end() {
    let wired = started();
    let node = &wired.node;
    let wanted = TraceFilter::default;
    let mut traces: Vec<_> = (0..MAX_SESSIONS).map(|_| node.trace(wanted(), 1, MINUTE).expect("room")).collect();
    assert_eq!(node.trace(wanted(), 1, MINUTE).err(), Some(ExplainError::TooMany));
    traces.pop();
    let mut short = node.trace(wanted(), 1, Duration::from_millis(30)).expect("a place is free again");
    assert!(matches!(short.next(MINUTE), NextPacket::Ended), "the time is over");
    drop((short, traces));
    assert!(node.trace(wanted(), 1, MINUTE).is_ok());

    let refusal = |of: TraceRequest| {
        let mut said = trace_responses(node, &of);
        match said.pop() {
            Some(TraceResponse::Refused { message }) if said.is_empty() => message,
            other => panic!("{other:?}"),
        }
    };
    let of = TraceRequest { packets: 1, seconds: 1, ..TraceRequest::default() };
    assert!(refusal(TraceRequest { packets: 0, ..of.clone() }).contains("1 to 100000 packets"));
    assert!(refusal(TraceRequest { seconds: 100_000, ..of.clone() }).contains("1 to 3600 seconds"));
    assert!(refusal(TraceRequest { filter: Some(Vec::new()), ..of.clone() }).contains("1 to 4096 instructions"));
    let said = trace_responses(node, &of);
    assert!(
        matches!(&said[0], TraceResponse::Begun { ports } if ports.iter().any(|port| port.number == 1)),
        "{said:?}"
    );
    assert_eq!(said.last(), Some(&TraceResponse::Ended { shown: 0, lost: 0 }));
    // A client that disconnects.
    let mut asked = 0;
    let listens = || {
        asked += 1;
        false
    };
    let of = TraceRequest { seconds: 3600, ..of };
    node.serve_trace(&of, listens, |_| Ok(())).expect("it can be said");
    assert_eq!(asked, 1);
}

#[test]
fn a_packet_that_might_come_changes_nothing() {
    let wired = started();
    let node = &wired.node;
    let counts = |node: &Node| {
        let pipeline = node.running().expect("runs").pipeline;
        let (id, _) = pipeline.externs.iter().find(|(_, e)| e.preamble.name.ends_with("by_port")).expect("the counter");
        let state = node.state().expect("runs");
        let first = pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with("first")).expect("the table").0;
        let hits = state.entries(first).next().and_then(|entry| node.direct_counter(first, entry));
        (node.counter(id, 1), hits, state.version(), node.counts()[0].received.packets)
    };
    let before = counts(node);
    let told = node.explain(&frame(5), 1).expect("a program runs");
    let [VerdictJson::Forward { port: 1, hex, origin: None }] = &told.explanation.verdicts[..] else {
        panic!("{told:?}")
    };
    assert_eq!(unhex(hex).expect("digits")[18..23], [0, 7, 0, 7, 1]);
    assert_eq!(told.packet.hex, packet::hex(&frame(5)));
    let dropped = node.explain(&to(2, 0), 1).expect("a program runs").explanation.verdicts;
    assert_eq!(dropped, [VerdictJson::Drop { reason: "program_drop".into(), origin: None }]);
    assert_eq!(counts(node), before);
    let long = vec![0; packet::MAX_WIRE_LEN + 1];
    assert_eq!(node.explain(&long, 1), Err(ExplainError::TooLong(long.len())));
    // As encoded for clients, and decoded again.
    let text = serde_json::to_string(&told).expect("it has a form");
    assert_eq!(serde_json::from_str::<node::explain::HypotheticalTrace>(&text).expect("the same form"), told);

    let empty = Wired::start(1, None);
    assert_eq!(empty.node.explain(&frame(0), 1), Err(ExplainError::NoProgram));
}

const COPIES: &str = r"
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> b; bit<8> seen; }
struct headers_t { byte_t h; }
struct meta_t { }
parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers_t hdr, inout meta_t m) { apply { } }
control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) {
    register<bit<8>>(4) kept;
    apply {
        kept.read(hdr.h.seen, 0);
        kept.write(0, hdr.h.b);
        if (hdr.h.b == 0) { mark_to_drop(s); } else { s.mcast_grp = 1; }
    }
}
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
";

/// Each packet of a batch has its own copies. An explanation reads the current registers and does
/// not change them.
#[test]
fn copies_belong_to_their_packet_and_registers_are_those_of_the_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("copies.p4");
    std::fs::write(&file, COPIES).expect("the folder can be written");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root.join("../../programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options);
    let config = ir::text::print(&compiled.pipeline.expect("it compiles"));
    let (inner, mut outer) = io::memory::pair("inner", "outer", 1 << 10).expect("a pair of ports");
    let seats =
        vec![WorkerSpec { core: None, ports: vec![io::AttachedPort { id: packet::PortId(1), port: Box::new(inner) }] }];
    let settings = interp::Config { cpu_port: Some(CPU), ..interp::Config::default() };
    let parts = NodeParts {
        device_id: 1,
        seats,
        idle: IdlePolicy::default(),
        settings,
        engine: native(),
        store: None,
        translations: Default::default(),
        wings: terraced::wings(),
    };
    let node = Node::start(parts).expect("a node");
    node.commit(&crate::support::forwarding(&node, &config), ReconcileMode::Nothing).expect("a good config");
    let replica = |instance| entries::Replica { port: 1, instance };
    let group = entries::MulticastGroup { id: 1, replicas: vec![replica(4), replica(5)] };
    node.write(&[[StateUpdate::Multicast(UpdateKind::Insert, group)].into_iter().collect()]).expect("runs")[0]
        .clone()
        .expect("a good batch");
    let sent: Vec<u8> = (0..20).flat_map(|round| [5 * round + 1, 0, 5 * round + 2, 0, 5 * round + 3]).collect();
    let bytes = |number: u8, seen: u8| [&[number, seen][..], &[number; 58]].concat();
    let mut trace = node.trace(TraceFilter::default(), sent.len() as u64, MINUTE).expect("room");
    for number in &sent {
        assert!(outer.send_bytes(&bytes(*number, 0xff)).expect("short"));
    }
    let mut former = 0;
    for number in sent {
        let traced = next(&mut trace);
        assert_eq!(traced.packet.hex, hex(&bytes(number, 0xff)));
        if number == 0 {
            assert!(matches!(traced.verdicts[..], [VerdictJson::Drop { .. }]), "{traced:?}");
        } else {
            let wanted = [4, 5].map(|instance| VerdictJson::Forward {
                port: 1,
                hex: hex(&bytes(number, former)),
                origin: Some(format!("replica {instance} of multicast group 1")),
            });
            assert_eq!(traced.verdicts, wanted);
        }
        former = number;
    }
    for _ in 0..2 {
        let told = node.explain(&bytes(9, 0), 1).expect("runs").explanation.verdicts;
        assert_eq!(told[0].hex(), Some(hex(&bytes(9, former)).as_str()), "the register is as the last packet left it");
    }
}

/// The explanation of a packet names the tiers that it passes, for hypothetical and for received
/// packets.
#[test]
fn an_explanation_goes_through_the_tiers() {
    let mut wired = Wired::on(tiers(&[("forward", 8)], &[]), 1, None);
    wired.commit(&marks(&[]), ReconcileMode::Nothing);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
    let mut batch = WriteBatch::new();
    batch.insert(entry(&wired.node, "forward", 1, "out_of", &[1]));
    wired.write(&batch);
    let told = |node: &Node| {
        let HypotheticalTrace { explanation, .. } = node.explain(&frame(7), 1).expect("runs");
        let out = explanation.verdicts.iter().any(|end| matches!(end, VerdictJson::Forward { port: 1, .. }));
        assert!(out, "{explanation:?}");
        explanation.steps.iter().map(|step| step.event.to_string()).collect::<Vec<_>>().join("\n")
    };
    let has = |text: &str, words: &[&str]| words.iter().all(|word| text.contains(word));
    let down = [
        "tier switch: down at cut point 0, the switch has 8 entries of",
        "tiers dpu and cpu",
        "back in a bridge header",
    ];
    let text = told(&wired.node);
    assert!(has(&text, &down), "{text}");

    // Received packets have the same explanation, until their entries are hot.
    let mut trace = wired.node.trace(TraceFilter::default(), 1, MINUTE).expect("room");
    for number in 0..60 {
        assert!(wired.ends[0].send_bytes(&frame(number)).expect("short"));
    }
    let traced = next(&mut trace);
    assert_eq!(traced.mismatch, None, "{traced:?}");
    let steps = traced.explanation.expect("it is explained").steps;
    assert!(steps.iter().any(|step| step.event.to_string().starts_with(down[0])), "{steps:?}");
    drop(trace);
    let began = Instant::now();
    while has(&told(&wired.node), &down) {
        assert!(began.elapsed() < MINUTE, "the entry does not become hot");
        wired.node.tick();
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = told(&wired.node);
    assert!(text.contains("tier switch") && !text.contains("bridge header"), "{text}");
}
