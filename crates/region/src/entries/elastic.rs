//! Entries for elastic addresses and port forwards. They belong to the VPCs of their machines.

use super::EntryBuilder;
use super::gateway_tables::{exact, lpm, number};
use super::tenants::NO_MSS_LIMIT;
use crate::internet::{Internet, PortForward, ipv4_network};
use crate::model::Vpc;
use crate::spanned::SourcePos;
use ipnet::{IpNet, Ipv4Net};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Index of the action of an elastic address.
const ELASTIC: usize = 4;
/// Indices of the actions of `nat_source`.
const WITH_FORWARDS: usize = 2;
const ONLY_FORWARDS: usize = 3;
const TRANSLATE_VM: usize = 4;
/// Indices of the actions of `forwards`.
const TO_INTERNET: usize = 0;
const TO_VM: usize = 1;
/// VPC in keys of packets from the Internet.
const INTERNET: u32 = 0;

impl EntryBuilder<'_> {
    /// Adds the elastic addresses and port forwards, in both directions.
    pub(super) fn add_public_addresses(&mut self) {
        let region = self.region;
        let Some(internet) = &region.file.internet else { return };
        self.add_elastic(internet);
        self.add_forwards(internet);
        self.add_public_services();
        self.add_ipv6_prefixes();
    }

    /// Adds the subnets of VPCs with machines that the Internet reaches: nothing from there has an address of
    /// these VPCs.
    pub(super) fn add_own_subnets(&mut self) {
        let (region, part) = (self.region, self.part);
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let has_address = region.elastic_vpcs.contains(&v) || region.forward_vpcs.contains(&v);
            if !has_address && !vpc.has_public_services() {
                continue;
            }
            let id = self.numbers.vpcs[&*vpc.name.value];
            let subnets: BTreeMap<Ipv4Net, SourcePos> = vpc.ipv4_subnets().collect();
            for (subnet, at) in subnets {
                let entry = self.api.internet.internet_source.entry(vec![exact(id), lpm(subnet.into())], 0, vec![]);
                self.add_entry(entry, at, format_args!("VPC {}: subnet {subnet}", vpc.name.value));
            }
        }
    }

    /// Returns whether the machine of a subnet of one address has a public address.
    pub(super) fn has_public_address(&self, vpc: &str, subnet: &Ipv4Net) -> bool {
        let is_it = |of: &str, vm: IpAddr| of == vpc && IpNet::from(vm) == IpNet::from(*subnet);
        self.region.file.internet.iter().any(|internet| {
            let mut elastic = internet.elastic.iter().map(|elastic| (&elastic.vpc, &elastic.vm));
            let mut forwards = internet.forwards.iter().map(|forward| (&forward.vpc, &forward.vm));
            subnet.prefix_len() == 32
                && (elastic.any(|(of, vm)| is_it(of, vm.value)) || forwards.any(|(of, vm)| is_it(of, vm.value)))
        })
    }

    fn add_elastic(&mut self, internet: &Internet) {
        let (region, part) = (self.region, self.part);
        for (elastic, v) in internet.elastic.iter().zip(&region.elastic_vpcs).filter(|(_, v)| part.has_vpc(**v)) {
            let vpc = &region.file.vpcs[*v];
            let id = self.numbers.vpcs[&*vpc.name.value];
            let (address, vm, at) = (elastic.address.value, elastic.vm.value, elastic.address.at);
            let what = format!("VPC {}: elastic address {address} of {vm}", vpc.name.value);
            let args = vec![id.into(), vpc.vni.value.into(), number(vm), self.mss_of(vpc)];
            let inbound = self.api.own_address[0].entry(vec![exact(number(address))], ELASTIC, args);
            self.add_entry(inbound, at, format_args!("{what}"));
            let keys = vec![exact(id), lpm(vm.into())];
            let outbound = self.api.internet.nat_source.entry(keys, TRANSLATE_VM, vec![number(address)]);
            self.add_entry(outbound, at, format_args!("{what}"));
        }
    }

    fn add_forwards(&mut self, internet: &Internet) {
        let (region, part) = (self.region, self.part);
        let mut machines: BTreeMap<(usize, IpAddr), SourcePos> = BTreeMap::new();
        for (forward, v) in internet.forwards.iter().zip(&region.forward_vpcs).filter(|(_, v)| part.has_vpc(**v)) {
            machines.entry((*v, forward.vm.value)).or_insert(forward.vm.at);
            self.add_forward(forward, &region.file.vpcs[*v]);
        }
        for ((v, vm), at) in machines {
            let vpc = &region.file.vpcs[v];
            let (action, args) = self.with_forwards(v, vm);
            let keys = vec![exact(self.numbers.vpcs[&*vpc.name.value]), lpm(vm.into())];
            let entry = self.api.internet.nat_source.entry(keys, action, args);
            self.add_entry(entry, at, format_args!("VPC {}: port forwards to {vm}", vpc.name.value));
        }
    }

    fn add_forward(&mut self, forward: &PortForward, vpc: &Vpc) {
        let id = self.numbers.vpcs[&*vpc.name.value];
        let PortForward { address, protocol, port, vm, .. } = forward;
        let (address, vm, vm_port) = (address.value, vm.value, forward.vm_port());
        let number_of = |protocol| BigUint::from(protocol as u8);
        let what = format!("VPC {}: {protocol} port {} of {address} to {vm}", vpc.name.value, port.value);
        let key = |vpc: u32, is_outbound: u8, of: IpAddr, port: u16| {
            let protocol = exact(number_of(*protocol));
            vec![exact(vpc), exact(is_outbound), protocol, exact(number(of)), exact(port)]
        };
        let args = vec![id.into(), vpc.vni.value.into(), number(vm), vm_port.into(), self.mss_of(vpc)];
        let inbound = self.api.internet.forwards.entry(key(INTERNET, 0, address, port.value), TO_VM, args);
        self.add_entry(inbound, port.at, format_args!("{what}"));
        let args = vec![number(address), port.value.into()];
        let outbound = self.api.internet.forwards.entry(key(id, 1, vm, vm_port), TO_INTERNET, args);
        self.add_entry(outbound, port.at, format_args!("{what}"));
    }

    /// Returns the action and arguments for a machine with port forwards: its other packets belong to the
    /// NAT of its subnet, if the VPC has one.
    fn with_forwards(&self, vpc: usize, vm: IpAddr) -> (usize, Vec<BigUint>) {
        let nat = self.nat_of(vpc);
        let vpc = &self.region.file.vpcs[vpc];
        let subnets = vpc.subnets.iter().map(|subnet| subnet.network()).filter(|subnet| subnet.contains(&vm));
        let subnet = subnets.max_by_key(IpNet::prefix_len).and_then(ipv4_network);
        match (nat, subnet) {
            (Some(nat), Some(subnet)) => (WITH_FORWARDS, self.translation(vpc, nat, subnet)),
            _ => (ONLY_FORWARDS, vec![]),
        }
    }

    /// Returns the argument with the limit of TCP segments of a VPC over IPv4.
    pub(super) fn mss_of(&self, vpc: &Vpc) -> BigUint {
        self.mss_limits(vpc).map_or(NO_MSS_LIMIT, |limits| limits[0]).into()
    }
}
