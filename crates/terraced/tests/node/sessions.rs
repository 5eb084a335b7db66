//! Tests that entries that packets have added, their idle times and the counts of their table
//! survive a take-over.

use crate::support::{forwarding, named, program};
use crate::takeover::{Place, connect, exchange, write};
use entries::{ControlState, StateUpdate, TableEntry, WriteBatch};
use io::AttachedPort;
use io::memif::MemifPort;
use node::engine::{native, reference};
use node::observe::named_stats::FlowTableCounts;
use node::{Node, Store};
use p4runtime::{Device, ReconcileMode};
use std::sync::Arc;

/// Sends a packet of each of `count` flows, and returns what became of them: 1 added an entry, 2 hit
/// one.
fn probe(end: &mut MemifPort, count: u8) -> Vec<u8> {
    let mut results = Vec::new();
    for number in 0..count {
        let mut bytes = [0; 64];
        bytes[3] = number;
        results.push(exchange(end, &bytes)[13]);
    }
    results
}

fn counts(node: &Node) -> FlowTableCounts {
    let tables = node.observe().stats.flow_tables;
    tables.into_iter().find(|(name, _)| name.ends_with("flows")).expect("the table").1
}

/// Returns the number of entries of the table `flows`, and the shortest idle time in nanoseconds.
fn entries_and_idle(node: &Node) -> (usize, u64) {
    let state: ControlState = node.state().expect("runs");
    let tables = &state.pipeline().tables;
    let (table, _) = tables.iter().find(|(_, it)| it.preamble.name.ends_with("flows")).expect("the table");
    let values = p4runtime::EntryValues { counter: false, idle: true };
    let mut pages = node.entry_pages(state.pipeline(), table, values).expect("a flow table");
    let entries: Vec<_> = std::iter::from_fn(|| pages.next_page()).flatten().collect();
    let idle = entries.iter().map(|entry| entry.idle_ns.expect("an idle time"));
    (entries.len(), idle.min().unwrap_or(0))
}

#[test]
fn sessions_and_their_counts_survive_a_take_over() {
    let place = Place::new();
    let store = Store::open(&place.path("store")).expect("a store");
    let ports = vec![AttachedPort::new(1, place.port(1, "server"))];
    let node = Node::start(place.parts(ports, Some(store))).expect("a node");
    node.commit(&forwarding(&node, &program("sessions.p4", &[])), ReconcileMode::Nothing).expect("a good config");
    write(&node, &[StateUpdate::ExpireTime(1, 3_600_000_000_000)].into_iter().collect());
    let mut end = place.port(1, "client");
    connect(&mut end);
    assert_eq!(probe(&mut end, 20), [1; 20]);
    let mut node = Arc::new(node);
    for round in 1..=2 {
        let (entries, idle_ns) = entries_and_idle(&node);
        let before = counts(&node);
        let (serving, said) = place.serve(&node);
        let taken = place.take().expect("it can be taken over");
        serving.join().expect("it ends");
        assert!(said.recv().expect("it says so").contains("has taken over"));
        node = Arc::new(taken.node);
        let (entries_now, idle_ns_now) = entries_and_idle(&node);
        assert_eq!((entries, entries_now), (20, 20), "round {round}");
        assert!(idle_ns_now >= idle_ns, "{idle_ns_now} instead of {idle_ns}");
        assert_eq!((counts(&node), before.added_by_packets), (before, 20), "round {round}");
    }
    assert_eq!(probe(&mut end, 21), [vec![2; 20], vec![1]].concat());
    assert_eq!(counts(&node).added_by_packets, 21);
}

/// Sends a packet of a session. Returns the result, and the session's port.
fn send(end: &mut MemifPort, address: u8, is_inbound: bool, port: u16) -> (u8, u16) {
    let mut bytes = [0; 64];
    (bytes[0], bytes[7]) = (u8::from(is_inbound), address);
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    let back = exchange(end, &bytes);
    (back[1], u16::from_be_bytes([back[2], back[3]]))
}

/// Deletes the entry of a session's answers.
fn delete_answers(node: &Node, port: u16) {
    let pipeline = node.running().expect("runs").pipeline;
    let answers = named(&pipeline, "sessions", 1, "known", &[u64::from(port)]);
    let keys = [1, 0, u64::from(port)].map(|value| ir::KeyMatch::Exact(value.into()));
    let mut batch = WriteBatch::new();
    batch.delete(TableEntry { keys: keys.to_vec(), ..answers });
    write(node, &batch);
}

/// A session that is taken over still has both directions, its port and its share of a quota: no other
/// session gets the port, its owner gets no further share, and the end of one direction is the end of
/// the other one, and frees both. The engine changes with each take-over.
#[test]
fn pairs_and_what_they_hold_survive_a_take_over() {
    let place = Place::new();
    let store = Store::open(&place.path("store")).expect("a store");
    let ports = vec![AttachedPort::new(1, place.port(1, "server"))];
    let node = Node::start(place.parts(ports, Some(store))).expect("a node");
    node.commit(&forwarding(&node, &program("pairs.p4", &[])), ReconcileMode::Nothing).expect("a good config");
    write(&node, &[StateUpdate::ExpireTime(1, 3_600_000_000_000)].into_iter().collect());
    let mut end = place.port(1, "client");
    connect(&mut end);
    // One block of 64 ports is the quota.
    let addresses = (0..62).chain([128, 129]);
    let sessions: Vec<(u8, u16)> = addresses.map(|address| send(&mut end, address, false, 0)).collect();
    assert!(sessions.iter().all(|(result, _)| *result == 1), "{sessions:?}");
    let mut node = Arc::new(node);
    for (round, engine) in (0..).zip([reference(), native(), native()]) {
        place.run_on(engine);
        let (serving, said) = place.serve(&node);
        let taken = place.take().expect("it can be taken over");
        serving.join().expect("it ends");
        assert!(said.recv().expect("it says so").contains("has taken over"));
        node = Arc::new(taken.node);
        assert_eq!(send(&mut end, 100, false, 0).0, 3, "round {round}: all ports are in use");
        assert_eq!(send(&mut end, 130, false, 0).0, 5, "round {round}: the owner has all of its shares");
        let (_, port) = sessions[round as usize];
        assert_eq!(send(&mut end, 0, true, port), (2, port), "round {round}: the answer finds its session");
        delete_answers(&node, port);
        assert_eq!(send(&mut end, 101, false, 0), (1, port), "round {round}: the port is free again");
        delete_answers(&node, port);
        assert_eq!(send(&mut end, round, false, 0), (1, port), "round {round}: the other direction ended, too");
    }
    let (_, port) = sessions[63];
    delete_answers(&node, port);
    assert_eq!(send(&mut end, 130, false, 0), (1, port), "the share is free again");
    assert_eq!(send(&mut end, 129, false, 0).0, 5, "and taken");
}
