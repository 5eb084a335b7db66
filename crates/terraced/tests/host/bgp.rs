//! A BGP session between FRR on the host side of an uplink and FRR of a neighbour.

use super::bfd::Bfd;
use super::lab::{Lab, sh, wait_until};
use super::{ping, vxlan_frame, with_taps};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// FRR's daemon for BGP.
const BGPD: &str = "/usr/lib/frr/bgpd";

/// Returns whether FRR can run here.
pub fn is_installed() -> bool {
    Path::new(BGPD).exists()
}

/// FRR of one namespace. Its processes end with the namespace.
pub struct Frr {
    folder: PathBuf,
}

impl Frr {
    /// Starts bgpd in a namespace, with one neighbour and one network of its own.
    pub fn start(lab: &Lab, namespace: &str, name: &str, own: u32, neighbour: (&str, u32), network: &str) -> Frr {
        // Without zebra, because the session is what matters, not the kernel's routes.
        Frr::start_as(lab, namespace, (name, "-Z"), own, neighbour, network)
    }

    /// Starts bgpd and zebra, which gives the kernel the routes.
    pub fn start_with_zebra(
        lab: &Lab,
        namespace: &str,
        name: &str,
        own: u32,
        neighbour: (&str, u32),
        network: &str,
    ) -> Frr {
        let socket = format!("-z {}/zserv", lab.path(name).display());
        let frr = Frr::start_as(lab, namespace, (name, &socket), own, neighbour, network);
        // Zebra gives up root.
        sh(&format!("chmod 755 {}; chmod 777 {}", lab.path("").display(), frr.folder.display()));
        let command = format!(
            "/usr/lib/frr/zebra -d {socket} -f /dev/null -i {0}/zebra.pid --vty_socket {0} -P 0",
            frr.folder.display()
        );
        let (started, output) = lab.run(namespace, &command);
        assert!(started, "zebra: {output}");
        frr
    }

    fn start_as(
        lab: &Lab,
        namespace: &str,
        (name, zebra): (&str, &str),
        own: u32,
        neighbour: (&str, u32),
        network: &str,
    ) -> Frr {
        let folder = lab.path(name);
        std::fs::create_dir(&folder).expect("a folder");
        let (address, number) = neighbour;
        let config = format!(
            "router bgp {own}\n bgp router-id 192.0.2.{}\n no bgp ebgp-requires-policy\n no bgp network import-check\n \
             timers bgp 1 5\n neighbor {address} remote-as {number}\n neighbor {address} timers connect 1\n \
             address-family ipv4 unicast\n  network {network}\n exit-address-family\n",
            own % 256
        );
        std::fs::write(folder.join("frr.conf"), config).expect("a file");
        let command = format!(
            "{BGPD} -d -S {zebra} -f {0}/frr.conf -i {0}/bgpd.pid --vty_socket {0} -P 0 --log file:{0}/bgpd.log",
            folder.display()
        );
        let (started, output) = lab.run(namespace, &command);
        assert!(started, "bgpd: {output}");
        Frr { folder }
    }

    /// Runs commands of FRR's shell, one in the mode of the other.
    pub fn show_all(&self, commands: &[&str]) -> String {
        let commands: String = commands.iter().map(|command| format!(" -c '{command}'")).collect();
        let output = sh(&format!("vtysh --vty_socket {}{commands} 2>&1", self.folder.display()));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command of FRR's shell.
    fn show(&self, command: &str) -> String {
        let output = sh(&format!("vtysh --vty_socket {} -c '{command}' 2>/dev/null", self.folder.display()));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns whether its session is established.
    pub fn is_established(&self) -> bool {
        self.show("show bgp neighbors json").contains("\"bgpState\":\"Established\"")
    }

    /// Returns how often its session was established.
    fn connections(&self) -> u64 {
        let text = self.show("show bgp neighbors json");
        let after = text.split_once("\"connectionsEstablished\":").map_or("0", |(_, after)| after);
        after.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// Starts a session over the first uplink. Prints a message and returns `None` without FRR.
fn with_session() -> Option<(Lab, Frr, Frr)> {
    if !is_installed() {
        println!("SKIPPED: FRR is not installed");
        return None;
    }
    let lab = with_taps("jit")?;
    let [gateway, first, _] = lab.names();
    ping(&lab, first, "192.0.2.1");
    let host = Frr::start(&lab, gateway, "host", 65001, ("192.0.2.11", 65011), "10.1.0.0/24");
    let neighbour = Frr::start(&lab, first, "neighbour", 65011, ("192.0.2.1", 65001), "10.2.0.0/24");
    wait_until("the session is established", || host.is_established() && neighbour.is_established());
    let learned = |frr: &Frr, prefix: &str| frr.show("show bgp ipv4 unicast json").contains(prefix);
    wait_until("the routes are learned", || learned(&host, "10.2.0.0/24") && learned(&neighbour, "10.1.0.0/24"));
    Some((lab, host, neighbour))
}

#[test]
fn a_session_survives_a_flood_and_vxlan() {
    let Some((lab, host, neighbour)) = with_session() else { return };
    let [_, first, _] = lab.names();
    let arp =
        "ffffffffffff 02000000aabb 0806 0001 0800 06 04 0001 02000000aabb c000024d 000000000000 c0000201".to_owned();
    let rounds = 20;
    for _ in 0..rounds {
        lab.send_frames(first, &vec![arp.clone(); 500]);
        lab.send_frames(first, &vec![vxlan_frame(); 50]);
    }
    wait_until("VXLAN is forwarded", || lab.port(2).sent.packets >= 50 * rounds);
    // The burst of ARP is 600 packets, and more are limited.
    wait_until("ARP is limited", || lab.host(1).drops.iter().any(|row| row.reason == "punt_rate_limited"));
    assert!(host.is_established() && neighbour.is_established());
    assert_eq!((host.connections(), neighbour.connections()), (1, 1), "the session was lost");
    let lost = lab.host(1).drops;
    assert!(lost.iter().all(|row| row.kind == "arp"), "{lost:?}");
    assert!(lab.to_host(1, "bgp") > 0);
}

/// BGP, and BFD that detects a loss within a second, stay up while both neighbours send tunnel
/// packets as fast as they can. `TERRACE_FLOOD_SECONDS` sets the duration.
#[test]
fn sessions_survive_full_load() {
    if !Bfd::is_installed() {
        println!("SKIPPED: FRR is not installed");
        return;
    }
    let Some((lab, host, neighbour)) = with_session() else { return };
    let [gateway, first, second] = lab.names();
    let bfd = [
        Bfd::start(&lab, gateway, "bfd-host", ["192.0.2.1", "192.0.2.11"]),
        Bfd::start(&lab, first, "bfd-neighbour", ["192.0.2.11", "192.0.2.1"]),
    ];
    wait_until("BFD is up", || bfd.iter().all(|side| side.changes()[0] > 0));
    let before = bfd.each_ref().map(Bfd::changes);
    let seconds = std::env::var("TERRACE_FLOOD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let end = Instant::now() + Duration::from_secs(seconds);
    std::thread::scope(|scope| {
        for namespace in [first, second] {
            let lab = &lab;
            scope.spawn(move || {
                while Instant::now() < end {
                    lab.send_frames(namespace, &vec![vxlan_frame(); 2000]);
                }
            });
        }
    });
    let forwarded = lab.port(2).sent.packets;
    println!("{forwarded} tunnel packets in {seconds} s; BFD came up and went down: {before:?}");
    assert!(forwarded > 10_000, "{forwarded} packets are no load");
    assert_eq!(bfd.each_ref().map(Bfd::changes), before, "BFD was lost");
    assert!(host.is_established() && neighbour.is_established());
    assert_eq!((host.connections(), neighbour.connections()), (1, 1), "the BGP session was lost");
    assert!(lab.to_host(1, "bfd") > 0);
}

#[test]
fn a_session_survives_a_take_over() {
    let Some((mut lab, host, neighbour)) = with_session() else { return };
    let index = |lab: &Lab| lab.run(lab.names()[0], "cat /sys/class/net/tg1/ifindex").1;
    let before = index(&lab);
    lab.start("--takeover");
    assert_eq!(index(&lab), before, "the TAP was made anew");
    let received = lab.to_host(1, "bgp");
    wait_until("the new process passes BGP", || lab.to_host(1, "bgp") > received + 3);
    assert!(host.is_established() && neighbour.is_established());
    assert_eq!((host.connections(), neighbour.connections()), (1, 1), "the session was lost");
}
