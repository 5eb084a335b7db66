//! Reads the facts about a machine from the kernel and from `ip` and `ethtool`.

use crate::lab::{exec, run_program};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Facts about processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuFacts {
    /// Processors that are online.
    pub online: BTreeSet<usize>,
    /// Processors on which the scheduler places nothing by itself (`isolcpus=`).
    pub isolated: BTreeSet<usize>,
    /// Sets of hardware threads that share a core, each with at least two.
    pub siblings: BTreeSet<BTreeSet<usize>>,
    /// Frequency governor of each processor, if it has one.
    pub governors: BTreeMap<usize, String>,
    /// NUMA node of each processor, if the machine reports it.
    pub numa_nodes: BTreeMap<usize, usize>,
}

/// Facts about memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Huge pages in total, of the default size.
    pub huge_pages: u64,
    /// Free huge pages.
    pub free_huge_pages: u64,
    /// Setting of transparent huge pages: `always`, `madvise` or `never`; empty without support.
    pub transparent: String,
}

/// Facts that `ethtool` reports about an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EthtoolFacts {
    /// Name of the driver; empty if unknown.
    pub driver: String,
    /// Features that are on.
    pub features_on: BTreeSet<String>,
    /// Receive queues in use, and the maximum.
    pub queues: Option<(u32, u32)>,
    /// Slots of the receive ring, and the maximum.
    pub ring: Option<(u32, u32)>,
}

/// Facts about a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFacts {
    /// Kind of a virtual interface, such as `veth` or `vxlan`; empty for hardware.
    pub kind: String,
    /// MTU in bytes.
    pub mtu_bytes: u32,
    /// Whether the interface is up.
    pub is_up: bool,
    /// Whether it has a carrier.
    pub has_carrier: bool,
    /// Addresses other than link-local ones.
    pub addresses: Vec<String>,
    /// Bridge, bond or VRF of which it is a member.
    pub controller: Option<String>,
    /// Whether an XDP program is attached.
    pub has_xdp: bool,
    /// UDP port of a VXLAN device.
    pub vxlan_port: Option<u16>,
    /// NUMA node of the device.
    pub numa_node: Option<usize>,
    /// What `ethtool` reports; `None` if it could not be run.
    pub ethtool: Option<EthtoolFacts>,
}

/// Network interfaces of a namespace by name.
pub type Interfaces = BTreeMap<String, InterfaceFacts>;

/// Facts about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Version of the kernel: major and minor.
    pub kernel: (u32, u32),
    /// Effective capabilities of this process, by bit number.
    pub capabilities: u64,
    /// Processors.
    pub cpus: CpuFacts,
    /// Memory.
    pub memory: MemoryFacts,
    /// Number of IOMMU groups.
    pub iommu_groups: usize,
    /// Kernel settings by name, such as `net.core.rmem_max`.
    pub settings: BTreeMap<String, String>,
    /// Driver of each PCI device that a port names; `None` for a device without a driver.
    pub pci_drivers: BTreeMap<String, Option<String>>,
    /// Interfaces by namespace (`None`: that of this process); no entry for a namespace that could
    /// not be read.
    pub namespaces: BTreeMap<Option<String>, Interfaces>,
}

/// Kernel settings that checks use.
const SETTINGS: [&str; 5] = [
    "net.core.rmem_max",
    "net.core.bpf_jit_enable",
    "net.ipv4.neigh.default.gc_thresh3",
    "net.ipv6.neigh.default.gc_thresh3",
    "kernel.numa_balancing",
];

impl MachineFacts {
    /// Reads the facts that ports in `namespaces` and the PCI devices `pci` need. Unreadable facts
    /// stay empty, because a container hides some of them.
    pub fn read(namespaces: &BTreeSet<Option<String>>, pci: &BTreeSet<String>) -> MachineFacts {
        let driver = |address: &String| {
            let link = fs::read_link(format!("/sys/bus/pci/devices/{address}/driver")).ok()?;
            Some(link.file_name()?.to_string_lossy().into_owned())
        };
        let exists = |address: &&String| Path::new(&format!("/sys/bus/pci/devices/{address}")).exists();
        MachineFacts {
            kernel: parse_version(&text("/proc/sys/kernel/osrelease")),
            capabilities: parse_capabilities(&text("/proc/self/status")),
            cpus: read_cpus(Path::new("/sys/devices/system/cpu")),
            memory: read_memory(),
            iommu_groups: fs::read_dir("/sys/kernel/iommu_groups").map_or(0, Iterator::count),
            settings: SETTINGS.iter().filter_map(|name| read_setting(name)).collect(),
            pci_drivers: pci.iter().filter(exists).map(|address| (address.clone(), driver(address))).collect(),
            namespaces: namespaces
                .iter()
                .filter_map(|name| Some((name.clone(), read_interfaces(name.as_deref())?)))
                .collect(),
        }
    }
}

/// Returns the contents of a file without the final line break; empty if it cannot be read.
fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

/// Parses `6.18.44-generic` to `(6, 18)`; (0, 0) if it is no version.
pub(super) fn parse_version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Returns the effective capabilities in `/proc/self/status` (proc(5), `CapEff`).
pub(super) fn parse_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Parses a list of processors, such as `0-3,8` (cpuset(7), "List format").
pub(super) fn parse_cpu_list(list: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    // The kernel supports at most 8192 processors; a longer list is not one of the kernel's.
    list.split(',').filter_map(range).flatten().take(8192).collect()
}

fn read_cpus(folder: &Path) -> CpuFacts {
    let online = parse_cpu_list(&text(folder.join("online")));
    let of_cpu = |cpu: usize, file: &str| text(folder.join(format!("cpu{cpu}")).join(file));
    let node_of = |cpu: usize| -> Option<usize> {
        let entries = fs::read_dir(folder.join(format!("cpu{cpu}"))).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
    };
    let threads = online.iter().map(|cpu| parse_cpu_list(&of_cpu(*cpu, "topology/thread_siblings_list")));
    let governor =
        |cpu: &usize| Some((*cpu, of_cpu(*cpu, "cpufreq/scaling_governor"))).filter(|(_, it)| !it.is_empty());
    CpuFacts {
        isolated: parse_cpu_list(&text(folder.join("isolated"))),
        siblings: threads.filter(|set| set.len() > 1).collect(),
        governors: online.iter().filter_map(governor).collect(),
        numa_nodes: online.iter().filter_map(|cpu| Some((*cpu, node_of(*cpu)?))).collect(),
        online,
    }
}

fn read_memory() -> MemoryFacts {
    let info = text("/proc/meminfo");
    let number = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim_start_matches(':').trim().parse().ok()).unwrap_or(0)
    };
    let modes = text("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = modes.split_once('[').and_then(|(_, tail)| tail.split_once(']')).map_or("", |(mode, _)| mode);
    MemoryFacts {
        huge_pages: number("HugePages_Total"),
        free_huge_pages: number("HugePages_Free"),
        transparent: chosen.to_owned(),
    }
}

fn read_setting(name: &str) -> Option<(String, String)> {
    let path: PathBuf = ["/proc/sys", &name.replace('.', "/")].iter().collect();
    let value = fs::read_to_string(path).ok()?;
    Some((name.to_owned(), value.trim().to_owned()))
}

/// An interface as `ip -json -details address show` prints it.
#[derive(Debug, Deserialize)]
struct IpLink {
    ifname: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    mtu: u32,
    master: Option<String>,
    linkinfo: Option<IpLinkInfo>,
    xdp: Option<serde_json::Value>,
    #[serde(default)]
    addr_info: Vec<IpAddress>,
}

#[derive(Debug, Deserialize)]
struct IpLinkInfo {
    #[serde(default)]
    info_kind: String,
    info_data: Option<IpLinkData>,
}

#[derive(Debug, Deserialize)]
struct IpLinkData {
    port: Option<u16>,
}

#[derive(Debug, Deserialize)]
struct IpAddress {
    local: Option<String>,
    scope: Option<String>,
}

/// Parses the output of `ip -json -details address show`, without what `ethtool` knows.
pub(super) fn parse_interfaces(json: &str) -> Option<Interfaces> {
    let links: Vec<IpLink> = serde_json::from_str(json).ok()?;
    let facts = |link: IpLink| {
        let has = |flag: &str| link.flags.iter().any(|set_flag| set_flag == flag);
        let (kind, data) = link.linkinfo.map_or((String::new(), None), |info| (info.info_kind, info.info_data));
        let is_global = |address: &IpAddress| address.scope.as_deref() != Some("link");
        let interface = InterfaceFacts {
            mtu_bytes: link.mtu,
            is_up: has("UP"),
            has_carrier: has("LOWER_UP"),
            addresses: link.addr_info.into_iter().filter(is_global).filter_map(|address| address.local).collect(),
            controller: link.master,
            has_xdp: link.xdp.is_some(),
            vxlan_port: data.and_then(|data| data.port).filter(|_| kind == "vxlan"),
            kind,
            numa_node: None,
            ethtool: None,
        };
        (link.ifname, interface)
    };
    Some(links.into_iter().map(facts).collect())
}

/// Runs a program in a namespace and returns its output; `None` if it fails.
fn output_of(netns: Option<&str>, name: &str, arguments: &[&str]) -> Option<String> {
    run_program(match netns {
        Some(netns) => exec(netns, name, arguments),
        None => crate::lab::program(name, arguments),
    })
    .ok()
}

fn read_interfaces(netns: Option<&str>) -> Option<Interfaces> {
    let mut found = parse_interfaces(&output_of(netns, "ip", &["-json", "-details", "address", "show"])?)?;
    for (name, interface) in &mut found {
        interface.ethtool = read_ethtool(netns, name);
        let node: Option<usize> = text(format!("/sys/class/net/{name}/device/numa_node")).parse().ok();
        interface.numa_node = node.filter(|_| netns.is_none());
    }
    Some(found)
}

fn read_ethtool(netns: Option<&str>, name: &str) -> Option<EthtoolFacts> {
    let features = output_of(netns, "ethtool", &["-k", name])?;
    let ask = |option: &str| output_of(netns, "ethtool", &[option, name]).unwrap_or_default();
    let driver = ask("-i").lines().find_map(|line| line.strip_prefix("driver: ").map(str::to_owned));
    Some(EthtoolFacts {
        driver: driver.unwrap_or_default(),
        features_on: parse_features(&features),
        queues: parse_maximums(&ask("-l"), &["Combined:", "RX:"]),
        ring: parse_maximums(&ask("-g"), &["RX:"]),
    })
}

/// Returns the features that are on in the output of `ethtool -k`.
pub(super) fn parse_features(output: &str) -> BTreeSet<String> {
    let on = |line: &str| {
        let (name, value) = line.split_once(':')?;
        value.trim().starts_with("on").then(|| name.trim().to_owned())
    };
    output.lines().filter_map(on).collect()
}

/// Returns the current and the maximum value of the first of `rows` that has both in the output of
/// `ethtool -l` or `ethtool -g`, which print maximums first.
pub(super) fn parse_maximums(output: &str, rows: &[&str]) -> Option<(u32, u32)> {
    rows.iter().find_map(|row| {
        let mut values = output.lines().filter_map(|line| line.strip_prefix(row)?.trim().parse::<u32>().ok());
        let (maximum, current) = (values.next()?, values.next()?);
        (maximum > 0).then_some((current, maximum))
    })
}
