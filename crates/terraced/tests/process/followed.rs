//! One packet through a switch and two tiers below it, in three processes: what each did is joined by the packet's mark, and what might become of a packet is asked of
//! each in turn. And hot entries of a switch that is alone, chosen by what is hit below.

use crate::tiers::{FLOWS, KEY, PATIENCE, Process, Traffic, frame};
use node::admin::elsewhere::{Heard, explain, follow};
use node::admin::{Answer, Asking, Request, ask};
use node::config::Leads;
use node::explain::answer::{Traced, Verdicted};
use node::explain::{CameFrom, TraceAnswer, TraceOf};
use offload::cut::wire;
use packet::{Packet, hex, unhex};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Packets that are followed, while traffic runs.
fn traced(traffic: &mut Traffic, socket: &Path, count: u64, each: &mut dyn FnMut(Traced)) {
    let of = TraceOf { follow: true, port: Some(1), packets: count, seconds: 60, ..TraceOf::default() };
    let mut answers = Asking::begin(socket, &Request::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        Answer::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceAnswer::Begun { .. }));
    traffic.run(Duration::from_millis(50), &|_| {});
    loop {
        match next() {
            TraceAnswer::Packet(traced) => each(*traced),
            TraceAnswer::Waiting { .. } => traffic.run(Duration::from_millis(50), &|_| {}),
            TraceAnswer::Ended { .. } => return,
            other => panic!("{other:?}"),
        }
    }
}

/// The bytes that went on from there.
fn sent(became: &[Verdicted]) -> &str {
    let [one] = became else { panic!("{became:?}") };
    one.hex().expect("it was sent")
}

/// Checks a packet's way: down, through the lower half, and back.
fn check(traced: &Traced, parts: &[Heard]) {
    let came: Vec<CameFrom> = parts.iter().map(|heard| heard.part.came).collect();
    assert_eq!(came, [CameFrom::Front, CameFrom::Above, CameFrom::Below], "{parts:?}");
    assert!(traced.differs.is_none(), "{:?}", traced.differs);
    assert!(parts.iter().all(|heard| heard.part.differs.is_none() && heard.part.mark == traced.mark), "{parts:#?}");
    let [front, below, back] = parts else { panic!("{parts:?}") };
    let down = unhex(sent(&traced.became)).expect("hex digits");
    assert_eq!(wire::read(&down, KEY).map(|told| (told.mark, told.port)), Some((traced.mark, 1)));
    assert_eq!(below.part.packet.hex, sent(&traced.became));
    assert_eq!(back.part.packet.hex, sent(&below.part.became));
    // It leaves as it came, but for the program's number.
    let came = unhex(&traced.packet.hex).expect("hex digits");
    let left = unhex(sent(&back.part.became)).expect("hex digits");
    assert_eq!((&left[..18], left[22]), (&came[..18], 1));
    let told = below.part.tiers[0].told.as_ref().expect("a flow cache says what it did");
    assert!(told.contains("flow cache"), "{told}");
    let tiers: Vec<(&str, &str)> =
        parts.iter().flat_map(|heard| &heard.part.tiers).map(|tier| (&*tier.tier, &*tier.engine)).collect();
    assert_eq!(tiers, [("switch", "jit"), ("dpu, cpu", "flowcache"), ("switch", "jit")]);
    // Time goes on, along its way; all by one clock.
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
        &format!("here = [\"switch\"]\nswitch = \"jit\"\n{absent}"),
        &[
            (1, memif("front", "server"), ""),
            (301, memif("one", "server"), "down"),
            (302, memif("two", "server"), "down"),
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
        assert!(traced.mark != 0 && story.missing.is_empty(), "{story:?}");
        check(&traced, &story.parts);
        nodes.insert(story.parts[1].node.clone());
        marks.insert(traced.mark);
        told.extend(story.parts[1].part.tiers[0].told.clone());
    });
    assert_eq!(nodes.len(), 2, "both have flows");
    assert_eq!(marks.len() as u64, FLOWS);
    assert!(told.iter().any(|told| told.contains("offloaded: the flow cache had all of its way")), "{told:?}");

    // Of those that were named nobody has seen it.
    let mut lone = None;
    traced(&mut traffic, &front, 1, &mut |traced| lone = Some(traced));
    let lone = lone.expect("a packet");
    let story = follow(&front, &[], &lone, Duration::ZERO).expect("it listens");
    assert_eq!((story.parts.len(), story.missing.len()), (1, 1));

    dropped_below(&mut traffic, &front, &others);
    what_if(&front, &others);
    forged(&mut traffic, &front, &others);
}

/// Who asks for dropped packets also gets those that a tier below has dropped: the switch tells of all that it sent down, and following them says which.
fn dropped_below(traffic: &mut Traffic, front: &Path, others: &[PathBuf]) {
    let of = TraceOf { follow: true, drops: true, packets: 10_000, seconds: 60, ..TraceOf::default() };
    let mut answers = Asking::begin(front, &Request::Trace(of)).expect("it listens");
    let mut next = || match answers.answer().expect("an answer") {
        Answer::Trace(answer) => answer,
        other => panic!("{other:?}"),
    };
    assert!(matches!(next(), TraceAnswer::Begun { .. }));
    // For destination 7 there is no entry, which the lower half finds out.
    let mut lost = frame(3, 1);
    lost[5] = 7;
    let lost = [Packet::from_bytes(&lost).expect("short")];
    traffic.run(Duration::from_millis(60), &|end| _ = io::Port::send_all(end, &mut lost.iter()));
    let (mut dropped, mut others_of) = (0, 0);
    while dropped < 3 || others_of < 3 {
        match next() {
            TraceAnswer::Packet(traced) => {
                let story = follow(front, others, &traced, PATIENCE).expect("all listen");
                let of_lost = unhex(&traced.packet.hex).expect("hex digits")[5] == 7;
                assert_eq!(story.drops(&traced, None), of_lost, "{traced:?}\n{story:?}");
                assert!(!story.drops(&traced, Some("of_another_kind")));
                if of_lost {
                    let Some(Verdicted::Drop { reason, .. }) =
                        story.parts.last().and_then(|last| last.part.became.first())
                    else {
                        panic!("{story:?}")
                    };
                    assert!(story.drops(&traced, Some(reason)) && story.parts.len() == 2, "{story:?}");
                }
                *if of_lost { &mut dropped } else { &mut others_of } += 1;
            }
            TraceAnswer::Waiting { .. } => {
                traffic.run(Duration::from_millis(60), &|end| _ = io::Port::send_all(end, &mut lost.iter()));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// What might become of a packet is told through all processes, and nothing of it happens.
fn what_if(front: &Path, others: &[PathBuf]) {
    let nodes: Vec<PathBuf> = std::iter::once(front.to_owned()).chain(others.iter().cloned()).collect();
    let all = explain(&nodes, &frame(3, 9), 1, true).expect("they listen");
    let from: Vec<Option<Leads>> = all.iter().map(|asked| asked.from).collect();
    assert_eq!(from, [None, Some(Leads::Up), Some(Leads::Down)]);
    let [Verdicted::Forward { port: 1, hex: left, copy: None }] = &all[2].told.explanation.verdicts[..] else {
        panic!("{:?}", all[2])
    };
    let left = unhex(left).expect("hex digits");
    assert_eq!((left[11], left[22]), (3, 1));
    let offload: Vec<bool> = all.iter().map(|asked| asked.told.offload.is_some()).collect();
    assert_eq!(offload, [false, true, false]);
    let text = &all[1].told.offload.as_ref().expect("it was asked").text;
    assert!(text.starts_with("offloaded: the whole way is kept"), "{text}");
    let backwards: Vec<PathBuf> = nodes.into_iter().rev().collect();
    let refused = explain(&backwards, &frame(3, 9), 1, false).map(|all| all.len());
    assert!(refused.as_ref().is_ok_and(|parts| *parts == 1), "it is no switch, and no packet goes on: {refused:?}");
    let of = TraceOf { follow: true, packets: 1, seconds: 1, ..TraceOf::default() };
    let answer = ask(&others[0], &Request::Trace(of)).expect_err("no front ports").to_string();
    assert!(answer.contains("no switch"), "{answer}");
}

/// Who is at a front port and knows the key is not recorded by any process, whatever mark a frame has.
fn forged(traffic: &mut Traffic, front: &Path, others: &[PathBuf]) {
    let mut bytes = vec![0; 120];
    bytes[12..14].copy_from_slice(&offload::cut::ETHERTYPE.to_be_bytes());
    bytes[14..18].copy_from_slice(&KEY.to_be_bytes());
    bytes[25..27].copy_from_slice(&0x1234u16.to_be_bytes());
    let frames: Vec<Packet> = [0, offload::cut::BACK, offload::cut::HITS]
        .map(|stop| {
            bytes[18] = stop;
            Packet::from_bytes(&bytes).expect("short")
        })
        .into();
    traffic.run(Duration::from_millis(100), &|end| _ = io::Port::send_all(end, &mut frames.iter()));
    for node in others.iter().map(PathBuf::as_path).chain([front]) {
        match ask(node, &Request::Followed { mark: 0x1234 }).expect("it listens") {
            Answer::Followed { parts, machine } => assert!(parts.is_empty() && !machine.is_empty(), "{parts:?}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(!hex(frames[0].bytes()).is_empty());
}

/// A switch with no tier below in its process holds what is hit most there: when all below are gone, those packets do not notice.
#[test]
fn a_switch_alone_has_the_entries_that_are_hit_below() {
    let sockets = tempfile::tempdir().expect("a folder");
    let memif = |name: &str, role: &str| format!("memif:socket={},role={role}", sockets.path().join(name).display());
    let hot = "hot = { forward = 1 }\nchoose_ms = 100";
    let switch = Process::new(
        &format!("here = [\"switch\"]\nswitch = \"jit\"\n{hot}"),
        &[(1, memif("front", "server"), ""), (301, memif("one", "server"), "down")],
    );
    let below = Process::below(hot, memif("one", "client"));
    let mut traffic = Traffic::new(&memif("front", "client"));
    let mut few = frame(FLOWS, 1);
    few[5] = 2;
    let few = [Packet::from_bytes(&few).expect("short")];
    let began = Instant::now();
    let notes = loop {
        // Destination 2 is hit, too, but less.
        traffic.run(Duration::from_millis(300), &|end| _ = io::Port::send_all(end, &mut few.iter()));
        let Answer::Version(version) = ask(&switch.socket(), &Request::Version).expect("it listens") else { panic!() };
        let notes = version.program.expect("it runs").notes;
        if notes.iter().any(|note| note.contains("1 of 1 hot entries")) {
            break notes;
        }
        assert!(began.elapsed() < PATIENCE, "{notes:#?}");
    };
    traffic.settle();
    // The tier below is killed in the midst.
    let (below, began) = (RefCell::new(Some(below)), Instant::now());
    traffic.run(Duration::from_millis(2_500), &|_| {
        if began.elapsed() > Duration::from_millis(1_000) {
            below.take().into_iter().for_each(|mut below| below.kill());
        }
    });
    assert!(below.borrow().is_none());
    assert_eq!(traffic.settle().0, 0, "its frames need nobody below: {notes:#?}");
}
