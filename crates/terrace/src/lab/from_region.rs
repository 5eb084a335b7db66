//! Derives the topology of a lab from a region file.

use super::error::LabError;
use super::topology::{
    Gateway, Internet, Mac, Network, Remote, ReturnPath, Server, Topology, TopologyError, Uplink, Vm, VmAddress,
};
use ipnet::IpNet;
use region::{DEFAULT_MTU, ResolvedRegion, RouteTarget};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

impl Topology {
    /// Returns the topology of lab `name` for a region: its servers, VMs and remotes, and hosts
    /// behind each remote in the prefixes that VPCs route there.
    ///
    /// # Errors
    /// If the lab cannot be built: it is too large, or several hosts share an uplink, because a lab
    /// has no switch.
    pub fn from_region(name: &str, region: &ResolvedRegion) -> Result<Topology, LabError> {
        let topology = Topology {
            name: name.to_owned(),
            gateway: gateway(region)?,
            servers: servers(region),
            remotes: remotes(region),
            internet: internet(region),
            services: services(region),
            vms: vms(region)?,
        };
        topology.check()?;
        Ok(topology)
    }
}

fn convert_mac(mac: region::Mac) -> Mac {
    Mac(mac.0)
}

fn gateway(region: &ResolvedRegion) -> Result<Gateway, TopologyError> {
    let file = &region.file;
    let servers = file.servers.iter().map(|server| server.name.value.to_string()).zip(&region.server_uplinks);
    let remotes = file.remotes.iter().map(|remote| remote.name.value.to_string()).zip(&region.remote_uplinks);
    let mut hosts: BTreeMap<usize, String> = BTreeMap::new();
    let internet = file.internet.iter().map(|_| (Internet::ROUTER.to_owned(), &region.internet_uplinks));
    for (host, uplinks) in servers.chain(remotes).chain(internet) {
        for uplink in uplinks {
            if let Some(other) = hosts.insert(*uplink, host.clone()) {
                let problem = format!(
                    "`{other}` and `{host}` share the uplink `{}`; in a lab, each needs its own, as there is no switch between",
                    file.uplinks[*uplink].name.value
                );
                return Err(TopologyError::Reference(problem));
            }
        }
    }
    let uplinks = hosts.into_iter().filter_map(|(index, host)| {
        let uplink = &file.uplinks[index];
        Some(Uplink {
            port: uplink.port.value,
            mac: convert_mac(uplink.mac.value),
            host,
            // The check demands it of each uplink that a server or a remote names.
            host_mac: convert_mac(uplink.peer_mac.as_ref()?.value),
            mtu: uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value),
        })
    });
    Ok(Gateway {
        mac: convert_mac(file.gateway.mac.value),
        vteps: file.gateway.vteps.iter().map(|vtep| vtep.value).collect(),
        uplinks: uplinks.collect(),
    })
}

fn servers(region: &ResolvedRegion) -> Vec<Server> {
    let server =
        |server: &region::Server| Server { name: server.name.value.to_string(), address: server.address.value };
    region.file.servers.iter().map(server).collect()
}

fn vms(region: &ResolvedRegion) -> Result<Vec<Vm>, TopologyError> {
    // Checked before work that grows with the number of VMs.
    if region.file.vms.len() > super::topology::MAX_MACHINES {
        return Err(TopologyError::TooLarge(region.file.vms.len()));
    }
    let mut taken: HashSet<(usize, IpAddr)> = HashSet::new();
    for (vm, (vpc, _)) in region.file.vms.iter().zip(&region.vm_locations) {
        taken.extend(vm.addresses.iter().map(|address| (*vpc, address.value)));
    }
    let vm = |(vm, (vpc_index, server)): (&region::Vm, &(usize, usize))| {
        let vpc = &region.file.vpcs[*vpc_index];
        let addresses = vm.addresses.iter().filter_map(|address| {
            let subnet =
                vpc.subnets.iter().map(|subnet| subnet.network()).find(|subnet| subnet.contains(&address.value))?;
            let address = IpNet::new(address.value, subnet.prefix_len()).ok()?;
            Some(VmAddress { address, router: router_address(subnet, |router| taken.contains(&(*vpc_index, router))) })
        });
        Vm {
            name: vm.name.value.to_string(),
            server: region.file.servers[*server].name.value.to_string(),
            vpc: vpc.name.value.to_string(),
            vni: vpc.vni.value,
            mac: convert_mac(vm.mac.value),
            addresses: addresses.collect(),
        }
    };
    Ok(region.file.vms.iter().zip(&region.vm_locations).map(vm).collect())
}

/// Returns the addresses of services in VPCs.
fn services(region: &ResolvedRegion) -> Vec<(u32, IpAddr)> {
    let of_vpc = |vpc: &region::Vpc| {
        let addresses: BTreeSet<IpAddr> =
            vpc.services.iter().flat_map(|service| &service.address).map(|address| address.value).collect();
        let vni = vpc.vni.value;
        addresses.into_iter().map(move |address| (vni, address))
    };
    region.file.vpcs.iter().flat_map(of_vpc).collect()
}

/// Returns the first address of the subnet that no VM has. If the subnet is full or too small for a
/// router, returns a link-local address, as clouds do that route every VM individually.
fn router_address(subnet: IpNet, taken: impl Fn(IpAddr) -> bool) -> IpAddr {
    let free = subnet.hosts().take(super::topology::MAX_MACHINES + 2).find(|address| {
        // The IPv6 network address is the subnet-router anycast address (RFC 4291, section 2.6.1).
        *address != subnet.network() && !taken(*address)
    });
    free.unwrap_or(match subnet {
        IpNet::V4(_) => IpAddr::from([169, 254, 1, 1]),
        IpNet::V6(_) => IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]),
    })
}

/// Returns the Internet, with addresses that are reserved for documentation (RFC 5737) and that the
/// region does not use.
fn internet(region: &ResolvedRegion) -> Option<Internet> {
    let internet = region.file.internet.as_ref()?;
    let mut public: Vec<IpNet> = internet.nats.iter().map(|nat| nat.addresses.network()).collect();
    let elastic = internet.elastic.iter().map(|elastic| elastic.address.value);
    let forwards = internet.forwards.iter().map(|forward| forward.address.value);
    let services = region.file.vpcs.iter().flat_map(|vpc| &vpc.services).flat_map(|service| &service.public);
    for address in elastic.chain(forwards).chain(services.map(|address| address.value)) {
        if !public.iter().any(|prefix| prefix.contains(&address)) {
            public.push(address.into());
        }
    }
    let blocks = [[203, 0, 113], [198, 51, 100], [192, 0, 2]];
    let addresses = |[a, b, c]: [u8; 3]| [193, 200].map(|last| IpAddr::from([a, b, c, last]));
    let is_free = |both: &[IpAddr; 2]| !public.iter().any(|prefix| both.iter().any(|address| prefix.contains(address)));
    let [router, host] = blocks.map(addresses).into_iter().find(is_free)?;
    let prefixes: Vec<IpNet> = region.file.vpcs.iter().flat_map(region::Vpc::ipv6_prefixes).map(IpNet::from).collect();
    let over_v6 = (!prefixes.is_empty()).then(|| free_addresses(region, &prefixes)).flatten();
    public.extend(prefixes);
    Some(Internet { router, host, over_v6, public })
}

/// Returns addresses of IPv6 for the router and the host of the Internet, which are reserved for
/// documentation (RFC 3849) and in no prefix of the region.
fn free_addresses(region: &ResolvedRegion, public: &[IpNet]) -> Option<[IpAddr; 2]> {
    let subnets = region.file.vpcs.iter().flat_map(|vpc| &vpc.subnets).map(|subnet| subnet.network());
    let taken: Vec<IpNet> = subnets.chain(public.iter().copied()).collect();
    let blocks = (0..=0xff_u16)
        .map(|block| [0x193, 0x200].map(|last| IpAddr::from([0x2001, 0xdb8, 0xffff - block, 0, 0, 0, 0, last])));
    blocks.into_iter().find(|both| !taken.iter().any(|prefix| both.iter().any(|address| prefix.contains(address))))
}

fn remotes(region: &ResolvedRegion) -> Vec<Remote> {
    let remote = |(index, remote): (usize, &region::Remote)| Remote {
        name: remote.name.value.to_string(),
        address: remote.address.value,
        mac: convert_mac(remote.mac.value),
        networks: networks(region, index),
    };
    region.file.remotes.iter().enumerate().map(remote).collect()
}

/// Returns the networks behind a remote: one per VNI of the routes to it.
fn networks(region: &ResolvedRegion, remote: usize) -> Vec<Network> {
    let mut addresses: BTreeMap<u32, BTreeSet<IpAddr>> = BTreeMap::new();
    let mut senders: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (vpc, tables) in region.tables.iter().enumerate() {
        for route in tables.iter().flatten() {
            if let RouteTarget::Remote(target, vni) = route.target
                && target == remote
            {
                addresses.entry(vni).or_default().insert(host_address(route.prefix));
                senders.entry(vni).or_default().insert(vpc);
            }
        }
    }
    let back = |vpc: usize| {
        let vpc = &region.file.vpcs[vpc];
        ReturnPath { vni: vpc.vni.value, prefixes: vpc.subnets.iter().map(|subnet| subnet.network()).collect() }
    };
    let network = |(vni, addresses): (u32, BTreeSet<IpAddr>)| Network {
        vni,
        addresses: addresses.into_iter().collect(),
        returns: senders.get(&vni).into_iter().flatten().map(|vpc| back(*vpc)).collect(),
    };
    addresses.into_iter().map(network).collect()
}

/// Returns the tenth address of a prefix, or its last if it has fewer. For a default route, returns
/// an address reserved for documentation (RFC 5737, RFC 3849).
fn host_address(prefix: IpNet) -> IpAddr {
    if prefix.prefix_len() == 0 {
        return match prefix {
            IpNet::V4(_) => IpAddr::from([203, 0, 113, 200]),
            IpNet::V6(_) => IpAddr::from([0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 10]),
        };
    }
    prefix.hosts().filter(|address| *address != prefix.network()).take(10).last().unwrap_or(prefix.network())
}
