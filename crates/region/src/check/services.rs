//! Checks services: addresses, ports, backends, and their numbers.

use super::elastic::{Lines, PublicAddressRules, VXLAN_PORT};
use super::names;
use super::vpcs::{VpcSubnets, check_limit};
use crate::entries::subnet_gateway;
use crate::internet::ForwardProtocol;
use crate::model::{RegionFile, Vpc};
use crate::problem::ProblemCollector;
use crate::services::{Backend, MAX_BACKENDS, Service};
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::values::quoted;
use crate::vpc::MAX_CONNECTIONS;
use ipnet::IpNet;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Maximum number of services of a VPC.
pub(crate) const MAX_VPC_SERVICES: usize = 256;
/// Maximum number of services, of their slots, and of their backends: the sizes of the gateway's tables
/// (programs/gateway/service_port.p4, service_choice.p4). An entry has eight slots.
const MAX_SERVICES: usize = 65_536;
const MAX_SLOTS: usize = 32 << 20;
const MAX_ALL_BACKENDS: usize = 262_144;
/// Maximum number of public addresses of services. The gateway's table of own addresses has room for
/// those of NATs, elastic addresses and port forwards besides.
const MAX_PUBLIC_ADDRESSES: usize = 512;
/// Shares of backends.
const WEIGHTS: RangeInclusive<u16> = 1..=100;

/// Checks the services of all VPCs. `subnets` has the subnets of each.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, subnets: &[VpcSubnets]) {
    for vpc in &file.vpcs {
        let limit = ("max_connections", vpc.max_connections, MAX_CONNECTIONS);
        check_limit(report, vpc, limit, (!vpc.services.is_empty(), "services", "`services`"));
    }
    if file.vpcs.iter().all(|vpc| vpc.services.is_empty()) {
        return;
    }
    let machines = Machines::of(file);
    let mut all = Totals::default();
    let mut public = PublicPorts::of(file);
    for (vpc, subnets) in file.vpcs.iter().zip(subnets) {
        names::index_names(report, "service", vpc.services.iter().map(|service| &service.name));
        let mut check =
            VpcCheck { vpc, subnets, machines: &machines, ports: Lines::default(), members: Lines::default() };
        for (count, service) in vpc.services.iter().enumerate() {
            if count == MAX_VPC_SERVICES {
                let message =
                    format!("VPC {} has more than {MAX_VPC_SERVICES} services, up to here", quoted(&vpc.name));
                report.add(service.name.at, message, "split the VPC");
                break;
            }
            check.check_service(report, service);
            public.check_service(report, vpc, service);
            all.check_service(report, service);
        }
    }
}

/// Numbers of all services together.
#[derive(Default)]
struct Totals {
    services: usize,
    slots: usize,
    backends: usize,
}

impl Totals {
    /// Counts a service. Reports the first one beyond a limit.
    fn check_service(&mut self, report: &mut ProblemCollector, service: &Service) {
        let counts = [
            (&mut self.services, 1, MAX_SERVICES, "services"),
            (&mut self.slots, service.slots().next_multiple_of(8) as usize, MAX_SLOTS, "slots of services"),
            (&mut self.backends, service.backends.len(), MAX_ALL_BACKENDS, "backends"),
        ];
        for (count, own, most, what) in counts {
            let before = *count;
            *count += own;
            if *count > most && before <= most {
                let message = format!("there are more than {most} {what}, up to here");
                report.add(service.name.at, message, "use fewer, or a smaller `max_backends`, or split the region");
            }
        }
    }
}

/// The addresses of machines that services name.
struct Machines<'a>(HashMap<(&'a str, IpAddr), u32>);

impl<'a> Machines<'a> {
    fn of(file: &'a RegionFile) -> Machines<'a> {
        let addresses = |vpc: &'a Vpc| {
            let own = vpc.services.iter().flat_map(|service| &service.address);
            let backends = vpc.services.iter().flat_map(|service| &service.backends).map(|backend| &backend.vm);
            own.chain(backends).map(|address| (&**vpc.name, address.value))
        };
        let wanted: HashSet<(&str, IpAddr)> = file.vpcs.iter().flat_map(addresses).collect();
        let of_vms = file
            .vms
            .iter()
            .flat_map(|vm| vm.addresses.iter().map(|address| ((&**vm.vpc, address.value), vm.name.at.line)));
        Machines(of_vms.filter(|(machine, _)| wanted.contains(machine)).collect())
    }
}

/// What the check of a VPC has seen.
struct VpcCheck<'a> {
    vpc: &'a Vpc,
    subnets: &'a VpcSubnets,
    machines: &'a Machines<'a>,
    ports: Lines<(IpAddr, ForwardProtocol, u16)>,
    /// Ports of machines that are backends.
    members: Lines<(IpAddr, ForwardProtocol, u16)>,
}

impl VpcCheck<'_> {
    fn check_service(&mut self, report: &mut ProblemCollector, service: &Service) {
        check_port(report, &service.port);
        match &service.address {
            Some(address) => self.check_address(report, service, address),
            None if service.public.is_none() => {
                let message = format!("the service {} has no address", quoted(&service.name));
                report.add(service.name.at, message, "add `address`, `public`, or both");
            }
            None => {}
        }
        if let Some(most) = service.max_backends.filter(|most| most.value == 0 || most.value > MAX_BACKENDS) {
            let message = format!("`max_backends: {}` is out of range", most.value);
            report.add(most.at, message, format!("use 1 to {MAX_BACKENDS}"));
        } else if let Some(backend) = service.backends.get(usize::from(service.max_backends())) {
            let most = service.max_backends();
            let message = format!("the service {} has more than {most} backends, up to here", quoted(&service.name));
            let help = format!("raise `max_backends`, up to {MAX_BACKENDS}: new connections are distributed anew");
            report.add(backend.vm.at, message, help);
        }
        for backend in &service.backends {
            self.check_backend(report, service, backend);
        }
    }

    fn check_address(&mut self, report: &mut ProblemCollector, service: &Service, address: &WithPos<IpAddr>) {
        let (at, name) = (address.at, quoted(&self.vpc.name));
        if address.value.is_ipv6() {
            let message = format!("{} can't be the address of a service: it is of IPv6", address.value);
            report.add(at, message, "use an IPv4 address");
            return;
        }
        match self.subnets.covering(&IpNet::from(address.value)) {
            None => {
                let message = format!("{} is in no subnet of VPC {name}", address.value);
                report.add(at, message, "correct the address, or add its subnet to the VPC");
            }
            Some((subnet, _)) if subnet.prefix_len() >= 31 => {
                let message = format!("{} is in {subnet}, which has room for machines alone", address.value);
                report.add(at, message, "use an address of a larger subnet");
            }
            Some((subnet, _)) if [subnet.network(), subnet.broadcast()].contains(&address.value) => {
                let message = format!("{} is the network or broadcast address of {subnet}", address.value);
                report.add(at, message, "use an address between them");
            }
            Some((subnet, _)) if subnet_gateway(self.vpc, subnet) == Some(address.value) => {
                let message = format!("{} is the address of the gateway in {subnet}", address.value);
                report.add(at, message, "use another address, or move the gateway's with `gateways`");
            }
            Some(_) => {}
        }
        if let Some(line) = self.machines.0.get(&(&**self.vpc.name, address.value)) {
            let message = format!("{} is the address of a machine in line {line}", address.value);
            report.add(at, message, "use an address that no machine has");
        }
        let key = (address.value, service.protocol, service.port.value);
        if let Some(first) = self.ports.first(key, at) {
            let message = format!(
                "{} port {} of {} has a service already, in line {}",
                service.protocol, service.port.value, address.value, first.line
            );
            report.add(at, message, "use another address or port");
        }
    }

    fn check_backend(&mut self, report: &mut ProblemCollector, service: &Service, backend: &Backend) {
        let vm = &backend.vm;
        backend.port.iter().for_each(|port| check_port(report, port));
        if let Some(weight) = backend.weight.filter(|weight| !WEIGHTS.contains(&weight.value)) {
            let message = format!("the weight {} is out of range", weight.value);
            let help = "use 1 to 100; a backend that takes no new connections has `state: draining`";
            report.add(weight.at, message, help);
        }
        if vm.value.is_ipv6() {
            let message = format!("{} can't be a backend: it is of IPv6", vm.value);
            report.add(vm.at, message, "name the machine by its IPv4 address");
        } else if !self.machines.0.contains_key(&(&**self.vpc.name, vm.value)) {
            let message = format!("no machine of VPC {} has the address {}", quoted(&self.vpc.name), vm.value);
            report.add(vm.at, message, "correct the address, or add the machine to `vms`");
        }
        let port = service.port_of(backend).value;
        if let Some(first) = self.members.first((vm.value, service.protocol, port), vm.at) {
            let message = format!(
                "{} port {port} of {} is a backend already, in line {}",
                service.protocol, vm.value, first.line
            );
            report.add(vm.at, message, "its answers can have one address: use another port for each service");
        }
    }
}

fn check_port(report: &mut ProblemCollector, port: &NumberWithPos<u16>) {
    if port.value == 0 {
        report.add(port.at, "0 is no port", "use 1 to 65535");
    }
}

/// Ports of public addresses, and of machines that have them.
struct PublicPorts<'a> {
    rules: Option<PublicAddressRules<'a>>,
    ports: Lines<(IpAddr, ForwardProtocol, u16)>,
    addresses: HashSet<IpAddr>,
    elastic: HashMap<IpAddr, SourcePos>,
    forwarded: HashMap<(&'a str, IpAddr, ForwardProtocol, u16), SourcePos>,
}

impl<'a> PublicPorts<'a> {
    fn of(file: &'a RegionFile) -> PublicPorts<'a> {
        let internet = file.internet.iter();
        let elastic = internet.clone().flat_map(|internet| &internet.elastic);
        let mut ports = Lines::default();
        let mut forwarded = HashMap::new();
        for forward in internet.flat_map(|internet| &internet.forwards) {
            ports.first((forward.address.value, forward.protocol, forward.port.value), forward.port.at);
            let of_vm = (&**forward.vpc, forward.vm.value, forward.protocol, forward.vm_port());
            forwarded.insert(of_vm, forward.vm.at);
        }
        PublicPorts {
            rules: file.internet.as_ref().map(|internet| PublicAddressRules::new(file, internet)),
            ports,
            addresses: HashSet::new(),
            elastic: elastic.map(|elastic| (elastic.address.value, elastic.address.at)).collect(),
            forwarded,
        }
    }

    fn check_service(&mut self, report: &mut ProblemCollector, vpc: &Vpc, service: &Service) {
        let Some(address) = &service.public else { return };
        let Some(rules) = &self.rules else {
            let message = format!("{} can't be reached: the region has no `internet`", address.value);
            report.add(address.at, message, "add `internet: {uplinks: [...]}`, or remove `public`");
            return;
        };
        if rules.check_public(report, address) {
            rules.check_port_of_nat(report, address.value, &service.port);
        }
        if let Some(first) = self.elastic.get(&address.value) {
            let message = format!("{} is an elastic address, in line {}", address.value, first.line);
            report.add(address.at, message, "all ports of it reach its machine: use another address");
        }
        if service.port.value == VXLAN_PORT && service.protocol == ForwardProtocol::Udp {
            let message = format!("UDP port {VXLAN_PORT} can't be public: packets to it are taken for VXLAN");
            report.add(service.port.at, message, "use another port");
        }
        if let Some(first) = self.ports.first((address.value, service.protocol, service.port.value), address.at) {
            let message = format!(
                "{} port {} of {} is in use already, in line {}",
                service.protocol, service.port.value, address.value, first.line
            );
            report.add(address.at, message, "use another address or port");
        }
        if self.addresses.insert(address.value) && self.addresses.len() == MAX_PUBLIC_ADDRESSES + 1 {
            let message = format!("services have more than {MAX_PUBLIC_ADDRESSES} public addresses, up to here");
            report.add(address.at, message, "give several services one address, or split the region");
        }
        for backend in &service.backends {
            let port = service.port_of(backend).value;
            let of_vm = (&**vpc.name, backend.vm.value, service.protocol, port);
            if let Some(first) = self.forwarded.get(&of_vm) {
                let message = format!(
                    "{} port {port} of {} has a port forward, in line {}",
                    service.protocol, backend.vm.value, first.line
                );
                report.add(
                    backend.vm.at,
                    message,
                    "answers from the port can have one public address: use another port",
                );
            }
        }
    }
}
