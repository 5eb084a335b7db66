//! Checks NAT64: entries with their lines, numbers of machines over changes of the file, edits, and problems.

use crate::support::{entries_of, pipeline};
use expect_test::{Expect, expect};
use region::{Document, IdAssignments, RegionPart};

const REGION: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks:
- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}
servers:
- {name: s, address: 192.0.2.11, uplinks: [u]}
internet:
  uplinks: [u]
  nats: [{name: n, addresses: 198.51.100.16/30, ports_per_vm: 128}]
vpcs:
- name: a
  vni: 1
  subnets: ['fd00:a::/64']
  nat: n
  nat64: {}
  route_tables: [{name: t, routes: [{to: '2001:db8::/32', blackhole: true}]}]
- {name: b, vni: 2, subnets: [10.0.0.0/24, 'fd00:b::/64'], nat: n, nat64: {prefix: '2001:db8:64::/96'}}
- {name: c, vni: 3, subnets: ['fd00:c::/64']}
vms:
- {name: a1, vpc: a, server: s, mac: '02:00:00:00:00:11', addresses: ['fd00:a::11', 'fd00:a::12']}
- {name: b1, vpc: b, server: s, mac: '02:00:00:00:00:12', addresses: [10.0.0.11, 'fd00:b::11']}
- {name: c1, vpc: c, server: s, mac: '02:00:00:00:00:13', addresses: ['fd00:c::11']}
";

const TABLES: [&str; 5] = ["route_v6", "nat64_source", "nat64_vm", "nat_source.nat_source", "datagram_limits"];

#[test]
fn entries_have_their_lines() {
    let (region, pipeline) = (region::parse("r.yaml", REGION).unwrap(), pipeline());
    let found = entries_of(&region, &pipeline, &RegionPart::Whole, &TABLES).join("\n").replace("gateway.", "");
    expect![[r#"
        13: routing.route_v6: instance=0x0, destination=0xfd00000a000000000000000000000000/64 -> routing.local(mask=0x0, word=2)
        16: routing.route_v6: instance=0x1, destination=0x20010db8000000000000000000000000/32 -> routing.blackhole()
        13: routing.route_v6: instance=0x1, destination=0xfd00000a000000000000000000000000/64 -> routing.local(mask=0x0, word=2)
        17: routing.route_v6: instance=0x2, destination=0xfd00000b000000000000000000000000/64 -> routing.local(mask=0x0, word=2)
        18: routing.route_v6: instance=0x3, destination=0xfd00000c000000000000000000000000/64 -> routing.local(mask=0x0, word=2)
        11: fragments.datagram_limits: vpc=0x0 -> fragments.limit_datagrams(datagrams=0x10000)
        17: fragments.datagram_limits: vpc=0x1 -> fragments.limit_datagrams(datagrams=0x10000)
        14: nat_source.nat_source: vpc=0x0, source=0x0/0 -> nat_source.no_nat()
        17: nat_source.nat_source: vpc=0x1, source=0xa000000/24 -> nat_source.translate_subnet(first_vm=0xa000000, first_subscriber=0x0, first_public=0xc6336410, first_number=0x0, count=0x4, blocks=0x2)
        17: nat_source.nat_source: vpc=0x1, source=0x0/0 -> nat_source.no_nat()
        15: routing.route_v6: instance=0x0, destination=0x64ff9b000000000000000000000000/96 -> routing.nat64(transit=65535)
        15: routing.route_v6: instance=0x1, destination=0x64ff9b000000000000000000000000/96 -> routing.nat64(transit=65535)
        17: routing.route_v6: instance=0x2, destination=0x20010db8006400000000000000000000/96 -> routing.nat64(transit=65535)
        15: nat_source.nat64_source.nat64_source: vpc=0x0, source=0xfd00000a000000000000000000000011 -> nat_source.nat64_source.translate_v6(number=0x0, first_public=0xc6336410, first_number=0x0, count=0x4, blocks=0x2)
        15: nat64_arrival.nat64_vm: vpc=0x0, number=0x0 -> nat64_arrival.vm_with_number(vpc_prefix=0x64ff9b0000000000000000, address=0xfd00000a000000000000000000000011)
        15: nat_source.nat64_source.nat64_source: vpc=0x0, source=0xfd00000a000000000000000000000012 -> nat_source.nat64_source.translate_v6(number=0x1, first_public=0xc6336410, first_number=0x0, count=0x4, blocks=0x2)
        15: nat64_arrival.nat64_vm: vpc=0x0, number=0x1 -> nat64_arrival.vm_with_number(vpc_prefix=0x64ff9b0000000000000000, address=0xfd00000a000000000000000000000012)
        17: nat_source.nat64_source.nat64_source: vpc=0x1, source=0xfd00000b000000000000000000000011 -> nat_source.nat64_source.translate_v6(number=0x2, first_public=0xc6336410, first_number=0x0, count=0x4, blocks=0x2)
        17: nat64_arrival.nat64_vm: vpc=0x1, number=0x2 -> nat64_arrival.vm_with_number(vpc_prefix=0x20010db80064000000000000, address=0xfd00000b000000000000000000000011)"#]]
    .assert_eq(&found);
}

fn numbers_of(text: &str, numbers: &mut IdAssignments) -> Vec<(String, u32)> {
    numbers.assign(&region::parse("r.yaml", text).unwrap());
    let by_machine = &numbers.nat64_machines.by_machine;
    by_machine.iter().map(|((vpc, address), number)| (format!("{vpc} {address}"), *number)).collect()
}

/// A number is the identity of a machine in its sessions, so that of a removed one is not given out at once.
#[test]
fn machines_keep_their_numbers_and_freed_ones_come_last() {
    let mut numbers = IdAssignments::default();
    let named = |found: &[(&str, u32)]| -> Vec<(String, u32)> {
        found.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    };
    let first = numbers_of(REGION, &mut numbers);
    assert_eq!(first, named(&[("a fd00:a::11", 0), ("a fd00:a::12", 1), ("b fd00:b::11", 2)]));
    let without = REGION.replace(", 'fd00:a::12'", "");
    assert_eq!(numbers_of(&without, &mut numbers), named(&[("a fd00:a::11", 0), ("b fd00:b::11", 2)]));
    // The same address in another VPC is another machine.
    let other = without.replace("'fd00:b::11'", "'fd00:b::11', 'fd00:b::12'").replace("fd00:a::11", "fd00:a::13");
    let found = numbers_of(&other, &mut numbers);
    assert_eq!(found, named(&[("a fd00:a::13", 3), ("b fd00:b::11", 2), ("b fd00:b::12", 4)]));
}

/// Machines of such a VPC are edited without reading the whole file, and the VPC is not, because its NAT has
/// ranges of numbers.
#[test]
fn edits_of_machines_have_the_entries_of_a_whole_reading() {
    let pipeline = pipeline();
    let new = REGION.replace("addresses: ['fd00:a::11', 'fd00:a::12']", "addresses: ['fd00:a::14', 'fd00:a::12']");
    let mut document = Document::parse("r.yaml", REGION.to_owned()).unwrap();
    let edit = document.edit(&new).expect("an edit of machines");
    document.apply(edit);
    let whole = region::parse("r.yaml", &new).unwrap();
    let of = |region: &_| entries_of(region, &pipeline, &RegionPart::Whole, &TABLES);
    assert_eq!(of(&document.region), of(&whole));
    assert!(
        Document::parse("r.yaml", REGION.to_owned())
            .unwrap()
            .edit(&REGION.replace("nat64: {}", "max_flows: 9"))
            .is_none()
    );
}

#[track_caller]
fn check(replacements: &[(&str, &str)], expected: Expect) {
    let mut text = REGION.to_owned();
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let problems = region::parse("r.yaml", &text).expect_err("a wrong file").to_string();
    expected.assert_eq(&problems);
}

#[test]
fn problems_name_the_line_and_the_fix() {
    check(
        &[("  nat: n\n", "")],
        expect![[r#"
        r.yaml:14:10: VPC `a` has `nat64`, and no `nat`
            help: name a NAT in `nat`: its public addresses stand for the machines"#]],
    );
    check(
        &[("'fd00:a::/64'", "10.1.0.0/24"), ("['fd00:a::11', 'fd00:a::12']", "[10.1.0.11]")],
        expect![[r#"
        r.yaml:15:10: VPC `a` has `nat64`, and no subnet of IPv6
            help: add a subnet, or remove it"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefix: 10.0.0.0/8}")],
        expect![[r#"
        r.yaml:15:19: 10.0.0.0/8 is of IPv4, and `nat64` needs a prefix of IPv6
            help: use a prefix of 96 bits, such as 64:ff9b::/96: hosts of IPv4 are behind it"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefix: '64:ff9b::/64'}")],
        expect![[r#"
        r.yaml:15:19: 64:ff9b::/64 has 64 bits, and an IPv4 address is behind 96
            help: use a prefix of 96 bits, such as 64:ff9b::/96 (RFC 6052)"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefix: '2001:db8:0:0:100::/96'}")],
        expect![[r#"
        r.yaml:15:19: bits 64 to 71 of 2001:db8:0:0:100::/96 are not 0
            help: use a prefix with zeros there (RFC 6052, section 2.2)"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefix: 'fd00:a::/96'}")],
        expect![[r#"
        r.yaml:15:19: fd00:a::/96 overlaps the subnet fd00:a::/64 of VPC `a` in line 13
            help: use a prefix that no machine has an address of, such as 64:ff9b::/96"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefix: '::/96'}")],
        expect![[r#"
        r.yaml:15:19: ::/96 can't be a subnet: each address of it is an unspecified, loopback or IPv4-compatible address (::/96, RFC 4291, section 2.5.5.1)
            help: use a smaller or another range of unicast addresses"#]],
    );
    check(
        &[("'2001:db8::/32', blackhole", "'64:ff9b::/96', blackhole")],
        expect![[r#"
        r.yaml:16:42: 64:ff9b::/96 has a route, and is the prefix of `nat64` in line 15
            help: remove the route: `nat64` has one of its own"#]],
    );
    check(
        &[("nat64: {}", "nat64:")],
        expect![[r#"
        r.yaml:15:8: a mapping without a value
            help: write `{}` for the defaults, or remove the key"#]],
    );
    check(
        &[("nat64: {}", "nat64: {prefixes: []}")],
        expect![[r#"
        r.yaml:15:11: there is no key `prefixes` here
            help: did you mean `prefix`?"#]],
    );
    check(
        &[("  nats: [{name: n, addresses: 198.51.100.16/30, ports_per_vm: 128}]\n", "")],
        expect![[r#"
        r.yaml:1:9: `internet` has no public addresses
            help: add some to `nats`, `elastic`, `forwards` or services, or `ipv6_internet` to a VPC, or remove `internet`
        r.yaml:13:8: there is no NAT `n`
            help: declare the NAT `n`, or name one that is declared
        r.yaml:16:65: there is no NAT `n`
            help: declare the NAT `n`, or name one that is declared"#]],
    );
}
