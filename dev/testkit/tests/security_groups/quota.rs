//! The limit of a VPC on its flows, and a full table of flows.

use super::{TENANTS, db, free, web, with};
use crate::fixture::*;

fn limited(flows: u32) -> String {
    with("vni: 100", &format!("vni: 100\n  max_flows: {flows}"))
}

#[test]
fn a_vpc_has_as_many_flows_as_it_may() {
    let mut gateway = Gateway::new(&limited(2));
    let asked = [5000, 5001].map(|port| udp(web(port), free(53)));
    asked.iter().for_each(|asked| gateway.pass(asked));
    gateway.refuse(&udp(web(5002), free(53)), "group_quota");
    gateway.refuse(&tcp(web(5002), db(5432), SYN), "group_quota");
    asked.iter().for_each(|asked| gateway.pass(&asked.answer(0)));
    asked.iter().for_each(|asked| gateway.pass(asked));
    // A flow that begins in a VPC without groups counts for the VPC that it goes to.
    gateway.refuse(&tcp(side(200, "10.2.0.11", 4000), web(80), SYN), "group_quota");
    // Machines without groups have no flows.
    gateway.pass(&udp(side(300, "10.1.0.12", 4000), side(300, "10.1.0.11", 53)));
    gateway.wait(400);
    gateway.pass(&udp(web(5002), free(53)));
    gateway.connect(side(200, "10.2.0.11", 4000), web(80));
    gateway.refuse(&udp(web(5003), free(53)), "group_quota");
}

#[test]
fn a_full_table_refuses_new_flows_and_known_ones_go_on() {
    const ROOM: u16 = 64;
    let mut gateway = Gateway::with_flows(TENANTS, u64::from(ROOM));
    let http = gateway.connect(free(4000), web(80));
    let asked: Vec<_> = (5000..5000 + ROOM - 1).map(|port| udp(web(port), free(53))).collect();
    asked.iter().for_each(|asked| gateway.pass(asked));
    for port in 6000..6010 {
        gateway.refuse(&udp(web(port), free(53)), "group_table_full");
        gateway.refuse(&tcp(web(port), db(5432), SYN), "group_table_full");
    }
    // What is refused for another reason keeps it, and machines without groups need no flow.
    gateway.refuse(&udp(web(6000), free(54)), "group_denied_out");
    gateway.pass(&udp(side(300, "10.1.0.12", 4000), side(300, "10.1.0.11", 53)));
    // The flows of IPv6 have a table of their own.
    gateway.pass(&udp(side(100, "fd00:1::11", 5000), side(100, "fd00:1::13", 53)));
    asked.iter().for_each(|asked| gateway.pass(&asked.answer(0)));
    gateway.pass(&http.answer(ACK));
    gateway.pass(&tcp(free(4000), web(80), ACK));
    // There is room again when flows have ended. The connection has a longer idle time.
    gateway.wait(400);
    (6000..6000 + ROOM - 1).for_each(|port| gateway.pass(&udp(web(port), free(53))));
    gateway.refuse(&udp(web(7000), free(53)), "group_table_full");
    gateway.pass(&http.answer(ACK));
}

#[test]
fn what_the_rules_deny_uses_nothing_of_the_limit() {
    let mut gateway = Gateway::new(&limited(1));
    for port in 4000..4020 {
        gateway.refuse(&tcp(free(port), db(5432), SYN), "group_denied_in");
        gateway.refuse(&tcp(free(port), web(80), ACK), "tcp_without_syn");
    }
    gateway.connect(web(4000), db(5432));
    gateway.refuse(&tcp(web(4001), db(5432), SYN), "group_quota");
}

#[test]
fn a_lower_limit_ends_no_flow_and_a_higher_one_holds_at_once() {
    let mut gateway = Gateway::new(&limited(3));
    let asked: Vec<_> = (5000..5003).map(|port| udp(web(port), free(53))).collect();
    asked.iter().for_each(|asked| gateway.pass(asked));
    gateway.change_region(&limited(1));
    asked.iter().for_each(|asked| gateway.pass(&asked.answer(0)));
    gateway.refuse(&udp(web(5003), free(53)), "group_quota");
    gateway.change_region(&limited(4));
    gateway.pass(&udp(web(5003), free(53)));
    gateway.refuse(&udp(web(5004), free(53)), "group_quota");
    gateway.change_region(TENANTS);
    gateway.pass(&udp(web(5004), free(53)));
}

#[test]
fn a_change_of_rules_gives_the_limit_back_with_the_idle_time_only() {
    // A flow that the rules no longer permit is dropped with its next packet, and its entry stays until
    // its idle time is over: until then it counts.
    let mut gateway = Gateway::new(&limited(1));
    gateway.pass(&udp(web(5000), free(53)));
    let without = limited(1).replacen("    - {direction: egress, protocol: udp, ports: 53}\n", "", 1);
    gateway.change_region(&without);
    gateway.refuse(&udp(web(5000), free(53)), "group_flow_ended");
    gateway.refuse(&tcp(web(4000), db(5432), SYN), "group_quota");
    gateway.wait(400);
    gateway.connect(web(4000), db(5432));
}
