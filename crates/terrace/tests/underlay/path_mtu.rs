//! A router of the underlay, the kernel of a namespace, has a link that carries less than the gateway's
//! ports. Its ICMP errors lower the path's MTU, and machines hear of it.

use crate::bench::{Bench, sh, until};
use io::{Port, RawPort};
use node::admin::{ControlRequest, ControlResponse, ask};
use packet::{Batch, Packet, PortId};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// s1 on port 1; the router `s2` on port 2, and the server s2 behind it. `UNDERLAY` and `SERVER` are
/// replaced.
const REGION: &str = "
region: path-mtu
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, '2001:db8::1'], UNDERLAY}
uplinks:
  - {name: u1, port: 1, mac: 02:00:00:01:00:01, host: {interface: port1}, peer_mac: 02:00:00:01:00:02}
  - {name: u2, port: 2, mac: 02:00:00:02:00:01, host: {interface: port2}, peer_mac: 02:00:00:02:00:02}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
  - {name: s2, address: SERVER}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24]}
vms:
  - {name: red-a, vpc: red, server: s1, mac: 02:00:00:10:00:0a, addresses: [10.0.0.11]}
  - {name: red-b, vpc: red, server: s2, mac: 02:00:00:10:00:0b, addresses: [10.0.0.12]}
";

/// A gateway, a server and a router with an interface `lan` behind it.
fn routed() -> Option<Bench> {
    let bench = Bench::new()?;
    bench.connect(1, 1, "u");
    bench.connect(2, 2, "u");
    for port in 1..=2 {
        bench.ip(0, &format!("addr add 10.{port}.0.1/24 dev port{port}"));
        bench.ip(0, &format!("addr add 2001:db8:{port}::1/64 dev port{port} nodad"));
        bench.ip(port, &format!("addr add 10.{port}.0.2/24 dev u"));
        bench.ip(port, &format!("addr add 2001:db8:{port}::2/64 dev u nodad"));
        bench.ip(port, &format!("route add 192.0.2.1/32 via 10.{port}.0.1"));
        bench.ip(port, &format!("-6 route add 2001:db8::1/128 via 2001:db8:{port}::1"));
    }
    bench.ip(0, "addr add 192.0.2.1/32 dev lo");
    bench.ip(0, "route add 192.0.2.11/32 via 10.1.0.2");
    bench.ip(0, "route add 198.51.100.0/24 via 10.2.0.2");
    bench.ip(0, "-6 route add 2001:db8:100::/48 via 2001:db8:2::2");
    let router = bench.namespace(2);
    for switch in ["ipv4.ip_forward=1", "ipv6.conf.all.forwarding=1", "ipv4.conf.all.rp_filter=0"] {
        assert!(sh(&format!("ip netns exec {router} sysctl -qw net.{switch}")));
    }
    Some(bench)
}

/// Gives the router a link of 1,400 bytes to the server, which swallows what passes.
fn add_short_link(bench: &Bench) {
    bench.ip(2, "link add lan type veth peer name far");
    bench.ip(2, "link set lan mtu 1400 up");
    bench.ip(2, "link set far mtu 1400 up");
    bench.ip(2, "addr add 198.51.100.1/24 dev lan");
    bench.ip(2, "addr add 2001:db8:100::1/64 dev lan nodad");
    bench.ip(2, "neigh add 198.51.100.12 lladdr 02:00:00:00:00:99 dev lan");
    bench.ip(2, "neigh add 2001:db8:100::12 lladdr 02:00:00:00:00:99 dev lan");
}

/// Builds a UDP datagram of `length` bytes from 10.0.0.11 to 10.0.0.12, with DF, in a tunnel of s1.
fn datagram(length: usize) -> Packet {
    let mut bytes = crate::bench::datagram(1000).bytes().to_vec();
    let (outer, inner) = (bytes[..50].to_vec(), bytes.split_off(50));
    let mut frame = inner[..14].to_vec();
    let payload = vec![b'x'; length - 28];
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 11], [10, 0, 0, 12], 64).udp(1000, 7);
    builder.write(&mut frame, &payload).unwrap();
    let mut packet = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 1, 0, 2], [2, 0, 0, 1, 0, 1])
        .ipv4([192, 0, 2, 11], [192, 0, 2, 1], 64)
        .udp(50_000, 4789)
        .write(&mut packet, &[&outer[42..50], &frame].concat())
        .unwrap();
    Packet::from_bytes(&packet).unwrap()
}

/// Returns the MTUs of "fragmentation needed" that machines of s1 have been sent.
fn received_mtus(port: &mut RawPort) -> Vec<u16> {
    let mut mtus = Vec::new();
    let mut batch = Batch::new();
    loop {
        batch.clear();
        if port.receive(PortId(0), &mut batch).unwrap_or(0) == 0 {
            return mtus;
        }
        // Behind Ethernet, IPv4, UDP, VXLAN and Ethernet: IPv4, then ICMP.
        let messages = batch.packets().iter().filter_map(|packet| packet.bytes().get(50 + 14 + 20..));
        let too_big = messages.filter(|icmp| icmp.len() > 8 && icmp[..2] == [3, 4]);
        mtus.extend(too_big.map(|icmp| u16::from_be_bytes([icmp[6], icmp[7]])));
    }
}

/// Sends datagrams of 1,500 bytes until the gateway tells s1 an MTU. Returns it.
fn learn_mtu(bench: &Bench) -> u16 {
    let mut from = bench.open(1, "u");
    let mut mtus = Vec::new();
    until("the machine hears of the path's MTU", || {
        assert_eq!(from.send_all(&mut std::iter::once(&datagram(1500))), 1);
        std::thread::sleep(Duration::from_millis(20));
        mtus = received_mtus(&mut from);
        !mtus.is_empty()
    });
    mtus[0]
}

/// Returns the gateway's explanation of a datagram of 1,000 bytes.
fn explain(bench: &Bench) -> String {
    let hex = datagram(1000).bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let request = ControlRequest::Explain { port: 1, hex, from: None, offload: false };
    match ask(&bench.control(), &request) {
        Ok(ControlResponse::Explained(trace)) => format!("{trace:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_of_a_router_reaches_machines_over_both_families_and_both_sources_of_routes() {
    let Some(mut bench) = routed() else { return };
    add_short_link(&bench);
    let region = |underlay: &str, server: &str| {
        let text = REGION.replace("UNDERLAY", underlay);
        // Only the kernel has a route to a server without `uplinks`.
        let uplinks = if underlay.contains("static") { ", uplinks: [u2]" } else { "" };
        text.replace("SERVER", &format!("'{server}'{uplinks}"))
    };
    bench.start(&region("underlay: static", "198.51.100.12"), 2);
    assert_eq!(learn_mtu(&bench), 1350, "1,400 without 50 bytes of tunnel");
    assert!(explain(&bench).contains("via_limited_next_hop"), "{}", explain(&bench));
    assert!(bench.dropped("exceeds_mtu") > 0);
    // An applied file keeps what routers have reported.
    bench.apply(&format!("# a comment{}", region("underlay: static", "198.51.100.12")));
    assert_eq!(learn_mtu(&bench), 1350);
    // Another server in its place, at the same address as far as the router knows: the path is new.
    bench.apply(&region("underlay: static", "2001:db8:100::12"));
    assert_eq!(learn_mtu(&bench), 1330, "1,400 without 70 bytes of tunnel");
    bench.apply(&region("underlay: kernel", "198.51.100.12"));
    assert_eq!(learn_mtu(&bench), 1350);
    bench.stop();
    bench.start(&region("underlay: kernel", "2001:db8:100::12"), 2);
    assert_eq!(learn_mtu(&bench), 1330);
}

#[test]
fn the_mtu_of_a_kernels_route_counts_and_the_floor_holds() {
    let Some(mut bench) = routed() else { return };
    add_short_link(&bench);
    bench.ip(0, "route add 198.51.100.12/32 via 10.2.0.2 mtu 1390");
    let region = REGION.replace("UNDERLAY", "underlay: kernel").replace("SERVER", "198.51.100.12");
    bench.start(&region, 2);
    assert_eq!(learn_mtu(&bench), 1340);
    bench.ip(0, "route del 198.51.100.12/32");
    bench.ip(2, "link set lan mtu 576");
    until("the report of 576 bytes is clamped to 1,330", || learn_mtu(&bench) == 1280);
    assert!(bench.log().contains("a router reports the MTU of the path to 198.51.100.12"), "{}", bench.log());
}

/// Makes a machine of s1 (namespace 1) or of the server behind the router (namespace 2), with the
/// kernel's own VXLAN.
fn add_machine(bench: &Bench, namespace: usize, local: &str, last: u8) {
    let other = 23 - last;
    bench.ip(
        namespace,
        &format!("link add vx0 type vxlan id 100 local {local} remote 192.0.2.1 dstport 4789 noudpcsum"),
    );
    bench.ip(namespace, &format!("link set vx0 address 02:00:00:10:00:{:02x} mtu 1500 up", last - 1));
    bench.ip(namespace, &format!("addr add 10.0.0.{last}/24 dev vx0"));
    bench.ip(namespace, &format!("neigh add 10.0.0.{other} lladdr 02:00:5e:00:00:01 dev vx0"));
}

#[test]
fn tcp_goes_on_while_the_mtu_of_its_path_falls() {
    let Some(mut bench) = routed() else { return };
    // The server is a namespace behind the router.
    let server = format!("{}-b", bench.namespace(2));
    assert!(sh(&format!("ip netns add {server}")));
    let index = bench.adopt(server);
    let there = bench.namespace(index).to_owned();
    bench.ip(2, &format!("link add lan type veth peer name u netns {there}"));
    bench.ip(2, "link set lan mtu 1600 up");
    bench.ip(2, "addr add 198.51.100.1/24 dev lan");
    bench.ip(index, "link set u mtu 1600 up");
    bench.ip(index, "addr add 198.51.100.12/24 dev u");
    bench.ip(index, "route add default via 198.51.100.1");
    bench.ip(1, "addr add 192.0.2.11/32 dev lo");
    add_machine(&bench, 1, "192.0.2.11", 11);
    add_machine(&bench, index, "198.51.100.12", 12);
    let region = REGION.replace("UNDERLAY", "underlay: kernel").replace("SERVER", "198.51.100.12");
    bench.start(&region, 2);
    until("the machines reach each other", || {
        sh(&format!("ip netns exec {} ping -c 1 -W 1 10.0.0.12 >&2", bench.namespace(1)))
    });
    let listen = ["netns", "exec", &there, "iperf3", "-s", "-1"];
    bench.daemons.push(Command::new("ip").args(listen).stdout(Stdio::null()).spawn().unwrap());
    until("iperf3 listens", || sh(&format!("ip netns exec {there} ss -Htln sport = 5201 | grep -q .")));
    let send = ["netns", "exec", bench.namespace(1), "iperf3", "-J", "-c", "10.0.0.12", "-t", "6", "-i", "0.1"];
    let sender = Command::new("ip").args(send).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    bench.ip(2, "link set lan mtu 1450");
    let output = sender.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let intervals = report["intervals"].as_array().unwrap();
    let bytes: Vec<u64> = intervals.iter().map(|interval| interval["sum"]["bytes"].as_u64().unwrap()).collect();
    let stalls = bytes.split(|bytes| *bytes > 0).map(<[u64]>::len);
    let (longest, half) = (stalls.max().unwrap(), bytes.len() / 2);
    println!(
        "longest stall: {longest} intervals of 0.1 s; {} bytes after the change",
        bytes[half..].iter().sum::<u64>()
    );
    assert!(bytes[half..].iter().sum::<u64>() > 0, "{bytes:?}\n{}", bench.log());
    assert!(bench.log().contains("a router reports the MTU of the path to 198.51.100.12"), "{}", bench.log());
    assert!(longest < 30, "a stall of {longest} intervals: {bytes:?}");
}
