//! Fragments, over both versions of IP: later ones are judged as packets of the flow of the first one.

use super::{TENANTS, free, web, with};
use crate::fixture::*;
use testkit::fragments::{fragment, fragments};

/// Bytes of data that make a datagram three fragments of 40 bytes.
const LONG: usize = 92;

/// Returns the fragments of a packet with more data.
fn parts(packet: &Packet, id: u32) -> Vec<Vec<u8>> {
    let bytes = packet.bytes();
    let header = if packet.from.address.is_ipv6() { 40 } else { 20 };
    let mut bytes = [&bytes[..], &[0x5a; LONG]].concat();
    let total = if header == 40 { bytes.len() - 40 } else { bytes.len() };
    let at = if header == 40 { 4 } else { 2 };
    bytes[at..at + 2].copy_from_slice(&(total as u16).to_be_bytes());
    fragments(&bytes, 40, id)
}

/// Sends fragments one by one. Returns their outcomes.
fn send(gateway: &mut Gateway, vni: u32, parts: &[Vec<u8>]) -> Vec<Option<String>> {
    parts.iter().map(|part| gateway.send_bytes(&[(vni, part.clone())]).remove(0)).collect()
}

#[track_caller]
fn pass(gateway: &mut Gateway, packet: &Packet, id: u32) {
    let outcomes = send(gateway, packet.from.vni, &parts(packet, id));
    assert!(outcomes.len() > 2 && outcomes.iter().all(Option::is_none), "{packet:?}: {outcomes:?}");
}

#[track_caller]
fn refuse(gateway: &mut Gateway, packet: &Packet, id: u32, reason: &str) {
    let outcomes = send(gateway, packet.from.vni, &parts(packet, id));
    assert_eq!(outcomes[0].as_deref(), Some(reason), "{packet:?}");
    assert!(outcomes.iter().all(Option::is_some), "{packet:?}: {outcomes:?}");
}

fn web_6(port: u16) -> Side {
    side(100, "fd00:1::11", port)
}

fn free_6(port: u16) -> Side {
    side(100, "fd00:1::13", port)
}

fn ping(from: Side, to: Side) -> Packet {
    Packet { from, to, layer_4: Layer4::Ping }
}

#[test]
fn fragments_pass_with_their_flow_over_both_versions() {
    let mut gateway = Gateway::new(TENANTS);
    for (web, free) in [(web as fn(u16) -> Side, free as fn(u16) -> Side), (web_6, free_6)] {
        let asked = udp(web(5000), free(53));
        pass(&mut gateway, &asked, 1);
        pass(&mut gateway, &asked.answer(0), 1);
        refuse(&mut gateway, &udp(web(5000), free(54)), 2, "group_denied_out");
        refuse(&mut gateway, &udp(free(54), web(5000)), 3, "group_denied_in");
        let connection = gateway.connect(free(6000), web(80));
        pass(&mut gateway, &tcp(free(6000), web(80), ACK), 4);
        pass(&mut gateway, &connection.answer(ACK), 4);
        refuse(&mut gateway, &tcp(free(6001), web(80), ACK), 5, "tcp_without_syn");
    }
    pass(&mut gateway, &ping(web(7), free(7)), 6);
    pass(&mut gateway, &ping(web(7), free(7)).answer(0), 6);
    refuse(&mut gateway, &ping(web(8), free(8)).answer(0), 7, "group_unasked");
}

#[test]
fn later_fragments_need_the_first_one_where_flows_are_judged() {
    let mut gateway = Gateway::new(TENANTS);
    for (id, asked) in [udp(web(5000), free(53)), udp(web_6(5000), free_6(53))].into_iter().enumerate() {
        let parts = parts(&asked, id as u32);
        let unknown = [Some("fragment_unknown".to_owned()), Some("fragment_unknown".to_owned())];
        assert_eq!(send(&mut gateway, 100, &parts[1..3]), unknown);
        assert!(send(&mut gateway, 100, &parts).iter().all(Option::is_none));
        // Those of machines in no group pass in any order.
        let others = fragments(&parts_of_free(&asked), 8, 9);
        assert!(send(&mut gateway, 100, &[others[1].clone(), others[0].clone()]).iter().all(Option::is_none));
        gateway.wait(120);
        assert_eq!(send(&mut gateway, 100, &parts[1..3]), unknown);
    }
}

/// Returns a packet from the machine without groups to itself.
fn parts_of_free(like: &Packet) -> Vec<u8> {
    udp(Side { port: 99, ..like.to }, like.to).bytes()
}

#[test]
fn a_change_of_rules_ends_the_flow_of_fragments_too() {
    let mut gateway = Gateway::new(TENANTS);
    let parts = parts(&udp(web(5000), free(53)), 1);
    assert!(send(&mut gateway, 100, &parts[..2]).iter().all(Option::is_none));
    gateway.change_region(&with("    - {direction: egress, protocol: udp, ports: 53}\n", ""));
    assert_eq!(send(&mut gateway, 100, &parts[2..]), [Some("group_flow_ended".to_owned())]);
}

/// RFC 1858 and RFC 3128, over IPv6 too.
#[test]
fn fragments_that_cut_or_change_the_header_of_tcp_are_dropped() {
    let mut gateway = Gateway::new(TENANTS);
    for (from, to) in [(free(6000), web(80)), (free_6(6000), web_6(80))] {
        gateway.connect(from, to);
        let bytes = tcp(from, to, ACK).bytes();
        let (header, data) = bytes.split_at(if from.address.is_ipv6() { 40 } else { 20 });
        let data = [data, &[0; 64]].concat();
        let tries = [
            (fragment(header, &data[..16], 0, true, 1), Some("fragment_header")),
            (fragment(header, &data[..40], 0, true, 2), None),
            (fragment(header, &data[8..32], 1, true, 2), Some("fragment_header")),
            (fragment(header, &data[16..40], 2, true, 2), Some("fragment_header")),
            (fragment(header, &data[40..80], 5, false, 2), None),
        ];
        for (bytes, expected) in tries {
            assert_eq!(send(&mut gateway, 100, &[bytes])[0].as_deref(), expected);
        }
    }
}

/// RFC 6946: a datagram in one fragment, with the identification of another one.
#[test]
fn an_atomic_fragment_is_whole() {
    let mut gateway = Gateway::new(TENANTS);
    let asked = udp(web_6(5000), free_6(53));
    let parts = parts(&asked, 7);
    assert_eq!(send(&mut gateway, 100, &parts[..1]), [None]);
    let bytes = udp(web_6(5001), free_6(53)).bytes();
    let atomic = fragment(&bytes[..40], &bytes[40..], 0, false, 7);
    assert_eq!(send(&mut gateway, 100, &[atomic]), [None]);
    assert!(send(&mut gateway, 100, &parts[1..]).iter().all(Option::is_none));
    let denied = udp(web_6(5001), free_6(54)).bytes();
    let denied = fragment(&denied[..40], &denied[40..], 0, false, 8);
    assert_eq!(send(&mut gateway, 100, &[denied])[0].as_deref(), Some("group_denied_out"));
}

/// RFC 8200, section 4.5: fragments are told apart by 32 bits.
#[test]
fn identifications_of_ipv6_have_32_bits() {
    let mut gateway = Gateway::new(TENANTS);
    let asked = udp(web_6(5000), free_6(53));
    let [low, high] = [7, 7 | 1 << 16].map(|id| parts(&asked, id));
    assert_eq!(send(&mut gateway, 100, &low[..1]), [None]);
    assert_eq!(send(&mut gateway, 100, &high[1..2])[0].as_deref(), Some("fragment_unknown"));
    assert_eq!(send(&mut gateway, 100, &low[1..2]), [None]);
}

#[test]
fn a_vpc_has_as_many_datagrams_as_it_may_and_others_have_their_own() {
    let limited = with("vni: 100", "vni: 100\n  max_datagrams: 2");
    let mut gateway = Gateway::new(&limited);
    for id in 0..2 {
        assert_eq!(send(&mut gateway, 100, &parts(&udp(web(5000), free(53)), id)[..1]), [None]);
    }
    refuse(&mut gateway, &udp(web(5000), free(53)), 2, "fragment_quota");
    // IPv6 has a table of its own, and so has a peer its share.
    pass(&mut gateway, &udp(web_6(5000), free_6(53)), 2);
    let of_peer = tcp(side(200, "10.2.0.11", 4000), web(80), SYN);
    pass(&mut gateway, &of_peer, 1);
    gateway.wait(120);
    pass(&mut gateway, &udp(web(5000), free(53)), 2);
    // A flood of later fragments uses nothing.
    for id in 10..20 {
        let parts = parts(&udp(web(5000), free(53)), id);
        assert_eq!(send(&mut gateway, 100, &parts[1..2])[0].as_deref(), Some("fragment_unknown"));
    }
    pass(&mut gateway, &udp(web(5000), free(53)), 3);
}

/// Lists see ports too: of a VPC with `max_datagrams`, without security groups. Before the first fragment,
/// they see none, as those of other VPCs.
#[test]
fn lists_see_the_ports_of_later_fragments() {
    let only_53 =
        "acl: [{priority: 1, direction: both, action: permit, protocol: udp, ports: 53}]\n  acl_default: deny";
    let tenants = |keys: &str| {
        with(
            "- {name: c, vni: 300, subnets: [10.1.0.0/24]}",
            &format!("- name: c\n  vni: 300\n  subnets: [10.1.0.0/24]\n  {only_53}{keys}"),
        )
    };
    let [known, plain] = ["\n  max_datagrams: 10", ""].map(tenants);
    let [from, to] = ["10.1.0.11", "10.1.0.12"].map(|address| move |port| side(300, address, port));
    let denied = parts(&udp(from(5000), to(54)), 1);
    let is_dropped = |outcomes: &[Option<String>]| outcomes.iter().map(Option::is_some).collect::<Vec<_>>();
    let outcomes = send(&mut Gateway::new(&plain), 300, &denied);
    assert_eq!(is_dropped(&outcomes[..3]), [true, false, false]);
    let mut gateway = Gateway::new(&known);
    let outcomes = send(&mut gateway, 300, &denied);
    assert_eq!(is_dropped(&outcomes[..3]), [true, true, true]);
    pass(&mut gateway, &udp(from(5000), to(53)), 2);
}

/// <https://github.com/cilium/cilium/issues/43781>: many datagrams push known ones out of the table.
#[test]
fn a_flood_of_first_fragments_ends_no_known_datagram() {
    let mut gateway = Gateway::new(&with("vni: 100", "vni: 100\n  max_datagrams: 10"));
    let known = parts(&udp(web(5000), free(53)), 1000);
    assert_eq!(send(&mut gateway, 100, &known[..1]), [None]);
    for id in 0..20 {
        let outcome = send(&mut gateway, 100, &parts(&udp(web(5001), free(53)), id)[..1]).remove(0);
        assert_eq!(outcome.as_deref(), (id >= 9).then_some("fragment_quota"));
    }
    assert!(send(&mut gateway, 100, &known[1..]).iter().all(Option::is_none));
}
