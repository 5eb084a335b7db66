//! Tests `terraced --takeover`: the next process gets the server's state, which is digests with
//! waiting messages, and a config that waits for `COMMIT`. The service manager learns the new main
//! process.

use crate::daemon::{Daemon, config_in};
use crate::forward::{Forward, pipeline};
use crate::signals::manager;
use crate::takeover::Bench;
use crate::wire::frame;
use io::Port;
use io::memif::MemifPort;
use p4runtime::client::{Client, Stream, forwarding};
use p4runtime::proto::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::proto::v1::write_request::Atomicity;
use p4runtime::proto::v1::{
    DigestEntry, DigestList, Entity, Update, digest_entry, entity, stream_message_response, update::Type,
};
use packet::{Batch, Packet, PortId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// EtherType of frames; the program reports their source.
const LEARNED: u16 = 0x88cd;

/// Returns a config for lists of three messages without a time-out.
fn digest() -> DigestEntry {
    let info = ir::p4info::generate(&pipeline());
    let config = digest_entry::Config { max_timeout_ns: i64::MAX, max_list_size: 3, ack_timeout_ns: 0 };
    DigestEntry { digest_id: info.digests[0].preamble.id, config: Some(config) }
}

fn enable(kind: Type) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity::Entity::DigestEntry(digest())) }) }
}

async fn digests(client: &mut Client) -> Vec<DigestEntry> {
    let all = Entity { entity: Some(entity::Entity::DigestEntry(DigestEntry::default())) };
    let entities = client.read_all(vec![all]).await.expect("it answers");
    let one = |entity: Entity| match entity.entity {
        Some(entity::Entity::DigestEntry(digest)) => digest,
        other => panic!("{other:?} is no digest"),
    };
    entities.into_iter().map(one).collect()
}

/// Starts a node with a memif. Returns it with the memif's other end.
fn bench() -> (Bench, MemifPort) {
    let bench = Bench::new("memif:socket=SOCKET,role=server", "");
    let socket = bench.folder.path().join("port.sock");
    let mut end = MemifPort::open(&format!("memif:socket={},role=client", socket.display())).expect("a port");
    let began = Instant::now();
    while end.port_fault().is_some() {
        assert!(began.elapsed() < PATIENCE, "{:?}", end.last_fault());
    }
    (bench, end)
}

/// Sends a frame from a source that the program reports, and waits until it returns.
fn learn(end: &mut MemifPort, source: u8) {
    let mut bytes = frame(0);
    bytes[11] = source;
    bytes[12..14].copy_from_slice(&LEARNED.to_be_bytes());
    let packet = Packet::from_bytes(&bytes).expect("short");
    assert_eq!(end.send_all(&mut std::iter::once(&packet)), 1);
    let (mut batch, began) = (Batch::new(), Instant::now());
    while batch.is_empty() {
        end.receive(PortId(1), &mut batch).expect("it works");
        assert!(began.elapsed() < PATIENCE, "it does not come back");
    }
}

/// Returns the next list.
async fn list(stream: &mut Stream) -> DigestList {
    let next = async {
        loop {
            let message = stream.next().await.expect("the stream is open").expect("the stream goes on");
            if let Some(stream_message_response::Update::Digest(list)) = message.update {
                return list;
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("a list comes")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_list_goes_on_in_the_next_process() {
    let (mut bench, mut end) = bench();
    {
        let (mut client, mut stream) = bench.daemon.client().await;
        crate::forward::commit(&mut client, &pipeline()).await;
        let entry = Forward::new(&pipeline()).update(Type::Insert, 1, 1);
        client.write(vec![entry, enable(Type::Insert)], Atomicity::ContinueOnError).await.expect("good");
        for source in 1..=3 {
            learn(&mut end, source);
        }
        let first = list(&mut stream).await;
        assert_eq!((first.list_id, first.data.len()), (1, 3));
        learn(&mut end, 4);
    }
    bench.take_over();
    learn(&mut end, 5);
    // The process that holds the list is replaced, and the list waits on in the third process.
    bench.take_over();
    let (mut client, mut stream) = bench.daemon.client().await;
    assert_eq!(digests(&mut client).await, [digest()]);
    let again = client.write(vec![enable(Type::Insert)], Atomicity::ContinueOnError).await;
    assert!(again.is_err(), "it is enabled already");
    learn(&mut end, 6);
    let second = list(&mut stream).await;
    assert_eq!((second.list_id, second.data.len()), (2, 3), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_enabled_after_a_kill_until_another_pipeline_is_set() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let killed = |mut daemon: Daemon| {
        daemon.child.kill().expect("it runs");
        daemon.child.wait().expect("it is ours");
    };
    let (daemon, _) = Daemon::start(&store);
    let (mut client, _stream) = daemon.client().await;
    crate::forward::commit(&mut client, &pipeline()).await;
    client.write(vec![enable(Type::Insert)], Atomicity::ContinueOnError).await.expect("good");
    killed(daemon);
    let (daemon, _) = Daemon::start(&store);
    let (mut client, _stream) = daemon.client().await;
    assert_eq!(digests(&mut client).await, [digest()]);
    crate::forward::commit(&mut client, &pipeline()).await;
    assert_eq!(digests(&mut client).await, []);
    killed(daemon);
    let (daemon, _) = Daemon::start(&store);
    let (mut client, _stream) = daemon.client().await;
    assert_eq!(digests(&mut client).await, []);
    client.write(vec![enable(Type::Insert)], Atomicity::ContinueOnError).await.expect("good");
    client.write(vec![enable(Type::Delete)], Atomicity::ContinueOnError).await.expect("good");
    killed(daemon);
    let (daemon, _) = Daemon::start(&store);
    let (mut client, _stream) = daemon.client().await;
    assert_eq!(digests(&mut client).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_commit_waits_in_the_next_process() {
    let (mut bench, _end) = bench();
    let forward = Forward::new(&pipeline());
    let info = p4runtime::p4info::to_message(&ir::p4info::generate(&pipeline()));
    let config = forwarding(info, ir::text::print(&pipeline()).into_bytes(), 9);
    {
        let (mut client, _stream) = bench.daemon.client().await;
        crate::forward::commit(&mut client, &pipeline()).await;
        let entry = forward.update(Type::Insert, 1, 1);
        client.write(vec![entry], Atomicity::ContinueOnError).await.expect("good");
        client.set_pipeline(Action::VerifyAndSave, Some(config)).await.expect("a good config");
        for (destination, port) in [(5, 2), (6, 3)] {
            let entry = forward.update(Type::Insert, destination, port);
            client.write(vec![entry], Atomicity::ContinueOnError).await.expect("good");
        }
        client.write(vec![enable(Type::Insert)], Atomicity::ContinueOnError).await.expect("good");
    }
    for _ in 0..2 {
        bench.take_over();
    }
    let (mut client, _stream) = bench.daemon.client().await;
    let waiting = BTreeMap::from([(5, 2), (6, 3)]);
    assert_eq!(forward.read(&mut client).await, waiting, "reads are of what waits");
    assert_eq!(digests(&mut client).await, [digest()]);
    client.set_pipeline(Action::Commit, None).await.expect("it waits");
    assert_eq!(forward.read(&mut client).await, waiting);
    assert_eq!(digests(&mut client).await, [digest()]);
    assert_eq!(
        client.pipeline().await.expect("it answers").and_then(|config| config.cookie).map(|c| c.cookie),
        Some(9)
    );
}

/// Process that is not a child of the test. Dropping this ends it.
pub struct Other(pub String);

impl Other {
    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args(["-s", name, &self.0]).status().expect("there is kill");
        assert!(sent.success(), "process {} is there", self.0);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill")
            .args(["-s", "KILL", &self.0])
            .stderr(std::process::Stdio::null())
            .status();
    }
}

#[test]
fn a_signal_lets_the_installed_program_take_over_as_part_of_the_same_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manager, socket) = manager(folder.path());
    let text = |takeover: &str| format!("{takeover}[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n");
    let socket_at = format!("takeover_socket = {:?}\n", folder.path().join("takeover"));
    let config = config_in(folder.path(), &text(&socket_at));
    let environment = [("NOTIFY_SOCKET", socket.as_str()), ("WATCHDOG_USEC", "300000")];
    let mut first = Daemon::with(&config, &environment);
    manager.next_message_with("READY=1");
    // A rejected configuration: the first process continues.
    config_in(folder.path(), &text("takeover_socket = 5\n"));
    first.signal("USR2");
    first.wait_for_log(&["the successor process has ended without taking over"]);
    config_in(folder.path(), &text(&socket_at));
    first.signal("USR2");
    let ready = manager.next_message_with("READY=1");
    let process = message_value(&ready, "MAINPID").expect("it says which").to_owned();
    assert_ne!(process, first.child.id().to_string());
    let next = Other(process);
    assert!(first.child.wait().expect("it is ours").success());
    // It sends watchdog messages from now on.
    manager.next_message_with("WATCHDOG=1");
    manager.next_message_with("WATCHDOG=1");
    next.signal("TERM");
    manager.next_message_with("STOPPING=1");
}

/// Returns the value of a name in a message to the service manager.
pub fn message_value<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn the_service_manager_is_told_which_process_the_service_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (manager, socket) = manager(folder.path());
    let environment = [("NOTIFY_SOCKET", socket.as_str())];
    let takeover: PathBuf = folder.path().join("takeover");
    let config =
        config_in(folder.path(), &format!("takeover_socket = {takeover:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n"));
    let mut running = Daemon::with(&config, &environment);
    let ready = manager.next_message_with("READY=1");
    assert_eq!(message_value(&ready, "MAINPID"), Some(running.child.id().to_string().as_str()), "{ready}");
    let mut all = Vec::new();
    for _ in 0..2 {
        let taker = Daemon::run(&config, &environment, &["--takeover"]);
        all.extend(manager.messages_up_to("READY=1"));
        let ready = all.last().expect("it is the last");
        assert_eq!(message_value(ready, "MAINPID"), Some(taker.child.id().to_string().as_str()), "{ready}");
        assert!(running.child.wait().expect("it is ours").success());
        running = taker;
    }
    // Replaced processes did not report that the service stops.
    running.signal("TERM");
    assert!(running.child.wait().expect("it is ours").success());
    all.extend(manager.messages_up_to("STOPPING=1"));
    let ends = all.iter().filter(|message| message_value(message, "STOPPING").is_some()).count();
    // A replaced process would have reported it before it ended.
    assert_eq!(ends, 1, "{all:?}");
}
