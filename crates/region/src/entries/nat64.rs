//! Entries for NAT64: routes to hosts with IPv4 alone, and the numbers of machines. They belong to the VPCs.

use super::EntryBuilder;
use super::gateway_tables::{exact, lpm};
use super::ids::NO_TRANSIT;
use super::machine_numbers::nat64_machines;
use super::tenants::NAT64_ROUTE;
use crate::ipv6_internet::ipv6_network;
use crate::model::Vpc;
use ipnet::Ipv6Net;
use num_bigint::BigUint;
use std::net::Ipv6Addr;

impl EntryBuilder<'_> {
    /// Adds the way to hosts with IPv4 alone of each VPC that has one.
    pub(super) fn add_nat64(&mut self) {
        let (region, part) = (self.region, self.part);
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let Some(network) = vpc.nat64.as_ref().and_then(|nat64| nat64.network()) else { continue };
            self.add_nat64_routes(v, vpc, network);
        }
        for (machine, address) in nat64_machines(region, |vpc| part.has_vpc(vpc)) {
            self.add_nat64_machine(machine, address);
        }
    }

    /// Adds a route to each route table of a VPC, as those of its subnets.
    fn add_nat64_routes(&mut self, v: usize, vpc: &Vpc, network: Ipv6Net) {
        let (name, at) = (&*vpc.name.value, vpc.nat64.as_ref().map_or(vpc.name.at, |nat64| nat64.at));
        let tables = std::iter::once("").chain(vpc.route_tables.iter().map(|table| &*table.name.value));
        for (table, routes) in tables.zip(&self.region.tables[v]) {
            // A peer can have such a subnet.
            if routes.iter().any(|route| ipv6_network(route.prefix) == Some(network)) {
                continue;
            }
            let keys = vec![exact(self.route_table_id(name, table)), lpm(network.into())];
            let entry = self.api.route[1].entry(keys, NAT64_ROUTE, vec![NO_TRANSIT.into()]);
            self.add_entry(entry, at, format_args!("VPC {name}: NAT64, hosts of IPv4 behind {network}"));
        }
    }

    /// Adds a machine's address, in both directions.
    fn add_nat64_machine(&mut self, machine: usize, address: Ipv6Addr) {
        let region = self.region;
        let v = region.vm_locations[machine].0;
        let vpc = &region.file.vpcs[v];
        let (Some(nat), Some(network)) = (self.nat_of(v), vpc.nat64.as_ref().and_then(|nat64| nat64.network())) else {
            return;
        };
        let name = &*vpc.name.value;
        let Some(number) = self.numbers.nat64_machines.by_machine.get(&(name.to_owned(), address)) else { return };
        let (id, number) = (self.numbers.vpcs[name], *number);
        let args = [number].into_iter().chain(self.pool_args(nat)).map(BigUint::from).collect();
        let at = vpc.nat64.as_ref().map_or(vpc.name.at, |nat64| nat64.at);
        let what = format!("VPC {name}: NAT64 by NAT {} for {address}", nat.name.value);
        let keys = vec![exact(id), exact(u128::from(address))];
        let outbound = self.api.internet.nat64_source.entry(keys, 0, args);
        self.add_entry(outbound, at, format_args!("{what}"));
        let prefix = u128::from(network.network()) >> 32;
        let args = vec![prefix.into(), u128::from(address).into()];
        let inbound = self.api.internet.nat64_vm.entry(vec![exact(id), exact(number)], 0, args);
        self.add_entry(inbound, at, format_args!("{what}"));
    }
}
