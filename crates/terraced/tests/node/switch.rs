//! Tests the emulated switch as a node's engine. It forwards as native code does, is full when the
//! chip is, and shows controllers the tables of the program that they wrote to, whatever their form
//! on the chip.

use crate::restart::contents;
use crate::support::{KIND, Wired, chip, entry, frame, mark, marks, read, tiers};
use crate::takeover::{Place, connect, until, write};
use cache_engines::CachePlan;
use entries::{UpdateKind, WriteBatch};
use io::Port;
use node::engine::{EngineFactory, SharedEngineFactory, native, reference};
use node::{Node, StartError, Store};
use p4runtime::{Code, Device, P4RuntimeError, ReconcileMode};
use packet::{Batch, Packet, PortId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sends frames to these destinations, and reads those that return. Returns both marks by frame
/// number.
fn returned_marks(wired: &mut Wired, destinations: std::ops::Range<u8>) -> BTreeMap<u32, (u16, u16)> {
    let sent = destinations.len();
    let to = |destination: u8| {
        let mut bytes = frame(u32::from(destination));
        bytes[5] = destination;
        Packet::from_bytes(&bytes).expect("short")
    };
    let frames: Vec<Packet> = destinations.map(to).collect();
    let end = &mut wired.ends[0];
    assert_eq!(end.send_all(&mut frames.iter()), sent);
    let (mut batch, mut back) = (Batch::new(), BTreeMap::new());
    until("all are through", || {
        batch.clear();
        wired.ends[0].receive(PortId(1), &mut batch).expect("it works");
        back.extend(batch.packets().iter().map(|packet| {
            let (number, first, second, _) = read(packet.bytes());
            (number, (first, second))
        }));
        let counts = wired.node.counts();
        counts.iter().map(|worker| worker.received.packets).sum::<u64>() >= sent as u64 && batch.is_empty()
    });
    back
}

fn refused(node: &Node, batch: &WriteBatch) -> (usize, P4RuntimeError) {
    let outcome = node.write(std::slice::from_ref(batch)).expect("a pipeline runs").remove(0);
    let error = outcome.expect_err("it is refused");
    (error.index, P4RuntimeError::from(&error.error))
}

/// Writes `count` entries, and some more that are deleted again.
fn many(node: &Node, count: u64) {
    let batch = (0..count).map(|key| {
        entries::StateUpdate::Entry(UpdateKind::Insert, entry(node, "forward", 1_000_000 + key, "out_of", &[1]))
    });
    write(node, &batch.collect());
    writes(node, 200);
}

/// Makes writes of all types.
fn writes(node: &Node, rounds: u64) {
    for round in 0..rounds {
        let mut batch = WriteBatch::new();
        batch.insert(entry(node, "forward", round, "out_of", &[1]));
        if round % 3 == 2 {
            batch.delete(entry(node, "forward", round - 2, "drop", &[]));
            batch.modify(entry(node, "forward", round - 1, "drop", &[]));
        }
        write(node, &batch);
    }
}

#[test]
fn the_same_writes_and_packets_come_to_the_same_as_with_native_code() {
    let mut all = Vec::new();
    let cache = CachePlan::default().shared();
    let divided = [tiers(&[("forward", 20)], &["second"]), tiers(&[("first", 1), ("forward", 0)], &[])];
    let engines = [native(), reference(), cache, chip(256, "none"), chip(256, "pieces:forward*4")];
    for engine in engines.into_iter().chain(divided) {
        let name = engine.name();
        let mut wired = Wired::on(engine, 1, None);
        wired.commit(&marks(&[]), ReconcileMode::Nothing);
        wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
        writes(&wired.node, 120);
        let back = returned_marks(&mut wired, 0..200);
        assert!(back.len() > 30 && back.len() < 120 && back.values().all(|marks| *marks == (5, 5)), "{name}: {back:?}");
        let state = wired.node.state().expect("runs");
        let table = state.pipeline().tables.iter().find(|(_, t)| t.preamble.name.ends_with("first")).expect("it").0;
        let hits = state.entries(table).map(|entry| wired.node.direct_counter(table, entry).map(|c| c.packets));
        let hits: Vec<Option<u64>> = hits.collect();
        assert_eq!(hits, [Some(200)], "{name}: all packets hit the entry");
        let counter =
            state.pipeline().externs.iter().find(|(_, e)| e.preamble.name.ends_with("by_port")).expect("it").0;
        let by_port = wired.node.counter(counter, 1);
        all.push((name, (back, contents(&state), hits, by_port)));
    }
    let (_, first) = all.remove(0);
    for (name, other) in all {
        assert_eq!(other, first, "{name}");
    }
}

#[test]
fn a_switch_is_full_when_the_chip_is_and_says_of_what() {
    for (compress, stands) in [("none", ""), ("pieces:forward*4", "pieces are full")] {
        let mut wired = Wired::on(chip(64, compress), 1, None);
        wired.commit(&marks(&[]), ReconcileMode::Nothing);
        wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
        let mut held = 0;
        let batch = loop {
            let mut batch = WriteBatch::new();
            batch.insert(entry(&wired.node, "forward", held, "out_of", &[1]));
            if wired.node.write(std::slice::from_ref(&batch)).expect("runs")[0].is_err() {
                break batch;
            }
            held += 1;
            assert!(held < 100_000, "it is full at last");
        };
        // A chip allocates whole blocks.
        assert!(held >= 64, "{compress}: room for {held}");
        let before = contents(&wired.node.state().expect("runs"));
        let (index, refusal) = refused(&wired.node, &batch);
        assert_eq!((index, refusal.code), (0, Code::ResourceExhausted), "{}", refusal.message);
        assert!(refusal.message.contains("table Decide.forward: the chip can"), "{}", refusal.message);
        assert!(refusal.message.contains(stands), "{}", refusal.message);
        println!("{}", refusal.message);
        if stands.is_empty() {
            assert!(refusal.message.contains(&format!("can hold {held} entries (")), "{}", refusal.message);
            assert!(refusal.message.contains("at ") && refusal.message.contains("times the entries"), "{refusal}");
        }
        // A batch is rejected as a whole, at the update that exceeds the capacity.
        let mut batch = WriteBatch::new();
        batch.delete(entry(&wired.node, "forward", 0, "drop", &[]));
        batch.insert(entry(&wired.node, "forward", held + 1, "out_of", &[1]));
        batch.insert(entry(&wired.node, "forward", held + 2, "out_of", &[1]));
        assert_eq!(refused(&wired.node, &batch).0, 2);
        assert_eq!(contents(&wired.node.state().expect("runs")), before, "nothing has changed");
        // A deletion makes space for an insertion.
        batch.updates.pop();
        wired.write(&batch);
        let back = returned_marks(&mut wired, 0..64);
        assert_eq!(back.len(), 63, "all but the one that went");
        // A write that the specification calls invalid is not reported as a lack of capacity.
        let mut batch = WriteBatch::new();
        batch.insert(entry(&wired.node, "forward", 1, "out_of", &[1]));
        assert_eq!(refused(&wired.node, &batch).1.code, Code::AlreadyExists);
    }
}

#[test]
fn what_does_not_run_on_the_chip_is_refused_with_the_reason() {
    let refusal = |engine: SharedEngineFactory, program: &str| {
        let wired = Wired::on(engine, 1, None);
        wired.node.verify(program.as_bytes()).expect_err("it is refused")
    };
    let full = refusal(chip(20_000_000, "none"), &marks(&[]));
    assert_eq!(full.code, Code::ResourceExhausted, "{full}");
    assert!(full.message.contains("does not run on tofino1 (4 pipes folded)"), "{full}");
    let ages = crate::support::program("meters.p4", &["AGES"]);
    let unfit = refusal(chip(64, "pieces:limited*2"), &ages);
    assert_eq!(unfit.code, Code::Unimplemented, "{unfit}");
    assert!(unfit.message.contains("table Decide.limited: each entry has a counter or meter"), "{unfit}");
    let steps = refusal(chip(64, "fold:forward"), &marks(&[]));
    assert!(steps.message.contains("`fold:forward` is no step"), "{steps}");
}

#[test]
fn tables_that_are_kept_do_not_shrink_silently() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = || Some(Store::open(&folder.path().join("store")).expect("a store"));
    let before = {
        let wired = Wired::on(chip(20_000, "none"), 1, store());
        wired.commit(&marks(&[]), ReconcileMode::Nothing);
        many(&wired.node, 19_000);
        contents(&wired.node.state().expect("runs"))
    };
    for engine in [chip(20_000, "none"), chip(20_000, "pieces:forward*2"), native()] {
        let wired = Wired::on(engine, 1, store());
        assert_eq!(contents(&wired.node.state().expect("runs")), before);
    }
    let place = Place::new();
    place.run_on(chip(16, "none"));
    let small = Node::start(place.parts(Vec::new(), store()));
    let Err(StartError::Entries(why)) = small else { panic!("19,000 entries in a chip with room for 16") };
    let why = why.to_string();
    assert!(why.contains("table Decide.forward: the chip can hold") && why.contains("increase its capacity"), "{why}");
}

#[test]
fn a_switch_that_is_too_small_takes_nothing_over() {
    let place = Place::new();
    let store = Store::open(&place.path("store")).expect("a store");
    let ports = vec![io::AttachedPort::new(1, place.port(1, "server"))];
    let node = Node::start(place.parts(ports, Some(store))).expect("a node");
    node.commit(&crate::support::forwarding(&node, &marks(&[])), ReconcileMode::Nothing).expect("a good config");
    let node = Arc::new(node);
    many(&node, 19_000);
    let mut end = place.port(1, "client");
    connect(&mut end);
    let (_serving, said) = place.serve(&node);
    let before = contents(&node.state().expect("runs"));
    place.run_on(chip(16, "none"));
    let refused = place.take().err().expect("it has no room").to_string();
    assert!(refused.contains("the chip can hold"), "{refused}");
    assert!(said.recv().expect("it says so").contains("this process continues"));
    assert_eq!(contents(&node.state().expect("runs")), before);
    // An engine with enough capacity accepts it, and has all entries that controllers wrote.
    place.run_on(chip(20_000, "pieces:forward*2"));
    let taken = place.take().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(contents(&taken.node.state().expect("runs")), before);
}

/// Tiers on a chip that cannot hold the program's large table: the table becomes hot, and no write
/// is rejected.
#[test]
fn what_does_not_fit_on_the_chip_becomes_hot() {
    let whole = chip(40_000_000, "none");
    let alone = Wired::on(whole.clone(), 1, None);
    let config = marks(&[]);
    let refused = alone.node.verify(config.as_bytes()).expect_err("it does not fit");
    assert_eq!(refused.code, Code::ResourceExhausted);
    let below = CachePlan::default().shared();
    let plan = switch_engines::tiers::TiersPlan::in_one_process(whole, below, BTreeMap::new());
    let mut wired = Wired::on(plan.shared(), 1, None);
    wired.commit(&config, ReconcileMode::Nothing);
    wired.write(&mark(&wired.node, UpdateKind::Insert, 5));
    writes(&wired.node, 120);
    assert!(returned_marks(&mut wired, 0..200).len() > 30);
    let notes = wired.node.version().program.expect("runs").notes;
    assert!(notes.iter().any(|note| note.contains("forward is hot") && note.contains("has no room")), "{notes:#?}");
}

/// An entry counts in its tier, and its count moves with it when another entry replaces it on the
/// switch.
#[test]
fn an_entry_that_leaves_the_switch_keeps_its_count() {
    let mut wired = Wired::on(tiers(&[("first", 1)], &[]), 1, None);
    wired.commit(&marks(&[]), ReconcileMode::Nothing);
    let mut batch = WriteBatch::new();
    batch.insert(entry(&wired.node, "forward", 1, "out_of", &[1]));
    let kinds = [u64::from(KIND), 0x9999];
    for kind in kinds {
        batch.insert(entry(&wired.node, "first", kind, "first_mark", &[7]));
    }
    wired.write(&batch);
    let pipeline = wired.node.state().expect("runs").pipeline().clone();
    let table = pipeline.tables.iter().find(|(_, t)| t.preamble.name.ends_with("first")).expect("it").0;
    let counts = |node: &Node| -> BTreeMap<u64, u64> {
        let state = node.state().expect("runs");
        let count = |entry: &entries::StoredEntry| node.direct_counter(table, entry).map_or(0, |count| count.packets);
        state.entries(table).map(|entry| (entry.key()[0], count(entry))).collect()
    };
    let hot = |node: &Node| {
        let notes = node.version().program.expect("runs").notes;
        let note = notes.into_iter().find(|note| note.contains("hot entries")).expect("one is hot");
        note.split(" added").next().and_then(|text| text.rsplit(' ').next()?.parse::<u64>().ok()).expect("a number")
    };
    let mut sent = BTreeMap::from(kinds.map(|kind| (kind, 0)));
    // First one is hit much more often than the other, then the reverse. Others are hit too, which
    // the switch counts.
    for round in 0..4u64 {
        let kind = kinds[round as usize % 2];
        let came = hot(&wired.node);
        let mut send = |wired: &mut Wired| {
            for number in 0..50 {
                let mut bytes = frame(number);
                bytes[12..14].copy_from_slice(&(kind as u16).to_be_bytes());
                assert!(wired.ends[0].send_bytes(&bytes).expect("short"));
            }
            *sent.get_mut(&kind).expect("one of them") += 50;
            until("they are counted", || counts(&wired.node) == sent);
        };
        until("the other one is hot", || {
            send(&mut wired);
            std::thread::sleep(std::time::Duration::from_millis(20));
            wired.node.tick();
            hot(&wired.node) > came
        });
        send(&mut wired);
    }
}
