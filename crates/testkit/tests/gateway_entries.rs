//! What becomes of a region's keys in the gateway's tables: ICMP types, lists of ways through other VPCs, strict sources.

use ir::{ActionCall, KeyMatch, Pipeline};
use region::{Entries, Numbers};
use tables::{ActionSpec, TableEntry};
use testkit::gateway;

/// Lines 1 to 5 of each file.
const UNDERLAY: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
remotes: [{name: hq, kind: idc, address: 198.51.100.7, vni: 7000, mac: '02:00:00:00:50:01', uplinks: [u]}]
";

fn made(pipeline: &Pipeline, text: &str) -> Entries {
    let region = region::parse("r.yaml", &format!("{UNDERLAY}{text}")).unwrap_or_else(|e| panic!("{e}"));
    region::entries(&region, "r.yaml", pipeline, &mut Numbers::default()).expect("the program is a gateway")
}

fn of<'a>(pipeline: &'a Pipeline, entries: &'a Entries, table: &'a str) -> Vec<&'a TableEntry> {
    entries.entries.iter().filter(|entry| pipeline.tables[entry.table].preamble.name.ends_with(table)).collect()
}

fn action(pipeline: &Pipeline, entry: &TableEntry) -> String {
    let ActionSpec::Call(ActionCall { action, args }) = &entry.action else { panic!("{entry:?}") };
    let name = pipeline.actions[*action].preamble.name.rsplit('.').next().unwrap_or_default();
    format!("{name}({})", args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

#[test]
fn types_of_icmp_are_in_one_versions_list() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let rule = "{priority: 1, action: deny, direction: ingress, protocol: icmp, icmp_type: 8, icmp_code: 0}";
    let text = format!("vpcs:\n- {{name: a, vni: 1, acl: [{rule}]}}\n");
    let entries = made(&pipeline, &text);
    let v4 = of(&pipeline, &entries, "acl_in.v4");
    assert_eq!((v4.len(), of(&pipeline, &entries, "acl_in.v6").len()), (1, 0));
    let range = |n: u8| KeyMatch::Range { lo: n.into(), hi: n.into() };
    assert_eq!(v4[0].keys[3..6], [KeyMatch::Ternary { value: 1u8.into(), mask: 0xffu8.into() }, range(8), range(0)]);
}

#[test]
fn a_way_through_a_vpc_has_its_list() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let text = "\
vpcs:
- {name: a, vni: 1, subnets: [10.1.0.0/24], routes: [{to: 172.16.0.0/16, peer: b}]}
- name: b
  vni: 2
  subnets: [10.2.0.0/24]
  routes: [{to: 172.16.0.0/16, remote: hq}]
  acl_default: deny
  acl:
  - {priority: 7, action: permit, direction: egress, protocol: udp, from: 10.1.0.0/24}
  - {priority: 9, action: deny, direction: ingress, protocol: udp}
peerings: [{between: [a, b]}]
";
    let entries = made(&pipeline, text);
    let routes: Vec<String> = of(&pipeline, &entries, "route_v4")
        .iter()
        .map(|e| action(&pipeline, e))
        .filter(|a| a.contains("idc"))
        .collect();
    // By way of b, and b's own, which asks no list but its own outgoing one.
    assert_eq!(routes, [format!("idc(0, 7000, {})", 0xffffe), format!("idc(0, 7000, {})", 0xfffff)]);
    let list: Vec<(i32, String)> = of(&pipeline, &entries, "acl_in.v4")
        .into_iter()
        .filter(|e| e.keys[0] == KeyMatch::Exact(0xffffeu32.into()))
        .map(|e| (e.priority, action(&pipeline, e)))
        .collect();
    // What leaves b by its egress rules; its ingress rules are about what is delivered there.
    assert_eq!(list, [(2, "permit()".to_owned()), (1, "deny_transit()".to_owned())]);
    let told = of(&pipeline, &entries, "acl_in.v4");
    assert!(
        told.iter().any(|e| e
            .provenance
            .as_deref()
            .is_some_and(|p| p.contains("r.yaml:14: by way of b: VPC b: ACL egress 7"))),
        "the entry says which rule it is: {:?}",
        told.iter().map(|e| e.provenance.clone()).collect::<Vec<_>>()
    );
}

#[test]
fn strict_sources_are_servers_with_machines_and_remotes_with_routes() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let text = "\
vpcs:
- {name: a, vni: 1, subnets: [10.1.0.0/24], strict_sources: true}
- {name: b, vni: 2, subnets: [10.2.0.0/24], strict_sources: true, routes: [{to: 172.16.0.0/16, remote: hq}]}
- {name: c, vni: 3, subnets: [10.3.0.0/24], routes: [{to: 172.16.0.0/16, remote: hq}]}
vms:
- {name: v, vpc: a, server: s, mac: '02:00:00:00:00:09', addresses: [10.1.0.5]}
- {name: w, vpc: a, server: s, mac: '02:00:00:00:00:0a', addresses: [10.1.0.6]}
";
    let entries = made(&pipeline, text);
    let sources: Vec<String> = of(&pipeline, &entries, "vpc_source_v4")
        .iter()
        .map(|e| e.provenance.as_deref().unwrap_or_default().to_owned())
        .collect();
    let expected = ["7: VPC a: strict_sources, 192.0.2.11/32", "8: VPC b: strict_sources, 198.51.100.7/32"];
    assert_eq!(sources, expected.map(|line| format!("r.yaml:{line}")));
}
