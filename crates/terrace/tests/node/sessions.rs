//! Tests `terrace show sessions`, `terrace sessions delete` and the counts of tables to which packets
//! add entries, on nodes under traffic.

use super::command::{root, run as terrace};
use entries::{StateUpdate, WriteBatch};
use io::memory::{self, MemoryPort};
use io::{AttachedPort, IdlePolicy};
use node::admin::ControlSocket;
use node::admin::responder::NodeResponder;
use node::engine::{SharedEngineFactory, native, reference};
use node::metrics::Metrics;
use node::{Node, NodeParts, Store, WorkerSpec};
use p4runtime::proto::v1;
use p4runtime::server::direct::Direct;
use p4runtime::{Device, PipelineConfig, ReconcileMode};
use packet::PortId;
use serde_json::Value;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use terrace::program::{Sources, compile};

const PATIENCE: Duration = Duration::from_secs(60);

/// A node that runs `sessions.p4` on one port.
struct Served {
    node: Arc<Node>,
    /// The other end of the port, until a thread takes it.
    wire: Option<MemoryPort>,
    socket: String,
    _control: ControlSocket,
}

impl Served {
    /// Starts a node in a folder, with the program that has these definitions.
    fn start(folder: &Path, engine: SharedEngineFactory, defines: &[(&str, &str)], store: Option<Store>) -> Served {
        let (inner, wire) = memory::pair("inner", "wire", 1 << 12).unwrap();
        let ports = vec![AttachedPort { id: PortId(1), port: Box::new(inner) }];
        let is_restart = store.is_some() && folder.join("started").exists();
        std::fs::write(folder.join("started"), "").unwrap();
        let parts = NodeParts {
            device_id: 1,
            seats: vec![WorkerSpec { core: None, ports }],
            idle: IdlePolicy::default(),
            settings: interp::Config::default(),
            engine,
            store,
            translations: Default::default(),
            wings: terraced::wings(),
        };
        let node = Arc::new(Node::start(parts).unwrap());
        if !is_restart {
            let defines = defines.iter().map(|(name, text)| format!("{name}={text}")).collect();
            let sources = Sources { defines, ..Default::default() };
            let file = root().join("crates/terraced/tests/programs/sessions.p4");
            let device_config = ir::text::print(&compile(&file, &sources).pipeline.expect("a good program"));
            let pipeline = node.verify(device_config.as_bytes()).expect("a good config");
            let device_config = device_config.into();
            let config = PipelineConfig { pipeline, p4info: bytes::Bytes::new(), device_config, cookie: None };
            node.commit(&config, ReconcileMode::Nothing).expect("a good config");
        }
        let socket = folder.join("control.sock");
        let control = ControlSocket::open(&socket, Arc::new(NodeResponder(Arc::downgrade(&node))), true).unwrap();
        Served { node, wire: Some(wire), socket: socket.display().to_string(), _control: control }
    }

    /// Sets the idle timeout of sessions.
    fn expire_after(&self, timeout: Duration) {
        let batch: WriteBatch = [StateUpdate::ExpireTime(1, timeout.as_nanos() as u64)].into_iter().collect();
        self.node.write(&[batch]).expect("a program runs").remove(0).expect("a good batch");
    }

    /// Sends a packet of each flow, and returns the results of all.
    fn send(&mut self, flows: impl Iterator<Item = [u8; 32]>) -> Vec<u8> {
        let (mut results, mut sent) = (Vec::new(), 0);
        let wire = self.wire.as_mut().expect("no thread has it");
        for flow in flows {
            assert!(wire.send_bytes(&flow).unwrap());
            sent += 1;
            if sent % 64 == 0 {
                receive(wire, sent, &mut results);
            }
        }
        receive(wire, sent, &mut results);
        results
    }

    /// Returns the standard output of a command. Panics if it fails.
    fn run(&self, words: &[&str]) -> String {
        let (code, out, err) = terrace(&[words, &["--node", &self.socket]].concat());
        assert_eq!(code, 0, "{words:?}: {err}");
        out
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[&["--json"], words].concat())).expect("JSON")
    }

    fn count(&self, words: &[&str]) -> u64 {
        self.json(&[&["show", "sessions", "--count"], words].concat())["matching"].as_u64().expect("a number")
    }

    /// Returns the counts of the table `flows` as `terrace show tables` has them.
    fn flow_counts(&self) -> Value {
        let tables = self.json(&["show", "tables"]);
        let table =
            tables["tables"].as_array().unwrap().iter().find(|it| it["name"].as_str().unwrap().ends_with("flows"));
        table.expect("the table")["flows"].clone()
    }
}

/// Receives packets until `count` results are there.
fn receive(wire: &mut MemoryPort, count: usize, results: &mut Vec<u8>) {
    let deadline = Instant::now() + PATIENCE;
    while results.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} packets came back", results.len());
        match wire.take() {
            Some(packet) => results.push(packet.bytes()[13]),
            None => std::thread::yield_now(),
        }
    }
}

/// Returns the packet of flow `number` of a tenant's network 10.TENANT.0.0/16.
fn flow(tenant: u8, number: u16) -> [u8; 32] {
    let mut bytes = [0; 32];
    let [high, low] = number.to_be_bytes();
    bytes[..4].copy_from_slice(&[10, tenant, high, low]);
    bytes[4..8].copy_from_slice(&[192, 0, 2, 7]);
    bytes[8..12].copy_from_slice(&[4, 0, 0, 80]);
    bytes[12] = 6;
    bytes
}

fn flows(tenant: u8, count: u16) -> impl Iterator<Item = [u8; 32]> {
    (0..count).map(move |number| flow(tenant, number))
}

/// Checks output and deletion on one engine; both engines show the same.
fn check_commands(engine: SharedEngineFactory) {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), engine, &[], None);
    served.expire_after(Duration::from_secs(3600));
    assert!(served.send(flows(1, 700).chain(flows(2, 500))).iter().all(|result| *result == 1));
    let mut other = flow(3, 9);
    other[16..18].copy_from_slice(&[0x20, 0x01]);
    other[31] = 5;
    served.send(std::iter::once(other));

    assert_eq!(served.run(&["show", "sessions", "flows", "--count"]).trim(), "1201 sessions");
    assert_eq!((served.count(&[]), served.count(&["sources6"])), (1202, 1));
    let text = served.run(&["show", "sessions", "flows", "--match", "src=10.1.0.9"]);
    for part in [
        "Main.flows",
        "hdr.flow.src=10.1.0.9, hdr.flow.dst=192.0.2.7, hdr.flow.sport=1024, hdr.flow.dport=80, hdr.flow.protocol=6",
        "known(address=192.0.2.7, port=80)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert_eq!(text.lines().count(), 2, "{text}");
    let text = served.run(&["show", "sessions", "--match", "source6=2001::/16"]);
    assert!(text.contains("hdr.flow.source6=2001::5") && text.lines().count() == 2, "{text}");
    let few = served.run(&["show", "sessions", "flows", "--limit", "3"]);
    assert!(few.lines().count() == 5 && few.contains("1198 more sessions; --limit shows more"), "{few}");
    let rows = served.json(&["show", "sessions", "flows", "--match", "src=10.2.0.0/16", "--limit", "1000"]);
    assert_eq!(rows["sessions"].as_array().map(Vec::len), Some(500));
    let session = &rows["sessions"][0];
    let [idle, left] = ["idle_ns", "left_ns"].map(|name| session[name].as_u64().expect(name));
    // Idle times begin up to a minute after the last packet.
    assert!(idle == 0 && (3_600..3_662).contains(&(left / 1_000_000_000)), "{session}");
    assert_eq!(served.count(&["flows", "--match", "src=10.2.0.0/24", "--match", "dport=80"]), 256);
    assert_eq!(served.count(&["flows", "--idle-longer-than", "3000"]), 0);

    let deleted = served.run(&["sessions", "delete", "flows", "--match", "src=10.1.0.0/16"]);
    assert_eq!(deleted.trim(), "700 sessions deleted");
    assert_eq!(served.json(&["sessions", "delete", "flows", "--match", "src=10.1.0.0/16"])["deleted"], 0);
    assert_eq!(served.count(&["flows"]), 501);
    // A packet of a deleted session is one of a new session; others are not touched.
    assert_eq!(served.send([flow(1, 3), flow(2, 3)].into_iter()), [1, 2]);
    assert_eq!(served.count(&["flows"]), 502);
    assert_eq!(served.json(&["sessions", "delete", "flows", "--all"])["deleted"], 502);
    assert_eq!((served.count(&["flows"]), served.count(&["sources6"])), (0, 1));
}

#[test]
fn sessions_are_shown_counted_and_deleted_in_native_code() {
    check_commands(native());
}

#[test]
fn the_reference_engine_shows_the_same_sessions() {
    check_commands(reference());
}

#[test]
fn what_cannot_be_selected_is_refused_with_the_names_that_can() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), native(), &[], None);
    let refused = |words: &[&str]| {
        let (code, _, err) = terrace(&[words, &["--node", &served.socket]].concat());
        assert!(code != 0, "{words:?}");
        err
    };
    for (words, part) in [
        (&["show", "sessions", "nothing"][..], "there is no table `nothing`; the tables are"),
        (&["show", "sessions", "--match", "vni=1"], "has no key `vni`; it has"),
        (&["show", "sessions", "--match", "src"], "write KEY=VALUE"),
        (&["show", "sessions", "--match", "sport=70000"], "is no match for it"),
        (&["show", "sessions", "--idle-longer-than", "1e30"], "--idle-longer-than"),
        (&["sessions", "delete", "flows"], "--all"),
        (&["sessions", "delete", "flows", "--all", "--match", "sport=1"], "--all"),
    ] {
        let err = refused(words);
        assert!(err.contains(part), "{words:?}: {err}");
    }
}

#[test]
fn refusals_expiry_and_removals_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), native(), &[("SIZE", "size = 64;")], None);
    served.expire_after(Duration::from_millis(300));
    let results = served.send(flows(1, 100));
    let count = |wanted: u8| results.iter().filter(|result| **result == wanted).count();
    assert_eq!([count(1), count(3)], [64, 36]);
    let counts = served.flow_counts();
    assert_eq!([&counts["added_by_packets"], &counts["refused"]["full"]], [64, 36], "{counts}");
    let text = served.run(&["show", "tables"]);
    assert!(text.contains("full 36") && text.contains("1048576 (default)"), "{text}");
    let version = served.run(&["show", "version"]);
    assert!(version.contains("Main.sources6 has no `size`: it takes at most 1048576 entries"), "{version}");
    assert_eq!(served.json(&["sessions", "delete", "flows", "--match", "src=10.1.0.0/30"])["deleted"], 4);
    let deadline = Instant::now() + PATIENCE;
    while served.count(&["flows"]) != 0 {
        assert!(Instant::now() < deadline, "sessions do not expire");
        served.node.tick();
    }
    let counts = served.flow_counts();
    assert_eq!([&counts["removed"], &counts["expired"]], [4, 60], "{counts}");
    let metrics = Metrics::new(&served.node, Vec::new()).text();
    for sample in [
        "table_added_entries_total{table=\"Main.flows\",by=\"packet\"} 64",
        "table_refused_entries_total{table=\"Main.flows\",reason=\"full\"} 36",
        "table_expired_entries_total{table=\"Main.flows\"} 60",
        "table_removed_entries_total{table=\"Main.flows\"} 4",
        "table_size{table=\"Main.flows\"} 64",
        "table_size{table=\"Main.sources6\"} 1048576",
        "table_entries_max{table=\"Main.flows\"} 64",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
    served.run(&["reset-counters"]);
    assert_eq!(served.flow_counts()["expired"], 0);
    let stats = served.node.observe().stats.flow_tables;
    assert_eq!(stats.values().map(|counts| counts.expired).sum::<u64>(), 60, "metrics go on: {stats:?}");
}

/// Returns the number of tenants, and of sessions of each: `SESSIONS` in the environment, for
/// measurements, or 40,000 in all.
fn scale() -> (u8, u16) {
    let sessions = std::env::var("SESSIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(40_000u32);
    (8, u16::try_from(sessions / 8).expect("at most 524,280 sessions"))
}

#[test]
fn packets_flow_while_sessions_are_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), native(), &[], None);
    served.expire_after(Duration::from_secs(3600));
    let (tenants, count) = scale();
    (1..=tenants).for_each(|tenant| drop(served.send(flows(tenant, count))));
    let (stop, passed, slowest_us) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut wire = served.wire.take().expect("no thread has it");
    std::thread::scope(|scope| {
        let (stop, passed, slowest_us) = (&stop, &passed, &slowest_us);
        // Packets of one tenant hit, and those of another are new all the time.
        let traffic = scope.spawn(move || {
            let (mut results, mut sent, mut new) = (Vec::new(), 0, 0u16);
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                for number in 0..64u16 {
                    assert!(wire.send_bytes(&flow(1, number)).unwrap());
                    assert!(wire.send_bytes(&flow(200, new)).unwrap());
                    new = new.wrapping_add(1);
                    sent += 2;
                }
                receive(&mut wire, sent, &mut results);
                slowest_us.fetch_max(began.elapsed().as_micros() as u64, Ordering::Relaxed);
                passed.store(sent as u64, Ordering::Relaxed);
            }
            assert!(results.iter().step_by(2).all(|result| *result == 2), "a session that stays is hit always");
        });
        let measured = |what: &str, began: Instant| {
            let slowest = slowest_us.swap(0, Ordering::Relaxed);
            println!("{what}: {:?}; slowest 128 packets: {slowest} us", began.elapsed());
        };
        let check = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let began = Instant::now();
            std::thread::sleep(Duration::from_millis(100));
            measured("traffic alone", began);
            for tenant in 2..=tenants {
                let network = format!("src=10.{tenant}.0.0/16");
                let before = passed.load(Ordering::Relaxed);
                let words = ["flows", "--match", &network];
                let began = Instant::now();
                assert_eq!(served.count(&words), u64::from(count));
                measured("count", began);
                let began = Instant::now();
                let deleted = served.json(&[&["sessions", "delete"], &words[..]].concat())["deleted"].clone();
                measured("delete", began);
                assert_eq!(deleted, count, "{network}");
                assert_eq!(served.count(&words), 0);
                assert!(passed.load(Ordering::Relaxed) > before, "packets passed meanwhile");
                // Sessions that packets are adding at this moment.
                (0..4).for_each(|_| drop(served.run(&["sessions", "delete", "flows", "--match", "src=10.200.0.0/16"])));
            }
            assert_eq!(served.count(&["flows", "--match", "src=10.1.0.0/16"]), u64::from(count));
        }));
        stop.store(true, Ordering::Relaxed);
        traffic.join().expect("traffic");
        check.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    // The table of packets and the control state agree, however sessions came and went.
    let service = Direct::new(served.node.clone());
    let in_state = read(&service, v1::TableEntry { table_id: table_id(&served.node), ..Default::default() });
    assert_eq!(served.count(&["flows"]), in_state.len() as u64);
}

/// Returns the P4Info id of the table `flows`.
fn table_id(node: &Node) -> u32 {
    let info = ir::p4info::generate(&node.running().expect("runs").pipeline);
    info.tables.iter().find(|table| table.preamble.name.ends_with("flows")).expect("the table").preamble.id
}

/// Reads the entries of the table `flows` that a pattern matches, by P4Runtime.
fn read(service: &Direct, pattern: v1::TableEntry) -> Vec<v1::TableEntry> {
    let wanted = v1::Entity { entity: Some(v1::entity::Entity::TableEntry(pattern)) };
    let request = v1::ReadRequest { device_id: 1, entities: vec![wanted], ..Default::default() };
    let found = service.read(&request).expect("a good request").into_iter();
    let entry = |entity: v1::Entity| match entity.entity {
        Some(v1::entity::Entity::TableEntry(entry)) => entry,
        other => panic!("{other:?}"),
    };
    found.map(entry).collect()
}

/// Writes an update of an entry, by P4Runtime.
fn write(service: &Direct, kind: v1::update::Type, entry: v1::TableEntry) {
    let entity = v1::Entity { entity: Some(v1::entity::Entity::TableEntry(entry)) };
    let update = v1::Update { r#type: kind.into(), entity: Some(entity) };
    service.write(&v1::WriteRequest { device_id: 1, updates: vec![update], ..Default::default() }).expect("written");
}

#[test]
fn controllers_read_change_and_delete_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = Served::start(folder.path(), native(), &[], None);
    served.expire_after(Duration::from_secs(3600));
    // More than a page of the control state.
    let count = 10_000;
    served.send(flows(1, count));
    let service = Direct::new(served.node.clone());
    let idle = Some(v1::table_entry::IdleTimeout::default());
    let all = v1::TableEntry { table_id: table_id(&served.node), time_since_last_hit: idle, ..Default::default() };
    let found = read(&service, all.clone());
    let keys: HashSet<Vec<u8>> = found.iter().map(|entry| format!("{:?}", entry.r#match).into_bytes()).collect();
    assert_eq!([found.len(), keys.len()], [usize::from(count); 2]);
    assert!(found.iter().all(|entry| entry.time_since_last_hit.is_some()));
    // A key finds its entry alone, with what a controller has set.
    let by_key = v1::TableEntry { r#match: found[0].r#match.clone(), ..all.clone() };
    assert_eq!(read(&service, by_key.clone()).len(), 1);
    let mut changed = v1::TableEntry { metadata: vec![7].into(), time_since_last_hit: None, ..found[0].clone() };
    let Some(v1::table_action::Type::Action(action)) = changed.action.as_mut().and_then(|it| it.r#type.as_mut()) else {
        panic!("{changed:?}")
    };
    action.params[1].value = vec![9].into();
    write(&service, v1::update::Type::Modify, changed.clone());
    let now = read(&service, by_key.clone()).remove(0);
    assert_eq!((&now.action, &now.metadata), (&changed.action, &changed.metadata));
    assert_eq!(read(&service, v1::TableEntry { metadata: vec![7].into(), ..all.clone() }).len(), 1);
    write(&service, v1::update::Type::Delete, v1::TableEntry { metadata: Vec::new().into(), ..changed });
    assert_eq!(read(&service, by_key).len(), 0);
    assert_eq!((served.count(&["flows"]), read(&service, all).len()), (u64::from(count) - 1, usize::from(count) - 1));
    // The next packet of the flow is a new session.
    let results = served.send(flows(1, count));
    assert_eq!(results.iter().filter(|result| **result == 1).count(), 1);
}

#[test]
fn a_deleted_session_does_not_come_back_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    // The node that answered the last command can exist for a moment after it was dropped here.
    let open = || {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Store::open(&folder.path().join("store")) {
                Ok(store) => return Some(store),
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let served = Served::start(folder.path(), native(), &[], open());
    let pipeline = served.node.running().expect("runs").pipeline;
    let mut batch = WriteBatch::new();
    for (number, network) in ["10.1.0.1", "10.1.0.2", "10.2.0.1"].into_iter().enumerate() {
        let text = format!("flows: src={network}, dst=192.0.2.1, sport={number}, dport=1, protocol=6 -> known(1, 2)");
        batch.insert(entries::parse_entry(&pipeline, &text).expect("a good entry"));
    }
    served.node.write(&[batch]).expect("stored").remove(0).expect("a good batch");
    let counts = served.flow_counts();
    assert_eq!([&counts["added_by_control"], &counts["added_by_packets"]], [3, 0], "{counts}");
    assert_eq!(served.json(&["sessions", "delete", "flows", "--match", "src=10.1.0.0/16"])["deleted"], 2);
    drop(served);
    let served = Served::start(folder.path(), native(), &[], open());
    let rows = served.json(&["show", "sessions", "flows"]);
    assert_eq!((&rows["matching"], &rows["sessions"][0]["keys"][0]["value"]), (&1.into(), &"10.2.0.1".into()));
    let counts = served.flow_counts();
    assert_eq!(
        [&counts["added_by_control"], &counts["added_by_packets"]],
        [0, 0],
        "restored ones are not new: {counts}"
    );
}
