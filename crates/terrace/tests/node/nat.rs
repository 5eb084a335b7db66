//! Tests `terrace show nat`, the NAT's metrics, and how sessions and traces name VPCs, machines and lines, on
//! nodes that serve a region file. Values are held against what packets did.

use super::command::{root, run as terrace};
use super::gateway_node::{Gateway, ISP};
use super::gateway_packets::{ICMP, Side, TCP, UDP, from_internet, from_server, ip_packet};
use super::text_edits::edited;
use node::engine::{SharedEngineFactory, native, reference};
use node::metrics::Metrics;
use serde_json::Value;
use std::net::Ipv4Addr;

const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 200);
const RED_A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 11);
const RED_B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 12);
const GREEN_B: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 12);
const FORWARDING: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 16);
const ELASTIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 40);

/// The lab's region with two NATs, an elastic address and a port forward. `red` may have a block of ports for each
/// machine, and `blue` has one public address and more machines than it has blocks.
fn region() -> String {
    let text = std::fs::read_to_string(root().join("tests/regions/plain.yaml")).unwrap();
    let changes = [
        (
            "\nservers:\n",
            "  - {name: to-isp, port: 6, mac: 02:00:00:06:00:01, peer_mac: 02:00:00:06:00:02, mtu: 1500}\n\n\
             internet:\n  uplinks: [to-isp]\n  nats:\n\
             \x20   - {name: public, addresses: 198.51.100.16/28, ports_per_vm: 64}\n\
             \x20   - {name: small, addresses: 198.51.100.64/32}\n\
             \x20 elastic:\n    - {address: 198.51.100.40, vpc: green, vm: 10.3.0.12}\n\
             \x20 forwards:\n    - {address: 198.51.100.16, protocol: tcp, port: 443, vpc: red, vm: 10.0.0.12, vm_port: 8443}\n\
             \nservers:\n",
        ),
        ("    vni: 100\n", "    vni: 100\n    nat: public\n"),
        (
            "    vni: 200\n    subnets: [10.0.0.0/24,",
            "    vni: 200\n    nat: small\n    routes: [{to: 0.0.0.0/0, internet: true}]\n    subnets: [10.0.0.0/20,",
        ),
        ("    vni: 300\n", "    vni: 300\n    routes: [{to: 0.0.0.0/0, internet: true}]\n"),
    ];
    edited(&text, &changes)
}

/// Starts a node that serves the region.
fn start(engine: SharedEngineFactory) -> Gateway {
    Gateway::start(engine, region())
}

fn ports_in_use(of: &Value) -> [u64; 3] {
    [0, 1, 2].map(|space| of["ports"][space]["used"].as_u64().expect("a number"))
}

/// Machines with some ports, one with all, and a NAT without a free block.
fn check_status(engine: SharedEngineFactory) {
    let mut gateway = start(engine);
    let text = gateway.run(&["show", "nat"]);
    assert!(text.contains("[....................]") && text.contains("0 of 2097152 sessions"), "{text}");
    let packets = [
        (UDP, (RED_A, 5000), (REMOTE, 53)),
        (UDP, (RED_A, 5000), (REMOTE, 54)),
        (TCP, (RED_A, 5000), (REMOTE, 80)),
        (ICMP, (RED_A, 77), (REMOTE, 0)),
    ];
    let sent = gateway.send(100, &packets, 4);
    let public = sent[0].1.0;
    assert!(sent.iter().all(|(_, from, _)| from.0 == public), "one public address: {sent:?}");
    let flood: Vec<(u8, Side, Side)> = (0..70).map(|port| (TCP, (RED_B, 1000 + port), (REMOTE, 80))).collect();
    gateway.send(100, &flood, 64);

    let status = gateway.json(&["show", "nat"]);
    let nat = &status["nats"][0];
    assert_eq!((&nat["name"], &nat["addresses"]), (&"public".into(), &"198.51.100.16/28".into()));
    assert_eq!(nat["source"], gateway.line("name: public").as_str());
    assert_eq!(ports_in_use(nat), [2, 65, 1]);
    assert_eq!([&nat["ports"][0]["capacity"], &nat["block_capacity"]], [16 * 64_512, 16 * 1008]);
    assert_eq!([&nat["blocks"], &nat["machines"], &nat["machines_at_limit"]], [2, 2, 1]);
    assert_eq!([&nat["refused"]["nat_quota"], &nat["refused"]["nat_no_ports"]], [6, 0]);
    assert_eq!([&status["refused"]["nat_quota"], &status["sessions"]["count"]], [6, 68]);
    let [most, next] = [0, 1].map(|row| &status["machines"][row]);
    assert_eq!([&most["vpc"], &most["machine"], &most["address"]], ["red", "red-b", "10.0.0.12"]);
    assert_eq!((ports_in_use(most), most["is_at_limit"].as_bool()), ([0, 64, 0], Some(true)));
    assert_eq!([&next["machine"], &next["public_address"]], ["red-a", &public.to_string()]);
    assert_eq!((ports_in_use(next), next["is_at_limit"].as_bool()), ([2, 1, 1], Some(false)));
    let text = gateway.run(&["show", "nat", "--top", "1"]);
    assert!(text.contains("red-b") && !text.contains("red-a") && text.contains("all its ports"), "{text}");
    let said = format!("{}: NAT public: 6 packets of new sessions were dropped", gateway.line("name: public"));
    assert!(text.contains(&said) && text.contains("raise `ports_per_vm`"), "{text}");
    let csv = gateway.run(&["show", "nat", "--format", "csv"]);
    assert!(csv.starts_with("NAT,ADDRESSES,BLOCKS,OF,%") && csv.lines().count() == 3, "{csv}");

    // One address has 1,008 blocks. Machines of blue that are not in the file have their addresses only.
    let machine = |number: u16| Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 1, 0).to_bits() + u32::from(number));
    let crowd: Vec<(u8, Side, Side)> = (0..1011).map(|number| (UDP, (machine(number), 9), (REMOTE, 9))).collect();
    gateway.send(200, &crowd, 1008);
    let status = gateway.json(&["show", "nat", "--top", "0"]);
    let nat = &status["nats"][1];
    assert_eq!([&nat["blocks"], &nat["full_addresses"], &nat["machines"]], [1008, 1, 1008]);
    assert_eq!([&nat["refused"]["nat_no_ports"], &status["refused"]["nat_no_ports"]], [3, 3]);
    let notes = status["notes"].as_array().expect("sentences");
    let line = gateway.line("name: small");
    let about = notes.iter().filter(|note| note.as_str().is_some_and(|note| note.starts_with(&line)));
    assert_eq!(about.count(), 2, "all blocks in use, and three packets dropped: {notes:?}");
    assert!(gateway.run(&["show", "nat", "--top", "0"]).contains("[####################]"));

    let metrics = Metrics::new(&gateway.node, Vec::new()).text();
    for sample in [
        "nat_ports{nat=\"public\",protocol=\"tcp\"} 65",
        "nat_port_capacity{nat=\"public\",protocol=\"tcp\"} 1032192",
        "nat_ports{nat=\"small\",protocol=\"udp\"} 1008",
        "nat_blocks{nat=\"public\"} 2",
        "nat_block_capacity{nat=\"small\"} 1008",
        "nat_full_addresses{nat=\"small\"} 1",
        "nat_refused_sessions_total{nat=\"public\",reason=\"nat_quota\"} 6",
        "nat_refused_sessions_total{nat=\"small\",reason=\"nat_no_ports\"} 3",
    ] {
        assert!(metrics.contains(sample), "{sample} is not in\n{metrics}");
    }
    gateway.run(&["reset-counters"]);
    let status = gateway.json(&["show", "nat"]);
    assert_eq!([&status["nats"][0]["refused"]["nat_quota"], &status["nats"][1]["refused"]["nat_no_ports"]], [0, 0]);
    assert_eq!((ports_in_use(&status["nats"][0]), &status["refused"]), ([2, 65, 1], &serde_json::json!({})));
    let metrics = Metrics::new(&gateway.node, Vec::new()).text();
    assert!(metrics.contains("nat_refused_sessions_total{nat=\"public\",reason=\"nat_quota\"} 6"), "metrics go on");

    // Sessions give their ports and blocks back.
    gateway.run(&["sessions", "delete", "sessions", "--match", "vpc=red"]);
    let status = gateway.json(&["show", "nat"]);
    assert_eq!((ports_in_use(&status["nats"][0]), status["nats"][0]["blocks"].as_u64()), ([0; 3], Some(0)));
    assert_eq!(status["nats"][1]["blocks"], 1008);
}

#[test]
fn the_nat_of_native_code_is_shown_as_packets_left_it() {
    check_status(native());
}

#[test]
fn the_reference_engine_shows_the_same_nat() {
    check_status(reference());
}

#[test]
fn an_address_or_a_port_leads_to_its_machine() {
    let mut gateway = start(native());
    let packets = [(UDP, (RED_A, 5000), (REMOTE, 53)), (TCP, (RED_A, 6000), (REMOTE, 80))];
    let sent = gateway.send(100, &packets, 2);
    let ((_, (public, port), _), tcp_port) = (sent[0], sent[1].1.1);
    let blue = gateway.send(200, &[(UDP, (RED_A, 5000), (REMOTE, 53))], 1)[0].1;

    let of_port = format!("{public}:{port}");
    let text = gateway.run(&["show", "nat", "--address", &of_port]);
    let said = format!("{of_port} is in use (udp) by VPC red, 10.0.0.11 (red-a)");
    assert!(text.contains(&said), "{text}");
    assert!(text.contains("203.0.113.200:53") && text.contains("10.0.0.11:5000"), "{text}");
    let document = gateway.json(&["show", "nat", "--address", &of_port]);
    assert_eq!(document["sessions"].as_array().map(Vec::len), Some(1));
    let block = &document["blocks"][0];
    assert_eq!(block["ports"][0]["used"], serde_json::json!([port]));
    assert_eq!(block["ports"][1]["used"], serde_json::json!([tcp_port]));
    let first = u16::try_from(block["first_port"].as_u64().expect("a number")).expect("a port");
    assert!(first.is_multiple_of(64) && (first..first + 64).contains(&port), "{block}");
    let unused = (first..first + 64).find(|other| ![port, tcp_port].contains(other)).expect("62 of them");
    let text = gateway.run(&["show", "nat", "--address", &format!("{public}:{unused}")]);
    let said = format!("{public}:{unused} is not in use; its block {first} to {} belongs to VPC red", first + 63);
    assert!(text.contains(&said), "{text}");
    let other = if first > 2048 { first - 64 } else { first + 64 };
    let text = gateway.run(&["show", "nat", "--address", &format!("{public}:{other}")]);
    assert!(text.contains("no machine has port") && text.contains("`nat_blocks`"), "{text}");

    // Two VPCs have the address of the machine.
    let document = gateway.json(&["show", "nat", "--address", "10.0.0.11"]);
    let vpcs: Vec<&Value> = document["blocks"].as_array().expect("blocks").iter().map(|block| &block["vpc"]).collect();
    assert_eq!(vpcs, ["red", "blue"]);
    let document = gateway.json(&["show", "nat", "--address", "10.0.0.11", "--vpc", "blue"]);
    let [block] = &document["blocks"].as_array().expect("blocks")[..] else { panic!("{document}") };
    assert_eq!([&block["machine"], &block["public_address"]], ["blue-a", &blue.0.to_string()]);

    let text = gateway.run(&["show", "nat", "--address", "198.51.100.16:443"]);
    let said = format!(
        "{}: tcp port 443 of 198.51.100.16 is port 8443 of VPC red, 10.0.0.12 (red-b)",
        gateway.line("port: 443")
    );
    assert!(text.contains(&said), "{text}");
    let text = gateway.run(&["show", "nat", "--address", "198.51.100.40"]);
    let line = gateway.line("address: 198.51.100.40");
    assert!(
        text.contains(&format!("{line}: 198.51.100.40 is the elastic address of VPC green, 10.3.0.12 (green-b)")),
        "{text}"
    );
    let text = gateway.run(&["show", "nat", "--address", "198.51.100.200"]);
    assert!(text.contains("the region file has neither a NAT nor an elastic address with 198.51.100.200"), "{text}");
    let (code, _, err) = terrace(&["show", "nat", "--address", "10.0.0", "--node", &gateway.socket]);
    assert!(code == 2 && err.contains("write an address"), "{err}");
}

#[test]
fn sessions_name_the_vpcs_of_the_region_file() {
    let mut gateway = start(native());
    let (_, (public, port), _) = gateway.send(100, &[(UDP, (RED_A, 5000), (REMOTE, 53))], 1)[0];
    gateway.send(200, &[(UDP, (RED_A, 5000), (REMOTE, 53))], 1);
    let text = gateway.run(&["show", "sessions", "sessions", "--match", "vpc=red"]);
    let row = "vpc=red, is_outbound=1, in_vpc=0, protocol=17, address=10.0.0.11, port=5000, remote=203.0.113.200, remote_port=53";
    assert!(text.contains(row) && text.lines().count() == 2, "{text}");
    let (from, is_inbound) = (format!("address={public}"), "is_outbound=0");
    let text = gateway.run(&["show", "sessions", "sessions", "--match", is_inbound, "--match", &from]);
    assert!(text.contains("vpc=-, is_outbound=0") && text.contains(&format!("port={port}")), "{text}");
    assert!(text.contains("to_vm(vpc=red, "), "{text}");
    let text = gateway.run(&["show", "table", "nat_source", "--filter", "vpc=green"]);
    assert!(text.contains("address=10.3.0.12") || text.contains("10.3.0.12"), "{text}");
}

/// A trace of a packet names the line of the region file, to the Internet and from it.
#[test]
fn traces_name_the_line_of_a_translation_in_both_directions() {
    let mut gateway = start(native());
    let machine = (UDP, (RED_A, 5000), (REMOTE, 53));
    let (_, public, _) = gateway.send(100, &[machine], 1)[0];
    let server = Ipv4Addr::new(192, 0, 2, 11);
    let out = |protocol: u8, vni: u32, from: Side| {
        gateway.trace(1, &from_server(1, server, vni, &ip_packet(protocol, from, (REMOTE, 53))))
    };
    let back = |protocol: u8, to: Side| gateway.trace(ISP, &from_internet(ISP, &ip_packet(protocol, (REMOTE, 53), to)));
    let said = format!("from {}: NAT public: session of VPC red, 10.0.0.11", gateway.line("name: public"));
    for text in [out(UDP, 100, machine.1), back(UDP, public)] {
        assert!(text.contains(&said), "{text}");
    }
    let said = format!(
        "from {}: VPC green: elastic address 198.51.100.40 of 10.3.0.12",
        gateway.line("address: 198.51.100.40")
    );
    for text in [out(UDP, 300, (GREEN_B, 7)), back(UDP, (ELASTIC, 7))] {
        assert!(text.contains(&said), "{text}");
    }
    let said = format!("from {}: VPC red: TCP port 443 of 198.51.100.16 to 10.0.0.12", gateway.line("port: 443"));
    for text in [out(TCP, 100, (RED_B, 8443)), back(TCP, (FORWARDING, 443))] {
        assert!(text.contains(&said), "{text}");
    }
}

/// A hypothetical packet gets the port that a real one gets then, and takes none; one beyond the quota is dropped.
fn check_new_sessions(engine: SharedEngineFactory) {
    let mut gateway = start(engine);
    let server = Ipv4Addr::new(192, 0, 2, 11);
    let explain = |gateway: &Gateway, (protocol, from, to): (u8, Side, Side)| {
        gateway.trace(1, &from_server(1, server, 100, &ip_packet(protocol, from, to)))
    };
    for port in 5000..5010 {
        let packet = (UDP, (RED_A, port), (REMOTE, 53));
        let before = gateway.json(&["show", "nat"])["nats"][0].clone();
        let text = explain(&gateway, packet);
        assert_eq!(gateway.json(&["show", "nat"])["nats"][0], before, "an explanation takes no port");
        let (_, (address, public_port), _) = gateway.send(100, &[packet], 1)[0];
        for part in [
            format!(
                "added to gateway.nat_session.sessions: (vpc=0x2, is_outbound=1, in_vpc=0, protocol=17, address=10.0.0.11, port={port}, remote=203.0.113.200, remote_port=53) -> gateway.nat_session.to_internet(address={address}, port={public_port})"
            ),
            format!(
                "address={address}, port={public_port}, remote=203.0.113.200, remote_port=53) -> gateway.nat_session.to_vm(vpc=0x2, vni=0x64, address=10.0.0.11, port={port}, mss=65535)"
            ),
        ] {
            assert!(text.contains(&part), "{part} is not in\n{text}");
        }
    }
    let flood: Vec<(u8, Side, Side)> = (0..64).map(|port| (TCP, (RED_B, 1000 + port), (REMOTE, 80))).collect();
    gateway.send(100, &flood, 64);
    let beyond = (TCP, (RED_B, 999), (REMOTE, 80));
    assert!(explain(&gateway, beyond).ends_with("=> dropped: nat_quota\n"));
    assert_eq!(gateway.json(&["show", "nat"])["nats"][0]["refused"]["nat_quota"], 0, "an explanation is not counted");
}

#[test]
fn a_hypothetical_packet_gets_the_port_that_a_real_one_gets() {
    check_new_sessions(native());
}

#[test]
fn the_reference_engine_explains_new_sessions_alike() {
    check_new_sessions(reference());
}
