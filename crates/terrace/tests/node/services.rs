//! Tests `terrace show services` on nodes that serve a region file. Values are held against the frames that servers got.

use super::command::root;
use super::gateway_node::{Gateway, ISP};
use super::gateway_packets::{Side, TCP, from_internet, from_server, ip_packet};
use super::text_edits::edited;
use node::engine::{SharedEngineFactory, native, reference};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const RED: u32 = 100;
const SERVICE: Side = (Ipv4Addr::new(10, 0, 0, 100), 443);
const PUBLIC: Side = (Ipv4Addr::new(198, 51, 100, 60), 443);
/// Connections from the Internet, and from a machine of the VPC.
const FROM_INTERNET: u16 = 300;
const FROM_VPC: u16 = 90;

/// The lab's region with two services of `red`: `web` has backends in each state, and `dns` has none that is up.
fn region() -> String {
    let text = std::fs::read_to_string(root().join("tests/regions/plain.yaml")).unwrap();
    let services = "    services:
      - name: web
        address: 10.0.0.100
        public: 198.51.100.60
        protocol: tcp
        port: 443
        backends:
          - {vm: 10.0.0.11, port: 8443, weight: 2}
          - {vm: 10.0.0.12, port: 8443}
          - {vm: 10.0.1.13, port: 8443, state: draining}
      - {name: dns, address: 10.0.0.100, protocol: udp, port: 53, backends: [{vm: 10.0.0.11, state: down}]}
";
    let with_services = format!("    vni: 100\n{services}");
    let changes = [
        (
            "\nservers:\n",
            "  - {name: to-isp, port: 6, mac: 02:00:00:06:00:01, peer_mac: 02:00:00:06:00:02, mtu: 1500}\n\n\
             internet:\n  uplinks: [to-isp]\n\nservers:\n",
        ),
        ("    vni: 100\n", &with_services),
    ];
    edited(&text, &changes)
}

/// Opens the connections, and returns how many each backend got.
fn open_connections(gateway: &mut Gateway) -> BTreeMap<Ipv4Addr, u64> {
    let client = Ipv4Addr::new(203, 0, 113, 200);
    let inside = Ipv4Addr::new(10, 0, 0, 50);
    for port in 0..FROM_INTERNET {
        let frame = from_internet(ISP, &ip_packet(TCP, (client, 2000 + port), PUBLIC));
        assert!(gateway.wires[usize::from(ISP) - 1].send_bytes(&frame).unwrap());
    }
    for port in 0..FROM_VPC {
        let packet = ip_packet(TCP, (inside, 2000 + port), SERVICE);
        let frame = from_server(1, Ipv4Addr::new(192, 0, 2, 11), RED, &packet);
        assert!(gateway.wires[0].send_bytes(&frame).unwrap());
    }
    let mut found = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    while found.values().sum::<u64>() < u64::from(FROM_INTERNET + FROM_VPC) {
        assert!(Instant::now() < deadline, "{found:?}, {:?}", gateway.node.drops());
        for wire in &mut gateway.wires[..2] {
            while let Some(packet) = wire.take() {
                // Behind outer Ethernet, IPv4, UDP, VXLAN and inner Ethernet.
                let ip = &packet.bytes()[64..];
                let backend = Ipv4Addr::from(<[u8; 4]>::try_from(&ip[16..20]).expect("four bytes"));
                assert_eq!(ip[22..24], 8443_u16.to_be_bytes(), "the port of the backend");
                *found.entry(backend).or_default() += 1;
            }
        }
    }
    found
}

fn service<'a>(status: &'a Value, name: &str) -> &'a Value {
    let services = status["services"].as_array().expect("a list");
    services.iter().find(|service| service["name"] == name).expect("the service")
}

fn check_services(engine: SharedEngineFactory) {
    let mut gateway = Gateway::start(engine, region());
    let found = open_connections(&mut gateway);
    let [a, b] = [11, 12].map(|host| found[&Ipv4Addr::new(10, 0, 0, host)]);
    assert!(a > b, "twice the weight: {found:?}");

    let status = gateway.json(&["show", "services"]);
    let web = service(&status, "web");
    assert_eq!(web["source"], gateway.line("name: web").as_str());
    assert_eq!([&web["address"], &web["public"]], ["10.0.0.100", "198.51.100.60"]);
    assert_eq!([&web["connections"], &web["stale_connections"]], [&json!(a + b), &json!(0)]);
    let row = |index: usize| {
        let backend = &web["backends"][index];
        ["machine", "state", "connections", "share"].map(|name| backend[name].clone())
    };
    assert_eq!(row(0), [json!("red-a"), json!("up"), json!(a), json!(2.0 / 3.0)]);
    assert_eq!(row(1), [json!("red-b"), json!("up"), json!(b), json!(1.0 / 3.0)]);
    assert_eq!(row(2), [json!("red-c"), json!("draining"), json!(0), json!(0.0)]);
    assert_eq!(status["sessions"]["count"], a + b);

    let text = gateway.run(&["show", "services"]);
    let row = text.lines().find(|line| line.contains("10.0.0.11:8443")).expect("a row of the backend");
    let cells: Vec<&str> = row.split_whitespace().collect();
    let share = format!("{:.1}", a as f64 * 100.0 / (a + b) as f64);
    assert_eq!(cells, ["red", "web", "red-a", "10.0.0.11:8443", "up", "2", &a.to_string(), &share, "66.7"]);
    let note = "service dns of VPC red takes no new connections, because its backend is not `up`";
    assert!(text.contains(&format!("{}: {note}", gateway.line("name: dns"))), "{text}");
    let csv = gateway.run(&["show", "services", "--format", "csv"]);
    assert!(csv.starts_with("VPC,SERVICE,MACHINE,BACKEND,STATE") && csv.lines().count() == 5, "{csv}");

    // Connections of a backend that left the file are named until their next packet.
    let without = region().replacen("          - {vm: 10.0.0.12, port: 8443}\n", "", 1);
    std::fs::write(gateway.file(), without).unwrap();
    gateway.node.apply_region(None).unwrap();
    let status = gateway.json(&["show", "services"]);
    let web = service(&status, "web");
    assert_eq!([&web["connections"], &web["stale_connections"]], [&json!(a + b), &json!(b)]);
}

#[test]
fn connections_in_native_code_are_shown_by_backend() {
    check_services(native());
}

#[test]
fn the_reference_engine_shows_the_same_connections() {
    check_services(reference());
}

#[test]
fn a_region_without_services_says_which_key_adds_one() {
    let text = std::fs::read_to_string(root().join("tests/regions/plain.yaml")).unwrap();
    let gateway = Gateway::start(native(), text);
    assert_eq!(gateway.run(&["show", "services"]).trim(), "the region has no service (`services` of a VPC)");
}
