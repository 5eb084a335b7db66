//! Compares the gateway with the naive model: random groups, rules and packets, in batches, with
//! changes of the region between them. `GROUPS_SEED` repeats a run.

use crate::fixture::{ACK, ESP, FIN, Gateway, ICMP, Layer4, Packet, RST, SYN, Side, TCP, UDP};
use crate::model::{Model, Peer, Rule, Vm, Vpc};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ports of packets and rules: few, so that flows meet.
const PORTS: [u16; 5] = [0, 80, 443, 1000, 1001];
const GROUPS: usize = 4;
const BATCH: usize = 24;

fn random_rule(rng: &mut Rng) -> Rule {
    let v6 = rng.bool();
    let net = [1u16, 2][rng.usize(..2)];
    let host = rng.u8(10..14);
    let peer = match rng.u8(..4) {
        0 => Peer::Any,
        1 if v6 => Peer::Prefix(Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, 0).into(), 64),
        1 => Peer::Prefix(Ipv4Addr::new(10, net as u8, 0, 0).into(), 24),
        2 if v6 => Peer::Prefix(Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host.into()).into(), 128),
        2 => Peer::Prefix(Ipv4Addr::new(10, net as u8, 0, host).into(), 32),
        _ => Peer::Group(rng.usize(..GROUPS)),
    };
    let protocol = [None, Some(TCP), Some(TCP), Some(UDP), Some(UDP), Some(ICMP), Some(ESP)][rng.usize(..7)];
    let has_ports = matches!(protocol, Some(TCP | UDP)) && rng.bool();
    let [lo, hi] = [0, 0].map(|_| PORTS[rng.usize(1..PORTS.len())]);
    Rule { is_egress: rng.bool(), peer, protocol, ports: has_ports.then_some((lo.min(hi), lo.max(hi))) }
}

fn random_vpc(rng: &mut Rng, name: &'static str, vni: u32, subnets: &'static str) -> Vpc {
    let rules = |rng: &mut Rng| (0..rng.usize(..5)).map(|_| random_rule(rng)).collect();
    let groups = (0..GROUPS).map(|_| rules(rng)).collect();
    Vpc { vni, name, subnets, groups, keeps: rng.u8(..4) == 0, picks_up: rng.u8(..4) == 0 }
}

fn random_groups(rng: &mut Rng) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..rng.usize(..3)).map(|_| rng.usize(..GROUPS)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Changes the model's region: everything, or one thing.
fn change(model: &mut Model, rng: &mut Rng) {
    let subnets = ["[10.1.0.0/24, 'fd00:1::/64']", "[10.2.0.0/24, 'fd00:2::/64']", "[10.1.0.0/24, 'fd00:1::/64']"];
    if model.vpcs.is_empty() || rng.u8(..8) == 0 {
        let vpcs = [("a", 100), ("b", 200), ("c", 300)].into_iter().zip(subnets);
        model.vpcs = vpcs.map(|((name, vni), subnets)| random_vpc(rng, name, vni, subnets)).collect();
        let machine = |(vpc, net): (usize, u16), host: u8, rng: &mut Rng| Vm {
            vpc,
            addresses: [
                Ipv4Addr::new(10, net as u8, 0, host).into(),
                Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host.into()).into(),
            ],
            groups: random_groups(rng),
        };
        let places = [(0, 1), (1, 2), (2, 1)].into_iter().flat_map(|place| (10..14).map(move |host| (place, host)));
        model.vms = places.map(|(place, host)| machine(place, host, rng)).collect();
        return;
    }
    match rng.u8(..3) {
        0 => {
            let vm = rng.usize(..model.vms.len());
            model.vms[vm].groups = random_groups(rng);
        }
        1 => {
            let vpc = rng.usize(..model.vpcs.len());
            let rules = &mut model.vpcs[vpc].groups[rng.usize(..GROUPS)];
            if rules.is_empty() || rng.bool() {
                rules.push(random_rule(rng));
            } else {
                rules.remove(rng.usize(..rules.len()));
            }
        }
        _ => {
            let vpc = rng.usize(..model.vpcs.len());
            let of = &mut model.vpcs[vpc];
            (of.keeps, of.picks_up) = (rng.u8(..4) == 0, rng.u8(..4) == 0);
        }
    }
}

fn random_packet(model: &Model, rng: &mut Rng) -> Packet {
    let v6 = usize::from(rng.u8(..3) == 0);
    let from = &model.vms[rng.usize(..model.vms.len())];
    // A and B are peers; C reaches itself.
    let others: Vec<&Vm> = model.vms.iter().filter(|vm| (vm.vpc == 2) == (from.vpc == 2)).collect();
    let to = others[rng.usize(..others.len())];
    let mut port = || PORTS[if rng.u8(..40) == 0 { 0 } else { rng.usize(1..PORTS.len()) }];
    let [from_port, to_port] = [port(), port()];
    let side = |vm: &Vm, port| Side { vni: model.vpcs[vm.vpc].vni, address: vm.addresses[v6], port };
    let (from, to) = (side(from, from_port), side(to, to_port));
    let flags = [SYN, SYN, SYN | ACK, ACK, ACK, ACK, FIN | ACK, RST, SYN | FIN][rng.usize(..9)];
    let kinds = [Layer4::Tcp(flags), Layer4::Udp, Layer4::Ping, Layer4::Pong, Layer4::Esp];
    let layer_4 = kinds[[0, 0, 0, 1, 1, 1, 2, 3, 4][rng.usize(..9)]].clone();
    let packet = Packet { from, to, layer_4 };
    if rng.u8(..12) == 0 {
        let mut error = packet.error();
        if rng.u8(..4) == 0 {
            error.to = Side { port: 0, ..side(others[rng.usize(..others.len())], 0) };
        }
        return error;
    }
    packet
}

#[test]
fn the_gateway_is_what_the_naive_model_says() {
    let seed = std::env::var("GROUPS_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("a number"));
    println!("GROUPS_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let mut model = Model::default();
    change(&mut model, &mut rng);
    let mut gateway = Gateway::new(&model.text());
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut recent: Vec<Packet> = Vec::new();
    let mut sent = 0;
    while sent < 100_000 {
        match rng.u16(..100) {
            // All flows end.
            0 => {
                gateway.wait(8_000);
                model.forget();
            }
            1..=30 => {
                change(&mut model, &mut rng);
                gateway.change_region(&model.text());
            }
            _ => {}
        }
        let mut packets = Vec::new();
        for _ in 0..BATCH {
            // Answers, repetitions and errors of recent packets, besides new ones.
            let packet = match (rng.u8(..4), recent.len()) {
                (0, _) | (_, 0) => random_packet(&model, &mut rng),
                (choice, len) => {
                    let old = recent[rng.usize(..len)].clone();
                    if choice == 1 || matches!(old.layer_4, Layer4::Error(_)) { old } else { old.answer(ACK) }
                }
            };
            if recent.len() < 200 {
                recent.push(packet.clone());
            } else {
                recent[rng.usize(..200)] = packet.clone();
            }
            packets.push(packet);
        }
        let bytes: Vec<(u32, Vec<u8>)> = packets.iter().map(|packet| (packet.from.vni, packet.bytes())).collect();
        let found = gateway.send_bytes(&bytes);
        for (packet, found) in packets.iter().zip(found) {
            let expected = model.send(packet);
            assert_eq!(found, expected, "{packet:?}, with GROUPS_SEED={seed}\n{}", model.text());
            *counts.entry(found.unwrap_or_else(|| "passed".to_owned())).or_default() += 1;
        }
        sent += BATCH;
    }
    println!("{counts:?}, {} flows", model.flow_count());
    let wanted = [
        "passed",
        "group_denied_out",
        "group_denied_in",
        "group_unasked",
        "group_flow_ended",
        "group_error",
        "group_port_0",
        "tcp_without_syn",
    ];
    for reason in wanted {
        assert!(
            counts.get(reason).is_some_and(|count| *count > 200),
            "too few to say anything: {reason} of {counts:?}"
        );
    }
}
