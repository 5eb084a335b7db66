//! Fragments to and from the Internet over IPv6, where only answers come in (docs/decisions/0055-*).

use crate::fixture::*;
use crate::{a1, web};
use std::net::Ipv6Addr;
use testkit::fragments::{fragment, fragments, reassembled};

/// Bytes of a fragment.
const PART: usize = 64;

fn long(packet: Packet) -> Packet {
    Packet { data: (0..200).collect(), ..packet }
}

fn send_all(gateway: &mut Gateway, vni: u32, packet: &Packet, identification: u32) -> Vec<Vec<u8>> {
    fragments(&packet.bytes(), PART, identification).iter().map(|part| gateway.sent(vni, part)).collect()
}

fn receive_all(gateway: &mut Gateway, vni: u32, packet: &Packet, identification: u32) -> Vec<Vec<u8>> {
    fragments(&packet.bytes(), PART, identification).iter().map(|part| gateway.received(vni, part)).collect()
}

#[test]
fn answers_in_fragments_come_in_and_others_do_not() {
    let mut gateway = Gateway::new();
    let mut packets = vec![long(Packet::udp((a1(), 53), web())), long(Packet::ping((a1(), 7), host()))];
    packets.push(long(Packet::tcp((a1(), 5000), web(), SYN)));
    for (packet, identification) in packets.iter().zip([70_000, 70_001, 70_002]) {
        let out = send_all(&mut gateway, A, packet, identification);
        assert_eq!(reassembled(&out), packet.routed().bytes());
        let answer = packet.answer(SYN | ACK);
        let back = receive_all(&mut gateway, A, &answer, identification + 100);
        assert_eq!(reassembled(&back), answer.routed().bytes());
    }
    // A datagram of no flow, its later fragments, and those of a flow's datagram that has not begun.
    let unasked = long(Packet::udp((host(), 444), (a1(), 53)));
    let [first, later, ..] = &fragments(&unasked.bytes(), PART, 5)[..] else { panic!("several fragments") };
    assert_eq!(gateway.receive_bytes(first), dropped("internet_unasked"));
    assert_eq!(gateway.receive_bytes(later), dropped("internet_unasked"));
    let answer = long(packets[0].answer(0));
    let later = &fragments(&answer.bytes(), PART, 6)[1];
    assert_eq!(gateway.receive_bytes(later), dropped("fragment_unknown"));
}

/// Datagrams with other identifications are others: a later fragment has the ports of its own datagram.
#[test]
fn identifications_of_packets_from_the_internet_keep_datagrams_apart() {
    let mut gateway = Gateway::new();
    let asked = long(Packet::udp((a1(), 53), web()));
    gateway.pass_out(A, &asked);
    let answer = asked.answer(0);
    let unasked = Packet { from: (host(), 444), ..answer.clone() };
    let [of_answer, of_unasked] =
        [(&answer, 8), (&unasked, 9)].map(|(packet, id)| fragments(&packet.bytes(), PART, id));
    gateway.received(A, &of_answer[0]);
    assert_eq!(gateway.receive_bytes(&of_unasked[0]), dropped("internet_unasked"));
    for (passes, blocked) in of_answer.iter().zip(&of_unasked).skip(1) {
        gateway.received(A, passes);
        assert_eq!(gateway.receive_bytes(blocked), dropped("internet_unasked"));
    }
    // Another first fragment of the known datagram, with other ports.
    let forged = fragments(&unasked.bytes(), PART, 8);
    assert_eq!(gateway.receive_bytes(&forged[0]), dropped("fragment_header"));
}

/// RFC 3128: a later fragment must not change the header of TCP.
#[test]
fn a_fragment_within_the_header_of_tcp_does_not_come_in() {
    let mut gateway = Gateway::new();
    let syn = long(Packet::tcp((a1(), 5000), web(), SYN));
    gateway.pass_out(A, &syn);
    let answer = syn.answer(SYN | ACK).bytes();
    gateway.received(A, &fragment(&answer[..40], &answer[40..104], 0, true, 3));
    let overlapping = fragment(&answer[..40], &answer[48..112], 1, false, 3);
    assert_eq!(gateway.receive_bytes(&overlapping), dropped("fragment_header"));
    let short = fragment(&answer[..40], &answer[40..48], 0, true, 4);
    assert_eq!(gateway.receive_bytes(&short), dropped("fragment_header"));
}

/// A translated prefix changes the addresses of all fragments alike.
#[test]
fn fragments_of_translated_prefixes_have_one_address() {
    let mut gateway = Gateway::new();
    let machine = ip("fd00:4:0:1::11");
    let packet = long(Packet::udp((machine, 53), web()));
    let out = reassembled(&send_all(&mut gateway, L, &packet, 11));
    let outside: Ipv6Addr = source_of(&out);
    assert!(outside != machine && checksum_of(&out) == 0, "{outside}");
    let answer = long(Packet::udp(web(), (outside, 53)));
    let back = reassembled(&receive_all(&mut gateway, L, &answer, 12));
    assert_eq!((destination_of(&back), checksum_of(&back)), (machine, 0));
}
