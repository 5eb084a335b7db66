//! Checks elastic addresses and port forwards: their entries with the line of each, what other changes
//! leave of them, and problems.

use crate::support::{entries_of, pipeline};
use expect_test::{Expect, expect};
use region::{Document, RegionPart, ResolvedRegion};

const REGION: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks:
- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}
servers:
- {name: s, address: 192.0.2.11, uplinks: [u]}
internet:
  uplinks: [u]
  nats:
  - {name: n, addresses: 203.0.113.0/31}
  elastic:
  - {address: 203.0.113.40, vpc: a, vm: 10.0.0.11}
  - {address: 203.0.113.41, vpc: b, vm: 10.0.0.11}
  forwards:
  - {address: 203.0.113.1, protocol: tcp, port: 443, vpc: a, vm: 10.0.0.12, vm_port: 8443}
  - {address: 203.0.113.1, protocol: udp, port: 53, vpc: a, vm: 10.0.0.12}
  - {address: 203.0.113.50, protocol: tcp, port: 8080, vpc: b, vm: 10.0.0.12}
vpcs:
- {name: a, vni: 1, subnets: [10.0.0.0/24], nat: n}
- {name: b, vni: 2, subnets: [10.0.0.0/24], tcp_mss: 1300}
vms:
- {name: a1, vpc: a, server: s, mac: '02:00:00:00:00:11', addresses: [10.0.0.11]}
- {name: a2, vpc: a, server: s, mac: '02:00:00:00:00:12', addresses: [10.0.0.12]}
- {name: b1, vpc: b, server: s, mac: '02:00:00:00:00:13', addresses: [10.0.0.11]}
- {name: b2, vpc: b, server: s, mac: '02:00:00:00:00:14', addresses: [10.0.0.12]}
";

/// Returns the entries of a part that translate addresses, each with its line in the file.
fn translations(region: &ResolvedRegion, pipeline: &ir::Pipeline, part: &RegionPart) -> Vec<String> {
    entries_of(region, pipeline, part, &["own_address_v4", "nat_source", "forwards"])
}

#[test]
fn entries_have_their_lines() {
    let (region, pipeline) = (region::parse("r.yaml", REGION).unwrap(), pipeline());
    let found = translations(&region, &pipeline, &RegionPart::Whole).join("\n").replace("gateway.", "");
    expect![[r#"
        2: classify.own_address_v4: destination=0xc0000201 -> classify.tunnel_address()
        10: classify.own_address_v4: destination=0xcb007100 -> classify.public_address()
        15: classify.own_address_v4: destination=0xcb007101 -> classify.forwarding_address()
        17: classify.own_address_v4: destination=0xcb007132 -> classify.forwarding_address()
        19: nat_source.nat_source: vpc=0x0, source=0xa000000/24 -> nat_source.translate_subnet(first_vm=0xa000000, first_subscriber=0x0, first_public=0xcb007100, first_number=0x0, count=0x2, blocks=0x10)
        19: nat_source.nat_source: vpc=0x0, source=0x0/0 -> nat_source.no_nat()
        12: classify.own_address_v4: destination=0xcb007128 -> classify.elastic_address(vpc=0x0, vni=0x1, vm=0xa00000b, mss=65535)
        12: nat_source.nat_source: vpc=0x0, source=0xa00000b/32 -> nat_source.translate_vm(address=0xcb007128)
        13: classify.own_address_v4: destination=0xcb007129 -> classify.elastic_address(vpc=0x1, vni=0x2, vm=0xa00000b, mss=1300)
        13: nat_source.nat_source: vpc=0x1, source=0xa00000b/32 -> nat_source.translate_vm(address=0xcb007129)
        15: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=6, address=0xcb007101, port=443 -> nat_forward.forward_to_vm(vpc=0x0, vni=0x1, address=0xa00000c, port=8443, mss=65535)
        15: nat_forward.forwards: vpc=0x0, is_outbound=1, protocol=6, address=0xa00000c, port=8443 -> nat_forward.forward_to_internet(address=0xcb007101, port=443)
        16: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=17, address=0xcb007101, port=53 -> nat_forward.forward_to_vm(vpc=0x0, vni=0x1, address=0xa00000c, port=53, mss=65535)
        16: nat_forward.forwards: vpc=0x0, is_outbound=1, protocol=17, address=0xa00000c, port=53 -> nat_forward.forward_to_internet(address=0xcb007101, port=53)
        17: nat_forward.forwards: vpc=0x0, is_outbound=0, protocol=6, address=0xcb007132, port=8080 -> nat_forward.forward_to_vm(vpc=0x1, vni=0x2, address=0xa00000c, port=8080, mss=1300)
        17: nat_forward.forwards: vpc=0x1, is_outbound=1, protocol=6, address=0xa00000c, port=8080 -> nat_forward.forward_to_internet(address=0xcb007132, port=8080)
        15: nat_source.nat_source: vpc=0x0, source=0xa00000c/32 -> nat_source.translate_with_forwards(first_vm=0xa000000, first_subscriber=0x0, first_public=0xcb007100, first_number=0x0, count=0x2, blocks=0x10)
        17: nat_source.nat_source: vpc=0x1, source=0xa00000c/32 -> nat_source.translate_forwards()"#]].assert_eq(&found);
    let of_public = translations(&region, &pipeline, &RegionPart::PublicAddresses);
    let of_vpcs = translations(&region, &pipeline, &RegionPart::Vpcs([0, 1].into()));
    assert_eq!(of_public.len(), 12, "two for each address, two for each forward, one for each machine with forwards");
    assert!(of_public.iter().all(|entry| of_vpcs.contains(entry)), "they belong to the VPCs");
}

#[test]
fn a_subnet_of_one_machine_has_the_entry_of_the_machine() {
    let text = REGION
        .replace("{name: a, vni: 1, subnets: [10.0.0.0/24]", "{name: a, vni: 1, subnets: [10.0.0.11/32, 10.0.0.12/32]");
    let (region, pipeline) = (region::parse("r.yaml", &text).unwrap(), pipeline());
    let found = translations(&region, &pipeline, &RegionPart::Whole);
    for (machine, action) in [("0xa00000b/32", "translate_vm"), ("0xa00000c/32", "translate_with_forwards")] {
        let of_machine: Vec<&String> =
            found.iter().filter(|entry| entry.contains("nat_source: vpc=0x0") && entry.contains(machine)).collect();
        assert!(of_machine.len() == 1 && of_machine[0].contains(action), "{of_machine:?}");
    }
}

#[test]
fn a_region_can_have_elastic_addresses_and_no_nat() {
    let text = REGION.replace("  nats:\n  - {name: n, addresses: 203.0.113.0/31}\n", "").replace(", nat: n", "");
    let region = region::parse("r.yaml", &text).unwrap();
    let found = translations(&region, &pipeline(), &RegionPart::Whole);
    assert!(!found.iter().any(|entry| entry.contains("no_nat") || entry.contains("translate_subnet")), "{found:?}");
    assert_eq!(found.iter().filter(|entry| entry.contains("translate_forwards")).count(), 2, "{found:?}");
}

#[test]
fn a_machine_with_a_public_address_stays_in_an_edit() {
    let document = Document::parse("r.yaml", REGION.to_owned()).unwrap();
    let other_mac = REGION.replace("02:00:00:00:00:13", "02:00:00:00:00:23");
    assert!(document.edit(&other_mac).is_some(), "the address of the machine is as before");
    assert!(document.edit(&REGION.replace("vpc: b, vm", "vpc: a, vm")).is_none(), "`internet` is read as a whole");
    let gone =
        REGION.replace("- {name: b1, vpc: b, server: s, mac: '02:00:00:00:00:13', addresses: [10.0.0.11]}\n", "");
    assert!(document.edit(&gone).is_none());
    let problems = region::parse("r.yaml", &gone).unwrap_err().to_string();
    assert!(problems.starts_with("r.yaml:13:41: no machine of VPC `b` has the address 10.0.0.11"), "{problems}");
}

#[test]
fn answers_to_arp_are_for_each_public_address_on_uplinks_to_the_internet() {
    let text = REGION.replace("  uplinks: [u]\n", "  uplinks: [u]\n  answer_arp: true\n");
    let (region, pipeline) = (region::parse("r.yaml", &text).unwrap(), pipeline());
    let found = entries_of(&region, &pipeline, &RegionPart::Whole, &["public_arp"]);
    let arp = "gateway.classify.punt.public_arp";
    let of = |line: u32, address: u32| {
        let action = format!("{arp}.answer_arp(port=0x1, mac=0x20000000101)");
        format!("{line}: {arp}.public_arp: port=1, vid=0, address={address:#x} -> {action}")
    };
    let lines = [(11, 0xcb00_7100), (11, 0xcb00_7101), (13, 0xcb00_7128), (14, 0xcb00_7129), (18, 0xcb00_7132)];
    assert_eq!(found, lines.map(|(line, address)| of(line, address)));
    let region = region::parse("r.yaml", REGION).unwrap();
    assert!(entries_of(&region, &pipeline, &RegionPart::Whole, &["public_arp"]).is_empty());
    check(
        "  uplinks: [u]\n  nats:",
        "  answer_arp: true\n  nats:",
        expect![[r#"
        r.yaml:10:12: no uplink reaches `the Internet`
            help: name at least one in `uplinks`
        r.yaml:10:12: `answer_arp` without `uplinks`: on no link of the Internet
            help: name the uplinks in `uplinks`, or remove `answer_arp`"#]],
    );
}

/// `datagram_limits`: of VPCs with a NAT, forwards or a limit, and of a service and its peer.
#[test]
fn datagrams_are_noted_where_flows_are_judged_or_translated() {
    let pipeline = pipeline();
    let limits = |text: &str| {
        let region = region::parse("r.yaml", text).unwrap_or_else(|problems| panic!("{problems}"));
        entries_of(&region, &pipeline, &RegionPart::Whole, &["datagram_limits"]).join("\n").replace("gateway.", "")
    };
    expect![[r#"
        19: fragments.datagram_limits: vpc=0x0 -> fragments.limit_datagrams(datagrams=0x10000)
        20: fragments.datagram_limits: vpc=0x1 -> fragments.limit_datagrams(datagrams=0x10000)"#]]
    .assert_eq(&limits(REGION));
    let elastic_only = REGION.find("  forwards:").unwrap()..REGION.find("vpcs:").unwrap();
    let mut text = REGION.to_owned();
    text.replace_range(elastic_only, "");
    let more = "- {name: c, vni: 3, subnets: [10.3.0.0/24], max_datagrams: 9}
- {name: d, vni: 4, subnets: [10.4.0.0/24]}
- {name: e, vni: 5, subnets: [10.5.0.0/24], services: [{name: s, address: 10.5.0.9, protocol: udp, port: 53, backends: []}]}
- {name: f, vni: 6, subnets: [10.6.0.0/24]}
peerings: [{between: [e, f]}]
vms:
";
    expect![[r#"
        15: fragments.datagram_limits: vpc=0x0 -> fragments.limit_datagrams(datagrams=0x10000)
        17: fragments.datagram_limits: vpc=0x2 -> fragments.limit_datagrams(datagrams=0x9)
        19: fragments.datagram_limits: vpc=0x4 -> fragments.limit_datagrams(datagrams=0x10000)
        20: fragments.datagram_limits: vpc=0x5 -> fragments.limit_datagrams(datagrams=0x10000)"#]]
    .assert_eq(&limits(&text.replace("vms:\n", more)));
}

/// Checks the problems of the region with one text in the place of another.
fn check(from: &str, to: &str, expected: Expect) {
    assert!(REGION.contains(from), "{from}");
    let problems = region::parse("r.yaml", &REGION.replacen(from, to, 1));
    expected.assert_eq(&problems.map_or_else(|problems| problems.to_string(), |_| "no problem".to_owned()));
}

#[test]
fn problems_of_addresses() {
    check(
        "203.0.113.40",
        "203.0.113.0",
        expect![[r#"
        r.yaml:12:15: 203.0.113.0 is one of the NAT's 203.0.113.0/31 in line 10
            help: use an address that no NAT has, or a shorter range for the NAT"#]],
    );
    check(
        "203.0.113.40",
        "203.0.113.41",
        expect![[r#"
        r.yaml:13:15: 203.0.113.41 is an elastic address already, in line 12
            help: give each machine an address of its own"#]],
    );
    check(
        "203.0.113.40",
        "192.0.2.11",
        expect![[r#"
        r.yaml:12:15: 192.0.2.11 is the address of `s` in line 6
            help: use an address that nothing else has"#]],
    );
    check(
        "203.0.113.40",
        "192.0.2.1",
        expect![[r#"
        r.yaml:12:15: 192.0.2.1 is the address of `the gateway` in line 2
            help: use an address that nothing else has"#]],
    );
    check(
        "203.0.113.40",
        "224.0.0.1",
        expect![[r#"
        r.yaml:12:15: 224.0.0.1 can't be a public address: it is a multicast address (224.0.0.0/4, RFC 1112, section 4)
            help: use a unicast address that routers forward"#]],
    );
    check(
        "203.0.113.40",
        "'2001:db8::1'",
        expect![[r#"
        r.yaml:12:15: 2001:db8::1 can't stand for a machine: it is of IPv6
            help: use an IPv4 address; over IPv6, machines have public addresses of their own"#]],
    );
    check(
        "203.0.113.40",
        "203.0.113.50",
        expect![[r#"
        r.yaml:17:15: 203.0.113.50 is an elastic address, in line 12
            help: all ports of it reach its machine: remove one of both"#]],
    );
    check(
        "203.0.113.50",
        "192.0.2.1",
        expect![[r#"
        r.yaml:17:15: 192.0.2.1 is the address of `the gateway` in line 2
            help: use an address that nothing else has"#]],
    );
}

#[test]
fn problems_of_machines() {
    check(
        "vpc: a, vm: 10.0.0.11",
        "vpc: c, vm: 10.0.0.11",
        expect![[r#"
        r.yaml:12:34: there is no VPC `c`
            help: did you mean `a`?"#]],
    );
    check(
        "vpc: a, vm: 10.0.0.11",
        "vpc: b, vm: 10.0.0.11",
        expect![[r#"
        r.yaml:13:41: 10.0.0.11 has an elastic address already, in line 12
            help: give it one; a machine with several addresses can have one for each"#]],
    );
    check(
        "vpc: a, vm: 10.0.0.11",
        "vpc: a, vm: 10.0.0.13",
        expect![[r#"
        r.yaml:12:41: no machine of VPC `a` has the address 10.0.0.13
            help: correct the address or the VPC, or add the machine to `vms`"#]],
    );
    check(
        "vpc: a, vm: 10.0.0.11",
        "vpc: a, vm: 10.0.0.12",
        expect![[r#"
        r.yaml:15:66: 10.0.0.12 has an elastic address, in line 12
            help: all its ports are public: remove the forward or the address
        r.yaml:16:65: 10.0.0.12 has an elastic address, in line 12
            help: all its ports are public: remove the forward or the address"#]],
    );
    check(
        "vm: 10.0.0.12}\n  - {address: 203.0.113.50",
        "vm: 10.0.0.11}\n  - {address: 203.0.113.50",
        expect![[r#"
        r.yaml:16:65: 10.0.0.11 has an elastic address, in line 12
            help: all its ports are public: remove the forward or the address"#]],
    );
}

#[test]
fn problems_of_ports() {
    check(
        "port: 443",
        "port: 1024",
        expect![[r#"
        r.yaml:15:49: port 1024 of 203.0.113.1 can be in use: the NAT of 203.0.113.0/31 in line 10 gives out 1024 to 65535
            help: use a port below, or an address that no NAT has"#]],
    );
    check(
        "port: 443",
        "port: 0",
        expect![[r#"
        r.yaml:15:49: 0 is no port
            help: use 1 to 65535"#]],
    );
    check(
        "protocol: tcp, port: 443",
        "protocol: udp, port: 53",
        expect![[r#"
        r.yaml:16:49: UDP port 53 of 203.0.113.1 is forwarded in line 15
            help: use another port or address"#]],
    );
    check(
        "protocol: udp, port: 53",
        "protocol: tcp, port: 54, vm_port: 8443",
        expect![[r#"
        r.yaml:16:62: TCP port 8443 of 10.0.0.12 has a forward in line 15
            help: answers from the port can have one public port: use another one"#]],
    );
    check(
        "protocol: tcp, port: 8080",
        "protocol: udp, port: 4789",
        expect![[r#"
        r.yaml:17:50: UDP port 4789 can't be forwarded: packets to it are taken for VXLAN
            help: use another port"#]],
    );
    check(
        "port: 8080",
        "port: 0x50",
        expect![[r#"
        r.yaml:17:50: the number `0x50` is not in plain decimal digits
            help: write 80"#]],
    );
    check(
        "protocol: tcp, port: 8080",
        "protocol: icmp, port: 8080",
        expect![[r#"
        r.yaml:17:39: `icmp` is none of tcp, udp
            help: did you mean `tcp`?"#]],
    );
}

#[test]
fn an_internet_without_addresses() {
    let start = REGION.find("  nats:").unwrap();
    let end = REGION.find("vpcs:").unwrap();
    let text = format!("{}{}", &REGION[..start], &REGION[end..]).replace(", nat: n", "");
    let problems = region::parse("r.yaml", &text).unwrap_err().to_string();
    expect![[r#"
        r.yaml:1:9: `internet` has no public addresses
            help: add some to `nats`, `elastic`, `forwards` or services, or `ipv6_internet` to a VPC, or remove `internet`"#]]
    .assert_eq(&problems);
}

#[test]
fn as_many_addresses_as_the_table_has_room_for() {
    let region = |count: u32| {
        let (mut text, mut vms) = (String::new(), String::new());
        for n in 0..count {
            let address = std::net::Ipv4Addr::from(0xcb00_8000 + n);
            let vm = std::net::Ipv4Addr::from(0x0b00_0001 + n);
            text += &format!("  - {{address: {address}, vpc: b, vm: {vm}}}\n");
            vms += &format!(
                "- {{name: n{n}, vpc: b, server: s, mac: '02:00:00:01:{:02x}:{:02x}', addresses: [{vm}]}}\n",
                n >> 8,
                n & 255
            );
        }
        let file = REGION.replace("  forwards:\n", &(text + "  forwards:\n")) + &vms;
        file.replace("vni: 2, subnets: [10.0.0.0/24]", "vni: 2, subnets: [10.0.0.0/24, 11.0.0.0/16]")
    };
    assert!(region::parse("r.yaml", &region(2044)).is_ok(), "with two and the two addresses of forwards");
    let problems = region::parse("r.yaml", &region(2047)).unwrap_err().to_string();
    assert!(problems.contains("there are more than 2048 elastic addresses, up to here"), "{problems}");
    let problems = region::parse("r.yaml", &region(2046)).unwrap_err().to_string();
    assert!(problems.contains("or 2048 public addresses with them"), "{problems}");
}
