//! [`NatNames`]: the numbers of the pool of ports as names and addresses of the region file.

use region::{IdAssignments, ResolvedRegion};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A NAT of the region file.
#[derive(Clone, Debug)]
pub(crate) struct NamedNat {
    pub name: String,
    /// Its public addresses as a prefix.
    pub addresses: String,
    /// The first of them.
    pub first_address: u32,
    pub address_count: u32,
    /// Number of the first one in the pool.
    pub first_number: u32,
    /// Blocks that a machine may have.
    pub max_blocks: u32,
    /// The VPCs that use it.
    pub vpcs: Vec<String>,
    /// `FILE:LINE`.
    pub source: String,
}

/// Machines with consecutive numbers: those of a subnet of a VPC.
#[derive(Clone, Debug)]
struct SubscriberRange {
    vpc: Arc<str>,
    first_address: u32,
    count: u32,
}

/// A machine as the pool numbers it. The region file need not have one at its address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Subscriber {
    pub vpc: Arc<str>,
    pub address: IpAddr,
}

/// The names of one version of the region file. Blocks can belong to machines and addresses of an earlier
/// version, until their sessions end: these have no name, or that of their successor.
#[derive(Clone, Debug, Default)]
pub(crate) struct NatNames {
    /// The NATs in the order of the file.
    pub nats: Vec<NamedNat>,
    subscribers: BTreeMap<u32, SubscriberRange>,
    /// Machines with NAT64, by number in the pool.
    machines_v6: BTreeMap<u32, (Arc<str>, Ipv6Addr)>,
    /// Index of the NAT of each VPC that has one.
    vpc_nats: HashMap<Arc<str>, usize>,
    /// Names of VPCs by number.
    vpcs: HashMap<u32, Arc<str>>,
}

impl NatNames {
    /// Returns the names of a region. `file` is shown as the file of its lines.
    pub fn new(region: &ResolvedRegion, numbers: &IdAssignments, file: &str) -> NatNames {
        let vpcs: HashMap<u32, Arc<str>> =
            numbers.vpcs.iter().map(|(name, number)| (*number, Arc::from(name.as_str()))).collect();
        let named: HashMap<&str, Arc<str>> = vpcs.values().map(|name| (&**name, name.clone())).collect();
        let first_numbers: HashMap<(IpAddr, u8), u32> = numbers
            .public_addresses
            .iter()
            .map(|(prefix, number)| ((prefix.network().into(), prefix.prefix_len()), *number))
            .collect();
        let vpc_nats: HashMap<Arc<str>, usize> = (region.file.vpcs.iter().zip(&region.vpc_nats))
            .filter_map(|(vpc, nat)| Some((named.get(&*vpc.name.value)?.clone(), (*nat)?)))
            .collect();
        let internet = region.file.internet.iter();
        let nats = internet.flat_map(|internet| &internet.nats).enumerate().filter_map(|(index, nat)| {
            let prefix = nat.addresses.network();
            let IpAddr::V4(first_address) = prefix.network() else { return None };
            let mut vpcs: Vec<String> =
                vpc_nats.iter().filter(|(_, nat)| **nat == index).map(|(vpc, _)| vpc.to_string()).collect();
            vpcs.sort_unstable();
            Some(NamedNat {
                name: nat.name.value.to_string(),
                addresses: prefix.to_string(),
                first_address: first_address.to_bits(),
                address_count: 1 << (32 - u32::from(prefix.prefix_len())).min(31),
                first_number: *first_numbers.get(&(prefix.network(), prefix.prefix_len()))?,
                max_blocks: nat.blocks_per_vm(),
                vpcs,
                source: format!("{file}:{}", nat.name.at.line),
            })
        });
        let nats = nats.collect();
        let subscribers = numbers.nat_subscribers.iter().filter_map(|((vpc, subnet), number)| {
            let vpc = named.get(vpc.as_str())?.clone();
            let count = 1 << (32 - u32::from(subnet.prefix_len())).min(31);
            Some((*number, SubscriberRange { vpc, first_address: subnet.network().to_bits(), count }))
        });
        let subscribers = subscribers.collect();
        let machines = numbers.nat64_machines.by_machine.iter().filter_map(|((vpc, address), number)| {
            Some((region::NAT64_FIRST_SUBSCRIBER + number, (named.get(vpc.as_str())?.clone(), *address)))
        });
        let machines_v6 = machines.collect();
        NatNames { nats, subscribers, machines_v6, vpc_nats, vpcs }
    }

    /// Returns the machine with a number of the pool.
    pub fn subscriber(&self, number: u32) -> Option<Subscriber> {
        if let Some((vpc, address)) = self.machines_v6.get(&number) {
            return Some(Subscriber { vpc: vpc.clone(), address: (*address).into() });
        }
        let (first, range) = self.subscribers.range(..=number).next_back()?;
        let offset = number - first;
        (offset < range.count).then(|| Subscriber {
            vpc: range.vpc.clone(),
            address: Ipv4Addr::from_bits(range.first_address + offset).into(),
        })
    }

    /// Returns the machine with NAT64 that sessions have by this number in the place of an address.
    pub fn machine_v6(&self, number: u32) -> Option<Ipv6Addr> {
        let (_, address) = self.machines_v6.get(&region::NAT64_FIRST_SUBSCRIBER.checked_add(number)?)?;
        Some(*address)
    }

    /// Returns the numbers of an address in all VPCs.
    pub fn numbers_of(&self, address: IpAddr) -> Vec<u32> {
        let address = match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(address) => {
                let found = self.machines_v6.iter().filter(|(_, (_, of))| *of == address);
                return found.map(|(number, _)| *number).collect();
            }
        };
        let number = |(first, range): (&u32, &SubscriberRange)| {
            let offset = address.to_bits().checked_sub(range.first_address).filter(|offset| *offset < range.count)?;
            Some(first + offset)
        };
        self.subscribers.iter().filter_map(number).collect()
    }

    /// Returns the NAT of a public address with a number of the pool, and the address.
    pub fn public_address(&self, number: u32) -> Option<(&NamedNat, Ipv4Addr)> {
        let mut found = self.nats.iter().filter_map(|nat| {
            let offset = number.checked_sub(nat.first_number).filter(|offset| *offset < nat.address_count)?;
            Some((nat, Ipv4Addr::from_bits(nat.first_address + offset)))
        });
        found.next()
    }

    /// Returns the NAT of a public address, and the number of the address in the pool.
    pub fn nat_of(&self, address: IpAddr) -> Option<(&NamedNat, u32)> {
        let IpAddr::V4(address) = address else { return None };
        let mut found = self.nats.iter().filter_map(|nat| {
            let offset = address.to_bits().checked_sub(nat.first_address)?;
            (offset < nat.address_count).then_some((nat, nat.first_number + offset))
        });
        found.next()
    }

    /// Returns the NAT that a VPC uses.
    pub fn nat_of_vpc(&self, vpc: &str) -> Option<&NamedNat> {
        self.vpc_nats.get(vpc).and_then(|nat| self.nats.get(*nat))
    }

    /// Returns the name of the VPC with a number.
    pub fn vpc(&self, number: u32) -> Option<&Arc<str>> {
        self.vpcs.get(&number)
    }
}
