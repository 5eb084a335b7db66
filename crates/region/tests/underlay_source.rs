//! Checks where the underlay's routes and neighbours come from: the keys that each source needs, and
//! the next hops while ports are up, held and down.

use region::{GatewayApi, IdAssignments, PortStates, RegionPart};
use std::collections::BTreeMap;
use std::path::Path;
use underlay::LinkUse;

fn region(gateway: &str, uplink: &str, server: &str) -> String {
    format!(
        "region: r\ngateway: {{mac: '02:00:00:00:00:01', vteps: [192.0.2.1]{gateway}}}\nuplinks:\n- {{name: u, port: 1, mac: \
         '02:00:00:00:01:01'{uplink}}}\nservers:\n- {{name: s, address: 192.0.2.11{server}}}\n"
    )
}

/// Asserts that a region is refused with a message.
fn refused(gateway: &str, uplink: &str, server: &str, message: &str) {
    let problems = region::parse("r.yaml", &region(gateway, uplink, server)).expect_err(message).to_string();
    assert!(problems.contains(message), "{problems}");
}

#[test]
fn each_source_has_the_keys_that_it_needs() {
    let accepted = |gateway, uplink, server| match region::parse("r.yaml", &region(gateway, uplink, server)) {
        Ok(region) => region,
        Err(problems) => panic!("{problems}"),
    };
    let (peer, host, uplinks) = (", peer_mac: '02:00:00:00:01:02'", ", host: {interface: eth1}", ", uplinks: [u]");
    accepted("", peer, uplinks);
    refused("", "", uplinks, "the uplink `u` has no `peer_mac`");
    refused("", peer, "", "no uplink reaches `s`");
    let kernel = ", underlay: kernel, table: 100, max_routes: 7";
    let region = accepted(kernel, host, "");
    let gateway = &region.file.gateway;
    assert_eq!((gateway.kernel_table(), gateway.max_kernel_routes(), gateway.is_routed_by_kernel()), (100, 7, true));
    assert_eq!(region.file.uplinks[0].host_interface().map(|host| host.name()), Some("eth1"));
    accepted(kernel, peer, "");
    accepted(kernel, &format!("{host}{peer}"), uplinks);
    refused(kernel, "", "", "the uplink `u` has neither `host` nor `peer_mac`");
    refused(kernel, host, uplinks, "the uplink `u` has no `peer_mac`");
    refused(kernel, ", host: {}", "", "names no interface");
    refused(", underlay: fabric", peer, uplinks, "fabric");
    refused(", max_routes: 60001", peer, uplinks, "out of range");
    refused(", min_path_mtu: 67", peer, uplinks, "`min_path_mtu: 67` is out of range");
    refused(", min_path_mtu: 65516", peer, uplinks, "out of range");
    refused(", table: 0x64", peer, uplinks, "plain decimal digits");
}

#[test]
fn next_hops_follow_the_states_of_ports() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/gateway/gateway.ir");
    let pipeline = ir::text::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let uplink =
        |n| format!("- {{name: u{n}, port: {n}, mac: '02:00:00:00:0{n}:01', peer_mac: '02:00:00:00:0{n}:02'}}\n");
    let text = format!(
        "region: r\ngateway: {{mac: '02:00:00:00:00:01', vteps: [192.0.2.1]}}\nuplinks:\n{}{}{}servers:\n- {{name: s, address: \
         192.0.2.11, uplinks: [u1, u2]}}\n- {{name: t, address: 192.0.2.12, uplinks: [u3]}}\n",
        uplink(1),
        uplink(2),
        uplink(3)
    );
    let region = region::parse("r.yaml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let (api, mut numbers) = (GatewayApi::new(&pipeline).unwrap(), IdAssignments::default());
    numbers.assign(&region);
    let mut actions = |states: &[(u32, LinkUse, Option<u16>)]| {
        let mut ports = PortStates::default();
        states.iter().for_each(|(port, link_use, mtu)| ports.set_port(*port, *link_use, *mtu));
        numbers.ports = ports;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        region::visit(&region, &api, &numbers, &RegionPart::NextHops, &mut |entry, _| {
            let entries::ActionSpec::Call(call) = &entry.action else { panic!("{entry:?}") };
            let name = pipeline.actions[call.action].preamble.name.rsplit('.').next().unwrap_or_default();
            let arguments: Vec<String> = [0, 3].iter().filter_map(|at| Some(call.args.get(*at)?.to_string())).collect();
            *counts.entry(format!("{name} {}", arguments.join(" "))).or_default() += 1;
        });
        counts.into_iter().map(|(action, count)| format!("{count} {action}")).collect::<Vec<_>>().join(", ")
    };
    use LinkUse::{Down, Held, Up};
    // A next hop of each uplink, and 16 of the group.
    assert_eq!(actions(&[]), "9 forward 1 1600, 9 forward 2 1600, 1 forward 3 1600");
    assert_eq!(actions(&[(1, Down, None)]), "17 forward 2 1600, 1 forward 3 1600, 1 path_down ");
    assert_eq!(actions(&[(1, Held, Some(1500))]), "1 forward 1 1500, 17 forward 2 1600, 1 forward 3 1600");
    assert_eq!(actions(&[(1, Held, None), (2, Down, None)]), "17 forward 1 1600, 1 forward 3 1600, 1 path_down ");
    assert_eq!(actions(&[(1, Down, None), (2, Down, None), (3, Up, Some(9000))]), "1 forward 3 1600, 18 path_down ");
}
