//! Probes of the demo and their expected results. VMs and addresses are those of
//! `examples/lab.yaml`.

use serde::Serialize;
use std::net::IpAddr;

/// Region file of the demo.
pub const REGION: &str = include_str!("../../../../../examples/lab.yaml");
/// Path of the region file in traces, as in the repository.
pub const REGION_FILE: &str = "examples/lab.yaml";

/// TCP port on which every VM sends its name.
pub const NAME_PORT: u16 = 7000;
/// TCP port on `red-b` that an ACL rule of `red` denies. Every VM sends its name on this port too.
pub const DENIED_PORT: u16 = 2323;
/// VNI that no tenant has.
pub const STRANGE_VNI: u32 = 999;
/// Name of the station that sends with that VNI.
pub const STRANGER: &str = "stranger";

/// Kind of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeMethod {
    /// ICMP echo. The replying VM is then asked for its name over TCP.
    Ping,
    /// TCP to the port of an ACL rule.
    Tcp,
}

/// Expected result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedResult {
    /// The named VM replies.
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
            ExpectedResult::Reaches(who) => who.to_owned(),
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
            ProbeMethod::Tcp => format!("{} tcp {DENIED_PORT}", self.to),
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

const fn reaches(from: &'static str, to: &'static str, who: &'static str) -> Probe {
    Probe { from, to, method: ProbeMethod::Ping, expected: ExpectedResult::Reaches(who) }
}

const fn dropped(from: &'static str, to: &'static str, reason: &'static str) -> Probe {
    Probe { from, to, method: ProbeMethod::Ping, expected: ExpectedResult::Dropped(reason) }
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
];

/// Probes that must not pass.
pub const STOP: &[ProbeGroup] = &[ProbeGroup {
    title: "",
    probes: &[
        dropped("blue-a", "10.3.0.11", "no_route"),
        dropped("blue-a", "172.16.0.10", "no_route"),
        dropped("blue-b", "fd00:300::11", "no_route"),
        dropped("red-a", "10.0.1.99", "unknown_vm"),
        dropped("red-a", "10.66.0.1", "blackhole_route"),
        Probe {
            from: "red-a",
            to: "10.0.0.12",
            method: ProbeMethod::Tcp,
            expected: ExpectedResult::Dropped("acl_denied_in"),
        },
        dropped(STRANGER, "10.0.0.12", "unknown_vni"),
        Probe {
            from: "red-c",
            to: "198.18.0.1",
            method: ProbeMethod::Ping,
            expected: ExpectedResult::ToCpu("internet"),
        },
    ],
}];

/// Probes after the region change, which removes the peering and opens the denied port.
pub const CHANGED: &[ProbeGroup] = &[ProbeGroup {
    title: "",
    probes: &[
        dropped("green-b", "10.0.0.12", "no_route"),
        dropped("red-b", "fd00:300::11", "no_route"),
        Probe { from: "red-a", to: "10.0.0.12", method: ProbeMethod::Tcp, expected: ExpectedResult::Reaches("red-b") },
        reaches("blue-a", "10.0.0.12", "blue-b"),
        reaches("red-a", "172.16.0.10", "hq"),
    ],
}];

/// Returns the region without the peering and the ACL rule. All other lines keep their line
/// numbers.
pub fn changed_region() -> String {
    let gone = ["  - between: [red, green]", "    acl:", "      - {priority: 100,"];
    let line = |line: &str| match line {
        "peerings:" => "peerings: []".to_owned(),
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
        known.push(STRANGER.to_owned());
        for probe in PASS.iter().chain(STOP).chain(CHANGED).flat_map(|group| group.probes) {
            assert!(probe.to.parse::<IpAddr>().is_ok(), "{}", probe.to);
            assert!(known.iter().any(|name| name == probe.from), "{}", probe.from);
            if let ExpectedResult::Reaches(who) = probe.expected {
                assert!(known.iter().any(|name| name == who), "{who}");
            }
        }
    }

    #[test]
    fn the_changed_region_lacks_a_peering_and_a_rule_and_the_wrong_one_is_refused() {
        let before = region::parse("a", REGION).unwrap();
        let after = region::parse("b", &changed_region()).unwrap();
        assert_eq!((before.file.peerings.len(), after.file.peerings.len()), (1, 0));
        let rules = |region: &region::ResolvedRegion| region.file.vpcs.iter().map(|vpc| vpc.acl.len()).sum::<usize>();
        assert_eq!((rules(&before), rules(&after)), (1, 0));
        assert_eq!(before.file.vms[6].name.at, after.file.vms[6].name.at, "no other line has moved");
        let wrong = region::parse("c", &wrong_region()).unwrap_err().to_string();
        assert!(wrong.contains("10.4.0.12"), "{wrong}");
    }
}
