//! Machines reach a host in the Internet through the gateway's NAT: the kernel's stacks at both ends,
//! with a router between.

use crate::icmp::at;
use crate::place::{Turn, json, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use crate::traffic::{exchange_tcp, narrow_internet_link};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

pub const HOST: &str = "203.0.113.200";

/// The lab's region, in which `red` has a NAT. Here `green` has a route to the Internet, and no NAT.
fn region() -> String {
    let route = "    vni: 300\n    routes: [{to: 0.0.0.0/0, internet: true}]\n";
    edited(&region_text(), &[("    vni: 300\n", route)])
}

fn is_public(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.octets()[..3] == [198, 51, 100] && v4.octets()[3] >> 4 == 1)
}

/// Sends a datagram from `red-b` to the host and back. Returns the address of the machine as the host
/// sees it.
fn exchange_udp(turn: &Turn) -> SocketAddr {
    let host = turn.namespace("internet").run(|| UdpSocket::bind((HOST, 5353)).unwrap()).unwrap();
    let machine = turn.namespace("red-b").run(|| UdpSocket::bind("10.0.0.12:5000").unwrap()).unwrap();
    for socket in [&host, &machine] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let mut bytes = [0; 2000];
    machine.send_to(&[7; 1200], (HOST, 5353)).unwrap();
    let (length, from) = host.recv_from(&mut bytes).unwrap();
    host.send_to(&bytes[..length], from).unwrap();
    assert_eq!(machine.recv_from(&mut bytes).unwrap(), (1200, format!("{HOST}:5353").parse().unwrap()));
    from
}

#[test]
fn machines_reach_the_internet_and_nothing_comes_in_unasked() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, _file) = lab_up(&turn, &region(), &[]);

    // TCP, UDP and ping; from servers over IPv4 and over IPv6.
    let host: SocketAddr = format!("{HOST}:8080").parse().unwrap();
    let machine = exchange_tcp(&turn, ["red-a", "internet"], host, host);
    assert!(is_public(machine.ip()), "{machine}");
    let other = exchange_udp(&turn);
    assert!(is_public(other.ip()), "{other}");
    for from in ["red-a", "red-c"] {
        let pinged = at(&turn, from, &format!("ping -c 2 -W 5 {HOST}"));
        assert!(pinged.contains(" 2 received"), "{from}: {pinged}");
    }

    // ICMP errors from outside: of the router on the way about ping, of the host about UDP, and of the
    // router about the MTU behind it.
    let expired = at(&turn, "red-a", &format!("ping -c 1 -W 5 -t 2 {HOST}"));
    assert!(expired.contains("From 203.0.113.193 icmp_seq=1 Time to live exceeded"), "{expired}");
    let machine_udp = turn.namespace("red-a").run(|| UdpSocket::bind("10.0.0.11:0").unwrap()).unwrap();
    machine_udp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    machine_udp.connect((HOST, 9)).unwrap();
    machine_udp.send(b"to a closed port").unwrap();
    assert_eq!(machine_udp.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    narrow_internet_link(&turn, 1400);
    let long = at(&turn, "red-a", &format!("ping -M do -c 2 -W 5 -s 1452 {HOST}"));
    assert!(long.contains("From 203.0.113.193") && long.contains("1400"), "{long}");

    // Nothing begins outside: neither to a public address nor to the address of a session.
    for to in [machine, SocketAddr::new(machine.ip(), 22)] {
        let refused = turn
            .namespace("internet")
            .run(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)).is_err())
            .unwrap();
        assert!(refused, "{to}");
    }
    // The underlay is out of reach, and a VPC without a NAT has no Internet.
    for (from, to) in [("red-a", "192.0.2.11"), ("green-a", HOST)] {
        let lost = at(&turn, from, &format!("ping -c 1 -W 2 {to}"));
        assert!(lost.contains(" 0 received"), "{from} to {to}: {lost}");
    }
    let stats = turn.stats();
    let (drops, cpu) = (packets_by_reason(&stats["drops"]), packets_by_reason(&stats["to_cpu"]));
    for reason in ["no_session", "nat_destination"] {
        assert!(drops.iter().any(|(name, packets)| name == reason && *packets > 0), "{reason}: {drops:?}");
    }
    assert!(cpu.iter().any(|(name, packets)| name == "internet" && *packets > 0), "{cpu:?}");

    // Its sessions can be looked at.
    let (code, shown) = json(&["show", "sessions", "sessions", "--match", "address=10.0.0.11", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.to_string().contains("to_internet"), "{shown}");
}
