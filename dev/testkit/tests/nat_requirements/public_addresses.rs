//! Elastic addresses and port forwards: what of the requirements holds without state. Mapping and filtering
//! (RFC 4787, sections 4 and 5) are as those of a machine without a NAT.

use crate::fixture::*;
use crate::{DNS, WEB, dropped, udp};
use std::net::Ipv4Addr;
use testkit::fragments::{fragments, reassembled};
use testkit::frame::{IpPacket, checksum};

const OF_A1: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 40);
const OF_B1: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 41);
/// TCP port 443 of it is port 8443 of A2.
const OF_NAT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 16);

fn gateway() -> Gateway {
    Gateway::with_internet(
        "nats: [{name: n, addresses: 198.51.100.16/32, ports_per_vm: 64}],
        elastic: [{address: 198.51.100.40, vpc: a, vm: 10.0.0.11}, {address: 198.51.100.41, vpc: b, vm: 10.0.0.11}],
        forwards: [{address: 198.51.100.16, protocol: tcp, port: 443, vpc: a, vm: 10.0.0.12, vm_port: 8443}]",
    )
}

#[test]
fn all_ports_are_open_in_both_directions_and_keep_their_numbers() {
    let mut gateway = gateway();
    for (vm, public) in [(A1, OF_A1), (B1, OF_B1)] {
        for port in [0, 1, 53, 1023, 1024, 4788, 65_535] {
            for packet in [Packet::udp(WEB, (public, port)), Packet::tcp(WEB, (public, port), SYN)] {
                let received = gateway.receive(vm, &packet);
                let expected = Packet { to: (vm.1, port), ttl: 63, ..packet.clone() };
                assert_eq!(received, expected);
                let answer = Packet { ttl: 64, ..received.answer(packet.flags) };
                let expected = Packet { from: (public, port), ttl: 63, ..answer.clone() };
                assert_eq!(gateway.send(vm, &answer), expected, "without a session");
            }
        }
        gateway.send(vm, &Packet::ping((vm.1, 7), REMOTE));
        gateway.receive(vm, &Packet::pong(REMOTE, (public, 7)));
        gateway.receive(vm, &Packet::ping((REMOTE, 9), public));
        gateway.send(vm, &Packet::pong(vm.1, (REMOTE, 9)));
    }
    gateway.wait(10_000);
    gateway.receive(A1, &Packet::tcp(WEB, (OF_A1, 22), ACK));
}

/// RFC 4787, REQ-9: by the next router, which sends the packet back.
#[test]
fn machines_reach_each_other_by_their_public_addresses() {
    let mut gateway = gateway();
    let sent = gateway.send(A1, &udp(A1, 5000, (OF_B1, 53)));
    assert_eq!((sent.from, sent.to), ((OF_A1, 5000), (OF_B1, 53)));
    let received = gateway.receive(B1, &sent);
    assert_eq!((received.from, received.to), ((OF_A1, 5000), (B1.1, 53)));
}

/// BCP 38: a packet with the address of another machine would belong to a flow between both in the eyes of
/// security groups, and its answer would go to that machine.
#[test]
fn sources_that_no_host_of_the_internet_has_are_dropped() {
    let mut gateway = gateway();
    let ports = [(OF_A1, 53), (OF_NAT, 443)];
    let from = |source: [u8; 4], to| Packet::tcp((source.into(), 5000), to, SYN);
    for to in ports {
        for forged in [[10, 0, 0, 12], [10, 0, 0, 200]] {
            assert_eq!(
                gateway.receive_bytes(&from(forged, to).bytes()),
                Outcome::Dropped("internet_source".into()),
                "{forged:?}"
            );
        }
        for martian in [[0, 0, 0, 1], [127, 0, 0, 1], [169, 254, 1, 1], [224, 0, 0, 1], [255, 255, 255, 255]] {
            assert_eq!(
                gateway.receive_bytes(&from(martian, to).bytes()),
                Outcome::Dropped("inner_address".into()),
                "{martian:?}"
            );
        }
    }
    // Clients with private addresses, such as those of a company's network, are none of the VPC.
    gateway.receive(A1, &from([10, 0, 1, 12], ports[0]));
    gateway.receive(A2, &from([192, 168, 0, 12], ports[1]));
    let error = icmp_error(Ipv4Addr::new(10, 0, 0, 12), OF_A1, [11, 0], &udp(A1, 5000, DNS).bytes());
    assert_eq!(gateway.receive_bytes(&error), Outcome::Dropped("internet_source".into()));
}

/// RFC 768: 0 means that there is no checksum, so it stays.
#[test]
fn a_udp_checksum_of_zero_stays() {
    let mut gateway = gateway();
    let without = |packet: Packet| {
        let mut bytes = packet.bytes();
        bytes[26..28].fill(0);
        bytes
    };
    let out = gateway.send_bytes(A1, &without(udp(A1, 5000, DNS)));
    let Outcome::Internet(out) = out else { panic!("{out:?}") };
    let back = gateway.receive_bytes(&without(Packet::udp(DNS, (OF_A1, 5000))));
    let Outcome::Server(100, back) = back else { panic!("{back:?}") };
    assert_eq!([&out[26..28], &back[26..28]], [[0, 0]; 2]);
}

/// RFC 4787, REQ-14: in whatever order they arrive.
#[test]
fn fragments_pass_in_all_orders() {
    let mut gateway = gateway();
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let cases = orders.into_iter().flat_map(|order| [UDP, TCP, ICMP].map(|protocol| (order, protocol)));
    for (id, (order, protocol)) in (1..).zip(cases) {
        let data: Vec<u8> = (0..100).collect();
        let out = Packet { protocol, data, ..Packet::tcp((A1.1, 5000), (REMOTE, 0), ACK) };
        let back = Packet { from: (REMOTE, 0), to: (OF_A1, 5000), ..out.clone() };
        let (out_parts, back_parts) = (fragments(&out.bytes(), 40, id), fragments(&back.bytes(), 40, id));
        let (mut sent, mut received) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
        for part in order {
            match gateway.send_bytes(A1, &out_parts[part]) {
                Outcome::Internet(bytes) => sent[part] = bytes,
                other => panic!("{order:?}, protocol {protocol}, part {part}: {other:?}"),
            }
            match gateway.receive_bytes(&back_parts[part]) {
                Outcome::Server(100, bytes) => received[part] = bytes,
                other => panic!("{order:?}, protocol {protocol}, part {part}: {other:?}"),
            }
        }
        let flags = if protocol == TCP { ACK } else { 0 };
        assert_eq!(Packet::read(&reassembled(&sent)), Packet { from: (OF_A1, 5000), flags, ttl: 63, ..out });
        assert_eq!(Packet::read(&reassembled(&received)), Packet { to: (A1.1, 5000), flags, ttl: 63, ..back });
    }
}

#[test]
fn rfc5508_req_3_to_5_errors_are_translated_with_what_they_quote() {
    let mut gateway = gateway();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let error = icmp_error(ROUTER, OF_A1, [11, 0], &sent.bytes());
    let Outcome::Server(100, bytes) = gateway.receive_bytes(&error) else { panic!("an error about the VM's packet") };
    assert_eq!([&bytes[12..16], &bytes[16..20]], [ROUTER.octets(), A1.1.octets()], "the router keeps its address");
    assert_eq!(bytes[28 + 12..28 + 16], A1.1.octets());
    assert_eq!([&bytes[..20], &bytes[20..], &bytes[28..48]].map(checksum), [0; 3]);
    // The quoted checksum of UDP is that of the packet as the VM sent it, without a hop less.
    assert_eq!(bytes[28 + 26..28 + 28], udp(A1, 5000, DNS).bytes()[26..28]);

    let asked = gateway.receive(A1, &Packet::udp(DNS, (OF_A1, 9)));
    let Outcome::Internet(bytes) = gateway.send_bytes(A1, &icmp_error(A1.1, REMOTE, [3, 3], &asked.bytes())) else {
        panic!("a port of the VM is unreachable")
    };
    assert_eq!([&bytes[12..16], &bytes[28 + 16..28 + 20]], [OF_A1.octets(); 2]);
    assert_eq!([&bytes[..20], &bytes[20..], &bytes[28..48]].map(checksum), [0; 3]);

    let of_other = icmp_error(ROUTER, OF_A1, [3, 3], &Packet::udp((OF_B1, 5000), DNS).bytes());
    assert_eq!(dropped(gateway.receive_bytes(&of_other)).as_deref(), Some("nat_quote"));
    let mut wrong = sent.bytes();
    wrong[10] ^= 1;
    let wrong = icmp_error(ROUTER, OF_A1, [3, 3], &wrong);
    assert_eq!(dropped(gateway.receive_bytes(&wrong)).as_deref(), Some("nat_quote"));
}

#[test]
fn other_types_of_icmp_pass_and_redirects_do_not() {
    let mut gateway = gateway();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let receive =
        |gateway: &mut Gateway, kind| gateway.receive_bytes(&icmp_error(ROUTER, OF_A1, [kind, 0], &sent.bytes()));
    for kind in [3, 11, 12, 13, 14, 17, 42] {
        assert!(matches!(receive(&mut gateway, kind), Outcome::Server(100, _)), "type {kind}");
    }
    for kind in [4, 5] {
        assert_eq!(dropped(receive(&mut gateway, kind)).as_deref(), Some("nat_protocol"), "type {kind}");
    }
}

#[test]
fn protocols_without_ports_pass() {
    let mut gateway = gateway();
    for protocol in [4, 41, 47, 50, 89, 132, 253] {
        let packet =
            |from: Ipv4Addr, to: Ipv4Addr| IpPacket::new(from.into(), to.into(), protocol, vec![7; 30]).bytes();
        let out = gateway.send_bytes(A1, &packet(A1.1, REMOTE));
        let Outcome::Internet(out) = out else { panic!("{protocol}: {out:?}") };
        assert_eq!([&out[12..16], &out[16..20]], [OF_A1.octets(), REMOTE.octets()]);
        assert_eq!(out[20..], [7; 30]);
        let back = gateway.receive_bytes(&packet(REMOTE, OF_A1));
        assert!(matches!(back, Outcome::Server(100, _)), "{protocol}: {back:?}");
    }
    let protected = IpPacket::new(REMOTE.into(), OF_A1.into(), 51, vec![0; 40]).bytes();
    assert_eq!(dropped(gateway.receive_bytes(&protected)).as_deref(), Some("nat_protocol"), "RFC 4302");
}

#[test]
fn a_forward_has_one_port_and_the_machine_has_sessions_besides() {
    let mut gateway = gateway();
    let syn = Packet::tcp((REMOTE, 50_000), (OF_NAT, 443), SYN);
    let received = gateway.receive(A2, &syn);
    assert_eq!(received.to, (A2.1, 8443));
    let answer = gateway.send(A2, &Packet::tcp((A2.1, 8443), (REMOTE, 50_000), SYN | ACK));
    assert_eq!(answer.from, (OF_NAT, 443));
    let own = gateway.connect(A2, 8444, WEB);
    assert!(own.from.0 == OF_NAT && own.from.1 >= 1024, "{own:?}");
    for port in [442, 444, 8443] {
        let unasked = Packet::tcp((REMOTE, 50_000), (OF_NAT, port), SYN);
        assert_eq!(gateway.receive_refused(&unasked), "no_session", "{port}");
    }
    assert_eq!(gateway.receive_refused(&Packet::udp((REMOTE, 50_000), (OF_NAT, 443))), "no_session");
    // It has no idle time, and the session has.
    gateway.wait(10_000);
    gateway.receive(A2, &Packet::tcp((REMOTE, 50_000), (OF_NAT, 443), ACK));
    assert_eq!(gateway.receive_refused(&own.answer(ACK)), "no_session");
}

#[test]
fn rfc5508_errors_about_forwarded_packets_have_both_ports() {
    let mut gateway = gateway();
    let answer = gateway.send(A2, &Packet::tcp((A2.1, 8443), (REMOTE, 50_000), ACK));
    let Outcome::Server(100, bytes) = gateway.receive_bytes(&icmp_error(ROUTER, OF_NAT, [3, 4], &answer.bytes()))
    else {
        panic!("too long for a link")
    };
    assert_eq!((&bytes[16..20], &bytes[28 + 12..28 + 16]), (&A2.1.octets()[..], &A2.1.octets()[..]));
    assert_eq!(bytes[28 + 20..28 + 22], 8443_u16.to_be_bytes());
    assert_eq!([&bytes[..20], &bytes[20..], &bytes[28..48]].map(checksum), [0; 3]);
}
