//! Tests the log of blocks of ports: which machine had which ports, from the first packet to the end of its last
//! session, over a reload and a take-over.

use crate::daemon::{Daemon, config_in};
use crate::gateway_packets::{Side, UDP, from_server, ip_packet, read_sent};
use crate::scraped::get;
use io::Port;
use io::memif::MemifPort;
use node::admin::ask;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::sessions::SessionSelection;
use packet::{Batch, Packet, PortId};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
/// What each line says besides machine and ports.
const GIVEN: &str = " ports given vpc=red ";
const GIVEN_BACK: &str = " ports given back vpc=red ";

/// The lab's region with a NAT.
fn region() -> String {
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/regions/plain.yaml");
    let text = std::fs::read_to_string(lab).expect("the file");
    let changes = [
        (
            "\nservers:\n",
            "  - {name: to-isp, port: 6, mac: 02:00:00:06:00:01, peer_mac: 02:00:00:06:00:02, mtu: 1500}\n\n\
             internet:\n  uplinks: [to-isp]\n  nats: [{name: public, addresses: 198.51.100.16/28}]\n\nservers:\n",
        ),
        ("    vni: 100\n", "    vni: 100\n    nat: public\n"),
    ];
    changes.into_iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    })
}

/// A folder with a region and the configuration of a gateway between a server and the Internet.
struct Home {
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Home {
    /// `log`: the keys of the section `[log]`.
    fn new(log: &str) -> Home {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home { config: folder.path().join("node.toml"), folder };
        std::fs::write(home.path("region.yaml"), region()).expect("the folder can be written");
        home.configure(log);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configure(&self, log: &str) {
        let port = |number: u32| {
            let socket = self.path(&format!("port{number}.sock"));
            format!("[[port]]\nnumber = {number}\ndevice = \"memif:socket={},role=server\"\n", socket.display())
        };
        let text = format!(
            "region = {:?}\ntakeover_socket = {:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n[metrics]\nlisten = \
             [\"127.0.0.1:0\"]\n[control]\nsocket = {:?}\n[log]\n{log}\n{}{}",
            self.path("region.yaml"),
            self.path("takeover.sock"),
            self.path("control.sock"),
            port(1),
            port(6)
        );
        config_in(self.folder.path(), &text);
    }

    /// Connects to a port of the gateway.
    fn connect(&self, number: u32) -> MemifPort {
        let socket = self.path(&format!("port{number}.sock"));
        let mut end = MemifPort::open(&format!("memif:socket={},role=client", socket.display())).expect("a port");
        let began = Instant::now();
        while end.port_fault().is_some() {
            assert!(began.elapsed() < PATIENCE, "{:?}", end.last_fault());
        }
        end
    }

    /// Deletes all sessions.
    fn delete_sessions(&self) {
        let selection = SessionSelection { table: Some("sessions".to_owned()), ..SessionSelection::default() };
        let answer = ask(&self.path("control.sock"), &ControlRequest::DeleteSessions { selection });
        assert!(matches!(answer, Ok(ControlResponse::End { .. })), "{answer:?}");
    }
}

/// The two ends of the wires of a gateway.
struct Wires {
    server: MemifPort,
    internet: MemifPort,
}

impl Wires {
    fn connect(home: &Home) -> Wires {
        Wires { server: home.connect(1), internet: home.connect(6) }
    }

    /// Sends the first packet of a session of a machine, until it leaves with a public address and port, which
    /// are returned.
    fn open_session(&mut self, machine: u8, port: u16) -> Side {
        let from = (Ipv4Addr::new(10, 0, 0, machine), port);
        let frame = from_server(1, Ipv4Addr::new(192, 0, 2, 11), 100, &ip_packet(UDP, from, (REMOTE, 53)));
        let packet = Packet::from_bytes(&frame).expect("short");
        let (mut batch, began) = (Batch::new(), Instant::now());
        loop {
            // The link of the uplink may not be up yet.
            self.server.send_all(&mut std::iter::once(&packet));
            let resend = Instant::now() + Duration::from_millis(500);
            while batch.is_empty() && Instant::now() < resend {
                self.internet.receive(PortId(6), &mut batch).expect("it works");
            }
            if let Some(packet) = batch.packets().first() {
                let (_, public, to) = read_sent(packet.bytes());
                assert_eq!(to, (REMOTE, 53));
                return public;
            }
            assert!(began.elapsed() < PATIENCE, "no packet leaves");
        }
    }
}

/// Returns what the lines about the block of a port of a machine say.
fn about(machine: u8, (public, port): Side) -> String {
    let first = port - port % 64;
    let last = first + 63;
    format!("machine=10.0.0.{machine} public={public} first_port={first} last_port={last} protocols=udp,tcp,icmp at=")
}

/// Returns the time now as the log writes times.
fn now() -> String {
    let output = Command::new("date").args(["-u", "+%FT%T.%3NZ"]).output().expect("there is date");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.split_once(name).and_then(|(_, rest)| rest.split(' ').next()).expect("the field")
}

#[test]
fn a_block_has_a_line_when_a_machine_gets_it_and_one_when_it_gives_it_back() {
    let home = Home::new("nat_blocks = true");
    let daemon = Daemon::with(&home.config, &[]);
    let mut wires = Wires::connect(&home);
    let before = now();
    let public = wires.open_session(11, 5000);
    let after = now();
    let line = daemon.wait_for_log(&[GIVEN, &about(11, public)]);
    let at = field(&line, " at=");
    assert!((before.as_str()..=after.as_str()).contains(&at), "{at} is not from {before} to {after}");
    // A second session has a port of the same block.
    let second = wires.open_session(11, 5001);
    assert_eq!((second.0, second.1 / 64), (public.0, public.1 / 64));
    let other = wires.open_session(12, 5000);
    daemon.wait_for_log(&[GIVEN, &about(12, other)]);
    assert_eq!(daemon.take_log_line(&[GIVEN]), None, "one line for each block");

    // The next process knows the blocks; they get no new line.
    let successor = Daemon::run(&home.config, &[], &["--takeover"]);
    drop(daemon);
    home.delete_sessions();
    for (machine, public) in [(11, public), (12, other)] {
        successor.wait_for_log(&[GIVEN_BACK, &about(machine, public)]);
    }
    assert_eq!(successor.take_log_line(&[" ports given "]), None);
    let text = get(&successor.metrics(), "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(text.contains("terrace_nat_block_log_lines_total{outcome=\"written\"} 2"), "{text}");
}

#[test]
fn blocks_have_no_lines_until_a_reload_asks_for_them() {
    let home = Home::new("");
    let daemon = Daemon::with(&home.config, &[]);
    let mut wires = Wires::connect(&home);
    wires.open_session(11, 5000);
    home.configure("nat_blocks = true");
    daemon.signal("HUP");
    daemon.wait_for_log(&["the configuration was read again", "log.nat_blocks"]);
    let public = wires.open_session(12, 5000);
    daemon.wait_for_log(&[GIVEN, &about(12, public)]);
    assert_eq!(daemon.take_log_line(&[GIVEN]), None, "the first machine's block has no line");
    home.configure("");
    daemon.signal("HUP");
    daemon.wait_for_log(&["the configuration was read again"]);
    home.delete_sessions();
    wires.open_session(12, 5001);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(daemon.take_log_line(&[" ports given "]), None);
}

/// Lines beyond the rate wait, with the times of their packets, and are written at the end at the latest.
#[test]
fn lines_beyond_the_rate_are_late_and_not_lost() {
    let home = Home::new("nat_blocks = true\nnat_blocks_per_second = 1");
    let daemon = Daemon::with(&home.config, &[]);
    let mut wires = Wires::connect(&home);
    let publics: Vec<(u8, Side)> = (20..26).map(|machine| (machine, wires.open_session(machine, 5000))).collect();
    let sent = now();
    daemon.signal("TERM");
    daemon.wait_for_log(&["ended"]);
    for (machine, public) in publics {
        let line = daemon.take_log_line(&[GIVEN, &about(machine, public)]).expect("each block has a line");
        assert!(field(&line, " at=") <= sent.as_str(), "{line}: not later than {sent}");
    }
}
