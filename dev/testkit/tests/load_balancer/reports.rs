//! What users of other load balancers have reported: each test does what the report describes. The doc
//! comment names it.
//!
//! Tried, and without a test of their own, because another test here does the same: kubernetes #81775
//! (as kubernetes #57841), cilium #24128 (as kubernetes #57841, for UDP), kube-router #9 (as kubernetes
//! #20475), calico #13667 and cilium #47755 (`control.rs`: errors about answers), moby #24201
//! and kubernetes #47156 (`control.rs`: ping).

use crate::fixture::*;
use std::collections::{BTreeMap, BTreeSet};

/// <https://github.com/facebookincubator/katran/issues/80>,
/// <https://github.com/cilium/cilium/issues/32472>: a SYN with addresses and ports of an old connection gets
/// another backend if the old one is gone.
#[test]
fn a_port_that_is_used_again_finds_another_backend() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2, 3]));
    let number = gateway.connect(CLIENT, 40_000);
    gateway.send(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, FIN | ACK));
    let others: Vec<u8> = (1..=3).filter(|other| *other != number).collect();
    gateway.change(&Setup::of(&others));
    let now = gateway.connect(CLIENT, 40_000);
    assert_ne!(now, number);
    // And stays there, in both directions.
    assert_eq!(gateway.send_data(CLIENT, 40_000), now);
    let answer = Packet::tcp((backend(now).1, 8080), (CLIENT.1, 40_000), ACK);
    assert_eq!(gateway.send(backend(now), &answer).from, WEB);
}

/// <https://github.com/kubernetes/kubernetes/issues/103857>,
/// <https://github.com/cilium/cilium/issues/48244>: a busy UDP stream goes to the new backend at the
/// next packet, and the answers have the service's address.
#[test]
fn a_udp_stream_that_never_pauses_leaves_a_removed_backend() {
    let mut gateway = Gateway::new(&Setup::of(&[1]));
    assert_eq!(gateway.ask(CLIENT, 40_000), 1);
    gateway.change(&Setup::of(&[2]));
    for _ in 0..400 {
        assert_eq!(gateway.ask(CLIENT, 40_000), 2);
        let answer = Packet::udp((backend(2).1, 53), (CLIENT.1, 40_000));
        assert_eq!(gateway.send(backend(2), &answer).from, DNS);
        gateway.wait(1);
    }
}

/// <https://github.com/sapcc/octavia-f5-provider-driver/issues/233>: syslog, one way and all the time, to
/// a member that is no member any more.
#[test]
fn a_stream_without_answers_leaves_a_removed_backend() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2]));
    let first: Vec<u8> = (514..530).map(|port| gateway.ask(CLIENT, port)).collect();
    assert!(first.contains(&1) && first.contains(&2));
    gateway.change(&Setup::of(&[2]));
    assert!((514..530).all(|port| gateway.ask(CLIENT, port) == 2));
}

/// <https://github.com/kubernetes/kubernetes/pull/141371>: the service itself is deleted. Packets of a
/// UDP stream must not reach the machine that was its backend.
#[test]
fn packets_to_a_deleted_service_reach_no_machine() {
    let mut gateway = Gateway::new(&Setup::of(&[1]));
    gateway.ask(CLIENT, 40_000);
    gateway.connect(CLIENT, 40_000);
    let received = gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN));
    gateway.change(&Setup { without_services: true, ..Setup::default() });
    assert_eq!(gateway.refused(CLIENT, &Packet::udp((CLIENT.1, 40_000), DNS)), "unknown_vm");
    assert_eq!(gateway.refused(CLIENT, &Packet::tcp((CLIENT.1, 40_000), WEB, ACK)), "unknown_vm");
    let late = Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, ACK);
    assert_eq!(reason(gateway.receive_bytes(&late.bytes())), "not_for_gateway");
    let answer = Packet::tcp((backend(1).1, 8080), (REMOTE, 40_000), ACK);
    assert_eq!(gateway.refused(backend(1), &answer), "tcp_without_syn", "it would need a port of the NAT");
    assert_eq!(received.to, (backend(1).1, 8080));
}

/// <https://github.com/kubernetes/kubernetes/issues/57841>,
/// <https://github.com/kubernetes/kubernetes/issues/84322>: draining is graceful, and the removal behind
/// it ends what is left.
#[test]
fn draining_is_graceful_and_removal_is_not() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2]));
    let of_1: Vec<u16> = (40_000..40_020).filter(|port| gateway.connect(CLIENT, *port) == 1).collect();
    gateway.change(&Setup::of(&[1, 2]).with(1, ", state: draining"));
    for _ in 0..50 {
        gateway.wait(60);
        assert!(of_1.iter().all(|port| gateway.send_data(CLIENT, *port) == 1));
    }
    gateway.change(&Setup::of(&[2]));
    assert!(of_1.iter().all(|port| gateway.send_data(CLIENT, *port) == 2));
}

/// <https://github.com/cilium/cilium/issues/48714>: datagrams to a backend that drains are lost if it no
/// longer listens. Here, as for TCP, old flows stay: a backend that drains goes on serving, and one that no
/// longer listens is `down`.
#[test]
fn udp_flows_stay_at_a_draining_backend_and_leave_one_that_is_down() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2]));
    let of_1: Vec<u16> = (40_000..40_020).filter(|port| gateway.ask(CLIENT, *port) == 1).collect();
    gateway.change(&Setup::of(&[1, 2]).with(1, ", state: draining"));
    assert!(of_1.iter().all(|port| gateway.ask(CLIENT, *port) == 1));
    gateway.change(&Setup::of(&[1, 2]).with(1, ", state: down"));
    assert!(of_1.iter().all(|port| gateway.ask(CLIENT, *port) == 2));
}

/// <https://github.com/kubernetes/kubernetes/issues/20475>,
/// <https://github.com/cloudnativelabs/kube-router/issues/1235>: of n backends, each reached its own
/// service only with n - 1 of n connections.
#[test]
fn each_backend_reaches_its_own_service_always() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2]));
    for number in [1, 2] {
        for port in 40_000..40_040 {
            let syn = Packet::tcp((backend(number).1, port), WEB, SYN);
            assert_eq!(gateway.send(backend(number), &syn).to.0, backend(3 - number).1);
        }
    }
}

/// <https://github.com/kubernetes/kubernetes/issues/74839>: a late segment far outside of the window is
/// translated as all others. Untranslated, the client would answer it with a reset.
#[test]
fn a_late_segment_of_a_backend_is_translated() {
    let mut gateway = Gateway::new(&Setup::of(&[1]));
    gateway.connect(CLIENT, 40_000);
    let mut segment = Packet::tcp((backend(1).1, 8080), (CLIENT.1, 40_000), ACK);
    segment.data = vec![1; 700];
    gateway.send(backend(1), &Packet::tcp(segment.from, segment.to, FIN | ACK));
    assert_eq!(gateway.send(backend(1), &segment).from, WEB);
}

/// <https://github.com/cilium/cilium/issues/14118>, <https://github.com/cilium/cilium/issues/28458>: a
/// packet to a port without a service, or a ping, circled between routers until its TTL was used up.
#[test]
fn packets_to_other_ports_of_a_service_do_not_circle() {
    let mut gateway = Gateway::new(&Setup::of(&[1]));
    let other_port = Packet::udp((REMOTE, 40_000), (PUBLIC, 53));
    assert_eq!(reason(gateway.receive_bytes(&other_port.bytes())), "no_session");
    let ping = Packet::ping((REMOTE, 7), PUBLIC);
    assert_eq!(reason(gateway.receive_bytes(&ping.bytes())), "nat_protocol");
    assert_eq!(gateway.refused(CLIENT, &Packet::udp((CLIENT.1, 40_000), (VIP, 80))), "service_port");
}

/// <https://github.com/cilium/cilium/issues/34380>: a client behind a link with a small MTU. The error is
/// of the first fragment's size and from a router that no one knows.
#[test]
fn a_client_behind_a_small_link_is_served() {
    let mut gateway = Gateway::new(&Setup::of(&[1]));
    gateway.receive(&Packet::tcp((REMOTE, 40_000), PUBLIC_WEB, SYN));
    let mut answer = Packet::tcp((backend(1).1, 8080), (REMOTE, 40_000), ACK);
    answer.data = vec![1; 1300];
    let answered = gateway.send_out(backend(1), &answer);
    let Outcome::Tunnel(100, error) = gateway.receive_bytes(&icmp_error(ROUTER, PUBLIC, [3, 4], &answered.bytes()))
    else {
        panic!("the backend learns the MTU")
    };
    assert_eq!(error[26..28], 0x578_u16.to_be_bytes());
    assert_eq!(error[28 + 12..28 + 24], [&answer.bytes()[12..20], &answer.bytes()[20..24]].concat());
}

/// <https://github.com/cilium/cilium/issues/26709>: affinity by client, with other source ports.
#[test]
fn affinity_holds_for_new_ports_and_for_the_time_of_the_backends() {
    let affinity = "affinity: client,";
    let mut gateway = Gateway::new(&Setup { web_options: affinity, ..Setup::of(&[1, 2, 3, 4]) });
    let backends: BTreeSet<u8> = (1024..1200).map(|port| gateway.connect(CLIENT, port)).collect();
    assert_eq!(backends.len(), 1);
    let number = *backends.first().expect("one");
    let others: Vec<u8> = (1..=4).filter(|other| *other != number).collect();
    gateway.change(&Setup { web_options: affinity, ..Setup::of(&others) });
    let backends: BTreeSet<u8> = (2048..2100).map(|port| gateway.connect(CLIENT, port)).collect();
    assert_eq!(backends.len(), 1);
}

/// <https://github.com/envoyproxy/gateway/issues/9775>: weights were ignored with consistent hashing.
#[test]
fn weights_hold_with_affinity_to_clients() {
    let setup = Setup { web_options: "affinity: client,", ..Setup::of(&[1, 2]) };
    let mut gateway = Gateway::new(&setup.with(1, ", weight: 5").with(2, ", weight: 95"));
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    for client in 0..2000_u32 {
        let address = std::net::Ipv4Addr::from(0xcb00_7200 + client);
        let to = gateway.receive(&Packet::tcp((address, 40_000), PUBLIC_WEB, SYN)).to.0;
        *counts.entry(to.octets()[3] - 100).or_default() += 1;
    }
    assert!((60..140).contains(&counts[&1]), "{counts:?}");
}

/// <https://github.com/FDio/vpp/issues/3143>: two backends, of which one is removed under traffic, crashed
/// the balancer. Here with packets in both directions between all changes, in all states, against a
/// model: a flow stays at its first backend while that one serves.
#[test]
fn backends_change_under_traffic() {
    let mut gateway = Gateway::new(&Setup::of(&[1, 2]));
    let mut random = fastrand::Rng::with_seed(46);
    let mut first: BTreeMap<u16, u8> = BTreeMap::new();
    let mut elsewhere = 0;
    for round in 0..60 {
        let numbers: Vec<u8> = (1..=4).filter(|_| random.bool()).collect();
        let states = ["", ", state: down", ", state: draining"];
        let setup = numbers
            .iter()
            .fold(Setup::of(&numbers), |setup, number| setup.with(*number, states[random.usize(..states.len())]));
        gateway.change(&setup);
        let of_state = |serves: fn(&str) -> bool| -> BTreeSet<u8> {
            setup.dns.iter().filter(|(_, keys)| serves(keys)).map(|(number, _)| *number).collect()
        };
        let (serving, up) = (of_state(|keys| !keys.contains("down")), of_state(str::is_empty));
        for port in 40_000..40_020 {
            let what = format!("seed 46, round {round}, port {port}: {setup:?}");
            let from = (CLIENT.1, port);
            let known = first.get(&port).copied();
            match gateway.send_bytes(CLIENT, &Packet::udp(from, DNS).bytes()) {
                Outcome::Tunnel(100, bytes) => {
                    let number = bytes[19] - 100;
                    match known.filter(|known| serving.contains(known)) {
                        Some(known) => assert_eq!(number, known, "{what}"),
                        None => assert!(up.contains(&number), "{number}: {what}"),
                    }
                    elsewhere += usize::from(known.is_some_and(|known| known != number));
                    first.entry(port).or_insert(number);
                    let answer = Packet::udp((backend(number).1, 53), from);
                    assert_eq!(gateway.send(backend(number), &answer).from, DNS, "{what}");
                }
                outcome => {
                    assert!(
                        up.is_empty() && known.is_none_or(|known| !serving.contains(&known)),
                        "{outcome:?}, {what}"
                    );
                    // Of several, the client hears of some.
                    assert_eq!(reason(outcome), "service_no_backend", "{what}");
                }
            }
        }
    }
    assert!(first.len() == 20 && elsewhere > 100, "{} flows, {elsewhere} packets to other backends", first.len());
}
