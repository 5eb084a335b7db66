//! What the lab consists of: plain data, and the checks that it can be built.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use thiserror::Error;

/// The most machines that a lab holds. Each is a namespace and some twenty commands.
pub const MAX_MACHINES: usize = 128;

/// The longest lab name, in bytes.
const MAX_LAB_NAME: usize = 16;

/// The smallest MTU with IPv6 (RFC 8200, section 5), in bytes.
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

/// Everything in a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The lab's name, which all its namespaces start with: 1 to 16 lower-case letters and digits.
    pub name: String,
    /// The gateway.
    pub gateway: Gateway,
    /// Servers, which host machines.
    pub servers: Vec<Server>,
    /// Tunnel end points outside of the region.
    pub remotes: Vec<Remote>,
    /// Machines.
    pub vms: Vec<Vm>,
}

/// The gateway and its ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// The router's MAC inside each VPC.
    pub mac: Mac,
    /// The addresses of its tunnel end point: at most one of each family.
    pub vteps: Vec<IpAddr>,
    /// Its ports. Each leads to one server or remote, which may have several.
    pub uplinks: Vec<Uplink>,
}

/// A cable between a port of the gateway and a server or remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uplink {
    /// The port's number in the engine.
    pub port: u32,
    /// The gateway's MAC on it.
    pub mac: Mac,
    /// The server or remote at the other end.
    pub host: String,
    /// That one's MAC.
    pub host_mac: Mac,
    /// The largest IP packet, in bytes.
    pub mtu: u16,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its tunnel address.
    pub address: IpAddr,
}

/// A machine of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its server's name.
    pub server: String,
    /// Its VPC's name.
    pub vpc: String,
    /// Its VPC's VNI.
    pub vni: u32,
    /// Its MAC.
    pub mac: Mac,
    /// Its addresses.
    pub addresses: Vec<VmAddress>,
}

/// An address of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmAddress {
    /// The address with the prefix length of its subnet.
    pub address: IpNet,
    /// The VPC's router in that subnet. Of one router address per family and machine the first is used for the default route.
    pub router: IpAddr,
}

/// A tunnel end point outside of the region, and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// Its name.
    pub name: String,
    /// Its tunnel address.
    pub address: IpAddr,
    /// The MAC to which inner frames must be sent.
    pub mac: Mac,
    /// The networks behind it.
    pub networks: Vec<Network>,
}

/// A network behind a remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The VNI with which packets must arrive.
    pub vni: u32,
    /// Addresses of the host in it, which answers for the whole network.
    pub addresses: Vec<IpAddr>,
    /// How answers go back.
    pub returns: Vec<Return>,
}

/// What packets from a remote to a VPC look like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The VPC's VNI, which the gateway expects.
    pub vni: u32,
    /// The VPC's prefixes.
    pub prefixes: Vec<IpNet>,
}

/// Why a lab cannot be built like this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// The lab's name.
    #[error(
        "`{0}` cannot be the name of a lab: 1 to {MAX_LAB_NAME} lower-case letters and digits, starting with a letter"
    )]
    LabName(String),
    /// A name that cannot be part of a namespace's name.
    #[error("`{0}` cannot be a name in a lab: 1 to 63 letters, digits, `-`, `_` or `.`, not starting with `.` or `-`")]
    Name(String),
    /// Two things would have the same namespace.
    #[error("two things in the lab would have the network namespace `{0}`; rename one of them")]
    Clash(String),
    /// Too large.
    #[error("a lab holds at most {MAX_MACHINES} machines, and this has {0}; take a smaller region file")]
    TooLarge(usize),
    /// An uplink, a machine or a port refers to something that is not there, or to the wrong thing.
    #[error("{0}")]
    Reference(String),
    /// The MTU leaves no room for the tunnel.
    #[error(
        "the uplink of port {port} has an MTU of {mtu} bytes; at least {needed} are needed for tenants' packets of {MIN_MTU}"
    )]
    Mtu {
        /// The port.
        port: u32,
        /// Its MTU.
        mtu: u16,
        /// The smallest that would do.
        needed: u16,
    },
    /// The host behind a remote could not know where to answer.
    #[error(
        "the remote `{remote}` gets packets of several VPCs with VNI {vni}, and both have {prefix}: give their routes different VNIs"
    )]
    AmbiguousReturn {
        /// The remote.
        remote: String,
        /// The VNI with which packets of both VPCs arrive.
        vni: u32,
        /// A prefix of both VPCs.
        prefix: IpNet,
    },
}

impl Topology {
    /// The namespace of a server, a remote, or a machine.
    pub fn namespace_of(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// The gateway's namespace.
    pub fn gateway_namespace(&self) -> String {
        self.namespace_of("gw")
    }

    /// The namespace of a network behind a remote.
    pub fn network_namespace(&self, remote: &Remote, network: &Network) -> String {
        self.namespace_of(&format!("{}-{}", remote.name, network.vni))
    }

    /// All namespaces, in the order in which they are made.
    pub fn namespaces(&self) -> Vec<String> {
        let mut all = vec![self.gateway_namespace()];
        all.extend(self.servers.iter().map(|server| self.namespace_of(&server.name)));
        for remote in &self.remotes {
            all.push(self.namespace_of(&remote.name));
            all.extend(remote.networks.iter().map(|network| self.network_namespace(remote, network)));
        }
        all.extend(self.vms.iter().map(|vm| self.namespace_of(&vm.name)));
        all
    }

    /// The uplinks of a server or remote.
    pub fn uplinks_of<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Uplink> + Clone {
        self.gateway.uplinks.iter().filter(move |uplink| uplink.host == host)
    }

    /// The gateway's tunnel address for a host with this address: the one of the same family.
    pub fn vtep_for(&self, address: IpAddr) -> Option<IpAddr> {
        self.gateway.vteps.iter().copied().find(|vtep| vtep.is_ipv4() == address.is_ipv4())
    }

    /// The MTU of tenants' packets in bytes: what fits every uplink with the tunnel's headers around it, at most 1500.
    pub fn tenant_mtu(&self) -> u16 {
        let smallest = self.gateway.uplinks.iter().map(|uplink| uplink.mtu).min().unwrap_or(1500);
        smallest.saturating_sub(self.overhead()).min(1500)
    }

    /// Bytes that the tunnel adds to a tenant's IP packet: Ethernet 14, VXLAN 8, UDP 8, and IP 20 or 40.
    fn overhead(&self) -> u16 {
        let hosts = self.servers.iter().map(|server| server.address);
        let mut hosts = hosts.chain(self.remotes.iter().map(|remote| remote.address));
        if hosts.any(|address| address.is_ipv6()) { 70 } else { 50 }
    }

    /// Checks that this can be built.
    pub fn check(&self) -> Result<(), TopologyError> {
        let letters = self.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let starts_well = self.name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        // Without a dash, no lab's prefix can be the beginning of another's.
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
        let mut ports = BTreeSet::new();
        for uplink in &self.gateway.uplinks {
            if !hosts.contains_key(uplink.host.as_str()) {
                let problem =
                    format!("port {} leads to `{}`, which is neither a server nor a remote", uplink.port, uplink.host);
                return Err(TopologyError::Reference(problem));
            }
            if !ports.insert(uplink.port) {
                return Err(TopologyError::Reference(format!(
                    "port {} leads to two hosts; give each uplink its own number",
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

/// One routing table serves all VPCs whose packets arrive with one VNI.
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
