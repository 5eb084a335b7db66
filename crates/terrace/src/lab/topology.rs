//! Topology of a lab as plain data, with checks that it can be built.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// Maximum number of VMs of a lab. Each is a namespace and about twenty commands.
pub const MAX_MACHINES: usize = 128;

/// Maximum length of a lab name, in bytes.
const MAX_LAB_NAME: usize = 16;

/// Minimum MTU with IPv6 (RFC 8200, section 5), in bytes.
const MIN_MTU: u16 = 1280;

/// An Ethernet address, in transmission order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> String {
        mac.to_string()
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        region::Mac::from_str(&text).map(|mac| Mac(mac.0))
    }
}

/// Topology of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Name of the lab and prefix of all its namespaces: 1 to 16 lower-case letters and digits.
    pub name: String,
    /// The gateway.
    pub gateway: Gateway,
    /// Servers, which host VMs.
    pub servers: Vec<Server>,
    /// Tunnel end points outside of the region.
    pub remotes: Vec<Remote>,
    /// The Internet, if the region has a way to it.
    #[serde(default)]
    pub internet: Option<Internet>,
    /// Addresses of services, with the VNIs of their VPCs.
    #[serde(default)]
    pub services: Vec<(u32, IpAddr)>,
    /// VMs.
    pub vms: Vec<Vm>,
}

/// The gateway and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// MAC of the router in each VPC.
    pub mac: Mac,
    /// Addresses of the gateway's tunnel end point: at most one of each family.
    pub vteps: Vec<IpAddr>,
    /// Ports. Each connects to one server or remote; a host may have several.
    pub uplinks: Vec<Uplink>,
}

/// A cable between a port of the gateway and a server or remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// Port number in the engine.
    pub port: u32,
    /// MAC of the gateway on the uplink.
    pub mac: Mac,
    /// Name of the server or remote at the other end.
    pub host: String,
    /// MAC of that server or remote.
    pub host_mac: Mac,
    /// Maximum size of an IP packet, in bytes.
    pub mtu: u16,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Name of the server.
    pub name: String,
    /// Tunnel address.
    pub address: IpAddr,
}

/// A VM of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Name of the VM.
    pub name: String,
    /// Name of its server.
    pub server: String,
    /// Name of its VPC.
    pub vpc: String,
    /// VNI of its VPC.
    pub vni: u32,
    /// MAC address.
    pub mac: Mac,
    /// IP addresses.
    pub addresses: Vec<VmAddress>,
}

/// An IP address of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmAddress {
    /// Address, with the prefix length of its subnet.
    pub address: IpNet,
    /// The VPC's router in that subnet. The first router of each family is the VM's default route.
    pub router: IpAddr,
}

/// A tunnel end point outside of the region, with the networks behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Name of the remote.
    pub name: String,
    /// Tunnel address.
    pub address: IpAddr,
    /// Destination MAC that inner frames must have.
    pub mac: Mac,
    /// Networks behind the remote.
    pub networks: Vec<Network>,
}

/// A network behind a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// VNI that received packets must have.
    pub vni: u32,
    /// Addresses of the network's single host, which replies for the whole network.
    pub addresses: Vec<IpAddr>,
    /// Encapsulation of replies by VPC.
    pub returns: Vec<ReturnPath>,
}

/// Encapsulation of packets from a remote to a VPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnPath {
    /// VNI of the VPC, which the gateway expects.
    pub vni: u32,
    /// Prefixes of the VPC.
    pub prefixes: Vec<IpNet>,
}

/// The Internet: a router on uplinks of the gateway, and a host behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Internet {
    /// Address of the router.
    pub router: IpAddr,
    /// Address of the host.
    pub host: IpAddr,
    /// Addresses of the router and of the host over IPv6, if the region has a way there.
    #[serde(default)]
    pub over_v6: Option<[IpAddr; 2]>,
    /// Public addresses and prefixes of the region, which the router sends to the gateway.
    pub public: Vec<IpNet>,
}

impl Internet {
    /// Name of the router, to which the uplinks lead.
    pub const ROUTER: &'static str = "isp";
    /// Name of the host.
    pub const HOST: &'static str = "internet";
}

/// Reason why a lab cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// Invalid name of a lab.
    #[error(
        "`{0}` cannot be the name of a lab: 1 to {MAX_LAB_NAME} lower-case letters and digits, starting with a letter"
    )]
    LabName(String),
    /// Name that cannot be part of a namespace's name.
    #[error("`{0}` cannot be a name in a lab: 1 to 63 letters, digits, `-`, `_` or `.`, not starting with `.` or `-`")]
    Name(String),
    /// Two objects would have the same namespace.
    #[error("two things in the lab would have the network namespace `{0}`; rename one of them")]
    Clash(String),
    /// Too many VMs.
    #[error("a lab holds at most {MAX_MACHINES} machines, and this has {0}; take a smaller region file")]
    TooLarge(usize),
    /// An uplink, a VM or a port refers to a missing object, or to one of the wrong type.
    #[error("{0}")]
    Reference(String),
    /// The MTU is too small for the tunnel.
    #[error(
        "the uplink of port {port} has an MTU of {mtu} bytes; at least {needed} are needed for tenants' packets of {MIN_MTU}"
    )]
    Mtu {
        /// Port number.
        port: u32,
        /// MTU of the port.
        mtu: u16,
        /// Minimum MTU.
        needed: u16,
    },
    /// The host behind a remote cannot determine the VPC to reply to.
    #[error(
        "the remote `{remote}` gets packets of several VPCs with VNI {vni}, and both have {prefix}: give their routes different VNIs"
    )]
    AmbiguousReturn {
        /// Name of the remote.
        remote: String,
        /// VNI with which packets of both VPCs arrive.
        vni: u32,
        /// Prefix that both VPCs have.
        prefix: IpNet,
    },
}

impl Topology {
    /// Returns the namespace of a server, a remote, or a VM.
    pub fn namespace_of(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Returns the gateway's namespace.
    pub fn gateway_namespace(&self) -> String {
        self.namespace_of("gw")
    }

    /// Returns the namespace of a network behind a remote.
    pub fn network_namespace(&self, remote: &Remote, network: &Network) -> String {
        self.namespace_of(&format!("{}-{}", remote.name, network.vni))
    }

    /// Returns all namespaces, in order of creation.
    pub fn namespaces(&self) -> Vec<String> {
        let mut all = vec![self.gateway_namespace()];
        all.extend(self.servers.iter().map(|server| self.namespace_of(&server.name)));
        for remote in &self.remotes {
            all.push(self.namespace_of(&remote.name));
            all.extend(remote.networks.iter().map(|network| self.network_namespace(remote, network)));
        }
        if self.internet.is_some() {
            all.extend([Internet::ROUTER, Internet::HOST].map(|name| self.namespace_of(name)));
        }
        all.extend(self.vms.iter().map(|vm| self.namespace_of(&vm.name)));
        all
    }

    /// Returns the uplinks of a server or remote.
    pub fn uplinks_of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Uplink> + Clone {
        self.gateway.uplinks.iter().filter(move |uplink| uplink.host == host)
    }

    /// Returns the gateway's tunnel address of the same family as a host's address.
    pub fn vtep_for(&self, address: IpAddr) -> Option<IpAddr> {
        self.gateway.vteps.iter().copied().find(|vtep| vtep.is_ipv4() == address.is_ipv4())
    }

    /// Returns the MTU of tenants' packets in bytes: the largest that fits every uplink to a server or
    /// remote with the tunnel's headers, at most 1500. Packets to the Internet are in no tunnel.
    pub fn tenant_mtu(&self) -> u16 {
        let has_tunnels = |uplink: &&Uplink| self.internet.is_none() || uplink.host != Internet::ROUTER;
        let uplinks = self.gateway.uplinks.iter().filter(has_tunnels);
        let smallest = uplinks.map(|uplink| uplink.mtu).min().unwrap_or(1500);
        smallest.saturating_sub(self.overhead()).min(1500)
    }

    /// Returns the bytes that the tunnel adds to a tenant's IP packet: Ethernet 14, VXLAN 8, UDP 8,
    /// and IP 20 or 40.
    fn overhead(&self) -> u16 {
        let hosts = self.servers.iter().map(|server| server.address);
        let mut hosts = hosts.chain(self.remotes.iter().map(|remote| remote.address));
        if hosts.any(|address| address.is_ipv6()) { 70 } else { 50 }
    }

    /// Checks that the lab can be built.
    pub fn check(&self) -> Result<(), TopologyError> {
        let letters = self.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let starts_well = self.name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        // No dash is allowed, so that the namespace prefix of one lab is never a prefix of
        // another's.
        if !letters || !starts_well || self.name.len() > MAX_LAB_NAME {
            return Err(TopologyError::LabName(self.name.clone()));
        }
        if self.vms.len() > MAX_MACHINES {
            return Err(TopologyError::TooLarge(self.vms.len()));
        }
        let names = self.servers.iter().map(|server| &server.name);
        let names =
            names.chain(self.remotes.iter().map(|remote| &remote.name)).chain(self.vms.iter().map(|vm| &vm.name));
        for name in names {
            check_name(name)?;
        }
        let mut seen = BTreeSet::new();
        for namespace in self.namespaces() {
            if !seen.insert(namespace.clone()) {
                return Err(TopologyError::Clash(namespace));
            }
        }
        self.check_uplinks()?;
        self.check_vms()?;
        self.remotes.iter().try_for_each(check_returns)
    }

    fn check_uplinks(&self) -> Result<(), TopologyError> {
        let mut hosts: BTreeMap<&str, IpAddr> = BTreeMap::new();
        hosts.extend(self.servers.iter().map(|server| (server.name.as_str(), server.address)));
        hosts.extend(self.remotes.iter().map(|remote| (remote.name.as_str(), remote.address)));
        let has_internet = |host: &str| self.internet.is_some() && host == Internet::ROUTER;
        let mut ports = BTreeSet::new();
        for uplink in &self.gateway.uplinks {
            if !hosts.contains_key(uplink.host.as_str()) && !has_internet(&uplink.host) {
                let problem = format!(
                    "port {} connects to `{}`, which is neither a server nor a remote",
                    uplink.port, uplink.host
                );
                return Err(TopologyError::Reference(problem));
            }
            if !ports.insert(uplink.port) {
                return Err(TopologyError::Reference(format!(
                    "port {} connects to two hosts; give each uplink its own number",
                    uplink.port
                )));
            }
            let needed = MIN_MTU + self.overhead();
            if uplink.mtu < needed {
                return Err(TopologyError::Mtu { port: uplink.port, mtu: uplink.mtu, needed });
            }
        }
        for (name, address) in hosts {
            if self.uplinks_of(name).next().is_none() {
                return Err(TopologyError::Reference(format!("`{name}` has no uplink to the gateway; give it one")));
            }
            if self.vtep_for(address).is_none() {
                let problem = format!(
                    "`{name}` has the address {address}, but the gateway has no tunnel address of that family; add one"
                );
                return Err(TopologyError::Reference(problem));
            }
        }
        Ok(())
    }

    fn check_vms(&self) -> Result<(), TopologyError> {
        for vm in &self.vms {
            if !self.servers.iter().any(|server| server.name == vm.server) {
                let problem =
                    format!("the machine `{}` is on the server `{}`, which does not exist", vm.name, vm.server);
                return Err(TopologyError::Reference(problem));
            }
            for address in &vm.addresses {
                let taken = self.vms.iter().filter(|other| other.vni == vm.vni);
                if taken.flat_map(|other| &other.addresses).any(|other| other.address.addr() == address.router) {
                    let problem = format!(
                        "the router address {} of `{}` belongs to a machine; choose another",
                        address.router, vm.name
                    );
                    return Err(TopologyError::Reference(problem));
                }
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), TopologyError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bad = name.is_empty() || name.len() > 63 || name.starts_with(['.', '-']) || !name.bytes().all(allowed);
    if bad { Err(TopologyError::Name(name.to_owned())) } else { Ok(()) }
}

/// Checks that VPCs have disjoint prefixes if their packets arrive with the same VNI, because they
/// share one routing table.
fn check_returns(remote: &Remote) -> Result<(), TopologyError> {
    for network in &remote.networks {
        let mut seen = BTreeSet::new();
        for prefix in network.returns.iter().flat_map(|back| &back.prefixes) {
            if !seen.insert(prefix) {
                let remote = remote.name.clone();
                return Err(TopologyError::AmbiguousReturn { remote, vni: network.vni, prefix: *prefix });
            }
        }
    }
    Ok(())
}
