//! FRR with BGP on links without addresses (RFC 8950): nothing of the underlay is configured, neither
//! in the region file nor in the kernel.

use crate::bench::{Bench, PATIENCE, send_flows, sh};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const FLOWS: u16 = 200;
/// Folder of FRR's daemons.
const FRR: &str = "/usr/lib/frr";

const REGION: &str = "
region: frr
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1], underlay: kernel}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, host: {interface: port1}}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, host: {interface: port2}}
  - {name: u3, port: 3, mac: 02:00:00:03:00:01, host: {interface: port3}}
servers:
  - {name: s1, address: 192.0.2.11}
  - {name: s2, address: 198.51.100.12}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24]}
vms:
  - {name: red-a, vpc: red, server: s1, mac: 02:00:00:10:00:0a, addresses: [10.0.0.11]}
  - {name: red-b, vpc: red, server: s2, mac: 02:00:00:10:00:0b, addresses: [10.0.0.12]}
";

/// Starts FRR in a namespace. It announces `network` to the neighbours on these interfaces.
fn start_frr(bench: &mut Bench, index: usize, interfaces: &[&str], network: &str) {
    let folder = bench.folder.path().join(format!("frr{index}"));
    std::fs::create_dir(&folder).unwrap();
    // The daemons give up root.
    std::fs::set_permissions(bench.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).unwrap();
    let neighbours: String = interfaces
        .iter()
        .map(|name| format!(" neighbor {name} interface remote-as external\n neighbor {name} timers connect 1\n"))
        .collect();
    let bgp = format!(
        "router bgp {}\n bgp router-id 1.1.1.{index}\n no bgp ebgp-requires-policy\n timers bgp 1 3\n{neighbours} address-family ipv4 unicast\n  \
         network {network}\n  maximum-paths 8\n",
        65_001 + index
    );
    std::fs::write(folder.join("bgpd.conf"), bgp).unwrap();
    std::fs::write(folder.join("zebra.conf"), format!("hostname frr{index}\n")).unwrap();
    for daemon in ["zebra", "bgpd"] {
        let path = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", bench.namespace(index), &format!("{FRR}/{daemon}"), "-P", "0"]);
        command.args(["-f", &path(&format!("{daemon}.conf")), "-i", &path(&format!("{daemon}.pid"))]);
        command.args(["-z", &path("zserv"), "--vty_socket", &folder.display().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bench.daemons.push(command.spawn().unwrap());
    }
}

#[test]
fn bgp_without_addresses_routes_the_underlay() {
    if !Path::new(FRR).join("bgpd").exists() {
        println!("SKIPPED: FRR is not installed");
        return;
    }
    let Some(mut bench) = Bench::new() else { return };
    for (port, server, far) in [(1, 1, "u"), (2, 2, "u"), (3, 2, "w")] {
        bench.connect(port, server, far);
    }
    bench.ip(0, "addr add 192.0.2.1/32 dev lo");
    bench.ip(1, "addr add 192.0.2.11/32 dev lo");
    bench.ip(2, "addr add 198.51.100.12/32 dev lo");
    start_frr(&mut bench, 0, &["port1", "port2", "port3"], "192.0.2.1/32");
    start_frr(&mut bench, 1, &["u"], "192.0.2.11/32");
    start_frr(&mut bench, 2, &["u", "w"], "198.51.100.12/32");
    bench.start(REGION, 3);
    let (mut from, mut u, mut w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
    let mut until_flows_use = |what: &str, use_u: bool, use_w: bool| {
        let began = Instant::now();
        loop {
            let arrived = send_flows(&mut from, &mut [&mut u, &mut w], FLOWS);
            let has = |wanted| arrived.values().any(|at| *at == wanted);
            if arrived.len() == usize::from(FLOWS) && has(0) == use_u && has(1) == use_w {
                return;
            }
            if began.elapsed() > PATIENCE {
                sh(&format!("ip -n {} route >&2", bench.namespace(0)));
                panic!("{what}: {} flows arrived\n{}", arrived.len(), bench.log());
            }
        }
    };
    until_flows_use("both paths that BGP has found", true, true);
    bench.ip(2, "link set w down");
    until_flows_use("one of the sessions is lost", true, false);
}
