//! Machines with IPv6 reach a host in the Internet with IPv4 alone (NAT64): the kernel's stacks at both ends,
//! with a router between.

use crate::icmp::at;
use crate::place::{Turn, json, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use crate::traffic::{exchange_tcp, narrow_internet_link};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

const HOST: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
/// The host and the router behind the prefix.
const HOST_BEHIND: &str = "64:ff9b::203.0.113.200";
const ROUTER_BEHIND: &str = "64:ff9b::cb00:71c1";

/// The lab's region, in which `green` reaches hosts with IPv4 alone.
fn region() -> String {
    let changes = [
        ("peer_mac: 02:00:00:06:00:02, mtu: 1500", "peer_mac: 02:00:00:06:00:02, mtu: 1400"),
        ("    vni: 300\n", "    vni: 300\n    nat: public\n    nat64: {}\n"),
    ];
    edited(&region_text(), &changes)
}

fn is_public(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[..3] == [198, 51, 100] && v4.octets()[3] >> 4 == 1)
}

fn behind(port: u16) -> SocketAddr {
    SocketAddr::new(HOST_BEHIND.parse().unwrap(), port)
}

/// Sends a datagram from `green-b` to the host and back, in the sizes of both sides of 1,260 bytes.
fn exchange_udp(turn: &Turn) {
    let host = turn.namespace("internet").run(|| UdpSocket::bind((HOST, 5353)).unwrap()).unwrap();
    let machine = turn.namespace("green-b").run(|| UdpSocket::bind("[fd00:300::12]:5000").unwrap()).unwrap();
    for socket in [&host, &machine] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let mut bytes = [0; 2000];
    for length in [1, 1200, 1300] {
        machine.send_to(&vec![7; length], behind(5353)).unwrap();
        let (found, from) = host.recv_from(&mut bytes).unwrap();
        assert!(found == length && is_public(from.ip()), "{found} bytes from {from}");
        host.send_to(&bytes[..length], from).unwrap();
        assert_eq!(machine.recv_from(&mut bytes).unwrap(), (length, behind(5353)));
    }
}

#[test]
fn machines_with_ipv6_reach_a_host_with_ipv4() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, _file) = lab_up(&turn, &region(), &[]);

    // TCP, whose first long segments are longer than the uplink takes; UDP and ping, from servers over IPv4 and
    // over IPv6.
    let listens = SocketAddr::new(HOST.into(), 8080);
    let seen = exchange_tcp(&turn, ["green-a", "internet"], listens, behind(8080));
    assert!(is_public(seen.ip()), "{seen}");
    exchange_udp(&turn);
    for from in ["green-a", "green-b"] {
        let pinged = at(&turn, from, &format!("ping -6 -c 2 -W 5 {HOST_BEHIND}"));
        assert!(pinged.contains(" 2 received"), "{from}: {pinged}");
    }

    // Errors: of the router about the hop limit, of the host about a closed port, of the gateway and of the router
    // about the MTU, which is 20 bytes more over IPv6.
    let expired = at(&turn, "green-a", &format!("ping -6 -c 1 -W 5 -t 2 {HOST_BEHIND}"));
    assert!(expired.contains(&format!("From {ROUTER_BEHIND} icmp_seq=1 Time exceeded")), "{expired}");
    let closed = turn.namespace("green-a").run(|| UdpSocket::bind("[fd00:300::11]:0").unwrap()).unwrap();
    closed.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    closed.connect(behind(9)).unwrap();
    closed.send(b"to a closed port").unwrap();
    assert_eq!(closed.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let long = at(&turn, "green-b", &format!("ping -6 -M do -c 2 -W 5 -s 1402 {HOST_BEHIND}"));
    assert!(long.contains("mtu=1420"), "{long}");
    narrow_internet_link(&turn, 1350);
    let long = at(&turn, "green-b", &format!("ping -6 -M do -c 2 -W 5 -s 1352 {HOST_BEHIND}"));
    assert!(long.contains(&format!("From {ROUTER_BEHIND} ")) && long.contains("mtu=1370"), "{long}");
    let listens = SocketAddr::new(HOST.into(), 8081);
    exchange_tcp(&turn, ["green-b", "internet"], listens, behind(8081));

    // The machine tells the host that nothing listens on its port: the answer comes to a socket that is gone.
    let host = turn.namespace("internet").run(|| UdpSocket::bind((HOST, 5354)).unwrap()).unwrap();
    host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let machine = turn.namespace("green-a").run(|| UdpSocket::bind("[fd00:300::11]:5001").unwrap()).unwrap();
    machine.send_to(b"and goes", behind(5354)).unwrap();
    let (_, from) = host.recv_from(&mut [0; 100]).unwrap();
    drop(machine);
    host.connect(from).unwrap();
    host.send(b"too late").unwrap();
    assert_eq!(host.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);

    // The underlay is out of reach.
    let lost = at(&turn, "green-a", "ping -6 -c 1 -W 2 64:ff9b::192.0.2.11");
    assert!(lost.contains(" 0 received"), "{lost}");
    let drops = packets_by_reason(&turn.stats()["drops"]);
    assert!(drops.iter().any(|(name, packets)| name == "nat_destination" && *packets > 0), "{drops:?}");

    // Sessions and blocks name the machine.
    let (code, shown) = json(&["show", "sessions", "sessions", "--match", "vpc=green", "--lab", &turn.lab]);
    assert!(code == Some(0) && shown.to_string().contains("fd00:300::12"), "{shown}");
    let (code, shown) = json(&["show", "nat", "--address", "fd00:300::11", "--lab", &turn.lab]);
    assert!(code == Some(0) && shown.to_string().contains("green-a"), "{shown}");
}
