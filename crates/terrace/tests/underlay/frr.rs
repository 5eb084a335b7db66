//! FRR with BGP on links without addresses (RFC 8950): nothing of the underlay is configured, neither
//! in the region file nor in the kernel.

use crate::bench::Bench;
use crate::kernel::{REGION, Running};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folder of FRR's daemons.
const FRR: &str = "/usr/lib/frr";

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
    let mut running = Running::start(bench, REGION);
    running.until_flows_use("both paths that BGP has found", true, true);
    running.bench.ip(2, "link set w down");
    running.until_flows_use("one of the sessions is lost", true, false);
}
