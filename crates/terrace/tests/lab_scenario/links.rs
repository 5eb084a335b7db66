//! What VMs see of the gateway on their link: its MAC address, by ARP and neighbour discovery, and
//! the largest segment of TCP connections through it.

use crate::changes::lab_with;
use crate::icmp::{at, change};
use crate::place::{Turn, turn_beside_others};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit for a condition. Nothing is measured.
const PATIENCE: Duration = Duration::from_secs(30);

fn ping(turn: &Turn, address: &str) -> String {
    at(turn, "red-a", &format!("ping -c 1 -W 3 {address}"))
}

/// Returns the packets dropped for a reason.
fn dropped(turn: &Turn, reason: &str) -> u64 {
    turn.drops().iter().find(|(name, _)| name == reason).map_or(0, |(_, packets)| *packets)
}

#[test]
fn vms_ask_the_gateway_for_its_mac_address() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_with(&turn, &[]);
    // The vSwitch of server 1 no longer answers, and floods requests into the tunnel instead.
    let flood = "link set dev vx100 neigh_suppress off mcast_flood on bcast_flood on".split(' ');
    let server = format!("{}-s1", turn.lab);
    assert!(Command::new("bridge").args(["-n", &server]).args(flood).status().unwrap().success());
    at(&turn, "red-a", "ip neigh flush all");
    assert!(ping(&turn, "10.0.1.13").contains(" 0 received"), "nothing answers ARP");
    assert!(dropped(&turn, "inner_not_ip") > 0);

    let subnets = "    subnets: [10.0.0.0/24, 10.0.1.0/24";
    change(&file, &turn, subnets, &format!("    answer: [echo, neighbours]\n{subnets}"));
    at(&turn, "red-a", "ip neigh flush all");
    for address in ["10.0.1.13", "10.0.0.1", "fd00:300::11", "fd00:100::1"] {
        let text = ping(&turn, address);
        assert!(text.contains(" 1 received"), "{text}\n{:?}", turn.drops());
    }
    for router in ["10.0.0.1", "fd00:100::1"] {
        let known = at(&turn, "red-a", &format!("ip neigh show {router}"));
        assert!(known.contains("02:00:5e:00:00:01"), "{known}");
    }
    // A VM on another server is not the gateway's to answer for.
    assert!(ping(&turn, "10.0.0.12").contains(" 0 received"));
    assert!(dropped(&turn, "neighbour_other") > 0);
    // The kernel of a VM that gives itself the gateway's address finds that it is taken (RFC 4862).
    at(&turn, "red-a", "sysctl -qw net.ipv6.conf.eth0.accept_dad=1");
    at(&turn, "red-a", "ip address add fd00:100::1/64 dev eth0");
    let began = Instant::now();
    while !at(&turn, "red-a", "ip address show dev eth0").contains("dadfailed") {
        assert!(began.elapsed() < PATIENCE, "the address is not found to be taken");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn connections_agree_on_the_segments_of_their_vpc() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_with(&turn, &[]);
    let subnets = "    subnets: [10.0.0.0/24, 10.0.1.0/24";
    change(&file, &turn, subnets, &format!("    tcp_mss: 1200\n{subnets}"));
    // Within the VPC, over both families, and between the VPC and a peer without a limit, in each
    // direction, of which one leads over an IPv6 underlay.
    let connections = [
        ("red-a", "red-b", "10.0.0.12:5001"),
        ("red-a", "red-b", "[fd00:100::12]:5001"),
        ("red-a", "green-a", "10.3.0.11:5001"),
        ("green-a", "red-a", "10.0.0.11:5001"),
    ];
    for (from, to, address) in connections {
        let address: SocketAddr = address.parse().unwrap();
        let listener = turn.namespace(to).run(|| TcpListener::bind(address).unwrap()).unwrap();
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let mut client = turn.namespace(from).run(connect).unwrap().unwrap_or_else(|e| panic!("{address}: {e}"));
        let (mut server, _) = listener.accept().unwrap();
        let sent = vec![7; 200_000];
        let content = sent.clone();
        let sender = std::thread::spawn(move || client.write_all(&content).map(|()| client));
        let mut received = vec![0; sent.len()];
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        server.read_exact(&mut received).unwrap();
        assert!(received == sent);
        // The kernel's own view: 12 bytes of each segment are the timestamp option.
        for machine in [from, to] {
            let sockets = at(&turn, machine, "ss -tinH state established");
            assert!(sockets.contains(" mss:1188 "), "{machine}, {from} to {address}: {sockets}");
        }
        drop((sender.join().unwrap().unwrap(), server));
    }
    // Without the limit, the segments are those of the MTU.
    change(&file, &turn, "    tcp_mss: 1200\n", "");
    let listener = turn.namespace("red-b").run(|| TcpListener::bind("10.0.0.12:5002").unwrap()).unwrap();
    let connected = turn.namespace("red-a").run(|| TcpStream::connect("10.0.0.12:5002")).unwrap().unwrap();
    let sockets = at(&turn, "red-a", "ss -tinH state established dport = 5002");
    assert!(sockets.contains(" mss:") && !sockets.contains(" mss:1188 "), "{sockets}");
    drop((connected, listener));
}
