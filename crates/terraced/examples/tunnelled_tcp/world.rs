//! [`World`]: three network namespaces with a gateway between two kernels.

use anyhow::{Context, ensure};
use io::{Namespace, Port, RawPort};
use node::admin::ask;
use node::admin::protocol::{ControlRequest, ControlResponse};
use packet::Packet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::frame::checksum;

/// A system to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Two VXLAN devices of the kernel, and a route.
    Linux,
    /// The flow cache at tc.
    Tc,
    /// The flow cache at XDP; the senders have no offloads.
    Xdp,
    /// The same with offloads.
    XdpOffloads,
    /// The slow path behind tc: no flow stays in the kernel.
    TcSlow,
    /// The slow path behind XDP; the senders have no offloads.
    XdpSlow,
    /// Raw sockets, with super-frames whole.
    Raw,
    /// Raw sockets without the right to make a TAP, so that super-frames are cut.
    RawCut,
    /// Raw sockets of another build; the senders have no offloads.
    RawBefore,
}

impl System {
    pub const ALL: [System; 9] = [
        System::Linux,
        System::Tc,
        System::Xdp,
        System::XdpOffloads,
        System::TcSlow,
        System::XdpSlow,
        System::Raw,
        System::RawCut,
        System::RawBefore,
    ];

    pub fn name(self) -> &'static str {
        match self {
            System::Linux => "Linux: vxlan and route",
            System::Tc => "tc",
            System::Xdp => "XDP, senders' offloads off",
            System::XdpOffloads => "XDP, offloads as they come",
            System::TcSlow => "tc, slow path",
            System::XdpSlow => "XDP, slow path, off",
            System::Raw => "raw sockets",
            System::RawCut => "raw sockets, cut",
            System::RawBefore => "raw sockets before, off",
        }
    }

    /// Returns whether the senders finish their packets themselves.
    fn is_without_offloads(self) -> bool {
        matches!(self, System::Xdp | System::XdpSlow | System::RawBefore)
    }

    /// Returns the settings under [cache] of a gateway. `None`: the system is the kernel's own.
    fn cache(self) -> Option<&'static str> {
        match self {
            System::Linux => None,
            System::Tc => Some("kind = \"xdp\"\nhook = \"tc\"\n"),
            System::TcSlow => Some("kind = \"xdp\"\nhook = \"tc\"\nmax_entries = 1\n"),
            System::Xdp | System::XdpOffloads => Some("kind = \"xdp\"\nhook = \"xdp\"\n"),
            System::XdpSlow => Some("kind = \"xdp\"\nhook = \"xdp\"\nmax_entries = 1\n"),
            System::Raw | System::RawCut | System::RawBefore => Some("kind = \"none\"\n"),
        }
    }
}

/// Result of a TCP connection.
pub struct TcpResult {
    pub gigabits: f64,
    /// Segments sent again.
    pub resent: u64,
    /// Of these, the ones that the receiver already had.
    pub for_nothing: u64,
    /// Segments that the receiver refused for their checksum.
    pub wrong: u64,
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A namespace that is removed with this value.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output()?;
    ensure!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Runs a command in a namespace and returns its output.
fn inside(namespace: &str, command: &str) -> anyhow::Result<String> {
    let output = Command::new("ip").args(["netns", "exec", namespace]).args(command.split_whitespace()).output()?;
    ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

const REGION: &str = "region: tcp
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, peer_mac: 02:00:00:01:00:02}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, peer_mac: 02:00:00:02:00:02}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: 192.0.2.12, uplinks: [u2]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.1.0/24]}
  - {name: green, vni: 200, subnets: [10.0.2.0/24]}
peerings:
  - {between: [red, green]}
vms:
  - {name: a, vpc: red, server: s1, mac: 02:00:00:10:00:01, addresses: [10.0.1.2]}
  - {name: b, vpc: green, server: s2, mac: 02:00:00:10:00:02, addresses: [10.0.2.2]}
";

/// Sender, gateway and receiver of a system.
pub struct World {
    pub system: System,
    // Processes end before their namespaces.
    _server: Process,
    gateway: Option<(Process, PathBuf)>,
    _folder: tempfile::TempDir,
    ends: [String; 2],
    _namespaces: Vec<Removed>,
}

impl World {
    /// Creates the namespaces and starts the gateway, with the binary `terraced`.
    ///
    /// # Errors
    /// A tool or a right is missing.
    pub fn new(system: System, terraced: &Path) -> anyhow::Result<World> {
        let name = |role: &str| format!("tcp{}-{}-{role}", std::process::id(), system as usize);
        let (ends, gateway_namespace) = ([name("a"), name("b")], name("g"));
        let mut namespaces = Vec::new();
        for namespace in ends.iter().chain([&gateway_namespace]) {
            ip(&format!("netns add {namespace}"))?;
            namespaces.push(Removed(namespace.clone()));
            ip(&format!("-n {namespace} link set lo up"))?;
            inside(namespace, "sysctl -qw net.ipv6.conf.default.disable_ipv6=1")?;
        }
        for (number, end) in (1..).zip(&ends) {
            add_end(number, end, &gateway_namespace)?;
            match system {
                System::Linux => add_linux(number, &gateway_namespace)?,
                System::XdpOffloads => drop(inside(end, "ethtool -K wire gro on")?),
                _ if system.is_without_offloads() => {
                    inside(end, "ethtool -K wire tx off tso off gso off gro on")?;
                }
                _ => {}
            }
        }
        let folder = tempfile::tempdir()?;
        let gateway = match system.cache() {
            None => {
                inside(&gateway_namespace, "sysctl -qw net.ipv4.ip_forward=1")?;
                None
            }
            Some(cache) => Some(start_gateway(system, terraced, folder.path(), cache, &gateway_namespace)?),
        };
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &ends[1], "iperf3", "-s"]).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Process(server.spawn().context("iperf3")?);
        std::thread::sleep(Duration::from_millis(500));
        Ok(World { system, _server, gateway, _folder: folder, ends, _namespaces: namespaces })
    }

    /// Runs one TCP connection for `seconds`.
    ///
    /// # Errors
    /// It does not connect.
    pub fn tcp(&self, seconds: u64) -> anyhow::Result<TcpResult> {
        let [sender, receiver] = &self.ends;
        let counter = |namespace: &str, name: &str| -> anyhow::Result<u64> {
            let text = inside(namespace, &format!("nstat -asz {name}"))?;
            let line = text.lines().find(|line| line.starts_with(name)).with_context(|| format!("no {name}"))?;
            line.split_whitespace().nth(1).and_then(|value| value.parse().ok()).context("no number")
        };
        let counters = || -> anyhow::Result<[u64; 3]> {
            Ok([
                counter(sender, "TcpRetransSegs")?,
                counter(sender, "TcpExtTCPDSACKRecvSegs")?,
                counter(receiver, "TcpInCsumErrors")?,
            ])
        };
        let before = counters()?;
        let command = format!("timeout {} iperf3 -J --connect-timeout 2000 -t {seconds} -c 10.0.2.2", seconds + 5);
        let report: serde_json::Value = serde_json::from_str(&inside(sender, &command)?)?;
        let after = counters()?;
        let bits = report["end"]["sum_received"]["bits_per_second"].as_f64().context("no rate")?;
        let [resent, for_nothing, wrong] = [0, 1, 2].map(|index| after[index] - before[index]);
        Ok(TcpResult { gigabits: bits / 1e9, resent, for_nothing, wrong })
    }

    /// Sends small packets for `time`, as fast as one thread can. Returns how many arrive in a
    /// second.
    pub fn small_packets(&self, time: Duration) -> anyhow::Result<f64> {
        let [sender, receiver] = &self.ends;
        let frames: Vec<Packet> =
            (0..64).map(|flow| Packet::from_bytes(&small_frame(flow))).collect::<Result<_, _>>()?;
        let arrived = || -> anyhow::Result<u64> {
            Ok(inside(receiver, "cat /sys/class/net/wire/statistics/rx_packets")?.trim().parse()?)
        };
        let mut port = Namespace::open(sender)?.run(|| RawPort::open("wire"))??;
        // The flows' first packets take the slow path.
        port.send_all(&mut frames.iter());
        std::thread::sleep(Duration::from_millis(300));
        let before = arrived()?;
        let start = Instant::now();
        while start.elapsed() < time {
            port.send_all(&mut frames.iter());
        }
        let elapsed = start.elapsed();
        std::thread::sleep(Duration::from_millis(100));
        Ok((arrived()? - before) as f64 / elapsed.as_secs_f64())
    }

    /// Prints what the gateway says about its flow cache.
    pub fn print_notes(&self) {
        let Some((_, socket)) = &self.gateway else { return };
        let Ok(ControlResponse::Version(version)) = ask(socket, &ControlRequest::Version) else { return };
        println!("{}:", self.system.name());
        let notes = version.program.map(|program| program.notes).unwrap_or_default();
        for note in notes.iter().filter(|note| note.starts_with("xdp:") || note.starts_with("tc:")) {
            println!("  {note}");
        }
        let Ok(ControlResponse::Ports { ports }) = ask(socket, &ControlRequest::Ports) else { return };
        for port in ports {
            for drop in port.drops {
                println!("  {} lost {} packets: {}", port.name, drop.count.packets, drop.reason);
            }
        }
    }
}

/// Adds the kernel of one end: a VXLAN device in `namespace`, and a veth pair to the gateway's
/// namespace. `number`: 1 or 2, part of all addresses.
fn add_end(number: u32, namespace: &str, gateway: &str) -> anyhow::Result<()> {
    ip(&format!(
        "-n {gateway} link add port{number} mtu 1600 address 02:00:00:0{number}:00:01 type veth peer name wire mtu 1600 address 02:00:00:0{number}:00:02 netns {namespace}"
    ))?;
    ip(&format!("-n {gateway} link set port{number} up"))?;
    for step in [
        "link set wire up".to_owned(),
        format!("address add 192.0.2.1{number}/32 dev wire"),
        "route add 192.0.2.1/32 dev wire".to_owned(),
        format!("neighbour add 192.0.2.1 lladdr 02:00:00:0{number}:00:01 dev wire"),
        format!(
            "link add vx mtu 1500 address 02:00:00:10:00:0{number} type vxlan id {number}00 local 192.0.2.1{number} remote 192.0.2.1 dstport 4789 nolearning"
        ),
        "link set vx up".to_owned(),
        format!("address add 10.0.{number}.2/24 dev vx"),
        format!("neighbour add 10.0.{number}.1 lladdr 02:00:5e:00:00:01 dev vx"),
        format!("route add default via 10.0.{number}.1"),
    ] {
        ip(&format!("-n {namespace} {step}"))?;
    }
    Ok(())
}

/// Adds the gateway's side of Linux's own VXLAN to its namespace. `number`: that of the end.
fn add_linux(number: u32, gateway: &str) -> anyhow::Result<()> {
    for step in [
        "address replace 192.0.2.1/32 dev lo".to_owned(),
        format!("route add 192.0.2.1{number}/32 dev port{number}"),
        format!("neighbour add 192.0.2.1{number} lladdr 02:00:00:0{number}:00:02 dev port{number}"),
        format!(
            "link add vx{number} mtu 1500 address 02:00:5e:00:00:01 type vxlan id {number}00 local 192.0.2.1 remote 192.0.2.1{number} dstport 4789 nolearning"
        ),
        format!("link set vx{number} up"),
        format!("address add 10.0.{number}.1/24 dev vx{number}"),
        format!("neighbour add 10.0.{number}.2 lladdr 02:00:00:10:00:0{number} dev vx{number}"),
    ] {
        ip(&format!("-n {gateway} {step}"))?;
    }
    Ok(())
}

/// Starts the binary `terraced` in `netns`, with its files in `folder` and the settings `cache` of
/// its flow cache. Returns the process and its control socket, once it answers.
fn start_gateway(
    system: System,
    terraced: &Path,
    folder: &Path,
    cache: &str,
    netns: &str,
) -> anyhow::Result<(Process, PathBuf)> {
    let socket = folder.join("control.sock");
    let (region, config) = (folder.join("region.yaml"), folder.join("node.toml"));
    std::fs::write(&region, REGION)?;
    let driver = if matches!(system, System::Raw | System::RawCut | System::RawBefore) { "raw" } else { "auto" };
    let ports = [1, 2].map(|number| {
        format!("[[port]]\nnumber = {number}\ndevice = \"port{number}\"\ndriver = {driver:?}\nnetns = {netns:?}\n")
    });
    let text = format!(
        "region = {region:?}\n[p4runtime]\nlisten = []\n[control]\nsocket = {socket:?}\n[log]\nlevel = \"warn\"\n[cache]\n{cache}{}",
        ports.concat()
    );
    std::fs::write(&config, text)?;
    let mut command = match system {
        System::RawCut => {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]).arg(terraced);
            command
        }
        _ => Command::new(terraced),
    };
    let child = command.arg("--config").arg(&config).spawn();
    let process = Process(child.with_context(|| format!("{}: build it first", terraced.display()))?);
    let deadline = Instant::now() + Duration::from_secs(60);
    while ask(&socket, &ControlRequest::Version).is_err() {
        ensure!(Instant::now() < deadline, "terraced does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((process, socket))
}

/// Builds a small UDP packet in VXLAN, complete as on a wire. `flow`: part of the source ports.
fn small_frame(flow: u16) -> Vec<u8> {
    let payload = [0x5a; 12];
    let ip = |len: usize, from: [u8; 4], to: [u8; 4]| {
        let mut header = vec![0x45, 0, (len >> 8) as u8, len as u8, 0, 1, 0, 0, 64, 17, 0, 0];
        header.extend(from.into_iter().chain(to));
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    let udp = |from: u16, to: u16, len: usize| [from, to, len as u16, 0].map(u16::to_be_bytes).concat();
    let mut frame = vec![2, 0, 0, 1, 0, 1, 2, 0, 0, 1, 0, 2, 8, 0];
    let inner = 14 + 20 + 8 + payload.len();
    frame.extend(ip(20 + 16 + inner, [192, 0, 2, 11], [192, 0, 2, 1]));
    frame.extend(udp(49_152 + flow, 4789, 16 + inner));
    frame.extend([8, 0, 0, 0, 0, 0, 100, 0]);
    frame.extend([2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0x10, 0, 1, 8, 0]);
    frame.extend(ip(28 + payload.len(), [10, 0, 1, 2], [10, 0, 2, 2]));
    frame.extend(udp(1_024 + flow, 9, 8 + payload.len()));
    frame.extend(payload);
    frame
}
