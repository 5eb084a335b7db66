//! Namespaces of a test: a gateway with two uplinks, and a neighbour on each.

use node::admin::ask;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::status::{HostStatus, PortStatus};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for a condition, far longer than it takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// The MAC of the gateway on its first uplink.
pub const GATEWAY_MAC: &str = "02:00:00:00:01:01";

/// Runs a command of a shell. Returns its output.
pub fn sh(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().expect("there is a shell")
}

/// Waits until `is_so` returns true.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "still not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The namespaces, the daemon in the first, and its files. All are removed when the test ends.
pub struct Lab {
    names: [String; 3],
    folder: tempfile::TempDir,
    /// Number of daemons that were started.
    starts: u32,
    pub daemon: Option<Child>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.stop();
        for name in &self.names {
            sh(&format!("ip netns pids {name} | xargs -r kill -9; ip netns del {name}"));
        }
    }
}

impl Lab {
    /// Creates the namespaces: the gateway with the interfaces `u1` and `u2`, and a neighbour behind
    /// each, 192.0.2.11 and 198.51.100.12. Prints a message and returns `None` where that is not
    /// possible.
    pub fn new() -> Option<Lab> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let names = ["g", "a", "b"].map(|kind| format!("host-{number}-{kind}"));
        let lab = Lab { names, folder: tempfile::tempdir().expect("a folder"), starts: 0, daemon: None };
        for name in &lab.names {
            if !sh(&format!("ip netns add {name}")).status.success() {
                println!("SKIPPED: network namespaces cannot be made here; run as root");
                return None;
            }
            lab.ip(name, "link set lo up");
        }
        let [gateway, first, second] = &lab.names;
        for (uplink, peer, addresses) in [
            ("u1", first, ["192.0.2.11/24", "2001:db8::11/64"]),
            ("u2", second, ["198.51.100.12/24", "2001:db8:2::12/64"]),
        ] {
            lab.ip(gateway, &format!("link add {uplink} type veth peer name p netns {peer}"));
            lab.ip(gateway, &format!("link set {uplink} up"));
            lab.ip(peer, "link set p up");
            // Ports receive what a sender leaves to its device.
            for address in addresses {
                lab.ip(peer, &format!("addr add {address} dev p nodad"));
            }
        }
        Some(lab)
    }

    /// Returns the namespaces: of the gateway and of its two neighbours.
    pub fn names(&self) -> [&str; 3] {
        self.names.each_ref().map(String::as_str)
    }

    /// Returns the path of a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `ip` in a namespace.
    pub fn ip(&self, namespace: &str, arguments: &str) {
        let output = sh(&format!("ip -n {namespace} {arguments}"));
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command in a namespace. Returns whether it succeeded, and its output.
    pub fn run(&self, namespace: &str, command: &str) -> (bool, String) {
        let output = sh(&format!("ip netns exec {namespace} {command}"));
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.success(), text.into_owned())
    }

    /// Writes the region and the configuration. `hosts`: the host sides of the two uplinks.
    pub fn configure(&self, engine: &str, hosts: [&str; 2]) {
        let uplink = |number: usize, host: &str| {
            let host = if host.is_empty() { String::new() } else { format!(", host: {host}") };
            format!(
                "  - {{name: u{number}, port: {number}, mac: '02:00:00:00:0{number}:01', peer_mac: '{}', mtu: 1500{host}}}\n",
                self.mac_of_neighbour(number)
            )
        };
        let region = format!(
            "region: r\ngateway: {{mac: '02:00:5e:00:00:01', vteps: [192.0.2.1, '2001:db8::1']}}\nuplinks:\n{}{}\
             servers:\n  - {{name: s1, address: 192.0.2.11, uplinks: [u1]}}\n  - {{name: s2, address: 198.51.100.12, uplinks: [u2]}}\n\
             vpcs: [{{name: red, vni: 10, subnets: [10.0.0.0/24]}}]\n\
             vms:\n  - {{name: m1, vpc: red, server: s1, mac: '02:00:00:00:aa:01', addresses: [10.0.0.1]}}\n  \
             - {{name: m2, vpc: red, server: s2, mac: '02:00:00:00:aa:02', addresses: [10.0.0.2]}}\n",
            uplink(1, hosts[0]),
            uplink(2, hosts[1])
        );
        std::fs::write(self.path("region.yaml"), region).expect("the folder can be written");
        let ports: String = [1, 2]
            .map(|number| {
                let driver = if engine == "jit" { "driver = \"raw\"\n" } else { "" };
                format!("[[port]]\nnumber = {number}\ndevice = \"u{number}\"\n{driver}")
            })
            .concat();
        let cache = if engine == "xdp" { "[cache]\nkind = \"xdp\"\n" } else { "" };
        let text = format!(
            "region = {:?}\ntakeover_socket = {:?}\n{ports}{cache}[p4runtime]\nlisten = []\n[control]\nsocket = {:?}\n",
            self.path("region.yaml"),
            self.path("takeover.sock"),
            self.path("control.sock")
        );
        std::fs::write(self.path("node.toml"), text).expect("the folder can be written");
    }

    fn mac_of_neighbour(&self, number: usize) -> String {
        self.run(&self.names[number], "cat /sys/class/net/p/address").1.trim().to_owned()
    }

    /// Starts a daemon in the gateway's namespace, and waits until it serves.
    pub fn start(&mut self, options: &str) {
        // A log of its own, because the former daemon still writes to its log.
        self.starts += 1;
        let log = std::fs::File::create(self.path(&format!("log-{}", self.starts))).expect("a log");
        let program = env!("CARGO_BIN_EXE_terraced");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[0], program, "--config"]).arg(self.path("node.toml"));
        command.args(options.split_whitespace()).stderr(log).stdout(Stdio::null());
        let child = command.spawn().expect("terraced was built");
        let former = self.daemon.replace(child);
        wait_until("the daemon serves", || {
            let log = self.log();
            assert!(!log.contains("cannot run"), "{log}");
            log.contains("serving")
        });
        if let Some(mut former) = former {
            former.wait().expect("the former daemon ends after a take-over");
        }
    }

    /// Starts a daemon that refuses to run. Returns its log.
    pub fn start_refused(&self) -> String {
        let program = env!("CARGO_BIN_EXE_terraced");
        let config = self.path("node.toml");
        let (ran, log) = self.run(&self.names[0], &format!("timeout 60 {program} --config {}", config.display()));
        assert!(!ran, "it runs: {log}");
        log
    }

    /// Ends the daemon.
    pub fn stop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Returns the log of the last daemon.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path(&format!("log-{}", self.starts))).unwrap_or_default()
    }

    /// Gives the TAPs of both uplinks the addresses of the gateway.
    pub fn address_taps(&self) {
        let gateway = &self.names[0];
        for (tap, addresses) in
            [("tg1", ["192.0.2.1/24", "2001:db8::1/64"]), ("tg2", ["198.51.100.1/24", "2001:db8:2::1/64"])]
        {
            for address in addresses {
                self.ip(gateway, &format!("addr add {address} dev {tap}"));
            }
        }
    }

    /// Returns the status of a port.
    pub fn port(&self, number: u32) -> PortStatus {
        let answer = ask(&self.path("control.sock"), &ControlRequest::Ports);
        let Ok(ControlResponse::Ports { ports }) = answer else { panic!("{answer:?}") };
        ports.into_iter().find(|port| port.number == number).expect("the port")
    }

    /// Returns the host side of a port.
    pub fn host(&self, number: u32) -> HostStatus {
        self.port(number).host.expect("a host side")
    }

    /// Returns the number of packets of a kind that the host of a port received.
    pub fn to_host(&self, number: u32, kind: &str) -> u64 {
        self.host(number).to_host.iter().filter(|row| row.kind == kind).map(|row| row.count.packets).sum()
    }

    /// Returns the number of packets that were dropped for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        let answer = ask(&self.path("control.sock"), &ControlRequest::Drops);
        let Ok(ControlResponse::Drops { drops }) = answer else { panic!("{answer:?}") };
        drops.iter().filter(|row| row.reason == reason && row.by != "cpu").map(|row| row.count.packets).sum()
    }

    /// Sends frames, as hex digits, from a neighbour.
    pub fn send_frames(&self, namespace: &str, frames: &[String]) {
        let open = || io::RawPort::open("p").expect("the neighbour's interface");
        let mut port = io::Namespace::open(namespace).and_then(|namespace| namespace.run(open)).expect("entered");
        for frame in frames {
            let packet = packet::Packet::from_bytes(&bytes_of(frame)).expect("a short frame");
            let sent = io::Port::send_all(&mut port, &mut std::iter::once(&packet));
            assert_eq!(sent, 1, "{frame}");
        }
    }
}

/// Converts hex digits, with blanks, to bytes.
fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hex")).collect()
}
