//! Tests the gateway entries of region keys: ICMP types, lists for paths through other VPCs, strict
//! sources.

use entries::{ActionSpec, TableEntry};
use ir::{ActionCall, KeyMatch, Pipeline};
use region::{GatewayEntries, IdAssignments};
use testkit::gateway;

/// Lines 1 to 5 of each file.
const UNDERLAY: &str = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]
servers: [{name: s, address: 192.0.2.11, uplinks: [u]}]
remotes: [{name: hq, kind: idc, address: 198.51.100.7, vni: 7000, mac: '02:00:00:00:50:01', uplinks: [u]}]
";

fn region_entries(pipeline: &Pipeline, text: &str) -> GatewayEntries {
    let region = region::parse("r.yaml", &format!("{UNDERLAY}{text}")).unwrap_or_else(|e| panic!("{e}"));
    region::entries(&region, "r.yaml", pipeline, &mut IdAssignments::default()).expect("the program is a gateway")
}

fn table_entries<'a>(pipeline: &'a Pipeline, entries: &'a GatewayEntries, table: &'a str) -> Vec<&'a TableEntry> {
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
    let entries = region_entries(&pipeline, &text);
    let v4 = table_entries(&pipeline, &entries, "acl_in.v4");
    assert_eq!((v4.len(), table_entries(&pipeline, &entries, "acl_in.v6").len()), (1, 0));
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
    let entries = region_entries(&pipeline, text);
    let routes: Vec<String> = table_entries(&pipeline, &entries, "route_v4")
        .iter()
        .map(|e| action(&pipeline, e))
        .filter(|a| a.contains("idc"))
        .collect();
    // Through b; and b's own, to which only its own outgoing list applies.
    assert_eq!(routes, [format!("idc(0, 7000, {})", 0xfffe), format!("idc(0, 7000, {})", 0xffff)]);
    let list: Vec<(i32, String)> = table_entries(&pipeline, &entries, "acl_in.v4")
        .into_iter()
        .filter(|e| e.keys[0] == KeyMatch::Exact(0xffffeu32.into()))
        .map(|e| (e.priority, action(&pipeline, e)))
        .collect();
    // Packets leave b by its egress rules; its ingress rules apply to packets delivered there.
    assert_eq!(list, [(2, "permit()".to_owned()), (1, "deny_transit()".to_owned())]);
    let told = table_entries(&pipeline, &entries, "acl_in.v4");
    assert!(
        told.iter()
            .any(|e| e.provenance.as_deref().is_some_and(|p| p.contains("r.yaml:14: through b: VPC b: ACL egress 7"))),
        "the entry says which rule it is: {:?}",
        told.iter().map(|e| e.provenance.clone()).collect::<Vec<_>>()
    );
}

/// Answers to neighbours and limits of TCP segments have no tables of their own.
#[test]
fn options_of_a_vpc_are_in_entries_that_each_packet_looks_up() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let text = "\
vpcs:
- {name: a, vni: 1, subnets: [10.1.0.0/24, 'fd00:1::/64'], tcp_mss: 1200}
- {name: b, vni: 2, subnets: [10.2.0.0/24, 'fd00:2::/64'], tcp_mss: auto, strict_sources: true}
- {name: c, vni: 3, subnets: [10.3.0.0/24, 'fd00:3::/64'], answer: [neighbours]}
- {name: d, vni: 4, subnets: [10.4.0.0/24, 'fd00:4::/64']}
peerings: [{between: [a, b]}, {between: [b, c]}, {between: [c, d]}]
";
    let entries = region_entries(&pipeline, text);
    let actions = |table: &str, wanted: &str| -> Vec<String> {
        let all = table_entries(&pipeline, &entries, table).into_iter().map(|entry| action(&pipeline, entry));
        all.filter(|text| text.starts_with(wanted)).collect()
    };
    // An uplink without `mtu` has 1600, of which a tunnel over IPv4 takes 50.
    let tenants = [
        "set_vpc_with(0, 0, 0, 0, 0, 1, 1200, 1200, 0, 0)",
        "set_vpc_with(1, 1, 0, 1, 0, 1, 1510, 1490, 0, 0)",
        "set_vpc_with(2, 2, 0, 0, 1, 0, 65535, 65535, 0, 0)",
        "set_vpc(3, 3, 0)",
    ];
    assert_eq!(actions("tenant", "set"), tenants);
    // The lower limit of both VPCs, over the version of IP of the route.
    let peers = |mss: u32| [(1, 2, 1200), (0, 1, 1200), (2, 3, mss), (1, 2, mss)];
    for (table, mss) in [("route_v4", 1510), ("route_v6", 1490)] {
        let limited = peers(mss).map(|(list, vni, mss)| format!("peer_limited({list}, {vni}, 0, {mss})"));
        assert_eq!(actions(table, "peer_limited"), limited);
        assert_eq!(actions(table, "peer("), ["peer(3, 4, 0)", "peer(2, 3, 0)"]);
    }
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
    let entries = region_entries(&pipeline, text);
    let sources: Vec<String> = table_entries(&pipeline, &entries, "vpc_source_v4")
        .iter()
        .map(|e| e.provenance.as_deref().unwrap_or_default().to_owned())
        .collect();
    let expected = ["7: VPC a: strict_sources, 192.0.2.11/32", "8: VPC b: strict_sources, 198.51.100.7/32"];
    assert_eq!(sources, expected.map(|line| format!("r.yaml:{line}")));
}

#[test]
fn a_subnets_mask_is_that_of_the_word_in_which_its_prefix_ends() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let subnets = [
        ("10.1.0.0/24", 0xffff_ff00u32, 0),
        ("10.2.0.1/32", 0xffff_ffff, 0),
        ("fc00::/8", 0xff00_0000, 0),
        ("fd01:100::/31", 0xffff_fffe, 0),
        ("fd02:100::/32", 0, 1),
        ("fd03:0:100::/40", 0xff00_0000, 1),
        ("fd04:0:1::/48", 0xffff_0000, 1),
        ("fd05:0:0:4::/63", 0xffff_fffe, 1),
        ("fd06:0:0:1::/64", 0, 2),
        ("fd07::8000:0:0:0/65", 0x8000_0000, 2),
        ("fd08::4:0:0/95", 0xffff_fffe, 2),
        ("fd09::1:0:0/96", 0, 3),
        ("fd0a::f000:0/100", 0xf000_0000, 3),
        ("fd0b::2/127", 0xffff_fffe, 3),
        ("fd0c::1/128", 0xffff_ffff, 3),
    ];
    let list: Vec<String> = subnets.iter().map(|(subnet, ..)| format!("'{subnet}'")).collect();
    let entries = region_entries(&pipeline, &format!("vpcs:\n- {{name: a, vni: 1, subnets: [{}]}}\n", list.join(", ")));
    for (subnet, mask, word) in subnets {
        let provenance = format!("r.yaml:7: VPC a: route to {subnet}");
        let routes = table_entries(&pipeline, &entries, if subnet.contains(':') { "route_v6" } else { "route_v4" });
        let of_it: Vec<String> = routes
            .into_iter()
            .filter(|e| e.provenance.as_deref() == Some(&provenance))
            .map(|e| action(&pipeline, e))
            .collect();
        assert_eq!(of_it, [format!("local({mask}, {word})")], "{subnet}");
    }
}

#[test]
fn a_group_has_as_many_next_hops_as_its_routes_say() {
    let pipeline = gateway::pipeline().expect("the gateway compiles");
    let text = "\
region: r
gateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}
uplinks:
- {name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}
- {name: v, port: 2, mac: '02:00:00:00:02:01', peer_mac: '02:00:00:00:02:02'}
- {name: w, port: 3, mac: '02:00:00:00:03:01', peer_mac: '02:00:00:00:03:02'}
servers: [{name: s, address: 192.0.2.11, uplinks: [u, v, w]}, {name: t, address: 192.0.2.12, uplinks: [v]}]
";
    let region = region::parse("r.yaml", text).unwrap_or_else(|e| panic!("{e}"));
    let numbers = &mut IdAssignments::default();
    let entries = region::entries(&region, "r.yaml", &pipeline, numbers).expect("the program is a gateway");
    let routes: Vec<String> =
        table_entries(&pipeline, &entries, "underlay_route_v4").into_iter().map(|e| action(&pipeline, e)).collect();
    assert_eq!(routes, ["via_group(8192, 31)", &format!("via_next_hop({})", numbers.next_hops["v"])]);
    let hops = table_entries(&pipeline, &entries, "next_hop");
    let mut hops: Vec<(KeyMatch, String)> =
        hops.into_iter().map(|e| (e.keys[0].clone(), action(&pipeline, e))).collect();
    // The uplinks' own entries come first.
    let run = hops.split_off(3);
    let numbers: Vec<KeyMatch> = run.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(numbers, (8192..8224u32).map(|hop| KeyMatch::Exact(hop.into())).collect::<Vec<_>>());
    for (at, (_, forward)) in run.iter().enumerate() {
        assert_eq!(*forward, hops[at % 3].1, "{at}");
    }
}
