//! Fragments to and from services: all of a datagram go to one backend, and the answers get the address of
//! the service.

use crate::fixture::*;
use std::collections::BTreeSet;
use testkit::fragments::{fragments, identification, reassembled};

fn three() -> Gateway {
    Gateway::new(&Setup::of(&[1, 2, 3]))
}

/// A datagram of three fragments.
fn long(packet: Packet) -> Packet {
    Packet { data: (0..92).collect(), ..packet }
}

fn parts(packet: &Packet, id: u32) -> Vec<Vec<u8>> {
    fragments(&packet.bytes(), 40, id)
}

/// Sends fragments of a machine to others. Returns the datagram as it arrives, and its identification.
#[track_caller]
fn send(gateway: &mut Gateway, vm: Vm, packet: &Packet, id: u32) -> (Packet, u16) {
    let arrived: Vec<Vec<u8>> = parts(packet, id)
        .iter()
        .map(|part| match gateway.send_bytes(vm, part) {
            Outcome::Tunnel(100, bytes) => bytes,
            other => panic!("{packet:?}: {other:?}"),
        })
        .collect();
    (Packet::read(&reassembled(&arrived)), identification(&arrived[0]))
}

#[test]
fn datagrams_in_fragments_go_to_one_backend_and_back() {
    let mut gateway = three();
    let mut backends = BTreeSet::new();
    for port in 40_000..40_020 {
        let asked = long(Packet::udp((CLIENT.1, port), DNS));
        let (received, id) = send(&mut gateway, CLIENT, &asked, port.into());
        assert_eq!(received, Packet { to: received.to, ttl: 63, ..asked.clone() });
        assert_eq!(id, port, "the client keeps its identification");
        let number = received.to.0.octets()[3] - 100;
        backends.insert(number);
        let answer = Packet { ttl: 64, ..received.answer(0) };
        let (answered, _) = send(&mut gateway, backend(number), &answer, port.into());
        assert_eq!((answered.from, answered.to), (DNS, asked.from));
        assert_eq!(gateway.ask(CLIENT, port), number, "whole ones are of the same connection");
    }
    assert_eq!(backends.len(), 3);
    let number = gateway.connect(CLIENT, 41_000);
    let (received, _) = send(&mut gateway, CLIENT, &long(Packet::tcp((CLIENT.1, 41_000), WEB, ACK)), 9);
    assert_eq!(received.to, (backend(number).1, 8080));
}

#[test]
fn later_fragments_alone_and_without_a_connection_are_dropped() {
    let mut gateway = three();
    let asked = parts(&long(Packet::udp((CLIENT.1, 40_000), DNS)), 1);
    assert_eq!(reason(gateway.send_bytes(CLIENT, &asked[1])), "fragment_unknown");
    let data = parts(&long(Packet::tcp((CLIENT.1, 40_000), WEB, ACK)), 2);
    for part in &data {
        assert_eq!(reason(gateway.send_bytes(CLIENT, part)), "service_unasked");
    }
    let other = parts(&long(Packet::udp((CLIENT.1, 40_000), (VIP, 54))), 3);
    for part in &other {
        assert_eq!(reason(gateway.send_bytes(CLIENT, part)), "service_port");
    }
    assert_eq!(gateway.sessions(), 0);
}

/// Two backends answer one client with one identification: the client sees one sender.
#[test]
fn answers_of_two_backends_have_two_identifications() {
    let mut gateway = three();
    let mut ids = BTreeSet::new();
    for port in 40_000..40_010 {
        let number = gateway.ask(CLIENT, port);
        let answer = long(Packet::udp((backend(number).1, 53), (CLIENT.1, port)));
        ids.insert(send(&mut gateway, backend(number), &answer, u32::from(port) / 40_000 + 6).1);
        gateway.wait(5);
    }
    assert_eq!(ids.len(), 10);
    // Those of the machine's own are as they were.
    let own = long(Packet::udp((backend(1).1, 99), (CLIENT.1, 40_000)));
    assert_eq!(send(&mut gateway, backend(1), &own, 77).1, 77);
}

#[test]
fn fragments_from_the_internet_reach_a_public_service_and_back() {
    let mut gateway = three();
    let syn = gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN));
    let data = long(Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, ACK));
    let arrived: Vec<Vec<u8>> = parts(&data, 5)
        .iter()
        .map(|part| match gateway.receive_bytes(part) {
            Outcome::Tunnel(100, bytes) => bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(Packet::read(&reassembled(&arrived)).to, syn.to);
    let backend = Vm(100, syn.to.0);
    let answer = long(Packet::tcp(syn.to, (REMOTE, 40_000), ACK));
    let sent: Vec<Vec<u8>> = parts(&answer, 5)
        .iter()
        .map(|part| match gateway.send_bytes(backend, part) {
            Outcome::Internet(bytes) => bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(Packet::read(&reassembled(&sent)).from, PUBLIC_WEB);
}
