//! Datagrams in fragments in the lab: the kernel's stacks at machines, at a host in the Internet and at the
//! backends of a service.

use crate::icmp::at;
use crate::internet::HOST;
use crate::place::{Turn, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::spawn;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a datagram: six fragments.
const LONG: usize = 8000;
const DNS: &str = "10.0.0.100:53";

/// The lab's region with a service over UDP that has two backends.
fn region() -> String {
    let service = "    services:\n      - {name: dns, address: 10.0.0.100, protocol: udp, port: 53, \
                   backends: [{vm: 10.0.0.12, port: 5353}, {vm: 10.0.1.13, port: 5353}]}\n";
    edited(&region_text(), &[("    services:\n", service)])
}

fn socket(turn: &Turn, place: &str, address: &str, port: u16) -> UdpSocket {
    let address: Ipv4Addr = address.parse().unwrap();
    let socket = turn.namespace(place).run(|| UdpSocket::bind((address, port)).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends all datagrams back.
fn echo(turn: &Turn, place: &str, address: &str, port: u16) {
    let socket = socket(turn, place, address, port);
    spawn(move || {
        let mut bytes = [0; LONG];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
}

/// Sends a datagram, which must come back from the same address with the same bytes.
fn ask(socket: &UdpSocket, to: &str, seed: u8) {
    let sent: Vec<u8> = (0..LONG).map(|index| (index % 251) as u8 ^ seed).collect();
    let (to, mut bytes): (SocketAddr, _) = (to.parse().unwrap(), [0; LONG]);
    socket.send_to(&sent, to).unwrap();
    let (length, from) = socket.recv_from(&mut bytes).unwrap();
    assert_eq!((length, from), (LONG, to));
    assert!(bytes[..] == sent[..], "the bytes of {to}");
}

#[test]
fn long_datagrams_pass_the_nat_and_services() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, _file) = lab_up(&turn, &region(), &[]);

    echo(&turn, "internet", HOST, 5353);
    echo(&turn, "red-b", "10.0.0.12", 5353);
    echo(&turn, "red-c", "10.0.1.13", 5353);

    // Through the NAT, from two machines with one public address at once.
    let pinged = at(&turn, "red-a", &format!("ping -c 3 -i 0.2 -W 5 -s 4000 {HOST}"));
    assert!(pinged.contains(" 3 received"), "{pinged}");
    let senders = [("red-a", "10.0.0.11"), ("red-b", "10.0.0.12")].map(|(machine, address)| {
        let socket = socket(&turn, machine, address, 0);
        spawn(move || (0..20).for_each(|seed| ask(&socket, &format!("{HOST}:5353"), seed)))
    });
    for sender in senders {
        sender.join().unwrap();
    }

    // To a service, from its VPC and from a peer: each socket has its backend.
    for (machine, address) in [("red-a", "10.0.0.11"), ("green-b", "10.3.0.12")] {
        for seed in 0..6 {
            ask(&socket(&turn, machine, address, 0), DNS, seed);
        }
    }
    let drops = packets_by_reason(&turn.stats()["drops"]);
    assert!(drops.iter().all(|(reason, _)| !reason.starts_with("fragment_")), "{drops:?}");
}
