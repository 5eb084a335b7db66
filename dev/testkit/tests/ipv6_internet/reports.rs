//! Reports of other projects, tried on the gateway. Each test has the report in a comment.

use crate::fixture::*;
use testkit::frame::IpPacket;

/// opnsense/core#4879: a flow that begins outside reaches the machine by its outside address, and the
/// answer leaves with the inside address.
#[test]
fn answers_to_flows_from_outside_have_the_outside_address() {
    let mut gateway = Gateway::new();
    let (inside, outside) = (ip("fd01:203:405:1::1234"), ip("2001:db8:1:d550::1234"));
    let asked = Packet::ping((host(), 7), outside);
    let expected = Packet { to: (inside, 7), ..asked.routed() };
    assert_eq!(gateway.receive(&asked), Outcome::Server(N, expected.bytes()));
    let answer = Packet { from: (inside, 7), ..asked.answer(0) };
    let expected = Packet { from: (outside, 7), ..answer.routed() };
    assert_eq!(gateway.send(N, &answer), Outcome::Internet(expected.bytes()));
}

/// openwrt/openwrt#17800, openwrt/firewall4#44: an error whose quotation ends before the ports belongs to
/// no flow, and came in for that reason.
#[test]
fn errors_with_a_short_quotation_do_not_come_in() {
    let mut gateway = Gateway::new();
    let udp = Packet::udp((ip("2001:db8:a::11"), 53), (host(), 53));
    gateway.pass_out(A, &udp);
    for length in [0, 8, 39, 40, 47] {
        let mut error = Packet::error(router(), 1, &udp.routed());
        error.data.truncate(length);
        gateway.refuse_in(&error, "group_error");
    }
    let mut error = Packet::error(router(), 1, &udp.routed());
    error.data.truncate(48);
    gateway.pass_in(A, &error);
}

/// cilium/cilium#39505: a machine that is a router sends packet too big and time exceeded, too; both
/// headers are translated.
#[test]
fn errors_of_a_machine_are_translated_whatever_their_type() {
    let mut gateway = Gateway::new();
    let (inside, outside) = (ip("fd01:203:405:1::1234"), ip("2001:db8:1:d550::1234"));
    let asked = Packet::udp((host(), 5), (inside, 53));
    for kind in 1..=4 {
        let quoted = Packet { to: (outside, 53), ..asked.clone() };
        let out = gateway.sent(N, &Packet::error(inside, kind, &asked).bytes());
        assert_eq!(out, Packet::error(outside, kind, &quoted).routed().bytes(), "type {kind}");
    }
}

/// NICMx/Jool#38, NICMx/Jool#370: the quoted echo request stayed as it was, or got the type of the error.
#[test]
fn a_quoted_echo_request_stays_one() {
    let mut gateway = Gateway::new();
    let ping = Packet::ping((ip("fd01:203:405:1::1234"), 7), host());
    let out = gateway.sent(N, &ping.bytes());
    assert_eq!((out[40], checksum_of(&out)), (128, 0), "oxidecomputer/opte#350: with the pseudo-header");
    let outside = Packet { from: (ip("2001:db8:1:d550::1234"), 7), ..ping.routed() };
    let received = gateway.received(N, &Packet::error(router(), 3, &outside).bytes());
    assert_eq!(received[48..], ping.routed().bytes()[..]);
}

/// FDio/vpp#2797, opnsense/core#10242: packets for the router itself were translated.
#[test]
fn packets_for_the_gateway_are_for_the_gateway() {
    let region =
        REGION.replace("outside: 2001:db8:1::/48", "outside: 2001:db8::/48").replace("2001:db8:f::", "2001:db9:f::");
    let mut gateway = Gateway::of(&region);
    let own = ip("2001:db9:f::1");
    assert_eq!(gateway.receive(&Packet::ping((host(), 7), own)), Outcome::Cpu("icmp".into()));
    assert_eq!(gateway.receive(&Packet::tcp((host(), 179), (own, 50_000), ACK)), Outcome::Cpu("bgp".into()));
    assert_eq!(gateway.receive(&Packet::udp((host(), 7), (own, 7))), Outcome::Cpu("gateway_address".into()));
    gateway.refuse_in(&Packet::udp((host(), 7), (ip("2001:db9:f::2"), 7)), "not_for_gateway");
}

/// cilium/cilium#48093: solicitations and advertisements on the link were taken for packets to translate.
#[test]
fn neighbour_discovery_on_the_uplink_goes_to_the_cpu() {
    let mut gateway = Gateway::new();
    let link = ip("fe80::1");
    for (kind, group) in [(133, "ff02::2"), (134, "ff02::1"), (135, "ff02::1:ff00:1")] {
        let packet = Packet { kind, hop_limit: 255, ..Packet::ping((link, 0), ip(group)) };
        let frame = [&[0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 2, 2, 0x86, 0xdd][..], &packet.bytes()].concat();
        assert_eq!(gateway.run(INTERNET_PORT, &frame), Outcome::Cpu("nd".into()), "type {kind}");
    }
}

/// opnsense/core#8755, githedgehog/dataplane#958, sonic-net/sonic-buildimage#4479: a router of IPv6 does
/// not fragment, and tells the sender.
#[test]
fn a_packet_that_is_too_long_is_never_cut() {
    let mut gateway = Gateway::new();
    let inside = ip("fd01:203:405:1::1234");
    let long = Packet { data: vec![1; 1460], ..Packet::ping((inside, 7), host()) };
    let Outcome::Dropped(reason, Some(message)) = gateway.send(N, &long) else { panic!("1508 bytes") };
    assert_eq!((reason.as_str(), &message[40..42]), ("exceeds_mtu", &[2, 0][..]));
    assert_eq!(destination_of(&message), inside);
    assert_eq!(source_of(&message[48..]), inside, "the packet as the machine has sent it");
}

/// RIOT-OS/RIOT#10562: a hop limit of 0 became 255.
#[test]
fn a_hop_limit_of_0_is_not_forwarded() {
    let mut gateway = Gateway::new();
    let udp = Packet { hop_limit: 0, ..Packet::udp((ip("2001:db8:b::11"), 53), (host(), 53)) };
    assert!(matches!(gateway.send(B, &udp), Outcome::Dropped(reason, _) if reason == "inner_ttl_expired"));
    gateway.refuse_in(&udp.answer(0), "inner_ttl_expired");
}

/// RFC 6946: packets with an atomic fragment header are whole.
#[test]
fn an_atomic_fragment_passes() {
    let mut gateway = Gateway::new();
    let machine = ip("2001:db8:b::11");
    let payload = Packet::udp((host(), 53), (machine, 53)).layer_4();
    let packet = IpPacket { fragment: Some((false, 0)), ..IpPacket::new(host().into(), machine.into(), UDP, payload) };
    let expected = IpPacket { ttl: 63, ..packet.clone() };
    assert_eq!(gateway.receive_bytes(&packet.bytes()), Outcome::Server(B, expected.bytes()));
}
