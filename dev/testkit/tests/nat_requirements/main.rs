//! Requirements of RFC 4787 (UDP), RFC 5382 (TCP), RFC 5508 (ICMP), RFC 6888 and RFC 7857 for the
//! gateway's NAT, one test each, on the interpreter and in native code. `public_addresses.rs` has those of
//! elastic addresses and port forwards, `fragments.rs` those of fragments.
//!
//! Not done, and why: RFC 4787 REQ-1 and RFC 5382 REQ-1 (mapping depends on the remote, as in other
//! clouds, so that ports suffice; RFC 7857, section 3), REQ-4 (port parity; RFC 7857, section 8), REQ-9
//! and RFC 5508 REQ-7 (hairpinning: a mapping is of one remote, so no packet of another VM has one),
//! REQ-14a (later fragments before the first one: they are not held), RFC 5508 REQ-3a (options in quoted packets, which the NAT never sent).

mod arp;
mod fixture;
mod fragments;
mod public_addresses;

use fixture::*;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

const WEB: Side = (REMOTE, 443);
const DNS: Side = (REMOTE, 53);

fn small() -> Gateway {
    Gateway::new("198.51.100.16/30", 64)
}

fn udp(vm: Vm, port: u16, to: Side) -> Packet {
    Packet::udp((vm.1, port), to)
}

#[test]
fn rfc4787_req_2_a_vm_has_one_address_over_all_protocols() {
    let mut gateway = small();
    let mut addresses = BTreeSet::new();
    for port in 5000..5060 {
        addresses.insert(gateway.send(A1, &udp(A1, port, (OTHER_REMOTE, port))).from.0);
    }
    addresses.insert(gateway.connect(A1, 6000, WEB).from.0);
    addresses.insert(gateway.send(A1, &Packet::ping((A1.1, 7), REMOTE)).from.0);
    assert_eq!(addresses.len(), 1);
    // Its blocks are used up: no other address takes its place.
    let refused: Vec<String> =
        (0..5).map(|n| gateway.send_bytes(A1, &udp(A1, 7000 + n, DNS).bytes())).filter_map(dropped).collect();
    assert_eq!(refused, ["nat_quota"]);
}

fn dropped(outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::Dropped(reason) => Some(reason),
        _ => None,
    }
}

#[test]
fn rfc4787_req_3_no_two_flows_have_one_port_and_all_are_high() {
    let mut gateway = small();
    let vms = [A1, A2, B1];
    let sent = vms.map(|vm| gateway.send(vm, &udp(vm, 5000, DNS)));
    let sides: BTreeSet<Side> = sent.iter().map(|packet| packet.from).collect();
    assert_eq!(sides.len(), 3);
    assert!(sides.iter().all(|(_, port)| *port >= 1024));
    for (vm, packet) in vms.into_iter().zip(&sent) {
        assert_eq!(gateway.receive(vm, &packet.answer(0)).to, (vm.1, 5000));
    }
    let low = gateway.send(A1, &udp(A1, 123, DNS));
    assert!(low.from.1 >= 1024);
}

#[test]
fn rfc4787_req_5_udp_lives_for_five_minutes() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    gateway.wait(299);
    gateway.receive(A1, &sent.answer(0));
    gateway.wait(312);
    assert_eq!(gateway.receive_refused(&sent.answer(0)), "no_session");
}

#[test]
fn rfc4787_req_6_outbound_packets_refresh() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    for _ in 0..3 {
        gateway.wait(200);
        assert_eq!(gateway.send(A1, &udp(A1, 5000, DNS)), sent);
    }
    gateway.wait(200);
    gateway.receive(A1, &sent.answer(0));
}

#[test]
fn rfc4787_req_7_tenants_with_equal_addresses_are_apart() {
    let mut gateway = small();
    let [a, b] = [A1, B1].map(|vm| gateway.send(vm, &udp(vm, 5000, DNS)));
    assert_ne!(a.from, b.from);
    // `receive` checks the VNI.
    gateway.receive(A1, &a.answer(0));
    gateway.receive(B1, &b.answer(0));
}

#[test]
fn rfc4787_req_8_only_the_remote_of_a_session_is_let_in() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    for from in [(OTHER_REMOTE, 53), (REMOTE, 54)] {
        assert_eq!(gateway.receive_refused(&Packet::udp(from, sent.from)), "no_session");
    }
    let wrong_protocol = Packet::tcp(DNS, sent.from, SYN);
    assert_eq!(gateway.receive_refused(&wrong_protocol), "no_session");
}

#[test]
fn rfc4787_req_9_a_packet_to_a_public_address_takes_the_next_router() {
    let mut gateway = small();
    let first = gateway.send(A1, &udp(A1, 5000, DNS));
    let hairpin = gateway.send(A2, &udp(A2, 6000, first.from));
    assert_eq!(hairpin.to, first.from);
    assert_eq!(gateway.receive_refused(&hairpin), "no_session");
}

#[test]
fn rfc4787_req_10_rfc5382_req_6_payloads_are_untouched() {
    let mut gateway = small();
    let mut sip = udp(A1, 5060, (REMOTE, 5060));
    sip.data = b"Contact: <sip:10.0.0.11:5060>".to_vec();
    assert_eq!(gateway.send(A1, &sip).data, sip.data);
    let mut ftp = Packet::tcp((A1.1, 5000), (REMOTE, 21), SYN);
    ftp.data = b"PORT 10,0,0,11,19,137\r\n".to_vec();
    assert_eq!(gateway.send(A1, &ftp).data, ftp.data);
}

#[test]
fn rfc4787_req_11_a_full_pool_changes_nothing_for_its_sessions() {
    // One public address, which one VM fills.
    let mut gateway = Gateway::new("198.51.100.16/32", 64_512);
    let first = gateway.send(A2, &udp(A2, 5000, DNS));
    let (mut count, mut ports) = (0, BTreeSet::from([first.from.1]));
    let refusal = loop {
        let port = 1 + (count % 60_000) as u16;
        let to = (if count < 60_000 { REMOTE } else { OTHER_REMOTE }, 80);
        match gateway.send_bytes(A1, &udp(A1, port, to).bytes()) {
            Outcome::Internet(bytes) => assert!(ports.insert(Packet::read(&bytes).from.1), "a port twice"),
            Outcome::Dropped(reason) => break reason,
            other => panic!("{other:?}"),
        }
        count += 1;
    };
    // All ports from 1024 on but VXLAN's, without the rest of the other VM's block.
    assert_eq!((refusal.as_str(), count), ("nat_no_ports", 64_512 - 64 - usize::from(!ports.contains(&4789))));
    assert!(!ports.contains(&4789));
    // RFC 6888, REQ-11: no session is evicted, and the other VM still has its block.
    assert_eq!(gateway.receive(A2, &first.answer(0)).to, (A2.1, 5000));
    gateway.send(A2, &udp(A2, 5001, DNS));
    // TCP has ports of its own.
    gateway.connect(A1, 5000, WEB);
}

#[test]
fn rfc4787_req_12_rfc5382_req_10_errors_arrive_from_anywhere_and_end_nothing() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let connection = gateway.connect(A1, 5000, WEB);
    for (quoted, kind) in [(&sent, [3, 1]), (&sent, [3, 4]), (&connection, [3, 1]), (&connection, [11, 0])] {
        let error = icmp_error(ROUTER, quoted.from.0, kind, &quoted.bytes());
        let Outcome::Server(100, bytes) = gateway.receive_bytes(&error) else { panic!("an error of the session") };
        assert_eq!(bytes[12..20], [ROUTER.octets(), A1.1.octets()].concat());
    }
    gateway.receive(A1, &sent.answer(0));
    gateway.receive(A1, &connection.answer(ACK));
}

#[test]
fn rfc4787_req_13_a_long_packet_causes_fragmentation_needed() {
    let mut gateway = small();
    let mut long = udp(A1, 5000, DNS);
    long.data = vec![7; 1500 - 28 + 1];
    assert_eq!(dropped(gateway.send_bytes(A1, &long.bytes())).as_deref(), Some("exceeds_mtu"));
    long.data.pop();
    gateway.send(A1, &long);
}

#[test]
fn rfc5382_req_2_simultaneous_open_is_established() {
    let mut gateway = small();
    let syn = gateway.send(A1, &Packet::tcp((A1.1, 5000), WEB, SYN));
    gateway.receive(A1, &syn.answer(SYN));
    gateway.send(A1, &Packet::tcp((A1.1, 5000), WEB, SYN | ACK));
    gateway.receive(A1, &syn.answer(SYN | ACK));
    gateway.wait(1000);
    gateway.receive(A1, &syn.answer(ACK));
}

#[test]
fn rfc5382_req_3_4_an_unasked_syn_is_dropped_silently_and_spoils_nothing() {
    let mut gateway = small();
    let public = gateway.send(A1, &udp(A1, 5000, DNS)).from.0;
    let strange = Packet::tcp(WEB, (public, 5000), SYN);
    assert_eq!(gateway.receive_refused(&strange), "no_session");
    gateway.wait(2);
    gateway.connect(A1, 5000, WEB);
    assert_eq!(gateway.receive_refused(&Packet::tcp((OTHER_REMOTE, 443), (public, 5000), SYN)), "no_session");
}

#[test]
fn rfc5382_req_5_established_for_two_hours_and_half_open_for_four_minutes() {
    let mut gateway = small();
    let connection = gateway.connect(A1, 5000, WEB);
    let half_open = gateway.send(A1, &Packet::tcp((A1.1, 5001), WEB, SYN));
    gateway.wait(249);
    assert_eq!(gateway.receive_refused(&half_open.answer(SYN | ACK)), "no_session");
    gateway.wait(7430 - 249);
    gateway.receive(A1, &connection.answer(ACK));
    gateway.wait(7440 + 7440 / 32 + 2);
    assert_eq!(gateway.receive_refused(&connection.answer(ACK)), "no_session");
    assert_eq!(gateway.send_refused(A1, &Packet::tcp((A1.1, 5000), WEB, ACK)), "tcp_without_syn");
}

#[test]
fn rfc5382_req_7_two_vms_reach_one_server_from_one_port() {
    let mut gateway = small();
    let connections = [A1, A2, B1].map(|vm| gateway.connect(vm, 5000, WEB));
    let sides: BTreeSet<Side> = connections.iter().map(|packet| packet.from).collect();
    assert_eq!(sides.len(), 3);
}

#[test]
fn rfc5382_req_9_unreachables_of_tcp_are_translated() {
    let mut gateway = small();
    let connection = gateway.connect(A1, 5000, WEB);
    let error = icmp_error(ROUTER, connection.from.0, [3, 4], &connection.bytes());
    let Outcome::Server(100, bytes) = gateway.receive_bytes(&error) else { panic!("an error of the session") };
    // The VM finds its own address and port in the quotation, and the MTU.
    assert_eq!((&bytes[28 + 12..28 + 16], &bytes[28 + 20..28 + 22]), (&A1.1.octets()[..], &5000u16.to_be_bytes()[..]));
    assert_eq!(bytes[26..28], [5, 0x78]);
    assert_eq!([&bytes[..20], &bytes[20..], &bytes[28..48]].map(testkit::frame::checksum), [0; 3]);
}

#[test]
fn rfc5508_req_1_identifiers_are_mapped() {
    let mut gateway = small();
    let [a, b] = [A1, A2].map(|vm| gateway.send(vm, &Packet::ping((vm.1, 7), REMOTE)));
    assert_ne!(a.from, b.from);
    assert_eq!(gateway.receive(A1, &Packet::pong(REMOTE, a.from)).to, (A1.1, 7));
    assert_eq!(gateway.receive(A2, &Packet::pong(REMOTE, b.from)).to, (A2.1, 7));
    assert_eq!(gateway.receive_refused(&Packet::pong(OTHER_REMOTE, a.from)), "no_session");
}

#[test]
fn rfc5508_req_2_queries_live_for_a_minute() {
    let mut gateway = small();
    let sent = gateway.send(A1, &Packet::ping((A1.1, 7), REMOTE));
    gateway.wait(59);
    gateway.receive(A1, &Packet::pong(REMOTE, sent.from));
    gateway.wait(64);
    assert_eq!(gateway.receive_refused(&Packet::pong(REMOTE, sent.from)), "no_session");
}

#[test]
fn rfc5508_req_3_a_quoted_header_must_be_right_and_its_payload_need_not() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let mut quoted = sent.bytes();
    quoted[26] ^= 1;
    let error = icmp_error(ROUTER, sent.from.0, [3, 3], &quoted);
    assert!(matches!(gateway.receive_bytes(&error), Outcome::Server(100, _)), "a wrong checksum of UDP");
    let mut quoted = sent.bytes();
    quoted[10] ^= 1;
    let error = icmp_error(ROUTER, sent.from.0, [3, 3], &quoted);
    assert_eq!(dropped(gateway.receive_bytes(&error)).as_deref(), Some("nat_quote"));
}

#[test]
fn rfc5508_req_4_errors_about_no_session_are_dropped() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let other = Packet::udp((sent.from.0, sent.from.1 ^ 1), DNS);
    let error = icmp_error(ROUTER, sent.from.0, [3, 3], &other.bytes());
    assert_eq!(dropped(gateway.receive_bytes(&error)).as_deref(), Some("no_session"));
}

#[test]
fn rfc5508_req_5_errors_from_inside_have_the_public_address() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    let answer = gateway.receive(A1, &sent.answer(0));
    let error = icmp_error(A1.1, REMOTE, [3, 3], &answer.bytes());
    let Outcome::Internet(bytes) = gateway.send_bytes(A1, &error) else { panic!("an error of the session") };
    assert_eq!(bytes[12..16], sent.from.0.octets());
    assert_eq!(bytes[28 + 16..28 + 20], sent.from.0.octets());
    assert_eq!(bytes[28 + 22..28 + 24], sent.from.1.to_be_bytes());
    assert_eq!([&bytes[..20], &bytes[20..], &bytes[28..48]].map(testkit::frame::checksum), [0; 3]);
    // Without a session there is none.
    let error = icmp_error(A1.1, OTHER_REMOTE, [3, 3], &Packet::udp((OTHER_REMOTE, 53), (A1.1, 5000)).bytes());
    assert_eq!(dropped(gateway.send_bytes(A1, &error)).as_deref(), Some("no_session"));
}

#[test]
fn rfc5508_req_6_errors_refresh_nothing() {
    let mut gateway = small();
    let sent = gateway.send(A1, &Packet::ping((A1.1, 7), REMOTE));
    gateway.wait(50);
    let error = icmp_error(ROUTER, sent.from.0, [11, 0], &sent.bytes());
    assert!(matches!(gateway.receive_bytes(&error), Outcome::Server(100, _)));
    gateway.wait(14);
    assert_eq!(gateway.receive_refused(&Packet::pong(REMOTE, sent.from)), "no_session");
}

#[test]
fn rfc5508_req_8_without_a_port_a_query_is_dropped() {
    let mut gateway = small();
    for identifier in 0..64 {
        gateway.send(A1, &Packet::ping((A1.1, identifier), REMOTE));
    }
    assert_eq!(gateway.send_refused(A1, &Packet::ping((A1.1, 64), REMOTE)), "nat_quota");
}

#[test]
fn rfc5508_req_9_10_11_echo_and_errors_pass_and_other_icmp_does_not() {
    let mut gateway = small();
    let sent = gateway.send(A1, &udp(A1, 5000, DNS));
    for kind in [3, 11, 12] {
        let error = icmp_error(ROUTER, sent.from.0, [kind, 0], &sent.bytes());
        assert!(matches!(gateway.receive_bytes(&error), Outcome::Server(100, _)), "type {kind}");
    }
    for kind in [4, 5, 9, 13, 17] {
        let error = icmp_error(ROUTER, sent.from.0, [kind, 0], &sent.bytes());
        assert_eq!(dropped(gateway.receive_bytes(&error)).as_deref(), Some("nat_protocol"), "type {kind}");
    }
}

#[test]
fn rfc7857_2_2_a_reset_passes_and_leaves_four_minutes() {
    let mut gateway = small();
    let connection = gateway.connect(A1, 5000, WEB);
    gateway.receive(A1, &connection.answer(RST));
    gateway.wait(200);
    gateway.receive(A1, &connection.answer(ACK));
    gateway.send(A1, &Packet::tcp((A1.1, 5000), WEB, FIN | ACK));
    gateway.wait(249);
    assert_eq!(gateway.receive_refused(&connection.answer(ACK)), "no_session");
}

/// openzro PR #196 and kube-router #544: a port that is used again is not stuck in the closed session.
#[test]
fn a_connection_opens_again_after_its_end() {
    let mut gateway = small();
    let first = gateway.connect(A1, 5000, WEB);
    gateway.send(A1, &Packet::tcp((A1.1, 5000), WEB, FIN | ACK));
    gateway.receive(A1, &first.answer(FIN | ACK));
    gateway.wait(1);
    let again = gateway.connect(A1, 5000, WEB);
    assert_eq!(first.from, again.from);
    gateway.wait(1000);
    gateway.receive(A1, &again.answer(ACK));
}

#[test]
fn rfc6888_req_4_a_vm_with_all_its_ports_harms_no_other() {
    let mut gateway = small();
    for port in 0..64 {
        gateway.send(A1, &udp(A1, 5000 + port, DNS));
    }
    assert_eq!(gateway.send_refused(A1, &udp(A1, 6000, DNS)), "nat_quota");
    gateway.send(A2, &udp(A2, 6000, DNS));
    gateway.send(B1, &udp(B1, 6000, DNS));
    gateway.wait(312);
    gateway.send(A1, &udp(A1, 6000, DNS));
}

/// FDio/vpp #727, dpservice #527: ports leak.
#[test]
fn rfc6888_req_8_all_ports_return() {
    let mut gateway = small();
    for round in 0..5 {
        for port in 0..64 {
            gateway.send(A1, &udp(A1, 5000 + 64 * round + port, DNS));
            gateway.send(A1, &Packet::ping((A1.1, 64 * round + port), REMOTE));
            gateway.send(A1, &Packet::tcp((A1.1, 5000 + 64 * round + port), WEB, SYN));
        }
        gateway.wait(312);
    }
}

/// The operator's own network and private addresses are no Internet.
#[test]
fn the_underlay_is_out_of_reach() {
    let mut gateway = small();
    let targets = [SERVER, Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 200, 0, 1), Ipv4Addr::new(100, 64, 0, 1)];
    for target in targets {
        assert_eq!(gateway.send_refused(A1, &udp(A1, 5000, (target, 22))), "nat_destination", "{target}");
    }
}
