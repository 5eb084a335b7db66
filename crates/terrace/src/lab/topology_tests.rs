//! Tests of the data that labs are built from: the topology of a region, its checks, and the steps.
//! They need no namespaces.

use super::tests::{REGION, topology};
use super::*;
use std::collections::BTreeSet;
use std::net::IpAddr;

#[test]
fn the_topology_of_a_region() {
    let topology = topology();
    assert_eq!(topology.tenant_mtu(), 1500);
    let router = |vm: usize, address: usize| topology.vms[vm].addresses[address].router.to_string();
    assert_eq!(router(0, 0), "10.0.0.2", "the first address is a machine's");
    assert_eq!(router(0, 1), "fd00:100::1");
    assert_eq!(router(2, 0), "10.0.1.1");
    let [network] = &topology.remotes[0].networks[..] else { panic!("one VNI, one network") };
    assert_eq!(network.addresses, ["172.16.0.10", "fd00:5000::a"].map(|address| address.parse::<IpAddr>().unwrap()));
    assert_eq!(network.returns.iter().map(|back| back.vni).collect::<Vec<_>>(), [100]);
    let text = serde_json::to_string(&topology).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
}

#[test]
fn steps_use_only_what_exists_and_names_that_fit() {
    let mut namespaces = BTreeSet::new();
    for step in steps(&topology()) {
        match &step {
            LabStep::Namespace(name) => assert!(namespaces.insert(name.clone())),
            LabStep::Run { namespace, arguments, .. } => {
                assert!(namespaces.contains(namespace), "{step}");
                for pair in arguments.windows(2) {
                    match pair[0].as_str() {
                        "netns" => assert!(namespaces.contains(&pair[1]), "{step}"),
                        "dev" | "name" | "master" if pair[1] != "static" => assert!(pair[1].len() <= 15, "{step}"),
                        _ => {}
                    }
                }
            }
            LabStep::Sysctl { namespace, .. } | LabStep::WireForm { namespace, .. } => {
                assert!(namespaces.contains(namespace), "{step}");
            }
        }
    }
    assert_eq!(namespaces, topology().namespaces().into_iter().collect());
}

#[test]
fn what_cannot_be_built_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Topology)| {
        let mut topology = topology();
        change(&mut topology);
        topology.check().unwrap_err().to_string()
    };
    for bad in ["", "a-b", "Lab", "1a", "a b", "seventeenletterss"] {
        assert!(refused(&|t| t.name = bad.into()).contains("cannot be the name of a lab"), "{bad}");
    }
    assert!(refused(&|t| t.vms[0].name = "../x".into()).contains("`../x` cannot be a name in a lab"));
    assert!(refused(&|t| t.vms[0].name = "gw".into()).contains("namespace `test-gw`"));
    assert!(refused(&|t| t.vms[0].name = "hq-5000".into()).contains("namespace `test-hq-5000`"));
    assert!(refused(&|t| t.vms = vec![t.vms[0].clone(); 129]).contains("at most 128 machines"));
    assert!(refused(&|t| t.vms[0].server = "s9".into()).contains("server `s9`, which does not exist"));
    assert!(refused(&|t| t.gateway.uplinks[0].host = "s9".into()).contains("port 1 connects to `s9`"));
    assert!(refused(&|t| t.gateway.uplinks[0].port = 2).contains("port 2 connects to two hosts"));
    assert!(refused(&|t| t.gateway.uplinks[0].mtu = 1349).contains("at least 1350"));
    assert!(refused(&|t| drop(t.gateway.uplinks.remove(0))).contains("`s1` has no uplink"));
    assert!(refused(&|t| t.gateway.vteps.truncate(1)).contains("no tunnel address of that family"));
    assert!(refused(&|t| t.vms[1].addresses[0].router = "10.0.0.1".parse().unwrap()).contains("belongs to a machine"));
    let ambiguous = refused(&|t| {
        let mut other = t.remotes[0].networks[0].returns[0].clone();
        other.vni = 200;
        t.remotes[0].networks[0].returns.push(other);
    });
    assert!(ambiguous.contains("with VNI 5000, and both have 10.0.0.0/24"), "{ambiguous}");

    let shared = REGION.replace("uplinks: [u2, u3]", "uplinks: [u1, u2]");
    let region = region::parse("test.yaml", &shared).unwrap();
    let error = Topology::from_region("test", &region).unwrap_err().to_string();
    assert!(error.contains("`s1` and `s2` share the uplink `u1`"), "{error}");
}
