//! A host in the Internet reaches machines by an elastic address and by a port forward: the kernel's stacks
//! at both ends, with a router between.

use crate::icmp::at;
use crate::internet::HOST;
use crate::place::{Turn, json, lab_up, region_text, turn_beside_others};
use crate::text_edits::edited;
use crate::traffic::{exchange_tcp, narrow_internet_link};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Of `red-d`.
const ELASTIC: &str = "198.51.100.40";
/// An address of the NAT. Port 443 of it is port 8443 of `red-b`.
const FORWARDING: &str = "198.51.100.16";

/// The lab's region, in which `red-d` has an elastic address. Here it is in no group, so all may come in.
fn region() -> String {
    edited(&region_text(), &[(", groups: [bastion]}", "}")])
}

/// Connects from the host to a public address, and exchanges a megabyte with a machine that listens.
fn reach_machine(turn: &Turn, machine: &str, listens: &str, to: &str) {
    let [listens, to] = [listens, to].map(|address| address.parse().unwrap());
    let peer = exchange_tcp(turn, ["internet", machine], listens, to);
    assert_eq!(peer.ip(), HOST.parse::<IpAddr>().unwrap(), "the machine sees the host itself");
}

/// Exchanges datagrams between the host and the elastic address: small ones, and one in fragments.
fn exchange_udp(turn: &Turn) {
    let machine = turn.namespace("red-d").run(|| UdpSocket::bind("10.0.1.14:53").unwrap()).unwrap();
    let host = turn.namespace("internet").run(|| UdpSocket::bind((HOST, 0)).unwrap()).unwrap();
    for socket in [&host, &machine] {
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    }
    let mut bytes = [0; 5000];
    for length in [1, 1200, 4000] {
        host.send_to(&vec![7; length], (ELASTIC, 53)).unwrap();
        let (received, from) = machine.recv_from(&mut bytes).unwrap();
        assert_eq!((received, from), (length, host.local_addr().unwrap()));
        machine.send_to(&bytes[..received], from).unwrap();
        assert_eq!(host.recv_from(&mut bytes).unwrap(), (length, format!("{ELASTIC}:53").parse().unwrap()));
    }
    // The machine's own error comes with the public address.
    host.connect((ELASTIC, 9)).unwrap();
    host.send(b"to a closed port").unwrap();
    assert_eq!(host.recv(&mut bytes).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_host_in_the_internet_reaches_machines_by_their_public_addresses() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_up(&turn, &region(), &[]);

    reach_machine(&turn, "red-d", "10.0.1.14:8080", &format!("{ELASTIC}:8080"));
    reach_machine(&turn, "red-b", "10.0.0.12:8443", &format!("{FORWARDING}:443"));
    exchange_udp(&turn);
    for (from, to) in [("internet", ELASTIC), ("red-d", HOST)] {
        let pinged = at(&turn, from, &format!("ping -c 2 -W 5 {to}"));
        assert!(pinged.contains(" 2 received"), "{from} to {to}: {pinged}");
    }

    // The router, the gateway, which tells nothing, and the machine.
    let hops = ["-t 1", "-t 2", "-t 3"].map(|ttl| at(&turn, "internet", &format!("ping -c 1 -W 2 {ttl} {ELASTIC}")));
    assert!(hops[0].contains("Time to live exceeded") && hops[1].contains(" 0 received"), "{hops:?}");
    assert!(hops[2].contains(" 1 received"), "{hops:?}");
    let expired = at(&turn, "red-d", &format!("ping -c 1 -W 5 -t 2 {HOST}"));
    assert!(expired.contains("From 203.0.113.193 icmp_seq=1 Time to live exceeded"), "{expired}");
    narrow_internet_link(&turn, 1400);
    let long = at(&turn, "red-d", &format!("ping -M do -c 2 -W 5 -s 1452 {HOST}"));
    assert!(long.contains("From 203.0.113.193") && long.contains("1400"), "{long}");

    // Another port of the NAT's address, and an address that is no machine's.
    let other: SocketAddr = format!("{FORWARDING}:444").parse().unwrap();
    let connect = || TcpStream::connect_timeout(&other, Duration::from_secs(2)).is_err();
    assert!(turn.namespace("internet").run(connect).unwrap());
    let lost = at(&turn, "internet", "ping -c 1 -W 2 198.51.100.41");
    assert!(lost.contains(" 0 received"), "{lost}");

    // The list of the VPC decides about what comes in.
    let text = std::fs::read_to_string(&file).unwrap();
    let rule =
        "    acl:\n      - {priority: 7, action: deny, direction: ingress, protocol: icmp, from: 203.0.113.0/24}\n";
    std::fs::write(&file, edited(&text, &[("    acl:\n", rule)])).unwrap();
    let (code, applied) = json(&["region", "apply", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{applied}");
    let denied = at(&turn, "internet", &format!("ping -c 1 -W 2 {ELASTIC}"));
    assert!(denied.contains(" 0 received"), "{denied}");
    reach_machine(&turn, "red-d", "10.0.1.14:8081", &format!("{ELASTIC}:8081"));
}
