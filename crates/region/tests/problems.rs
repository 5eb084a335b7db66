//! Checks that problems of a region file have a position and a fix.

use expect_test::{Expect, expect};

const UNDERLAY: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
";

/// Checks `text` appended to the underlay above (from line 5).
fn check(text: &str, expected: Expect) {
    check_file(&format!("{UNDERLAY}{text}"), expected);
}

fn check_file(text: &str, expected: Expect) {
    let found = match region::parse("r.yaml", text) {
        Ok(_) => "no problem".to_owned(),
        Err(problems) => problems.to_string(),
    };
    expected.assert_eq(&found);
}

#[test]
fn the_example_is_right() {
    check_file(include_str!("../../../examples/lab.yaml"), expect!["no problem"]);
}

#[test]
fn overlapping_subnets() {
    check(
        "vpcs:\n- {name: a, vni: 1, subnets: [10.0.0.0/16, 10.0.3.0/24, 10.1.0.0/16]}\n",
        expect![[r#"
            r.yaml:6:44: subnet 10.0.3.0/24 overlaps 10.0.0.0/16 in line 6
                help: make the subnets of a VPC disjoint"#]],
    );
}

#[test]
fn host_bits() {
    check(
        "vpcs:\n- {name: a, vni: 1, subnets: [10.0.0.1/24]}\n",
        expect![[r#"
        r.yaml:6:31: 10.0.0.1/24 has bits set after its prefix length
            help: write 10.0.0.0/24"#]],
    );
}

#[test]
fn unknown_vpc_with_a_guess() {
    check(
        "vpcs:\n- {name: front, vni: 1, subnets: [10.0.0.0/24]}\nvms:\n- {name: v, vpc: frint, server: s, mac: '02:00:00:00:00:09', addresses: [10.0.0.5]}\n",
        expect![[r#"
            r.yaml:8:18: there is no VPC `frint`
                help: did you mean `front`?"#]],
    );
}

#[test]
fn a_vni_twice_or_out_of_range() {
    check(
        "vpcs:\n- {name: a, vni: 7}\n- {name: b, vni: 7}\n- {name: c, vni: 16777216}\n",
        expect![[r#"
        r.yaml:7:18: VNI 7 is used twice, first in line 6
            help: give each VPC a VNI of its own
        r.yaml:8:18: VNI 16777216 is out of range
            help: use 1 to 16777215"#]],
    );
}

#[test]
fn a_duplicate_vm() {
    check(
        "vpcs:\n- {name: a, vni: 1, subnets: [10.0.0.0/24]}\nvms:\n\
         - {name: v, vpc: a, server: s, mac: '02:00:00:00:00:09', addresses: [10.0.0.5]}\n\
         - {name: v, vpc: a, server: s, mac: '02:00:00:00:00:09', addresses: [10.0.0.5]}\n",
        expect![[r#"
            r.yaml:9:10: VM `v` is declared twice, first in line 8
                help: rename one of them
            r.yaml:9:37: 02:00:00:00:00:09 belongs to VM `v` of the same VPC already, in line 8
                help: give each machine of a VPC addresses of its own
            r.yaml:9:70: 10.0.0.5 belongs to VM `v` of the same VPC already, in line 8
                help: give each machine of a VPC addresses of its own"#]],
    );
}

#[test]
fn machines_outside_of_their_subnets() {
    check(
        "vpcs:\n- {name: a, vni: 1, subnets: [10.0.0.0/24]}\nvms:\n\
         - {name: v, vpc: a, server: s, mac: '03:00:00:00:00:09', addresses: [10.0.1.5, 10.0.0.255]}\n\
         - {name: w, vpc: a, server: s, mac: '02:00:00:00:00:01', addresses: []}\n",
        expect![[r#"
            r.yaml:8:37: 03:00:00:00:00:09 is not the address of one host
                help: use a unicast MAC address (first byte even)
            r.yaml:8:70: 10.0.1.5 is in no subnet of VPC `a`
                help: correct the address, or add its subnet to the VPC
            r.yaml:8:80: 10.0.0.255 is the network or broadcast address of 10.0.0.0/24
                help: use an address between them
            r.yaml:9:10: VM `w` has no address
                help: add one to `addresses`
            r.yaml:9:37: 02:00:00:00:00:01 is the gateway's MAC address
                help: give the machine one of its own"#]],
    );
}

#[test]
fn peering_rules() {
    check(
        "vpcs:\n- {name: a, vni: 1, subnets: [10.0.0.0/24], routes: [{to: 10.9.0.0/16, peer: c}]}\n\
         - {name: b, vni: 2, subnets: [10.0.0.0/16]}\n- {name: c, vni: 3}\n\
         peerings:\n- between: [a, b]\n- between: [b, a]\n- between: [c, c]\n- between: [a, nope]\n",
        expect![[r#"
            r.yaml:6:78: `a` and `c` are not peered
                help: add `- between: [a, c]` to `peerings`
            r.yaml:10:13: peered VPCs have overlapping subnets: 10.0.0.0/16 of `b` (line 7) and 10.0.0.0/24 of `a` (line 6)
                help: renumber one of the VPCs, or remove the peering
            r.yaml:11:13: the peering of `b` and `a` is declared twice
                help: remove one of the two
            r.yaml:12:16: VPC `c` is peered with itself
                help: name two different VPCs
            r.yaml:13:16: there is no VPC `nope`
                help: declare the VPC `nope`, or name one that is declared"#]],
    );
}

#[test]
fn a_peering_loop() {
    check(
        "vpcs:\n- {name: a, vni: 1, routes: [{to: 10.9.0.0/16, peer: b}]}\n\
         - {name: b, vni: 2, routes: [{to: 10.9.1.0/24, peer: c}]}\n\
         - {name: c, vni: 3, routes: [{to: 10.9.1.0/25, peer: a}]}\n\
         peerings:\n- between: [a, b]\n- between: [b, c]\n- between: [c, a]\n",
        expect![[r#"
            r.yaml:6:30: the route to 10.9.1.0/25 is a peering loop: a -> b -> c -> a
                help: let one of these VPCs route the prefix elsewhere
            r.yaml:7:30: the route to 10.9.1.0/25 is a peering loop: b -> c -> a -> b
                help: let one of these VPCs route the prefix elsewhere
            r.yaml:8:30: the route to 10.9.1.0/25 is a peering loop: c -> a -> b -> c
                help: let one of these VPCs route the prefix elsewhere"#]],
    );
}

#[test]
fn five_peerings_in_a_row() {
    let mut text = String::from("vpcs:\n");
    for (i, name) in ["a", "b", "c", "d", "e", "f"].iter().enumerate() {
        let next = ["b", "c", "d", "e", "f"].get(i);
        let route =
            next.map_or("{to: 10.9.0.0/16, blackhole: true}".to_owned(), |n| format!("{{to: 10.9.0.0/16, peer: {n}}}"));
        text += &format!("- {{name: {name}, vni: {}, routes: [{route}]}}\n", i + 1);
    }
    text +=
        "peerings: [{between: [a, b]}, {between: [b, c]}, {between: [c, d]}, {between: [d, e]}, {between: [e, f]}]\n";
    check(
        &text,
        expect![[r#"
        r.yaml:6:30: the route to 10.9.0.0/16 passes more than 4 peerings: a -> b -> c -> d -> e -> f
            help: peer the first and the last VPC directly"#]],
    );
}

#[test]
fn routes_need_one_target() {
    check(
        "remotes: [{name: hq, kind: idc, address: 192.0.2.50, mac: '02:00:00:00:05:01', uplinks: [u]}]\n\
         vpcs:\n- name: a\n  vni: 1\n  routes:\n  - {to: 10.0.0.0/8}\n  - {to: 11.0.0.0/8, internet: true, blackhole: true}\n  \
         - {to: 12.0.0.0/8, remote: hq}\n  - {to: 13.0.0.0/8, internet: true, vni: 5}\n  - {to: 13.0.0.0/8, internet: true}\n",
        expect![[r#"
            r.yaml:10:5: the route to 10.0.0.0/8 needs one target
                help: give exactly one of `peer`, `remote`, `internet: true`, `blackhole: true`
            r.yaml:11:5: the route to 11.0.0.0/8 needs one target
                help: give exactly one of `peer`, `remote`, `internet: true`, `blackhole: true`
            r.yaml:12:30: remote `hq` has no VNI of its own, and the route gives none
                help: add `vni` to the route or to the remote
            r.yaml:13:43: only a route to a remote has a VNI
                help: remove `vni`
            r.yaml:14:5: there are two routes to 13.0.0.0/8: see line 13
                help: keep one (a VPC's subnets, and its peers', are routes too)"#]],
    );
}

#[test]
fn policy_routes() {
    check(
        "vpcs:\n- name: a\n  vni: 1\n  route_tables: [{name: t}]\n  policy: [{from: 10.0.0.0/8, table: t}, {from: 10.0.0.0/8, table: x}]\n",
        expect![[r#"
            r.yaml:9:49: source 10.0.0.0/8 has two route tables: see line 9
                help: keep one of them
            r.yaml:9:68: there is no route table `x`
                help: did you mean `t`?"#]],
    );
}

#[test]
fn acl_rules() {
    check(
        "vpcs:\n- name: a\n  vni: 1\n  acl:\n  - {priority: 0, action: deny}\n  - {priority: 5, action: deny, ports: 80}\n  \
         - {priority: 5, action: permit, direction: egress}\n  - {priority: 6, action: permit, from: 10.0.0.0/8, to: '::/0'}\n",
        expect![[r#"
            r.yaml:9:16: priority 0 is out of range
                help: use 1 to 16777216; greater wins
            r.yaml:10:40: ports are given, but the protocol has none
                help: add `protocol: tcp`, `udp`, `sctp`, `udplite` or `dccp`, or remove the ports; ICMP has `icmp_type`
            r.yaml:11:16: priority 5 is used twice, first in line 10
                help: give each rule of a VPC and direction a priority of its own
            r.yaml:12:57: `from` and `to` are of different IP versions: no packet can match
                help: write one rule for each version"#]],
    );
}

#[test]
fn limits_of_flows_and_connections() {
    check(
        "vpcs:
- {name: a, vni: 1, subnets: [10.0.0.0/24], max_flows: 0, security_groups: [{name: g, rules: []}]}
- {name: b, vni: 2, subnets: [10.1.0.0/24], max_flows: 4194305, security_groups: [{name: g, rules: []}]}
- {name: c, vni: 3, subnets: [10.2.0.0/24], max_flows: 100}
- {name: d, vni: 4, subnets: [10.3.0.0/24], max_connections: 100}
- {name: e, vni: 5, subnets: [10.4.0.0/24], max_connections: 2097153, services: [{name: s, address: 10.4.0.100, protocol: tcp, port: 1}]}
- {name: f, vni: 6, subnets: [10.5.0.0/24], max_datagrams: 262145}
",
        expect![[r#"
            r.yaml:6:56: `max_flows: 0` of VPC `a` is out of range
                help: use 1 to 4194304, the size of the table
            r.yaml:7:56: `max_flows: 4194305` of VPC `b` is out of range
                help: use 1 to 4194304, the size of the table
            r.yaml:8:56: VPC `c` has `max_flows`, and no security groups: its flows are not tracked
                help: remove it, or write `security_groups`
            r.yaml:9:62: VPC `d` has `max_connections`, and no services
                help: remove it, or write `services`
            r.yaml:10:62: `max_connections: 2097153` of VPC `e` is out of range
                help: use 1 to 2097152, the size of the table
            r.yaml:11:60: `max_datagrams: 262145` of VPC `f` is out of range
                help: use 1 to 262144, the size of the table"#]],
    );
}

#[test]
fn values_of_the_wrong_form() {
    check(
        "vpcs:\n- {name: a, vni: 1, acl: [{priority: 1, action: deny, protocol: tcp, ports: 9-1}]}\n",
        expect![[r#"
            r.yaml:6:77: the range `9-1` ends before it begins: write 1-9
                help: see docs/reference/region.md, or the schema that `terrace region schema` prints"#]],
    );
    check(
        "vpcs:\n- {name: a, vni: x}\n",
        expect![[r#"
            r.yaml:6:18: `x` is not a whole number from 0 to 4294967295
                help: write it in decimal digits, without quotes"#]],
    );
    check(
        "vpcs:\n- {name: a, vni: 1, colour: red}\n",
        expect![[r#"
            r.yaml:6:21: there is no key `colour` here
                help: the keys here are name, vni, subnets, gateways, answer, tcp_mss, nat, ipv6_internet, nat64, services, routes, route_tables, policy, acl, acl_default, security_groups, keep_established, tcp_pick_up, max_flows, max_connections, max_datagrams, strict_sources, drop"#]],
    );
    check(
        "vpcs: [",
        expect![[r#"
        r.yaml:5:7: unclosed bracket '['
            help: see docs/reference/region.md, or the schema that `terrace region schema` prints"#]],
    );
    check(
        "vpcs: &a [*a]",
        expect![[r#"
            r.yaml:5:11: the anchor contains itself
                help: write the value out"#]],
    );
}

#[test]
fn the_underlay() {
    check_file(
        "region: 'a b'\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1, 192.0.2.2]}\n\
         uplinks:\n- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02', mtu: 900}\n\
         - {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}\n\
         servers:\n- {name: s, address: 192.0.2.1, uplinks: [w]}\n- {name: t, address: '2001:db8::1', uplinks: []}\n",
        expect![[r#"
            r.yaml:1:9: `a b` is not a name for a region
                help: use 1 to 63 letters (a-z, A-Z), digits, `-`, `_` or `.`; the first is no `-` or `.`
            r.yaml:2:56: the gateway has a second IPv4 address
                help: keep one IPv4 and one IPv6 address at most
            r.yaml:4:84: an MTU of 900 bytes is too small
                help: use 1350 or more
            r.yaml:5:10: uplink `u` is declared twice, first in line 4
                help: rename one of them
            r.yaml:5:19: port 1 is used twice, first in line 4
                help: give each uplink a port of its own
            r.yaml:7:22: 192.0.2.1 is taken already by `the gateway` in line 2
                help: give each end point an address of its own
            r.yaml:7:43: there is no uplink `w`
                help: did you mean `u`?
            r.yaml:8:10: no uplink reaches `t`
                help: name at least one in `uplinks`
            r.yaml:8:22: 2001:db8::1 can't be reached: the gateway has no IPv6 tunnel address
                help: add an IPv6 address to `gateway.vteps`"#]],
    );
}
