//! Checks of processors, memory, the IOMMU and the owner of the VXLAN port.

use super::facts::Interfaces;
use super::{Finding, MACHINE, MachineFacts, Requirements, Severity};
use std::collections::BTreeSet;

/// UDP port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;

pub(super) fn check(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let mut findings = check_workers(facts, needed);
    findings.extend(check_memory(facts, needed));
    findings.extend(check_iommu(facts, needed));
    for (netns, interfaces) in &facts.namespaces {
        findings.extend(check_vxlan_owner(netns.as_deref(), interfaces));
    }
    findings
}

/// Formats processor numbers.
fn list(cpus: impl IntoIterator<Item = usize>) -> String {
    cpus.into_iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

/// Checks that the workers' processors exist and are theirs alone, at a fixed frequency.
fn check_workers(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let cpus = &facts.cpus;
    let workers: BTreeSet<usize> = needed.cores.iter().copied().collect();
    if workers.is_empty() {
        let observation =
            format!("one worker on any of the {} processors; `cores` fixes their number", cpus.online.len());
        return vec![Finding::ok("workers", MACHINE, observation)];
    }
    let problem =
        |severity, observation: String, fix: String| Finding::problem(severity, "workers", MACHINE, observation, fix);
    let absent: Vec<usize> = workers.difference(&cpus.online).copied().collect();
    if !absent.is_empty() {
        let observation = format!("processors {} of `cores` are not online", list(absent));
        return vec![problem(Severity::Error, observation, format!("use some of {}", list(cpus.online.clone())))];
    }
    let mut findings = Vec::new();
    if workers.is_superset(&cpus.online) {
        let observation = "workers use all processors, so the host's BGP, BFD and the control socket wait for them";
        let fix = "leave one processor out of `cores`".to_owned();
        findings.push(problem(Severity::Warning, observation.to_owned(), fix));
    }
    let shared = cpus.siblings.iter().filter(|set| set.intersection(&workers).count() > 1);
    findings.extend(shared.map(|set| {
        let observation = format!("workers share a core as hardware threads {}, so each is slower", list(set.clone()));
        problem(Severity::Note, observation, "use one thread of each core".to_owned())
    }));
    let not_isolated: Vec<usize> = workers.difference(&cpus.isolated).copied().collect();
    if !not_isolated.is_empty() {
        let cores = list(workers.clone());
        let observation = format!("the scheduler places other work on the workers' processors {}", list(not_isolated));
        let fix = format!("boot with `isolcpus={cores} nohz_full={cores} rcu_nocbs={cores}`");
        findings.push(problem(Severity::Note, observation, fix));
    }
    let saves_power =
        |cpu: &usize| cpus.governors.get(cpu).is_some_and(|governor| !matches!(&**governor, "performance" | ""));
    let slow: Vec<usize> = workers.iter().copied().filter(saves_power).collect();
    if !slow.is_empty() {
        let observation = format!("processors {} change their frequency with the load", list(slow));
        let fix = "cpupower frequency-set -g performance".to_owned();
        findings.push(problem(Severity::Note, observation, fix));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("workers", MACHINE, format!("processors {} are the workers' alone", list(workers))));
    }
    findings
}

/// Checks huge pages, which DPDK needs and which large tables profit from, and NUMA balancing.
fn check_memory(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let memory = &facts.memory;
    let mut findings = Vec::new();
    if needed.needs_dpdk_memory() && memory.free_huge_pages == 0 {
        let observation = format!("DPDK needs huge pages; {} exist and none is free", memory.huge_pages);
        let fix = "sysctl -w vm.nr_hugepages=1024";
        findings.push(Finding::problem(Severity::Error, "huge-pages", MACHINE, observation, fix));
    }
    if memory.transparent == "never" || memory.transparent.is_empty() {
        let observation = "transparent huge pages are off: lookups in large tables miss the TLB";
        let fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
        findings.push(Finding::problem(Severity::Note, "huge-pages", MACHINE, observation, fix));
    }
    if findings.is_empty() {
        let observation = format!("transparent huge pages: {}", memory.transparent);
        findings.push(Finding::ok("huge-pages", MACHINE, observation));
    }
    if facts.settings.get("kernel.numa_balancing").is_some_and(|value| value != "0")
        && facts.cpus.numa_nodes.values().collect::<BTreeSet<_>>().len() > 1
    {
        let observation = "the kernel moves memory between NUMA nodes, which stops workers for milliseconds";
        let fix = "sysctl -w kernel.numa_balancing=0";
        findings.push(Finding::problem(Severity::Warning, "numa-balancing", MACHINE, observation, fix));
    }
    findings
}

/// Checks that network cards of DPDK have a driver for user space and an IOMMU.
fn check_iommu(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    /// Drivers of the kernel with which DPDK shares the card.
    const SHARED: [&str; 3] = ["mlx5_core", "mlx4_core", "mana"];
    let addresses: Vec<String> = needed.ports.iter().filter_map(|port| port.pci_address()).collect();
    let mut findings = Vec::new();
    for address in &addresses {
        let problem = |observation: String, fix: String| {
            Finding::problem(Severity::Error, "pci-driver", address, observation, fix)
        };
        findings.push(match facts.pci_drivers.get(address) {
            None => {
                problem("no such PCI device".to_owned(), "list the devices with `dpdk-devbind.py --status`".to_owned())
            }
            Some(Some(driver)) if driver == "vfio-pci" || SHARED.contains(&&**driver) => {
                Finding::ok("pci-driver", address, format!("driver {driver}"))
            }
            Some(driver) => problem(
                format!("its driver is {}, which keeps the card from DPDK", driver.as_deref().unwrap_or("none")),
                format!("modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address}"),
            ),
        });
    }
    let uses_vfio =
        |address: &String| facts.pci_drivers.get(address).is_some_and(|driver| driver.as_deref() == Some("vfio-pci"));
    if facts.iommu_groups == 0 && addresses.iter().any(uses_vfio) {
        let observation =
            "the IOMMU is off: a network card can write to all memory, and vfio-pci refuses it by default";
        let fix = "boot with `intel_iommu=on iommu=pt` (AMD: `amd_iommu=on iommu=pt`)";
        findings.push(Finding::problem(Severity::Warning, "iommu", MACHINE, observation, fix));
    }
    findings
}

/// Finds devices of the kernel that receive VXLAN in the namespace of the ports.
fn check_vxlan_owner(netns: Option<&str>, interfaces: &Interfaces) -> Vec<Finding> {
    let owns = |(name, facts): (&String, &super::InterfaceFacts)| {
        (facts.vxlan_port == Some(VXLAN_PORT)).then(|| {
            let observation = "the kernel's own VXLAN device receives at UDP 4789 in the namespace of the ports, so \
                               tenants' packets also reach the host";
            let prefix = netns.map_or(String::new(), |netns| format!("-n {netns} "));
            let fix = format!("ip {prefix}link delete {name}, or give it another port or namespace");
            Finding::problem(Severity::Warning, "vxlan-owner", name, observation, fix)
        })
    };
    interfaces.iter().filter_map(owns).collect()
}
