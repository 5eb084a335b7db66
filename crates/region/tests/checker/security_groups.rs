//! Security groups: names, the other side of rules, ports and types, machines in groups, limits.

use super::{REGION, accepted, refused};

/// Returns the region with security groups in VPC `web`, a machine in them, and the line of the first
/// group.
fn with_groups(groups: &str, of_machine: &str) -> (String, u32) {
    let (at, machine) = ("    acl_default: permit\n", "addresses: [10.1.0.5, \"fd00:1::5\"]}");
    let text = REGION.replacen(at, &format!("{at}    security_groups:\n{groups}"), 1);
    let line = text[..text.find("    security_groups:").expect("groups")].matches('\n').count() as u32 + 2;
    (text.replacen(machine, &format!("{}, groups: [{of_machine}]}}", &machine[..machine.len() - 1]), 1), line)
}

/// Returns the region with the group `app`, which has this rule in its line, and that line.
fn with_rule(rule: &str) -> (String, u32) {
    with_groups(&format!("      - {{name: app, rules: [{{{rule}}}]}}\n      - {{name: db}}\n"), "app")
}

#[track_caller]
fn rule_accepted(rule: &str) {
    accepted(&with_rule(rule).0);
}

#[track_caller]
fn rule_refused(rule: &str, words: &str) {
    let (text, line) = with_rule(rule);
    refused(&text, line, words);
}

#[test]
fn rules_name_the_other_side_once_and_by_the_key_of_their_direction() {
    rule_accepted("direction: ingress");
    rule_accepted("direction: egress, to: 0.0.0.0/0");
    rule_accepted("direction: ingress, from_group: db, protocol: tcp, ports: 5432");
    rule_accepted("direction: ingress, from_group: app");
    rule_refused("direction: ingress, to: 10.2.0.0/24", "that side is the machine itself");
    rule_refused("direction: egress, from_group: db", "write `to` or `to_group`");
    rule_refused("direction: ingress, from: 10.2.0.0/24, from_group: db", "names the other side twice");
    rule_refused("direction: ingress, from_group: dbs", "did you mean `db`?");
    rule_refused("direction: ingress, from: 10.2.0.1/24", "10.2.0.0/24");
    rule_refused("direction: ingress, from: 224.0.0.0/8", "no packet can match");
    rule_refused("protocol: tcp", "direction");
    rule_refused("direction: both", "");
    rule_refused("direction: ingress, from: {group: db}", "");
}

#[test]
fn rules_have_ports_and_types_of_their_protocol() {
    rule_accepted("direction: ingress, protocol: udp, ports: 1000-1999");
    rule_accepted("direction: ingress, protocol: icmp, icmp_type: 8, icmp_code: 0");
    rule_refused("direction: ingress, ports: 80", "the protocol has none");
    rule_refused("direction: ingress, protocol: icmp, ports: 80", "ICMP has `icmp_type`");
    rule_refused("direction: ingress, protocol: tcp, ports: 90-80", "write 80-90");
    rule_refused("direction: ingress, protocol: tcp, ports: 0", "port 0");
    rule_refused("direction: ingress, protocol: tcp, icmp_type: 8", "the protocol is not ICMP");
    rule_refused("direction: ingress, protocol: icmp, icmp_code: 0", "without a type");
    rule_refused("direction: ingress, protocol: icmp, icmp_type: 8, from: 'fd00:1::/64'", "protocol: icmpv6");
    rule_refused("direction: ingress, protocol: icmp, icmp_type: 0x8", "write 8");
}

#[test]
fn machines_name_groups_of_their_vpc_once() {
    let groups = "      - {name: app}\n      - {name: db}\n";
    accepted(&with_groups(groups, "app, db").0);
    let machine = |text: &str| text[..text.find("name: web-1").expect("a machine")].matches('\n').count() as u32 + 1;
    for (of_machine, words) in [("app, app", "twice, first in line"), ("ap", "did you mean `app`?")] {
        let (text, _) = with_groups(groups, of_machine);
        refused(&text, machine(&text), words);
    }
    let (text, _) = with_groups(groups, "app");
    let text = text.replacen("addresses: [10.2.0.5]}", "addresses: [10.2.0.5], groups: [app]}", 1);
    refused(&text, machine(&text) + 1, "there is no security group `app`");
}

#[test]
fn groups_have_names_of_their_own_and_limits() {
    let (text, line) = with_groups("      - {name: app}\n      - {name: app}\n", "app");
    refused(&text, line + 1, "security group `app` is declared twice");
    let (text, line) = with_groups("      - {name: -app}\n", "");
    refused(&text, line, "is not a name");

    let named = |count: usize| (0..count).map(|n| format!("      - {{name: g{n}}}\n")).collect::<String>();
    accepted(&with_groups(&named(256), "g0").0);
    let (text, line) = with_groups(&named(257), "g0");
    refused(&text, line + 256, "more than 256 security groups");
    let of_machine = |count: usize| (0..count).map(|n| format!("g{n}")).collect::<Vec<_>>().join(", ");
    accepted(&with_groups(&named(9), &of_machine(8)).0);
    let (text, _) = with_groups(&named(9), &of_machine(9));
    assert!(region::parse("r.yaml", &text).unwrap_err().to_string().contains("more than 8 security groups"));

    let rules = |count: usize| {
        let rule = |n| format!("          - {{direction: ingress, protocol: tcp, ports: {}}}\n", n + 1);
        format!("      - name: app\n        rules:\n{}", (0..count).map(rule).collect::<String>())
    };
    accepted(&with_groups(&rules(256), "app").0);
    let (text, line) = with_groups(&rules(257), "app");
    refused(&text, line + 2 + 256, "more than 256 rules");
}

/// Each combination of groups that a machine has is a list of its own.
#[test]
fn combinations_of_groups_have_a_limit() {
    let rule = |n: usize| format!("{{direction: ingress, protocol: tcp, ports: {}}}", n + 1);
    let group = |g: usize| {
        let rules: Vec<String> = (0..256).map(|n| rule(g * 256 + n)).collect();
        format!("      - {{name: g{g}, rules: [{}]}}\n", rules.join(", "))
    };
    // Each machine has another pair of 9 groups; a pair has 1,024 entries for both versions of IP.
    let machines = |count: usize| {
        let pairs = (0..9).flat_map(|a| (a + 1..9).map(move |b| (a, b))).take(count);
        let machine = |(n, (a, b)): (usize, (usize, usize))| {
            format!(
                "  - {{name: m{n}, vpc: web, server: host, mac: '02:00:00:00:20:{n:02x}', addresses: [10.1.0.{}], groups: [g{a}, g{b}]}}\n",
                n + 20
            )
        };
        (0..).zip(pairs).map(machine).collect::<String>()
    };
    let (text, line) = with_groups(&(0..9).map(group).collect::<String>(), "");
    accepted(&format!("{text}{}", machines(16)));
    refused(&format!("{text}{}", machines(17)), line, "combined in 17 ways, with 17408 rules");
}
