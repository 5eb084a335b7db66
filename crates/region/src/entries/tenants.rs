//! Entries for VPCs, their route tables, and their machines.

use super::EntryBuilder;
use super::gateway_tables::{exact, family, lpm, number};
use crate::check::{FlatRoute, RouteScope, RouteTarget};
use crate::model::{Answer, Vpc};
use ipnet::IpNet;
use num_bigint::BigUint;
use std::collections::BTreeSet;

/// Limit of TCP segments in the entry of a VPC without one.
pub(super) const NO_MSS_LIMIT: u16 = u16::MAX;
/// Index of the action of a route over IPv6 to hosts with IPv4 alone.
pub(super) const NAT64_ROUTE: usize = 9;

/// Converts arguments of an action.
fn action_args<const N: usize>(args: [u32; N]) -> Vec<BigUint> {
    args.map(BigUint::from).into()
}

/// Returns a subnet's mask as arguments of `local`: the mask of the 32-bit address word in which
/// the prefix ends, and the index of that word. A prefix that ends between two words ends at the
/// start of the second one; a full-length prefix ends in the last word.
fn subnet_mask(subnet: IpNet) -> [u32; 2] {
    match subnet {
        IpNet::V4(subnet) => [subnet.netmask().into(), 0],
        IpNet::V6(subnet) => {
            let word = (subnet.prefix_len() / 32).min(3);
            let behind = 96 - 32 * u32::from(word);
            let mask = u128::from(subnet.netmask()) >> behind & u128::from(u32::MAX);
            [mask as u32, word.into()]
        }
    }
}

impl EntryBuilder<'_> {
    pub(super) fn add_tenants(&mut self) {
        let (region, part) = (self.region, self.part);
        let meet_groups = super::security_groups::vpcs_that_meet_groups(region);
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let name = &*vpc.name.value;
            let main = self.route_table_id(name, "");
            let mut args = action_args([self.numbers.vpcs[name], main, vpc.dropped_extensions().into()]);
            let mut action = usize::from(vpc.strict_sources);
            let (answers, mss) = (vpc.answers(Answer::Neighbours), self.mss_limits(vpc));
            let (groups, services) = (meet_groups.contains(&v), !vpc.services.is_empty());
            if answers || mss.is_some() || groups || services {
                action = 2;
                args.extend([vpc.strict_sources, answers, mss.is_some()].map(|option| BigUint::from(u8::from(option))));
                args.extend(mss.unwrap_or([NO_MSS_LIMIT; 2]).map(BigUint::from));
                args.extend([groups, services].map(|option| BigUint::from(u8::from(option))));
            }
            let entry = self.api.tenant.entry(vec![exact(vpc.vni.value)], action, args);
            self.add_entry(entry, vpc.name.at, format_args!("VPC {name}"));
            self.add_policy(v, vpc);
            let tables = std::iter::once("").chain(vpc.route_tables.iter().map(|t| &*t.name.value));
            for (table, routes) in tables.zip(&region.tables[v]) {
                let instance = self.route_table_id(name, table);
                let services = self.service_routes(routes);
                let is_of_service = |prefix: &IpNet| match prefix {
                    IpNet::V4(prefix) => prefix.prefix_len() == 32 && services.contains_key(&prefix.addr()),
                    IpNet::V6(_) => false,
                };
                for route in routes.iter().filter(|route| !is_of_service(&route.prefix)) {
                    self.add_route(instance, route, vpc, table);
                }
                for (address, service) in &services {
                    self.add_service_route(instance, vpc, *address, service);
                }
            }
        }
    }

    pub(super) fn route_table_id(&self, vpc: &str, table: &str) -> u32 {
        self.numbers.instances[&(vpc.to_owned(), table.to_owned())]
    }

    fn add_policy(&mut self, v: usize, vpc: &Vpc) {
        let name = &*vpc.name.value;
        let id = self.numbers.vpcs[name];
        for (rule, table) in vpc.policy.iter().zip(&self.region.policies[v]) {
            let table = &*vpc.route_tables[table - 1].name.value;
            let source = rule.from.network();
            let instance = BigUint::from(self.route_table_id(name, table));
            let api = &self.api.policy_route[family(source.addr())];
            let entry = api.entry(vec![exact(id), lpm(source)], 0, vec![instance]);
            self.add_entry(entry, rule.from.at, format_args!("VPC {name}: from {source} by route table {table}"));
        }
    }

    fn add_route(&mut self, instance: u32, route: &FlatRoute, vpc: &Vpc, table: &str) {
        let region = self.region;
        let transit = self.numbers.transit_list_bits(region, route);
        let (action, args) = match (route.scope, route.target) {
            (RouteScope::Local, _) => (0, action_args(subnet_mask(route.prefix))),
            (_, RouteTarget::Vpc(to)) => {
                let list = self.numbers.deciding_list(region, route, to);
                let to = &region.file.vpcs[to];
                let mut args = action_args([list, to.vni.value, to.dropped_extensions().into()]);
                let mss = self.lower_mss_limit([vpc, to], route.prefix.addr());
                args.extend(mss.map(BigUint::from));
                (if mss.is_some() { 7 } else { 1 }, args)
            }
            (scope, RouteTarget::Remote(remote, vni)) => {
                let id = self.numbers.remotes[&*region.file.remotes[remote].name.value];
                (if scope == RouteScope::Idc { 2 } else { 3 }, action_args([id, vni, transit]))
            }
            (_, RouteTarget::Internet) => (4, action_args([transit])),
            (_, RouteTarget::Blackhole) => (5, vec![]),
            (_, RouteTarget::NoRoute) => (6, vec![]),
        };
        let api = &self.api.route[family(route.prefix.addr())];
        let entry = api.entry(vec![exact(instance), lpm(route.prefix)], action, args);
        let table = if table.is_empty() { String::new() } else { format!(" in route table {table}") };
        self.add_entry(entry, route.origin, format_args!("VPC {}: route to {}{table}", vpc.name.value, route.prefix));
    }

    /// Adds the allowed sources of VPCs with `strict_sources`: servers of their machines and
    /// remotes of their routes.
    pub(super) fn add_strict_sources(&mut self) {
        let region = self.region;
        let mut allowed: BTreeSet<(usize, IpNet)> = BTreeSet::new();
        let part = self.part;
        let is_strict = |vpc: usize| region.file.vpcs[vpc].strict_sources && part.has_vpc(vpc);
        let strict: Vec<usize> = (0..region.file.vpcs.len()).filter(|vpc| is_strict(*vpc)).collect();
        if strict.is_empty() {
            return;
        }
        for machine in region.machines_of(is_strict) {
            let (vpc, server) = region.vm_locations[machine];
            allowed.insert((vpc, region.file.servers[server].address.value.into()));
        }
        for vpc in strict {
            for route in region.tables[vpc].iter().flatten() {
                let RouteTarget::Remote(remote, _) = route.target else { continue };
                let remote = &region.file.remotes[remote];
                allowed.insert((vpc, remote.address.value.into()));
                allowed.extend(remote.sources.iter().map(|source| (vpc, source.network())));
            }
        }
        for (vpc, source) in allowed {
            let name = &region.file.vpcs[vpc].name;
            let id = self.numbers.vpcs[&*name.value];
            let entry = self.api.vpc_source[family(source.addr())].entry(vec![exact(id), lpm(source)], 0, vec![]);
            self.add_entry(entry, name.at, format_args!("VPC {}: strict_sources, {source}", name.value));
        }
    }

    pub(super) fn add_machines(&mut self) {
        let region = self.region;
        let part = self.part;
        for machine in region.machines_of(|vpc| part.has_vpc(vpc)) {
            let (vm, lines) = region.file.vms.with_line_shift(machine);
            let (vpc, server) = region.vm_locations[machine];
            let server = region.file.servers[server].address.value;
            let vni = region.file.vpcs[vpc].vni.value;
            for address in &vm.addresses {
                let keys = vec![exact(vni), exact(number(address.value))];
                let args = vec![number(server), BigUint::from(vm.mac.as_u64())];
                let entry = self.api.vm_nc[family(address.value)].entry(keys, family(server), args);
                self.add_entry(entry, vm.name.at.shifted(lines), format_args!("VM {}", vm.name.value));
            }
        }
    }
}
