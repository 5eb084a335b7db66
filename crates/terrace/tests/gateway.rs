//! The gateway process without interfaces: its two threads, its socket, and what a change of the region file does to packets.

use interp::Config;
use io::memory::{self, MemoryPort};
use io::{Attached, Port};
use node::engine::Choice;
use packet::Packet;
use region::{Entries, Numbers};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use terrace::gateway::control::{Answer, ControlSocket, Request, ask};
use terrace::gateway::keeper::Keeper;
use terrace::gateway::serve::{Gateway, Signals, serve};
use terrace::gateway::stats::Stats;
use terrace::gateway::uplinks::open_ports;
use terrace::program::{DEFAULT_PROGRAM, Sources, compile};

const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway of the lab's region with a wire at port 1 (server s1) and one at port 2 (server s2).
struct Running<'a> {
    s1: &'a mut MemoryPort,
    s2: &'a mut MemoryPort,
    socket: PathBuf,
    region: PathBuf,
    signals: Signals,
}

fn lab_region() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab.yaml")).unwrap()
}

/// Runs `test` beside a gateway, stops it, and gives what it counted.
fn with_gateway(test: impl FnOnce(&mut Running<'_>)) -> Stats {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("control.sock"), folder.path().join("region.yaml"));
    fs::write(&file, lab_region()).unwrap();
    let pipeline = Arc::new(compile(Path::new(DEFAULT_PROGRAM), &Sources::default()).pipeline.unwrap());
    let mut numbers = Numbers::default();
    let region = region::load(&file).unwrap();
    let entries = region::entries(&region, &file.display().to_string(), &pipeline, &mut numbers).unwrap();
    let mut engine = Choice::Interp.load(&pipeline, &Config::default()).unwrap();
    engine.write(&region::diff(Entries::default(), entries.clone())).unwrap();
    let (mut s1, port1) = memory::pair("s1", "port1", 64).unwrap();
    let (mut s2, port2) = memory::pair("s2", "port2", 64).unwrap();
    let (keeper, jobs) = Keeper::new(pipeline);
    let ports = vec![Attached::new(1, port1), Attached::new(2, port2)];
    let keeper = keeper.at_ports(open_ports(&ports), Vec::new());
    let gateway = Gateway {
        engine,
        ports,
        keeper: keeper.holding(&file, entries, numbers),
        jobs,
        socket: ControlSocket::open(&socket).unwrap(),
        program: "gateway".to_owned(),
    };
    let signals = Signals::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(gateway, &signals, || {}).unwrap());
        let mut running = Running { s1: &mut s1, s2: &mut s2, socket, region: file, signals: signals.clone() };
        // A test that fails must not leave the server running for ever.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&mut running)));
        signals.stop.store(true, Ordering::Relaxed);
        let stats = server.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        stats
    })
}

/// A UDP datagram of a VM of s1 in VXLAN with this VNI, from 10.0.0.11.
fn datagram(vni: u32, to: [u8; 4]) -> Packet {
    let inner = {
        let udp = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0x10, 0, 0x0a], [2, 0, 0x5e, 0, 0, 1])
            .ipv4([10, 0, 0, 11], to, 64)
            .udp(1000, 2000);
        let mut bytes = Vec::new();
        udp.write(&mut bytes, b"hello").unwrap();
        bytes
    };
    let mut vxlan = vec![8, 0, 0, 0];
    vxlan.extend((vni << 8).to_be_bytes());
    vxlan.extend(inner);
    let udp = etherparse::PacketBuilder::ethernet2([2, 0, 0, 1, 0, 2], [2, 0, 0, 1, 0, 1])
        .ipv4([192, 0, 2, 11], [192, 0, 2, 1], 64)
        .udp(50000, 4789);
    let mut bytes = Vec::new();
    udp.write(&mut bytes, &vxlan).unwrap();
    Packet::from_bytes(&bytes).unwrap()
}

impl Running<'_> {
    fn apply(&self) -> Answer {
        ask(&self.socket, &Request::Apply { region: None }).unwrap()
    }

    fn stats(&self) -> Stats {
        match ask(&self.socket, &Request::Stats).unwrap() {
            Answer::Stats(stats) => *stats,
            answer => panic!("{answer:?}"),
        }
    }

    /// Sends a packet on s1's wire and says whether it came out on s2's.
    fn reaches_s2(&mut self, packet: &Packet) -> bool {
        let before = self.stats().received.packets;
        assert_eq!(self.s1.send_all(&mut std::iter::once(packet)), 1);
        let began = Instant::now();
        while self.stats().received.packets == before {
            assert!(began.elapsed() < PATIENCE, "the gateway received nothing");
        }
        self.s2.take().is_some()
    }
}

#[test]
fn packets_flow_and_are_counted_by_reason() {
    let stats = with_gateway(|gateway| {
        assert!(gateway.reaches_s2(&datagram(100, [10, 0, 0, 12])), "red-a to red-b");
        assert!(!gateway.reaches_s2(&datagram(100, [10, 66, 0, 1])), "a black hole");
        assert!(!gateway.reaches_s2(&datagram(77, [10, 0, 0, 12])), "an unknown VNI");
    });
    assert_eq!((stats.received.packets, stats.forwarded.packets), (3, 1));
    let drops: Vec<(&str, u64)> = stats.drops.iter().map(|(name, count)| (name.as_str(), count.packets)).collect();
    assert_eq!(drops, [("blackhole_route", 1), ("unknown_vni", 1)]);
}

#[test]
fn a_changed_region_file_is_applied_and_a_wrong_one_changes_nothing() {
    with_gateway(|gateway| {
        let (to_b, to_new) = (datagram(100, [10, 0, 0, 12]), datagram(100, [10, 0, 0, 77]));
        assert!(gateway.reaches_s2(&to_b) && !gateway.reaches_s2(&to_new));
        let version = gateway.stats().version;

        // Wrong in one line: nothing of it is applied, the new machine neither.
        let new = "  - {name: red-z, vpc: red, server: s2, mac: 02:00:00:10:00:77, addresses: [10.0.0.77]}\n";
        let wrong = "  - {name: red-y, vpc: rad, server: s2, mac: 02:00:00:10:00:78, addresses: [10.0.0.78]}\n";
        fs::write(&gateway.region, format!("{}{new}{wrong}", lab_region())).unwrap();
        let Answer::Refused { message } = gateway.apply() else { panic!("a wrong file was applied") };
        assert!(message.contains("region.yaml:") && message.contains("rad"), "{message}");
        assert!(gateway.reaches_s2(&to_b) && !gateway.reaches_s2(&to_new));
        assert_eq!(gateway.stats().version, version);

        fs::write(&gateway.region, format!("{}{new}", lab_region())).unwrap();
        let Answer::Applied(applied) = gateway.apply() else { panic!("not applied") };
        assert_eq!(
            (applied.inserted, applied.modified, applied.deleted),
            (1, 0, 0),
            "what did not change is not touched"
        );
        assert!(gateway.reaches_s2(&to_b) && gateway.reaches_s2(&to_new));

        // The same again changes nothing; without the machine it is gone again.
        let Answer::Applied(applied) = gateway.apply() else { panic!("not applied") };
        assert_eq!((applied.inserted, applied.modified, applied.deleted), (0, 0, 0));
        fs::write(&gateway.region, lab_region()).unwrap();
        gateway.signals.reload.store(true, Ordering::Relaxed);
        let began = Instant::now();
        while gateway.reaches_s2(&to_new) {
            assert!(began.elapsed() < PATIENCE, "SIGHUP was not heard");
        }
        assert!(gateway.reaches_s2(&to_b));
    });
}

#[test]
fn a_comment_in_the_first_line_changes_nothing() {
    with_gateway(|gateway| {
        let to_b = datagram(100, [10, 0, 0, 12]);
        assert!(gateway.reaches_s2(&to_b));
        let version = gateway.stats().version;
        fs::write(&gateway.region, format!("# another line\n{}", lab_region())).unwrap();
        let Answer::Applied(applied) = gateway.apply() else { panic!("not applied") };
        assert_eq!((applied.inserted, applied.modified, applied.deleted, applied.others), (0, 0, 0, 0));
        assert_eq!(gateway.stats().version, version, "without a change there is no new version, and no cache is stale");
        assert!(gateway.reaches_s2(&to_b));
    });
}

#[test]
fn uplinks_that_do_not_fit_the_ports_are_told_at_each_application() {
    with_gateway(|gateway| {
        // Ports 1 and 2 are open and take 1500 bytes; the region has more ports, and uplinks take 1600 unless they say otherwise.
        let Answer::Applied(applied) = gateway.apply() else { panic!("not applied") };
        let told = |warnings: &[String], words: &[&str]| {
            warnings.iter().any(|warning| words.iter().all(|word| warning.contains(word)))
        };
        assert!(
            told(&applied.warnings, &["region.yaml:", "port 3, which is not open", "--port 3=INTERFACE"]),
            "{applied}"
        );
        assert!(told(&applied.warnings, &["port 1 (port1) takes 1500", "mtu: 1500"]), "{applied}");
        assert_eq!(gateway.stats().warnings, applied.warnings);
        assert!(applied.to_string().contains("warning: "), "{applied}");
        assert!(gateway.stats().render().contains("which is not open"));

        let fits = lab_region().replace("{name: to-s1,   port: 1,", "{name: to-s1, mtu: 1500, port: 1,");
        assert_ne!(fits, lab_region());
        fs::write(&gateway.region, fits).unwrap();
        let Answer::Applied(applied) = gateway.apply() else { panic!("not applied") };
        assert!(!told(&applied.warnings, &["port 1 (port1)"]), "{applied}");
    });
}

#[test]
fn it_stops_when_asked() {
    let stats = with_gateway(|gateway| {
        assert_eq!(ask(&gateway.socket, &Request::Stop).unwrap(), Answer::Stopping);
        let began = Instant::now();
        while gateway.socket.exists() {
            assert!(began.elapsed() < PATIENCE, "it did not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(stats.received.packets, 0);
}
