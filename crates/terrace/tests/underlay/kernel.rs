//! A gateway without any static entry of the underlay: the kernel's routes and neighbours decide.

use crate::bench::{Bench, datagram, send_flows, sh, until};
use io::{Port, RawPort};
use node::admin::{ControlRequest, ControlResponse, ask};
use node::status::PortState;
use packet::Packet;

const FLOWS: u16 = 200;

/// s1 behind a router on port 1, s2 behind routers on the ports 2 and 3: the kernel says so.
pub const REGION: &str = "
region: kernel
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1, '2001:db8::1'], underlay: kernel}
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

/// The gateway's side of the route to s2 over both paths.
pub const BOTH_PATHS: &str = "route replace 198.51.100.12/32 nexthop via 10.2.0.2 nexthop via 10.3.0.2";

/// Namespaces with addresses, and with routes in the gateway's namespace.
pub fn routed() -> Option<Bench> {
    let bench = Bench::new()?;
    for (port, server, far) in [(1, 1, "u"), (2, 2, "u"), (3, 2, "w")] {
        bench.connect(port, server, far);
        bench.ip(0, &format!("addr add 10.{port}.0.1/24 dev port{port}"));
        bench.ip(server, &format!("addr add 10.{port}.0.2/24 dev {far}"));
    }
    bench.ip(0, "addr add 192.0.2.1/32 dev lo");
    bench.ip(0, "route add 192.0.2.11/32 via 10.1.0.2");
    Some(bench)
}

/// A running gateway, and the interfaces of the servers.
pub struct Running {
    pub bench: Bench,
    from: RawPort,
    u: RawPort,
    w: RawPort,
}

impl Running {
    pub fn start(mut bench: Bench, region: &str) -> Running {
        bench.start(region, 3);
        let (from, u, w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
        Running { bench, from, u, w }
    }

    /// Returns the gateway, and the interfaces of s1 and of s2.
    pub fn into_parts(self) -> (Bench, [RawPort; 3]) {
        (self.bench, [self.from, self.u, self.w])
    }

    /// Returns how many of the flows arrive at each interface of s2.
    fn shares(&mut self) -> (usize, usize) {
        let arrived = send_flows(&mut self.from, &mut [&mut self.u, &mut self.w], FLOWS);
        let count = |wanted| arrived.values().filter(|at| **at == wanted).count();
        (count(0), count(1))
    }

    /// Waits until all flows arrive at these interfaces and no others.
    pub fn until_flows_use(&mut self, what: &str, u: bool, w: bool) {
        let mut last = (0, 0);
        let began = std::time::Instant::now();
        while began.elapsed() < crate::bench::PATIENCE {
            last = self.shares();
            if last.0 + last.1 == usize::from(FLOWS) && (last.0 > 0) == u && (last.1 > 0) == w {
                return;
            }
        }
        panic!("{what}: {last:?} of {FLOWS} flows arrived\n{}", self.bench.log());
    }
}

#[test]
fn routes_and_neighbours_of_the_kernel_are_enough() {
    let Some(bench) = routed() else { return };
    bench.ip(0, BOTH_PATHS);
    let mut running = Running::start(bench, REGION);
    let began = std::time::Instant::now();
    running.until_flows_use("without a static entry", true, true);
    println!("all flows arrived {} ms after the gateway served", began.elapsed().as_millis());

    // A trace names the kernel's route.
    let hex = datagram(7).bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let explain = ControlRequest::Explain { port: 1, hex, from: None, offload: false };
    let Ok(ControlResponse::Explained(trace)) = ask(&running.bench.control(), &explain) else { panic!("no trace") };
    let trace = format!("{trace:?}");
    assert!(trace.contains("kernel route 198.51.100.12/32 via 10.2.0.2 dev port2"), "{trace}");

    // An applied region file leaves the kernel's entries alone.
    assert_eq!(running.bench.apply(&format!("# a comment{REGION}")), (0, 0, 0));
    let (inserted, ..) =
        running.bench.apply(&REGION.replace("servers:", "servers:\n  - {name: s9, address: 10.2.0.9}"));
    assert!(inserted > 0, "the file was applied as a whole");
    running.until_flows_use("after an applied region", true, true);
}

#[test]
fn a_path_leaves_with_its_link_its_address_its_next_hop_object_and_its_route() {
    let Some(bench) = routed() else { return };
    bench.ip(0, BOTH_PATHS);
    let mut running = Running::start(bench, REGION);
    running.until_flows_use("both paths", true, true);
    // The kernel says nothing about the route that goes with an interface or an address.
    running.bench.ip(0, "link set port3 down");
    running.until_flows_use("port3 is down", true, false);
    running.bench.ip(0, "link set port3 up");
    running.bench.ip(0, BOTH_PATHS);
    running.until_flows_use("port3 is up again", true, true);
    running.bench.ip(2, "link set w down");
    running.until_flows_use("the carrier of port3 is lost", true, false);
    running.bench.ip(2, "link set w up");
    running.until_flows_use("the carrier of port3 is back", true, true);
    running.bench.ip(0, "addr del 10.2.0.1/24 dev port2");
    running.until_flows_use("port2 has lost its address", false, true);
    running.bench.ip(0, "addr add 10.2.0.1/24 dev port2");
    for command in [
        "nexthop add id 1 via 10.2.0.2 dev port2",
        "nexthop add id 2 via 10.3.0.2 dev port3",
        "nexthop add id 10 group 1/2",
        "route replace 198.51.100.12/32 nhid 10",
    ] {
        running.bench.ip(0, command);
    }
    running.until_flows_use("a group of next hop objects", true, true);
    running.bench.ip(0, "nexthop del id 2");
    running.until_flows_use("one of the objects is deleted", true, false);
    running.bench.ip(0, "route replace blackhole 198.51.100.12/32");
    until("packets of a black hole are dropped", || {
        running.shares();
        running.bench.dropped("no_underlay_route") > 0
    });
    assert!(running.bench.log().contains("leads to 198.51.100.12"), "{}", running.bench.log());
    running.bench.ip(0, "route replace 198.51.100.0/24 via 10.3.0.2");
    running.bench.ip(0, "route del 198.51.100.12/32");
    running.until_flows_use("a shorter prefix", false, true);
}

#[test]
fn a_neighbour_that_appears_late_is_found_without_help() {
    let Some(bench) = routed() else { return };
    bench.ip(2, "addr del 10.2.0.2/24 dev u");
    bench.ip(0, "route replace 198.51.100.12/32 via 10.2.0.2");
    let mut running = Running::start(bench, REGION);
    until("packets wait for nobody", || {
        running.shares();
        running.bench.dropped("neighbour_unresolved") > 0
    });
    assert_eq!(running.shares(), (0, 0));
    running.bench.ip(2, "addr add 10.2.0.2/24 dev u");
    running.until_flows_use("the neighbour answers", true, false);
    // One of two that does not answer is not used.
    running.bench.ip(0, "route replace 198.51.100.12/32 nexthop via 10.2.0.2 nexthop via 10.3.0.99");
    running.until_flows_use("one of two neighbours answers", true, false);
}

#[test]
fn connected_servers_ipv6_next_hops_and_an_ipv6_underlay_are_routed() {
    let Some(bench) = routed() else { return };
    bench.ip(0, "route replace 198.51.100.12/32 via inet6 fe80::ff:fe02:2 dev port2");
    let mut running = Running::start(bench, REGION);
    running.until_flows_use("an IPv4 route by an IPv6 next hop", true, false);
    running.bench.apply(&REGION.replace("198.51.100.12", "10.3.0.2"));
    running.until_flows_use("a server in the subnet of port3", false, true);
    running.bench.ip(0, "addr add 2001:db8:3::1/64 dev port3 nodad");
    running.bench.ip(2, "addr add 2001:db8:3::2/64 dev w nodad");
    running.bench.ip(0, "-6 route add 2001:db8:100::/48 via 2001:db8:3::2");
    running.bench.apply(&REGION.replace("198.51.100.12", "'2001:db8:100::12'"));
    running.until_flows_use("a server with an IPv6 address", false, true);
}

#[test]
fn a_flood_of_routes_ends_with_the_right_ones() {
    let Some(bench) = routed() else { return };
    bench.ip(0, BOTH_PATHS);
    let mut running = Running::start(bench, REGION);
    running.until_flows_use("both paths", true, true);
    let mut batch = String::new();
    for number in 0..30_000_u32 {
        batch += &format!("route add 100.{}.{}.{}/32 via 10.2.0.2\n", number >> 14, (number >> 7) & 127, number & 127);
    }
    batch += "route replace 198.51.100.12/32 via 10.3.0.2\n";
    let file = running.bench.folder.path().join("routes");
    std::fs::write(&file, batch).unwrap();
    let namespace = running.bench.namespace(0).to_owned();
    assert!(sh(&format!("ip -n {namespace} -batch {}", file.display())));
    running.until_flows_use("the last route of the flood", false, true);
    // Routes that no server needs are not in the gateway's tables.
    let Ok(ControlResponse::Tables { tables }) = ask(&running.bench.control(), &ControlRequest::Tables) else {
        panic!("no tables")
    };
    let routes = tables.iter().find(|table| table.name.ends_with("underlay_route_v4")).unwrap();
    assert_eq!(routes.entries, 2, "{routes:?}");
}

#[test]
fn gratuitous_arp_for_the_gateway_or_a_stranger_changes_nothing() {
    let Some(bench) = routed() else { return };
    bench.ip(0, BOTH_PATHS);
    let mut running = Running::start(bench, REGION);
    running.until_flows_use("both paths", true, true);
    for claimed in [[10, 2, 0, 1], [192, 0, 2, 1], [10, 2, 0, 77], [198, 51, 100, 12]] {
        assert_eq!(running.u.send_all(&mut std::iter::once(&gratuitous_arp(claimed))), 1);
    }
    running.until_flows_use("after gratuitous ARP", true, true);
    assert_eq!(running.bench.port(2).state, Some(PortState::Up));
}

#[test]
fn without_the_right_to_ask_for_neighbours_the_log_says_so_and_known_ones_are_used() {
    let Some(mut bench) = routed() else { return };
    bench.ip(0, BOTH_PATHS);
    bench.start_by(&["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"], REGION, 3);
    until("the log names the capability", || bench.log().contains("give the process CAP_NET_ADMIN"));
    let (from, u, w) = (bench.open(1, "u"), bench.open(2, "u"), bench.open(2, "w"));
    let mut running = Running { bench, from, u, w };
    assert_eq!(running.shares(), (0, 0));
    for router in ["10.1.0.2", "10.2.0.2", "10.3.0.2"] {
        assert!(sh(&format!("ip netns exec {} ping -c 1 -W 5 {router} >&2", running.bench.namespace(0))));
    }
    running.until_flows_use("the host has found the neighbours", true, true);
}

/// Builds a gratuitous ARP reply (RFC 5227) for an address from a MAC address that nobody has.
fn gratuitous_arp(address: [u8; 4]) -> Packet {
    let mac = [2, 0xba, 0xd0, 0, 0, 1];
    let mut bytes = [&[0xff; 6][..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    for part in [&mac[..], &address, &[0xff; 6], &address] {
        bytes.extend(part);
    }
    bytes.resize(60, 0);
    Packet::from_bytes(&bytes).unwrap()
}
