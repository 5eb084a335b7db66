//! Checks keys that affect the handling of packets: sources of VXLAN, options and extension
//! headers, ICMP types, ports of all protocols that have them, and transit lists. Problems have a
//! position and a fix. `dev/testkit/tests/gateway_program/entries.rs` tests the resulting entries.

use expect_test::{Expect, expect};

const UNDERLAY: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
remotes: [{name: hq, kind: idc, address: 198.51.100.7, vni: 7000, mac: '02:00:00:00:50:01', uplinks: [u]}]
";

/// Checks `text` appended to the underlay above (from line 6).
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

/// Returns a VPC with these rules.
fn rules(rules: &[&str]) -> String {
    let lines: Vec<String> =
        rules.iter().enumerate().map(|(n, r)| format!("  - {{priority: {}, action: deny, {r}}}\n", n + 1)).collect();
    format!("vpcs:\n- name: a\n  vni: 1\n  subnets: [10.0.0.0/24]\n  acl:\n{}", lines.concat())
}

#[test]
fn ports_of_all_protocols_that_have_them() {
    let right = ["tcp", "udp", "sctp", "udplite", "dccp", "6", "17", "132", "136", "33"];
    let all: Vec<String> = right.iter().map(|p| format!("protocol: {p}, ports: 3868, source_ports: 1-9")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    check(&rules(&all), expect!["no problem"]);
    check(
        &rules(&["protocol: icmp, ports: 8", "protocol: 47, source_ports: 8"]),
        expect![[r#"
            r.yaml:11:56: ports are given, but the protocol has none
                help: add `protocol: tcp`, `udp`, `sctp`, `udplite` or `dccp`, or remove the ports; ICMP has `icmp_type`
            r.yaml:12:61: ports are given, but the protocol has none
                help: add `protocol: tcp`, `udp`, `sctp`, `udplite` or `dccp`, or remove the ports; ICMP has `icmp_type`"#]],
    );
}

#[test]
fn icmp_types_and_codes() {
    let right = [
        "protocol: icmp, icmp_type: 8",
        "protocol: icmp, icmp_type: 3, icmp_code: 4, to: 10.0.0.0/8",
        "protocol: icmpv6, icmp_type: 128, from: 'fd00::/8'",
        "protocol: 58, icmp_type: 2, icmp_code: 0",
        "protocol: 1, icmp_type: 255, icmp_code: 255",
        "protocol: icmpv6",
    ];
    check(&rules(&right), expect!["no problem"]);
    check(
        &rules(&[
            "protocol: tcp, icmp_type: 8",
            "icmp_type: 8",
            "protocol: icmp, icmp_code: 0",
            "protocol: icmp, icmp_type: 128, to: 'fd00::/8'",
            "protocol: icmpv6, icmp_type: 8, from: 10.0.0.0/8",
        ]),
        expect![[r#"
            r.yaml:11:59: an ICMP type is given, but the protocol is not ICMP
                help: add `protocol: icmp` or `icmpv6`, or remove `icmp_type`
            r.yaml:12:44: an ICMP type is given, but the protocol is not ICMP
                help: add `protocol: icmp` or `icmpv6`, or remove `icmp_type`
            r.yaml:13:60: an ICMP code is given without a type, whose code it would be
                help: add `icmp_type`, or remove `icmp_code`
            r.yaml:14:60: types of icmp are not those of these addresses: no packet can match
                help: write `protocol: icmpv6` and its type, or other addresses
            r.yaml:15:62: types of icmpv6 are not those of these addresses: no packet can match
                help: write `protocol: icmp` and its type, or other addresses"#]],
    );
    for wrong in ["icmp_type: 256", "icmp_type: -1", "icmp_type: echo", "icmp_type: 8, icmp_code: 256"] {
        let text = format!("{UNDERLAY}{}", rules(&[&format!("protocol: icmp, {wrong}")]));
        assert!(region::parse("r.yaml", &text).is_err(), "{wrong} is accepted");
    }
}

#[test]
fn kinds_of_headers_that_are_dropped() {
    let all = "ipv4_options, hop_by_hop, destination_options, routing, authentication, mobility, host_identity, shim6";
    check(&format!("vpcs:\n- {{name: a, vni: 1, drop: [{all}]}}\n"), expect!["no problem"]);
    check(
        "vpcs:\n- {name: a, vni: 1, drop: [routing, shim6, routing]}\n",
        expect![[r#"
            r.yaml:7:44: VPC `a` drops this twice
                help: name each kind once"#]],
    );
    let text = format!("{UNDERLAY}vpcs:\n- {{name: a, vni: 1, drop: [fragment]}}\n");
    let wrong = region::parse("r.yaml", &text).expect_err("no such kind").to_string();
    assert!(wrong.contains("fragment") && wrong.contains("hop_by_hop"), "{wrong}");
}

#[test]
fn sources_of_vxlan() {
    let with = |gateway: &str, remote: &str| {
        let text = UNDERLAY.replace("vteps: [192.0.2.1]", &format!("vteps: [192.0.2.1], sources: {gateway}"));
        text.replace("vni: 7000", &format!("vni: 7000, sources: {remote}"))
    };
    check_file(&with("[203.0.113.0/25, 0.0.0.0/0]", "[203.0.113.128/25, 198.51.100.8]"), expect!["no problem"]);
    check_file(
        &with("[203.0.113.0/24, 169.254.0.0/17, 'fd00::/8', 10.0.0.1/8]", "[203.0.113.0/24]"),
        expect![[r#"
            r.yaml:2:83: no packet comes from 169.254.0.0/17: 169.254.0.0/16 is a link-local address
                help: use unicast addresses of the underlay
            r.yaml:2:99: nothing comes from fd00::/8: the gateway has no IPv6 tunnel address
                help: add an IPv6 address to `gateway.vteps`, or remove the source
            r.yaml:2:111: 10.0.0.1/8 has bits set after its prefix length
                help: write 10.0.0.0/8
            r.yaml:5:77: source 203.0.113.0/24 is given twice, first in line 2
                help: keep one: a source belongs to one remote, or counts as a server"#]],
    );
}

#[test]
fn lists_that_would_be_too_long_together() {
    let vpc = |name: &str, n: usize, routes: &str| {
        let rule = |p: usize| format!("  - {{priority: {p}, action: permit, protocol: tcp, ports: {p}}}\n");
        let all: String = (1..=400).map(rule).collect();
        format!("- name: {name}\n  vni: {n}\n  subnets: [10.{n}.0.0/24]\n  routes: [{routes}]\n  acl:\n{all}")
    };
    let text = format!(
        "vpcs:\n{}{}{}peerings: [{{between: [a, b]}}, {{between: [b, c]}}]\n",
        vpc("a", 1, "{to: 172.16.0.0/16, peer: b}"),
        vpc("b", 2, "{to: 172.16.0.0/16, peer: c}"),
        vpc("c", 3, "{to: 172.16.0.0/16, remote: hq}")
    );
    check(
        &text,
        expect![[r#"
            r.yaml:10:12: the route to 172.16.0.0/16 passes VPCs whose lists combine to up to 641601 rules: b, c
                help: peer directly, or shorten a list: 131072 are possible"#]],
    );
}
