//! Machines reach a host in the Internet over IPv6, with their own addresses and with those of NPTv6: the
//! kernel's stacks at both ends, with a router between. Unasked packets are refused.

use crate::icmp::at;
use crate::place::{Turn, json, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use crate::traffic::{exchange_tcp, narrow_internet_link};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const HOST: &str = "2001:db8:ffff::200";
const ROUTER: &str = "2001:db8:ffff::193";
/// `green-a` and `green-b`, which have their own addresses on the Internet.
const GREEN_A: &str = "2001:db8:300::11";
const GREEN_B: &str = "2001:db8:300::12";
/// `red-a` on the Internet: the sums of fd00:100::/64 and 2001:db8:100:1::/64 differ by cf46.
const RED_A_OUTSIDE: &str = "2001:db8:100:1:cf46::11";

/// The lab's region, in which `red` has NPTv6. Here it takes all; `green` has a prefix of its own and takes
/// answers, and `blue` has only the route.
fn region() -> String {
    let text = region_text().replace("fd00:300::", "2001:db8:300::");
    let changes = [
        ("peer_mac: 02:00:00:06:00:02, mtu: 1500}", "peer_mac: 02:00:00:06:00:02, mtu: 1450}"),
        ("      inbound: answers\n", "      inbound: all\n"),
        ("    vni: 200\n", "    vni: 200\n    routes: [{to: \"::/0\", internet: true}]\n"),
        (
            "    vni: 300\n",
            "    vni: 300\n    ipv6_internet: {inbound: answers}\n    routes: [{to: \"::/0\", internet: true}]\n",
        ),
    ];
    edited(&text, &changes)
}

fn socket_address(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// Sends a datagram from `green-b` to the host and back.
fn exchange_udp(turn: &Turn) {
    let host = turn.namespace("internet").run(|| UdpSocket::bind((HOST, 5353)).unwrap()).unwrap();
    let machine = turn.namespace("green-b").run(|| UdpSocket::bind((GREEN_B, 5000)).unwrap()).unwrap();
    for socket in [&host, &machine] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let mut bytes = [0; 2000];
    machine.send_to(&[7; 1200], (HOST, 5353)).unwrap();
    assert_eq!(host.recv_from(&mut bytes).unwrap(), (1200, socket_address(GREEN_B, 5000)));
    host.send_to(&bytes[..1200], (GREEN_B, 5000)).unwrap();
    assert_eq!(machine.recv_from(&mut bytes).unwrap(), (1200, socket_address(HOST, 5353)));
}

/// Checks errors from outside: of the router about the hop limit, and of the host about a closed port.
fn hear_of_errors(turn: &Turn) {
    let expired = at(turn, "green-a", &format!("ping -6 -c 1 -W 5 -t 2 {HOST}"));
    assert!(expired.contains(&format!("From {ROUTER} icmp_seq=1 Time exceeded")), "{expired}");
    let closed = turn.namespace("green-a").run(|| UdpSocket::bind((GREEN_A, 0)).unwrap()).unwrap();
    closed.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    closed.connect((HOST, 9)).unwrap();
    closed.send(b"to a closed port").unwrap();
    assert_eq!(closed.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Checks that machines learn the MTU of the gateway's uplink, and that of the link behind the router.
fn learn_path_mtus(turn: &Turn) {
    // `green-b` has sent nothing that long yet.
    let long = at(turn, "green-b", &format!("ping -6 -M do -c 2 -W 5 -s 1452 {HOST}"));
    assert!(long.contains("From 2001:db8:300::1 ") && long.contains("mtu=1450"), "{long}");
    narrow_internet_link(turn, 1400);
    let long = at(turn, "green-b", &format!("ping -6 -M do -c 2 -W 5 -s 1402 {HOST}"));
    assert!(long.contains(&format!("From {ROUTER} ")) && long.contains("mtu=1400"), "{long}");
    // A quotation that NPTv6 has translated. The machine believes it: TCP goes on.
    let long = at(turn, "red-a", &format!("ping -6 -M do -c 2 -W 5 -s 1402 {HOST}"));
    assert!(long.contains(&format!("From {ROUTER} ")) && long.contains("mtu=1400"), "{long}");
    exchange_tcp(turn, ["green-a", "internet"], socket_address(HOST, 8082), socket_address(HOST, 8082));
    exchange_tcp(turn, ["red-a", "internet"], socket_address(HOST, 8083), socket_address(HOST, 8083));
}

#[test]
fn machines_reach_the_internet_over_ipv6() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, _file) = lab_up(&turn, &region(), &[]);

    // TCP, UDP and ping; from servers over IPv4 and over IPv6. The first ones hear that the uplink is
    // narrower than their own link.
    let to_host = |port| (socket_address(HOST, port), socket_address(HOST, port));
    let (listens, to) = to_host(8080);
    assert_eq!(exchange_tcp(&turn, ["green-a", "internet"], listens, to).ip().to_string(), GREEN_A);
    let (listens, to) = to_host(8081);
    assert_eq!(exchange_tcp(&turn, ["red-a", "internet"], listens, to).ip().to_string(), RED_A_OUTSIDE);
    exchange_udp(&turn);
    for from in ["green-a", "green-b", "red-a", "red-c"] {
        let pinged = at(&turn, from, &format!("ping -6 -c 2 -W 5 {HOST}"));
        assert!(pinged.contains(" 2 received"), "{from}: {pinged}");
    }
    hear_of_errors(&turn);
    learn_path_mtus(&turn);

    // `green` takes only answers, `red` all.
    let refused = |address| {
        let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(2)).map_err(|error| error.kind());
        turn.namespace("internet").run(connect).unwrap().err()
    };
    let listens = |address: SocketAddr, machine: &str| {
        turn.namespace(machine).run(|| TcpListener::bind(address).unwrap()).unwrap()
    };
    let _open = listens(socket_address(GREEN_A, 8090), "green-a");
    assert_eq!(refused(socket_address(GREEN_A, 8090)), Some(ErrorKind::TimedOut), "unasked");
    let lost = at(&turn, "internet", &format!("ping -6 -c 1 -W 2 {GREEN_A}"));
    assert!(lost.contains(" 0 received"), "{lost}");
    let inside = socket_address("fd00:100::11", 8091);
    exchange_tcp(&turn, ["internet", "red-a"], inside, socket_address(RED_A_OUTSIDE, 8091));
    let pinged = at(&turn, "internet", &format!("ping -6 -c 2 -W 5 {RED_A_OUTSIDE}"));
    assert!(pinged.contains(" 2 received"), "{pinged}");

    // The underlay is out of reach, and a VPC without `ipv6_internet` has no Internet.
    for (from, to) in [("green-a", "2001:db8:0:1::13"), ("red-a", "2001:db8:0:1::1"), ("blue-a", HOST)] {
        let lost = at(&turn, from, &format!("ping -6 -c 1 -W 2 {to}"));
        assert!(lost.contains(" 0 received"), "{from} to {to}: {lost}");
    }
    let stats = turn.stats();
    let (drops, cpu) = (packets_by_reason(&stats["drops"]), packets_by_reason(&stats["to_cpu"]));
    for reason in ["internet_unasked", "nat_destination", "exceeds_mtu"] {
        assert!(drops.iter().any(|(name, packets)| name == reason && *packets > 0), "{reason}: {drops:?}");
    }
    assert!(cpu.iter().any(|(name, packets)| name == "internet" && *packets > 0), "{cpu:?}");

    // Its flows can be looked at.
    let (code, shown) = json(&["show", "sessions", "flows_v6", "--count", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
}
