//! Tests that state that packets and time change, but no controller writes, survives a take-over,
//! and a new pipeline with the same meters and entries.

use crate::support::{chip, forwarding, named, program, tiers};
use crate::takeover::{Place, connect, exchange, until, write};
use cache_engines::CachePlan;
use entries::{MeterConfig, StateUpdate, UpdateKind, WriteBatch};
use io::AttachedPort;
use io::memif::MemifPort;
use node::engine::{EngineFactory, native, reference};
use node::{Node, Store};
use p4runtime::{Device, ReconcileMode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// EtherType of the frames that hit the entry with a meter.
const KIND: u64 = 0x88b5;
const GREEN: u8 = 0;
const RED: u8 = 2;

/// A burst of two packets that time does not refill.
const TWO: MeterConfig = MeterConfig { cir: 0, cburst: 2, pir: 0, pburst: 2 };

/// Sends a frame that is metered by element `index`. Returns the color of that meter, the color of
/// the entry's own, and the program.
fn probe_meters(end: &mut MemifPort, index: u8) -> [u8; 3] {
    let mut bytes = [0; 64];
    bytes[5] = index;
    bytes[12..14].copy_from_slice(&(KIND as u16).to_be_bytes());
    // Neither of the colors.
    bytes[14..16].fill(0xff);
    exchange(end, &bytes)[14..17].try_into().expect("three bytes")
}

/// Starts a node with the program and its meters configured.
fn metered(place: &Place, defines: &[&str]) -> Arc<Node> {
    let store = Store::open(&place.path("store")).expect("a store");
    let ports = vec![AttachedPort::new(1, place.port(1, "server"))];
    let node = Node::start(place.parts(ports, Some(store))).expect("a node");
    node.commit(&forwarding(&node, &program("meters.p4", defines)), ReconcileMode::Nothing).expect("a good config");
    configure(&node);
    Arc::new(node)
}

fn configure(node: &Node) {
    let pipeline = node.running().expect("runs").pipeline;
    let (limit, _) = pipeline.externs.iter().find(|(_, e)| e.preamble.name.ends_with(".limit")).expect("the meter");
    let mut entry = named(&pipeline, "limited", KIND, "take", &[]);
    entry.meter = Some(TWO);
    if pipeline.tables[entry.table].idle_timeout {
        entry.idle_timeout_ns = 3_600_000_000_000;
    }
    let mut batch = WriteBatch::new();
    batch.push(StateUpdate::Entry(UpdateKind::Insert, entry));
    batch.push(StateUpdate::Meter(limit, 1, Some(TWO)));
    batch.push(StateUpdate::Meter(limit, 2, Some(TWO)));
    write(node, &batch);
}

fn empty(end: &mut MemifPort) {
    for colour in [GREEN, GREEN, RED] {
        assert_eq!(probe_meters(end, 1)[..2], [colour, colour]);
    }
}

fn taken_over(place: &Place, node: Arc<Node>) -> Arc<Node> {
    let (serving, said) = place.serve(&node);
    let taken = place.take().expect("it can be taken over");
    serving.join().expect("it ends");
    assert!(said.recv().expect("it says so").contains("has taken over"));
    Arc::new(taken.node)
}

#[test]
fn a_meter_that_is_empty_stays_red_through_take_overs() {
    for defines in [&[][..], &["AGES"]] {
        let place = Place::new();
        let mut node = metered(&place, defines);
        let mut end = place.port(1, "client");
        connect(&mut end);
        empty(&mut end);
        // From one engine to another, and to one of the same kind.
        let cache = CachePlan::default().shared();
        let rewrites = CachePlan { is_rewrite_cache: true, ..CachePlan::default() }.shared();
        let divided = tiers(&[], &[]);
        for engine in [native(), chip(64, "none"), chip(64, "none"), cache, rewrites, divided, reference(), native()] {
            place.run_on(engine.clone());
            node = taken_over(&place, node);
            assert_eq!(probe_meters(&mut end, 1), [RED, RED, 1], "{defines:?}, {}", engine.name());
        }
        assert_eq!(probe_meters(&mut end, 2)[0], GREEN, "one that is full is full");
        node = taken_over(&place, node);
        assert_eq!(probe_meters(&mut end, 2)[0], GREEN);
        assert_eq!(probe_meters(&mut end, 2)[0], RED, "one that was half full was half full");
        drop(node);
    }
}

#[test]
fn a_pipeline_with_the_same_meters_goes_on_with_what_is_in_them() {
    for defines in [&[][..], &["AGES"]] {
        let place = Place::new();
        let node = metered(&place, defines);
        let mut end = place.port(1, "client");
        connect(&mut end);
        empty(&mut end);
        let commit = |more: &str, keep| {
            let defines: Vec<&str> = defines.iter().copied().chain([more]).collect();
            node.commit(&forwarding(&node, &program("meters.p4", &defines)), keep).expect("a good config");
        };
        commit("WIDER", ReconcileMode::ValidObjects);
        assert_eq!(probe_meters(&mut end, 1), [RED, RED, 2], "{defines:?}");
        // Two packets are not two bytes: only a bucket of packets keeps a level of packets.
        commit("BYTES", ReconcileMode::ValidObjects);
        assert_eq!(probe_meters(&mut end, 1)[1], RED, "the entry's own counts the same");
        commit("WIDER", ReconcileMode::Nothing);
        configure(&node);
        assert_eq!(probe_meters(&mut end, 1), [GREEN, GREEN, 2], "nothing is kept, so they begin full");
    }
}

/// Returns the idle time of the only entry.
fn idle(node: &Node) -> Duration {
    let state = node.state().expect("runs");
    let (table, _) = state.pipeline().tables.iter().find(|(_, t)| t.idle_timeout).expect("one that ages");
    let entry = state.entries(table).next().expect("the entry");
    Duration::from_nanos(node.idle_for(table, entry).expect("it has an age"))
}

#[test]
fn an_idle_entry_gets_no_fresh_life() {
    let place = Place::new();
    let mut node = metered(&place, &["AGES"]);
    let mut end = place.port(1, "client");
    connect(&mut end);
    let written = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..2 {
        let least = written.elapsed();
        node = taken_over(&place, node);
        assert!(idle(&node) >= least, "{:?} instead of {least:?}", idle(&node));
    }
    let least = written.elapsed();
    let wider = program("meters.p4", &["AGES", "WIDER"]);
    node.commit(&forwarding(&node, &wider), ReconcileMode::ValidObjects).expect("a good config");
    assert!(idle(&node) >= least, "{:?} instead of {least:?}", idle(&node));
    probe_meters(&mut end, 1);
    until("a hit begins it anew", || idle(&node) < least);
}

#[test]
fn what_grows_too_old_during_a_take_over_is_told_by_the_taker() {
    let place = Place::new();
    let node = metered(&place, &["AGES"]);
    let pipeline = node.running().expect("runs").pipeline;
    let mut entry = named(&pipeline, "limited", 7, "take", &[]);
    // It expires many times during the take-over.
    entry.idle_timeout_ns = 1_000_000;
    let mut batch = WriteBatch::new();
    batch.insert(entry);
    write(&node, &batch);
    let node = taken_over(&place, node);
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hears = told.clone();
    node.subscribe(Arc::new(move |event| {
        if let p4runtime::DeviceEvent::Idle { idle_ns, .. } = event {
            hears.lock().expect("nobody fails").push(idle_ns);
        }
        true
    }));
    until("the taker tells of it", || {
        node.tick();
        !told.lock().expect("nobody fails").is_empty()
    });
}
