//! A gateway as a process in a network namespace, servers in others, veth pairs between them, and
//! numbered flows from one server to the other.

use io::{Namespace, Port, RawPort};
use node::admin::{ControlRequest, ControlResponse, ask};
use node::status::PortStatus;
use packet::{Batch, Packet, PortId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for a condition that takes milliseconds on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Distance of the inner UDP header's source port from the outer UDP header: UDP, VXLAN, Ethernet,
/// IPv4.
const INNER_SOURCE_PORT: usize = 8 + 8 + 14 + 20;

/// Runs a shell command. Returns whether it succeeded.
pub fn sh(command: &str) -> bool {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    if !output.status.success() {
        eprintln!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Waits for a condition.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Namespaces, and the gateway process if it runs. All is removed when the test ends.
pub struct Bench {
    names: Vec<String>,
    gateway: Option<Child>,
    /// Other processes in the namespaces.
    pub daemons: Vec<Child>,
    pub folder: tempfile::TempDir,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop();
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in &self.names {
            sh(&format!("ip netns pids {name} | xargs -r kill -9; ip netns del {name}"));
        }
    }
}

impl Bench {
    /// Makes the namespaces `gw`, `s1` and `s2`. Prints a message and returns `None` where that is
    /// not possible.
    pub fn new() -> Option<Bench> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut bench =
            Bench { names: Vec::new(), gateway: None, daemons: Vec::new(), folder: tempfile::tempdir().unwrap() };
        for name in ["gw", "s1", "s2"] {
            let name = format!("ul-{}-{number}-{name}", std::process::id());
            if !sh(&format!("ip netns add {name}")) {
                println!("SKIPPED: network namespaces cannot be made here; run as root");
                return None;
            }
            bench.names.push(name);
            let name = bench.names.last().unwrap();
            assert!(sh(&format!("ip -n {name} link set lo up")));
        }
        Some(bench)
    }

    /// Returns the namespace's name; 0: the gateway, 1 and 2: the servers.
    pub fn namespace(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Removes this namespace too when the test ends. Returns its index.
    pub fn adopt(&mut self, name: String) -> usize {
        self.names.push(name);
        self.names.len() - 1
    }

    /// Runs `ip` in a namespace.
    pub fn ip(&self, index: usize, arguments: &str) {
        assert!(sh(&format!("ip -n {} {arguments}", self.names[index])), "ip {arguments}");
    }

    /// Connects the gateway's interface `port` with the interface `far` of a server.
    pub fn connect(&self, port: u32, server: usize, far: &str) {
        let there = &self.names[server];
        self.ip(0, &format!("link add port{port} type veth peer name {far} netns {there}"));
        self.ip(0, &format!("link set port{port} address 02:00:00:0{port}:00:01 mtu 1600 up"));
        self.ip(server, &format!("link set {far} address 02:00:00:0{port}:00:02 mtu 1600 up"));
    }

    fn region_file(&self) -> PathBuf {
        self.folder.path().join("region.yaml")
    }

    pub fn control(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Writes the region file and starts the gateway with the ports `port1` to `portN`.
    pub fn start(&mut self, region: &str, ports: u32) {
        self.start_by(&[], region, ports);
    }

    /// Starts the gateway as [`Bench::start`] does, by another command in front of it.
    pub fn start_by(&mut self, before: &[&str], region: &str, ports: u32) {
        std::fs::write(self.region_file(), region).unwrap();
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut words = before.iter().copied().chain([env!("CARGO_BIN_EXE_terrace")]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(["gateway", "run", "--io", "raw", "--netns", &self.names[0], "--region"])
            .arg(self.region_file());
        command.arg("--control").arg(self.control());
        for port in 1..=ports {
            command.args(["--port", &format!("{port}=port{port}")]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.gateway = Some(child);
        until("the gateway serves", || ask(&self.control(), &ControlRequest::Region).is_ok());
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.gateway.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the log of the gateway.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Applies the region file with this text. Returns the numbers of inserted, modified and
    /// deleted entries.
    pub fn apply(&self, region: &str) -> (usize, usize, usize) {
        std::fs::write(self.region_file(), region).unwrap();
        match ask(&self.control(), &ControlRequest::RegionApply { file: None }) {
            Ok(ControlResponse::RegionApplied(done)) => (done.inserted, done.modified, done.deleted),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the status of a port.
    pub fn port(&self, number: u32) -> PortStatus {
        match ask(&self.control(), &ControlRequest::Ports) {
            Ok(ControlResponse::Ports { ports }) => ports.into_iter().find(|port| port.number == number).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the packets that the gateway dropped for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        match ask(&self.control(), &ControlRequest::Drops) {
            Ok(ControlResponse::Drops { drops }) => {
                drops.into_iter().filter(|drop| drop.reason == reason).map(|drop| drop.count.packets).sum()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Opens an interface of a server.
    pub fn open(&self, server: usize, interface: &str) -> RawPort {
        let namespace = Namespace::open(&self.names[server]).unwrap();
        namespace.run(|| RawPort::open(interface)).unwrap().unwrap()
    }
}

/// Builds a UDP datagram from 10.0.0.11 to 10.0.0.12 in VNI 100, from 192.0.2.11 to the gateway
/// 192.0.2.1, for the MAC of `port1`. `flow` is the inner source port.
pub fn datagram(flow: u16) -> Packet {
    let mut inner = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0x10, 0, 0x0a], [2, 0, 0x5e, 0, 0, 1])
        .ipv4([10, 0, 0, 11], [10, 0, 0, 12], 64)
        .udp(flow, 7)
        .write(&mut inner, &[b'x'; 40])
        .unwrap();
    let mut vxlan = vec![8, 0, 0, 0, 0, 0, 100, 0];
    vxlan.extend(inner);
    let mut bytes = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 1, 0, 2], [2, 0, 0, 1, 0, 1])
        .ipv4([192, 0, 2, 11], [192, 0, 2, 1], 64)
        .udp(50_000, 4789)
        .write(&mut bytes, &vxlan)
        .unwrap();
    Packet::from_bytes(&bytes).unwrap()
}

/// Receives all waiting packets of tenants. Returns their flows.
pub fn received_flows(port: &mut RawPort) -> Vec<u16> {
    let mut flows = Vec::new();
    let mut batch = Batch::new();
    loop {
        batch.clear();
        if port.receive(PortId(0), &mut batch).unwrap_or(0) == 0 {
            return flows;
        }
        for packet in batch.packets() {
            let bytes = packet.bytes();
            let udp = match bytes.get(12..14) {
                Some([8, 0]) => 14 + 20,
                Some([0x86, 0xdd]) => 14 + 40,
                _ => continue,
            };
            let number = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
            if number(udp + 2) == Some(4789) {
                flows.extend(number(udp + INNER_SOURCE_PORT));
            }
        }
    }
}

/// Sends one packet of each flow, and waits for a moment. Returns for each flow that arrived the
/// index of the interface.
pub fn send_flows(from: &mut RawPort, to: &mut [&mut RawPort], flows: u16) -> BTreeMap<u16, usize> {
    to.iter_mut().for_each(|port| drop(received_flows(port)));
    let packets: Vec<Packet> = (0..flows).map(datagram).collect();
    for chunk in packets.chunks(50) {
        assert_eq!(from.send_all(&mut chunk.iter()), chunk.len());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut arrived = BTreeMap::new();
    let mut quiet = Instant::now();
    while arrived.len() < usize::from(flows) && quiet.elapsed() < Duration::from_millis(300) {
        for (index, port) in to.iter_mut().enumerate() {
            for flow in received_flows(port) {
                arrived.insert(flow, index);
                quiet = Instant::now();
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    arrived
}
