//! Checks of a network interface that is a port.

use super::{EthtoolFacts, Finding, InterfaceFacts, MachineFacts, PortRequirement, Requirements, Severity};

/// Maximum MTU in bytes at which drivers run XDP with one buffer for each packet.
const XDP_MTU: u32 = 3498;

/// Drivers that run XDP programs themselves; on others the kernel does, more slowly.
const NATIVE_XDP: [&str; 17] = [
    "atlantic",
    "bnxt_en",
    "ena",
    "gve",
    "hv_netvsc",
    "i40e",
    "ice",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mlx4_en",
    "mlx5_core",
    "mvneta",
    "stmmac",
    "veth",
    "virtio_net",
];

/// Checks the interface of a port: its link, MTU, other users, offloads, queues and NUMA node.
/// Ports without an interface have no findings.
pub(super) fn check(facts: &MachineFacts, needed: &Requirements, port: &PortRequirement) -> Vec<Finding> {
    let Some(name) = port.interface() else { return Vec::new() };
    let Some(interfaces) = facts.namespaces.get(&port.netns) else {
        let netns = port.netns.as_deref().unwrap_or("this process");
        let observation = format!("the interfaces of the namespace `{netns}` cannot be read");
        let fix = format!("create it with `ip netns add {netns}`, install iproute2, or run this command as root");
        return vec![Finding::problem(Severity::Error, "interface", name, observation, fix)];
    };
    let Some(interface) = interfaces.get(name) else {
        let observation = format!("no such interface; there are {}", join(interfaces.keys()));
        let fix = "create it, or correct `device` of the port (its `netns`, too)";
        return vec![Finding::problem(Severity::Error, "interface", name, observation, fix)];
    };
    let checked = CheckedInterface { name, netns: port.netns.as_deref(), facts: interface };
    let mut findings = vec![checked.check_link()];
    findings.extend(checked.check_mtu(port, needed));
    findings.extend(checked.check_owner(needed));
    match &interface.ethtool {
        None => findings.push(Finding::problem(
            Severity::Note,
            "ethtool",
            name,
            "offloads, queues and rings were not examined, because `ethtool` does not run",
            "apt-get install ethtool",
        )),
        Some(ethtool) => {
            findings.extend(checked.check_offloads(ethtool, needed));
            findings.extend(checked.check_queues(ethtool, needed));
        }
    }
    findings.extend(checked.check_numa_node(facts, needed));
    findings
}

fn join<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let all: Vec<&str> = names.take(12).map(String::as_str).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

/// An interface under examination.
struct CheckedInterface<'a> {
    name: &'a str,
    netns: Option<&'a str>,
    facts: &'a InterfaceFacts,
}

impl CheckedInterface<'_> {
    fn problem(&self, severity: Severity, check: &'static str, observation: String, fix: String) -> Finding {
        Finding::problem(severity, check, self.name, observation, fix)
    }

    /// Returns a command of iproute2 in the interface's namespace.
    fn ip(&self, arguments: &str) -> String {
        match self.netns {
            Some(netns) => format!("ip -n {netns} {arguments}"),
            None => format!("ip {arguments}"),
        }
    }

    /// Returns a command of another tool in the interface's namespace.
    fn tool(&self, command: &str) -> String {
        match self.netns {
            Some(netns) => format!("ip netns exec {netns} {command}"),
            None => command.to_owned(),
        }
    }

    fn check_link(&self) -> Finding {
        let (name, facts) = (self.name, self.facts);
        if !facts.is_up {
            let fix = self.ip(&format!("link set {name} up"));
            return self.problem(Severity::Error, "link", "the interface is down".to_owned(), fix);
        }
        if !facts.has_carrier {
            let fix = "check the cable, and the interface at the other end".to_owned();
            return self.problem(Severity::Error, "link", "the interface has no carrier".to_owned(), fix);
        }
        let kind = if facts.kind.is_empty() { "hardware" } else { &facts.kind };
        Finding::ok("link", name, format!("up ({kind})"))
    }

    /// Checks that the MTU is that of the region's uplink, and that XDP works with it.
    fn check_mtu(&self, port: &PortRequirement, needed: &Requirements) -> Vec<Finding> {
        let (name, mtu) = (self.name, self.facts.mtu_bytes);
        let mut findings = Vec::new();
        if let Some(uplink_mtu) = port.mtu_bytes.filter(|uplink_mtu| *uplink_mtu > mtu) {
            let observation = format!(
                "its MTU is {mtu} bytes, and the region's uplink has {uplink_mtu}: longer packets are lost as `tx_mtu`"
            );
            let fix = format!(
                "{}, or write `mtu: {mtu}` at the uplink",
                self.ip(&format!("link set {name} mtu {uplink_mtu}"))
            );
            findings.push(self.problem(Severity::Error, "mtu", observation, fix));
        }
        if needed.needs_xdp && mtu > XDP_MTU {
            let observation = format!("its MTU is {mtu} bytes; most drivers run XDP up to {XDP_MTU}");
            let fix = self.ip(&format!("link set {name} mtu {XDP_MTU}"));
            findings.push(self.problem(Severity::Warning, "mtu", observation, fix));
        }
        if findings.is_empty() {
            findings.push(Finding::ok("mtu", name, format!("{mtu} bytes")));
        }
        findings
    }

    /// Checks for other users of the interface.
    fn check_owner(&self, needed: &Requirements) -> Vec<Finding> {
        let (name, facts) = (self.name, self.facts);
        let mut findings = Vec::new();
        if let Some(controller) = &facts.controller {
            let observation = format!("it is a member of `{controller}`, which takes its packets as well");
            let fix = format!("{}, or make `{controller}` the port", self.ip(&format!("link set {name} nomaster")));
            findings.push(self.problem(Severity::Warning, "owner", observation, fix));
        }
        if needed.needs_xdp && facts.has_xdp {
            let observation = "another XDP program is attached".to_owned();
            findings.push(self.problem(
                Severity::Error,
                "owner",
                observation,
                self.ip(&format!("link set {name} xdp off")),
            ));
        }
        if !facts.addresses.is_empty() {
            let observation = format!(
                "the host has the address {} here, so its kernel answers tenants' packets to it with port unreachable",
                facts.addresses.join(", ")
            );
            let fix = self.tool(&format!(
                "nft 'add table netdev terrace; add chain netdev terrace {name} {{ type filter hook ingress device {name} \
                 priority 0; }}; add rule netdev terrace {name} udp dport 4789 drop' (the gateway receives before it)"
            ));
            findings.push(self.problem(Severity::Warning, "host-address", observation, fix));
        }
        findings
    }

    /// Checks that no receive offload merges packets of tunnels, and that the driver runs XDP
    /// programs.
    fn check_offloads(&self, ethtool: &EthtoolFacts, needed: &Requirements) -> Vec<Finding> {
        /// Receive offloads that merge packets of a tunnel so that they cannot be told apart again.
        const HARMFUL: [(&str, &str); 3] = [
            ("rx-udp-gro-forwarding", "merges VXLAN datagrams, so TCP in tunnels stands still"),
            ("large-receive-offload", "merges packets in a way that cannot be undone, so routers must not use it"),
            ("rx-gro-list", "merges VXLAN datagrams to lists, which programs in the kernel cannot read"),
        ];
        let name = self.name;
        let is_on = |feature: &str| ethtool.features_on.contains(feature);
        let mut findings: Vec<Finding> = HARMFUL
            .iter()
            .filter(|(feature, _)| is_on(feature))
            .map(|(feature, effect)| {
                let fix = self.tool(&format!("ethtool -K {name} {feature} off"));
                self.problem(Severity::Warning, "offloads", format!("{feature} is on: it {effect}"), fix)
            })
            .collect();
        let driver = &*ethtool.driver;
        if needed.needs_xdp && !driver.is_empty() && !NATIVE_XDP.contains(&driver) {
            let observation = format!("the driver {driver} runs no XDP programs, so the kernel does, more slowly");
            let fix = "use the flow cache in user space: `cache = { kind = \"rewrites\" }`".to_owned();
            findings.push(self.problem(Severity::Note, "xdp-driver", observation, fix));
        }
        if findings.is_empty() {
            findings.push(Finding::ok("offloads", name, "no receive offload harms VXLAN"));
        }
        findings
    }

    /// Checks that there is a receive queue for each worker, and that the receive ring is long
    /// enough for bursts.
    fn check_queues(&self, ethtool: &EthtoolFacts, needed: &Requirements) -> Vec<Finding> {
        let name = self.name;
        let mut findings = Vec::new();
        if let Some((queues, max_queues)) = ethtool.queues
            && (queues as usize) < needed.cores.len()
            && max_queues > queues
            && self.facts.kind.is_empty()
        {
            let queues_needed = (needed.cores.len() as u32).min(max_queues);
            let observation = format!("it has {queues} receive queues for {} workers", needed.cores.len());
            let fix = self.tool(&format!("ethtool -L {name} combined {queues_needed}"));
            findings.push(self.problem(Severity::Note, "queues", observation, fix));
        }
        if let Some((slots, max_slots)) = ethtool.ring
            && slots < max_slots.min(1024)
        {
            let observation = format!("its receive ring has {slots} slots of at most {max_slots}: bursts are lost");
            let fix = self.tool(&format!("ethtool -G {name} rx {}", max_slots.min(4096)));
            findings.push(self.problem(Severity::Note, "ring", observation, fix));
        }
        findings
    }

    fn check_numa_node(&self, machine: &MachineFacts, needed: &Requirements) -> Option<Finding> {
        let node = self.facts.numa_node?;
        let of_core = |core: &usize| machine.cpus.numa_nodes.get(core).copied();
        let far: Vec<String> = needed
            .cores
            .iter()
            .filter(|core| of_core(core).is_some_and(|it| it != node))
            .map(usize::to_string)
            .collect();
        (!far.is_empty()).then(|| {
            let observation =
                format!("it is at NUMA node {node}, and workers run on processors {} of another", far.join(","));
            let fix = format!("use processors of node {node} for `cores`");
            self.problem(Severity::Warning, "numa-node", observation, fix)
        })
    }
}
