//! Compares the gateway program on native code with the interpreter: verdicts, bytes and counters,
//! on random regions and packets in batches of random sizes.

use fastrand::Rng;
use interp::{Config, Interp};
use io::guard_pages::{self, GuardSide};
use packet::{Batch, BatchOutput, Engine, PortId};
use region::IdAssignments;
use std::sync::Arc;
use testkit::differ::env_number;
use testkit::{gateway, generate};

/// Runs a batch on an engine, and formats its outputs. With an edge, each packet lies between
/// inaccessible pages, so that an access beyond it ends the test.
fn run(engine: &mut dyn Engine, packets: &[Vec<u8>], edge: Option<GuardSide>) -> Vec<String> {
    let mut batch = Batch::new();
    for packet in packets {
        let slot = batch.push().expect("a batch has room");
        slot.ingress_port = PortId(1);
        match edge {
            Some(edge) => guard_pages::fill_guarded(slot, packet, edge).expect("there is memory"),
            None => slot.set_bytes(packet).expect("a packet is short enough"),
        }
    }
    let mut out = BatchOutput::new();
    engine.process(&mut batch, &mut out);
    let names = engine.reasons().clone();
    let describe = |(emission, packet): (packet::PacketVerdict, &packet::Packet)| match emission.verdict {
        packet::Verdict::Drop(reason) => format!("{:?} dropped: {}", emission.packet, names.drop_name(reason)),
        verdict => format!("{:?} {verdict:?} {:02x?}", emission.packet, packet.bytes()),
    };
    out.iter(&batch).map(describe).collect()
}

#[test]
fn native_code_does_what_the_interpreter_does() {
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    let rounds = env_number("ROUNDS", 20);
    println!("SEED={seed} ROUNDS={rounds}");
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let mut rng = Rng::with_seed(seed);
    let (seen, _) = generate::compare_in_rounds(rounds, |round, seen| compare(&pipeline, &mut rng, round, seen));
    let total: usize = seen.values().sum();
    assert!(total as u64 >= rounds * 500, "only {total} packets were compared");
    assert!(seen.get("sent").copied().unwrap_or_default() > total / 10, "too few packets were forwarded: {seen:?}");
    assert!(seen.len() >= 20, "only these outcomes were compared: {seen:?}");
}

/// Optional steps, each with its tables, once had a copy in the stage of each lookup before them, and one
/// more for the hot path: 3.9 MB, which made packets without these steps slower by a third.
#[test]
fn code_of_optional_steps_exists_once() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let native = testkit::native::engine(&pipeline).expect("native code is made");
    assert!(native.join_stage_count() > 0);
    let lookups = native.hot_path_lookup_count();
    assert!((10..=24).contains(&lookups), "{lookups} lookups have clones for the hot path");
    assert!(native.code_bytes() < 1_200_000, "{} bytes of native code", native.code_bytes());
}

fn compare(pipeline: &Arc<ir::Pipeline>, rng: &mut Rng, round: u64, seen: &mut generate::OutcomeCounts) {
    let text = generate::random_region(rng);
    let region = region::parse("made.yaml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut numbers = IdAssignments::default();
    let entries = region::entries(&region, "region.yaml", pipeline, &mut numbers).expect("the region has entries");
    let batch = region::diff(region::GatewayEntries::default(), entries);
    let mut oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter loads it");
    let mut native = testkit::native::engine(pipeline).expect("native code is made");
    assert_eq!(native.fallback_reason(), None, "nothing of the gateway is handed to the interpreter");
    assert!(native.paired_lookup_count() >= 2, "lists of rules are looked up together with routes and VMs");
    oracle.write(&batch).expect("entries are taken");
    native.write(&batch).expect("entries are taken");
    let mut left = 500;
    while left > 0 {
        let count = rng.usize(1..=left.min(packet::MAX_BATCH));
        left -= count;
        let mut packets: Vec<Vec<u8>> = (0..count).map(|_| generate::random_packet(rng, &region, 1)).collect();
        for packet in &mut packets {
            if rng.u8(..) >= 16 {
                continue;
            }
            // Any length, up to that of a jumbo frame.
            packet.resize(rng.usize(..=9216), 0x5a);
        }
        let edge = rng.choice([None, Some(GuardSide::Front), Some(GuardSide::Back)]).flatten();
        let expected = run(&mut oracle, &packets, None);
        let found = run(&mut native, &packets, edge);
        for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
            if expected != found {
                let (_, trace) = oracle.trace(&packets[index], 1, 0);
                panic!("round {round}\nexpected {expected}\nfound    {found}\npacket {:02x?}\n{trace}", packets[index]);
            }
            let kind = expected.split("dropped: ").nth(1).unwrap_or(match expected.contains("ToCpu") {
                true => "cpu",
                false => "sent",
            });
            *seen.entry(kind.to_owned()).or_default() += 1;
        }
        assert_eq!(expected.len(), found.len());
    }
    let [came, left] = native.vector_packet_counts();
    // Code for eight packets has the path of frames over IPv4 that come and leave without a tag.
    let is_tagged = region.file.uplinks.iter().any(|uplink| uplink.vlan.is_some());
    let has_v4 = region.file.servers.iter().any(|server| server.address.value.is_ipv4());
    let has_path = jit::supports_vector_path() && !is_tagged && has_v4;
    assert!(came > left || !has_path, "{left} of {came} packets were left to code for one\n{text}");
    for (id, object) in pipeline.externs.iter() {
        if let ir::ExternKind::Counter { size, .. } = object.kind {
            for index in 0..size.min(300) {
                assert_eq!(native.counter(id, index), oracle.counter(id, index), "{} {index}", object.preamble.name);
            }
        }
    }
}
