//! Checks elastic addresses and port forwards.

use super::internet::underlay_addresses;
use super::{NameIndex, names, usable};
use crate::internet::{FIRST_NAT_PORT, ForwardProtocol, Internet, PortForward, ipv4_network};
use crate::model::RegionFile;
use crate::problem::ProblemCollector;
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::values::quoted;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;

/// Most elastic addresses, and addresses with port forwards, together. The gateway's table of own
/// addresses has room for those of NATs and others besides (programs/gateway/classify.p4).
const MAX_ADDRESSES: usize = 2048;
/// Most port forwards: each has two entries in the gateway's table.
const MAX_FORWARDS: usize = 32_768;
/// The port of VXLAN, packets to which the gateway takes for tunnels.
pub(super) const VXLAN_PORT: u16 = 4789;

/// The VPCs of elastic addresses and of port forwards, by their indices.
#[derive(Default)]
pub(super) struct ResolvedVpcs {
    pub(super) elastic: Vec<usize>,
    pub(super) forwards: Vec<usize>,
}

/// Values with the line in which each was seen first.
pub(super) struct Lines<K>(HashMap<K, SourcePos>);

impl<K> Default for Lines<K> {
    fn default() -> Lines<K> {
        Lines(HashMap::new())
    }
}

impl<K: Hash + Eq> Lines<K> {
    /// Returns the position of the first holder of a value, if there is one. Otherwise `at` is it.
    pub(super) fn first(&mut self, value: K, at: SourcePos) -> Option<SourcePos> {
        match self.0.entry(value) {
            Entry::Occupied(first) => Some(*first.get()),
            Entry::Vacant(slot) => {
                slot.insert(at);
                None
            }
        }
    }
}

/// Checks all of them. Returns their VPCs.
pub(super) fn check(report: &mut ProblemCollector, file: &RegionFile, vpcs: &NameIndex<'_>) -> ResolvedVpcs {
    let Some(internet) = &file.internet else { return ResolvedVpcs::default() };
    let wanted: HashSet<(&str, IpAddr)> = internet
        .elastic
        .iter()
        .map(|elastic| (&*elastic.vpc.value, elastic.vm.value))
        .chain(internet.forwards.iter().map(|forward| (&*forward.vpc.value, forward.vm.value)))
        .collect();
    if wanted.is_empty() {
        return ResolvedVpcs::default();
    }
    let machines = file.vms.iter().flat_map(|vm| vm.addresses.iter().map(|address| (&*vm.vpc.value, address.value)));
    let machines = machines.filter(|vm| wanted.contains(vm)).collect();
    let context = Context { internet, vpcs, machines, rules: PublicAddressRules::new(file, internet) };
    let mut elastic_vms = Lines::default();
    let elastic = context.check_elastic(report, &mut elastic_vms);
    ResolvedVpcs { elastic, forwards: context.check_forwards(report, &elastic_vms) }
}

/// What the checks of single addresses need.
struct Context<'a> {
    internet: &'a Internet,
    vpcs: &'a NameIndex<'a>,
    /// The machines that have elastic addresses or port forwards.
    machines: HashSet<(&'a str, IpAddr)>,
    rules: PublicAddressRules<'a>,
}

impl<'a> Context<'a> {
    /// Checks the elastic addresses. Adds their machines to `vms`.
    fn check_elastic(&self, report: &mut ProblemCollector, vms: &mut Lines<(&'a str, IpAddr)>) -> Vec<usize> {
        let mut addresses = Lines::default();
        let mut found = Vec::with_capacity(self.internet.elastic.len());
        for elastic in &self.internet.elastic {
            let (address, vm) = (&elastic.address, &elastic.vm);
            if self.rules.check_public(report, address)
                && let Some((network, line)) = self.rules.nat_with(address.value)
            {
                let message = format!("{} is one of the NAT's {network} in line {line}", address.value);
                report.add(address.at, message, "use an address that no NAT has, or a shorter range for the NAT");
            }
            if let Some(first) = addresses.first(address.value, address.at) {
                let message = format!("{} is an elastic address already, in line {}", address.value, first.line);
                report.add(address.at, message, "give each machine an address of its own");
            }
            if addresses.0.len() == MAX_ADDRESSES + 1 {
                report_too_many(report, address.at, MAX_ADDRESSES, "elastic addresses");
                return found;
            }
            found.extend(self.check_machine(report, &elastic.vpc, vm));
            if let Some(first) = vms.first((&*elastic.vpc.value, vm.value), vm.at) {
                let message = format!("{} has an elastic address already, in line {}", vm.value, first.line);
                report.add(vm.at, message, "give it one; a machine with several addresses can have one for each");
            }
        }
        found
    }

    /// Checks the port forwards.
    fn check_forwards(&self, report: &mut ProblemCollector, vms: &Lines<(&'a str, IpAddr)>) -> Vec<usize> {
        let mut addresses: HashSet<IpAddr> = HashSet::new();
        let elastic: HashMap<IpAddr, SourcePos> =
            self.internet.elastic.iter().map(|elastic| (elastic.address.value, elastic.address.at)).collect();
        let (mut ports, mut vm_ports) = (Lines::default(), Lines::default());
        let mut found = Vec::with_capacity(self.internet.forwards.len());
        for (number, forward) in self.internet.forwards.iter().enumerate() {
            let PortForward { address, protocol, port, vpc, vm, .. } = forward;
            if self.rules.check_public(report, address) {
                self.rules.check_port_of_nat(report, address.value, &forward.port);
            }
            if let Some(first) = elastic.get(&address.value) {
                let message = format!("{} is an elastic address, in line {}", address.value, first.line);
                report.add(address.at, message, "all ports of it reach its machine: remove one of both");
            }
            addresses.insert(address.value);
            if addresses.len() + elastic.len() == MAX_ADDRESSES + 1 || number == MAX_FORWARDS {
                let of_forwards = format!("{MAX_FORWARDS} port forwards, or {MAX_ADDRESSES}");
                report_too_many(report, address.at, of_forwards, "public addresses with them");
                return found;
            }
            check_port(report, forward, port);
            forward.vm_port.iter().for_each(|port| check_port(report, forward, port));
            if let Some(first) = ports.first((address.value, *protocol, port.value), port.at) {
                let message =
                    format!("{protocol} port {} of {} is forwarded in line {}", port.value, address.value, first.line);
                report.add(port.at, message, "use another port or address");
            }
            found.extend(self.check_machine(report, vpc, vm));
            let vm_port = forward.vm_port.unwrap_or(*port);
            if let Some(first) = vm_ports.first((&*vpc.value, vm.value, *protocol, vm_port.value), vm_port.at) {
                let message =
                    format!("{protocol} port {} of {} has a forward in line {}", vm_port.value, vm.value, first.line);
                report.add(vm_port.at, message, "answers from the port can have one public port: use another one");
            }
            if let Some(first) = vms.0.get(&(&*vpc.value, vm.value)) {
                let message = format!("{} has an elastic address, in line {}", vm.value, first.line);
                report.add(vm.at, message, "all its ports are public: remove the forward or the address");
            }
        }
        found
    }

    /// Checks that the machine is one of the VPC. Returns the VPC.
    fn check_machine(
        &self,
        report: &mut ProblemCollector,
        vpc: &WithPos<crate::fields::NameText>,
        vm: &WithPos<IpAddr>,
    ) -> Option<usize> {
        let found = names::resolve(report, "VPC", vpc, self.vpcs)?;
        if vm.value.is_ipv6() {
            let message = format!("{} can't have a public address: it is of IPv6", vm.value);
            report.add(vm.at, message, "name the machine by its IPv4 address");
        } else if !self.machines.contains(&(&*vpc.value, vm.value)) {
            let message = format!("no machine of VPC {} has the address {}", quoted(vpc), vm.value);
            report.add(vm.at, message, "correct the address or the VPC, or add the machine to `vms`");
        }
        Some(found)
    }
}

/// What holds for each public address of a machine or service.
pub(super) struct PublicAddressRules<'a> {
    internet: &'a Internet,
    /// Owners of the underlay's addresses.
    underlay: HashMap<IpAddr, Vec<(&'a str, SourcePos)>>,
}

impl<'a> PublicAddressRules<'a> {
    pub(super) fn new(file: &'a RegionFile, internet: &'a Internet) -> PublicAddressRules<'a> {
        let mut underlay: HashMap<IpAddr, Vec<(&str, SourcePos)>> = HashMap::new();
        for (address, owner, at) in underlay_addresses(file) {
            underlay.entry(address).or_default().push((owner, at));
        }
        PublicAddressRules { internet, underlay }
    }

    /// Checks an address on its own, and against those of the underlay. Returns whether it is one of IPv4.
    pub(super) fn check_public(&self, report: &mut ProblemCollector, address: &WithPos<IpAddr>) -> bool {
        if address.value.is_ipv6() {
            let message = format!("{} can't stand for a machine: it is of IPv6", address.value);
            report.add(
                address.at,
                message,
                "use an IPv4 address; over IPv6, machines have public addresses of their own",
            );
            return false;
        }
        usable::check_address(report, address, "a public address");
        for (owner, at) in self.underlay.get(&address.value).into_iter().flatten() {
            let message = format!("{} is the address of `{owner}` in line {}", address.value, at.line);
            report.add(address.at, message, "use an address that nothing else has");
        }
        true
    }

    /// Returns the prefix of the NAT that has the address, and its line.
    fn nat_with(&self, address: IpAddr) -> Option<(ipnet::Ipv4Net, u32)> {
        let IpAddr::V4(address) = address else { return None };
        let nats = self.internet.nats.iter().map(|nat| &nat.addresses);
        let mut networks = nats.filter_map(|prefix| Some((ipv4_network(prefix.network())?, prefix.at.line)));
        networks.find(|(network, _)| network.contains(&address))
    }

    /// Checks that a NAT does not give out a port of a public address.
    pub(super) fn check_port_of_nat(&self, report: &mut ProblemCollector, address: IpAddr, port: &NumberWithPos<u16>) {
        let Some((network, line)) = self.nat_with(address) else { return };
        if port.value >= FIRST_NAT_PORT {
            let message = format!(
                "port {} of {address} can be in use: the NAT of {network} in line {line} gives out {FIRST_NAT_PORT} to 65535",
                port.value
            );
            report.add(port.at, message, "use a port below, or an address that no NAT has");
        }
    }
}

fn check_port(report: &mut ProblemCollector, forward: &PortForward, port: &NumberWithPos<u16>) {
    if port.value == 0 {
        report.add(port.at, "0 is no port", "use 1 to 65535");
    }
    if port.value == VXLAN_PORT && forward.protocol == ForwardProtocol::Udp {
        let message = format!("UDP port {VXLAN_PORT} can't be forwarded: packets to it are taken for VXLAN");
        report.add(port.at, message, "use another port");
    }
}

fn report_too_many(report: &mut ProblemCollector, at: SourcePos, most: impl std::fmt::Display, what: &str) {
    report.add(at, format!("there are more than {most} {what}, up to here"), "split the region");
}
