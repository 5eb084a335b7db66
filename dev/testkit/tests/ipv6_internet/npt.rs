//! NPTv6 (RFC 6296): addresses against a direct reading of the RFC, checksums of layer 4, and the packets
//! that ICMPv6 errors quote.

use crate::fixture::*;
use std::net::Ipv6Addr;
use testkit::frame::IpPacket;

/// Returns the counterpart of an address by the RFC: the other prefix, and the difference of the prefixes' sums in
/// one word. Ones' complement is arithmetic modulo 65535. `None`: it has no counterpart.
fn translated(address: Ipv6Addr, from: &str, to: &str, len: u32) -> Option<Ipv6Addr> {
    let mask = u128::MAX << (128 - len);
    let [from, to] = [from, to].map(|prefix| u128::from(ip(prefix)));
    assert_eq!(u128::from(address) & mask, from, "{address}");
    let mut words = Ipv6Addr::from(u128::from(address) & !mask | to).segments();
    let candidates = if len <= 48 { vec![3] } else { vec![4, 5, 6, 7] };
    if len > 48 && words[4..] == [0; 4] {
        return None;
    }
    let at = candidates.into_iter().find(|at| words[*at] != 0xffff)?;
    let sum = |bits: u128| Ipv6Addr::from(bits).segments().iter().map(|word| u64::from(*word)).sum::<u64>();
    let value = u64::from(words[at]) + sum(from) + 65_535 * 8 - sum(to);
    words[at] = (value % 65_535) as u16;
    Some(words.into())
}

/// A translation of a VPC.
struct Translation {
    vni: u32,
    inside: &'static str,
    outside: &'static str,
    len: u32,
}

const SHORT: Translation = Translation { vni: N, inside: "fd01:203:405::", outside: "2001:db8:1::", len: 48 };
const LONG: Translation = Translation { vni: L, inside: "fd00:4:0:1::", outside: "2001:db8:4:2::", len: 64 };

/// RFC 6296, section 3.6.
#[test]
fn the_example_of_the_rfc() {
    let (inside, outside) = (ip("fd01:203:405:1::1234"), ip("2001:db8:1:d550::1234"));
    assert_eq!(translated(inside, "fd01:203:405::", "2001:db8:1::", 48), Some(outside));
    let mut gateway = Gateway::new();
    let syn = Packet::tcp((inside, 5000), (host(), 443), SYN);
    let expected = Packet { from: (outside, 5000), ..syn.routed() };
    assert_eq!(gateway.send(N, &syn), Outcome::Internet(expected.bytes()), "with the checksum that fits");
    let answer = expected.answer(SYN | ACK);
    let received = Packet { to: (inside, 5000), ..answer.routed() };
    assert_eq!(gateway.receive(&answer), Outcome::Server(N, received.bytes()));
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    /// Returns bits of which words are often all ones or zeros, because these are the borders.
    fn bits(&mut self) -> u128 {
        let words: [u16; 8] = std::array::from_fn(|_| match self.next() % 4 {
            0 => 0xffff,
            1 => 0,
            _ => self.next() as u16,
        });
        Ipv6Addr::from(words).into()
    }
}

/// The reading of the RFC itself: the inverse returns the same address, and the sum of all words stays.
#[test]
fn translation_and_its_inverse_are_neutral() {
    let mut random = Random(7);
    let mut without = 0;
    for _ in 0..20_000 {
        for Translation { inside, outside, len, .. } in [SHORT, LONG] {
            let mask = u128::MAX << (128 - len);
            let address = Ipv6Addr::from(u128::from(ip(inside)) | random.bits() & !mask);
            let Some(there) = translated(address, inside, outside, len) else {
                without += 1;
                continue;
            };
            let sum = |address: Ipv6Addr| address.segments().iter().map(|word| u64::from(*word)).sum::<u64>() % 65_535;
            assert_eq!(sum(there), sum(address), "{address} as {there}");
            let back = translated(there, outside, inside, len).expect("the way back");
            assert_eq!(back, address, "by {there}");
        }
    }
    assert!(without > 1000, "{without} have no counterpart");
}

/// Packets of machines with such addresses, in both directions, against the reading of the RFC.
#[test]
fn packets_have_the_addresses_of_the_rfc_and_right_checksums() {
    let mut gateway = Gateway::new();
    let mut random = Random(1);
    let mut refused = 0;
    for number in 0..400 {
        let Translation { vni, inside, outside, len } = if number % 2 == 0 { SHORT } else { LONG };
        // Of the first translation, in one of both subnets.
        let subnet = if number % 4 == 0 { "fd01:203:405:1::" } else { "fd01:203:405:ffff::" };
        let prefix = if len == 48 { subnet } else { inside };
        let address = Ipv6Addr::from(u128::from(ip(prefix)) | random.bits() & u128::from(u64::MAX));
        let packet = match number % 3 {
            0 => Packet::udp((address, 53), (host(), 53)),
            1 => Packet::tcp((address, 5000), (host(), 443), SYN),
            _ => Packet::ping((address, 9), host()),
        };
        let Some(there) = translated(address, inside, outside, len) else {
            refused += 1;
            gateway.refuse_out(vni, &packet, "npt_address");
            continue;
        };
        let out = gateway.sent(vni, &packet.bytes());
        assert_eq!(out, Packet { from: (there, packet.from.1), ..packet.routed() }.bytes(), "{address}");
        assert_eq!(checksum_of(&out), 0, "{address}");
    }
    assert!(refused > 50, "{refused}");
}

/// A packet from the Internet to an address without a counterpart reaches no machine.
#[test]
fn addresses_without_a_counterpart_are_refused_in_both_directions() {
    let mut gateway = Gateway::new();
    let from = (host(), 5);
    gateway.refuse_out(N, &Packet::udp((ip("fd01:203:405:ffff::1"), 53), from), "npt_address");
    gateway.refuse_in(&Packet::udp(from, (ip("2001:db8:1:ffff::1"), 53)), "npt_address");
    gateway.refuse_in(&Packet::udp(from, (ip("2001:db8:4:2:ffff:ffff:ffff:ffff"), 53)), "npt_address");
    gateway.refuse_in(&Packet::udp(from, (ip("2001:db8:4:2::"), 53)), "npt_address");
}

#[test]
fn the_first_word_that_is_not_all_ones_is_changed() {
    let mut gateway = Gateway::new();
    let address = ip("fd00:4:0:1:ffff:ffff::1");
    let there = translated(address, LONG.inside, LONG.outside, 64).expect("the third word of the identifier");
    assert_eq!(there.segments()[4..6], [0xffff; 2]);
    let udp = Packet::udp((address, 53), (host(), 53));
    assert_eq!(source_of(&gateway.sent(L, &udp.bytes())), there);
    let back = Packet::udp((host(), 53), (there, 53));
    assert_eq!(gateway.receive(&back), Outcome::Server(L, Packet { to: (address, 53), ..back.routed() }.bytes()));
    gateway.refuse_in(&Packet::udp((host(), 53), (there, 54)), "internet_unasked");
}

/// The quoted packet is the VM's again, and all sums stay right.
#[test]
fn icmpv6_errors_quote_the_packet_of_the_machine() {
    for Translation { vni, inside, outside, len } in [SHORT, LONG] {
        let mut gateway = Gateway::new();
        let address = ip(if len == 48 { "fd01:203:405:1::1234" } else { "fd00:4:0:1::11" });
        let there = translated(address, inside, outside, len).expect("a counterpart");
        for packet in [
            Packet::tcp((address, 5000), (host(), 443), SYN),
            Packet { data: vec![3; 1400], ..Packet::udp((address, 53), (host(), 53)) },
            Packet::ping((address, 9), host()),
        ] {
            gateway.sent(vni, &packet.bytes());
            let outside = Packet { from: (there, packet.from.1), ..packet.routed() };
            for kind in 1..=4 {
                let mut error = Packet::error(router(), kind, &outside);
                error.data.truncate(1200);
                let mut expected = Packet { to: (address, 0), ..error.routed() };
                expected.data = packet.routed().bytes();
                expected.data.truncate(1200);
                assert_eq!(gateway.receive(&error), Outcome::Server(vni, expected.bytes()), "{packet:?}");
            }
        }
        // From the machine, about a packet to it.
        let udp = Packet::udp((address, 53), (host(), 53));
        let answer = udp.answer(0);
        let out = gateway.sent(vni, &Packet::error(address, 1, &answer).bytes());
        let quoted = Packet { to: (there, 53), ..answer };
        assert_eq!(out, Packet::error(there, 1, &quoted).routed().bytes());
        assert_eq!(checksum_of(&out), 0);
    }
}

#[test]
fn errors_that_cannot_be_translated_do_not_pass() {
    let mut gateway = Gateway::new();
    let there = ip("2001:db8:1:d550::1234");
    let udp = Packet::udp((there, 53), (host(), 53));
    let other =
        Packet { to: (there, 0), ..Packet::error(router(), 1, &Packet { from: (router(), 53), ..udp.clone() }) };
    gateway.refuse_in(&other, "nat_quote");
    let short = Packet { data: udp.bytes()[..40].to_vec(), ..Packet::error(router(), 1, &udp) };
    gateway.refuse_in(&short, "nat_quote");
    gateway.refuse_in(&Packet { kind: 100, ..Packet::error(router(), 1, &udp) }, "nat_quote");
}

/// RFC 4302, section 3.3.3: it protects the addresses.
#[test]
fn an_authentication_header_does_not_pass() {
    let mut gateway = Gateway::new();
    let payload = [&[UDP, 4, 0, 0][..], &[0; 20], &Packet::udp((host(), 53), (host(), 53)).layer_4()].concat();
    let of = |from: Ipv6Addr, to: Ipv6Addr| IpPacket::new(from.into(), to.into(), 51, payload.clone()).bytes();
    let machine = ip("fd01:203:405:1::1234");
    assert_eq!(gateway.send_bytes(N, &of(machine, host())), dropped("nat_protocol"));
    assert_eq!(gateway.receive_bytes(&of(host(), ip("2001:db8:1:d550::1234"))), dropped("nat_protocol"));
    // Without a translation it passes.
    assert!(matches!(gateway.send_bytes(B, &of(ip("2001:db8:b::11"), host())), Outcome::Internet(_)));
}

/// RFC 6296, section 5.3 of RFC 4787's REQ-9: by the next router, which sends the packet back.
#[test]
fn machines_reach_each_other_by_their_outside_addresses() {
    let mut gateway = Gateway::new();
    let machine = ip("fd01:203:405:1::1234");
    let outside = ip("2001:db8:1:d550::1234");
    let sent = gateway.sent(L, &Packet::udp((ip("fd00:4:0:1::11"), 5), (outside, 53)).bytes());
    let received = gateway.received(N, &sent);
    assert_eq!((source_of(&received), destination_of(&received)), (source_of(&sent), machine));
    // Within one VPC, too.
    let sent = gateway.sent(N, &Packet::udp((machine, 5), (outside, 53)).bytes());
    assert_eq!((source_of(&sent), destination_of(&sent)), (outside, outside));
    let received = gateway.received(N, &sent);
    assert_eq!((source_of(&received), destination_of(&received)), (outside, machine));
    assert_eq!(checksum_of(&received), 0);
}

#[test]
fn a_source_within_the_inside_prefix_does_not_come_from_the_internet() {
    let mut gateway = Gateway::new();
    let spoofed = Packet::udp((ip("fd01:203:405:1::9"), 5), (ip("2001:db8:1:d550::1234"), 53));
    gateway.refuse_in(&spoofed, "internet_source");
}
