//! Versions of the gateway for the first and for later passes of a packet: each has only the code
//! of its passes, and native code runs both.

use ir::passes::{PacketPass, reads_pass_number, recirculates, specialise_packet_pass, without_recirculation};
use ir::{Pipeline, verify};
use jit::Jit;
use std::collections::BTreeSet;
use testkit::frame::{IpPacket, VxlanFrame, segment};
use testkit::gateway;

fn applied(pipeline: &Pipeline) -> BTreeSet<&str> {
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let tables = blocks.filter_map(|block| block.applied_table());
    tables.map(|table| pipeline.tables[table].preamble.name.as_str()).collect()
}

fn emits(pipeline: &Pipeline) -> usize {
    pipeline.insts().filter(|data| matches!(data.inst, ir::Inst::Emit(_))).count()
}

#[test]
fn a_version_has_the_code_of_its_passes() {
    let program = gateway::pipeline().expect("the gateway compiles");
    let first = specialise_packet_pass(&program, PacketPass::First);
    let later = specialise_packet_pass(&program, PacketPass::Later);
    let switch = without_recirculation(&program);
    for version in [&first, &later, &switch] {
        verify::verify(version).expect("a version is a valid pipeline");
        assert!(!reads_pass_number(version));
        assert_eq!((version.tables.len(), version.vars.len()), (program.tables.len(), program.vars.len()));
    }
    let second_pass: BTreeSet<&str> = ["subnet_gateway_v4", "subnet_gateway_v6", "icmp_limits"].into();
    let is_second = |name: &&str| second_pass.iter().any(|table| name.ends_with(table));
    let both = ["underlay_route_v4", "underlay_route_v6", "next_hop", "gateway_identity", "flow_secret"];
    assert_eq!(applied(&first).iter().filter(|name| is_second(name)).count(), 0);
    assert_eq!(applied(&later).len(), second_pass.len() + both.len(), "{:?}", applied(&later));
    assert_eq!(applied(&first).union(&applied(&later)).count(), applied(&program).len());
    // A switch sends frames with a VLAN tag to the CPU, packets to and from the Internet and services, and
    // those of VPCs with security groups or services.
    let of_others: BTreeSet<&str> = [
        "gateway.classify.own_vlan",
        "gateway.classify.group_vlan",
        "gateway.classify.vpc_prefix",
        "gateway.internet_v6.sources",
        "gateway.internet_v6.refused",
        "gateway.classify.punt.public_arp.public_arp",
        "gateway.internet_source.own_subnet",
        "gateway.nat_source.nat_source",
        "gateway.nat_source.nat_refused",
        "gateway.nat_source.nat64_source.nat64_source",
        "gateway.nat64_arrival.nat64_vm",
        "gateway.nat_forward.forwards",
        "gateway.nat_session.sessions",
        "gateway.service_port.services",
        "gateway.service_choice.slots",
        "gateway.service_choice.backends",
        "gateway.service_backend.members",
        "gateway.groups.member_from.v4",
        "gateway.groups.member_from.v6",
        "gateway.groups.member_to.v4",
        "gateway.groups.member_to.v6",
        "gateway.groups.judge.rules_out.v4",
        "gateway.groups.judge.rules_out.v6",
        "gateway.groups.judge.rules_in.v4",
        "gateway.groups.judge.rules_in.v6",
        "gateway.groups.groups_track.flows_v4",
        "gateway.groups.groups_track.flows_v6",
        "gateway.fragments.datagram_limits",
        "gateway.fragments.datagrams_v4",
        "gateway.fragments.datagrams_v6",
    ]
    .into();
    assert_eq!(&applied(&switch) | &of_others, applied(&first));
    assert!(applied(&switch).is_disjoint(&of_others));
    // What only the second pass emits is not in the first; a switch does not even have the order.
    assert_eq!([emits(&first), emits(&switch)], [19, 9]);
    assert!(recirculates(&first) && !recirculates(&later) && !recirculates(&switch));
}

fn ip(text: &str) -> std::net::IpAddr {
    text.parse().expect("an address")
}

/// Runs copies of a VM's packet through native code of the gateway with the region of the example.
fn run_in_lab(inner: IpPacket, count: usize) -> (Jit, packet::Batch, packet::BatchOutput) {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let region =
        region::parse("lab.yaml", include_str!("../../../../tests/regions/plain.yaml")).expect("the example is right");
    let mut engine = testkit::native::engine(&pipeline).expect("the gateway loads");
    assert_eq!(engine.fallback_reason(), None);
    let entries = region::entries(&region, "lab.yaml", &pipeline, &mut region::IdAssignments::default());
    engine.write(&region::diff(region::GatewayEntries::default(), entries.expect("entries"))).expect("they are taken");
    let mut frame = VxlanFrame::new((ip("192.0.2.11"), ip("192.0.2.1")), 100, inner);
    frame.mac = region.file.uplinks[0].mac.value.0;
    let mut batch = packet::Batch::new();
    for _ in 0..count {
        batch.push_bytes(&frame.bytes(), packet::PortId(1), 0).expect("a batch has room");
    }
    let mut out = packet::BatchOutput::new();
    packet::Engine::process(&mut engine, &mut batch, &mut out);
    (engine, batch, out)
}

#[test]
fn native_code_makes_icmp_errors_and_does_not_fall_back() {
    let inner = IpPacket::new(ip("10.0.0.11"), ip("10.0.0.99"), 17, segment(1000, 53, 40));
    let (engine, batch, out) = run_in_lab(inner, 40);
    // Packets of unknown flows and connections do not keep all others from running together.
    assert_eq!((engine.runs_packets_one_by_one(), engine.miss_region_counts()), (false, [2, 1]));
    let mut counts = packet::EngineCounters::default();
    counts.count_received(&batch);
    counts.count_batch(&batch, &out);
    let reasons = packet::Engine::reasons(&engine);
    let drops: Vec<(String, u64)> =
        counts.drops.iter().map(|(reason, count)| (reasons.drop_name(reason).into_owned(), count.packets)).collect();
    // A bucket of 30 errors. Each packet is dropped, and each error is a packet of its own.
    assert_eq!(drops, [("unknown_vm".to_owned(), 40), ("icmp_limited".to_owned(), 10)]);
    assert_eq!((counts.forwarded_total().packets, counts.generated), (30, 40));
    assert_eq!(engine.fallback_counts().len(), 0);
}

/// TCP is parsed further than UDP, to find SYN. Both still have one path through native code, and no
/// packet leaves it.
#[test]
fn code_for_eight_packets_has_tcp_and_udp() {
    if !jit::supports_vector_path() {
        return;
    }
    let tcp = |flags: u8| [&[4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags][..], &[0; 40]].concat();
    let kinds = [("UDP", 17, segment(1000, 53, 40)), ("TCP data", 6, tcp(0x18)), ("SYN", 6, tcp(2))];
    let mut seen = Vec::new();
    for (name, protocol, payload) in kinds {
        let inner = IpPacket::new(ip("10.0.0.11"), ip("10.0.0.12"), protocol, payload);
        let (engine, batch, out) = run_in_lab(inner, 64);
        let sent = out.iter(&batch).filter(|(one, _)| matches!(one.verdict, packet::Verdict::Forward { .. })).count();
        assert_eq!(sent, 64, "{name}");
        seen.push((name, engine.vector_packet_counts(), engine.vector_refusal()));
    }
    let left: Vec<(&str, bool, u64)> = seen.iter().map(|(name, [came, left], _)| (*name, *came >= 64, *left)).collect();
    assert_eq!(left, [("UDP", true, 0), ("TCP data", true, 0), ("SYN", true, 0)], "{seen:?}");
}

const SWITCH_REGION: &str = "
region: switch
gateway: {mac: 02:00:5e:00:00:01, vteps: [192.0.2.1]}
uplinks:
  - {name: u1, port: 1, mac: 02:00:5e:00:00:01, peer_mac: 02:00:00:66:00:01}
servers:
  - {name: s1, address: 192.0.2.11, uplinks: [u1]}
vpcs:
  - {name: red, vni: 100, subnets: [10.0.0.0/24, 'fd00:1::/64'], answer: [echo, neighbours], tcp_mss: 1300}
  - {name: blue, vni: 200, subnets: [10.0.1.0/24]}
  - {name: green, vni: 300, subnets: [10.0.2.0/24]}
peerings:
  - between: [red, blue]
  - between: [blue, green]
vms:
  - {name: a, vpc: red, server: s1, mac: 02:00:00:77:00:01, addresses: [10.0.0.11, 'fd00:1::11']}
  - {name: b, vpc: blue, server: s1, mac: 02:00:00:77:00:02, addresses: [10.0.1.11]}
  - {name: c, vpc: green, server: s1, mac: 02:00:00:77:00:03, addresses: [10.0.2.11]}
";

/// A switch has no second pass, no options of TCP and no VLAN tags. Packets that need them go to the
/// CPU as they were received, with a reason that the program counts. All others are forwarded.
#[test]
fn a_switch_sends_to_the_cpu_what_it_cannot_do() {
    let switch = without_recirculation(&gateway::pipeline().expect("the gateway compiles"));
    let region = region::parse("switch.yaml", SWITCH_REGION).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut engine = Jit::new(switch.clone(), interp::Config::default()).expect("the switch's program loads");
    let entries = region::entries(&region, "switch.yaml", &switch, &mut region::IdAssignments::default());
    engine.write(&region::diff(region::GatewayEntries::default(), entries.expect("entries"))).expect("they are taken");

    let ip = |text: &str| text.parse().expect("an address");
    let outer = (ip("192.0.2.11"), ip("192.0.2.1"));
    let frame = |vni, from, to, protocol, payload| {
        VxlanFrame::new(outer, vni, IpPacket::new(ip(from), ip(to), protocol, payload))
    };
    let tcp = |flags: u8| vec![4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, flags, 1, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4];
    let udp = || segment(1000, 53, 40);
    let arp = |vni, target: [u8; 4]| {
        let mut arp = frame(vni, "10.0.0.11", "10.0.0.1", 17, udp());
        (arp.inner_type, arp.inner_macs[0]) = (Some(0x0806), [0xff; 6]);
        let sender = [2, 0, 0, 0x77, 0, 1, 10, 0, target[2], 11];
        arp.content = Some([&[0, 1, 8, 0, 6, 4, 0, 1][..], &sender, &[0; 6], &target].concat());
        arp.bytes()
    };
    let mut tagged = frame(300, "10.0.2.11", "10.0.1.11", 17, udp()).bytes();
    tagged.splice(12..12, [0x81, 0, 0, 100]);
    let forwarded = "forwarded";
    let packets: Vec<(Vec<u8>, &str)> = vec![
        (frame(100, "10.0.0.11", "10.0.1.11", 6, tcp(2)).bytes(), "tcp_mss"),
        (frame(100, "10.0.0.11", "10.0.1.11", 6, tcp(0x18)).bytes(), forwarded),
        (frame(200, "10.0.1.11", "10.0.0.11", 6, tcp(0x12)).bytes(), "tcp_mss"),
        (frame(200, "10.0.1.11", "10.0.2.11", 6, tcp(2)).bytes(), forwarded),
        (frame(300, "10.0.2.11", "10.0.1.11", 6, tcp(2)).bytes(), forwarded),
        (frame(100, "10.0.0.11", "10.0.1.11", 17, udp()).bytes(), forwarded),
        (frame(100, "10.0.0.11", "10.0.0.1", 1, vec![8, 0, 0xf7, 0xff, 0, 0, 0, 0]).bytes(), "gateway_address"),
        (arp(100, [10, 0, 0, 1]), "neighbour"),
        (arp(300, [10, 0, 2, 1]), "inner_not_ip"),
        (tagged, "vlan"),
    ];
    let mut batch = packet::Batch::new();
    for (bytes, _) in &packets {
        batch.push_bytes(bytes, packet::PortId(1), 0).expect("a batch takes ten packets");
    }
    let mut out = packet::BatchOutput::new();
    packet::Engine::process(&mut engine, &mut batch, &mut out);
    let reasons = packet::Engine::reasons(&engine);
    let found: Vec<String> = out
        .iter(&batch)
        .zip(&packets)
        .map(|((one, sent), (received, _))| match one.verdict {
            packet::Verdict::Forward { .. } => forwarded.to_owned(),
            packet::Verdict::ToCpu { reason } => {
                assert_eq!(sent.bytes(), received, "{}: unchanged", reasons.cpu_name(reason));
                reasons.cpu_name(reason).into_owned()
            }
            packet::Verdict::Drop(reason) => reasons.drop_name(reason).into_owned(),
        })
        .collect();
    assert_eq!(found, packets.iter().map(|(_, expected)| (*expected).to_owned()).collect::<Vec<_>>());
    let punts = switch.externs.iter().find(|(_, object)| object.preamble.name.ends_with("punts")).expect("a counter").0;
    let counted = [130, 139, 140, 141].map(|reason| engine.counter(punts, reason).map_or(0, |count| count.packets));
    assert_eq!(counted, [1, 1, 2, 1]);
}

/// The program of a switch does with all other packets what the whole program does in their first pass.
#[test]
fn a_switch_does_the_same_with_all_other_packets() {
    let (mut same, mut forwarded, mut left) = (0, 0, 0);
    for seed in 4..9 {
        let case = testkit::differ::plan::gateway_case(seed, 500).expect("a case for the gateway");
        let engine = |pipeline| interp::Interp::new(pipeline, case.setup.clone()).expect("it loads");
        let (mut whole, mut switch) = (engine(case.pipeline.clone()), engine(without_recirculation(&case.pipeline)));
        for step in &case.steps {
            if let testkit::differ::case::TestEvent::Write(batch) = step {
                whole.write(batch).expect("the region's entries");
                switch.write(batch).expect("the region's entries");
            }
            let testkit::differ::case::TestEvent::Packets(packets) = step else { continue };
            for packet in packets {
                let of_switch = switch.process(&packet.bytes, packet.port, packet.at).packets().to_vec();
                let [found] = &of_switch[..] else { panic!("{of_switch:?}") };
                let expected = whole.process(&packet.bytes, packet.port, packet.at).packets()[0].clone();
                if let packet::Verdict::ToCpu { reason } = found.verdict
                    && found.verdict != expected.verdict
                {
                    let name = switch.reasons().cpu_name(reason).into_owned();
                    assert!(["gateway_address", "neighbour", "tcp_mss", "vlan"].contains(&name.as_str()), "{name}");
                    assert_eq!(found.bytes, packet.bytes);
                    left += 1;
                    continue;
                }
                assert_eq!(found.verdict, expected.verdict);
                let is_dropped = matches!(found.verdict, packet::Verdict::Drop(_));
                assert!(is_dropped || found.bytes == expected.bytes, "{:?}", found.verdict);
                same += 1;
                forwarded += u32::from(matches!(found.verdict, packet::Verdict::Forward { .. }));
            }
        }
    }
    println!("{same} alike, {forwarded} of them forwarded, {left} left to the CPU");
    assert!(same > 800 && forwarded > 50 && left > 100, "{same} alike, {forwarded} forwarded, {left} to the CPU");
}
