//! Virtual machines.

use super::vpcs::Subnets;
use super::{Index, names, usable};
use crate::model::{RegionFile, Vm};
use crate::position::{At, Position};
use crate::problem::Report;
use crate::values::Mac;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Addresses and MACs of machines by VPC: who has them.
#[derive(Default)]
struct Taken {
    addresses: HashMap<(u32, IpAddr), u32>,
    macs: HashMap<(u32, Mac), u32>,
}

/// Checks the machines; gives each one's VPC and server.
pub(super) fn check(
    report: &mut Report,
    file: &RegionFile,
    vpcs: &Index,
    servers: &Index,
    subnets: &[Subnets],
) -> Vec<(usize, usize)> {
    names::index(report, "VM", file.vms.iter().map(|vm| &vm.name));
    let mut taken = Taken::default();
    taken.addresses.reserve(file.vms.len());
    taken.macs.reserve(file.vms.len());
    let mut places = Vec::with_capacity(file.vms.len());
    for (i, vm) in file.vms.iter().enumerate() {
        let vpc = names::resolve(report, "VPC", &vm.vpc, vpcs);
        let server = names::resolve(report, "server", &vm.server, servers);
        if let Some(vpc) = vpc {
            machine(report, file, &mut taken, i, vpc, &subnets[vpc]);
        }
        if let (Some(vpc), Some(server)) = (vpc, server) {
            places.push((vpc, server));
        }
    }
    places
}

fn machine(report: &mut Report, file: &RegionFile, taken: &mut Taken, i: usize, vpc: usize, subnets: &Subnets) {
    let vm = &file.vms[i];
    usable::unicast(report, &vm.mac);
    let who = |earlier: u32| &file.vms[earlier as usize];
    if vm.mac.value == file.gateway.mac.value {
        report.add(
            vm.mac.at,
            format!("{} is the gateway's MAC address", vm.mac.value),
            "give the machine one of its own",
        );
    }
    if let Some(earlier) = taken.macs.insert((vpc as u32, vm.mac.value), i as u32) {
        duplicate(report, vm.mac.at, &vm.mac.value.to_string(), who(earlier));
    }
    if vm.addresses.is_empty() {
        report.add(vm.name.at, format!("VM `{}` has no address", vm.name.value), "add one to `addresses`");
    }
    for address in &vm.addresses {
        in_subnet(report, file, vpc, address, subnets);
        if let Some(earlier) = taken.addresses.insert((vpc as u32, address.value), i as u32) {
            duplicate(report, address.at, &address.value.to_string(), who(earlier));
        }
    }
}

fn duplicate(report: &mut Report, at: Position, what: &str, earlier: &Vm) {
    let message = format!(
        "{what} belongs to VM `{}` of the same VPC already, in line {}",
        earlier.name.value, earlier.name.at.line
    );
    report.add(at, message, "give each machine of a VPC addresses of its own");
}

fn in_subnet(report: &mut Report, file: &RegionFile, vpc: usize, address: &At<IpAddr>, subnets: &Subnets) {
    let vpc = &file.vpcs[vpc];
    match subnets.covering(&IpNet::from(address.value)) {
        None if !usable::address(report, address, "the address of a machine") => {}
        None => report.add(
            address.at,
            format!("{} is in no subnet of VPC `{}`", address.value, vpc.name.value),
            "correct the address, or add its subnet to the VPC",
        ),
        // A subnet with addresses that no machine can have was reported in its own line.
        Some((subnet, _)) if crate::addresses::unusable_whole(subnet).is_some() => {}
        Some((IpNet::V4(subnet), _)) if subnet.prefix_len() < 31 => {
            let ends = [subnet.network(), subnet.broadcast()].map(IpAddr::V4);
            if ends.contains(&address.value) {
                let message = format!("{} is the network or broadcast address of {subnet}", address.value);
                report.add(address.at, message, "use an address between them");
            }
        }
        // Two addresses are a link between two (RFC 6164), one is a machine's own; else the first is that of all routers.
        Some((IpNet::V6(subnet), _)) if subnet.prefix_len() < 127 && address.value == IpAddr::V6(subnet.network()) => {
            let message =
                format!("{} is the subnet-router anycast address of {subnet} (RFC 4291, section 2.6.1)", address.value);
            report.add(address.at, message, "use another address of the subnet");
        }
        Some(_) => {}
    }
}
