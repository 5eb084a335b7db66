//! Follows packets through a switch and two tiers below it, in three processes. The packet's mark
//! joins the events of all processes, and hypothetical packets are passed to each in turn. Also
//! tests the hot entries of a switch without a tier in its process, chosen by hits below.

use crate::tiers::{FLOWS, KEY, PATIENCE, Process, Traffic, frame};
use node::admin::cross_node::{NodeTracePart, explain, follow};
use node::admin::{ControlRequest, ControlResponse, ResponseStream, ask};
use node::config::TierLink;
use node::explain::trace_json::{TraceJson, VerdictJson};
use node::explain::{TraceRequest, TraceResponse, TraceSourceJson};
use offload::partition::bridge_wire;
use packet::{Packet, hex, unhex};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Traces packets under traffic.
fn traced(traffic: &mut Traffic, socket: &Path, count: u64, each: &mut dyn FnMut(TraceJson)) {
    let of = TraceRequest { follow: true, port: Some(1), packets: count, seconds: 60, ..TraceRequest::default() };
    let mut answers = ResponseStream::begin(socket, &ControlRequest::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        ControlResponse::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceResponse::Begun { .. }));
    traffic.run(Duration::from_millis(50), &|_| {});
    loop {
        match next() {
            TraceResponse::Packet(traced) => each(*traced),
            TraceResponse::Waiting { .. } => traffic.run(Duration::from_millis(50), &|_| {}),
            TraceResponse::Ended { .. } => return,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the bytes that were sent from there.
fn sent(verdicts: &[VerdictJson]) -> &str {
    let [one] = verdicts else { panic!("{verdicts:?}") };
    one.hex().expect("it was sent")
}

/// Checks a packet's path: down, through the lower half, and back.
fn check(traced: &TraceJson, parts: &[NodeTracePart]) {
    let came: Vec<TraceSourceJson> = parts.iter().map(|heard| heard.part.source).collect();
    assert_eq!(came, [TraceSourceJson::Front, TraceSourceJson::Above, TraceSourceJson::Below], "{parts:?}");
    assert!(traced.mismatch.is_none(), "{:?}", traced.mismatch);
    assert!(
        parts.iter().all(|heard| heard.part.mismatch.is_none() && heard.part.trace_id == traced.trace_id),
        "{parts:#?}"
    );
    let [front, below, back] = parts else { panic!("{parts:?}") };
    let down = unhex(sent(&traced.verdicts)).expect("hex digits");
    assert_eq!(bridge_wire::read_header(&down, KEY).map(|told| (told.trace_id, told.port)), Some((traced.trace_id, 1)));
    assert_eq!(below.part.packet.hex, sent(&traced.verdicts));
    assert_eq!(back.part.packet.hex, sent(&below.part.verdicts));
    // It leaves unchanged except for the program's number.
    let came = unhex(&traced.packet.hex).expect("hex digits");
    let left = unhex(sent(&back.part.verdicts)).expect("hex digits");
    assert_eq!((&left[..18], left[22]), (&came[..18], 1));
    let told = below.part.tiers[0].engine_note.as_ref().expect("a flow cache says what it did");
    assert!(told.contains("flow cache"), "{told}");
    let tiers: Vec<(&str, &str)> =
        parts.iter().flat_map(|heard| &heard.part.tiers).map(|tier| (&*tier.tier, &*tier.engine)).collect();
    assert_eq!(tiers, [("switch", "jit"), ("dpu, cpu", "flowcache"), ("switch", "jit")]);
    // Times increase along its path; all are of one clock.
    let mut times = vec![traced.packet.at_ns];
    for heard in parts {
        assert_eq!(heard.machine, front.machine);
        times.push(heard.part.packet.at_ns);
        times.extend(heard.part.tiers.iter().flat_map(|tier| [tier.began_ns, tier.done_ns]));
    }
    assert!(times.is_sorted(), "{times:?}");
    assert!(below.on_the_way_ns.is_some_and(|way| way > 0) && back.on_the_way_ns.is_some_and(|way| way > 0));
}

#[test]
fn a_packet_is_followed_through_three_processes() {
    let sockets = tempfile::tempdir().expect("a folder");
    let memif = |name: &str, role: &str| format!("memif:socket={},role={role}", sockets.path().join(name).display());
    let absent = "absent = [\"second\"]";
    let switch = Process::new(
        &format!("local = [\"switch\"]\nswitch_engine = \"jit\"\n{absent}"),
        &[
            (1, memif("front", "server"), ""),
            (301, memif("one", "server"), "lower"),
            (302, memif("two", "server"), "lower"),
        ],
    );
    let below = [Process::below(absent, memif("one", "client")), Process::below(absent, memif("two", "client"))];
    let mut traffic = Traffic::new(&memif("front", "client"));
    traffic.run(Duration::from_millis(1_000), &|_| {});
    let front = switch.socket();
    let others: Vec<PathBuf> = below.iter().map(Process::socket).collect();
    let (mut nodes, mut marks, mut told) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    traced(&mut traffic, &front, FLOWS, &mut |traced| {
        let story = follow(&front, &others, &traced, PATIENCE).expect("all listen");
        assert!(traced.trace_id != 0 && story.missing.is_empty(), "{story:?}");
        check(&traced, &story.parts);
        nodes.insert(story.parts[1].node.clone());
        marks.insert(traced.trace_id);
        told.extend(story.parts[1].part.tiers[0].engine_note.clone());
    });
    assert_eq!(nodes.len(), 2, "both have flows");
    assert_eq!(marks.len() as u64, FLOWS);
    assert!(told.iter().any(|told| told.contains("offloaded: the flow cache handled its whole path")), "{told:?}");

    // None of the named nodes has seen it.
    let mut lone = None;
    traced(&mut traffic, &front, 1, &mut |traced| lone = Some(traced));
    let lone = lone.expect("a packet");
    let story = follow(&front, &[], &lone, Duration::ZERO).expect("it listens");
    assert_eq!((story.parts.len(), story.missing.len()), (1, 1));

    dropped_below(&mut traffic, &front, &others);
    what_if(&front, &others);
    forged(&mut traffic, &front, &others);
}

/// A trace of dropped packets includes those that a lower tier dropped. The switch reports all
/// packets that it sent down, and following them shows which were dropped.
fn dropped_below(traffic: &mut Traffic, front: &Path, others: &[PathBuf]) {
    let of = TraceRequest { follow: true, drops: true, packets: 10_000, seconds: 60, ..TraceRequest::default() };
    let mut answers = ResponseStream::begin(front, &ControlRequest::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        ControlResponse::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceResponse::Begun { .. }));
    // Destination 7 has no entry, which the lower half detects.
    let mut lost = frame(3, 1);
    lost[5] = 7;
    let lost = [Packet::from_bytes(&lost).expect("short")];
    traffic.run(Duration::from_millis(60), &|end| _ = io::Port::send_all(end, &mut lost.iter()));
    let (mut dropped, mut others_of) = (0, 0);
    while dropped < 3 || others_of < 3 {
        match next() {
            TraceResponse::Packet(traced) => {
                let story = follow(front, others, &traced, PATIENCE).expect("all listen");
                let of_lost = unhex(&traced.packet.hex).expect("hex digits")[5] == 7;
                assert_eq!(story.drops(&traced, None), of_lost, "{traced:?}\n{story:?}");
                assert!(!story.drops(&traced, Some("of_another_kind")));
                if of_lost {
                    let Some(VerdictJson::Drop { reason, .. }) =
                        story.parts.last().and_then(|last| last.part.verdicts.first())
                    else {
                        panic!("{story:?}")
                    };
                    assert!(story.drops(&traced, Some(reason)) && story.parts.len() == 2, "{story:?}");
                }
                *if of_lost { &mut dropped } else { &mut others_of } += 1;
            }
            TraceResponse::Waiting { .. } => {
                traffic.run(Duration::from_millis(60), &|end| _ = io::Port::send_all(end, &mut lost.iter()));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A hypothetical packet is explained through all processes, without any effect.
fn what_if(front: &Path, others: &[PathBuf]) {
    let nodes: Vec<PathBuf> = std::iter::once(front.to_owned()).chain(others.iter().cloned()).collect();
    let all = explain(&nodes, &frame(3, 9), 1, true).expect("they listen");
    let from: Vec<Option<TierLink>> = all.iter().map(|asked| asked.from).collect();
    assert_eq!(from, [None, Some(TierLink::Upper), Some(TierLink::Lower)]);
    let [VerdictJson::Forward { port: 1, hex: left, origin: None }] = &all[2].told.explanation.verdicts[..] else {
        panic!("{:?}", all[2])
    };
    let left = unhex(left).expect("hex digits");
    assert_eq!((left[11], left[22]), (3, 1));
    let offload: Vec<bool> = all.iter().map(|asked| asked.told.offload.is_some()).collect();
    assert_eq!(offload, [false, true, false]);
    let text = &all[1].told.offload.as_ref().expect("it was asked").text;
    assert!(text.starts_with("offloaded: the whole path is cached"), "{text}");
    let backwards: Vec<PathBuf> = nodes.into_iter().rev().collect();
    let refused = explain(&backwards, &frame(3, 9), 1, false).map(|all| all.len());
    assert!(refused.as_ref().is_ok_and(|parts| *parts == 1), "it is no switch, and no packet goes on: {refused:?}");
    let of = TraceRequest { follow: true, packets: 1, seconds: 1, ..TraceRequest::default() };
    let answer = ask(&others[0], &ControlRequest::Trace(of)).expect_err("no front ports").to_string();
    assert!(answer.contains("no switch"), "{answer}");
}

/// Frames of a front port that knows the key are not recorded by any process, whatever mark they
/// have.
fn forged(traffic: &mut Traffic, front: &Path, others: &[PathBuf]) {
    let mut bytes = vec![0; 120];
    bytes[12..14].copy_from_slice(&offload::partition::ETHERTYPE.to_be_bytes());
    bytes[14..18].copy_from_slice(&KEY.to_be_bytes());
    bytes[25..27].copy_from_slice(&0x1234u16.to_be_bytes());
    let frames: Vec<Packet> = [0, offload::partition::RETURNED, offload::partition::HITS]
        .map(|stop| {
            bytes[18] = stop;
            Packet::from_bytes(&bytes).expect("short")
        })
        .into();
    traffic.run(Duration::from_millis(100), &|end| _ = io::Port::send_all(end, &mut frames.iter()));
    for node in others.iter().map(PathBuf::as_path).chain([front]) {
        match ask(node, &ControlRequest::TraceRecords { trace_id: 0x1234 }).expect("it listens") {
            ControlResponse::TraceRecords { parts, machine } => {
                assert!(parts.is_empty() && !machine.is_empty(), "{parts:?}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!hex(frames[0].bytes()).is_empty());
}

/// A switch without a tier in its process holds the entries that are hit most below. When all tiers
/// below are gone, packets of these entries are unaffected.
#[test]
fn a_switch_alone_has_the_entries_that_are_hit_below() {
    let sockets = tempfile::tempdir().expect("a folder");
    let memif = |name: &str, role: &str| format!("memif:socket={},role={role}", sockets.path().join(name).display());
    let hot = "hot = { forward = 1 }\nhot_interval_ms = 100";
    let switch = Process::new(
        &format!("local = [\"switch\"]\nswitch_engine = \"jit\"\n{hot}"),
        &[(1, memif("front", "server"), ""), (301, memif("one", "server"), "lower")],
    );
    let below = Process::below(hot, memif("one", "client"));
    let mut traffic = Traffic::new(&memif("front", "client"));
    let mut few = frame(FLOWS, 1);
    few[5] = 2;
    let few = [Packet::from_bytes(&few).expect("short")];
    let began = Instant::now();
    loop {
        // Destination 2 is also hit, but less.
        traffic.run(Duration::from_millis(300), &|end| _ = io::Port::send_all(end, &mut few.iter()));
        let notes = program_notes(&switch);
        if notes.iter().any(|note| note.contains("1 of 1 hot entries")) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{notes:#?}");
    }
    // In the pause between two runs, an old report makes destination 2 the one with most hits. So
    // that the selection stays in what follows, reports without it come first.
    traffic.run(Duration::from_millis(1_000), &|_| {});
    traffic.settle();
    // The tier below is killed meanwhile.
    let (below, began) = (RefCell::new(Some(below)), Instant::now());
    traffic.run(Duration::from_millis(2_500), &|_| {
        if began.elapsed() > Duration::from_millis(1_000) {
            below.take().into_iter().for_each(|mut below| below.kill());
        }
    });
    assert!(below.borrow().is_none());
    traffic.settle().expect_all_in_order(&format!("its frames need no tier below: {:#?}", program_notes(&switch)));
}

/// Returns the notes on a process's program: tiers, hot entries, links.
fn program_notes(process: &Process) -> Vec<String> {
    let ControlResponse::Version(version) = ask(&process.socket(), &ControlRequest::Version).expect("it listens")
    else {
        panic!("another answer")
    };
    version.program.expect("it runs").notes
}
