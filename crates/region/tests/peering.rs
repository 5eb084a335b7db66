//! Compares flattened peerings with a walk from VPC to VPC.

use ipnet::{IpNet, Ipv4Net};
use proptest::prelude::*;
use region::{FlatRoute, ResolvedRegion, RouteTarget};
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Routing of VPCs: `tables[v]` has the prefixes of VPC v with their hops.
type Network = Vec<Vec<(Ipv4Net, Hop)>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hop {
    Peer(usize),
    Blackhole,
    Internet,
}

fn text(network: &Network) -> String {
    let mut out = String::from(
        "region: r\ngateway: {mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}\n\
         uplinks: [{name: u, port: 1, mac: '02:00:00:00:01:01', peer_mac: '02:00:00:00:01:02'}]\nvpcs:\n",
    );
    for (v, routes) in network.iter().enumerate() {
        writeln!(out, "- name: v{v}\n  vni: {}\n  subnets: [10.{v}.0.0/16]\n  routes:", v + 1).expect("a string");
        for (prefix, hop) in routes {
            let hop = match hop {
                Hop::Peer(p) => format!("peer: v{p}"),
                Hop::Blackhole => "blackhole: true".into(),
                Hop::Internet => "internet: true".into(),
            };
            writeln!(out, "  - {{to: {prefix}, {hop}}}").expect("a string");
        }
    }
    out.push_str("peerings:\n");
    for a in 0..network.len() {
        for b in 0..a {
            writeln!(out, "- between: [v{a}, v{b}]").expect("a string");
        }
    }
    out
}

/// Returns the target that the walk reaches, or `None` if it loops or is too long.
fn walk(network: &Network, from: usize, to: Ipv4Addr) -> Option<RouteTarget> {
    let mut path = vec![from];
    loop {
        let v = path[path.len() - 1];
        let subnets = (0..network.len()).map(|s| {
            let hop = if s == v { None } else { Some(Hop::Peer(s)) };
            (Ipv4Net::new(Ipv4Addr::new(10, s as u8, 0, 0), 16).expect("a prefix"), hop)
        });
        let routes = network[v].iter().map(|(prefix, hop)| (*prefix, Some(*hop))).chain(subnets);
        let best = routes.filter(|(prefix, _)| prefix.contains(&to)).max_by_key(|(prefix, _)| prefix.prefix_len());
        match best {
            None => return Some(RouteTarget::NoRoute),
            Some((_, None)) => return Some(RouteTarget::Vpc(v)),
            Some((_, Some(Hop::Blackhole))) => return Some(RouteTarget::Blackhole),
            Some((_, Some(Hop::Internet))) => return Some(RouteTarget::Internet),
            Some((_, Some(Hop::Peer(next)))) => {
                if path.contains(&next) || path.len() > region::MAX_PEERINGS {
                    return None;
                }
                path.push(next);
            }
        }
    }
}

fn longest(table: &[FlatRoute], to: Ipv4Addr) -> RouteTarget {
    let matching = table.iter().filter(|r| matches!(r.prefix, IpNet::V4(p) if p.contains(&to)));
    matching.max_by_key(|r| r.prefix.prefix_len()).map_or(RouteTarget::NoRoute, |r| r.target)
}

fn network() -> impl Strategy<Value = Network> {
    let hop = prop_oneof![3 => (0..6usize).prop_map(Hop::Peer), 1 => Just(Hop::Blackhole), 1 => Just(Hop::Internet)];
    let octets = prop_oneof![Just(10u8), Just(20u8)];
    let prefix = (
        octets,
        0..6u8,
        prop_oneof![Just(0u8), Just(128), Just(192)],
        prop_oneof![Just(8u8), Just(16), Just(17), Just(18), Just(24)],
    )
        .prop_map(|(a, b, c, len)| Ipv4Net::new(Ipv4Addr::new(a, b, c, 0), len).expect("a prefix").trunc());
    let table = prop::collection::vec((prefix, hop), 0..6);
    prop::collection::vec(table, 2..6).prop_map(|mut network: Network| {
        let n = network.len();
        for (v, table) in network.iter_mut().enumerate() {
            table.sort_by_key(|(p, _)| *p);
            table.dedup_by_key(|(p, _)| *p);
            // A route cannot repeat a subnet or refer to its own or a missing VPC.
            table.retain(|(p, hop)| {
                let is_subnet = p.prefix_len() == 16 && p.addr().octets()[0] == 10;
                let is_nowhere = matches!(hop, Hop::Peer(to) if *to == v || *to >= n);
                !is_subnet && !is_nowhere
            });
        }
        network
    })
}

/// Returns addresses that distinguish all prefixes of the generator.
fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    let all = [10u8, 20]
        .into_iter()
        .flat_map(|a| (0..7u8).flat_map(move |b| [0u8, 1, 100, 128, 150, 192, 193, 250].map(|c| (a, b, c))));
    all.map(|(a, b, c)| Ipv4Addr::new(a, b, c, 9))
}

fn agrees(network: &Network, region: &ResolvedRegion) -> Result<usize, TestCaseError> {
    let mut compared = 0;
    for from in 0..network.len() {
        for to in addresses() {
            let walked = walk(network, from, to);
            prop_assert_eq!(Some(longest(&region.tables[from][0], to)), walked, "from v{} to {}", from, to);
            compared += 1;
        }
    }
    Ok(compared)
}

proptest! {
    #[test]
    fn flattened_as_walked(network in network()) {
        match region::parse("r", &text(&network)) {
            Ok(region) => {
                let compared = agrees(&network, &region)?;
                prop_assert!(compared >= 200);
            }
            Err(problems) => {
                let message = problems.to_string();
                prop_assert!(message.contains("peering"), "{}", message);
                let refused = (0..network.len()).any(|from| addresses().any(|to| walk(&network, from, to).is_none()));
                prop_assert!(refused, "refused without reason: {}", message);
            }
        }
    }
}

#[test]
fn a_hole_in_the_peers_table_stays_a_hole() {
    let net = |s: &str| s.parse().expect("a prefix");
    let network = vec![
        vec![(net("20.0.0.0/8"), Hop::Peer(1)), (net("0.0.0.0/0"), Hop::Internet)],
        vec![(net("20.1.0.0/16"), Hop::Blackhole)],
    ];
    let region = region::parse("r", &text(&network)).expect("right");
    let table = &region.tables[0][0];
    assert_eq!(longest(table, Ipv4Addr::new(20, 1, 0, 1)), RouteTarget::Blackhole);
    assert_eq!(longest(table, Ipv4Addr::new(20, 2, 0, 1)), RouteTarget::NoRoute);
    assert_eq!(longest(table, Ipv4Addr::new(30, 2, 0, 1)), RouteTarget::Internet);
}
