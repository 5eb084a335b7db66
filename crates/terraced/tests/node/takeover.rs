//! Tests that ports come and go, and processes take over from each other, under traffic: no packet
//! is lost, and none sees half of a change.

use crate::support::{CPU, entry, forwarding, frame, mark, marks};
use crate::wire::{Stopping, drive};
use entries::{UpdateKind, WriteBatch};
use io::memif::MemifPort;
use io::{AttachedPort, IdlePolicy, Port};
use node::engine::{SharedEngineFactory, native};
use node::takeover::{self, TakeoverListener};
use node::{Node, NodeParts, Store, WorkerSpec};
use p4runtime::{Device, ReconcileMode};
use packet::{Batch, Packet, PortId};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

pub fn until(what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < deadline, "{what}: in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a packet from the other end of a port and returns the one that comes back.
pub fn exchange(end: &mut MemifPort, bytes: &[u8]) -> Vec<u8> {
    let packet = Packet::from_bytes(bytes).expect("short");
    assert_eq!(end.send_all(&mut std::iter::once(&packet)), 1);
    let mut batch = Batch::new();
    until("it comes back", || {
        end.receive(PortId(1), &mut batch).expect("it works");
        !batch.is_empty()
    });
    batch.packets()[0].bytes().to_vec()
}

/// Folder with sockets and a store, and the engine of nodes started there.
pub struct Place {
    folder: tempfile::TempDir,
    engine: RefCell<SharedEngineFactory>,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder"), engine: RefCell::new(native()) }
    }

    /// Sets the engine of nodes that are started later.
    pub fn run_on(&self, engine: SharedEngineFactory) {
        self.engine.replace(engine);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn device(&self, port: u32, role: &str) -> String {
        format!("memif:socket={},role={role}", self.path(&format!("{port}.sock")).display())
    }

    pub fn port(&self, port: u32, role: &str) -> MemifPort {
        MemifPort::open(&self.device(port, role)).expect("it can be opened")
    }

    pub fn parts(&self, ports: Vec<AttachedPort>, store: Option<Store>) -> NodeParts {
        let settings = interp::Config { cpu_port: Some(CPU), ..interp::Config::default() };
        let seats = vec![WorkerSpec { core: None, ports }];
        NodeParts {
            device_id: 1,
            seats,
            idle: IdlePolicy::default(),
            settings,
            engine: self.engine.borrow().clone(),
            store,
            translations: Default::default(),
            wings: terraced::wings(),
        }
    }

    /// Starts a node that returns packets to port 1.
    fn node(&self) -> Arc<Node> {
        let store = Store::open(&self.path("store")).expect("a store");
        let ports = vec![AttachedPort::new(1, self.port(1, "server"))];
        let node = Node::start(self.parts(ports, Some(store))).expect("a node");
        node.commit(&forwarding(&node, &marks(&[])), ReconcileMode::Nothing).expect("a good config");
        let mut batch = WriteBatch::new();
        batch.insert(entry(&node, "forward", 1, "out_of", &[1]));
        write(&node, &batch);
        write(&node, &mark(&node, UpdateKind::Insert, 1));
        Arc::new(node)
    }

    /// Lets a node be taken over. Returns its thread and its events.
    pub fn serve(&self, node: &Arc<Node>) -> (std::thread::JoinHandle<()>, mpsc::Receiver<String>) {
        let giver = TakeoverListener::listen(&self.path("takeover")).expect("a socket");
        let (sender, said) = mpsc::channel();
        let node = Arc::downgrade(node);
        let serve = move || {
            let mut say = |line| drop(sender.send(line));
            takeover::serve(&giver, &node, &[], &mut say).expect("the socket works");
        };
        (std::thread::spawn(serve), said)
    }

    pub fn take(&self) -> Result<takeover::TakeoverResult, takeover::TakeoverError> {
        let expected = [(1, self.device(1, "server"))];
        let parts = self.parts(Vec::new(), None);
        takeover::take(&self.path("takeover"), parts, Some(&self.path("store")), &expected)
    }
}

pub fn write(node: &Node, batch: &WriteBatch) {
    let outcomes = node.write(std::slice::from_ref(batch)).expect("a pipeline runs");
    outcomes.into_iter().for_each(|outcome| outcome.expect("a good batch"));
}

pub fn connect(end: &mut MemifPort) {
    until("the node is there", || end.port_fault().is_none());
}

/// Returns the packets that hit an entry of a table.
fn taken_tables(node: &Node, name: &str) -> packet::Counter {
    node.named_stats().tables.get(name).map(|table| table.hits).unwrap_or_default()
}

/// Returns the node's count of its port, and its program's count.
fn counted(node: &Node) -> (u64, u64) {
    let pipeline = node.running().expect("runs").pipeline;
    let (id, _) = pipeline.externs.iter().find(|(_, e)| e.preamble.name.ends_with("by_port")).expect("the counter");
    let port = node.counts()[0].ports.get(&1).map_or(0, |port| port.received.packets);
    (port, node.counter(id, 1).expect("in range").packets)
}

#[test]
fn ports_come_and_go_and_the_others_lose_nothing() {
    let place = Place::new();
    let node = place.node();
    let mut end = place.port(1, "client");
    connect(&mut end);
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let traffic = scope.spawn(|| drive(&mut end, &stop));
        let mut other = place.port(2, "client");
        for round in 1..=20u64 {
            node.attach_port(2, Box::new(place.port(2, "server"))).expect("a worker takes it");
            assert!(node.attach_port(2, Box::new(place.port(3, "server"))).is_err(), "there is a port 2");
            assert_eq!(node.ports().iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [1, 2]);
            connect(&mut other);
            // Its destination is unreachable: no copy of it returns elsewhere.
            let mut bytes = frame(0);
            bytes[5] = 9;
            let packet = Packet::from_bytes(&bytes).expect("short");
            assert_eq!(other.send_all(&mut std::iter::once(&packet)), 1);
            until("it is received", || {
                node.counts()[0].ports.get(&2).is_some_and(|port| port.received.packets == round)
            });
            drop(node.detach_port(2).expect("the worker follows").expect("it is there"));
            assert!(node.detach_port(2).expect("nothing to do").is_none());
            until("it is gone", || other.port_fault().is_some());
            assert_eq!(node.counts()[0].ports[&2].received.packets, round, "the report keeps what it counted");
        }
        stop.store(true, Ordering::Relaxed);
        traffic.join().expect("no packet was lost")
    });
    assert!(seen.back > 1000, "too little traffic to mean anything: {seen:?}");
}

#[test]
fn twice_taken_over_under_traffic_nothing_is_lost_and_all_is_there() {
    let place = Place::new();
    let mut node = place.node();
    let mut end = place.port(1, "client");
    connect(&mut end);
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let traffic = scope.spawn(|| drive(&mut end, &stop));
        for round in 1..=5u64 {
            let (serving, said) = place.serve(&node);
            // A write at any moment is either applied by one of the two, or rejected by the first.
            let writer = {
                let node = node.clone();
                std::thread::spawn(move || {
                    let mut written = 0;
                    for number in 0..u64::MAX {
                        let batch = mark(&*node, UpdateKind::Modify, round * 10_000 + number % 10_000);
                        match node.write(&[batch]) {
                            Ok(_) => written = round * 10_000 + number % 10_000,
                            Err(refusal) => {
                                assert_eq!(refusal.code, p4runtime::Code::Unavailable, "{refusal:?}");
                                break;
                            }
                        }
                    }
                    written
                })
            };
            std::thread::sleep(Duration::from_millis(30));
            let taken = place.take().expect("it can be taken over");
            serving.join().expect("it ends");
            assert!(said.recv().expect("it says so").contains("has taken over"));
            let written = writer.join().expect("the last acknowledged write");
            assert!(node.ports().len() == 1 && taken.missing.is_empty() && taken.node.ports().len() == 1);
            let before = counted(&node);
            let tallied = node.named_stats();
            assert!(before.0 > 0 && before.1 > 0, "{before:?}");
            assert!(!tallied.tables.is_empty(), "native code counts what its tables do");
            node = Arc::new(taken.node);
            let state = node.state().expect("runs");
            let expected = mark(&*node, UpdateKind::Insert, written);
            for update in &expected.updates {
                let entries::StateUpdate::Entry(_, entry) = update else { panic!("an entry") };
                let there = state.entries(entry.table).next().expect("an entry");
                let there = there.to_table_entry(state.pipeline(), entry.table);
                assert_eq!(there.action, entry.action, "what was acknowledged last, in round {round}");
            }
            for (name, table) in &tallied.tables {
                assert!(taken_tables(&node, name).packets >= table.hits.packets, "{name} counts on");
            }
            until("counters go on", || {
                let now = counted(&node);
                now.0 > before.0 && now.1 > before.1
            });
        }
        stop.store(true, Ordering::Relaxed);
        traffic.join().expect("no packet was lost")
    });
    assert_eq!(seen.halves, 0, "{seen:?}");
    assert!(seen.back > 1000 && seen.marks.len() > 20, "too little to mean anything: {seen:?}");
    until("all is counted", || counted(&node).0 == u64::from(seen.back));
    assert_eq!(counted(&node).1, u64::from(seen.back));
    // The store has been followed to its end.
    let state = crate::restart::contents(&node.state().expect("runs"));
    drop(node);
    let store = Store::open(&place.path("store")).expect("nobody else has it");
    let again = Node::start(place.parts(Vec::new(), Some(store))).expect("a node");
    assert_eq!(crate::restart::contents(&again.state().expect("runs")), state);
}

/// Sends the first `messages` of a successor's messages with independent code, then disconnects.
fn fake(path: &Path, hello: &str, messages: usize) -> Option<()> {
    let mut stream = UnixStream::connect(path).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    let say = |stream: &mut UnixStream, bytes: &[u8]| {
        stream.write_all(&(bytes.len() as u32).to_le_bytes()).and_then(|()| stream.write_all(bytes)).ok()
    };
    let hear = |stream: &mut UnixStream| -> Option<Vec<u8>> {
        let mut len = [0; 4];
        stream.read_exact(&mut len).ok()?;
        let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
        stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    };
    say(&mut stream, hello.as_bytes())?;
    hear(&mut stream)?;
    // Ready, store open, prepared. Each follows a message of the old process, given by its number.
    for (said, after) in [(1, 3), (2, 4), (3, 7)].into_iter().take(messages) {
        while hear(&mut stream)?.first() != Some(&after) {}
        say(&mut stream, &[said])?;
    }
    if messages == 3 {
        // Disconnects after the message that it may start.
        assert_eq!(hear(&mut stream)?, [8]);
    }
    Some(())
}

#[test]
fn a_taker_that_ends_at_any_point_or_speaks_another_version_changes_nothing() {
    let place = Place::new();
    let node = place.node();
    let mut end = place.port(1, "client");
    connect(&mut end);
    let (_, said) = place.serve(&node);
    let hello = r#"{"protocols":[7,1],"program":"a test","device_id":1,"what a later version has":[]}"#;
    let stop = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let traffic = scope.spawn(|| drive(&mut end, &stop));
        for round in 0..16u64 {
            fake(&place.path("takeover"), hello, round as usize % 4).expect("as far as it wants");
            let line = said.recv_timeout(PATIENCE).expect("it says so");
            assert!(line.contains("this process continues"), "{line}");
            // Writes continue and are stored.
            write(&node, &mark(&*node, UpdateKind::Modify, 100 + round));
        }
        for (hello, why) in [
            (r#"{"protocols":[99],"program":"of the future","device_id":1}"#, "of the future speaks versions [99]"),
            (r#"{"protocols":[1],"program":"p","device_id":5}"#, "device 1 is here, not 5"),
            ("what?", "its first message"),
        ] {
            let _ = fake(&place.path("takeover"), hello, 0);
            let line = said.recv_timeout(PATIENCE).expect("it says so");
            assert!(line.contains(why), "{line}");
        }
        stop.store(true, Ordering::Relaxed);
        traffic.join().expect("no packet was lost")
    });
    assert_eq!(seen.halves, 0);
    assert!(seen.back > 1000, "{seen:?}");
    let state = crate::restart::contents(&node.state().expect("runs"));
    drop(node);
    until("the store is free", || Store::open(&place.path("store")).is_ok());
    let store = Store::open(&place.path("store")).expect("nobody else has it");
    let again = Node::start(place.parts(Vec::new(), Some(store))).expect("a node");
    assert_eq!(crate::restart::contents(&again.state().expect("runs")), state);
}

#[test]
fn the_socket_is_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let giver = TakeoverListener::listen(&place.path("takeover")).expect("a socket");
    let mode = std::fs::metadata(giver.path()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(giver);
    assert!(matches!(place.take(), Err(takeover::TakeoverError::NotListening { .. })));
}
