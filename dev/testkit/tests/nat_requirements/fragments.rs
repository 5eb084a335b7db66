//! Fragments through a NAT (RFC 4787, REQ-14; RFC 5508, REQ-1; RFC 7857, section 10; RFC 1858; RFC 3128): later
//! ones get the port of the first one. Those that come before it are dropped, because they are not held.

use crate::fixture::*;
use crate::{DNS, WEB, dropped, small, udp};
use std::collections::BTreeSet;
use testkit::fragments::{fragment, fragments, identification, reassembled};

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// A datagram with 100 bytes of data: three fragments of 40 bytes.
fn long(packet: Packet) -> Packet {
    Packet { data: (0..92).collect(), ..packet }
}

/// Sends all fragments in order. Returns the datagram as the Internet gets it, with its identification.
#[track_caller]
fn send(gateway: &mut Gateway, vm: Vm, packet: &Packet, id: u32) -> (Packet, u16) {
    let parts: Vec<Vec<u8>> = fragments(&packet.bytes(), 40, id)
        .iter()
        .map(|part| match gateway.send_bytes(vm, part) {
            Outcome::Internet(bytes) => bytes,
            other => panic!("{packet:?}: {other:?}"),
        })
        .collect();
    (Packet::read(&reassembled(&parts)), identification(&parts[0]))
}

/// Sends all fragments of a datagram from the Internet in order. Returns it as the VM gets it.
#[track_caller]
fn receive(gateway: &mut Gateway, vm: Vm, packet: &Packet, id: u32) -> Packet {
    let parts: Vec<Vec<u8>> = fragments(&packet.bytes(), 40, id)
        .iter()
        .map(|part| match gateway.receive_bytes(part) {
            Outcome::Server(vni, bytes) if vni == vm.0 => bytes,
            other => panic!("{packet:?}: {other:?}"),
        })
        .collect();
    Packet::read(&reassembled(&parts))
}

#[test]
fn datagrams_in_fragments_are_translated_in_both_directions() {
    let mut gateway = small();
    let asked = long(udp(A1, 5000, DNS));
    let (sent, _) = send(&mut gateway, A1, &asked, 7);
    assert_eq!(sent, Packet { from: sent.from, ttl: 63, ..asked.clone() });
    let received = receive(&mut gateway, A1, &Packet { ttl: 64, ..sent.answer(0) }, 8);
    assert_eq!(received, Packet { from: DNS, to: asked.from, ttl: 63, ..asked });
    // A whole packet is of the same session.
    assert_eq!(gateway.send(A1, &udp(A1, 5000, DNS)).from, sent.from);

    let connection = gateway.connect(A1, 6000, WEB);
    let (data, _) = send(&mut gateway, A1, &long(Packet::tcp((A1.1, 6000), WEB, ACK)), 9);
    assert_eq!((data.from, data.flags), (connection.from, ACK));
    receive(&mut gateway, A1, &long(connection.answer(ACK)), 9);

    let (ping, _) = send(&mut gateway, A1, &long(Packet::ping((A1.1, 7), REMOTE)), 10);
    let pong = Packet { ttl: 64, ..ping.answer(0) };
    assert_eq!(receive(&mut gateway, A1, &pong, 11).to, (A1.1, 7));
}

/// <https://github.com/cilium/cilium/issues/25709> and <https://github.com/FDio/vpp/issues/3000>: fragments that
/// are not in order. The first one and those behind it arrive, and the others count.
#[test]
fn rfc4787_req_14_fragments_behind_the_first_one_pass_in_all_orders() {
    for (id, order) in (1..).zip(ORDERS) {
        let mut gateway = small();
        let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, id);
        let first = order.iter().position(|part| *part == 0).expect("one is the first");
        for (position, part) in order.into_iter().enumerate() {
            let outcome = gateway.send_bytes(A1, &parts[part]);
            if position < first {
                assert_eq!(dropped(outcome).as_deref(), Some("fragment_unknown"), "{order:?}, {part}");
            } else {
                assert!(matches!(outcome, Outcome::Internet(_)), "{order:?}, {part}: {outcome:?}");
            }
        }
        // What the sender repeats arrives as a whole.
        send(&mut gateway, A1, &long(udp(A1, 5000, DNS)), id);
        let answer = gateway.send(A1, &udp(A1, 5000, DNS)).answer(0);
        let parts = fragments(&long(answer).bytes(), 40, id);
        for (position, part) in order.into_iter().enumerate() {
            let outcome = gateway.receive_bytes(&parts[part]);
            match position < first {
                true => assert_eq!(dropped(outcome).as_deref(), Some("fragment_unknown")),
                false => assert!(matches!(outcome, Outcome::Server(100, _)), "{order:?}, {part}: {outcome:?}"),
            }
        }
    }
}

/// RFC 7857, section 10; RFC 6864, section 5.3.1: the server could not tell the fragments of both apart.
#[test]
fn two_vms_with_one_address_and_one_identification_have_two_at_the_server() {
    let mut gateway = Gateway::new("198.51.100.16/32", 64);
    let datagrams = [A1, A2, B1].map(|vm| (vm, fragments(&long(udp(vm, 5000, DNS)).bytes(), 40, 7)));
    let mut sent = vec![Vec::new(); 3];
    for part in 0..3 {
        for (n, (vm, parts)) in datagrams.iter().enumerate() {
            let Outcome::Internet(bytes) = gateway.send_bytes(*vm, &parts[part]) else { panic!("it passes") };
            sent[n].push(bytes);
        }
    }
    let ids: BTreeSet<u16> = sent.iter().map(|parts| identification(&parts[0])).collect();
    assert_eq!(ids.len(), 3);
    for (parts, (vm, _)) in sent.iter().zip(&datagrams) {
        let packet = Packet::read(&reassembled(parts));
        assert_eq!(packet.from.0.octets(), [198, 51, 100, 16]);
        assert_eq!(gateway.receive(*vm, &packet.answer(0)).to, (vm.1, 5000));
    }
    // Whole datagrams need none (RFC 6864, section 4.1), and keep what they have.
    let Outcome::Internet(whole) = gateway.send_bytes(A1, &udp(A1, 5000, DNS).bytes()) else { panic!("it passes") };
    assert_eq!(identification(&whole), 0x1234);
}

#[test]
fn identifications_of_a_thousand_datagrams_differ_and_return() {
    let mut gateway = small();
    let mut seen = BTreeSet::new();
    for id in 0..1000 {
        // Only the first fragment of each: the others are lost.
        let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, id);
        let Outcome::Internet(bytes) = gateway.send_bytes(A1, &parts[0]) else { panic!("it passes") };
        assert!(seen.insert(identification(&bytes)), "{id}");
    }
    gateway.wait(120);
    send(&mut gateway, A1, &long(udp(A1, 5000, DNS)), 5);
}

/// RFC 1858, section 3; RFC 3128, section 2: later fragments cannot change what was judged.
#[test]
fn rfc1858_fragments_that_cut_or_change_the_header_of_tcp_are_dropped() {
    let mut gateway = small();
    gateway.connect(A1, 6000, WEB);
    let bytes = long(Packet::tcp((A1.1, 6000), WEB, ACK)).bytes();
    let (header, data) = bytes.split_at(20);
    for cut in [8, 16] {
        let tiny = fragment(header, &data[..cut], 0, true, 100 + cut as u32);
        assert_eq!(dropped(gateway.send_bytes(A1, &tiny)).as_deref(), Some("fragment_header"), "{cut}");
        let rest = fragment(header, &data[cut..], cut as u16 / 8, false, 100 + cut as u32);
        assert_eq!(dropped(gateway.send_bytes(A1, &rest)).as_deref(), Some("fragment_header"), "{cut}");
    }
    let first = fragment(header, &data[..40], 0, true, 9);
    assert!(matches!(gateway.send_bytes(A1, &first), Outcome::Internet(_)));
    for offset in [1, 2] {
        let over = fragment(header, &data[8..32], offset, true, 9);
        assert_eq!(dropped(gateway.send_bytes(A1, &over)).as_deref(), Some("fragment_header"), "{offset}");
    }
    // From the Internet, too. Behind the header, the receiver decides about overlaps (RFC 5722).
    let back = gateway.connect(A1, 6001, WEB).answer(ACK).bytes();
    let over = fragment(&back[..20], &back[28..52], 1, false, 9);
    assert_eq!(dropped(gateway.receive_bytes(&over)).as_deref(), Some("fragment_header"));
    let overlap = fragment(header, &data[24..64], 3, true, 9);
    assert!(matches!(gateway.send_bytes(A1, &overlap), Outcome::Internet(_)));
}

#[test]
fn another_first_fragment_redirects_nothing() {
    let mut gateway = small();
    let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, 7);
    let other = fragments(&long(udp(A1, 5001, DNS)).bytes(), 40, 7);
    let Outcome::Internet(first) = gateway.send_bytes(A1, &parts[0]) else { panic!("it passes") };
    assert_eq!(dropped(gateway.send_bytes(A1, &other[0])).as_deref(), Some("fragment_header"));
    // A repeated one is the same.
    let Outcome::Internet(again) = gateway.send_bytes(A1, &parts[0]) else { panic!("it passes") };
    assert_eq!(first, again);
    for part in &parts[1..] {
        let Outcome::Internet(bytes) = gateway.send_bytes(A1, part) else { panic!("it passes") };
        assert_eq!(identification(&bytes), identification(&first));
    }
    // Two seconds behind the last fragment, the sender can use the identification again.
    gateway.wait(4);
    send(&mut gateway, A1, &long(udp(A1, 5001, DNS)), 7);
}

#[test]
fn datagrams_are_known_for_thirty_seconds() {
    let mut gateway = small();
    let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, 7);
    assert!(matches!(gateway.send_bytes(A1, &parts[0]), Outcome::Internet(_)));
    gateway.wait(25);
    assert!(matches!(gateway.send_bytes(A1, &parts[1]), Outcome::Internet(_)));
    // Later fragments do not prolong it.
    gateway.wait(10);
    assert_eq!(dropped(gateway.send_bytes(A1, &parts[2])).as_deref(), Some("fragment_unknown"));
}

/// Datagrams of others with the same addresses, protocol and identification are others.
#[test]
fn tenants_and_directions_are_kept_apart() {
    let mut gateway = Gateway::new("198.51.100.16/32", 64);
    let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, 7);
    assert!(matches!(gateway.send_bytes(A1, &parts[0]), Outcome::Internet(_)));
    assert_eq!(dropped(gateway.send_bytes(B1, &parts[1])).as_deref(), Some("fragment_unknown"), "another tenant");
    assert_eq!(dropped(gateway.receive_bytes(&parts[1])).as_deref(), Some("not_for_gateway"));
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let answer = fragments(&long(sent.answer(0)).bytes(), 40, 7);
    assert_eq!(dropped(gateway.receive_bytes(&answer[1])).as_deref(), Some("fragment_unknown"));
    let tcp = fragments(&long(Packet::tcp((A1.1, 5000), WEB, ACK)).bytes(), 40, 7);
    assert_eq!(dropped(gateway.send_bytes(A1, &tcp[1])).as_deref(), Some("fragment_unknown"), "another protocol");
}

/// Nothing of it adds an entry, and a first fragment opens a session only as a whole packet would.
#[test]
fn floods_of_fragments_use_nothing_of_others() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let answer = long(sent.answer(0));
    for id in 0..300 {
        let parts = fragments(&answer.bytes(), 40, id);
        assert_eq!(dropped(gateway.receive_bytes(&parts[2])).as_deref(), Some("fragment_unknown"));
    }
    assert_eq!(receive(&mut gateway, A1, &answer, 1).to, (A1.1, 5000));
    let unasked = fragments(&long(Packet::udp(WEB, sent.from)).bytes(), 40, 1000);
    for part in &unasked {
        assert_eq!(dropped(gateway.receive_bytes(part)).as_deref(), Some("no_session"));
    }
    let ack = fragments(&long(Packet::tcp((A1.1, 6000), WEB, ACK)).bytes(), 40, 2);
    for part in &ack {
        assert_eq!(dropped(gateway.send_bytes(A1, part)).as_deref(), Some("tcp_without_syn"));
    }
}

#[test]
fn fragments_without_data_and_pings_of_death_do_no_harm() {
    let mut gateway = small();
    let bytes = long(udp(A1, 5000, DNS)).bytes();
    let (header, data) = bytes.split_at(20);
    let empty_first = fragment(header, &[], 0, true, 6);
    assert!(dropped(gateway.send_bytes(A1, &empty_first)).is_some());
    assert!(matches!(gateway.send_bytes(A1, &fragment(header, &data[..40], 0, true, 7)), Outcome::Internet(_)));
    let empty = fragment(header, &[], 5, true, 7);
    assert!(matches!(gateway.send_bytes(A1, &empty), Outcome::Internet(bytes) if bytes.len() == 20));
    // Beyond 65,535 bytes: receivers discard it.
    let beyond = fragment(header, &data[40..], 0x1fff, false, 7);
    assert!(matches!(gateway.send_bytes(A1, &beyond), Outcome::Internet(_)));
    assert!(matches!(gateway.send_bytes(A1, &fragment(header, &data[40..], 5, false, 7)), Outcome::Internet(_)));
}

/// RFC 5508, REQ-3 and REQ-4: the first fragment has the ports of the session, a later one has none.
#[test]
fn errors_about_the_first_fragment_are_translated_and_those_about_others_are_dropped() {
    let mut gateway = small();
    let parts = fragments(&long(udp(A1, 5000, DNS)).bytes(), 40, 7);
    let sent: Vec<Vec<u8>> = parts
        .iter()
        .map(|part| match gateway.send_bytes(A1, part) {
            Outcome::Internet(bytes) => bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    let public = Packet::read(&reassembled(&sent)).from.0;
    let error = icmp_error(ROUTER, public, [11, 1], &sent[0]);
    let Outcome::Server(100, bytes) = gateway.receive_bytes(&error) else { panic!("an error of the session") };
    assert_eq!(bytes[28 + 12..28 + 16], A1.1.octets());
    assert_eq!(bytes[28 + 20..28 + 22], 5000_u16.to_be_bytes());
    let error = icmp_error(ROUTER, public, [11, 1], &sent[1]);
    assert_eq!(dropped(gateway.receive_bytes(&error)).as_deref(), Some("nat_quote"));
}

/// <https://github.com/cilium/cilium/issues/16036>: a later fragment that is shorter than the header of ICMP.
#[test]
fn the_last_fragment_of_a_ping_can_have_a_single_byte() {
    let mut gateway = small();
    for length in 1..9 {
        let ping = Packet { data: vec![7; 72 + length], ..Packet::ping((A1.1, 7), REMOTE) };
        let (sent, _) = send(&mut gateway, A1, &ping, length as u32);
        let pong = Packet { ttl: 64, ..sent.answer(0) };
        assert_eq!(receive(&mut gateway, A1, &pong, length as u32).data, ping.data);
    }
}

/// <https://github.com/FDio/vpp/issues/2965>: fragments that are the tunnel of someone else.
#[test]
fn fragments_of_a_vms_own_vxlan_pass() {
    let mut gateway = small();
    let (sent, _) = send(&mut gateway, A1, &long(udp(A1, 4789, (REMOTE, 4789))), 7);
    assert_eq!(sent.to, (REMOTE, 4789));
    let answer = Packet { ttl: 64, ..sent.answer(0) };
    assert_eq!(receive(&mut gateway, A1, &answer, 7).to, (A1.1, 4789));
}

/// A flood from the Internet to one address leaves room for the others, and for those of machines.
#[test]
fn a_public_address_has_as_many_datagrams_as_it_may() {
    let mut gateway = small();
    let to = |last: u8| Packet::udp(DNS, ([198, 51, 100, last].into(), 2000));
    let first = |packet: &Packet, id: u32| fragments(&long(packet.clone()).bytes(), 40, id).remove(0);
    for id in 0..16_384 {
        assert_eq!(dropped(gateway.receive_bytes(&first(&to(16), id))).as_deref(), Some("no_session"), "{id}");
    }
    assert_eq!(dropped(gateway.receive_bytes(&first(&to(16), 20_000))).as_deref(), Some("fragment_quota"));
    assert_eq!(dropped(gateway.receive_bytes(&first(&to(17), 20_000))).as_deref(), Some("no_session"));
    let (sent, _) = send(&mut gateway, A1, &long(udp(A1, 5000, DNS)), 7);
    // Whole packets to the address need no room.
    assert_eq!(gateway.receive(A1, &sent.answer(0)).to, (A1.1, 5000));
}
