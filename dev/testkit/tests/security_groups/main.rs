//! Security groups of the gateway, on the interpreter and in native code: what passes, what a change
//! of rules ends, and a comparison with a naive model. The numbers are those of the scenarios in
//! section 9 of the NAT reference.

mod fixture;
mod fragments;
mod model;
mod quota;
mod random;

use fixture::*;

/// Two peered VPCs, and a third one with the addresses of the first. `web` serves port 80 and asks `db`.
const TENANTS: &str = "
vpcs:
- name: a
  vni: 100
  subnets: [10.1.0.0/24, 'fd00:1::/64']
  security_groups:
  - name: web
    rules:
    - {direction: ingress, protocol: tcp, ports: 80}
    - {direction: egress, protocol: tcp, ports: 5432, to_group: db}
    - {direction: egress, protocol: udp, ports: 53}
    - {direction: egress, protocol: icmp}
  - name: db
    rules:
    - {direction: ingress, protocol: tcp, ports: 5432, from_group: web}
- {name: b, vni: 200, subnets: [10.2.0.0/24]}
- {name: c, vni: 300, subnets: [10.1.0.0/24]}
peerings: [{between: [a, b]}]
vms:
- {name: web1, vpc: a, server: s1, mac: '02:00:00:10:00:01', addresses: [10.1.0.11, 'fd00:1::11'], groups: [web]}
- {name: db1, vpc: a, server: s1, mac: '02:00:00:10:00:02', addresses: [10.1.0.12], groups: [db]}
- {name: free, vpc: a, server: s1, mac: '02:00:00:10:00:03', addresses: [10.1.0.13, 'fd00:1::13']}
- {name: b1, vpc: b, server: s1, mac: '02:00:00:20:00:01', addresses: [10.2.0.11]}
- {name: c1, vpc: c, server: s1, mac: '02:00:00:30:00:01', addresses: [10.1.0.11]}
- {name: c2, vpc: c, server: s1, mac: '02:00:00:30:00:02', addresses: [10.1.0.12]}
";

fn web(port: u16) -> Side {
    side(100, "10.1.0.11", port)
}

fn db(port: u16) -> Side {
    side(100, "10.1.0.12", port)
}

fn free(port: u16) -> Side {
    side(100, "10.1.0.13", port)
}

/// Returns the tenants with an edit.
fn with(from: &str, to: &str) -> String {
    assert!(TENANTS.contains(from), "{from}");
    TENANTS.replacen(from, to, 1)
}

#[test]
fn answers_pass_and_what_is_unasked_does_not() {
    let mut gateway = Gateway::new(TENANTS);
    let asked = udp(web(5000), free(53));
    gateway.refuse(&asked.answer(0), "group_denied_in");
    gateway.pass(&asked);
    gateway.pass(&asked.answer(0));
    gateway.refuse(&udp(free(54), web(5000)), "group_denied_in");
    gateway.refuse(&udp(web(5000), free(54)), "group_denied_out");
    gateway.connect(web(5000), db(5432));
    gateway.refuse(&tcp(db(5000), web(80), SYN), "group_denied_out");
    gateway.refuse(&tcp(free(5000), db(5432), SYN), "group_denied_in");
    gateway.refuse(&tcp(free(5000), web(80), ACK), "tcp_without_syn");
}

#[test]
fn groups_are_of_one_vpc_and_prefixes_of_all() {
    let mut gateway = Gateway::new(TENANTS);
    gateway.connect(side(200, "10.2.0.11", 4000), web(80));
    // C has the addresses of A, and no groups: the first segment and the middle of a connection pass.
    gateway.connect(side(300, "10.1.0.12", 4000), side(300, "10.1.0.11", 5432));
    gateway.pass(&tcp(side(300, "10.1.0.12", 4001), side(300, "10.1.0.11", 5432), ACK));
}

#[test]
fn a_reset_of_a_stranger_ends_nothing() {
    let mut gateway = Gateway::new(TENANTS);
    let syn = gateway.connect(free(4000), web(80));
    gateway.refuse(&tcp(db(4000), web(80), RST), "tcp_without_syn");
    // No sequence number is checked: the host answers a wrong one, and data go on (RFC 5961).
    gateway.pass(&tcp(free(4000), web(80), RST));
    gateway.wait(180);
    gateway.pass(&tcp(free(4000), web(80), ACK));
    gateway.pass(&syn.answer(ACK));
}

#[test]
fn one_side_can_close_and_the_connection_can_be_opened_again() {
    let mut gateway = Gateway::new(TENANTS);
    let syn = gateway.connect(free(4000), web(80));
    gateway.pass(&tcp(free(4000), web(80), FIN | ACK));
    gateway.wait(180);
    gateway.pass(&syn.answer(ACK));
    gateway.pass(&syn.answer(FIN | ACK));
    gateway.pass(&tcp(free(4000), web(80), ACK));
    // No. 12: a SYN passes at once after the FINs.
    gateway.connect(free(4000), web(80));
    gateway.wait(7200);
    gateway.pass(&syn.answer(ACK));
    // No. 10: after the end, 240 seconds.
    gateway.pass(&syn.answer(FIN | ACK));
    gateway.wait(300);
    gateway.refuse(&syn.answer(ACK), "tcp_without_syn");
}

#[test]
fn both_sides_can_open_at_once() {
    let mut gateway = Gateway::new(TENANTS);
    let syn = tcp(free(4000), web(80), SYN);
    gateway.refuse(&syn.answer(SYN), "group_denied_out");
    gateway.pass(&syn);
    gateway.pass(&syn.answer(SYN));
    gateway.pass(&tcp(free(4000), web(80), SYN | ACK));
    gateway.wait(7200);
    gateway.pass(&syn.answer(ACK));
}

#[test]
fn a_machine_reaches_itself_if_its_rules_permit_it() {
    let mut gateway = Gateway::new(TENANTS);
    gateway.refuse(&tcp(web(4000), web(80), SYN), "group_denied_out");
    gateway.change_region(&with("to_group: db", "to_group: web").replace("ports: 5432, to", "ports: 80, to"));
    gateway.connect(web(4000), web(80));
    // Both sides are the same.
    gateway.pass(&tcp(web(80), web(80), SYN));
    gateway.pass(&tcp(web(80), web(80), ACK));
}

#[test]
fn no_11_a_segment_far_behind_the_window_passes() {
    let mut gateway = Gateway::new(TENANTS);
    let syn = gateway.connect(free(4000), web(80));
    let mut late = tcp(free(4000), web(80), ACK).bytes();
    late[24..28].copy_from_slice(&0x8000_0000u32.to_be_bytes());
    assert_eq!(gateway.send_bytes(&[(100, late)]), [None]);
    gateway.pass(&syn.answer(ACK));
}

#[test]
fn no_20_a_rule_is_removed_and_its_flows_end_at_once() {
    let mut gateway = Gateway::new(TENANTS);
    let dns = udp(web(5000), free(53));
    gateway.pass(&dns);
    let http = gateway.connect(free(4000), web(80));
    let other = gateway.connect(web(4000), db(5432));
    gateway.change_region(&with("- {direction: ingress, protocol: tcp, ports: 80}", ""));
    gateway.refuse(&tcp(free(4000), web(80), ACK), "group_flow_ended");
    gateway.refuse(&http.answer(ACK), "group_flow_ended");
    gateway.refuse(&http.answer(ACK).error(), "group_flow_ended");
    for packet in [&dns, &dns.answer(0), &tcp(web(4000), db(5432), ACK), &other.answer(ACK)] {
        gateway.pass(packet);
    }
    // The rule is there again: the flow may be, too.
    gateway.change_region(TENANTS);
    gateway.pass(&http.answer(ACK));
}

#[test]
fn no_20_nothing_ends_when_all_is_permitted() {
    let mut gateway = Gateway::new(TENANTS);
    let http = gateway.connect(free(4000), web(80));
    gateway.change_region(&with(", groups: [web]", ""));
    gateway.pass(&http.answer(ACK));
    gateway.pass(&tcp(free(4000), web(80), ACK));
    gateway.pass(&tcp(free(4001), web(81), ACK));
}

#[test]
fn flows_outlive_a_change_where_the_vpc_asks_for_it() {
    let keeps = with("vni: 100", "vni: 100\n  keep_established: true");
    let mut gateway = Gateway::new(&keeps);
    let http = gateway.connect(free(4000), web(80));
    gateway.change_region(&keeps.replacen("- {direction: ingress, protocol: tcp, ports: 80}", "", 1));
    gateway.pass(&http.answer(ACK));
    gateway.refuse(&tcp(free(4001), web(80), SYN), "group_denied_in");
}

#[test]
fn a_connection_is_picked_up_where_the_vpc_permits_it() {
    let mut gateway = Gateway::new(&with("vni: 100", "vni: 100\n  tcp_pick_up: true"));
    gateway.pass(&tcp(free(4000), web(80), ACK));
    gateway.pass(&tcp(web(80), free(4000), ACK));
    gateway.refuse(&tcp(free(4000), web(81), ACK), "group_denied_in");
    gateway.refuse(&tcp(free(4001), web(80), RST), "tcp_without_syn");
}

#[test]
fn a_machine_that_leaves_a_group_is_no_longer_reached_by_it() {
    let mut gateway = Gateway::new(TENANTS);
    let sql = gateway.connect(web(4000), db(5432));
    gateway.change_region(&with(", groups: [db]", ""));
    gateway.refuse(&sql.answer(ACK), "group_flow_ended");
    gateway.change_region(&with(", groups: [web]", ", groups: [db, web]"));
    gateway.pass(&sql.answer(ACK));
    gateway.change_region(&with(", groups: [web]", ", groups: [db]"));
    gateway.refuse(&tcp(web(4000), db(5432), ACK), "group_flow_ended");
}

/// The number of a policy depends on nothing but the rules: a flow goes on without being judged anew.
#[test]
fn edits_of_other_things_change_no_policy() {
    let pipeline = testkit::gateway::pipeline().expect("the gateway compiles");
    let members = |tenants: &str| {
        let entries = entries_of(&pipeline, tenants);
        let table = pipeline.tables.iter().find(|(_, table)| table.preamble.name == "gateway.groups.member_to.v4");
        let table = table.expect("a table").0;
        let of = entries.entries.iter().filter(|entry| entry.table == table);
        of.map(|entry| format!("{:?} {:?}", entry.keys, entry.action)).collect::<Vec<_>>()
    };
    let before = members(TENANTS);
    assert_eq!(before.len(), 2);
    let comment = with("  security_groups:", "  # A comment.\n  strict_sources: true\n  security_groups:");
    assert_eq!(members(&comment), before);
    let order = TENANTS.replacen("    - {direction: egress, protocol: udp, ports: 53}\n", "", 1).replacen(
        "    rules:\n",
        "    rules:\n    - {direction: egress, protocol: udp, ports: 53}\n",
        1,
    );
    assert_eq!(members(&order), before, "the order of rules");
    let of_db = members(&with("ports: 5432, from_group: web", "ports: 5433, from_group: web"));
    assert_eq!(of_db.iter().filter(|member| before.contains(member)).count(), 1, "only db changed");
}

#[test]
fn bad_packets_are_dropped_by_name_and_change_no_state() {
    let mut gateway = Gateway::new(TENANTS);
    let syn = gateway.connect(free(4000), web(80));
    gateway.refuse(&tcp(free(0), web(80), SYN), "group_port_0");
    gateway.refuse(&udp(web(5000), free(0)), "group_port_0");
    let forged = [
        tcp(free(4001), web(80), ACK).answer(ACK).error(),
        Packet { from: free(0), to: web(0), layer_4: Layer4::Error(Box::new(tcp(db(4000), web(80), ACK))) },
    ];
    for error in &forged {
        gateway.refuse(error, "group_error");
    }
    let quoted = tcp(web(80), free(4000), ACK).bytes();
    for (at, length) in [(10, 28), (0, 20), (0, 0)] {
        let mut quoted = quoted[..length].to_vec();
        if let Some(byte) = quoted.get_mut(at).filter(|_| at > 0) {
            *byte ^= 1;
        }
        let outcome = gateway.send_bytes(&[(100, raw_error(free(0), web(0), &quoted))]);
        assert_eq!(outcome, [Some("group_error".to_owned())], "{at} {length}");
    }
    gateway.pass(&syn.answer(ACK).error());
    gateway.pass(&syn.answer(ACK));
}

#[test]
fn errors_do_not_restart_the_idle_time() {
    let mut gateway = Gateway::new(TENANTS);
    let dns = udp(web(5000), free(53));
    gateway.pass(&dns);
    gateway.wait(240);
    gateway.pass(&dns.error());
    gateway.wait(120);
    gateway.refuse(&dns.error(), "group_error");
}

#[test]
fn ipv6_is_tracked_as_ipv4() {
    let mut gateway = Gateway::new(TENANTS);
    let [web, free] = ["fd00:1::11", "fd00:1::13"].map(|address| move |port| side(100, address, port));
    let dns = udp(web(5000), free(53));
    gateway.refuse(&dns.answer(0), "group_denied_in");
    gateway.pass(&dns);
    gateway.pass(&dns.answer(0));
    let ping = Packet { from: web(9), to: free(0), layer_4: Layer4::Ping };
    gateway.refuse(&ping.answer(0), "group_unasked");
    gateway.pass(&ping);
    gateway.pass(&ping.answer(0));
    let http = gateway.connect(free(4000), web(80));
    gateway.refuse(&tcp(free(4001), web(80), ACK), "tcp_without_syn");
    gateway.change_region(&with("- {direction: ingress, protocol: tcp, ports: 80}", ""));
    gateway.refuse(&http.answer(ACK), "group_flow_ended");
    gateway.pass(&ping.answer(0));
}
