//! Entries for ICMP errors: the gateway's addresses in subnets, and limits.

use super::EntryBuilder;
use super::gateway_tables::{exact, family, lpm, number};
use crate::model::{Answer, IcmpRates, Vpc};
use crate::spanned::SourcePos;
use ipnet::IpNet;
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a router that has none in a subnet (RFC 7600, section 4.8).
const NO_ADDRESS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Kinds of `icmp_limits`: packets that are too long, other errors, echo replies, answers with a MAC
/// address. With each, the seconds whose messages a machine may cause at once.
const KINDS: [(u32, u64); 4] = [(0, 2), (1, 3), (2, 2), (3, 2)];

/// Seconds whose messages a VPC may cause at once.
const VPC_SECONDS: u64 = 2;

/// Returns the gateway's address in a subnet without one in `gateways`: the first behind the
/// subnet's own. Subnets of one or two addresses (RFC 3021, RFC 6164) have none to spare.
pub fn default_gateway(subnet: IpNet) -> Option<IpAddr> {
    match subnet {
        IpNet::V4(subnet) if subnet.prefix_len() < 31 => Some(Ipv4Addr::from(u32::from(subnet.network()) + 1).into()),
        IpNet::V6(subnet) if subnet.prefix_len() < 127 => Some(Ipv6Addr::from(u128::from(subnet.network()) + 1).into()),
        _ => None,
    }
}

/// Returns the gateway's address in a subnet as the VPC has it.
pub(crate) fn subnet_gateway(vpc: &Vpc, subnet: IpNet) -> Option<IpAddr> {
    let named = vpc.gateways.iter().map(|gateway| gateway.value).find(|gateway| subnet.contains(gateway));
    named.or_else(|| default_gateway(subnet))
}

impl EntryBuilder<'_> {
    /// Adds the gateway's address in each subnet. An address that a machine has is not the
    /// gateway's.
    pub(super) fn add_subnet_gateways(&mut self) {
        let (region, part) = (self.region, self.part);
        let mut gateways: HashMap<(usize, IpAddr), IpNet> = HashMap::new();
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let subnets = vpc.subnets.iter().map(|subnet| subnet.network());
            gateways.extend(subnets.filter_map(|subnet| Some(((v, subnet_gateway(vpc, subnet)?), subnet))));
        }
        let mut taken: HashSet<(usize, IpNet)> = HashSet::new();
        for machine in region.machines_of(|vpc| part.has_vpc(vpc)) {
            let (vm, _) = region.file.vms.with_line_shift(machine);
            let vpc = region.vm_locations[machine].0;
            let subnets = vm.addresses.iter().filter_map(|address| gateways.get(&(vpc, address.value)));
            taken.extend(subnets.map(|subnet| (vpc, *subnet)));
        }
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            for subnet in &vpc.subnets {
                let prefix = subnet.network();
                let gateway = subnet_gateway(vpc, prefix).filter(|_| !taken.contains(&(v, prefix)));
                self.add_subnet_gateway(vpc, prefix, gateway, subnet.at);
                if let Some(gateway) = gateway {
                    self.add_answers_at(vpc, gateway, subnet.at);
                }
            }
        }
    }

    /// Adds an address of the gateway at which it answers. With echo requests it answers neighbour
    /// solicitations that are sent to the address itself.
    fn add_answers_at(&mut self, vpc: &Vpc, gateway: IpAddr, at: SourcePos) {
        let name = &vpc.name.value;
        let keys = vec![exact(vpc.vni.value), exact(number(gateway))];
        if vpc.answers(Answer::Echo) {
            let entry = self.api.vm_nc[family(gateway)].entry(keys, 2, vec![]);
            self.add_entry(entry, at, format_args!("VPC {name}: answer echo at {gateway}"));
        } else if vpc.answers(Answer::Neighbours) && gateway.is_ipv6() {
            let entry = self.api.vm_nc[family(gateway)].entry(keys, 3, vec![]);
            self.add_entry(entry, at, format_args!("VPC {name}: answer neighbours at {gateway}"));
        }
    }

    fn add_subnet_gateway(&mut self, vpc: &Vpc, prefix: IpNet, gateway: Option<IpAddr>, at: SourcePos) {
        let name = &*vpc.name.value;
        let keys = vec![exact(self.numbers.vpcs[name]), lpm(prefix)];
        let entry = match prefix {
            IpNet::V4(subnet) => {
                let gateway = gateway.unwrap_or(NO_ADDRESS_V4.into());
                let args = vec![number(gateway), BigUint::from(u32::from(subnet.hostmask()))];
                self.api.subnet_gateway_v4.entry(keys, 0, args)
            }
            IpNet::V6(_) => {
                let mut vteps = self.region.file.gateway.vteps.iter().map(|vtep| vtep.value);
                let gateway = gateway.or_else(|| vteps.find(IpAddr::is_ipv6));
                self.api.subnet_gateway_v6.entry(keys, 0, vec![gateway.map(number).unwrap_or_default()])
            }
        };
        self.add_entry(entry, at, format_args!("VPC {name}: the gateway in {prefix}"));
    }

    /// Adds the limits that the region sets.
    pub(super) fn add_icmp_limits(&mut self) {
        let Some(limits) = &self.region.file.gateway.icmp_limits else { return };
        let rates = [&limits.too_big, &limits.other, &limits.reply].into_iter().chain(&limits.neighbours);
        for ((kind, seconds), rates) in KINDS.into_iter().zip(rates) {
            let IcmpRates { vm, vpc } = rates;
            let bucket = |rate: u32, seconds: u64| match rate {
                0 => [1, 0],
                rate => [(SECOND_NS / u64::from(rate)).max(1), seconds * SECOND_NS],
            };
            let args = [bucket(vm.value, seconds), bucket(vpc.value, VPC_SECONDS)].concat();
            let args = args.into_iter().map(BigUint::from).collect();
            let entry = self.api.icmp_limits.entry(vec![exact(kind)], 0, args);
            self.add_entry(entry, vm.at, format_args!("icmp_limits"));
        }
    }
}
