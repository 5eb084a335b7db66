//! Checks on machines that do not exist here.

use super::facts::{
    parse_capabilities, parse_cpu_list, parse_features, parse_interfaces, parse_maximums, parse_version,
};
use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a machine on which no check finds a problem, with the interface `eth1`.
fn good_machine() -> MachineFacts {
    let ethtool = EthtoolFacts {
        driver: "ice".to_owned(),
        queues: Some((8, 8)),
        ring: Some((2048, 8160)),
        ..EthtoolFacts::default()
    };
    let interface = InterfaceFacts {
        mtu_bytes: 1600,
        is_up: true,
        has_carrier: true,
        numa_node: Some(0),
        ethtool: Some(ethtool),
        ..InterfaceFacts::default()
    };
    let cpus = CpuFacts {
        online: (0..8).collect(),
        isolated: (2..4).collect(),
        siblings: [BTreeSet::from([2, 6])].into(),
        governors: (0..8).map(|cpu| (cpu, "performance".to_owned())).collect(),
        numa_nodes: (0..8).map(|cpu| (cpu, cpu / 4)).collect(),
    };
    MachineFacts {
        kernel: (6, 18),
        capabilities: u64::MAX,
        cpus,
        memory: MemoryFacts { huge_pages: 1024, free_huge_pages: 1000, transparent: "madvise".to_owned() },
        iommu_groups: 20,
        settings: [("net.core.rmem_max", "212992"), ("net.ipv4.neigh.default.gc_thresh3", "1024")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        pci_drivers: BTreeMap::from([("0000:01:00.0".to_owned(), Some("vfio-pci".to_owned()))]),
        namespaces: BTreeMap::from([(None, BTreeMap::from([("eth1".to_owned(), interface)]))]),
    }
}

/// Returns the requirements of a node with two workers, `eth1` and a network card of DPDK.
fn requirements() -> Requirements {
    let mut needed = Requirements { cores: vec![2, 3], neighbours: 1000, ..Requirements::default() };
    needed.add_interface("eth1", None);
    needed.ports[0].mtu_bytes = Some(1600);
    needed.add_interface("01:00.0", None);
    needed
}

/// Returns the findings that ask for a change, as `check: observation`.
fn problems(facts: &MachineFacts, needed: &Requirements) -> Vec<String> {
    let findings = examine(facts, needed);
    let with_problem = findings.into_iter().filter(|finding| finding.severity > Severity::Ok);
    with_problem
        .map(|finding| {
            assert!(finding.fix.is_some(), "{finding:?} says what to change");
            format!("{:?} {}: {}", finding.severity, finding.check, finding.observation)
        })
        .collect()
}

#[test]
fn a_good_machine_has_no_problem() {
    assert_eq!(problems(&good_machine(), &requirements()), Vec::<String>::new());
    assert!(examine(&good_machine(), &requirements()).len() >= 8);
}

/// Each line: what is changed on the good machine, and the start of the only finding.
#[test]
fn each_fault_of_a_machine_is_found_alone() {
    type Change = fn(&mut MachineFacts, &mut Requirements);
    fn eth1(facts: &mut MachineFacts) -> &mut InterfaceFacts {
        facts.namespaces.get_mut(&None).unwrap().get_mut("eth1").unwrap()
    }
    fn ethtool(facts: &mut MachineFacts) -> &mut EthtoolFacts {
        eth1(facts).ethtool.as_mut().unwrap()
    }
    let cases: Vec<(&str, Change)> = vec![
        ("Note kernel: Linux 6.12 lacks super-frames in tunnels", |facts, _| facts.kernel = (6, 12)),
        ("Error rights: this user may not open raw sockets", |facts, _| facts.capabilities = !(1 << 13)),
        ("Warning neighbour-table: the kernel keeps at most 1024", |_, needed| needed.neighbours = 1025),
        ("Error workers: processors 9 of `cores` are not online", |_, needed| needed.cores = vec![2, 9]),
        ("Note workers: workers share a core as hardware threads 2,6", |facts, needed| {
            needed.cores = vec![2, 6];
            facts.cpus.isolated = (0..8).collect();
            eth1(facts).numa_node = None;
        }),
        ("Note workers: the scheduler places other work on the workers' processors 2,3", |facts, _| {
            facts.cpus.isolated.clear();
        }),
        ("Note workers: processors 3 change their frequency", |facts, _| {
            facts.cpus.governors.insert(3, "schedutil".to_owned());
        }),
        ("Error huge-pages: DPDK needs huge pages; 1024 exist and none is free", |facts, _| {
            facts.memory.free_huge_pages = 0;
        }),
        ("Note huge-pages: transparent huge pages are off", |facts, _| facts.memory.transparent = "never".to_owned()),
        ("Warning iommu: the IOMMU is off", |facts, _| facts.iommu_groups = 0),
        ("Error pci-driver: its driver is ixgbe", |facts, _| {
            facts.pci_drivers.insert("0000:01:00.0".to_owned(), Some("ixgbe".to_owned()));
        }),
        ("Error pci-driver: no such PCI device", |facts, _| facts.pci_drivers.clear()),
        ("Error interface: no such interface; there are eth1", |_, needed| needed.ports[0].device = "eth2".to_owned()),
        ("Error interface: the interfaces of the namespace `blue`", |_, needed| {
            needed.ports[0].netns = Some("blue".to_owned());
        }),
        ("Error link: the interface is down", |facts, _| eth1(facts).is_up = false),
        ("Error link: the interface has no carrier", |facts, _| eth1(facts).has_carrier = false),
        ("Error mtu: its MTU is 1500 bytes, and the region's uplink has 1600", |facts, _| eth1(facts).mtu_bytes = 1500),
        ("Warning mtu: its MTU is 9000 bytes; most drivers run XDP up to 3498", |facts, needed| {
            needed.needs_xdp = true;
            eth1(facts).mtu_bytes = 9000;
        }),
        ("Error owner: another XDP program", |facts, needed| {
            needed.needs_xdp = true;
            eth1(facts).has_xdp = true;
        }),
        ("Note xdp-driver: the driver e1000e runs no XDP programs", |facts, needed| {
            needed.needs_xdp = true;
            ethtool(facts).driver = "e1000e".to_owned();
        }),
        ("Warning bpf-jit: the kernel interprets", |facts, needed| {
            needed.needs_xdp = true;
            facts.settings.insert("net.core.bpf_jit_enable".to_owned(), "0".to_owned());
        }),
        ("Warning owner: it is a member of `br0`", |facts, _| eth1(facts).controller = Some("br0".to_owned())),
        ("Warning host-address: the host has the address 192.0.2.1 here", |facts, _| {
            eth1(facts).addresses.push("192.0.2.1".to_owned());
        }),
        ("Note ethtool: offloads, queues and rings were not examined", |facts, _| eth1(facts).ethtool = None),
        ("Warning offloads: rx-udp-gro-forwarding is on", |facts, _| {
            ethtool(facts).features_on.insert("rx-udp-gro-forwarding".to_owned());
        }),
        ("Note queues: it has 1 receive queues for 2 workers", |facts, _| ethtool(facts).queues = Some((1, 8))),
        ("Note ring: its receive ring has 256 slots of at most 8160", |facts, _| {
            ethtool(facts).ring = Some((256, 8160))
        }),
        ("Warning numa-node: it is at NUMA node 1, and workers run on processors 2,3", |facts, _| {
            eth1(facts).numa_node = Some(1);
        }),
        ("Warning numa-balancing: the kernel moves memory", |facts, _| {
            facts.settings.insert("kernel.numa_balancing".to_owned(), "1".to_owned());
        }),
        ("Warning vxlan-owner: the kernel's own VXLAN device", |facts, _| {
            let vxlan = InterfaceFacts { kind: "vxlan".to_owned(), vxlan_port: Some(4789), ..eth1(facts).clone() };
            facts.namespaces.get_mut(&None).unwrap().insert("vx0".to_owned(), vxlan);
        }),
    ];
    for (expected, change) in cases {
        let (mut facts, mut needed) = (good_machine(), requirements());
        change(&mut facts, &mut needed);
        let found = problems(&facts, &needed);
        assert!(found.len() == 1 && found[0].starts_with(expected), "expected {expected:?}, found {found:#?}");
    }
}

#[test]
fn all_processors_for_workers_leave_none_to_the_host() {
    let (mut facts, mut needed) = (good_machine(), requirements());
    facts.cpus.online = [2, 3].into();
    needed.cores = vec![2, 3];
    assert_eq!(problems(&facts, &needed).len(), 1);
    assert!(problems(&facts, &needed)[0].starts_with("Warning workers: workers use all processors"));
}

#[test]
fn a_small_buffer_matters_without_permission_to_exceed_it() {
    let (mut facts, needed) = (good_machine(), requirements());
    facts.capabilities = 1 << 13;
    let found = problems(&facts, &needed);
    assert!(found.iter().any(|line| line.starts_with("Warning receive-buffer: receive buffers have at most 212992")));
}

#[test]
fn files_of_the_kernel_are_parsed() {
    assert_eq!(parse_version("6.18.44"), (6, 18));
    assert_eq!(parse_version("5.15.0-1051-aws"), (5, 15));
    assert_eq!(parse_version("none"), (0, 0));
    assert_eq!(parse_cpu_list("0-2,5,7-7"), [0, 1, 2, 5, 7].into());
    assert_eq!(parse_cpu_list(""), BTreeSet::new());
    assert_eq!(parse_cpu_list("3-1,x,0-99999999999").len(), 8192);
    assert_eq!(parse_capabilities("Name:\tx\nCapEff:\t0000000000003000\n"), 0x3000);
    assert_eq!(parse_capabilities(""), 0);
}

#[test]
fn output_of_ethtool_is_parsed() {
    let on = parse_features("Features for e:\nrx-gro-list: on\n\ttx-sctp: off [fixed]\nlarge: on [fixed]\n");
    assert_eq!(on, ["rx-gro-list", "large"].map(str::to_owned).into());
    let channels = "Channel parameters for e:\nPre-set maximums:\nRX:\t\tn/a\nCombined:\t8\nCurrent hardware settings:\nRX:\t\tn/a\nCombined:\t2\n";
    assert_eq!(parse_maximums(channels, &["Combined:", "RX:"]), Some((2, 8)));
    let veth = "Pre-set maximums:\nRX:\t\t2\nCombined:\tn/a\nCurrent:\nRX:\t\t1\nCombined:\tn/a\n";
    assert_eq!(parse_maximums(veth, &["Combined:", "RX:"]), Some((1, 2)));
    assert_eq!(parse_maximums("", &["RX:"]), None);
}

#[test]
fn output_of_ip_is_parsed() {
    let json = r#"[{"ifname":"vx0","flags":["UP","LOWER_UP"],"mtu":1450,"master":"br0","future":[{}],
        "linkinfo":{"info_kind":"vxlan","info_data":{"id":7,"port":4789}},"xdp":{"mode":1},
        "addr_info":[{"local":"fe80::1","scope":"link"},{"local":"10.0.0.1","scope":"global"}]},{"ifname":"lo"}]"#;
    let interfaces = parse_interfaces(json).unwrap();
    let vx0 = &interfaces["vx0"];
    assert!(vx0.is_up && vx0.has_carrier && vx0.has_xdp);
    assert_eq!((vx0.mtu_bytes, vx0.vxlan_port, vx0.controller.as_deref()), (1450, Some(4789), Some("br0")));
    assert_eq!(vx0.addresses, ["10.0.0.1"]);
    assert!(!interfaces["lo"].is_up);
    assert_eq!(parse_interfaces("no json"), None);
}
