//! Checks services: their entries with the line of each, the slots of backends by state, what edits leave
//! of them, and problems.

use crate::support::{pipeline, visit};
use entries::format_entry;
use expect_test::{Expect, expect};
use ir::KeyMatch;
use region::{Document, RegionPart, ResolvedRegion};
use std::collections::BTreeMap;

const REGION: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks:
- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}
servers:
- {name: s, address: 192.0.2.11, uplinks: [u]}
internet:
  uplinks: [u]
  nats: [{name: n, addresses: 203.0.113.0/31}]
  elastic: [{address: 203.0.113.40, vpc: a, vm: 10.0.0.13}]
  forwards: [{address: 203.0.113.50, protocol: tcp, port: 25, vpc: a, vm: 10.0.0.12}]
vpcs:
- name: a
  vni: 1
  subnets: [10.0.0.0/24]
  route_tables: [{name: t, routes: [{to: 10.0.0.64/26, blackhole: true}]}]
  policy: [{from: 10.0.0.12/32, table: t}]
  services:
  - {name: web, address: 10.0.0.100, public: 203.0.113.1, protocol: tcp, port: 80, max_backends: 2, affinity: client, backends: [
      {vm: 10.0.0.11, port: 8080, weight: 3},
      {vm: 10.0.0.12, port: 8080}]}
  - {name: dns, address: 10.0.0.100, protocol: udp, port: 53, max_backends: 2, backends: [
      {vm: 10.0.0.11, state: draining},
      {vm: 10.0.0.12, state: down}]}
  - {name: out, public: 203.0.113.60, protocol: udp, port: 443, max_backends: 1, backends: [{vm: 10.0.0.11}]}
- {name: b, vni: 2, subnets: [10.1.0.0/24], tcp_mss: 1300}
- {name: c, vni: 3, subnets: [10.2.0.0/24]}
peerings: [{between: [a, b]}]
vms:
- {name: a1, vpc: a, server: s, mac: '02:00:00:00:00:11', addresses: [10.0.0.11]}
- {name: a2, vpc: a, server: s, mac: '02:00:00:00:00:12', addresses: [10.0.0.12]}
- {name: a3, vpc: a, server: s, mac: '02:00:00:00:00:13', addresses: [10.0.0.13]}
- {name: b1, vpc: b, server: s, mac: '02:00:00:00:00:14', addresses: [10.1.0.11]}
";

/// Returns the entries that have to do with services, each with its line. Of the slots, only the first.
fn entries_of_services(region: &ResolvedRegion, pipeline: &ir::Pipeline, part: &RegionPart) -> Vec<String> {
    let find = |name: &str| entries::find_table(pipeline, name).unwrap();
    let all = ["services", "service_choice.backends", "members", "forwards", "tenant"].map(find);
    let (route, gateways) = (find("route_v4"), find("subnet_gateway_v4"));
    let (slots, own) = (find("slots"), find("own_address_v4"));
    let mut found = Vec::new();
    visit(region, pipeline, part, |entry, line| {
        let is_host = |key: &KeyMatch| matches!(key, KeyMatch::Lpm { prefix_len: 32, .. });
        let is_first = entry.keys.last() == Some(&KeyMatch::Exact(0_u8.into()));
        if all.contains(&entry.table)
            || entry.table == own
            || (entry.table == route || entry.table == gateways) && is_host(&entry.keys[1])
            || entry.table == slots && is_first
        {
            found.push(format!("{line}: {}", format_entry(pipeline, &entry).replace("gateway.", "")));
        }
    });
    found
}

#[test]
fn entries_have_their_lines() {
    let (region, pipeline) = (region::parse("r.yaml", REGION).unwrap(), pipeline());
    expect![[r#"
        2: classify.own_address_v4: destination=0xc0000201 -> classify.tunnel_address()
        9: classify.own_address_v4: destination=0xcb007100 -> classify.public_address()
        19: classify.own_address_v4: destination=0xcb007101 -> classify.forwarding_address()
        11: classify.own_address_v4: destination=0xcb007132 -> classify.forwarding_address()
        25: classify.own_address_v4: destination=0xcb00713c -> classify.forwarding_address()
        13: tenancy.tenant: vni=0x1 -> tenancy.set_vpc_with(vpc=0x0, instance=0x0, refused=0, strict=0, answers=0, limits=0, mss_v4=65535, mss_v6=65535, groups=0, services=1)
        22: routing.route_v4: instance=0x0, destination=0xa000064/32 -> routing.service(vpc=0x0, acl=0x0, vni=0x1)
        26: tenancy.tenant: vni=0x2 -> tenancy.set_vpc_with(vpc=0x1, instance=0x2, refused=0, strict=0, answers=0, limits=1, mss_v4=1300, mss_v6=1300, groups=0, services=0)
        22: routing.route_v4: instance=0x2, destination=0xa000064/32 -> routing.service(vpc=0x0, acl=0x0, vni=0x1)
        27: tenancy.tenant: vni=0x3 -> tenancy.set_vpc(vpc=0x2, instance=0x3, refused=0)
        10: classify.own_address_v4: destination=0xcb007128 -> classify.elastic_address(vpc=0x0, vni=0x1, vm=0xa00000d, mss=65535)
        11: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=6, address=0xcb007132, port=25 -> nat_forward.forward_to_vm(vpc=0x0, vni=0x1, address=0xa00000c, port=25, mss=65535)
        11: nat_forward.forwards: vpc=0x0, is_outbound=1, protocol=6, address=0xa00000c, port=25 -> nat_forward.forward_to_internet(address=0xcb007132, port=25)
        19: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=6, address=0xcb007101, port=80 -> nat_forward.forward_to_service(vpc=0x0, vni=0x1, address=0xa000064, mss=65535, slots=0x3f1, by_client=1, max_connections=0x80000)
        25: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=17, address=0xcb00713c, port=443 -> nat_forward.forward_to_service(vpc=0x0, vni=0x1, address=0xcb00713c, mss=65535, slots=0x3f1, by_client=0, max_connections=0x80000)
        22: icmp_source.subnet_gateway_v4: vpc=0x0, address=0xa000064/32 -> icmp_source.gateway_v4(gateway=0xa000064, host_bits=0xff)
        19: service_port.services: vpc=0x0, address=0xa000064, protocol=6, port=80 -> service_port.service(slots=0x3f1, by_client=1, max_connections=0x80000)
        19: service_choice.slots: vpc=0x0, address=0xa000064, protocol=6, port=80, eight=0 -> service_choice.eight_slots(backends=0x1000001000001)
        20: service_choice.backends: vpc=0x0, address=0xa000064, protocol=6, port=80, backend=0 -> service_choice.backend(address=0xa00000b, port=8080, other_address=0xa00000c, other_backend_port=8080)
        21: service_choice.backends: vpc=0x0, address=0xa000064, protocol=6, port=80, backend=1 -> service_choice.backend(address=0xa00000c, port=8080, other_address=0xa00000b, other_backend_port=8080)
        20: service_backend.members: vpc=0x0, protocol=6, vm=0xa00000b, port=8080 -> service_backend.serves(address=0xa000064, public=0xcb007101, port=80)
        21: service_backend.members: vpc=0x0, protocol=6, vm=0xa00000c, port=8080 -> service_backend.serves(address=0xa000064, public=0xcb007101, port=80)
        22: service_port.services: vpc=0x0, address=0xa000064, protocol=17, port=53 -> service_port.service(slots=0x3f1, by_client=0, max_connections=0x80000)
        23: service_backend.members: vpc=0x0, protocol=17, vm=0xa00000b, port=53 -> service_backend.serves(address=0xa000064, public=0x0, port=53)
        24: service_backend.members: vpc=0x0, protocol=17, vm=0xa00000c, port=53 -> service_backend.is_down(address=0xa000064, public=0x0, port=53)
        25: service_choice.slots: vpc=0x0, address=0xcb00713c, protocol=17, port=443, eight=0 -> service_choice.eight_slots(backends=0x0)
        25: service_choice.backends: vpc=0x0, address=0xcb00713c, protocol=17, port=443, backend=0 -> service_choice.backend(address=0xa00000b, port=443, other_address=0x0, other_backend_port=0)
        25: service_backend.members: vpc=0x0, protocol=17, vm=0xa00000b, port=443 -> service_backend.serves(address=0x0, public=0xcb00713c, port=443)"#]].assert_eq(&entries_of_services(&region, &pipeline, &RegionPart::Whole).join("\n"));
}

/// Returns how many slots of `web` each backend has, by its place in the file.
fn shares(text: &str) -> BTreeMap<u8, usize> {
    let (region, pipeline) = (region::parse("r.yaml", text).unwrap(), pipeline());
    let slots = entries::find_table(&pipeline, "slots").unwrap();
    let mut bytes = Vec::new();
    visit(&region, &pipeline, &RegionPart::Whole, |entry, _| {
        if entry.table == slots && entry.keys[3] == KeyMatch::Exact(80_u8.into()) {
            let ir::KeyMatch::Exact(eight) = &entry.keys[4] else { panic!("exact") };
            let text = format_entry(&pipeline, &entry);
            let number = text.split("backends=0x").nth(1).unwrap().trim_end_matches(')');
            let number = u64::from_str_radix(number, 16).unwrap();
            bytes.push((eight.clone(), number.to_le_bytes()));
        }
    });
    let mut shares = BTreeMap::new();
    let all: Vec<u8> = bytes.into_iter().flat_map(|(_, bytes)| bytes).collect();
    for number in all.into_iter().take(1009) {
        *shares.entry(number).or_default() += 1;
    }
    shares
}

#[test]
fn backends_that_are_up_have_slots_by_their_weights() {
    assert_eq!(shares(REGION), BTreeMap::from([(0, 756), (1, 253)]));
    let drained = REGION.replace("weight: 3}", "weight: 3, state: draining}");
    assert_eq!(shares(&drained), BTreeMap::from([(1, 1009)]));
    let down = REGION.replace("weight: 3}", "weight: 3, state: down}");
    assert_eq!(shares(&down), BTreeMap::from([(1, 1009)]));
    let none = down.replace("{vm: 10.0.0.12, port: 8080}", "{vm: 10.0.0.12, port: 8080, state: down}");
    assert_eq!(shares(&none), BTreeMap::new());
}

/// An edit of a VPC with services in it alone is read as an edit; one of public services is not, because
/// their addresses belong to the underlay.
#[test]
fn edits_equal_a_whole_reading() {
    let private = REGION.replace(" public: 203.0.113.1,", "").replace("public: 203.0.113.60,", "address: 10.0.0.101,");
    let pipeline = pipeline();
    let edits = [
        ("weight: 3}", "weight: 5}", true),
        ("{vm: 10.0.0.11, state: draining}", "{vm: 10.0.0.11}", true),
        ("addresses: [10.0.0.13]}", "addresses: [10.0.0.14]}", false),
        ("addresses: [10.1.0.11]}", "addresses: [10.1.0.12]}", true),
        ("subnets: [10.1.0.0/24]", "subnets: [10.1.0.0/23]", true),
        // A backend, and the address of a service.
        ("addresses: [10.0.0.11]}", "addresses: [10.0.0.15]}", false),
        ("addresses: [10.0.0.12]}", "addresses: [10.0.0.12, 10.0.0.100]}", false),
    ];
    for (from, to, is_edit) in edits {
        let mut document = Document::parse("r.yaml", private.clone()).unwrap();
        let text = private.replace(from, to);
        let edit = document.edit(&text);
        assert_eq!(edit.is_some(), is_edit, "{from}");
        let Some(edit) = edit else { continue };
        document.apply(edit);
        let whole = Document::parse("r.yaml", text).unwrap();
        let of = |document: &Document| entries_of_services(&document.region, &pipeline, &RegionPart::Whole);
        assert_eq!(of(&document), of(&whole), "{from}");
    }
    let document = Document::parse("r.yaml", REGION.to_owned()).unwrap();
    assert!(document.edit(&REGION.replace("weight: 3}", "weight: 5}")).is_none());
}

/// Checks the problems of the region with a text replaced.
#[track_caller]
fn check(from: &str, to: &str, expected: Expect) {
    assert!(REGION.contains(from), "{from}");
    let found = match region::parse("r.yaml", &REGION.replacen(from, to, 1)) {
        Ok(_) => "no problem".to_owned(),
        Err(problems) => problems.to_string(),
    };
    expected.assert_eq(&found);
}

#[test]
fn addresses_of_services() {
    check(
        "web, address: 10.0.0.100",
        "web, address: 10.0.0.11",
        expect![[r#"
        r.yaml:19:26: 10.0.0.11 is the address of a machine in line 30
            help: use an address that no machine has"#]],
    );
    check(
        "web, address: 10.0.0.100",
        "web, address: 10.9.0.1",
        expect![[r#"
        r.yaml:19:26: 10.9.0.1 is in no subnet of VPC `a`
            help: correct the address, or add its subnet to the VPC"#]],
    );
    check(
        "web, address: 10.0.0.100",
        "web, address: 10.0.0.1",
        expect![[r#"
        r.yaml:19:26: 10.0.0.1 is the address of the gateway in 10.0.0.0/24
            help: use another address, or move the gateway's with `gateways`"#]],
    );
    check(
        "web, address: 10.0.0.100",
        "web, address: 10.0.0.255",
        expect![[r#"
        r.yaml:19:26: 10.0.0.255 is the network or broadcast address of 10.0.0.0/24
            help: use an address between them"#]],
    );
    check(
        "web, address: 10.0.0.100",
        "web, address: 'fd00::1'",
        expect![[r#"
        r.yaml:19:26: fd00::1 can't be the address of a service: it is of IPv6
            help: use an IPv4 address"#]],
    );
    check(
        "public: 203.0.113.60, ",
        "",
        expect![[r#"
        r.yaml:25:12: the service `out` has no address
            help: add `address`, `public`, or both"#]],
    );
    check(
        "subnets: [10.0.0.0/24]",
        "subnets: [10.0.0.0/26, 10.0.0.100/31]",
        expect![[r#"
        r.yaml:19:26: 10.0.0.100 is in 10.0.0.100/31, which has room for machines alone
            help: use an address of a larger subnet
        r.yaml:22:26: 10.0.0.100 is in 10.0.0.100/31, which has room for machines alone
            help: use an address of a larger subnet"#]],
    );
    check(
        "dns, address: 10.0.0.100, protocol: udp, port: 53",
        "dns, address: 10.0.0.100, protocol: tcp, port: 80",
        expect![[r#"
            r.yaml:22:26: TCP port 80 of 10.0.0.100 has a service already, in line 19
                help: use another address or port"#]],
    );
    check(
        "name: dns",
        "name: web",
        expect![[r#"
        r.yaml:22:12: service `web` is declared twice, first in line 19
            help: rename one of them"#]],
    );
}

#[test]
fn public_addresses_of_services() {
    check(
        "public: 203.0.113.1,",
        "public: 203.0.113.40,",
        expect![[r#"
        r.yaml:19:46: 203.0.113.40 is an elastic address, in line 10
            help: all ports of it reach its machine: use another address"#]],
    );
    check(
        "public: 203.0.113.1,",
        "public: 192.0.2.11,",
        expect![[r#"
        r.yaml:19:46: 192.0.2.11 is the address of `s` in line 6
            help: use an address that nothing else has"#]],
    );
    check(
        "public: 203.0.113.1,",
        "public: '2001:db8::1',",
        expect![[r#"
        r.yaml:19:46: 2001:db8::1 can't stand for a machine: it is of IPv6
            help: use an IPv4 address; over IPv6, machines have public addresses of their own"#]],
    );
    check(
        "public: 203.0.113.1, protocol: tcp, port: 80",
        "public: 203.0.113.1, protocol: tcp, port: 8080",
        expect![[r#"
            r.yaml:19:80: port 8080 of 203.0.113.1 can be in use: the NAT of 203.0.113.0/31 in line 9 gives out 1024 to 65535
                help: use a port below, or an address that no NAT has"#]],
    );
    check(
        "public: 203.0.113.1, protocol: tcp, port: 80",
        "public: 203.0.113.50, protocol: tcp, port: 25",
        expect![[r#"
            r.yaml:19:46: TCP port 25 of 203.0.113.50 is in use already, in line 11
                help: use another address or port"#]],
    );
    check(
        "public: 203.0.113.60, protocol: udp, port: 443",
        "public: 203.0.113.1, protocol: tcp, port: 80",
        expect![[r#"
            r.yaml:25:25: TCP port 80 of 203.0.113.1 is in use already, in line 19
                help: use another address or port"#]],
    );
    check(
        "port: 443",
        "port: 4789",
        expect![[r#"
        r.yaml:25:60: UDP port 4789 can't be public: packets to it are taken for VXLAN
            help: use another port"#]],
    );
    check(
        "{vm: 10.0.0.12, port: 8080}",
        "{vm: 10.0.0.12, port: 25}",
        expect![[r#"
        r.yaml:21:12: TCP port 25 of 10.0.0.12 has a port forward, in line 11
            help: answers from the port can have one public address: use another port"#]],
    );
    let start = REGION.find("internet:").unwrap();
    let end = REGION.find("vpcs:").unwrap();
    check(
        &REGION[start..end],
        "",
        expect![[r#"
        r.yaml:14:46: 203.0.113.1 can't be reached: the region has no `internet`
            help: add `internet: {uplinks: [...]}`, or remove `public`
        r.yaml:20:25: 203.0.113.60 can't be reached: the region has no `internet`
            help: add `internet: {uplinks: [...]}`, or remove `public`"#]],
    );
}

#[test]
fn weights_and_ports() {
    check(
        "weight: 3",
        "weight: 0",
        expect![[r#"
        r.yaml:20:43: the weight 0 is out of range
            help: use 1 to 100; a backend that takes no new connections has `state: draining`"#]],
    );
    check(
        "weight: 3",
        "weight: 101",
        expect![[r#"
        r.yaml:20:43: the weight 101 is out of range
            help: use 1 to 100; a backend that takes no new connections has `state: draining`"#]],
    );
    check(
        "port: 8080, weight",
        "port: 0, weight",
        expect![[r#"
        r.yaml:20:29: 0 is no port
            help: use 1 to 65535"#]],
    );
    check(
        "port: 80,",
        "port: 0,",
        expect![[r#"
        r.yaml:19:80: 0 is no port
            help: use 1 to 65535"#]],
    );
}

#[test]
fn machines_of_backends() {
    check(
        "{vm: 10.0.0.12, port: 8080}",
        "{vm: 10.0.0.11, port: 8080}",
        expect![[r#"
        r.yaml:21:12: TCP port 8080 of 10.0.0.11 is a backend already, in line 20
            help: its answers can have one address: use another port for each service"#]],
    );
    check(
        "{vm: 10.0.0.12, port: 8080}",
        "{vm: 10.0.0.99, port: 8080}",
        expect![[r#"
        r.yaml:21:12: no machine of VPC `a` has the address 10.0.0.99
            help: correct the address, or add the machine to `vms`"#]],
    );
    check(
        "{vm: 10.0.0.12, port: 8080}",
        "{vm: 10.1.0.11, port: 8080}",
        expect![[r#"
        r.yaml:21:12: no machine of VPC `a` has the address 10.1.0.11
            help: correct the address, or add the machine to `vms`"#]],
    );
    check(
        "{vm: 10.0.0.12, port: 8080}",
        "{vm: 'fd00::5', port: 8080}",
        expect![[r#"
        r.yaml:21:12: fd00::5 can't be a backend: it is of IPv6
            help: name the machine by its IPv4 address"#]],
    );
    check(
        "udp, port: 53, max_backends: 2, backends: [",
        "tcp, port: 8080, max_backends: 2, backends: [",
        expect![[r#"
            r.yaml:23:12: TCP port 8080 of 10.0.0.11 is a backend already, in line 20
                help: its answers can have one address: use another port for each service
            r.yaml:24:12: TCP port 8080 of 10.0.0.12 is a backend already, in line 21
                help: its answers can have one address: use another port for each service"#]],
    );
}

#[test]
fn number_of_backends() {
    check(
        "max_backends: 2, affinity",
        "max_backends: 1, affinity",
        expect![[r#"
        r.yaml:21:12: the service `web` has more than 1 backends, up to here
            help: raise `max_backends`, up to 100: new connections are distributed anew"#]],
    );
    check(
        "max_backends: 2, affinity",
        "max_backends: 0, affinity",
        expect![[r#"
        r.yaml:19:98: `max_backends: 0` is out of range
            help: use 1 to 100"#]],
    );
    check(
        "max_backends: 2, affinity",
        "max_backends: 101, affinity",
        expect![[r#"
        r.yaml:19:98: `max_backends: 101` is out of range
            help: use 1 to 100"#]],
    );
}

#[test]
fn words_of_services_and_backends() {
    check(
        "affinity: client",
        "affinity: server",
        expect![[r#"
        r.yaml:19:111: `server` is none of connection, client
            help: write one of connection, client"#]],
    );
    check(
        "state: draining",
        "state: drained",
        expect![[r#"
        r.yaml:23:30: `drained` is none of up, draining, down
            help: write one of up, draining, down"#]],
    );
}

/// Names each problem once, however many services have it.
#[test]
fn numbers_of_services() {
    let services = |count: usize, rest: &str| {
        let one = |n: usize| {
            format!("  - {{name: x{n}, address: 10.0.0.101, protocol: tcp, port: {}, {rest}backends: []}}\n", n + 1)
        };
        let all: String = (0..count).map(one).collect();
        REGION.replacen("  services:\n", &format!("  services:\n{all}"), 1)
    };
    assert!(region::parse("r.yaml", &services(253, "")).is_ok());
    let problems = region::parse("r.yaml", &services(255, "")).unwrap_err().to_string();
    assert!(problems.contains("VPC `a` has more than 256 services, up to here"), "{problems}");
}
