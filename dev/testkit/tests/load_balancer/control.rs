//! ICMP, lists and security groups: which addresses they see.

use crate::fixture::*;
use testkit::frame::checksum;

fn three() -> Gateway {
    Gateway::new(&Setup::of(&[1, 2, 3]))
}

fn assert_right_checksums(error: &[u8]) {
    assert_eq!([&error[..20], &error[20..], &error[28..48]].map(checksum), [0; 3], "{error:02x?}");
}

/// RFC 5508, section 4, for the packets of a service: path MTU discovery works for backends.
#[test]
fn an_error_about_an_answer_reaches_the_backend() {
    let mut gateway = three();
    let number = gateway.connect(CLIENT, 40_000);
    let answer = Packet::tcp((backend(number).1, 8080), (CLIENT.1, 40_000), ACK);
    let answered = gateway.send(backend(number), &answer);
    let error = icmp_error(CLIENT.1, VIP, [3, 4], &answered.bytes());
    let Outcome::Tunnel(100, found) = gateway.send_bytes(CLIENT, &error) else { panic!("it passes") };
    assert_eq!(found[16..20], backend(number).1.octets());
    assert_eq!(found[28 + 12..28 + 16], backend(number).1.octets());
    assert_eq!(found[28 + 20..28 + 22], 8080_u16.to_be_bytes());
    assert_right_checksums(&found);
    // From a router in the Internet, about an answer to the Internet.
    let received = gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN));
    let vm = backend(received.to.0.octets()[3] - 100);
    let answered = gateway.send_out(vm, &Packet { ttl: 64, ..received.answer(SYN | ACK) });
    let error = icmp_error(ROUTER, PUBLIC, [3, 4], &answered.bytes());
    let Outcome::Tunnel(100, found) = gateway.receive_bytes(&error) else { panic!("it passes") };
    assert_eq!([&found[12..16], &found[16..20]], [ROUTER.octets(), vm.1.octets()]);
    assert_eq!(found[28 + 12..28 + 16], vm.1.octets());
    assert_eq!(found[28 + 20..28 + 22], 8080_u16.to_be_bytes());
    assert_right_checksums(&found);
}

#[test]
fn an_error_of_a_backend_reaches_the_client_with_the_address_of_the_service() {
    let mut gateway = three();
    let asked = gateway.send(CLIENT, &Packet::udp((CLIENT.1, 40_000), DNS));
    let vm = Vm(100, asked.to.0);
    let Outcome::Tunnel(100, found) = gateway.send_bytes(vm, &icmp_error(vm.1, CLIENT.1, [3, 3], &asked.bytes()))
    else {
        panic!("it passes")
    };
    assert_eq!([&found[12..16], &found[16..20]], [VIP.octets(), CLIENT.1.octets()]);
    assert_eq!(found[28 + 16..28 + 20], VIP.octets());
    assert_eq!(found[28 + 22..28 + 24], 53_u16.to_be_bytes());
    assert_right_checksums(&found);
    let received = gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN));
    let vm = Vm(100, received.to.0);
    let Outcome::Internet(found) = gateway.send_bytes(vm, &icmp_error(vm.1, REMOTE, [3, 3], &received.bytes())) else {
        panic!("it passes")
    };
    assert_eq!([&found[12..16], &found[28 + 16..28 + 20]], [PUBLIC.octets(); 2]);
    assert_eq!(found[28 + 22..28 + 24], 80_u16.to_be_bytes());
    assert_right_checksums(&found);
}

#[test]
fn forged_errors_reach_nothing_and_end_nothing() {
    let mut gateway = three();
    let number = gateway.connect(CLIENT, 40_000);
    let answer = Packet::tcp(WEB, (CLIENT.1, 40_000), ACK).bytes();
    let mut wrong_sum = answer.clone();
    wrong_sum[10] ^= 1;
    let other_port = Packet::tcp(WEB, (CLIENT.1, 40_001), ACK).bytes();
    let of_other = Packet::tcp((backend(number).1, 80), (CLIENT.1, 40_000), ACK).bytes();
    let cases = [(wrong_sum, "nat_quote"), (other_port, "service_unasked"), (of_other, "nat_quote")];
    for (quoted, expected) in cases {
        let error = icmp_error(CLIENT.1, VIP, [3, 3], &quoted);
        assert_eq!(reason(gateway.send_bytes(CLIENT, &error)), expected);
    }
    let quoted = Packet::tcp((CLIENT.1, 40_000), (backend(number).1, 8080), ACK).bytes();
    let mut wrong = quoted.clone();
    wrong[10] ^= 1;
    let error = icmp_error(backend(number).1, CLIENT.1, [3, 3], &wrong);
    assert_eq!(reason(gateway.send_bytes(backend(number), &error)), "nat_quote");
    let elsewhere = icmp_error(backend(number).1, NEAR_CLIENT.1, [3, 3], &quoted);
    assert_eq!(reason(gateway.send_bytes(backend(number), &elsewhere)), "nat_quote");
    assert_eq!(gateway.send_data(CLIENT, 40_000), number);
}

/// An error that the gateway makes quotes the packet as it was sent, with the service's address.
#[test]
fn errors_of_the_gateway_quote_the_packet_as_it_was_sent() {
    let mut gateway = three();
    let number = gateway.connect(CLIENT, 40_000);
    // Tunnels have room for 1,400 bytes.
    let long = |from, to| Packet { data: vec![7; 1400], ..Packet::tcp(from, to, ACK) };
    let sent = long((CLIENT.1, 40_000), WEB).bytes();
    let (reason, error) = told(gateway.send_bytes(CLIENT, &sent));
    assert_eq!((&*reason, &error[20..22]), ("exceeds_mtu", &[3, 4][..]));
    assert_eq!(error[26..28], 1400_u16.to_be_bytes());
    assert_eq!(error[28..28 + 532], sent[..532]);
    let sent = long((backend(number).1, 8080), (CLIENT.1, 40_000)).bytes();
    let (_, error) = told(gateway.send_bytes(backend(number), &sent));
    assert_eq!(error[28..28 + 532], sent[..532]);
    let expired = Packet { ttl: 1, ..Packet::tcp((CLIENT.1, 40_000), WEB, ACK) }.bytes();
    let (reason, error) = told(gateway.send_bytes(CLIENT, &expired));
    assert_eq!((&*reason, &error[20..22]), ("inner_ttl_expired", &[11, 0][..]));
    assert_eq!(error[28..68], expired[..40]);
}

/// The service answers, whatever its backends do.
#[test]
fn the_gateway_answers_ping_at_the_address_of_a_service() {
    let mut gateway = Gateway::new(&Setup::of(&[]));
    for client in [CLIENT, PEER] {
        let (vni, reply) = gateway.send_to(client, &Packet::ping((client.1, 7), VIP));
        assert_eq!((vni, reply.from.0, reply.to), (client.0, VIP, (client.1, 7)));
    }
    let timestamp = icmp_error(CLIENT.1, VIP, [13, 0], &Packet::udp((CLIENT.1, 1), DNS).bytes());
    assert_eq!(reason(gateway.send_bytes(CLIENT, &timestamp)), "nat_protocol");
    assert_eq!(reason(gateway.receive_bytes(&Packet::ping((REMOTE, 7), PUBLIC).bytes())), "nat_protocol");
}

/// As in OVN and for a Network Load Balancer that keeps the client's address: lists of the client see the
/// service, those of the backend see the client and the backend's port.
#[test]
fn lists_see_the_service_at_the_client_and_the_client_at_the_backend() {
    let acl = "  acl_default: deny
  acl:
  - {priority: 1, action: permit, direction: egress, from: 10.0.0.11/32, to: 10.0.0.100/32, protocol: tcp, ports: 80}
  - {priority: 2, action: permit, direction: ingress, from: 10.0.0.11/32, to: 10.0.1.0/24, protocol: tcp, ports: 8080}
  - {priority: 3, action: permit, direction: egress, from: 10.0.1.0/24, to: 10.0.0.11/32, protocol: tcp, source_ports: 8080}
  - {priority: 4, action: permit, direction: ingress, from: 10.0.0.100/32, to: 10.0.0.11/32, protocol: tcp, source_ports: 80}
";
    let with = |text: &'static str| Setup { vpc_options: text, ..Setup::of(&[1, 2, 3]) };
    Gateway::new(&with(acl)).connect(CLIENT, 40_000);
    let syn = Packet::tcp((CLIENT.1, 40_000), WEB, SYN);
    // Each of the four rules is needed.
    let reasons = ["acl_denied_out", "acl_denied_in", "acl_denied_out", "acl_denied_in"];
    for (rule, expected) in (1..=4).zip(reasons) {
        let priority = format!("  - {{priority: {rule},");
        let fewer: String = acl.split_inclusive('\n').filter(|line| !line.starts_with(&priority)).collect();
        let mut gateway = Gateway::new(&with(fewer.leak()));
        if rule <= 2 {
            assert_eq!(gateway.refused(CLIENT, &syn), expected);
            continue;
        }
        let received = gateway.send(CLIENT, &syn);
        let answer = Packet { ttl: 64, ..received.answer(SYN | ACK) };
        assert_eq!(gateway.refused(Vm(100, received.to.0), &answer), expected);
    }
}

/// A rejected packet is told about as it was sent.
#[test]
fn a_list_of_the_backend_that_rejects_quotes_the_service() {
    let acl = "  acl: [{priority: 1, action: reject, direction: ingress, protocol: tcp, ports: 8080}]\n";
    let mut gateway = Gateway::new(&Setup { vpc_options: acl, ..Setup::of(&[1]) });
    let syn = Packet::tcp((CLIENT.1, 40_000), WEB, SYN).bytes();
    let (reason, error) = told(gateway.send_bytes(CLIENT, &syn));
    assert_eq!((&*reason, &error[20..22]), ("acl_rejected_in", &[3, 13][..]));
    assert_eq!(error[28..68], syn[..40]);
}

#[test]
fn security_groups_see_the_client_and_the_backend() {
    let groups = "  security_groups:
  - {name: clients, rules: [{direction: egress, protocol: tcp, ports: 8080, to_group: webs}]}
  - {name: webs, rules: [{direction: ingress, protocol: tcp, ports: 8080, from_group: clients}]}
";
    let setup = Setup { vpc_options: groups, groups: ["clients", "webs"], ..Setup::of(&[1, 2, 3]) };
    let mut gateway = Gateway::new(&setup);
    let number = gateway.connect(CLIENT, 40_000);
    assert_eq!(gateway.send_data(CLIENT, 40_000), number);
    let stranger = Packet::tcp((NEAR_CLIENT.1, 40_000), WEB, SYN);
    assert_eq!(gateway.refused(NEAR_CLIENT, &stranger), "group_denied_in");
    let other_service = Packet::udp((CLIENT.1, 40_000), DNS);
    assert_eq!(gateway.refused(CLIENT, &other_service), "group_denied_out");
    let from_internet = Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN);
    assert_eq!(reason(gateway.receive_bytes(&from_internet.bytes())), "group_denied_in");
    // A changed rule ends the connection.
    let closed = "  security_groups: [{name: clients}, {name: webs}]\n";
    gateway.change(&Setup { vpc_options: closed, ..setup });
    assert_eq!(gateway.refused(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, ACK)), "group_flow_ended");
}
