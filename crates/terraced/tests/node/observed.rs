//! Tests that a node's control socket and metrics both report its real events.

use crate::support::{KIND, Wired, entry, frame, mark, marks};
use entries::{StateUpdate, UpdateKind, WriteBatch};
use node::Node;
use node::admin::protocol::{ControlRequest, ControlResponse, EntriesRequest};
use node::admin::responder::NodeResponder;
use node::admin::{ControlSocket, ResponseStream, ask};
use node::metrics::Metrics;
use node::metrics::top::CounterDisplay;
use node::status::TableStatus;
use p4runtime::ReconcileMode;
use packet::Counter;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Node with two workers, entries, and a control socket.
struct Shown {
    node: Arc<Node>,
    ends: Vec<io::memory::MemoryPort>,
    socket: PathBuf,
    _control: ControlSocket,
    _folder: tempfile::TempDir,
}

fn shown() -> Shown {
    let Wired { node, ends } = {
        let wired = Wired::start(2, None);
        wired.commit(&marks(&["PROGRAM=1"]), ReconcileMode::Nothing);
        wired.write(&mark(&wired.node, UpdateKind::Insert, 7));
        let mut forward = WriteBatch::new();
        forward.push(StateUpdate::Entry(UpdateKind::Insert, entry(&wired.node, "forward", 1, "out_of", &[1])));
        wired.write(&forward);
        wired
    };
    let node = Arc::new(node);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("deep/control.sock");
    let control =
        ControlSocket::open(&socket, Arc::new(NodeResponder(Arc::downgrade(&node))), false).expect("a socket");
    Shown { node, ends, socket, _control: control, _folder: folder }
}

/// Sends frames of 64 bytes on an end: `known` to destination 1, which has an entry, and `unknown`
/// to another, which are dropped.
fn send(shown: &mut Shown, end: usize, known: u32, unknown: u32) {
    let before = shown.node.observe().sum().received.packets;
    for number in 0..known + unknown {
        let mut bytes = frame(number);
        bytes[5] = if number < known { 1 } else { 2 };
        assert!(shown.ends[end].send_bytes(&bytes).expect("short enough"));
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while shown.node.observe().sum().received.packets < before + u64::from(known + unknown) {
        assert!(Instant::now() < deadline, "the packets did not arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Port counters are updated at a tick.
    std::thread::sleep(Duration::from_millis(50));
}

fn tables(socket: &Path) -> BTreeMap<String, TableStatus> {
    let Ok(ControlResponse::Tables { tables }) = ask(socket, &ControlRequest::Tables) else { panic!("no tables") };
    tables.into_iter().map(|table| (table.name.rsplit('.').next().unwrap_or_default().to_owned(), table)).collect()
}

fn count(packets: u64) -> Counter {
    Counter { packets, bytes: packets * 64 }
}

/// Returns the value of the metrics line that starts with `line`.
fn metric(text: &str, line: &str) -> f64 {
    let found = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("no `{line}` in\n{text}"))
}

#[test]
fn what_is_shown_is_what_happened() {
    let mut shown = shown();
    send(&mut shown, 0, 300, 100);
    send(&mut shown, 1, 50, 0);
    let socket = shown.socket.clone();

    let all = tables(&socket);
    assert_eq!((all["first"].hits, all["first"].misses), (count(450), count(0)));
    assert_eq!((all["forward"].hits, all["forward"].misses), (count(350), count(100)));
    assert_eq!((all["forward"].entries, all["forward"].high_water, all["forward"].size), (1, 1, Some(20_000_000)));
    assert!(all["forward"].memory_bytes > 0 && all["forward"].id != 0);
    assert_eq!((all["forward"].keys[0].kind.as_str(), all["forward"].keys[0].bits), ("exact", 48));
    let actions: BTreeMap<&str, (Counter, Counter)> =
        all["forward"].actions.iter().map(|a| (a.name.rsplit('.').next().unwrap_or(""), (a.hits, a.misses))).collect();
    assert_eq!(actions["out_of"], (count(350), count(0)));
    assert_eq!(actions["drop"], (count(0), count(100)));

    let Ok(ControlResponse::Ports { ports }) = ask(&socket, &ControlRequest::Ports) else { panic!("no ports") };
    let port = ports.iter().find(|port| port.number == 1).expect("port 1");
    assert_eq!((port.received, port.sent, port.fault.as_deref()), (count(450), count(350), None));

    let Ok(ControlResponse::Stages { stages, interpreted: None }) = ask(&socket, &ControlRequest::Stages) else {
        panic!("no stages")
    };
    let stage = |name: &str| stages.iter().find(|s| s.name.ends_with(name)).unwrap_or_else(|| panic!("{stages:?}"));
    assert_eq!((stage("parser").packets, stage("parser").bytes), (450, Some(450 * 64)));
    assert_eq!((stage("forward").packets, stage("forward").bytes), (450, Some(450 * 64)));
    let share: f64 = stages.iter().map(|stage| stage.share).sum();
    assert!((share - 1.0).abs() < 1e-6 && stages.iter().all(|stage| stage.nanoseconds >= 0.0), "{stages:?}");

    let Ok(ControlResponse::Drops { drops }) = ask(&socket, &ControlRequest::Drops) else { panic!("no drops") };
    let dropped: Vec<(&str, u64)> = drops.iter().map(|drop| (drop.by.as_str(), drop.count.packets)).collect();
    assert_eq!(dropped, [("program", 100)], "{drops:?}");

    let Ok(ControlResponse::Workers { workers }) = ask(&socket, &ControlRequest::Workers) else { panic!("no workers") };
    assert_eq!(workers.iter().map(|worker| worker.received.packets).collect::<Vec<_>>(), [400, 50]);
    assert!(workers.iter().all(|w| w.busy > 0.0 && w.busy <= 1.0 && w.lag == 0), "{workers:?}");
    assert_eq!(workers.iter().map(|worker| worker.latency.count).collect::<Vec<_>>(), [400, 50]);

    let Ok(ControlResponse::Version(version)) = ask(&socket, &ControlRequest::Version) else { panic!("no version") };
    let program = version.program.expect("a program runs");
    assert_eq!((program.cookie, program.architecture.as_str(), program.interpreted), (Some(7), "v1model", None));
    assert!(program.native_code_bytes > 0 && version.pid == std::process::id());
}

#[test]
fn entries_are_shown_by_name_with_their_counters() {
    let mut shown = shown();
    let mut more = WriteBatch::new();
    for destination in 2..2000 {
        more.push(StateUpdate::Entry(UpdateKind::Insert, entry(&*shown.node, "forward", destination, "out_of", &[5])));
    }
    p4runtime::Device::write(&*shown.node, &[more]).expect("a pipeline runs")[0].clone().expect("a good batch");
    send(&mut shown, 0, 20, 0);
    let read = |table: &str, filter: Option<&str>, limit: u64| {
        let of = EntriesRequest { table: table.into(), filter: filter.map(str::to_owned), limit };
        let mut asking = ResponseStream::begin(&shown.socket, &ControlRequest::Entries(of)).expect("it listens");
        let mut rows = Vec::new();
        loop {
            match asking.answer().map_err(|error| error.to_string())? {
                ControlResponse::Entries { entries } => rows.extend(entries),
                ControlResponse::End { matching } => return Ok::<_, String>((rows, matching)),
                answer => panic!("{answer:?}"),
            }
        }
    };
    let (rows, matching) = read("forward", None, 1500).expect("a table");
    assert_eq!((rows.len(), matching), (1500, 1999));
    let (rows, matching) = read("forward", Some("destination=00:00:00:00:00:01 "), 10).expect("a table");
    assert_eq!((rows.len(), matching), (1, 1));
    assert_eq!(rows[0].arguments[0].value, "1");
    let (rows, _) = read("Decide.first", None, 10).expect("a table");
    assert_eq!(rows[0].keys[0].value, KIND.to_string());
    assert_eq!(rows[0].counter.map(|counter| counter.packets), Some(20));
    let refused = read("nothing", None, 1).expect_err("no such table");
    assert!(
        refused.contains("there is no table `nothing`; the tables are") && refused.contains("forward"),
        "{refused}"
    );
}

#[test]
fn high_water_marks_begin_anew_when_cleared_and_those_of_metrics_do_not() {
    let shown = shown();
    let metrics = Metrics::new(&shown.node, Vec::new());
    let write = |kind, destinations: std::ops::Range<u64>| {
        let mut batch = WriteBatch::new();
        for destination in destinations {
            batch.push(StateUpdate::Entry(kind, entry(&*shown.node, "forward", destination, "out_of", &[1])));
        }
        let outcomes = p4runtime::Device::write(&*shown.node, &[batch]).expect("a pipeline runs");
        outcomes.into_iter().for_each(|outcome| outcome.expect("a good batch"));
    };
    let seen = || {
        let table = tables(&shown.socket).remove("forward").expect("the table");
        let of_metrics = metric(&metrics.text(), "terrace_table_entries_max{table=\"Decide.forward\"}");
        (table.entries, table.high_water, of_metrics)
    };
    // Entry 1 exists from the start.
    write(UpdateKind::Insert, 100..110);
    write(UpdateKind::Delete, 100..108);
    assert_eq!(seen(), (3, 11, 11.0));
    assert!(matches!(ask(&shown.socket, &ControlRequest::ResetCounters), Ok(ControlResponse::CountersReset)));
    assert_eq!(seen(), (3, 3, 11.0));
    write(UpdateKind::Insert, 100..102);
    write(UpdateKind::Delete, 100..101);
    assert_eq!(seen(), (4, 5, 11.0));
}

#[test]
fn metrics_go_on_over_programs_and_what_is_shown_begins_anew_when_cleared() {
    let mut shown = shown();
    let followed = vec![CounterDisplay { counter: "by_port".into(), label: "port".into(), max_series: 4 }];
    let metrics = Metrics::new(&shown.node, followed);
    send(&mut shown, 0, 10, 5);
    assert!(matches!(ask(&shown.socket, &ControlRequest::ResetCounters), Ok(ControlResponse::CountersReset)));
    send(&mut shown, 0, 3, 0);
    let all = tables(&shown.socket);
    assert_eq!((all["forward"].hits, all["forward"].misses), (count(3), count(0)));
    let text = metrics.text();
    let hits = "terrace_table_packets_total{table=\"Decide.forward\",result=\"hit\"}";
    assert_eq!(metric(&text, hits), 13.0);
    assert_eq!(metric(&text, "terrace_received_packets_total"), 18.0);
    assert_eq!(metric(&text, "terrace_forwarded_bytes_total"), 13.0 * 64.0);
    assert_eq!(metric(&text, "terrace_table_entries{table=\"Decide.forward\"}"), 1.0);
    assert_eq!(
        metric(&text, "terrace_counter_packets_total{counter=\"Decide.by_port\",index_kind=\"port\",index=\"1\"}"),
        18.0
    );
    assert_eq!(
        metric(&text, "terrace_counter_packets_total{counter=\"Decide.by_port\",index_kind=\"port\",index=\"other\"}"),
        0.0
    );
    assert!(text.contains("terrace_packet_latency_seconds_bucket{") && text.ends_with("# EOF\n"), "{text}");
    // Another program with the same tables: its counts continue.
    let another = crate::support::forwarding(&shown.node, &marks(&["PROGRAM=2"]));
    p4runtime::Device::commit(&*shown.node, &another, ReconcileMode::ValidObjects).expect("a good config");
    send(&mut shown, 0, 4, 0);
    let text = metrics.text();
    assert_eq!(metric(&text, hits), 17.0);
    assert_eq!(metric(&text, "terrace_stage_packets_total{stage=\"parser\"}"), 22.0);
}

#[test]
fn clients_that_misbehave_are_refused_and_others_are_served() {
    let shown = shown();
    let say = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&shown.socket).expect("it listens");
        // The node may have closed the connection before the end.
        let _ = stream.write_all(bytes);
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).map(|_| answer)
    };
    assert!(say(b"hello\n").expect("an answer").contains("this node does not know this request"));
    assert!(say(b"{\"command\":\"fly\"}\n").expect("an answer").contains("unknown variant `fly`"));
    let long = vec![b' '; 300 << 10];
    if let Ok(answer) = say(&long) {
        assert!(answer.is_empty() || answer.contains("is too long"), "{answer}");
    }
    let idle: Vec<UnixStream> = (0..40).filter_map(|_| UnixStream::connect(&shown.socket).ok()).collect();
    assert!(idle.len() >= 32);
    let refused = |socket: &Path| matches!(ask(socket, &ControlRequest::Ports), Err(error) if error.to_string().contains("clients are connected already"));
    let deadline = Instant::now() + Duration::from_secs(10);
    while !refused(&shown.socket) {
        assert!(Instant::now() < deadline, "so many clients are not too many");
    }
    drop(idle);
    while ask(&shown.socket, &ControlRequest::Ports).is_err() {
        assert!(Instant::now() < deadline, "the places do not come back");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&shown.socket).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600);
}
