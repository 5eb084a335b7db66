//! Tests `terraced --takeover`: new processes take over from each other while packets flow, a
//! controller writes atomic batches and commits pipelines. No packet is lost, duplicated or
//! reordered, or sees half of a batch; no acknowledged write is missing.
//!
//! TERRACE_UPDATES, TERRACE_COMMITS and TERRACE_TAKEOVERS set the amounts (docs/reference/node.md
//! has the command), TERRACE_SEED repeats a run.

use crate::daemon::{Daemon, config_in};
use crate::forward::Forward;
use crate::namespaces::Namespaces;
use crate::wire::{KIND, Seen, Stopping, drive};
use io::memif::MemifPort;
use io::{Namespace, Port, RawPort};
use ir::Pipeline;
use p4runtime::client::{Client, Stream, forwarding};
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::proto::v1::update::Type;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{Entity, FieldMatch, TableAction, TableEntry, Update, entity, field_match, table_action};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Updates per batch, besides the two marks.
const BATCH: u64 = 40;
/// Number of possible destinations of entries.
const SPACE: u64 = 20_000;
const PATIENCE: Duration = Duration::from_secs(20);
/// Canonical codes of requests to an ending process: cancelled, unknown, permission denied,
/// internal, unavailable.
const ENDING: [i32; 5] = [1, 2, 7, 13, 14];

fn env_number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Compiles `marks.p4` as program 1 or 2.
fn program(number: u8) -> Pipeline {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let options = p4::compile::CompileOptions {
        include_dirs: vec![root.join("../../programs/include")],
        defines: vec![("PROGRAM".into(), number.to_string())],
        ..Default::default()
    };
    let file = root.join("tests/programs/marks.p4");
    p4::compile::compile(&p4::preprocess::DiskLoader, &file, &options).pipeline.expect("it compiles")
}

/// Returns the updates of both marks, for one batch.
fn marks(pipeline: &Pipeline, kind: Type, mark: u16) -> Vec<Update> {
    let info = ir::p4info::generate(pipeline);
    let short = |mark: u16| {
        let bytes = mark.to_be_bytes();
        bytes::Bytes::copy_from_slice(if bytes[0] == 0 { &bytes[1..] } else { &bytes })
    };
    let one = |table: &str, action: &str| {
        let table = info.tables.iter().find(|t| t.preamble.name.ends_with(table)).expect("the table").preamble.id;
        let action = info.actions.iter().find(|a| a.preamble.name.ends_with(action)).expect("the action").preamble.id;
        let value = bytes::Bytes::copy_from_slice(&KIND.to_be_bytes());
        let exact = field_match::FieldMatchType::Exact(field_match::Exact { value });
        let params = vec![p4runtime::proto::v1::action::Param { param_id: 1, value: short(mark) }];
        let action = p4runtime::proto::v1::Action { action_id: action, params };
        let entry = TableEntry {
            table_id: table,
            r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact) }],
            action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
            ..TableEntry::default()
        };
        Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) }) }
    };
    vec![one("first", "first_mark"), one("second", "second_mark")]
}

/// Controller that records the entries that it has written.
struct Controller {
    uri: String,
    connection: Option<(Client, Stream)>,
    forward: Forward,
    programs: [Pipeline; 2],
    /// Acknowledged entries: destination and port.
    entries: BTreeMap<u64, u64>,
    random: fastrand::Rng,
    updates: u64,
    batches: u64,
    commits: u64,
    /// Requests that failed because another process took over.
    refused: u64,
}

impl Controller {
    fn new(uri: String, seed: u64) -> Controller {
        let programs = [program(1), program(2)];
        let forward = Forward::new(&programs[0]);
        let random = fastrand::Rng::with_seed(seed);
        let (entries, connection) = (BTreeMap::from([(1, 1)]), None);
        Controller {
            uri,
            connection,
            forward,
            programs,
            entries,
            random,
            updates: 0,
            batches: 0,
            commits: 0,
            refused: 0,
        }
    }

    /// Connects, retrying until a process accepts.
    async fn client(&mut self) -> &mut Client {
        let began = Instant::now();
        while self.connection.is_none() {
            let options = p4runtime::client::ConnectOptions::default();
            if let Ok(mut client) = Client::connect(&self.uri, 1, &options).await
                && let Ok((stream, _)) = client.arbitrate(Some(1)).await
            {
                self.connection = Some((client, stream));
            }
            assert!(began.elapsed() < PATIENCE, "nobody serves on {}", self.uri);
        }
        let Some((client, _)) = &mut self.connection else { unreachable!("just made") };
        client
    }

    async fn commit(&mut self, action: Action) {
        let pipeline = &self.programs[(self.commits % 2) as usize];
        let info = p4runtime::p4info::to_message(&ir::p4info::generate(pipeline));
        let config = forwarding(info, ir::text::print(pipeline).into_bytes(), self.commits);
        while let Err(status) = self.client().await.set_pipeline(action, Some(config.clone())).await {
            self.lost(status.code() as i32, status.message());
        }
        self.commits += 1;
    }

    /// Handles a failed request. The only valid reason is an ending process, because its
    /// connections and streams, which identify the primary, end.
    fn lost(&mut self, code: i32, message: &str) {
        assert!(ENDING.contains(&code), "code {code}: {message}");
        self.refused += 1;
        self.connection = None;
    }

    async fn begin(&mut self) {
        self.commit(Action::VerifyAndCommit).await;
        let mut updates = marks(&self.programs[0], Type::Insert, 0);
        updates.push(self.forward.update(Type::Insert, 1, 1));
        self.client().await.write(updates, Atomicity::DataplaneAtomic).await.expect("good entries");
    }

    /// Writes one atomic batch: both marks, and random inserts, modifies and deletes.
    async fn write(&mut self) {
        let mut next = self.entries.clone();
        let mut updates = marks(&self.programs[0], Type::Modify, (self.batches % 60_000) as u16 + 1);
        for _ in 0..BATCH {
            let (destination, port) = (self.random.u64(2..SPACE), self.random.u64(2..500));
            let kind = match (next.contains_key(&destination), self.random.bool()) {
                (false, _) => Type::Insert,
                (true, false) => Type::Modify,
                (true, true) => Type::Delete,
            };
            match kind {
                Type::Delete => next.remove(&destination),
                _ => next.insert(destination, port),
            };
            updates.push(self.forward.update(kind, destination, port));
        }
        let count = updates.len() as u64;
        loop {
            match self.client().await.write(updates.clone(), Atomicity::DataplaneAtomic).await {
                Ok(()) => break,
                Err(status) => self.lost(status.code() as i32, status.message()),
            }
            // It was applied completely or not at all. Earlier acknowledged writes exist in any
            // case.
            let found = self.read().await;
            if found == next {
                break;
            }
            assert!(found == self.entries, "{} entries, not those of whole batches", found.len());
        }
        self.entries = next;
        self.updates += count;
        self.batches += 1;
    }

    /// Reads the node's entries of `forward`.
    async fn read(&mut self) -> BTreeMap<u64, u64> {
        loop {
            self.client().await;
            let Some((client, _)) = &mut self.connection else { unreachable!("just made") };
            match self.forward.try_read(client).await {
                Ok(entries) => return entries,
                Err((code, message)) => self.lost(code, &message),
            }
        }
    }
}

/// Node with one port, which other processes take over.
pub struct Bench {
    pub folder: tempfile::TempDir,
    config: String,
    pub daemon: Daemon,
}

impl Bench {
    pub fn new(device: &str, more: &str) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let device = device.replace("SOCKET", &path("port.sock"));
        let config = format!(
            "store = {:?}\ntakeover_socket = {:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[[port]]\nnumber = 1\ndevice = {device:?}\n{more}",
            path("store"),
            path("takeover")
        );
        let daemon = Daemon::with(&config_in(folder.path(), &config), &[]);
        Bench { folder, config, daemon }
    }

    /// Starts a process that takes over. The previous one must end without an error.
    pub fn take_over(&mut self) {
        let new = Daemon::run(&config_in(self.folder.path(), &self.config), &[], &["--takeover"]);
        let mut old = std::mem::replace(&mut self.daemon, new);
        let began = Instant::now();
        let status = loop {
            match old.child.try_wait().expect("it is ours") {
                Some(status) => break status,
                None => assert!(began.elapsed() < PATIENCE, "the old process does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
        assert_eq!(old.uri, self.daemon.uri, "the listening socket went over");
    }
}

/// Runs traffic on `end` while a controller writes and commits, and processes take over. Returns
/// the received frames.
fn load(bench: &mut Bench, end: &mut (dyn Port + '_), updates: u64, commits: u64, takeovers: u64) -> Seen {
    let seed = env_number("TERRACE_SEED", fastrand::u64(..));
    println!("TERRACE_SEED={seed}");
    let mut controller = Controller::new(bench.daemon.uri.clone(), seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    runtime.block_on(controller.begin());
    let (stop, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let (seen, controller) = std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let traffic = scope.spawn(|| drive(end, &stop));
        let writing = scope.spawn(|| {
            runtime.block_on(async {
                while controller.updates < updates {
                    controller.write().await;
                    progress.store(controller.updates, Ordering::Relaxed);
                    if controller.updates >= controller.commits * updates / commits.max(1) {
                        controller.commit(Action::ReconcileAndCommit).await;
                    }
                }
                // The last process has all entries.
                assert!(controller.read().await == controller.entries, "entries");
            });
            controller
        });
        for number in 0..takeovers {
            while progress.load(Ordering::Relaxed) < number * updates / takeovers && !writing.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            bench.take_over();
        }
        let controller = writing.join().expect("the controller");
        stop.store(true, Ordering::Relaxed);
        (traffic.join().expect("no packet was lost"), controller)
    });
    let Controller { updates, batches, commits, refused, .. } = controller;
    println!(
        "{updates} updates in {batches} batches, {commits} commits, {takeovers} take-overs ({refused} requests again), {} packets, {} lost, {} halves, at most {:?} without any, {:?}",
        seen.back,
        seen.sent - seen.back,
        seen.halves,
        seen.longest,
        began.elapsed()
    );
    seen
}

/// Uses a raw socket on a veth pair. Needs root, because it creates a network namespace.
#[test]
fn an_interface_goes_from_process_to_process_without_loss() {
    let Some(namespaces) = Namespaces::new(1) else { return };
    for command in ["link add va type veth peer name vb", "link set va up", "link set vb up"] {
        namespaces.ip(0, command);
    }
    let mut bench = Bench::new("va", &format!("driver = \"raw\"\nnetns = {:?}\n", namespaces.name(0)));
    let namespace = Namespace::open(namespaces.name(0)).expect("it was made");
    let mut end = namespace.run(|| RawPort::open("vb")).expect("entered").expect("a port");
    let seen = load(&mut bench, &mut end, 4_000, 2, 2);
    assert_eq!((seen.halves, seen.sent), (0, seen.back));
    assert!(seen.back > 1000, "too little to mean anything: {seen:?}");
}

#[test]
fn process_after_process_takes_over_under_load_and_nothing_is_lost() {
    let (updates, commits, takeovers) =
        (env_number("TERRACE_UPDATES", 12_000), env_number("TERRACE_COMMITS", 6), env_number("TERRACE_TAKEOVERS", 4));
    let mut bench = Bench::new("memif:socket=SOCKET,role=server", "");
    let socket = bench.folder.path().join("port.sock");
    let mut end = MemifPort::open(&format!("memif:socket={},role=client", socket.display())).expect("a port");
    let began = Instant::now();
    while end.port_fault().is_some() {
        assert!(began.elapsed() < PATIENCE, "{:?}", end.last_fault());
    }
    let seen = load(&mut bench, &mut end, updates, commits, takeovers);
    assert_eq!((seen.halves, seen.sent), (0, seen.back));
    assert!(seen.back > 1000 && seen.marks.len() > 20, "too little to mean anything: {seen:?}");
    assert!(seen.programs[1] > 0 && seen.programs[2] > 0, "{seen:?}");
}
