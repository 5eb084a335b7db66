//! NAT64 (RFC 6146): machines with IPv6 and hosts with IPv4, on the interpreter and in native code. Names of
//! tests have the sections of RFC 6052, RFC 6146 and RFC 7915.
//!
//! Not done, and why: RFC 6146, section 3.5.1.1, endpoint-independent mapping (as for IPv4: a port serves one
//! remote); sections 3.5.2.3 and 3.11, simultaneous open of TCP from outside (no one comes in unasked); section
//! 3.4, fragments (`nat64_fragment`); RFC 7915, section 4.5, a checksum in the place of none (the payload is
//! not read).

mod errors;
mod fixture;
mod reports;

use crate::fixture::{ACK, ICMPV6, Packet as V6, RST, SYN, TCP, UDP, ip};
use fixture::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use testkit::frame::{IpPacket, checksum};
use testkit::translated;

fn a1() -> Ipv6Addr {
    ip("fd00:a::11")
}

fn web(vni: u32) -> (Ipv6Addr, u16) {
    (behind(vni, SERVER), 443)
}

/// Sends a packet as the first of its session, and its answer. Returns the packet as the host got it.
#[track_caller]
fn exchange(gateway: &mut Gateway, vni: u32, packet: &V6) -> V4 {
    let sent = gateway.send(vni, packet);
    let host = packet.to.0.to_bits() as u32;
    let ports = if packet.protocol == ICMPV6 { [sent.from.1, 0] } else { [sent.from.1, packet.to.1] };
    let protocol = if packet.protocol == ICMPV6 { translated::ICMP } else { packet.protocol };
    let flags = if packet.protocol == TCP { packet.kind } else { 0 };
    let expected = V4 {
        protocol,
        from: (sent.from.0, ports[0]),
        to: (Ipv4Addr::from_bits(host), ports[1]),
        flags,
        ttl: packet.hop_limit - 1,
        data: packet.data.clone(),
    };
    assert_eq!(sent, expected);
    assert!(sent.from.0.to_bits() & !3 == u32::from_be_bytes([198, 51, 100, 16]) && sent.from.1 >= 1024, "{sent:?}");
    let answer = V4 { ttl: 64, ..sent.answer(SYN | ACK) };
    gateway.receive(vni, &answer, &V6 { hop_limit: 63, ..packet.answer(SYN | ACK) });
    sent
}

#[test]
fn rfc6146_3_5_udp_tcp_and_echo_pass_in_both_directions() {
    let mut gateway = Gateway::new();
    for vni in [A, B] {
        exchange(&mut gateway, vni, &V6::udp((a1(), 53), web(vni)));
        exchange(&mut gateway, vni, &V6::tcp((a1(), 5000), web(vni), SYN));
        exchange(&mut gateway, vni, &V6::ping((a1(), 7), behind(vni, SERVER)));
    }
    // Further packets have the port of the first one, and one from another port another one.
    let first = gateway.send(A, &V6::tcp((a1(), 5000), web(A), ACK));
    assert_eq!(gateway.send(A, &V6::tcp((a1(), 5000), web(A), RST)).from, first.from);
    assert_ne!(gateway.send(A, &V6::tcp((a1(), 5001), web(A), SYN)).from, first.from);
    assert_eq!(gateway.send(A, &V6::udp((a1(), 54), web(A))).from.0, first.from.0);
}

#[test]
fn rfc6146_3_5_equal_addresses_of_two_vpcs_and_addresses_of_one_machine_are_apart() {
    let mut gateway = Gateway::new();
    let of = |from: &str, vni| V6::udp((ip(from), 53), web(vni));
    let packets =
        [(A, of("fd00:a::11", A)), (A, of("fd00:a::99", A)), (A, of("fd00:a::12", A)), (B, of("fd00:a::11", B))];
    let sent: Vec<V4> = packets.iter().map(|(vni, packet)| gateway.send(*vni, packet)).collect();
    for (n, (vni, packet)) in packets.iter().enumerate() {
        assert!(sent[..n].iter().all(|other| other.from != sent[n].from));
        gateway.receive(*vni, &V4 { ttl: 64, ..sent[n].answer(0) }, &packet.answer(0).routed());
    }
}

/// RFC 6146, section 3.5.1.2: a packet of another host, or to another port, belongs to no session.
#[test]
fn rfc6146_3_5_nothing_comes_in_unasked() {
    let mut gateway = Gateway::new();
    let sent = gateway.send(A, &V6::udp((a1(), 53), web(A)));
    for from in [(ROUTER, 443), (SERVER, 444)] {
        assert_eq!(gateway.refuse_in(&V4::udp(from, sent.from).bytes()), "no_session");
    }
    assert_eq!(gateway.refuse_in(&V4::tcp((SERVER, 443), sent.from, SYN).bytes()), "no_session");
    assert_eq!(gateway.refuse_in(&V4::udp((SERVER, 443), (sent.from.0, sent.from.1 ^ 1)).bytes()), "no_session");
    assert_eq!(gateway.refuse_out(A, &V6::tcp((a1(), 9), web(A), ACK).bytes()), "tcp_without_syn");
}

/// RFC 6146, section 3.5 and 4: idle times are those of sessions over IPv4.
#[test]
fn rfc6146_4_sessions_end_by_their_idle_times() {
    let mut gateway = Gateway::new();
    let udp = gateway.send(A, &V6::udp((a1(), 53), web(A)));
    let ping = gateway.send(A, &V6::ping((a1(), 7), behind(A, SERVER)));
    let tcp = exchange(&mut gateway, A, &V6::tcp((a1(), 5000), web(A), SYN));
    gateway.0.wait(70, 1);
    assert_eq!(gateway.refuse_in(&V4::pong(SERVER, ping.from).bytes()), "no_session");
    gateway.receive(A, &udp.answer(0), &V6 { hop_limit: 62, ..V6::udp((a1(), 53), web(A)).answer(0) });
    gateway.0.wait(320, 1);
    assert_eq!(gateway.refuse_in(&udp.answer(0).bytes()), "no_session");
    gateway.receive(A, &tcp.answer(ACK), &V6 { hop_limit: 62, ..V6::tcp((a1(), 5000), web(A), ACK).answer(ACK) });
}

/// RFC 6888, REQ-4: a machine has a limit of ports, which sessions of both versions share the rules of.
#[test]
fn a_machine_has_as_many_ports_as_it_may() {
    let mut gateway = Gateway::new();
    let outcomes: Vec<Outcome> =
        (0..66).map(|n| gateway.send_bytes(A, &V6::udp((a1(), 1000 + n), web(A)).bytes())).collect();
    let refused = outcomes.iter().filter(|outcome| **outcome == Outcome::Dropped("nat_quota".to_owned(), None));
    assert_eq!(refused.count(), 2);
    gateway.send(A, &V6::udp((ip("fd00:a::99"), 1), web(A)));
}

#[test]
fn rfc7915_5_1_a_host_gets_an_ipv4_header() {
    let mut gateway = Gateway::new();
    let udp = |len: usize| V6 { data: vec![7; len], ..V6::udp((a1(), 53), web(A)) };
    let marked = |packet: &V6| {
        let ip = IpPacket::new(packet.from.0.into(), packet.to.0.into(), UDP, packet.layer_4());
        IpPacket { dscp: 46, ecn: 2, ..ip }.bytes()
    };
    let short = gateway.sent_bytes(A, &marked(&udp(100)));
    assert_eq!(short[..4], [0x45, 46 << 2 | 2, 0, 128]);
    assert_eq!((short[6], short[7]), (0, 0), "routers may fragment it");
    // Other datagrams have other identifications.
    let other = gateway.sent_bytes(A, &marked(&V6 { data: vec![8; 100], ..udp(100) }));
    assert_ne!(short[4..6], other[4..6]);
    // 1,260 bytes are those of a packet that a host with IPv6 always may send.
    let edge = gateway.sent_bytes(A, &udp(1260 - 28).bytes());
    assert_eq!((edge[2..4].to_vec(), edge[6]), (1260u16.to_be_bytes().to_vec(), 0));
    let long = gateway.sent_bytes(A, &udp(1261 - 28).bytes());
    assert_eq!(long[4..8], [0, 0, 0x40, 0], "no router fragments it");
    // Padding behind the tenant's packet is not sent.
    let Outcome::Internet(bytes) = gateway.send_padded(A, &udp(100).bytes(), 9) else { panic!("it passes") };
    assert_eq!((bytes.len(), V4::read(&bytes).data.len()), (128, 100));
}

#[test]
fn rfc7915_4_1_a_machine_gets_an_ipv6_header() {
    let mut gateway = Gateway::new();
    let sent = gateway.send(A, &V6::udp((a1(), 53), web(A)));
    let answer = V4 { ttl: 64, ..sent.answer(0) };
    let bytes = answer.bytes();
    let marked =
        IpPacket { dscp: 46, ecn: 1, ..IpPacket::new(SERVER.into(), sent.from.0.into(), UDP, bytes[20..].to_vec()) };
    let received = gateway.received_bytes(A, &marked.bytes());
    assert_eq!(received[..8], [0x6b, 0x90, 0, 0, 0, 24, UDP, 63]);
    // Padding of a short frame.
    let received = gateway.received_bytes(A, &[&bytes[..], &[0; 7]].concat());
    assert_eq!(received, without_label(&V6::udp((a1(), 53), web(A)).answer(0).routed().bytes()));
    assert_eq!(gateway.refuse_in(&V4 { ttl: 1, ..answer }.bytes()), "inner_ttl_expired");
}

/// RFC 6052, section 3.1, and the operator's own networks.
#[test]
fn rfc6052_3_1_addresses_that_are_not_on_the_internet_are_not_reached() {
    let mut gateway = Gateway::new();
    let cases = [
        ([0, 0, 0, 1], "nat64_address"),
        ([127, 0, 0, 1], "nat64_address"),
        ([169, 254, 169, 254], "nat64_address"),
        ([224, 0, 0, 1], "nat64_address"),
        ([255, 255, 255, 255], "nat64_address"),
        ([10, 1, 2, 3], "nat_destination"),
        ([172, 31, 0, 1], "nat_destination"),
        ([192, 168, 0, 1], "nat_destination"),
        ([100, 64, 0, 1], "nat_destination"),
        // A server and the gateway.
        ([192, 0, 2, 11], "nat_destination"),
        ([192, 0, 2, 1], "nat_destination"),
    ];
    for vni in [A, B] {
        for (host, reason) in cases {
            let packet = V6::udp((a1(), 53), (behind(vni, host.into()), 80));
            assert_eq!(gateway.refuse_out(vni, &packet.bytes()), reason, "{host:?}");
        }
    }
    assert_eq!(gateway.refuse_out(A, &V6::udp((ip("fd00:a::77"), 53), web(A)).bytes()), "no_nat");
}

/// RFC 7915, section 4.5; RFC 8200, section 8.1.
#[test]
fn rfc7915_4_5_udp_without_a_checksum_is_dropped_by_name() {
    let mut gateway = Gateway::new();
    let packet = V6::udp((a1(), 53), web(A));
    let sent = gateway.send(A, &packet);
    let mut bytes = V4 { ttl: 64, ..sent.answer(0) }.bytes();
    bytes[26..28].fill(0);
    assert_eq!(gateway.refuse_in(&bytes), "nat64_checksum");
    let mut bytes = packet.bytes();
    bytes[46..48].fill(0);
    assert_eq!(gateway.refuse_out(A, &bytes), "nat64_checksum");
}

/// RFC 768 and RFC 8200: a sum of 0 is sent as ones, in both directions.
#[test]
fn rfc7915_4_5_a_sum_of_zero_is_sent_as_ones() {
    let mut gateway = Gateway::new();
    let with_word = |word: u16| V6 { data: word.to_be_bytes().to_vec(), ..V6::udp((a1(), 53), web(A)) };
    let sum = |bytes: &[u8]| u16::from_be_bytes([bytes[26], bytes[27]]);
    let first = sum(&gateway.sent_bytes(A, &with_word(1).bytes()));
    // The word that makes the sum 0, which is ones.
    let sent = gateway.sent_bytes(A, &with_word(first.wrapping_add(1)).bytes());
    assert_eq!(sum(&sent), 0xffff);
    let sent = V4::read(&sent);
    let answer = |word: u16| V4 { data: word.to_be_bytes().to_vec(), ttl: 64, ..sent.answer(0) };
    let received = gateway.received_bytes(A, &answer(1).bytes());
    let first = u16::from_be_bytes([received[46], received[47]]);
    let received = gateway.received_bytes(A, &answer(first.wrapping_add(1)).bytes());
    assert_eq!(received[46..48], [0xff, 0xff]);
}

#[test]
fn other_protocols_headers_and_fragments_are_dropped_by_name() {
    let mut gateway = Gateway::new();
    let udp = V6::udp((a1(), 53), web(A));
    for protocol in [50, 132, 136, 47] {
        assert_eq!(gateway.refuse_out(A, &V6 { protocol, ..udp.clone() }.bytes()), "nat_protocol");
    }
    // An echo reply of a machine, and messages for one link.
    for kind in [129, 130, 143, 139] {
        let packet = V6 { kind, ..V6::ping((a1(), 7), behind(A, SERVER)) };
        assert_eq!(gateway.refuse_out(A, &packet.bytes()), "nat_protocol", "{kind}");
    }
    let fragment =
        IpPacket { fragment: Some((true, 0)), ..IpPacket::new(a1().into(), web(A).0.into(), UDP, udp.layer_4()) };
    assert_eq!(gateway.refuse_out(A, &fragment.bytes()), "nat64_fragment");
    let sent = gateway.send(A, &udp);
    let answer = V4 { ttl: 64, ..sent.answer(0) }.bytes()[20..].to_vec();
    let fragment =
        IpPacket { fragment: Some((true, 0)), ..IpPacket::new(SERVER.into(), sent.from.0.into(), UDP, answer) };
    assert_eq!(gateway.refuse_in(&fragment.bytes()), "nat64_fragment");
    // Destination options of eight bytes.
    let options = [&[UDP, 0, 1, 4, 0, 0, 0, 0][..], &udp.layer_4()].concat();
    let with_options = IpPacket::new(a1().into(), web(A).0.into(), 60, options.clone());
    assert_eq!(gateway.refuse_out(A, &with_options.bytes()), "nat_protocol");
    let with_options = IpPacket::new(a1().into(), web(B).0.into(), 60, options);
    assert_eq!(gateway.refuse_out(B, &with_options.bytes()), "extension_denied");
    for len in [4, 7] {
        let cut = IpPacket::new(a1().into(), web(A).0.into(), UDP, udp.layer_4()[..len].to_vec());
        assert_eq!(gateway.refuse_out(A, &cut.bytes()), "inner_length");
    }
    let tcp = V6::tcp((a1(), 5000), web(A), SYN).layer_4()[..19].to_vec();
    assert_eq!(gateway.refuse_out(A, &IpPacket::new(a1().into(), web(A).0.into(), TCP, tcp).bytes()), "inner_length");
}

/// RFC 7915, sections 5.1 and 5.4: the machine hears of the MTU over IPv6, which is 20 bytes more.
#[test]
fn rfc7915_5_4_a_machine_hears_of_packets_that_are_too_long_and_of_the_last_hop() {
    let mut gateway = Gateway::new();
    let udp = |len: usize| V6 { data: vec![7; len], ..V6::udp((a1(), 53), web(A)) };
    let passes = udp(1520 - 48);
    assert_eq!(gateway.send(A, &passes).data.len(), 1500 - 28);
    let Outcome::Dropped(reason, Some(message)) = gateway.send_bytes(A, &udp(1521 - 48).bytes()) else {
        panic!("told")
    };
    assert_eq!(
        (reason.as_str(), &message[40..42], &message[44..48]),
        ("exceeds_mtu", &[2, 0][..], &[0, 0, 5, 240][..])
    );
    assert_eq!(message[48..88], udp(1521 - 48).bytes()[..40]);
    let last = V6 { hop_limit: 1, ..udp(16) };
    let Outcome::Dropped(reason, Some(message)) = gateway.send_bytes(A, &last.bytes()) else { panic!("told") };
    assert_eq!((reason.as_str(), &message[40..42]), ("inner_ttl_expired", &[3, 0][..]));
}

/// Segments of the host come to the machine over IPv6, so the limit is that over IPv6 in both directions.
#[test]
fn the_limit_of_tcp_segments_is_that_over_ipv6() {
    let mut gateway = Gateway::new();
    let with_mss = |mut tcp: Vec<u8>| {
        // A header of 24 bytes with an MSS of 1,440 behind the ports of the segment.
        tcp[12] = 0x60;
        tcp.splice(20..20, [2, 4, 5, 0xa0]);
        tcp[16..18].fill(0);
        tcp
    };
    let syn = V6::tcp((a1(), 5000), web(B), SYN);
    let mut l4 = with_mss(syn.layer_4());
    let sum = crate::fixture::pseudo_checksum(a1(), web(B).0, TCP, &l4).to_be_bytes();
    l4[16..18].copy_from_slice(&sum);
    let sent = gateway.sent_bytes(B, &IpPacket::new(a1().into(), web(B).0.into(), TCP, l4).bytes());
    assert_eq!(sent[40..44], [2, 4, 5, 0x5a], "1,370: over IPv4, it would be 1,390");
    let from = V4::read(&sent).from;
    let answer = V4::tcp((SERVER, 443), from, SYN | ACK);
    let mut l4 = with_mss(answer.bytes()[20..].to_vec());
    let pseudo = [&SERVER.octets()[..], &from.0.octets(), &[0, TCP], &(l4.len() as u16).to_be_bytes(), &l4].concat();
    l4[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
    let received = gateway.received_bytes(B, &IpPacket::new(SERVER.into(), from.0.into(), TCP, l4).bytes());
    assert_eq!(received[60..64], [2, 4, 5, 0x5a], "1,370");
}

/// Security groups see the machine and the host behind the prefix.
#[test]
fn groups_decide_about_packets_to_hosts() {
    let mut gateway = Gateway::new();
    let in_group = ip("fd00:a::80");
    assert_eq!(gateway.refuse_out(A, &V6::tcp((in_group, 5000), (web(A).0, 80), SYN).bytes()), "group_denied_out");
    let syn = V6::tcp((in_group, 5000), web(A), SYN);
    let sent = exchange(&mut gateway, A, &syn);
    // Errors about the flow come in.
    let quoted = sent.bytes();
    let error = icmpv4(ROUTER, sent.from.0, [3, 1], [0; 4], &quoted);
    assert_eq!(gateway.received_bytes(A, &error)[40..42], [1, 0]);
}

/// A change of the region: sessions follow the entries of their machines.
#[test]
fn sessions_end_with_their_machine_and_outlive_other_changes() {
    let mut gateway = Gateway::new();
    let packets = [V6::udp((a1(), 53), web(A)), V6::udp((ip("fd00:a::12"), 53), web(A))];
    let sent = packets.each_ref().map(|packet| gateway.send(A, packet));
    let second = "- {name: a2, vpc: a, server: s2, mac: 02:00:00:10:00:02, addresses: ['fd00:a::12']}\n";
    // Another machine comes, and the number of the one that goes is not its own.
    let other = second.replace("fd00:a::12", "fd00:a::13").replace("a2", "a3");
    gateway.0.change_region(&REGION.replace(second, &other));
    gateway.receive(A, &V4 { ttl: 64, ..sent[0].answer(0) }, &packets[0].answer(0).routed());
    assert_eq!(gateway.refuse_in(&V4 { ttl: 64, ..sent[1].answer(0) }.bytes()), "unknown_vm");
    assert_eq!(gateway.refuse_out(A, &packets[1].bytes()), "no_nat");
    exchange(&mut gateway, A, &V6::udp((ip("fd00:a::13"), 53), web(A)));
    // It comes back with another number, and so begins other sessions.
    gateway.0.change_region(REGION);
    exchange(&mut gateway, A, &packets[1]);
    // Without NAT64, the prefix has no route.
    gateway.0.change_region(
        &REGION.replace("  nat: n\n  nat64: {}\n", "  ipv6_internet: {}\n").replace("fd00:a", "2001:db8:a"),
    );
    assert!(matches!(gateway.send_bytes(A, &packets[0].bytes()), Outcome::Dropped(reason, _) if reason == "no_route"));
}

/// Checksums of packets with random ports, lengths and bytes are right in both directions. `NAT64_SEED` repeats
/// a run.
#[test]
fn rfc7915_4_5_5_5_checksums_of_random_packets_are_right() {
    let seed = std::env::var("NAT64_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("NAT64_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut gateway = Gateway::new();
    for n in 0..300u16 {
        let vni = if random.bool() { A } else { B };
        let host = Ipv4Addr::from([random.u8(20..90), random.u8(..), random.u8(..), random.u8(..)]);
        let data = (0..random.usize(0..200)).map(|_| random.u8(..)).collect();
        let packet = match random.u8(0..3) {
            0 => V6::udp((a1(), 1 + n), (behind(vni, host), random.u16(1..))),
            1 => V6::tcp((a1(), 1 + n), (behind(vni, host), random.u16(1..)), SYN),
            _ => V6::ping((a1(), n), behind(vni, host)),
        };
        let packet = V6 { data, hop_limit: random.u8(2..), ..packet };
        // A machine has 64 ports, which have to end.
        if n % 40 == 0 {
            gateway.0.wait(8000, 10);
        }
        exchange(&mut gateway, vni, &packet);
    }
}
