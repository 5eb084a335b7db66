//! What the demo tries, and what is to come of it. The machines and addresses are those of `examples/lab.yaml`.

use serde::Serialize;
use std::net::IpAddr;

/// The region that is demonstrated.
pub const REGION: &str = include_str!("../../../../../examples/lab.yaml");
/// Where it seems to be, in traces: as in the repository.
pub const REGION_FILE: &str = "examples/lab.yaml";

/// The TCP port on which every machine says its name.
pub const NAME_PORT: u16 = 7000;
/// The TCP port that an ACL rule of `red` keeps closed on `red-b`; every machine says its name there, too.
pub const DENIED_PORT: u16 = 2323;
/// A VNI that no tenant has.
pub const STRANGE_VNI: u32 = 999;
/// Who sends with that VNI.
pub const STRANGER: &str = "stranger";

/// How it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Means {
    /// ICMP echo; whoever answers is then asked for its name over TCP.
    Ping,
    /// TCP to the port that an ACL rule is about.
    Tcp,
}

/// What is to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This machine answers.
    Reaches(&'static str),
    /// The gateway drops all of it and counts it under this reason.
    Dropped(&'static str),
    /// The gateway hands all of it to the control plane, for this reason.
    ToCpu(&'static str),
}

impl Expected {
    /// As it stands in the table.
    pub fn text(self) -> String {
        match self {
            Expected::Reaches(who) => who.to_owned(),
            Expected::Dropped(reason) => format!("dropped: {reason}"),
            Expected::ToCpu(reason) => format!("to the CPU: {reason}"),
        }
    }
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Who sends.
    pub from: &'static str,
    /// To which address.
    pub to: &'static str,
    /// How.
    pub means: Means,
    /// What is to come of it.
    pub expected: Expected,
}

impl Probe {
    /// The address that it goes to.
    pub fn address(&self) -> IpAddr {
        // Written in this file, and read by a test.
        self.to.parse().unwrap_or(IpAddr::from([0, 0, 0, 0]))
    }

    /// The address, with the port if that matters.
    pub fn target(&self) -> String {
        match self.means {
            Means::Ping => self.to.to_owned(),
            Means::Tcp => format!("{} tcp {DENIED_PORT}", self.to),
        }
    }
}

/// Attempts that show one thing.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they show.
    pub title: &'static str,
    /// The attempts.
    pub probes: &'static [Probe],
}

const fn reaches(from: &'static str, to: &'static str, who: &'static str) -> Probe {
    Probe { from, to, means: Means::Ping, expected: Expected::Reaches(who) }
}

const fn dropped(from: &'static str, to: &'static str, reason: &'static str) -> Probe {
    Probe { from, to, means: Means::Ping, expected: Expected::Dropped(reason) }
}

/// What must pass.
pub const PASS: &[Group] = &[
    Group {
        title: "one VPC, machines on different servers",
        probes: &[
            reaches("red-a", "10.0.0.12", "red-b"),
            reaches("red-a", "fd00:100::12", "red-b"),
            reaches("red-a", "10.0.1.13", "red-c"),
            reaches("red-b", "fd00:100::13", "red-c"),
        ],
    },
    Group {
        title: "another VPC with the same addresses, at the same time",
        probes: &[reaches("blue-a", "10.0.0.12", "blue-b"), reaches("blue-a", "fd00:100::12", "blue-b")],
    },
    Group {
        title: "peered VPCs",
        probes: &[
            reaches("red-b", "10.3.0.11", "green-a"),
            reaches("red-b", "fd00:300::11", "green-a"),
            reaches("green-b", "10.0.0.12", "red-b"),
            reaches("green-b", "fd00:100::13", "red-c"),
        ],
    },
    Group {
        title: "the tenant's data centre, and another region",
        probes: &[
            reaches("red-a", "172.16.0.10", "hq"),
            reaches("hq", "10.0.1.13", "red-c"),
            reaches("red-c", "10.9.0.10", "west"),
            reaches("west", "10.0.0.11", "red-a"),
        ],
    },
];

/// What must not pass.
pub const STOP: &[Group] = &[Group {
    title: "",
    probes: &[
        dropped("blue-a", "10.3.0.11", "no_route"),
        dropped("blue-a", "172.16.0.10", "no_route"),
        dropped("blue-b", "fd00:300::11", "no_route"),
        dropped("red-a", "10.0.1.99", "unknown_vm"),
        dropped("red-a", "10.66.0.1", "blackhole_route"),
        Probe { from: "red-a", to: "10.0.0.12", means: Means::Tcp, expected: Expected::Dropped("acl_denied_in") },
        dropped(STRANGER, "10.0.0.12", "unknown_vni"),
        Probe { from: "red-c", to: "198.18.0.1", means: Means::Ping, expected: Expected::ToCpu("internet") },
    ],
}];

/// What the changed region changes: the peering is gone, the denied port is open.
pub const CHANGED: &[Group] = &[Group {
    title: "",
    probes: &[
        dropped("green-b", "10.0.0.12", "no_route"),
        dropped("red-b", "fd00:300::11", "no_route"),
        Probe { from: "red-a", to: "10.0.0.12", means: Means::Tcp, expected: Expected::Reaches("red-b") },
        reaches("blue-a", "10.0.0.12", "blue-b"),
        reaches("red-a", "172.16.0.10", "hq"),
    ],
}];

/// The region without the peering and without the ACL rule. All other lines stay where they are.
pub fn changed_region() -> String {
    let gone = ["  - between: [red, green]", "    acl:", "      - {priority: 100,"];
    let line = |line: &str| match line {
        "peerings:" => "peerings: []".to_owned(),
        line if gone.iter().any(|start| line.starts_with(start)) => String::new(),
        line => line.to_owned(),
    };
    REGION.lines().map(|text| line(text) + "\n").collect()
}

/// A region with a mistake: a machine outside of its VPC's subnets.
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
            if let Expected::Reaches(who) = probe.expected {
                assert!(known.iter().any(|name| name == who), "{who}");
            }
        }
    }

    #[test]
    fn the_changed_region_lacks_a_peering_and_a_rule_and_the_wrong_one_is_refused() {
        let before = region::parse("a", REGION).unwrap();
        let after = region::parse("b", &changed_region()).unwrap();
        assert_eq!((before.file.peerings.len(), after.file.peerings.len()), (1, 0));
        let rules = |region: &region::Region| region.file.vpcs.iter().map(|vpc| vpc.acl.len()).sum::<usize>();
        assert_eq!((rules(&before), rules(&after)), (1, 0));
        assert_eq!(before.file.vms[6].name.at, after.file.vms[6].name.at, "no other line has moved");
        let wrong = region::parse("c", &wrong_region()).unwrap_err().to_string();
        assert!(wrong.contains("10.4.0.12"), "{wrong}");
    }
}
