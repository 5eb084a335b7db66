//! Entries for services: routes to their addresses, slots, and backends. All belong to the VPC, besides
//! the public addresses themselves (`entries/internet.rs`).

use super::EntryBuilder;
use super::gateway_tables::{exact, number};
use super::maglev::{WeightedBackend, fill_slots};
use crate::check::{FlatRoute, RouteTarget};
use crate::model::Vpc;
use crate::services::{Affinity, Backend, BackendState, Service};
use crate::spanned::SourcePos;
use ipnet::{IpNet, Ipv4Net};
use ir::KeyMatch;
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};

/// Index of the action of `forwards` for a service.
pub(super) const TO_SERVICE: usize = 2;
/// Indices of the actions of a backend.
const SERVES: usize = 0;
const IS_DOWN: usize = 1;
/// Slots of an entry.
const SLOTS_OF_ENTRY: usize = 8;

/// An address of a service that a route table reaches.
pub(super) struct ServiceRoute<'a> {
    /// The VPC of the service, by index.
    pub(super) vpc: usize,
    /// The route whose place it takes for this address.
    pub(super) route: &'a FlatRoute,
    /// Position of the address in the file.
    pub(super) at: SourcePos,
}

impl EntryBuilder<'_> {
    /// Returns the addresses of services that a route table reaches: those for which the longest prefix
    /// leads to the VPC of the service.
    pub(super) fn service_routes<'a>(&self, routes: &'a [FlatRoute]) -> BTreeMap<Ipv4Addr, ServiceRoute<'a>> {
        let vpcs = &self.region.file.vpcs;
        let mut found = BTreeMap::new();
        for route in routes {
            let RouteTarget::Vpc(vpc) = route.target else { continue };
            for (address, at) in vpcs[vpc].service_addresses() {
                let covers = |route: &&FlatRoute| route.prefix.contains(&IpAddr::V4(address));
                if !covers(&route) {
                    continue;
                }
                let longest = routes.iter().filter(covers).map(|route| route.prefix.prefix_len()).max();
                if longest == Some(route.prefix.prefix_len()) {
                    found.insert(address, ServiceRoute { vpc, route, at });
                }
            }
        }
        found
    }

    /// Adds a route to the address of a service.
    pub(super) fn add_service_route(&mut self, instance: u32, vpc: &Vpc, address: Ipv4Addr, found: &ServiceRoute<'_>) {
        let region = self.region;
        let of = &region.file.vpcs[found.vpc];
        let list = self.numbers.deciding_list(region, found.route, found.vpc);
        let args = [self.numbers.vpcs[&*of.name.value], list, of.vni.value].map(BigUint::from).into();
        let keys = vec![exact(instance), super::gateway_tables::lpm(Ipv4Net::from(address).into())];
        let entry = self.api.route[0].entry(keys, 8, args);
        let what = format_args!("VPC {}: services of VPC {} at {address}", vpc.name.value, of.name.value);
        self.add_entry(entry, found.at, what);
    }

    /// Adds the services of the VPCs: ports, slots, backends, and answers to requests for the MAC address.
    pub(super) fn add_services(&mut self) {
        let (region, part) = (self.region, self.part);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            for (address, at) in vpc.service_addresses().collect::<BTreeMap<_, _>>() {
                self.add_service_neighbour(vpc, address, at);
            }
            for service in &vpc.services {
                self.add_service(vpc, service);
            }
        }
    }

    /// Adds the public ports of services.
    pub(super) fn add_public_services(&mut self) {
        let (region, part) = (self.region, self.part);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let id = self.numbers.vpcs[&*vpc.name.value];
            for (service, public, at) in vpc.public_services() {
                let protocol = exact(service.protocol as u8);
                let keys =
                    vec![exact(0_u8), exact(0_u8), protocol, exact(u32::from(public)), exact(service.port.value)];
                let [slots, by_client, limit] = choice(vpc, service);
                let main = u32::from(service.main_address()).into();
                let args = vec![id.into(), vpc.vni.value.into(), main, self.mss_of(vpc), slots, by_client, limit];
                let entry = self.api.internet.forwards.entry(keys, TO_SERVICE, args);
                let what = format_args!("VPC {}: service {} at {public}", vpc.name.value, service.name.value);
                self.add_entry(entry, at, what);
            }
        }
    }

    /// Adds the address for which the gateway answers requests for its MAC address, if the VPC wants that.
    fn add_service_neighbour(&mut self, vpc: &Vpc, address: Ipv4Addr, at: SourcePos) {
        let subnets = vpc.subnets.iter().map(|subnet| subnet.network());
        let subnet = subnets.filter_map(|subnet| match subnet {
            IpNet::V4(subnet) => subnet.contains(&address).then_some(subnet),
            IpNet::V6(_) => None,
        });
        let host_bits = subnet.max_by_key(Ipv4Net::prefix_len).map_or(0, |subnet| u32::from(subnet.hostmask()));
        let prefix = Ipv4Net::from(address).into();
        let keys = vec![exact(self.numbers.vpcs[&*vpc.name.value]), super::gateway_tables::lpm(prefix)];
        let args = vec![u32::from(address).into(), host_bits.into()];
        let entry = self.api.subnet_gateway_v4.entry(keys, 0, args);
        self.add_entry(entry, at, format_args!("VPC {}: services at {address}", vpc.name.value));
    }

    fn add_service(&mut self, vpc: &Vpc, service: &Service) {
        let keys = ServiceKeys::of(self.numbers.vpcs[&*vpc.name.value], service);
        let (at, what) = (service.name.at, format!("VPC {}: service {}", vpc.name.value, service.name.value));
        if service.addresses()[0].is_some() {
            let entry = self.api.services.entry(keys.of_service(), 0, choice(vpc, service).into());
            self.add_entry(entry, at, format_args!("{what}"));
        }
        let up: Vec<(u8, &Backend)> =
            (0..).zip(&service.backends).filter(|(_, backend)| backend.state == BackendState::Up).collect();
        let identities = identities(&service.backends);
        let weighted: Vec<WeightedBackend> = up
            .iter()
            .map(|(index, backend)| WeightedBackend {
                identity: identities[usize::from(*index)],
                weight: backend.weight(),
            })
            .collect();
        for (eight, slots) in (0_u32..).zip(fill_slots(&weighted, service.slots()).chunks(SLOTS_OF_ENTRY)) {
            let numbers = slots.iter().rev().fold(0_u64, |all, slot| all << 8 | u64::from(up[usize::from(*slot)].0));
            let entry = self.api.service_slots.entry(keys.with(eight), 0, vec![numbers.into()]);
            self.add_entry(entry, at, format_args!("{what}, slots"));
        }
        for (place, (index, backend)) in up.iter().enumerate() {
            let others = up[place + 1..].iter().chain(&up[..place]);
            let other = others.map(|(_, other)| *other).find(|other| other.vm.value != backend.vm.value);
            let of = |backend: &Backend| [number(backend.vm.value), service.port_of(backend).value.into()];
            let args = [of(backend), other.map_or([BigUint::ZERO, BigUint::ZERO], of)].concat();
            let entry = self.api.service_backends.entry(keys.with((*index).into()), 0, args);
            self.add_entry(entry, backend.vm.at, format_args!("{what}: backend {}", backend.vm.value));
        }
        for backend in &service.backends {
            self.add_service_member(&keys, service, backend, &what);
        }
    }

    fn add_service_member(&mut self, keys: &ServiceKeys, service: &Service, backend: &Backend, what: &str) {
        let port = service.port_of(backend).value;
        let key = vec![exact(keys.vpc), exact(keys.protocol), exact(number(backend.vm.value)), exact(port)];
        let [own, public] = service.addresses().map(|address| address.map_or(0, u32::from).into());
        let action = if backend.state == BackendState::Down { IS_DOWN } else { SERVES };
        let entry = self.api.service_members.entry(key, action, vec![own, public, service.port.value.into()]);
        self.add_entry(entry, backend.vm.at, format_args!("{what}: backend {}", backend.vm.value));
    }
}

/// What names a service in keys.
struct ServiceKeys {
    vpc: u32,
    address: u32,
    protocol: u8,
    port: u16,
}

impl ServiceKeys {
    fn of(vpc: u32, service: &Service) -> ServiceKeys {
        let address = u32::from(service.main_address());
        ServiceKeys { vpc, address, protocol: service.protocol as u8, port: service.port.value }
    }

    fn of_service(&self) -> Vec<KeyMatch> {
        vec![exact(self.vpc), exact(self.address), exact(self.protocol), exact(self.port)]
    }

    fn with(&self, last: u32) -> Vec<KeyMatch> {
        [self.of_service(), vec![exact(last)]].concat()
    }
}

/// Returns how a service chooses backends: the number of slots, and whether by client; and how many
/// connections the services of its VPC may have.
fn choice(vpc: &Vpc, service: &Service) -> [BigUint; 3] {
    let by_client = u8::from(service.affinity == Affinity::Client);
    [service.slots().into(), by_client.into(), vpc.connection_limit().into()]
}

/// Returns the identities of backends. They depend on the machines and not on ports, so that services of
/// the same machines send a client to the same one. Several ports of one machine count in their order.
fn identities(backends: &[Backend]) -> Vec<u64> {
    let mut of_machine: HashMap<IpAddr, u64> = HashMap::new();
    let identity = |backend: &Backend| {
        let count = of_machine.entry(backend.vm.value).or_default();
        *count += 1;
        let IpAddr::V4(address) = backend.vm.value else { return *count };
        *count << 32 | u64::from(u32::from(address))
    };
    backends.iter().map(identity).collect()
}
