//! ICMP errors through NAT64 (RFC 7915, sections 4.2, 4.3, 5.2 and 5.3; RFC 6146, section 3.5.3; RFC 5508).

use super::fixture::*;
use super::{a1, exchange, web};
use crate::fixture::{ACK, ICMPV6, Packet as V6, SYN, TCP, checksum_of, ip};
use std::net::Ipv4Addr;

/// Type, code, and the four bytes behind the checksum.
type Message = ([u8; 2], [u8; 4]);

fn sessions(gateway: &mut Gateway) -> Vec<(V6, V4)> {
    let packets =
        [V6::udp((a1(), 53), web(A)), V6::tcp((a1(), 5000), web(A), SYN), V6::ping((a1(), 7), behind(A, SERVER))];
    packets.into_iter().map(|packet| (packet.clone(), exchange(gateway, A, &packet))).collect()
}

/// Checks an error from the Internet about each of the machine's packets: with `expected`, what the machine
/// gets; without it, the drop.
#[track_caller]
fn check_in(gateway: &mut Gateway, (kind, rest): Message, expected: Option<Message>) {
    for (packet, sent) in sessions(gateway) {
        let quoted = V4 { ttl: 60, ..sent.clone() };
        let error = icmpv4(ROUTER, sent.from.0, kind, rest, &quoted.bytes());
        let Some((new_kind, new_rest)) = expected else {
            assert_eq!(gateway.refuse_in(&error), "nat64_icmp", "{kind:?} {rest:?}");
            continue;
        };
        let received = gateway.received_bytes(A, &error);
        let mut expected = without_label(&V6 { hop_limit: 60, ..packet.clone() }.bytes());
        if packet.protocol == TCP {
            // Behind 8 bytes of layer 4, nothing is changed.
            expected[56..58].copy_from_slice(&quoted.bytes()[36..38]);
        } else {
            assert_eq!(checksum_of(&received[48..]), 0, "of the quoted packet");
        }
        let whole = icmpv6(behind(A, ROUTER), a1(), new_kind, new_rest, &expected);
        let mut whole = without_label(&whole);
        whole[7] -= 1;
        assert_eq!(received, whole, "{kind:?} {rest:?}");
    }
}

/// Checks an error of the machine about each answer of the host.
#[track_caller]
fn check_out(gateway: &mut Gateway, (kind, rest): Message, expected: Option<Message>) {
    for (packet, sent) in sessions(gateway) {
        let answer = packet.answer(SYN | ACK);
        let error = icmpv6(a1(), behind(A, SERVER), kind, rest, &answer.bytes());
        let Some((new_kind, new_rest)) = expected else {
            assert_eq!(gateway.refuse_out(A, &error), "nat64_icmp", "{kind:?} {rest:?}");
            continue;
        };
        let bytes = gateway.sent_bytes(A, &error);
        assert_eq!((bytes[9], &bytes[12..20]), (1, &[sent.from.0.octets(), SERVER.octets()].concat()[..]));
        assert_eq!((&bytes[20..22], &bytes[24..28]), (&new_kind[..], &new_rest[..]), "{kind:?} {rest:?}");
        assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        assert_eq!(testkit::frame::checksum(&[&bytes[20..], &vec![0; bytes.len() % 2]].concat()), 0);
        // The quoted packet is the one that the host has sent, with right checksums.
        let flags = if sent.flags == 0 { 0 } else { SYN | ACK };
        let (mut quoted, expected) = (bytes[28..].to_vec(), V4 { ttl: 64, ..sent.answer(flags) });
        if packet.protocol == TCP {
            assert_eq!(quoted[36..38], answer.bytes()[56..58], "behind 8 bytes of layer 4, nothing is changed");
            quoted[36..38].copy_from_slice(&expected.bytes()[36..38]);
        }
        assert_eq!(V4::read(&quoted), expected);
    }
}

#[test]
fn rfc7915_4_2_errors_of_ipv4_have_counterparts() {
    let mut gateway = Gateway::new();
    let unused = [0; 4];
    for (code, expected) in [
        (0, Some([1, 0])),
        (1, Some([1, 0])),
        (3, Some([1, 4])),
        (5, Some([1, 0])),
        (6, Some([1, 0])),
        (7, Some([1, 0])),
        (8, Some([1, 0])),
        (9, Some([1, 1])),
        (10, Some([1, 1])),
        (11, Some([1, 0])),
        (12, Some([1, 0])),
        (13, Some([1, 1])),
        (14, None),
        (15, Some([1, 1])),
        (16, None),
        (255, None),
    ] {
        check_in(&mut gateway, ([3, code], unused), expected.map(|kind| (kind, unused)));
    }
    check_in(&mut gateway, ([3, 2], unused), Some(([4, 1], [0, 0, 0, 6])));
    for code in [0, 1] {
        check_in(&mut gateway, ([11, code], unused), Some(([3, code], unused)));
    }
    check_in(&mut gateway, ([12, 1], unused), None);
    // Figure 3.
    let pointers = [
        Some(0),
        Some(1),
        Some(4),
        Some(4),
        None,
        None,
        None,
        None,
        Some(7),
        Some(6),
        None,
        None,
        Some(8),
        Some(8),
        Some(8),
        Some(8),
        Some(24),
        Some(24),
        Some(24),
        Some(24),
        None,
    ];
    for (pointer, expected) in (0..).zip(pointers) {
        for code in [0, 2] {
            let expected = expected.map(|to| ([4, 0], [0, 0, 0, to]));
            check_in(&mut gateway, ([12, code], [pointer, 0, 0, 0]), expected);
        }
    }
}

#[test]
fn rfc7915_4_2_the_mtu_is_20_more_and_1280_at_least() {
    let mut gateway = Gateway::new();
    let mtu = |mtu: u16| -> [u8; 4] { u32::from(mtu).to_be_bytes() };
    for (over_v4, over_v6) in [(1400, 1420), (1500, 1520), (1260, 1280), (1259, 1280), (68, 1280), (65_535, 65_535)] {
        check_in(&mut gateway, ([3, 4], mtu(over_v4)), Some(([2, 0], mtu(over_v6))));
    }
    // A router that tells none: the plateau of RFC 1191 below the packet's length.
    let packet = V6::udp((a1(), 53), web(A));
    let sent = gateway.send(A, &packet);
    for (length, expected) in [(1500, 1512), (1493, 1512), (1492, 1280), (576, 1280), (9000, 8186), (4353, 4372)] {
        let mut quoted = V4 { data: vec![7; length - 28], ..sent.clone() }.bytes();
        quoted.truncate(60);
        let received = gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [3, 4], [0; 4], &quoted));
        assert_eq!(received[44..48], mtu(expected), "{length}");
    }
}

#[test]
fn rfc7915_5_2_errors_of_ipv6_have_counterparts() {
    let mut gateway = Gateway::new();
    let unused = [0; 4];
    for (code, expected) in [
        (0, Some([3, 1])),
        (1, Some([3, 10])),
        (2, Some([3, 1])),
        (3, Some([3, 1])),
        (4, Some([3, 3])),
        (5, None),
        (6, None),
    ] {
        check_out(&mut gateway, ([1, code], unused), expected.map(|kind| (kind, unused)));
    }
    for code in [0, 1] {
        check_out(&mut gateway, ([3, code], unused), Some(([11, code], unused)));
    }
    check_out(&mut gateway, ([4, 1], [0, 0, 0, 6]), Some(([3, 2], unused)));
    check_out(&mut gateway, ([4, 2], unused), None);
    // Figure 6.
    for (pointer, expected) in (0..=41u8).map(|pointer| {
        let expected = match pointer {
            0 | 1 => Some(pointer),
            4 | 5 => Some(2),
            6 => Some(9),
            7 => Some(8),
            8..24 => Some(12),
            24..40 => Some(16),
            _ => None,
        };
        (pointer, expected)
    }) {
        check_out(&mut gateway, ([4, 0], [0, 0, 0, pointer]), expected.map(|to| ([12, 0], [to, 0, 0, 0])));
    }
    check_out(&mut gateway, ([4, 0], [0, 1, 0, 0]), None);
    for (over_v6, over_v4) in [(1500u32, 1480u16), (1280, 1260), (1279, 1260), (9000, 8980), (70_000, 65_535)] {
        let rest = u32::from(over_v4).to_be_bytes();
        check_out(&mut gateway, ([2, 0], over_v6.to_be_bytes()), Some(([3, 4], rest)));
    }
}

/// RFC 6146, section 3.5.3: an error belongs to the session of the packet that it quotes. RFC 5508, REQ-4: it
/// neither restarts nor ends one.
#[test]
fn rfc6146_3_5_3_errors_about_other_packets_are_dropped() {
    let mut gateway = Gateway::new();
    let packet = V6::udp((a1(), 53), web(A));
    let sent = exchange(&mut gateway, A, &packet);
    let other = V4 { to: (SERVER, 444), ..sent.clone() };
    assert_eq!(gateway.refuse_in(&icmpv4(ROUTER, sent.from.0, [3, 1], [0; 4], &other.bytes())), "no_session");
    let wrong = V4 { from: (Ipv4Addr::from_bits(sent.from.0.to_bits() ^ 1), sent.from.1), ..sent.clone() };
    assert_eq!(gateway.refuse_in(&icmpv4(ROUTER, sent.from.0, [3, 1], [0; 4], &wrong.bytes())), "nat_quote");
    let answer = packet.answer(0);
    // To a router, not to the sender of the quoted packet; about a packet to another machine; of no session.
    let to_router = icmpv6(a1(), behind(A, ROUTER), [1, 4], [0; 4], &answer.bytes());
    assert_eq!(gateway.refuse_out(A, &to_router), "nat_quote");
    let of_other = V6 { to: (ip("fd00:a::12"), 53), ..answer.clone() };
    assert_eq!(gateway.refuse_out(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &of_other.bytes())), "nat_quote");
    let unknown = V6 { to: (a1(), 54), ..answer.clone() };
    assert_eq!(gateway.refuse_out(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &unknown.bytes())), "no_session");
    let short = &answer.bytes()[..40];
    assert_eq!(gateway.refuse_out(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], short)), "nat_quote");
    let request = V6::ping((web(A).0, 7), a1());
    assert_eq!(gateway.refuse_out(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &request.bytes())), "nat_quote");
    gateway.0.wait(200, 1);
    gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [3, 1], [0; 4], &sent.bytes()));
    gateway.0.wait(130, 1);
    assert_eq!(gateway.refuse_in(&V4 { ttl: 64, ..sent.answer(0) }.bytes()), "no_session");
}

/// RFC 6052, section 3.1: behind the well-known prefix there is no private address; behind one of the operator
/// there is, so that traceroute shows routers with such addresses.
#[test]
fn rfc6052_3_1_routers_with_private_addresses_are_not_behind_the_well_known_prefix() {
    let mut gateway = Gateway::new();
    for vni in [A, B] {
        let sent = exchange(&mut gateway, vni, &V6::udp((a1(), 53), web(vni)));
        for router in [[10, 0, 0, 1], [172, 16, 0, 1], [172, 31, 255, 1], [192, 168, 1, 1], [100, 64, 0, 1]] {
            let error = icmpv4(router.into(), sent.from.0, [11, 0], [0; 4], &sent.bytes());
            match vni {
                A => assert_eq!(gateway.refuse_in(&error), "nat64_address"),
                _ => assert_eq!(gateway.received_bytes(vni, &error)[20..24], router),
            }
        }
        for router in [[11, 0, 0, 1], [172, 32, 0, 1], [192, 169, 1, 1], [100, 128, 0, 1]] {
            let error = icmpv4(router.into(), sent.from.0, [11, 0], [0; 4], &sent.bytes());
            assert_eq!(gateway.received_bytes(vni, &error)[6], ICMPV6);
        }
    }
}
