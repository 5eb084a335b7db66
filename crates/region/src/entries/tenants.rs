//! VPCs, their route tables, and their machines.

use super::Maker;
use super::api::{exact, family, lpm, number};
use crate::check::{FlatRoute, Scope, Target};
use crate::model::Vpc;
use num_bigint::BigUint;

impl Maker<'_> {
    pub(super) fn tenants(&mut self) {
        let region = self.region;
        for (v, vpc) in region.file.vpcs.iter().enumerate() {
            let name = &*vpc.name.value;
            let main = self.instance(name, "");
            let id = BigUint::from(self.numbers.vpcs[name]);
            let entry = self.api.tenant.entry(vec![exact(vpc.vni.value)], 0, vec![id, BigUint::from(main)]);
            self.add(entry, vpc.name.at, format_args!("VPC {name}"));
            self.policy(v, vpc);
            let tables = std::iter::once("").chain(vpc.route_tables.iter().map(|t| &*t.name.value));
            for (table, routes) in tables.zip(&region.tables[v]) {
                let instance = self.instance(name, table);
                for route in routes {
                    self.route(instance, route, name, table);
                }
            }
        }
    }

    fn instance(&self, vpc: &str, table: &str) -> u32 {
        self.numbers.instances[&(vpc.to_owned(), table.to_owned())]
    }

    fn policy(&mut self, v: usize, vpc: &Vpc) {
        let name = &*vpc.name.value;
        let id = self.numbers.vpcs[name];
        for (rule, table) in vpc.policy.iter().zip(&self.region.policies[v]) {
            let table = &*vpc.route_tables[table - 1].name.value;
            let source = rule.from.network();
            let instance = BigUint::from(self.instance(name, table));
            let api = &self.api.policy_route[family(source.addr())];
            let entry = api.entry(vec![exact(id), lpm(source)], 0, vec![instance]);
            self.add(entry, rule.from.at, format_args!("VPC {name}: from {source} by route table {table}"));
        }
    }

    fn route(&mut self, instance: u32, route: &FlatRoute, vpc: &str, table: &str) {
        let region = self.region;
        let (action, args) = match (route.scope, route.target) {
            (Scope::Local, _) => (0, vec![]),
            (_, Target::Vpc(to)) => {
                let to = &region.file.vpcs[to];
                (1, vec![self.numbers.vpcs[&*to.name.value], to.vni.value])
            }
            (scope, Target::Remote(remote, vni)) => {
                let id = self.numbers.remotes[&*region.file.remotes[remote].name.value];
                (if scope == Scope::Idc { 2 } else { 3 }, vec![id, vni])
            }
            (_, Target::Internet) => (4, vec![]),
            (_, Target::Blackhole) => (5, vec![]),
            (_, Target::NoRoute) => (6, vec![]),
        };
        let args = args.into_iter().map(BigUint::from).collect();
        let api = &self.api.route[family(route.prefix.addr())];
        let entry = api.entry(vec![exact(instance), lpm(route.prefix)], action, args);
        let table = if table.is_empty() { String::new() } else { format!(" in route table {table}") };
        self.add(entry, route.origin, format_args!("VPC {vpc}: route to {}{table}", route.prefix));
    }

    pub(super) fn machines(&mut self) {
        let region = self.region;
        for (vm, (vpc, server)) in region.file.vms.iter().zip(&region.vm_places) {
            let server = region.file.servers[*server].address.value;
            let vni = region.file.vpcs[*vpc].vni.value;
            for address in &vm.addresses {
                let keys = vec![exact(vni), exact(number(address.value))];
                let args = vec![number(server), BigUint::from(vm.mac.as_u64())];
                let entry = self.api.vm_nc[family(address.value)].entry(keys, family(server), args);
                self.add(entry, vm.name.at, format_args!("VM {}", vm.name.value));
            }
        }
    }
}
