//! Requirements of the load balancer, on the interpreter and in native code: which backend gets which
//! connection, what a change of backends does to them, both directions, idle times, ICMP, lists, groups, and
//! malformed packets. `reports.rs` has what users of other load balancers have reported.
//!
//! Not done: IPv6, and a client that is the only backend of its service (`service_own_backend`).

mod control;
mod fixture;
mod fragments;
mod reports;

use fixture::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

fn three() -> Gateway {
    Gateway::new(&Setup::of(&[1, 2, 3]))
}

/// Returns which backend gets a connection from each of these ports.
fn connections(gateway: &mut Gateway, client: Vm, ports: std::ops::Range<u16>) -> BTreeMap<u16, u8> {
    ports.map(|port| (port, gateway.connect(client, port))).collect()
}

#[test]
fn both_directions_have_the_addresses_of_the_other_side() {
    let mut gateway = three();
    let syn = Packet::tcp((CLIENT.1, 40_000), WEB, SYN);
    let received = gateway.send(CLIENT, &syn);
    assert_eq!(received, Packet { to: received.to, ttl: 63, ..syn.clone() });
    assert_eq!(received.to.1, 8080);
    let answer = Packet { ttl: 64, ..received.answer(SYN | ACK) };
    let number = received.to.0.octets()[3] - 100;
    let answered = gateway.send(backend(number), &answer);
    assert_eq!(answered, Packet { from: WEB, ttl: 63, ..answer });
    // UDP, with the port of the service; without a checksum, there is none behind the gateway, either.
    let question = Packet::udp((CLIENT.1, 40_000), DNS);
    let received = gateway.send(CLIENT, &question);
    assert_eq!(received, Packet { to: (received.to.0, 53), ttl: 63, ..question.clone() });
    let mut bytes = question.bytes();
    bytes[26..28].fill(0);
    let Outcome::Tunnel(100, bytes) = gateway.send_bytes(CLIENT, &bytes) else { panic!("it passes") };
    assert_eq!(bytes[26..28], [0, 0]);
}

#[test]
fn connections_keep_their_backends_while_others_come_go_and_change() {
    let mut gateway = three();
    let before = connections(&mut gateway, CLIENT, 40_000..40_100);
    assert_eq!(before.values().collect::<BTreeSet<_>>().len(), 3);
    let changes = [
        Setup::of(&[1, 2, 3, 4]),
        Setup::of(&[4, 3, 2, 1]),
        Setup::of(&[1, 2, 3, 4, 5, 6]).with(1, ", weight: 100"),
        Setup { web_options: "max_backends: 100,", ..Setup::of(&[1, 2, 3]) },
        Setup { web_options: "affinity: client,", ..Setup::of(&[1, 2, 3]) },
    ];
    for setup in changes {
        gateway.change(&setup);
        for (port, number) in &before {
            assert_eq!(gateway.send_data(CLIENT, *port), *number, "{setup:?}");
        }
    }
}

#[test]
fn new_connections_follow_the_weights() {
    let setup = Setup::of(&[1, 2, 3]).with(1, ", weight: 6").with(2, ", weight: 3");
    let mut gateway = Gateway::new(&setup);
    let mut counts = BTreeMap::new();
    for port in 10_000..14_000 {
        *counts.entry(gateway.ask(CLIENT, port)).or_insert(0) += 1;
    }
    for (number, share) in [(1, 2400), (2, 1200), (3, 400)] {
        // Five standard deviations of 4,000 choices.
        assert!(i32::abs(counts[&number] - share) < 160, "{counts:?}");
    }
}

#[test]
fn a_client_has_one_backend_with_affinity_to_clients() {
    let setup = Setup { web_options: "affinity: client,", ..Setup::of(&[1, 2, 3]) };
    let mut gateway = Gateway::new(&setup);
    let of_client = connections(&mut gateway, CLIENT, 40_000..40_050);
    assert_eq!(of_client.values().collect::<BTreeSet<_>>().len(), 1);
    // Other clients have others.
    let others: BTreeSet<Ipv4Addr> = (1..100)
        .map(|last| {
            let syn = Packet::tcp((Ipv4Addr::new(203, 0, 113, last), 40_000), PUBLIC_WEB, SYN);
            gateway.receive(&syn).to.0
        })
        .collect();
    assert_eq!(others.len(), 3);
}

#[test]
fn a_draining_backend_keeps_its_connections_and_gets_no_others() {
    let mut gateway = three();
    let before = connections(&mut gateway, CLIENT, 40_000..40_100);
    let asked: BTreeMap<u16, u8> = (40_000..40_100).map(|port| (port, gateway.ask(CLIENT, port))).collect();
    gateway.change(&Setup::of(&[1, 2, 3]).with(2, ", state: draining"));
    for (port, number) in &before {
        assert_eq!(gateway.connect(CLIENT, *port), *number, "a SYN that is sent again, too");
        assert_eq!(gateway.ask(CLIENT, *port), asked[port]);
    }
    let new = connections(&mut gateway, CLIENT, 41_000..41_100);
    assert_eq!(new.values().copied().collect::<BTreeSet<_>>(), BTreeSet::from([1, 3]));
}

#[test]
fn only_the_share_of_a_backend_moves_when_it_goes_and_comes_back() {
    let mut gateway = three();
    let before: BTreeMap<u16, u8> = (10_000..12_000).map(|port| (port, gateway.ask(CLIENT, port))).collect();
    gateway.wait(400);
    assert_eq!(gateway.sessions(), 0);
    gateway.change(&Setup::of(&[1, 2, 3]).with(2, ", state: down"));
    let moved = before.iter().filter(|(port, number)| gateway.ask(CLIENT, **port) != **number && **number != 2).count();
    assert!(moved <= 20, "{moved} of 2,000");
    gateway.wait(400);
    gateway.change(&Setup::of(&[1, 2, 3]));
    for (port, number) in before {
        assert_eq!(gateway.ask(CLIENT, port), number);
    }
}

#[test]
fn connections_of_a_backend_that_is_down_go_to_another_at_once() {
    let mut gateway = three();
    let before = connections(&mut gateway, CLIENT, 40_000..40_100);
    let asked: BTreeMap<u16, u8> = (40_000..40_100).map(|port| (port, gateway.ask(CLIENT, port))).collect();
    gateway.change(&Setup::of(&[1, 2, 3]).with(2, ", state: down"));
    for (port, number) in before {
        let from = (CLIENT.1, port);
        let now = gateway.send_data(CLIENT, port);
        let answered = gateway.ask(CLIENT, port);
        match number {
            2 => assert_ne!(now, 2),
            _ => assert_eq!(now, number),
        }
        if number == 2 {
            // The other backend knows no such connection. Its reset ends it for the client.
            let reset = Packet::tcp((backend(now).1, 8080), from, RST);
            assert_eq!(gateway.send(backend(now), &reset).from, WEB);
            let late = Packet::tcp((backend(2).1, 8080), from, ACK);
            assert_eq!(gateway.refused(backend(2), &late), "service_backend_down");
        }
        if asked[&port] == 2 {
            assert_ne!(answered, 2);
            let answer = Packet::udp((backend(answered).1, 53), from);
            assert_eq!(gateway.send(backend(answered), &answer).from, DNS);
            let late = Packet::udp((backend(2).1, 53), from);
            assert_eq!(gateway.refused(backend(2), &late), "service_backend_down");
        } else {
            assert_eq!(answered, asked[&port]);
        }
    }
}

/// The port of a machine goes to another service. What it serves now is not what the client asked for.
#[test]
fn a_backend_that_goes_to_another_service_has_no_connections_of_the_old_one() {
    // Of another port of the address, and of another address.
    let others = [
        "  - {name: other, address: 10.0.0.100, protocol: tcp, port: 81, backends: [{vm: 10.0.1.102, port: 8080}]}\n",
        "  - {name: other, address: 10.0.0.101, protocol: tcp, port: 80, backends: [{vm: 10.0.1.102, port: 8080}]}\n",
    ];
    for (other, side) in others.into_iter().zip([(VIP, 81), (Ipv4Addr::new(10, 0, 0, 101), 80)]) {
        let mut gateway = three();
        let before = connections(&mut gateway, CLIENT, 40_000..40_030);
        gateway.change(&Setup { more_services: other, ..Setup::of(&[1, 3]) });
        for (port, number) in before {
            match number {
                2 => assert_ne!(gateway.send_data(CLIENT, port), 2),
                number => assert_eq!(gateway.send_data(CLIENT, port), number),
            }
        }
        let syn = Packet::tcp((CLIENT.1, 50_000), side, SYN);
        assert_eq!(gateway.send(CLIENT, &syn).to, (backend(2).1, 8080));
    }
}

/// A machine of the service is not the machine of the connection.
#[test]
fn another_backend_cannot_answer_for_the_one_of_a_connection() {
    let mut gateway = three();
    let number = gateway.connect(CLIENT, 40_000);
    let other = if number == 1 { 2 } else { 1 };
    let forged = Packet::tcp((backend(other).1, 8080), (CLIENT.1, 40_000), RST);
    assert_eq!(gateway.refused(backend(other), &forged), "service_backend_down");
}

#[test]
fn without_a_backend_the_client_is_told() {
    for setup in
        [Setup::of(&[]), Setup::of(&[1]).with(1, ", state: down"), Setup::of(&[1]).with(1, ", state: draining")]
    {
        let mut gateway = Gateway::new(&setup);
        for packet in [Packet::tcp((CLIENT.1, 40_000), WEB, SYN), Packet::udp((CLIENT.1, 40_000), DNS)] {
            let (reason, error) = told(gateway.send_bytes(CLIENT, &packet.bytes()));
            assert_eq!((&*reason, &error[20..22]), ("service_no_backend", &[3, 3][..]), "{setup:?}");
        }
        let from_internet = Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN);
        assert_eq!(reason(gateway.receive_bytes(&from_internet.bytes())), "service_no_backend");
        assert_eq!(gateway.sessions(), 0);
    }
}

/// RFC 5382, REQ-5, and RFC 7857, section 2.2, as for the NAT.
#[test]
fn tcp_lives_for_two_hours_and_four_minutes_behind_a_fin_or_reset() {
    for (flags, from_client) in [(FIN | ACK, true), (FIN | ACK, false), (RST, true), (RST, false)] {
        let mut gateway = three();
        let number = gateway.connect(CLIENT, 40_000);
        let end = (backend(number).1, 8080);
        gateway.wait(7400);
        assert_eq!(gateway.send_data(CLIENT, 40_000), number);
        if from_client {
            gateway.send(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, flags));
        } else {
            gateway.send(backend(number), &Packet::tcp(end, (CLIENT.1, 40_000), flags));
        }
        gateway.wait(230);
        assert_eq!(gateway.send_data(CLIENT, 40_000), number, "RFC 7857, section 2.2: it may go on");
        gateway.wait(260);
        let late = Packet::tcp((CLIENT.1, 40_000), WEB, ACK);
        assert_eq!(gateway.refused(CLIENT, &late), "service_unasked");
        assert_eq!(gateway.sessions(), 0);
    }
}

#[test]
fn a_connection_that_is_not_answered_ends_after_four_minutes() {
    let mut gateway = three();
    for _ in 0..2 {
        gateway.send(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, SYN));
    }
    assert_eq!(gateway.sessions(), 2);
    gateway.wait(260);
    assert_eq!(gateway.sessions(), 0);
}

#[test]
fn udp_lives_for_five_minutes_and_both_directions_refresh() {
    let mut gateway = three();
    let number = gateway.ask(CLIENT, 40_000);
    let answer = Packet::udp((backend(number).1, 53), (CLIENT.1, 40_000));
    for _ in 0..2 {
        gateway.wait(290);
        assert_eq!(gateway.send(backend(number), &answer).from, DNS);
        gateway.wait(290);
        assert_eq!(gateway.ask(CLIENT, 40_000), number);
    }
    gateway.wait(320);
    assert_eq!(gateway.sessions(), 0);
    assert_eq!(gateway.send(backend(number), &answer).from, (backend(number).1, 53), "it is no answer any more");
}

#[test]
fn the_internet_reaches_the_public_address() {
    let mut gateway = three();
    let syn = Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN);
    let received = gateway.receive(&syn);
    assert_eq!((received.from, received.to.1, received.ttl), ((REMOTE, 40_000), 8080, 63));
    let vm = backend(received.to.0.octets()[3] - 100);
    let answered = gateway.send_out(vm, &Packet { ttl: 64, ..received.answer(SYN | ACK) });
    assert_eq!((answered.from, answered.to), (PUBLIC_WEB, (REMOTE, 40_000)));
    gateway.wait(7000);
    assert_eq!(gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, ACK)).to, received.to);
    // Its own connections use the NAT, also by the port of the service of another protocol.
    let own = gateway.send_out(vm, &Packet::tcp((vm.1, 50_000), (REMOTE, 443), SYN));
    assert_eq!(own.from.0, Ipv4Addr::new(198, 51, 100, 16));
    let own = gateway.send_out(vm, &Packet::udp((vm.1, 8080), (REMOTE, 443)));
    assert_eq!(own.from.0, Ipv4Addr::new(198, 51, 100, 16));
    // Unasked packets of the service's port have no connection.
    let unasked = Packet::tcp((vm.1, 8080), (REMOTE, 443), SYN);
    assert_eq!(gateway.refused(vm, &unasked), "service_unasked");
    // A network of the operator is not the Internet, whoever pretends to be there.
    let spoofed = Packet::tcp((Ipv4Addr::new(192, 0, 2, 11), 40_000), PUBLIC_WEB, SYN);
    let vm = backend(gateway.receive(&spoofed).to.0.octets()[3] - 100);
    let answer = Packet::tcp((vm.1, 8080), spoofed.from, SYN | ACK);
    assert_eq!(gateway.refused(vm, &answer), "nat_destination");
}

/// Two tenants and a VPC's own network can have one address; a packet from the Internet with it is forged.
#[test]
fn connections_from_different_networks_are_apart() {
    let mut gateway = three();
    let from = (CLIENT.1, 40_000);
    let number = gateway.connect(CLIENT, 40_000);
    let spoofed = gateway.receive_bytes(&Packet::tcp(from, PUBLIC_WEB, SYN).bytes());
    assert_eq!(spoofed, Outcome::Dropped("internet_source".into(), None));
    let (vni, other) = gateway.send_to(OTHER_TENANT, &Packet::tcp(from, WEB, SYN));
    assert_eq!((vni, other.to), (300, (Ipv4Addr::new(10, 0, 0, 12), 80)));
    assert_eq!(gateway.sessions(), 4);
    let answer = Packet::tcp((backend(number).1, 8080), from, ACK);
    assert_eq!(gateway.send(backend(number), &answer).from, WEB, "the packet goes to the VPC's own machine");
}

#[test]
fn clients_of_peers_data_centres_and_the_backends_own_subnet_are_served() {
    let mut gateway = three();
    for (client, vni) in [(PEER, 200), (IN_IDC, 700), (NEAR_CLIENT, 100)] {
        let from = (client.1, 40_000);
        let received = gateway.send(client, &Packet::tcp(from, WEB, SYN));
        assert_eq!((received.from, received.to.1), (from, 8080));
        let answer = Packet { ttl: 64, ..received.answer(SYN | ACK) };
        let vm = backend(received.to.0.octets()[3] - 100);
        let (found, answered) = gateway.send_to(vm, &answer);
        assert_eq!((found, answered.from, answered.to), (vni, WEB, from));
    }
}

#[test]
fn other_connections_of_a_backend_stay_as_they_are() {
    let mut gateway = three();
    gateway.connect(CLIENT, 40_000);
    // To its port without the service, and from the port of the service to others.
    let direct = Packet::tcp((CLIENT.1, 41_000), (backend(1).1, 8080), SYN);
    assert_eq!(gateway.send(CLIENT, &direct).to, direct.to);
    assert_eq!(gateway.send(backend(1), &direct.answer(SYN | ACK)).from, direct.to);
    let own = Packet::udp((backend(1).1, 53), (CLIENT.1, 40_000));
    assert_eq!(gateway.send(backend(1), &own).from, own.from);
    assert_eq!(gateway.sessions(), 2);
}

/// Kubernetes calls it a hairpin. The packet would have the machine's own address as its source.
#[test]
fn a_backend_that_is_a_client_gets_another_backend() {
    let mut gateway = three();
    let mut found = BTreeSet::new();
    for port in 40_000..40_060 {
        let received = gateway.send(backend(2), &Packet::tcp((backend(2).1, port), WEB, SYN));
        found.insert(received.to.0.octets()[3] - 100);
    }
    assert_eq!(found, BTreeSet::from([1, 3]));
    gateway.change(&Setup::of(&[2]));
    let alone = Packet::tcp((backend(2).1, 41_000), WEB, SYN);
    assert_eq!(gateway.refused(backend(2), &alone), "service_own_backend");
}

#[test]
fn services_of_the_same_machines_send_a_client_to_the_same_one() {
    let web = "affinity: client,";
    let mut gateway = Gateway::new(&Setup { web_options: web, ..Setup::of(&[1, 2, 3, 4]) });
    let number = gateway.connect(CLIENT, 40_000);
    // `dns` has other ports, and chooses by connection: so compare with a second service by client.
    let text = "  acl_default: permit\n";
    gateway.change(&Setup { web_options: web, vpc_options: text, ..Setup::of(&[4, 2, 1, 3]) });
    assert_eq!(gateway.connect(CLIENT, 40_001), number, "the order in the file does not count");
}

#[test]
fn what_is_malformed_or_unasked_is_dropped_by_name() {
    let mut gateway = three();
    let from = (CLIENT.1, 40_000);
    let cases = [
        (Packet::tcp(from, (VIP, 81), SYN), "service_port"),
        (Packet::udp(from, (VIP, 80)), "service_port"),
        (Packet::tcp(from, (VIP, 0), SYN), "service_port"),
        (Packet::tcp(from, WEB, ACK), "service_unasked"),
        (Packet::tcp(from, WEB, SYN | ACK), "service_unasked"),
        (Packet::tcp(from, WEB, RST), "service_unasked"),
        (Packet { protocol: 47, ..Packet::udp(from, WEB) }, "nat_protocol"),
    ];
    for (packet, expected) in cases {
        assert_eq!(gateway.refused(CLIENT, &packet), expected, "{packet:?}");
    }
    let options = testkit::frame::IpPacket {
        options: vec![1, 1, 1, 0],
        ..testkit::frame::IpPacket::new(
            CLIENT.1.into(),
            VIP.into(),
            TCP,
            Packet::tcp(from, WEB, SYN).bytes()[20..].to_vec(),
        )
    };
    assert_eq!(reason(gateway.send_bytes(CLIENT, &options.bytes())), "nat_protocol");
    let unasked = Packet::tcp((REMOTE, 40_000), (PUBLIC, 81), SYN);
    assert_eq!(reason(gateway.receive_bytes(&unasked.bytes())), "no_session");
    assert_eq!(gateway.sessions(), 0, "nothing of it has a connection");
}

/// RFC 1812, section 4.3.2.7: of the port that nothing has.
#[test]
fn a_port_without_a_service_is_unreachable() {
    let mut gateway = three();
    let packet = Packet::tcp((CLIENT.1, 40_000), (VIP, 81), SYN);
    let (_, error) = told(gateway.send_bytes(CLIENT, &packet.bytes()));
    assert_eq!(error[20..22], [3, 3]);
    assert_eq!(error[28..68], packet.bytes()[..40], "as it was sent");
    assert_eq!(error[12..16], [10, 0, 0, 1], "from the gateway's address in the client's subnet");
}

#[test]
fn tenants_without_services_pay_nothing() {
    let mut gateway = Gateway::new(&Setup { without_services: true, ..Setup::of(&[]) });
    let packet = Packet::tcp((CLIENT.1, 40_000), (backend(1).1, 8080), SYN);
    assert_eq!(gateway.send(CLIENT, &packet).to, packet.to);
    assert_eq!(gateway.refused(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, SYN)), "unknown_vm");
}

/// A flood of SYN to one tenant's service leaves room for its known connections, and for all of others.
#[test]
fn a_vpc_has_as_many_connections_as_it_may() {
    let with_limit = |options| Setup { vpc_options: options, ..Setup::of(&[1, 2, 3]) };
    let mut gateway = Gateway::new(&with_limit("  max_connections: 2\n"));
    let number = gateway.connect(CLIENT, 40_000);
    gateway.ask(CLIENT, 40_000);
    let syn = |port| Packet::tcp((CLIENT.1, port), WEB, SYN);
    for port in 1..100 {
        let flood = Packet::tcp((REMOTE, port), PUBLIC_WEB, SYN);
        assert_eq!(reason(gateway.receive_bytes(&flood.bytes())), "service_quota");
    }
    assert_eq!(gateway.refused(CLIENT, &syn(40_001)), "service_quota");
    assert_eq!(gateway.refused(PEER, &Packet::tcp((PEER.1, 40_001), WEB, SYN)), "service_quota");
    assert_eq!(gateway.send_data(CLIENT, 40_000), number);
    let of_other = gateway.send_to(OTHER_TENANT, &Packet::tcp((OTHER_TENANT.1, 40_000), WEB, SYN));
    assert_eq!(of_other.0, OTHER_TENANT.0, "another tenant's service");
    gateway.send_out(CLIENT, &Packet::tcp((CLIENT.1, 40_001), (REMOTE, 443), SYN));
    gateway.change(&with_limit("  max_connections: 3\n"));
    gateway.connect(CLIENT, 40_001);
    assert_eq!(gateway.refused(CLIENT, &syn(40_002)), "service_quota");
    // The flow of UDP ends.
    gateway.wait(400);
    gateway.connect(CLIENT, 40_002);
    assert_eq!(gateway.refused(CLIENT, &syn(40_003)), "service_quota");
}
