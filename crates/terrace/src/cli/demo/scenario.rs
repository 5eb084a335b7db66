//! Probes of the demo and their expected results. VMs and addresses are those of
//! `examples/lab.yaml`.

use std::net::IpAddr;

/// Region file of the demo.
pub const REGION: &str = include_str!("../../../../../examples/lab.yaml");
/// Path of the region file in traces, as in the repository.
pub const REGION_FILE: &str = "examples/lab.yaml";

/// TCP port on which every VM sends its name.
pub const NAME_PORT: u16 = 7000;
/// TCP port on `red-b` that an ACL rule of `red` denies.
const DENIED_PORT: u16 = 2323;
/// TCP port that the group of `red-d` opens.
const OPEN_PORT: u16 = 22;
/// TCP port of the service `web`.
pub const SERVICE_PORT: u16 = 80;
/// TCP ports on which every VM sends its name: those of probes as machines see them.
pub const PORTS_WITH_NAMES: [u16; 5] = [NAME_PORT, DENIED_PORT, OPEN_PORT, 8080, 8443];
/// Connections of a probe to a service. One backend gets all of them by chance once in 32,768 runs.
pub const CONNECTIONS: usize = 16;
/// Address of the service `web` in its VPC.
pub const SERVICE: &str = "10.0.0.100";
/// VNI that no tenant has.
pub const STRANGE_VNI: u32 = 999;
/// Name of the station that sends with that VNI.
pub const STRANGER: &str = "stranger";

/// Kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMethod {
    /// ICMP echo. The replying VM is then asked for its name over TCP.
    Ping,
    /// A TCP connection to this port. The VM sends its name.
    Tcp(u16),
    /// [`CONNECTIONS`] TCP connections to this port.
    Connections(u16),
}

impl ProbeMethod {
    /// Returns the number of requests.
    pub fn requests(self) -> usize {
        if let ProbeMethod::Connections(_) = self { CONNECTIONS } else { 1 }
    }

    /// Returns the TCP port, unless it is a ping.
    pub fn port(self) -> Option<u16> {
        match self {
            ProbeMethod::Ping => None,
            ProbeMethod::Tcp(port) | ProbeMethod::Connections(port) => Some(port),
        }
    }
}

/// Expected result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedResult {
    /// The named VM replies; of several connections, each of the named VMs to at least one.
    Reaches(&'static str),
    /// The gateway drops all packets and counts them under this reason.
    Dropped(&'static str),
    /// The gateway sends all packets to the control plane, for this reason.
    ToCpu(&'static str),
}

impl ExpectedResult {
    /// Returns the text for the result table.
    pub fn text(self) -> String {
        match self {
            ExpectedResult::Reaches(names) => names.to_owned(),
            ExpectedResult::Dropped(reason) => format!("dropped: {reason}"),
            ExpectedResult::ToCpu(reason) => format!("to the CPU: {reason}"),
        }
    }
}

/// One probe.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Name of the sender.
    pub from: &'static str,
    /// Destination address.
    pub to: &'static str,
    /// Kind of probe.
    pub method: ProbeMethod,
    /// Expected result of the probe.
    pub expected: ExpectedResult,
}

impl Probe {
    /// Returns the destination address.
    pub fn address(&self) -> IpAddr {
        // Constant of this file; a test checks that it parses.
        self.to.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]))
    }

    /// Returns the destination address, with the port if it is relevant.
    pub fn target(&self) -> String {
        match self.method {
            ProbeMethod::Ping => self.to.to_owned(),
            ProbeMethod::Tcp(port) => format!("{} tcp {port}", self.to),
            ProbeMethod::Connections(port) => format!("{} tcp {port}, {CONNECTIONS} times", self.to),
        }
    }
}

/// Probes that demonstrate one property.
#[derive(Clone, Copy, Debug)]
pub struct ProbeGroup {
    /// Property that they demonstrate.
    pub title: &'static str,
    /// Probes of the group.
    pub probes: &'static [Probe],
}

const fn reaches(from: &'static str, to: &'static str, names: &'static str) -> Probe {
    Probe { from, to, method: ProbeMethod::Ping, expected: ExpectedResult::Reaches(names) }
}

const fn dropped(from: &'static str, to: &'static str, reason: &'static str) -> Probe {
    Probe { from, to, method: ProbeMethod::Ping, expected: ExpectedResult::Dropped(reason) }
}

impl Probe {
    /// Returns the probe with a TCP connection in the place of the ping.
    const fn by_tcp(self, port: u16) -> Probe {
        Probe { method: ProbeMethod::Tcp(port), ..self }
    }

    /// Returns the probe with connections to the service `web` in the place of the ping.
    const fn by_connections(self) -> Probe {
        Probe { method: ProbeMethod::Connections(SERVICE_PORT), ..self }
    }
}

/// Probes that must pass.
pub const PASS: &[ProbeGroup] = &[
    ProbeGroup {
        title: "one VPC, machines on different servers",
        probes: &[
            reaches("red-a", "10.0.0.12", "red-b"),
            reaches("red-a", "fd00:100::12", "red-b"),
            reaches("red-a", "10.0.1.13", "red-c"),
            reaches("red-b", "fd00:100::13", "red-c"),
        ],
    },
    ProbeGroup {
        title: "another VPC with the same addresses, at the same time",
        probes: &[reaches("blue-a", "10.0.0.12", "blue-b"), reaches("blue-a", "fd00:100::12", "blue-b")],
    },
    ProbeGroup {
        title: "peered VPCs",
        probes: &[
            reaches("red-b", "10.3.0.11", "green-a"),
            reaches("red-b", "fd00:300::11", "green-a"),
            reaches("green-b", "10.0.0.12", "red-b"),
            reaches("green-b", "fd00:100::13", "red-c"),
        ],
    },
    ProbeGroup {
        title: "the tenant's data centre, and another region",
        probes: &[
            reaches("red-a", "172.16.0.10", "hq"),
            reaches("hq", "10.0.1.13", "red-c"),
            reaches("red-c", "10.9.0.10", "west"),
            reaches("west", "10.0.0.11", "red-a"),
        ],
    },
    ProbeGroup {
        title: "the Internet, by a NAT, and by another prefix of IPv6",
        probes: &[
            reaches("red-a", "203.0.113.200", "internet"),
            reaches("red-c", "203.0.113.200", "internet"),
            reaches("red-b", "2001:db8:ffff::200", "internet"),
        ],
    },
    ProbeGroup {
        title: "from the Internet: an elastic address with a port that its group opens, and a forwarded port",
        probes: &[
            reaches("internet", "198.51.100.40", "red-d").by_tcp(OPEN_PORT),
            reaches("internet", "198.51.100.16", "red-b").by_tcp(443),
        ],
    },
    ProbeGroup {
        title: "a service with two backends: from its VPC, from a peer, from the Internet",
        probes: &[
            reaches("red-a", SERVICE, "red-b and red-c").by_connections(),
            reaches("green-b", SERVICE, "red-b and red-c").by_connections(),
            reaches("internet", "198.51.100.60", "red-b and red-c").by_connections(),
        ],
    },
];

/// Probes that must not pass.
pub const STOP: &[ProbeGroup] = &[
    ProbeGroup {
        title: "between tenants",
        probes: &[
            dropped("blue-a", "10.3.0.11", "no_route"),
            dropped("blue-a", "172.16.0.10", "no_route"),
            dropped("blue-b", "fd00:300::11", "no_route"),
            dropped("red-a", "10.0.1.99", "unknown_vm"),
            dropped("red-a", "10.66.0.1", "blackhole_route"),
            dropped("red-a", "10.0.0.12", "acl_denied_in").by_tcp(DENIED_PORT),
            dropped("red-a", SERVICE, "service_port").by_tcp(81),
            dropped(STRANGER, "10.0.0.12", "unknown_vni"),
        ],
    },
    ProbeGroup {
        title: "from the Internet: without a forward, a rule of the group, a question, a service",
        probes: &[
            dropped("internet", "198.51.100.16", "no_session").by_tcp(444),
            dropped("internet", "198.51.100.40", "group_denied_in").by_tcp(8080),
            dropped("internet", RED_A_OUTSIDE, "internet_unasked"),
            dropped("internet", "198.51.100.60", "no_session").by_tcp(81),
        ],
    },
    ProbeGroup {
        title: "to the underlay, and to the gateway itself",
        probes: &[
            dropped("red-a", "192.0.2.11", "nat_destination"),
            Probe { from: "s1", to: "192.0.2.1", method: ProbeMethod::Ping, expected: ExpectedResult::ToCpu("icmp") },
        ],
    },
];

/// Address of `red-a` on the Internet: the sums of fd00:100::/64 and 2001:db8:100:1::/64 differ by cf46.
const RED_A_OUTSIDE: &str = "2001:db8:100:1:cf46::11";

/// Probes after the region change, which removes the peering, opens the denied port and drains a backend.
pub const CHANGED: &[ProbeGroup] = &[ProbeGroup {
    title: "",
    probes: &[
        dropped("green-b", "10.0.0.12", "no_route"),
        dropped("green-b", "fd00:100::12", "no_route"),
        reaches("red-a", "10.0.0.12", "red-b").by_tcp(DENIED_PORT),
        reaches("red-a", SERVICE, "red-b").by_connections(),
        reaches("blue-a", "10.0.0.12", "blue-b"),
        reaches("red-a", "172.16.0.10", "hq"),
    ],
}];

/// Returns the region without the peering and the ACL rule, and with a backend that drains. All other
/// lines keep their line numbers.
pub fn changed_region() -> String {
    let gone = ["  - between: [red, green]", "    acl:", "      - {priority: 100,"];
    let line = |line: &str| match line {
        "peerings:" => "peerings: []".to_owned(),
        "          - {vm: 10.0.1.13, port: 8080}" => line.replace('}', ", state: draining}"),
        line if gone.iter().any(|start| line.starts_with(start)) => String::new(),
        line => line.to_owned(),
    };
    REGION.lines().map(|text| line(text) + "\n").collect()
}

/// Returns an invalid region: a VM outside of its VPC's subnets.
pub fn wrong_region() -> String {
    REGION.replacen("[10.3.0.12,", "[10.4.0.12,", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_and_addresses_are_those_of_the_region() {
        let region = region::parse(REGION_FILE, REGION).unwrap();
        let mut known: Vec<String> = region.file.vms.iter().map(|vm| vm.name.value.to_string()).collect();
        known.extend(region.file.remotes.iter().map(|remote| remote.name.value.to_string()));
        known.extend(region.file.servers.iter().map(|server| server.name.value.to_string()));
        known.extend([STRANGER, "internet"].map(str::to_owned));
        for probe in PASS.iter().chain(STOP).chain(CHANGED).flat_map(|group| group.probes) {
            assert!(probe.to.parse::<IpAddr>().is_ok(), "{}", probe.to);
            assert!(known.iter().any(|name| name == probe.from), "{}", probe.from);
            if let ExpectedResult::Reaches(names) = probe.expected {
                assert!(names.split(" and ").all(|one| known.iter().any(|name| name == one)), "{names}");
            }
        }
    }

    #[test]
    fn the_changed_region_drains_a_backend_and_lacks_a_peering_and_a_rule_and_the_wrong_one_is_refused() {
        let before = region::parse("a", REGION).unwrap();
        let after = region::parse("b", &changed_region()).unwrap();
        assert_eq!((before.file.peerings.len(), after.file.peerings.len()), (1, 0));
        let rules = |region: &region::ResolvedRegion| region.file.vpcs.iter().map(|vpc| vpc.acl.len()).sum::<usize>();
        assert_eq!((rules(&before), rules(&after)), (1, 0));
        let draining = |region: &region::ResolvedRegion| {
            let backends = region.file.vpcs.iter().flat_map(|vpc| &vpc.services).flat_map(|service| &service.backends);
            backends.filter(|backend| backend.state == region::BackendState::Draining).count()
        };
        assert_eq!((draining(&before), draining(&after)), (0, 1));
        assert_eq!(before.file.vms[7].name.at, after.file.vms[7].name.at, "no other line has moved");
        let wrong = region::parse("c", &wrong_region()).unwrap_err().to_string();
        assert!(wrong.contains("10.4.0.12"), "{wrong}");
    }
}
