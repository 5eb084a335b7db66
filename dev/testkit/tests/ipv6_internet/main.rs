//! VPCs on the Internet over IPv6: their own addresses, or those that NPTv6 computes (RFC 6296), and
//! packets that come in (RFC 4890, RFC 6092), on the interpreter and in native code.

mod fixture;
mod fragments;
mod nat64;
mod npt;
mod reports;

use fixture::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use testkit::frame::IpPacket;

fn a1() -> Ipv6Addr {
    ip("2001:db8:a::11")
}

fn b1() -> Ipv6Addr {
    ip("2001:db8:b::11")
}

fn web() -> Side {
    (host(), 443)
}

#[test]
fn machines_have_their_own_addresses_and_answers_come_in() {
    let mut gateway = Gateway::new();
    let syn = Packet::tcp((a1(), 5000), web(), SYN);
    gateway.pass_out(A, &syn);
    gateway.pass_in(A, &syn.answer(SYN | ACK));
    gateway.pass_out(A, &Packet::tcp((a1(), 5000), web(), ACK));
    for packet in [Packet::udp((a1(), 53), web()), Packet::ping((a1(), 7), host()), Packet::esp(a1(), host())] {
        gateway.pass_out(A, &packet);
        gateway.pass_in(A, &packet.answer(0));
    }
    // A machine on a server over IPv6.
    let udp = Packet::udp((ip("2001:db8:a::12"), 53), web());
    let outer = (IpAddr::from(ip("2001:db8:f::12")), IpAddr::from(ip("2001:db8:f::1")));
    assert_eq!(gateway.send_over(outer, A, &udp.bytes(), 0), Outcome::Internet(udp.routed().bytes()));
    gateway.pass_in(A, &udp.answer(0));
}

#[test]
fn nothing_comes_in_unasked() {
    let mut gateway = Gateway::new();
    let from = (host(), 50_000);
    let udp = Packet::udp((a1(), 53), web());
    for packet in [
        Packet::tcp(from, (a1(), 443), SYN),
        Packet::tcp(from, (a1(), 443), ACK),
        Packet::tcp(from, (a1(), 443), RST),
        Packet::udp(from, (a1(), 443)),
        Packet::ping((host(), 7), a1()),
        Packet::ping((a1(), 7), host()).answer(0),
        Packet::esp(host(), a1()),
        Packet::error(router(), 2, &udp),
        // Other messages of ICMPv6, such as a node information query (RFC 4620).
        Packet { kind: 139, ..Packet::ping((host(), 7), a1()) },
    ] {
        gateway.refuse_in(&packet, "internet_unasked");
    }
    // An answer from another port, and to another one.
    gateway.pass_out(A, &udp);
    gateway.refuse_in(&Packet::udp((host(), 444), (a1(), 53)), "internet_unasked");
    gateway.refuse_in(&Packet::udp(web(), (a1(), 54)), "internet_unasked");
    gateway.pass_in(A, &udp.answer(0));
}

/// RFC 4787, REQ-5, and RFC 5382, REQ-5: as flows of security groups.
#[test]
fn flows_have_idle_times() {
    let mut gateway = Gateway::new();
    let udp = Packet::udp((a1(), 53), web());
    let syn = Packet::tcp((a1(), 5000), web(), SYN);
    gateway.pass_out(A, &udp);
    gateway.pass_out(A, &syn);
    gateway.pass_in(A, &syn.answer(SYN | ACK));
    gateway.wait(290);
    gateway.pass_in(A, &udp.answer(0));
    gateway.wait(320);
    gateway.refuse_in(&udp.answer(0), "internet_unasked");
    gateway.pass_in(A, &syn.answer(ACK));
}

/// RFC 4890, section 4.3.1: these errors must not be dropped, if they are about a flow.
#[test]
fn icmpv6_errors_about_flows_come_in() {
    let mut gateway = Gateway::new();
    let syn = Packet::tcp((a1(), 5000), web(), SYN);
    let of_protocol = |protocol| Packet { protocol, ..Packet::udp((a1(), 53), web()) };
    let (sctp, udp_lite) = (of_protocol(132), of_protocol(136));
    let esp = Packet::esp(a1(), host());
    for packet in [syn.clone(), Packet::udp((a1(), 53), web()), Packet::ping((a1(), 7), host()), esp, sctp, udp_lite] {
        gateway.pass_out(A, &packet);
        for kind in 1..=4 {
            gateway.pass_in(A, &Packet::error(router(), kind, &packet.routed()));
        }
    }
    gateway.refuse_in(&Packet::error(router(), 2, &Packet::tcp((a1(), 5001), web(), SYN)), "internet_unasked");
    // About a packet that another machine has sent.
    let wrong = Packet { to: (a1(), 0), ..Packet::error(router(), 2, &Packet { from: (b1(), 5000), ..syn.clone() }) };
    gateway.refuse_in(&wrong, "group_error");
    // The machine tells the host about a packet of its own flow.
    gateway.pass_in(A, &syn.answer(SYN | ACK));
    gateway.pass_out(A, &Packet::error(a1(), 1, &syn.answer(SYN | ACK)));
}

#[test]
fn groups_decide_about_machines_that_are_in_one() {
    let mut gateway = Gateway::new();
    let in_group = ip("2001:db8:a::80");
    let from = (host(), 50_000);
    let syn = Packet::tcp(from, (in_group, 443), SYN);
    gateway.pass_in(A, &syn);
    gateway.pass_out(A, &syn.answer(SYN | ACK));
    gateway.refuse_in(&Packet::tcp(from, (in_group, 444), SYN), "group_denied_in");
    gateway.refuse_in(&Packet::tcp(from, (a1(), 443), SYN), "internet_unasked");
}

#[test]
fn a_vpc_that_takes_all_is_open_as_far_as_its_list_permits() {
    let mut gateway = Gateway::new();
    let from = (host(), 50_000);
    for packet in [
        Packet::tcp(from, (b1(), 443), ACK),
        Packet::udp(from, (b1(), 443)),
        Packet::ping((host(), 7), b1()),
        Packet::esp(host(), b1()),
        Packet::error(router(), 2, &Packet::udp((b1(), 53), web())),
    ] {
        gateway.pass_in(B, &packet);
        gateway.pass_out(B, &Packet { from: packet.to, to: packet.from, ..packet.clone() });
    }
    gateway.refuse_in(&Packet::tcp(from, (b1(), 23), SYN), "acl_denied_in");
    gateway.refuse_in(&Packet::udp(from, (ip("2001:db8:b::99"), 1)), "unknown_vm");
}

#[test]
fn a_change_of_the_region_ends_flows_that_it_no_longer_permits() {
    let mut gateway = Gateway::new();
    let unasked = Packet::udp((host(), 5), (a1(), 53));
    gateway.refuse_in(&unasked, "internet_unasked");
    gateway.change_region(&REGION.replace("inbound: answers}\n  max_flows: 100", "inbound: all}"));
    gateway.pass_in(A, &unasked);
    gateway.pass_out(A, &unasked.answer(0));
    gateway.change_region(&REGION.replace("inbound: all}\n  tcp_mss", "inbound: answers}\n  tcp_mss"));
    gateway.refuse_in(&unasked, "internet_unasked");
    gateway.refuse_in(&Packet::udp((host(), 5), (b1(), 53)), "internet_unasked");
    gateway.change_region(&REGION.replace("  ipv6_internet: {inbound: all}\n  tcp_mss", "  tcp_mss"));
    gateway.refuse_in(&Packet::udp((host(), 5), (b1(), 53)), "not_for_gateway");
    assert_eq!(gateway.send(B, &Packet::udp((b1(), 53), web())), Outcome::Cpu("internet".into()));
}

#[test]
fn a_vpc_has_as_many_flows_as_it_may() {
    let mut gateway = Gateway::new();
    let mut refused = 0;
    for port in 1..=200 {
        match gateway.send(A, &Packet::udp((a1(), port), web())) {
            Outcome::Internet(_) => {}
            other => {
                assert_eq!(other, dropped("group_quota"));
                refused += 1;
            }
        }
    }
    assert!((90..=110).contains(&refused), "{refused}: a limit over all workers");
}

#[test]
fn sources_are_those_of_the_vpc() {
    let mut gateway = Gateway::new();
    for source in ["2001:db8:a:1::11", "fd00::11", "2001:db8:b::11"] {
        gateway.refuse_out(A, &Packet::udp((ip(source), 53), web()), "internet_source");
    }
    // RFC 6092, REC-6: nothing outside has a source inside, whatever flow it would be of.
    let within = Packet::udp((ip("2001:db8:a::12"), 53), (a1(), 53));
    gateway.refuse_in(&within, "internet_source");
    gateway.refuse_in(&Packet::udp((ip("2001:db8:b::12"), 53), (b1(), 53)), "internet_source");
    // A subnet that is not on the Internet.
    let closed = Packet::udp((ip("fd00:5::11"), 53), web());
    gateway.refuse_out(L, &closed, "internet_source");
    for source in ["fe80::1", "ff05::1", "::1", "::ffff:10.0.0.1"] {
        gateway.refuse_in(&Packet::udp((ip(source), 53), (b1(), 53)), "inner_address");
    }
    assert_eq!(gateway.send(V, &Packet::udp((ip("fd00:6::11"), 53), web())), Outcome::Cpu("internet".into()));
}

#[test]
fn the_underlay_is_out_of_reach() {
    let mut gateway = Gateway::new();
    // The gateway, a server, `refuse`, unique local addresses.
    for destination in ["2001:db8:f::1", "2001:db8:f::12", "2001:db8:ee:1::1", "fd99::1", "fc00::1"] {
        gateway.refuse_out(A, &Packet::udp((a1(), 53), (ip(destination), 53)), "nat_destination");
    }
}

/// RFC 4890, section 4.3.1: the sender hears of a path that is too narrow.
#[test]
fn machines_learn_the_path_mtu() {
    let mut gateway = Gateway::new();
    let of = |length: usize| Packet { data: vec![7; length - 48], ..Packet::udp((a1(), 53), web()) };
    gateway.pass_out(A, &of(1500));
    for outer in [
        (IpAddr::from(Ipv4Addr::new(192, 0, 2, 11)), IpAddr::from(Ipv4Addr::new(192, 0, 2, 1))),
        (ip("2001:db8:f::12").into(), ip("2001:db8:f::1").into()),
    ] {
        let Outcome::Dropped(reason, Some(message)) = gateway.send_over(outer, A, &of(1501).bytes(), 0) else {
            panic!("the packet is too long")
        };
        assert_eq!(reason, "exceeds_mtu");
        assert_eq!((source_of(&message), destination_of(&message)), (ip("2001:db8:a::1"), a1()));
        assert_eq!((&message[40..42], &message[44..48]), (&[2, 0][..], &1500u32.to_be_bytes()[..]));
        assert_eq!(checksum_of(&message), 0);
        assert_eq!(message[48..88], of(1501).bytes()[..40], "the packet as it was sent");
    }
    let long_in = Packet { data: vec![7; 1600], ..Packet::udp(web(), (b1(), 53)) };
    gateway.refuse_in(&long_in, "exceeds_mtu");
}

#[test]
fn hops_are_counted_in_both_directions() {
    let mut gateway = Gateway::new();
    let last = |packet: Packet| Packet { hop_limit: 1, ..packet };
    let Outcome::Dropped(reason, Some(message)) = gateway.send(A, &last(Packet::udp((a1(), 53), web()))) else {
        panic!("no hop is left")
    };
    assert_eq!((reason.as_str(), &message[40..42]), ("inner_ttl_expired", &[3, 0][..]));
    gateway.refuse_in(&last(Packet::udp(web(), (b1(), 53))), "inner_ttl_expired");
    gateway.refuse_in(&Packet { hop_limit: 0, ..Packet::udp(web(), (b1(), 53)) }, "inner_ttl_expired");
}

/// The limit of the VPC is for both directions, because either end of a connection can be the longer one.
#[test]
fn the_mss_is_lowered_in_both_directions() {
    // 1430 bytes are left for packets; over IPv4, the limit would be 1390.
    let mut gateway = Gateway::of(&REGION.replace("tcp_mss: 1200", "tcp_mss: auto"));
    let with_mss = |packet: Packet, mss: u16| {
        let mut bytes = packet.bytes();
        bytes.truncate(60);
        bytes[40 + 12] = 0x60;
        bytes.extend([&[2, 4][..], &mss.to_be_bytes()].concat());
        bytes[4..6].copy_from_slice(&24u16.to_be_bytes());
        bytes[56..58].fill(0);
        let sum = pseudo_checksum(packet.from.0, packet.to.0, TCP, &bytes[40..]).to_be_bytes();
        bytes[56..58].copy_from_slice(&sum);
        bytes
    };
    let out = Packet::tcp((b1(), 5000), web(), SYN);
    let back = out.answer(SYN | ACK);
    for (before, after) in [(1440, 1370), (1380, 1370), (1370, 1370), (1000, 1000)] {
        assert_eq!(gateway.sent(B, &with_mss(out.clone(), before)), with_mss(out.routed(), after));
        assert_eq!(gateway.received(B, &with_mss(back.clone(), before)), with_mss(back.routed(), after));
    }
}

#[test]
fn padding_and_trailers_are_not_sent() {
    let mut gateway = Gateway::new();
    let udp = Packet::udp((b1(), 53), web());
    let outer = (Ipv4Addr::new(192, 0, 2, 11).into(), Ipv4Addr::new(192, 0, 2, 1).into());
    assert_eq!(gateway.send_over(outer, B, &udp.bytes(), 13), Outcome::Internet(udp.routed().bytes()));
    let padded = [udp.answer(0).bytes(), vec![0; 9]].concat();
    assert_eq!(gateway.receive_bytes(&padded), Outcome::Server(B, udp.answer(0).routed().bytes()));
}

#[test]
fn frames_have_the_tag_of_the_uplink() {
    let region = REGION.replace("02:00:00:00:02:02, mtu: 1500}", "02:00:00:00:02:02, mtu: 1500, vlan: 77}");
    let mut gateway = Gateway::of(&region);
    let udp = Packet::udp((b1(), 53), web());
    gateway.pass_out(B, &udp);
    let ethernet = [2, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 2, 2, 0x81, 0, 0, 77, 0x86, 0xdd];
    let frame = [&ethernet[..], &udp.answer(0).bytes()].concat();
    assert_eq!(gateway.run(INTERNET_PORT, &frame), Outcome::Server(B, udp.answer(0).routed().bytes()));
    gateway.refuse_in(&udp.answer(0), "underlay_other_mac");
}

/// Returns the packet with an extension header of 8 bytes of this kind, and its rest.
fn with_extension(packet: &Packet, kind: u8, rest: [u8; 7]) -> Vec<u8> {
    let bytes = packet.bytes();
    let length = (bytes.len() as u16 - 40 + 8).to_be_bytes();
    let mut with = [&bytes[..40], &[bytes[6]], &rest, &bytes[40..]].concat();
    with[4..6].copy_from_slice(&length);
    with[6] = kind;
    with
}

#[test]
fn extension_headers_pass_unless_the_vpc_refuses_them() {
    let mut gateway = Gateway::new();
    let udp = Packet::udp((b1(), 53), web());
    let (hop_by_hop, destination_options) = (0, 60);
    for kind in [hop_by_hop, destination_options] {
        let out = gateway.send_bytes(B, &with_extension(&udp, kind, [0, 1, 4, 0, 0, 0, 0]));
        let back = gateway.receive_bytes(&with_extension(&udp.answer(0), kind, [0, 1, 4, 0, 0, 0, 0]));
        if kind == destination_options {
            assert_eq!([out, back], [dropped("extension_denied"), dropped("extension_denied")]);
        } else {
            assert_eq!(out, Outcome::Internet(with_extension(&udp.routed(), kind, [0, 1, 4, 0, 0, 0, 0])));
            let expected = with_extension(&udp.answer(0).routed(), kind, [0, 1, 4, 0, 0, 0, 0]);
            assert_eq!(back, Outcome::Server(B, expected));
        }
    }
    // A list sees the port behind the extension header, also of a packet from the Internet.
    let telnet = Packet::tcp((host(), 5), (b1(), 23), SYN);
    let hidden = gateway.receive_bytes(&with_extension(&telnet, hop_by_hop, [0, 1, 4, 0, 0, 0, 0]));
    assert_eq!(hidden, dropped("acl_denied_in"));
    // A length beyond the packet matters only if the packet is for a machine.
    let own = Packet::udp((host(), 5), (ip("2001:db8:f::1"), 5));
    let cut = |packet: &Packet| with_extension(packet, 43, [255, 2, 0, 0, 0, 0, 0]);
    assert_eq!(gateway.receive_bytes(&cut(&udp.answer(0))), dropped("inner_length"));
    assert_eq!(gateway.receive_bytes(&cut(&own)), Outcome::Cpu("gateway_address".into()));
    // RFC 5095.
    let routed = with_extension(&udp.answer(0), 43, [0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(gateway.receive_bytes(&routed), dropped("inner_source_route"));
}

#[test]
fn fragments_pass_where_all_comes_in() {
    let mut gateway = Gateway::new();
    let of = |from: Ipv6Addr, to: Ipv6Addr, more: bool, offset: u16| {
        let payload = if offset == 0 { Packet::udp((from, 53), (to, 53)).layer_4() } else { vec![9; 24] };
        IpPacket { fragment: Some((more, offset)), ..IpPacket::new(from.into(), to.into(), UDP, payload) }
    };
    for (more, offset) in [(true, 0), (false, 3)] {
        let packet = of(b1(), host(), more, offset);
        let hop_less = IpPacket { ttl: 63, ..packet.clone() };
        assert_eq!(gateway.send_bytes(B, &packet.bytes()), Outcome::Internet(hop_less.bytes()));
        let packet = of(host(), b1(), more, offset);
        let hop_less = IpPacket { ttl: 63, ..packet.clone() };
        assert_eq!(gateway.receive_bytes(&packet.bytes()), Outcome::Server(B, hop_less.bytes()));
    }
}

/// Short packets are not forwarded with bytes of padding as their headers.
#[test]
fn headers_of_layer_4_are_whole() {
    let mut gateway = Gateway::new();
    for (protocol, least) in [(TCP, 20), (UDP, 8), (ICMPV6, 8)] {
        let payload =
            |length: usize| [Packet::udp(web(), (b1(), 53)).layer_4(), vec![0; 40]].concat()[..length].to_vec();
        let packet = |length| {
            let bytes = IpPacket::new(host().into(), b1().into(), protocol, payload(length)).bytes();
            [bytes, vec![0; 46]].concat()
        };
        assert_eq!(gateway.receive_bytes(&packet(least - 1)), dropped("inner_length"), "protocol {protocol}");
        assert_ne!(gateway.receive_bytes(&packet(least)), dropped("inner_length"), "protocol {protocol}");
    }
}

/// RFC 4861, section 6.1: neighbour discovery is for one link. So no redirect comes in.
#[test]
fn neighbour_discovery_does_not_come_in() {
    let mut gateway = Gateway::new();
    for kind in 133..=137 {
        let packet = Packet { kind, hop_limit: 255, ..Packet::ping((router(), 0), b1()) };
        gateway.refuse_in(&packet, "nd_hop_limit");
    }
}

/// The gateway answers echo and neighbour solicitations of VMs at its address in the subnet, and would
/// send a tunnel to the Internet if it answered there.
#[test]
fn the_gateways_address_in_a_subnet_is_closed_to_the_internet() {
    let region = REGION.replace("inbound: answers}\n  max_flows: 100", "inbound: all}");
    let mut gateway = Gateway::of(&region);
    let own = ip("2001:db8:a::1");
    gateway.refuse_in(&Packet::ping((host(), 7), own), "gateway_closed");
    gateway.refuse_in(&Packet::udp((host(), 7), (own, 7)), "gateway_closed");
}

#[test]
fn vxlan_to_a_machine_is_not_taken_for_a_tenants_packet() {
    let mut gateway = Gateway::new();
    let inner = IpPacket::new(a1().into(), b1().into(), UDP, vec![0; 20]);
    let frame = testkit::frame::VxlanFrame::new((host().into(), b1().into()), B, inner).bytes();
    assert_eq!(gateway.run(INTERNET_PORT, &frame), dropped("unknown_source"));
}
