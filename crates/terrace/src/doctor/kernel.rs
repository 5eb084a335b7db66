//! Checks of the kernel: its version, the rights of this process, and its settings.

use super::{Finding, MACHINE, MachineFacts, Requirements, Severity};

/// Capabilities by bit number (capabilities(7), linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Features of Terrace that need a certain kernel: its version, and what happens without it.
const FEATURES: [((u32, u32), &str, &str); 4] = [
    ((5, 16), "neighbours that the kernel keeps resolved", "they are asked for again every 10 s"),
    ((6, 6), "programs at the kernel's tc hook (tcx)", "the flow cache in the kernel needs XDP"),
    ((6, 8), "checksums by the device on AF_XDP", "they are computed in software"),
    ((6, 17), "super-frames in tunnels through a TAP", "they are cut before they are sent, at a tenth of the rate"),
];

/// Size in bytes of the receive buffer that a raw port asks for.
const RAW_BUFFER_BYTES: u64 = 8 << 20;

pub(super) fn check(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let mut findings = vec![check_version(facts)];
    findings.extend(check_rights(facts, needed));
    findings.extend(check_receive_buffer(facts));
    findings.extend(check_bpf_compiler(facts, needed));
    findings.extend(check_neighbour_tables(facts, needed));
    findings
}

fn check_version(facts: &MachineFacts) -> Finding {
    let (major, minor) = facts.kernel;
    let missing: Vec<String> = FEATURES
        .iter()
        .filter(|(version, _, _)| facts.kernel < *version)
        .map(|((major, minor), feature, without)| format!("{feature} ({major}.{minor}): {without}"))
        .collect();
    if missing.is_empty() {
        return Finding::ok("kernel", MACHINE, format!("Linux {major}.{minor} has all features that Terrace uses"));
    }
    let observation = format!("Linux {major}.{minor} lacks {}", missing.join("; "));
    Finding::problem(Severity::Note, "kernel", MACHINE, observation, "install a later kernel if you need them")
}

/// Checks the capabilities of this process, because `terraced` has those of its service.
fn check_rights(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let has = |capability: u32| facts.capabilities >> capability & 1 == 1;
    let uses_interfaces = needed.ports.iter().any(|port| port.interface().is_some());
    let fix = |names: &str| {
        format!(
            "run it as root, or give the service `AmbientCapabilities={names}`; this check is about the current user"
        )
    };
    let mut findings = Vec::new();
    if uses_interfaces && !has(CAP_NET_RAW) {
        let observation = "this user may not open raw sockets (CAP_NET_RAW), so no network interface can be a port";
        findings.push(Finding::problem(Severity::Error, "rights", MACHINE, observation, fix("CAP_NET_RAW")));
    }
    if needed.needs_xdp && !(has(CAP_NET_ADMIN) && (has(CAP_BPF) || has(CAP_SYS_ADMIN))) {
        let observation = "this user may not load programs into the kernel (CAP_BPF, CAP_NET_ADMIN)";
        findings.push(Finding::problem(Severity::Error, "rights", MACHINE, observation, fix("CAP_BPF CAP_NET_ADMIN")));
    } else if uses_interfaces && !has(CAP_NET_ADMIN) {
        let observation = "this user may not change interfaces (CAP_NET_ADMIN): receive buffers stay at the system's \
                           limit, and an uplink can have no host side";
        findings.push(Finding::problem(Severity::Note, "rights", MACHINE, observation, fix("CAP_NET_ADMIN")));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("rights", MACHINE, "this user may do what the ports need"));
    }
    findings
}

/// Checks the limit of receive buffers, which matters without CAP_NET_ADMIN only.
fn check_receive_buffer(facts: &MachineFacts) -> Option<Finding> {
    let limit: u64 = facts.settings.get("net.core.rmem_max")?.parse().ok()?;
    if limit >= RAW_BUFFER_BYTES || facts.capabilities >> CAP_NET_ADMIN & 1 == 1 {
        return None;
    }
    let observation = format!(
        "receive buffers have at most {limit} bytes, and a raw port asks for {RAW_BUFFER_BYTES}: bursts are lost as \
         `rx_queue_full`"
    );
    let fix = format!("sysctl -w net.core.rmem_max={RAW_BUFFER_BYTES}");
    Some(Finding::problem(Severity::Warning, "receive-buffer", MACHINE, observation, fix))
}

fn check_bpf_compiler(facts: &MachineFacts, needed: &Requirements) -> Option<Finding> {
    let is_off = facts.settings.get("net.core.bpf_jit_enable").is_some_and(|value| value == "0");
    (needed.needs_xdp && is_off).then(|| {
        let observation = "the kernel interprets its programs, so the flow cache in the kernel is slow";
        Finding::problem(Severity::Warning, "bpf-jit", MACHINE, observation, "sysctl -w net.core.bpf_jit_enable=1")
    })
}

/// Checks that the kernel can keep the MAC addresses of all servers.
fn check_neighbour_tables(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let check = |family: &str| {
        let name = format!("net.{family}.neigh.default.gc_thresh3");
        let limit: usize = facts.settings.get(&name)?.parse().ok()?;
        (needed.neighbours > limit).then(|| {
            let observation = format!(
                "the kernel keeps at most {limit} neighbours, and the region has {} servers and remotes: if they are in \
                 the subnet of an uplink, some stay unresolved",
                needed.neighbours
            );
            let fix = format!("sysctl -w {name}={}", needed.neighbours.next_power_of_two() * 2);
            Finding::problem(Severity::Warning, "neighbour-table", MACHINE, observation, fix)
        })
    };
    ["ipv4", "ipv6"].into_iter().filter_map(check).collect()
}
