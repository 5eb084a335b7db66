//! Connections of services, by backend.

use super::notes::notes;
use super::status::{BackendUse, ServiceStatus, ServiceUse};
use crate::Node;
use crate::nat::{SESSIONS, Subscriber};
use crate::region::RegionError;
use crate::sessions::{NamedEntry, SelectedTable, SessionError, SessionSelection};
use entries::StoredEntry;
use region::{Backend, BackendState, Service, Vpc};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Action of a session's entry for packets of a backend. Each connection has one.
const FROM_BACKEND: &str = "from_backend";
/// Drop reasons of packets to and from services (programs/gateway/reasons.p4).
const REFUSALS: [&str; 7] = [
    "service_port",
    "service_no_backend",
    "service_backend_down",
    "service_own_backend",
    "service_unasked",
    "service_quota",
    "service_table_full",
];

/// Address that clients connect to: number of the VPC, protocol, address, port.
type ServiceAddress = (u32, u8, Ipv4Addr, u16);
/// Address and port of a machine.
type BackendPort = (Ipv4Addr, u16);
/// Connections by backend, of one address.
type Connections = HashMap<BackendPort, u64>;

impl Node {
    /// Returns the services of the region, with the connections of each backend.
    ///
    /// # Errors
    /// The node serves no region.
    pub fn service_status(&self) -> Result<ServiceStatus, RegionError> {
        let numbers: HashMap<String, u32> = self
            .region
            .vpc_names()
            .into_iter()
            .filter_map(|(number, name)| Some((name, number.try_into().ok()?)))
            .collect();
        let mut services = self.region.with_region(&|region, file| {
            let services =
                region.file.vpcs.iter().flat_map(|vpc| vpc.services.iter().map(move |service| (vpc, service)));
            services.map(|(vpc, service)| service_use(vpc, service, file)).collect::<Vec<_>>()
        })?;
        if !services.is_empty() {
            let connections = self.connections_by_backend();
            services.iter_mut().for_each(|service| add_connections(service, &numbers, &connections));
            self.add_machine_names(&mut services);
        }
        let refused = self.drops_for(&REFUSALS);
        let notes = notes(&services);
        Ok(ServiceStatus { services, sessions: self.session_use(), refused, notes })
    }

    /// Counts the connections of all services. Packets go on meanwhile, because the table is read in pages.
    fn connections_by_backend(&self) -> HashMap<ServiceAddress, Connections> {
        let mut counts: HashMap<ServiceAddress, Connections> = HashMap::new();
        let mut count = || -> Result<(), SessionError> {
            let selection = SessionSelection {
                table: Some(SESSIONS.to_owned()),
                matches: vec!["is_outbound=1".to_owned()],
                idle_longer_than_ns: None,
            };
            for selected in &self.select_sessions(&selection)? {
                let mut reader = self.read_sessions(selected)?;
                while let Some(page) = reader.next_page(self, usize::MAX) {
                    for (address, backend) in page.entries.iter().filter_map(|flow| connection(selected, &flow.entry)) {
                        *counts.entry(address).or_default().entry(backend).or_default() += 1;
                    }
                }
            }
            Ok(())
        };
        // A program without such a table has no connections.
        count().map_or_else(|_| HashMap::new(), |()| counts)
    }

    fn add_machine_names(&self, services: &mut [ServiceUse]) {
        let machine = |vpc: &str, address: Ipv4Addr| Subscriber { vpc: Arc::from(vpc), address: address.into() };
        let wanted: HashSet<Subscriber> = services
            .iter()
            .flat_map(|service| service.backends.iter().map(|backend| machine(&service.vpc, backend.address)))
            .collect();
        let names = self.vm_names(&wanted);
        for service in services {
            for backend in &mut service.backends {
                backend.machine = names.get(&machine(&service.vpc, backend.address)).cloned();
            }
        }
    }
}

fn service_use(vpc: &Vpc, service: &Service, file: &str) -> ServiceUse {
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    let weight_of = |backend: &Backend| if backend.state == BackendState::Up { backend.weight() } else { 0 };
    let all: u32 = service.backends.iter().map(|backend| u32::from(weight_of(backend))).sum();
    let backends = service.backends.iter().filter_map(|backend| {
        Some(BackendUse {
            address: v4(backend.vm.value)?,
            machine: None,
            port: service.port_of(backend).value,
            state: backend.state,
            weight: backend.weight(),
            share: f64::from(weight_of(backend)) / f64::from(all.max(1)),
            connections: 0,
        })
    });
    ServiceUse {
        vpc: vpc.name.value.to_string(),
        name: service.name.value.to_string(),
        source: format!("{file}:{}", service.name.at.line),
        address: service.address.as_ref().and_then(|address| v4(address.value)),
        public: service.public.as_ref().and_then(|public| v4(public.value)),
        protocol: service.protocol,
        port: service.port.value,
        affinity: service.affinity,
        backends: backends.collect(),
        connections: 0,
        stale_connections: 0,
    }
}

/// Adds the connections to both addresses of a service.
fn add_connections(
    service: &mut ServiceUse,
    vpc_numbers: &HashMap<String, u32>,
    connections: &HashMap<ServiceAddress, Connections>,
) {
    let Some(vpc) = vpc_numbers.get(&service.vpc) else { return };
    let key = |address| (*vpc, service.protocol as u8, address, service.port);
    let found =
        [service.address, service.public].into_iter().flatten().filter_map(|address| connections.get(&key(address)));
    let found: Vec<(BackendPort, u64)> = found.flatten().map(|(backend, count)| (*backend, *count)).collect();
    for (port, count) in found {
        service.connections += count;
        match service.backends.iter_mut().find(|backend| (backend.address, backend.port) == port) {
            Some(backend) => backend.connections += count,
            None => service.stale_connections += count,
        }
    }
}

/// Returns the address that the client of a connection uses, and the connection's backend; `None` for sessions of
/// NATs.
fn connection(selected: &SelectedTable, entry: &StoredEntry) -> Option<(ServiceAddress, BackendPort)> {
    let entry = NamedEntry::new(&selected.pipeline, selected.table, entry)?;
    if entry.action() != FROM_BACKEND {
        return None;
    }
    let address = |value: Option<u32>| value.map(Ipv4Addr::from_bits);
    let port = |value: Option<u32>| u16::try_from(value?).ok();
    let protocol = u8::try_from(entry.key("protocol")?).ok()?;
    let service = (entry.key("vpc")?, protocol, address(entry.key("address"))?, port(entry.key("port"))?);
    Some((service, (address(entry.argument("address"))?, port(entry.argument("port"))?)))
}
