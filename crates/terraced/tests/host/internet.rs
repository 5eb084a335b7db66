//! A router of the Internet behind an uplink finds public addresses: by BGP, from FRR on the host side of the
//! uplink, and by ARP, if they are on its link.

use super::bgp::{Frr, is_installed};
use super::lab::{GATEWAY_MAC, Lab, wait_until};
use std::net::UdpSocket;
use std::time::Duration;

/// A host in the Internet: an address of the router.
const HOST: [u8; 4] = [203, 0, 113, 200];
/// The public addresses.
const PREFIX: &str = "203.0.113.64/28";

/// A gateway whose machines reach the Internet by the second uplink.
fn with_internet(answer_arp: bool) -> Option<Lab> {
    let mut lab = Lab::new()?;
    lab.configure("jit", super::TAPS);
    let path = lab.path("region.yaml");
    let text = std::fs::read_to_string(&path).expect("the region");
    let vpcs = "vpcs: [{name: red, vni: 10, subnets: [10.0.0.0/24]}]";
    assert!(text.contains(vpcs));
    let internet = format!(
        "internet: {{uplinks: [u2], answer_arp: {answer_arp}, nats: [{{name: n, addresses: {PREFIX}}}]}}\n\
         vpcs: [{{name: red, vni: 10, subnets: [10.0.0.0/24], nat: n, routes: [{{to: 0.0.0.0/0, internet: true}}]}}]"
    );
    std::fs::write(&path, text.replacen(vpcs, &internet, 1)).expect("the folder can be written");
    lab.start("");
    lab.address_taps();
    let [_, _, router] = lab.names();
    lab.ip(router, "addr add 203.0.113.200/32 dev lo");
    Some(lab)
}

/// The server of a machine: sends its echo requests, and receives what is sent to it.
struct Server<'a> {
    lab: &'a Lab,
    socket: UdpSocket,
}

impl Server<'_> {
    fn new(lab: &Lab) -> Server<'_> {
        let bind = || UdpSocket::bind("192.0.2.11:4789").expect("VXLAN");
        let namespace = io::Namespace::open(lab.names()[1]).expect("the server's namespace");
        let socket = namespace.run(bind).expect("entered");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        Server { lab, socket }
    }

    /// Pings the host from a machine. Returns whether the machine gets the reply.
    fn ping(&self) -> bool {
        let frame = format!(
            "{} 02000000aabb 0800  4500005e000100004011f681c000020bc0000201 c00012b5004a0000 0800000000000a00 \
             02005e00000102000000aa010800 4500002c00010000400134070a000001cb0071c8 \
             0800b7ad000700017468726f75676820746865204e415420",
            GATEWAY_MAC.replace(':', "")
        );
        self.lab.send_frames(self.lab.names()[1], &[frame]);
        let mut bytes = [0; 2000];
        let Ok((length, _)) = self.socket.recv_from(&mut bytes) else { return false };
        // Behind VXLAN and Ethernet: from the host to the machine, an echo reply.
        let packet = &bytes[22..length];
        assert_eq!([&packet[12..16], &packet[16..20]], [HOST, [10, 0, 0, 1]]);
        packet[20] == 0
    }
}

#[test]
fn a_prefix_that_frr_announces_leads_to_the_nat_until_it_is_withdrawn() {
    if !is_installed() {
        println!("SKIPPED: FRR is not installed");
        return;
    }
    let Some(lab) = with_internet(false) else { return };
    let [gateway, _, router] = lab.names();
    super::ping(&lab, router, "198.51.100.1");
    let server = Server::new(&lab);
    assert!(!server.ping(), "the router has no route");
    let host = Frr::start(&lab, gateway, "host", 65001, ("198.51.100.12", 65012), PREFIX);
    let neighbour = Frr::start_with_zebra(&lab, router, "router", 65012, ("198.51.100.1", 65001), "203.0.113.200/32");
    wait_until("the router has the route", || lab.run(router, "ip route show").1.contains(PREFIX));
    wait_until("the machine reaches the host", || server.ping());
    assert!(neighbour.is_established());
    host.show_all(&["conf t", "router bgp 65001", "address-family ipv4 unicast", &format!("no network {PREFIX}")]);
    wait_until("the route is withdrawn", || !lab.run(router, "ip route show").1.contains(PREFIX));
    // An answer that was on its way can still come.
    server.ping();
    assert!(!server.ping(), "the router has no route any more");
}

#[test]
fn a_router_on_the_link_finds_public_addresses_by_arp() {
    for answer_arp in [false, true] {
        let Some(lab) = with_internet(answer_arp) else { return };
        let [_, _, router] = lab.names();
        super::ping(&lab, router, "198.51.100.1");
        lab.ip(router, "addr add 203.0.113.94/27 dev p");
        let server = Server::new(&lab);
        if !answer_arp {
            assert!(!server.ping(), "no one has the address");
            continue;
        }
        wait_until("the machine reaches the host", || server.ping());
        let (_, neighbours) = lab.run(router, "ip neigh show dev p");
        let found = neighbours.lines().filter(|line| line.starts_with("203.0.113."));
        let found: Vec<&str> = found.collect();
        assert!(found.len() == 1 && found[0].contains("02:00:00:00:02:01"), "{neighbours}");
        // The gateway's own address is that of the host.
        assert!(lab.to_host(2, "arp") > 0);
    }
}
