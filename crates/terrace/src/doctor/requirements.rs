//! What a node needs of its machine.

use io::dpdk::DpdkDevice;
use node::config::{CacheKind, ConfigFile, PortDriver};
use region::ResolvedRegion;

/// A port of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRequirement {
    /// Port number; `None` for an interface that was named on the command line.
    pub number: Option<u32>,
    /// Interface, memif or DPDK device, as in the configuration.
    pub device: String,
    /// Driver of a network interface.
    pub driver: PortDriver,
    /// Network namespace of the interface.
    pub netns: Option<String>,
    /// Largest IP packet of the region's uplink on this port, in bytes.
    pub mtu_bytes: Option<u32>,
}

impl PortRequirement {
    /// Returns the interface's name, if the port is a network interface.
    pub fn interface(&self) -> Option<&str> {
        let is_interface = !self.device.starts_with(io::memif::PREFIX) && !DpdkDevice::recognise(&self.device);
        is_interface.then_some(&*self.device)
    }

    /// Returns the PCI address with its domain, if the port is a network card of DPDK.
    pub fn pci_address(&self) -> Option<String> {
        let device = DpdkDevice::parse(&self.device).ok().filter(|device| device.driver().is_none())?;
        let name = device.name();
        Some(if name.matches(':').count() == 1 { format!("0000:{name}") } else { name.to_owned() })
    }
}

/// What a node needs of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The ports.
    pub ports: Vec<PortRequirement>,
    /// Processors of the workers; empty: one worker on any processor.
    pub cores: Vec<usize>,
    /// Whether the flow cache runs in the kernel.
    pub needs_xdp: bool,
    /// Number of tunnel end points on the underlay.
    pub neighbours: usize,
}

impl Requirements {
    /// Returns the requirements of a node's configuration and of the region that it serves.
    pub fn new(config: &ConfigFile, region: Option<&ResolvedRegion>) -> Requirements {
        let mtu_of = |number: u32| {
            let uplinks = &region?.file.uplinks;
            let uplink = uplinks.iter().find(|uplink| uplink.port.value == number)?;
            Some(uplink.mtu.as_ref().map_or(region::DEFAULT_MTU, |mtu| mtu.value).into())
        };
        let ports = config.ports.iter().map(|port| PortRequirement {
            number: Some(port.number),
            device: port.device.clone(),
            driver: port.driver,
            netns: port.netns.clone(),
            mtu_bytes: mtu_of(port.number),
        });
        Requirements {
            ports: ports.collect(),
            cores: config.cores.clone(),
            needs_xdp: config.cache.kind == CacheKind::Xdp,
            neighbours: region.map_or(0, |region| region.file.servers.len() + region.file.remotes.len()),
        }
    }

    /// Adds an interface that is examined without a configuration.
    pub fn add_interface(&mut self, name: &str, netns: Option<&str>) {
        self.ports.push(PortRequirement {
            number: None,
            device: name.to_owned(),
            driver: PortDriver::default(),
            netns: netns.map(str::to_owned),
            mtu_bytes: None,
        });
    }

    /// Returns whether DPDK drives a network card or a virtual device of this node.
    pub fn needs_dpdk_memory(&self) -> bool {
        self.ports.iter().any(|port| port.pci_address().is_some())
    }
}
