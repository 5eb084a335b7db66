//! Tests that tables and the program itself change under traffic: no packet is lost, and none sees
//! half of a change.

use crate::support::{CPU, Wired, entry, frame, mark, marks, read};
use entries::{UpdateKind, WriteBatch};
use p4runtime::{Device, DeviceEvent, ReconcileMode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Returned frames of one wire.
#[derive(Debug, Default)]
struct Seen {
    packets: u32,
    halves: u32,
    programs: [u32; 3],
    marks: std::collections::BTreeSet<u16>,
}

/// Sends numbered frames, with at most a thousand in flight, until stopped, and checks each
/// returned frame. Sets `enough` when enough frames have returned for a meaningful result.
fn drive(end: &mut io::memory::MemoryPort, stop: &AtomicBool, enough: &AtomicBool) -> Seen {
    let (mut sent, mut seen) = (0u32, Seen::default());
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) || seen.packets < sent {
        while !stop.load(Ordering::Relaxed) && sent - seen.packets < 1000 {
            assert!(end.send_bytes(&frame(sent)).expect("short"), "there is room for all that is under way");
            sent += 1;
        }
        while let Some(packet) = end.take() {
            let (number, first, second, program) = read(packet.bytes());
            assert_eq!(number, seen.packets, "packets come back in their order, and all of them");
            seen.packets += 1;
            seen.halves += u32::from(first != second);
            seen.programs[usize::from(program)] += 1;
            seen.marks.insert(first);
            last = Instant::now();
        }
        let all = seen.packets > 20_000 && seen.marks.len() > 200 && seen.programs[1..].iter().all(|some| *some > 0);
        enough.fetch_or(all, Ordering::Relaxed);
        assert!(last.elapsed() < Duration::from_secs(10), "{} of {sent} packets came back", seen.packets);
    }
    seen
}

fn forward(wired: &Wired) {
    let mut batch = WriteBatch::new();
    batch.insert(entry(&wired.node, "forward", 1, "out_of", &[1]));
    wired.write(&batch);
}

#[test]
fn programs_and_tables_change_under_traffic_without_loss_and_without_halves() {
    let mut wired = Wired::start(2, None);
    let configs = [marks(&["PROGRAM=1"]), marks(&["PROGRAM=2"])];
    wired.commit(&configs[0], ReconcileMode::Nothing);
    forward(&wired);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 1));
    let stop = AtomicBool::new(false);
    let mut ends = std::mem::take(&mut wired.ends);
    let (commits, writes) = (40, 4000);
    let enough = [const { AtomicBool::new(false) }; 2];
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> =
            ends.iter_mut().zip(&enough).map(|(end, enough)| scope.spawn(move || drive(end, stop, enough))).collect();
        let began = Instant::now();
        // On a busy machine it takes more changes until workers have seen many.
        let few = || !enough.iter().all(|enough| enough.load(Ordering::Relaxed)) && began.elapsed().as_secs() < 60;
        for number in (0..).take_while(|number| *number < writes || few()) {
            wired.write(&mark(&wired.node, UpdateKind::Modify, 1 + number % 60_000));
            if number % (writes / commits) == 0 {
                wired.commit(&configs[(number / (writes / commits)) as usize % 2], ReconcileMode::ValidObjects);
            }
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("the driver")).collect()
    });
    for seen in &seen {
        assert_eq!(seen.halves, 0, "{seen:?}");
        assert!(seen.packets > 10_000, "too little traffic to mean anything: {seen:?}");
        assert!(seen.programs[1] > 0 && seen.programs[2] > 0, "{seen:?}");
        assert!(seen.marks.len() > 100, "too few versions were seen to mean anything: {}", seen.marks.len());
    }
    let counts = wired.node.counts();
    for (counts, seen) in counts.iter().zip(&seen) {
        assert_eq!(counts.drops.values().map(|drop| drop.packets).sum::<u64>(), 0, "{:?}", counts.drops);
        assert!(counts.received.packets <= u64::from(seen.packets));
    }
}

#[test]
fn without_a_program_packets_are_dropped_by_that_name() {
    let mut wired = Wired::start(1, None);
    wired.ends[0].send_bytes(&frame(0)).expect("short");
    let deadline = Instant::now() + Duration::from_secs(10);
    while wired.node.counts()[0].drops.get("no_program").is_none_or(|count| count.packets != 1) {
        assert!(Instant::now() < deadline, "{:?}", wired.node.counts());
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(wired.node.write(&[]).is_err(), "nothing runs");
}

#[test]
fn counters_go_on_through_a_reconciled_commit_and_begin_anew_otherwise() {
    let mut wired = Wired::start(1, None);
    wired.commit(&marks(&["PROGRAM=1"]), ReconcileMode::Nothing);
    forward(&wired);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 1));
    let counted = |wired: &Wired| {
        let pipeline = wired.node.running().expect("runs").pipeline;
        let (id, _) = pipeline.externs.iter().find(|(_, e)| e.preamble.name.ends_with("by_port")).expect("the counter");
        let state = wired.node.state().expect("runs");
        let first = pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with("first")).expect("the table").0;
        let hits = state.entries(first).next().and_then(|entry| wired.node.direct_counter(first, entry));
        (wired.node.counter(id, 1).expect("in range").packets, hits.map(|hits| hits.packets))
    };
    for number in 0..100 {
        wired.ends[0].send_bytes(&frame(number)).expect("short");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while counted(&wired) != (100, Some(100)) {
        assert!(Instant::now() < deadline, "{:?}", counted(&wired));
        std::thread::sleep(Duration::from_millis(2));
    }
    wired.commit(&marks(&["PROGRAM=2"]), ReconcileMode::ValidObjects);
    assert_eq!(counted(&wired), (100, Some(100)));
    wired.commit(&marks(&["PROGRAM=1"]), ReconcileMode::Nothing);
    assert_eq!(counted(&wired), (0, None), "a commit without reconciling starts with nothing");
}

#[test]
fn a_reconciled_commit_keeps_what_fits_and_leaves_out_the_rest() {
    let wired = Wired::start(1, None);
    wired.commit(&marks(&[]), ReconcileMode::Nothing);
    forward(&wired);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
    wired.commit(&marks(&["WIDER"]), ReconcileMode::ValidObjects);
    let state = wired.node.state().expect("runs");
    let entries = |name: &str| {
        let (id, _) = state.pipeline().tables.iter().find(|(_, t)| t.preamble.name.ends_with(name)).expect("the table");
        state.entry_count(id)
    };
    assert_eq!(["forward", "first", "second"].map(entries), [1, 1, 0], "the action of `second` has another parameter");
}

#[test]
fn packets_and_digests_go_to_the_controller_and_packets_come_from_it() {
    let mut wired = Wired::start(1, None);
    let (sender, events) = mpsc::channel();
    let sender = Mutex::new(sender);
    wired.node.subscribe(Arc::new(move |event| sender.lock().expect("nobody panics").send(event).is_ok()));
    wired.commit(&marks(&[]), ReconcileMode::Nothing);
    let mut learned = frame(0);
    learned[12..14].copy_from_slice(&0x88cd_u16.to_be_bytes());
    learned[11] = 9;
    let mut asked = frame(0);
    asked[12..14].copy_from_slice(&0x88cc_u16.to_be_bytes());
    wired.ends[0].send_bytes(&learned).expect("short");
    wired.ends[0].send_bytes(&asked).expect("short");
    let (mut packets, mut digests) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(10);
    while packets.is_empty() || digests.is_empty() {
        wired.node.tick();
        assert!(Instant::now() < deadline, "packets {packets:?}, digests {digests:?}");
        match events.recv_timeout(Duration::from_millis(5)) {
            Ok(DeviceEvent::PacketIn(bytes)) => packets.push(bytes),
            Ok(DeviceEvent::Digest { values, .. }) => digests.push(values),
            _ => {}
        }
    }
    // Port 1 in 9 bits, then 7 bits of padding.
    assert_eq!(&packets[0][..2], [0, 0x80]);
    assert_eq!(packets[0][2..], asked);
    assert_eq!(digests[0].iter().map(|value| value.to_u64_digits()).collect::<Vec<_>>(), [vec![9], vec![1]]);
    // Out of port 1, by a header of the controller.
    let mut out = vec![0, 0x80];
    out.extend(frame(3));
    wired.node.packet_out(out.into()).expect("there is a CPU port");
    let deadline = Instant::now() + Duration::from_secs(10);
    let packet = loop {
        if let Some(packet) = wired.ends[0].take() {
            break packet;
        }
        assert!(Instant::now() < deadline, "nothing came out; {:?}", wired.node.counts());
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(packet.bytes(), frame(3));
    assert_ne!(CPU, 1);
}
