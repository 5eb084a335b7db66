//! Runs kernel TCP through VXLAN tunnels of two servers and the gateway between them, with all
//! offloads of the interfaces as they come: super-frames and open checksums.
//!
//! Needs root. Otherwise each test reports that it was skipped.

use io::Namespace;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for a condition. Nothing is measured.
const PATIENCE: Duration = Duration::from_secs(40);
/// Bytes of a transfer in each direction.
const BYTES: usize = 8 << 20;

const REGION: &str = "
region: offloads
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, 2001:db8::1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, peer_mac: 02:00:00:01:00:02, mtu: MTU}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02, mtu: MTU}
servers:
  - {name: s1, address: S1, uplinks: [u1]}
  - {name: s2, address: S2, uplinks: [u2]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24, 'fd00:100::/64']}
vms:
  - {name: a, vpc: red, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.0.11, 'fd00:100::11']}
  - {name: b, vpc: red, server: s2, mac: 02:00:00:10:00:02, addresses: [10.0.0.12, 'fd00:100::12']}
";

/// Runs a command and fails with its messages.
fn sh(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A gateway between two servers, each a network namespace with a kernel's VXLAN device.
struct Lab {
    name: String,
    folder: tempfile::TempDir,
    gateway: Option<Child>,
}

/// Form of a lab.
#[derive(Clone, Copy)]
struct Form {
    /// `--io` of the gateway.
    io: &'static str,
    /// Whether the tunnel of server 2 is over IPv6.
    mixed_underlay: bool,
    /// Largest IP packet of the underlay in bytes.
    mtu: usize,
    /// Command before the gateway's.
    prefix: &'static str,
}

const USUAL: Form = Form { io: "auto", mixed_underlay: false, mtu: 1600, prefix: "" };

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            let _ = gateway.kill();
            let _ = gateway.wait();
        }
        for machine in ["gw", "s1", "s2"] {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(machine)]).output();
        }
    }
}

impl Lab {
    /// Builds the lab and starts the gateway. `None` where namespaces are not allowed.
    fn start(form: Form) -> Option<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if let Err(error) = terrace::lab::permitted() {
            assert!(std::env::var("CI").is_err(), "in CI, namespaces must be allowed: {error}");
            println!("SKIPPED: {error}");
            return None;
        }
        let name = format!("tof{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut lab = Lab { name, folder: tempfile::tempdir().unwrap(), gateway: None };
        for machine in ["gw", "s1", "s2"] {
            sh(&format!("ip netns add {0} && ip -n {0} link set lo up", lab.namespace(machine)));
        }
        for number in [1, 2] {
            lab.connect_server(number, form.mixed_underlay && number == 2);
        }
        lab.start_gateway(form);
        Some(lab)
    }

    fn namespace(&self, machine: &str) -> String {
        format!("{}-{machine}", self.name)
    }

    /// Connects a server to the gateway and gives it a VM with an address of each family.
    fn connect_server(&self, number: u32, is_ipv6: bool) {
        let (gateway, server) = (self.namespace("gw"), self.namespace(&format!("s{number}")));
        sh(&format!(
            "ip -n {gateway} link add port{number} type veth peer name u netns {server}
             ip netns exec {gateway} sysctl -qw net.ipv6.conf.port{number}.disable_ipv6=1
             ip -n {gateway} link set port{number} address 02:00:00:0{number}:00:01 mtu 1700 up
             ip -n {server} link set u address 02:00:00:0{number}:00:02 mtu 1700 up"
        ));
        let (local, remote, prefix) = match is_ipv6 {
            true => (format!("2001:db8::1{number}"), "2001:db8::1", 64),
            false => (format!("192.0.2.1{number}"), "192.0.2.1", 24),
        };
        let other = 3 - number;
        let nodad = if is_ipv6 { "nodad" } else { "" };
        let checksums = if is_ipv6 { "udp6zerocsumtx udp6zerocsumrx" } else { "" };
        sh(&format!(
            "set -e
             ip -n {server} addr add {local}/{prefix} dev u {nodad}
             ip -n {server} neigh replace {remote} lladdr 02:00:00:0{number}:00:01 dev u
             ip -n {server} link add vx0 type vxlan id 100 local {local} remote {remote} dstport 4789 {checksums} dev u
             ip -n {server} link set vx0 address 02:00:00:10:00:0{number} mtu 1500 up
             ip -n {server} addr add 10.0.0.1{number}/24 dev vx0
             ip -n {server} addr add fd00:100::1{number}/64 dev vx0 nodad
             ip -n {server} neigh replace 10.0.0.1{other} lladdr 02:00:5e:00:00:01 dev vx0
             ip -n {server} neigh replace fd00:100::1{other} lladdr 02:00:5e:00:00:01 dev vx0"
        ));
    }

    fn start_gateway(&mut self, form: Form) {
        let second = if form.mixed_underlay { "'2001:db8::12'" } else { "192.0.2.12" };
        let region = REGION.replace("MTU", &form.mtu.to_string()).replace("S1", "192.0.2.11").replace("S2", second);
        let file = self.folder.path().join("region.yaml");
        fs::write(&file, region).unwrap();
        let command = format!(
            "exec {} {} gateway run --region {} --netns {} --io {} --control {} 2>{}",
            form.prefix,
            env!("CARGO_BIN_EXE_terrace"),
            file.display(),
            self.namespace("gw"),
            form.io,
            self.control(),
            self.folder.path().join("log").display(),
        );
        self.gateway = Some(Command::new("sh").args(["-c", &command]).stdout(Stdio::null()).spawn().unwrap());
        let began = Instant::now();
        while !self.show("ports").contains("port2") {
            assert!(began.elapsed() < PATIENCE, "the gateway does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn control(&self) -> String {
        self.folder.path().join("control.sock").display().to_string()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the output of `terrace show`.
    fn show(&self, subject: &str) -> String {
        let arguments = ["show", "--node", &self.control(), subject];
        let output = Command::new(env!("CARGO_BIN_EXE_terrace")).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn inside<T: Send>(&self, machine: &str, work: impl FnOnce() -> T + Send) -> T {
        Namespace::open(&self.namespace(machine)).unwrap().run(work).unwrap()
    }

    /// Sends [`BYTES`] from server 1 to an address of server 2 and back, and compares them.
    fn transfer(&self, address: &str) {
        let address: SocketAddr = address.parse().unwrap();
        let content: Vec<u8> = (0..BYTES).map(|index| (index * 7 % 251) as u8).collect();
        let listener = self.inside("s2", || TcpListener::bind(address).unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut received = vec![0; BYTES];
            stream.read_exact(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let connected = self.inside("s1", || TcpStream::connect_timeout(&address, PATIENCE));
        let mut stream = connected.unwrap_or_else(|error| panic!("{error}: {}\n{}", self.log(), self.show("drops")));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&content).unwrap();
        let mut back = vec![0; BYTES];
        if let Err(error) = stream.read_exact(&mut back) {
            panic!("{error}: {}\n{}", self.log(), self.show("drops"));
        }
        assert!(back == content, "the bytes arrive as they were sent");
        server.join().unwrap();
    }

    /// Returns the mean length in bytes of the packets that left by TAP devices; 0 without any.
    fn mean_length_by_tap(&self) -> u64 {
        let devices = self.inside("gw", || fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let (mut bytes, mut packets) = (0, 0);
        for line in devices.lines().filter(|line| line.trim_start().starts_with("tgso")) {
            let mut fields =
                line.split_once(':').unwrap().1.split_whitespace().map(|field| field.parse::<u64>().unwrap());
            bytes += fields.next().unwrap();
            packets += fields.next().unwrap();
        }
        bytes / packets.max(1)
    }

    /// Fails if a server received a TCP segment or UDP datagram with a wrong checksum.
    fn assert_no_wrong_checksums(&self) {
        for machine in ["s1", "s2"] {
            let counters = self.inside(machine, || {
                ["snmp", "snmp6"].map(|file| fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap())
            });
            for protocol in ["Tcp:", "Udp:"] {
                let mut lines = counters[0].lines().filter(|line| line.starts_with(protocol));
                let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
                let column = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
                assert_eq!(values.split(' ').nth(column), Some("0"), "{protocol} of {machine}");
            }
            let wrong = counters[1].lines().filter(|line| line.contains("InCsumErrors"));
            wrong.for_each(|line| assert!(line.ends_with("\t0"), "{line} of {machine}"));
        }
    }
}

/// Transfers over both families and checks that nothing was lost.
fn transfer_both_families(form: Form) -> Option<Lab> {
    let lab = Lab::start(form)?;
    lab.transfer("10.0.0.12:5001");
    lab.transfer("[fd00:100::12]:5002");
    lab.assert_no_wrong_checksums();
    let drops = lab.show("drops");
    for reason in ["exceeds_mtu", "rx_segmentation_offload", "rx_bad", "tx_segmentation", "tx_error", "truncated"] {
        assert!(!drops.contains(reason), "{drops}");
    }
    Some(lab)
}

#[test]
fn tcp_passes_with_offloads_as_they_come() {
    for io in ["auto", "raw"] {
        let Some(lab) = transfer_both_families(Form { io, ..USUAL }) else { return };
        // Where the kernel takes super-frames from a TAP, they pass whole.
        let log = lab.log();
        println!("{io}: {log}");
        assert!(!log.contains("leave whole") || lab.mean_length_by_tap() > 4_000, "{}", lab.mean_length_by_tap());
    }
}

#[test]
fn tcp_passes_between_tunnels_of_two_families() {
    transfer_both_families(Form { mixed_underlay: true, ..USUAL });
}

#[test]
fn tcp_passes_in_segments_without_the_right_for_a_tap() {
    // The bounding set lacks CAP_NET_ADMIN and CAP_BPF (38 and 39 are not needed either).
    let prefix = "setpriv --bounding-set=-net_admin --inh-caps=-net_admin";
    let Some(lab) = transfer_both_families(Form { prefix, ..USUAL }) else { return };
    assert!(lab.log().contains("CAP_NET_ADMIN"), "{}", lab.log());
}

#[test]
fn tcp_passes_behind_a_flow_cache() {
    transfer_both_families(Form { io: "auto --cache rewrites", ..USUAL });
}

/// A VM whose MTU is too large for the tunnel: its segments do not fit, although each of its
/// super-frames is described by the same length.
#[test]
fn super_frames_of_too_long_segments_are_dropped_by_name() {
    let Some(lab) = Lab::start(Form { mtu: 1500, ..USUAL }) else { return };
    let address: SocketAddr = "10.0.0.12:5003".parse().unwrap();
    let listener = lab.inside("s2", || TcpListener::bind(address).unwrap());
    let mut stream = lab.inside("s1", || TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
    // A short segment passes.
    stream.write_all(&[1; 100]).unwrap();
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(PATIENCE)).unwrap();
    accepted.read_exact(&mut [0; 100]).unwrap();
    // It fits the socket's buffer, so that the call returns although nothing arrives.
    stream.write_all(&[2; 12_000]).unwrap();
    let began = Instant::now();
    while !lab.show("drops").contains("exceeds_mtu") {
        assert!(began.elapsed() < PATIENCE, "{}", lab.show("drops"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // A VM that knows the right MTU gets through.
    for machine in ["s1", "s2"] {
        sh(&format!("ip -n {} link set vx0 mtu 1450", lab.namespace(machine)));
    }
    lab.transfer("10.0.0.12:5004");
}
