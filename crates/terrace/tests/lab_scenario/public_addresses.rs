//! A host in the Internet reaches machines by an elastic address and by a port forward: the kernel's stacks
//! at both ends, with a router between.

use crate::icmp::at;
use crate::internet::{HOST, region};
use crate::place::{Turn, json, turn};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::spawn;
use std::time::Duration;

/// Of `green-b`, whose VPC has no NAT.
const ELASTIC: &str = "198.51.100.40";
/// An address of the NAT. Port 443 of it is port 8443 of `red-b`.
const FORWARDING: &str = "198.51.100.16";

fn with_public_addresses() -> String {
    let nats = "  nats: [{name: public, addresses: 198.51.100.16/28}]\n";
    let more = "  elastic: [{address: 198.51.100.40, vpc: green, vm: 10.3.0.12}]
  forwards: [{address: 198.51.100.16, protocol: tcp, port: 443, vpc: red, vm: 10.0.0.12, vm_port: 8443}]\n";
    let text = region();
    assert!(text.contains(nats));
    text.replacen(nats, &format!("{nats}{more}"), 1)
}

/// Connects from the host to a public address, and exchanges a megabyte with a machine that listens.
fn exchange_tcp(turn: &Turn, machine: &str, listens: &str, to: &str) {
    let listener = turn.namespace(machine).run(|| TcpListener::bind(listens).unwrap()).unwrap();
    let serving = spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        let mut bytes = vec![0; 1 << 20];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        peer
    });
    let to: SocketAddr = to.parse().unwrap();
    let connect = || TcpStream::connect_timeout(&to, Duration::from_secs(30)).unwrap();
    let mut stream = turn.namespace("internet").run(connect).unwrap();
    let sent: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let (mut writer, content) = (stream.try_clone().unwrap(), sent.clone());
    let writing = spawn(move || writer.write_all(&content).unwrap());
    let mut back = vec![0; sent.len()];
    stream.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == sent);
    let peer = serving.join().unwrap();
    assert_eq!(peer.ip(), HOST.parse::<IpAddr>().unwrap(), "the machine sees the host itself");
}

/// Exchanges datagrams between the host and the elastic address: small ones, and one in fragments.
fn exchange_udp(turn: &Turn) {
    let machine = turn.namespace("green-b").run(|| UdpSocket::bind("10.3.0.12:53").unwrap()).unwrap();
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
    let Some(turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("region.yaml").display().to_string();
    std::fs::write(&file, with_public_addresses()).unwrap();
    let (code, document) = json(&["lab", "up", "--region", &file, "--name", &turn.lab]);
    assert_eq!(code, Some(0), "{document}");

    exchange_tcp(&turn, "green-b", "10.3.0.12:8080", &format!("{ELASTIC}:8080"));
    exchange_tcp(&turn, "red-b", "10.0.0.12:8443", &format!("{FORWARDING}:443"));
    exchange_udp(&turn);
    for (from, to) in [("internet", ELASTIC), ("green-b", HOST)] {
        let pinged = at(&turn, from, &format!("ping -c 2 -W 5 {to}"));
        assert!(pinged.contains(" 2 received"), "{from} to {to}: {pinged}");
    }

    // The router, the gateway, which tells nothing, and the machine.
    let hops = ["-t 1", "-t 2", "-t 3"].map(|ttl| at(&turn, "internet", &format!("ping -c 1 -W 2 {ttl} {ELASTIC}")));
    assert!(hops[0].contains("Time to live exceeded") && hops[1].contains(" 0 received"), "{hops:?}");
    assert!(hops[2].contains(" 1 received"), "{hops:?}");
    let expired = at(&turn, "green-b", &format!("ping -c 1 -W 5 -t 2 {HOST}"));
    assert!(expired.contains("From 203.0.113.193 icmp_seq=1 Time to live exceeded"), "{expired}");
    let narrowed = std::process::Command::new("ip")
        .args(["-n", &format!("{}-isp", turn.lab), "link", "set", "dev", "in0", "mtu", "1400"])
        .status()
        .unwrap();
    assert!(narrowed.success());
    let long = at(&turn, "green-b", &format!("ping -M do -c 2 -W 5 -s 1452 {HOST}"));
    assert!(long.contains("From 203.0.113.193") && long.contains("1400"), "{long}");

    // Another port of the NAT's address, and another machine of the VPC.
    let other: SocketAddr = format!("{FORWARDING}:444").parse().unwrap();
    let connect = || TcpStream::connect_timeout(&other, Duration::from_secs(2)).is_err();
    assert!(turn.namespace("internet").run(connect).unwrap());
    let lost = at(&turn, "green-a", &format!("ping -c 1 -W 2 {HOST}"));
    assert!(lost.contains(" 0 received"), "{lost}");

    // The list of the VPC decides about what comes in.
    let text = std::fs::read_to_string(&file).unwrap();
    let vni = "    vni: 300\n";
    assert!(text.contains(vni));
    let rule = "    acl: [{priority: 7, action: deny, direction: ingress, protocol: icmp, from: 203.0.113.0/24}]\n";
    std::fs::write(&file, text.replacen(vni, &format!("{vni}{rule}"), 1)).unwrap();
    let (code, applied) = json(&["region", "apply", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{applied}");
    let denied = at(&turn, "internet", &format!("ping -c 1 -W 2 {ELASTIC}"));
    assert!(denied.contains(" 0 received"), "{denied}");
    exchange_tcp(&turn, "green-b", "10.3.0.12:8081", &format!("{ELASTIC}:8081"));
}
