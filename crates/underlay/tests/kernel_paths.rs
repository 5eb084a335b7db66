//! Tests the entries that are made of the kernel's routes and neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use underlay::{
    FIRST_KERNEL_HOP, HopAction, KernelMessage, KernelTables, KernelUplink, LinkUse, Messages, Neighbour,
    NextHopObject, PathPlanner, PlannedRoutes, Route, RouteAction, RouteHop,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn hop(interface: u32, gateway: Option<&str>, weight: u32) -> RouteHop {
    RouteHop { interface, gateway: gateway.map(ip), weight }
}

fn route(destination: &str, metric: u32, action: RouteAction) -> KernelMessage {
    KernelMessage::Route(Route {
        table: 254,
        destination: destination.parse().unwrap(),
        metric,
        mtu_bytes: None,
        action,
    })
}

fn uplinks(count: u32) -> Vec<KernelUplink> {
    let uplink = |port| KernelUplink {
        port,
        interface: 10 + port,
        interface_name: format!("eth{port}"),
        mac: [2, 0, 0, 0, 1, port as u8],
        mtu_bytes: 1600,
        peer_mac: None,
        link_use: LinkUse::Up,
    };
    (1..=count).map(uplink).collect()
}

fn neighbour(interface: u32, address: &str, is_known: bool) -> KernelMessage {
    let mac = is_known.then_some([2, 0, 0, 0, 2, interface as u8]);
    KernelMessage::Neighbour(Neighbour { interface, address: ip(address), mac, is_static: false })
}

/// Returns what the packets of a destination meet: the actions of its next hops.
fn actions(
    planner: &PathPlanner,
    kernel: &KernelTables,
    uplinks: &[KernelUplink],
    routes: &PlannedRoutes,
    to: &str,
) -> Vec<HopAction> {
    let route = &routes.routes[&to.parse().unwrap()];
    let hops = planner.plan_hops(kernel, uplinks);
    (route.first..route.first + route.count).map(|id| hops.next_hops[&id].0.clone()).collect()
}

#[test]
fn the_longest_prefix_with_the_smallest_metric_counts_and_only_needed_routes_are_planned() {
    let mut kernel = KernelTables::default();
    let dump = [
        route("0.0.0.0/0", 0, RouteAction::Forward(vec![hop(11, Some("10.1.0.9"), 1)])),
        route("10.0.0.0/8", 20, RouteAction::Forward(vec![hop(11, Some("10.1.0.2"), 1)])),
        route("10.0.0.0/8", 10, RouteAction::Forward(vec![hop(12, Some("10.2.0.2"), 1)])),
        route("10.9.0.0/16", 0, RouteAction::Drop),
        route("10.3.0.0/24", 0, RouteAction::Forward(vec![hop(12, None, 1)])),
        route("10.7.0.0/24", 0, RouteAction::Forward(vec![hop(99, None, 1)])),
        route("172.16.0.0/12", 0, RouteAction::Object(7)),
        KernelMessage::NextHop(7, NextHopObject::Group(vec![(1, 1), (2, 3)])),
        KernelMessage::NextHop(1, NextHopObject::Single(hop(11, Some("10.1.0.2"), 1))),
        KernelMessage::NextHop(2, NextHopObject::Single(hop(12, Some("fe80::2"), 1))),
    ];
    assert!(kernel.replace_routes(254, dump.clone().into_iter()));
    assert!(!kernel.replace_routes(254, dump.into_iter()), "nothing has changed");
    let mut planner = PathPlanner::default();
    let addresses = ["10.1.1.1", "10.9.1.1", "10.3.0.5", "10.7.0.5", "172.16.3.4", "2001:db8::1"].map(ip);
    let planned = planner.update_routes(&kernel, &uplinks(2), (&addresses, &BTreeMap::new()), 100);
    let sources: BTreeMap<String, &str> =
        planned.routes.iter().map(|(to, route)| (to.to_string(), &*route.source)).collect();
    let expected = [
        ("10.0.0.0/8", "kernel route 10.0.0.0/8 via 10.2.0.2 dev eth2"),
        ("10.3.0.5/32", "kernel route 10.3.0.0/24 via 10.3.0.5 dev eth2"),
        ("172.16.0.0/12", "kernel route 172.16.0.0/12 via 10.1.0.2 dev eth1, via fe80::2 dev eth2"),
    ];
    assert_eq!(sources, expected.map(|(to, source)| (to.to_owned(), source)).into());
    assert_eq!(planned.unreached, ["10.9.1.1", "10.7.0.5", "2001:db8::1"].map(ip));
    // A limit is reported, not exceeded.
    let few = PathPlanner::default().update_routes(&kernel, &uplinks(2), (&addresses, &BTreeMap::new()), 2);
    assert_eq!((few.routes.len(), few.overflow), (2, vec![ip("172.16.3.4")]));
}

#[test]
fn a_next_hop_is_used_while_its_link_is_up_and_its_neighbour_known() {
    let mut kernel = KernelTables::default();
    kernel.replace_routes(
        254,
        [route("10.0.0.0/8", 0, RouteAction::Forward(vec![hop(11, Some("10.1.0.2"), 1)]))].into_iter(),
    );
    let (mut planner, mut links) = (PathPlanner::default(), uplinks(1));
    let planned = planner.update_routes(&kernel, &links, (&[ip("10.1.1.1")], &BTreeMap::new()), 10);
    assert_eq!(planned.routes[&"10.0.0.0/8".parse().unwrap()].first, FIRST_KERNEL_HOP);
    let now = |kernel: &KernelTables, links: &[KernelUplink]| {
        actions(&planner, kernel, links, &planned, "10.0.0.0/8")[0].clone()
    };
    assert_eq!(now(&kernel, &links), HopAction::Resolve { port: 1 });
    // The same address on another interface is another neighbour.
    assert!(kernel.apply(&neighbour(12, "10.1.0.2", true)));
    assert_eq!(now(&kernel, &links), HopAction::Resolve { port: 1 });
    assert!(kernel.apply(&neighbour(11, "10.1.0.2", true)));
    assert!(!kernel.apply(&neighbour(11, "10.1.0.2", true)), "nothing has changed");
    let forward =
        HopAction::Forward { port: 1, mac: [2, 0, 0, 0, 1, 1], neighbour_mac: [2, 0, 0, 0, 2, 11], mtu_bytes: 1600 };
    assert_eq!(now(&kernel, &links), forward);
    links[0].link_use = LinkUse::Held;
    assert_eq!(now(&kernel, &links), forward, "there is no other path");
    links[0].link_use = LinkUse::Down;
    assert_eq!(now(&kernel, &links), HopAction::PathDown);
    links[0].link_use = LinkUse::Up;
    assert!(kernel.apply(&KernelMessage::NeighbourGone(11, ip("10.1.0.2"))));
    assert_eq!(now(&kernel, &links), HopAction::Resolve { port: 1 });
    links[0].peer_mac = Some([2, 0, 0, 0, 2, 11]);
    assert_eq!(now(&kernel, &links), forward, "the region file overrides the neighbour");
}

/// 1,000 flaps of links and neighbours, and of members of the route: a bucket changes only if its
/// member fails, returns, or leaves the route, or if a member joins that lacks its share.
#[test]
fn a_thousand_flaps_move_only_the_flows_of_what_flaps() {
    let mut rng = fastrand::Rng::with_seed(11);
    let (mut kernel, mut planner, mut links) = (KernelTables::default(), PathPlanner::default(), uplinks(4));
    let gateways = ["10.1.0.2", "10.2.0.2", "10.3.0.2", "10.4.0.2"];
    let mut members: BTreeSet<usize> = (0..4).collect();
    let mut known = [true; 4];
    for (at, gateway) in gateways.iter().enumerate() {
        kernel.apply(&neighbour(11 + at as u32, gateway, true));
    }
    let mut before: Option<(Vec<Option<u32>>, usize)> = None;
    for step in 0..1000 {
        let flapping = rng.usize(0..4);
        let mut is_membership = false;
        match rng.u32(0..5) {
            0 | 1 => {
                let is_up = links[flapping].link_use == LinkUse::Up;
                links[flapping].link_use = if is_up { LinkUse::Down } else { LinkUse::Up };
            }
            2 | 3 => {
                known[flapping] = !known[flapping];
                kernel.apply(&neighbour(11 + flapping as u32, gateways[flapping], known[flapping]));
            }
            _ => {
                is_membership = true;
                if !members.remove(&flapping) || members.len() < 2 {
                    members.insert(flapping);
                }
            }
        }
        let hops = members.iter().map(|at| hop(11 + *at as u32, Some(gateways[*at]), 1)).collect();
        kernel.replace_routes(254, [route("10.0.0.0/8", 0, RouteAction::Forward(hops))].into_iter());
        let planned = planner.update_routes(&kernel, &links, (&[ip("10.1.1.1")], &BTreeMap::new()), 10);
        let serving = |action: HopAction| match action {
            HopAction::Forward { port, .. } => Some(port),
            _ => None,
        };
        let after: Vec<Option<u32>> =
            actions(&planner, &kernel, &links, &planned, "10.0.0.0/8").into_iter().map(serving).collect();
        let usable = members.iter().filter(|at| known[**at] && links[**at].link_use == LinkUse::Up).count();
        assert_eq!(after.iter().any(Option::is_none), usable == 0, "step {step}: {after:?}");
        if let Some((old, old_usable)) = before.take().filter(|(old, _)| old.len() == after.len()) {
            let port = flapping as u32 + 1;
            for (bucket, (old, new)) in old.iter().zip(&after).enumerate() {
                let is_concerned = *old == Some(port) || *new == Some(port) || usable == 0 || old_usable == 0;
                assert!(
                    old == new || is_concerned || is_membership,
                    "step {step}, bucket {bucket}: {old:?} to {new:?}"
                );
            }
        }
        before = Some((after, usable));
    }
}

/// Whatever the bytes are, reading them ends, and there is no panic.
#[test]
fn bytes_that_are_no_messages_are_skipped() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..20_000 {
        let len = rng.usize(0..200);
        let mut bytes: Vec<u8> = (0..len).map(|_| if rng.bool() { 0 } else { rng.u8(..) }).collect();
        if len >= 16 {
            let kinds = [16_u16, 24, 28, 29, 104, 2, 3];
            bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
            bytes[4..6].copy_from_slice(&kinds[rng.usize(0..kinds.len())].to_ne_bytes());
        }
        assert!(Messages::of(&bytes).count() <= len / 16 + 1);
    }
}
