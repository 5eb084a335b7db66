//! Virtual machines.

use super::vpcs::Subnets;
use super::{Index, names, usable};
use crate::model::{RegionFile, Vm};
use crate::position::{At, Position};
use crate::problem::Report;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Machines that have what an earlier one of their VPC has: which one, by the index of the machine,
/// and of its address. There are few or none, so that all are found by sorting, which takes less
/// time and memory than a table of all.
struct Shared {
    macs: HashMap<u32, u32>,
    addresses: HashMap<(u32, u32), u32>,
}

impl Shared {
    fn of(file: &RegionFile, vpcs: &Index) -> Shared {
        let known = |vm: &Vm| vpcs.get(&**vm.vpc).map_or(u32::MAX, |vpc| *vpc as u32);
        let vpcs: Vec<u32> = file.vms.iter().map(known).collect();
        let machines = || (0..).zip(file.vms.iter().zip(&vpcs)).filter(|(_, (_, vpc))| **vpc != u32::MAX);
        let macs = machines().map(|(machine, (vm, vpc))| ((*vpc, vm.mac.value), machine)).collect();
        let addresses = machines().flat_map(|(machine, (vm, vpc))| {
            let addresses = (0..).zip(&vm.addresses);
            addresses.map(move |(nth, address)| ((*vpc, address.value), (machine, nth)))
        });
        Shared {
            macs: repeated(macs).into_iter().collect(),
            addresses: repeated(addresses.collect())
                .into_iter()
                .map(|(later, (earlier, _))| (later, earlier))
                .collect(),
        }
    }
}

/// Who has what another one has as well, each with the one before.
fn repeated<T: Ord, Holder: Ord + Copy>(mut held: Vec<(T, Holder)>) -> Vec<(Holder, Holder)> {
    held.sort_unstable();
    let pairs = held.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| (pair[1].1, pair[0].1)).collect()
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
    let shared = Shared::of(file, vpcs);
    let mut places = Vec::with_capacity(file.vms.len());
    for (i, vm) in file.vms.iter().enumerate() {
        let vpc = names::resolve(report, "VPC", &vm.vpc, vpcs);
        let server = names::resolve(report, "server", &vm.server, servers);
        if let Some(vpc) = vpc {
            machine(report, file, &shared, i, vpc, &subnets[vpc]);
        }
        if let (Some(vpc), Some(server)) = (vpc, server) {
            places.push((vpc, server));
        }
    }
    places
}

fn machine(report: &mut Report, file: &RegionFile, shared: &Shared, i: usize, vpc: usize, subnets: &Subnets) {
    let vm = &file.vms[i];
    usable::unicast(report, &vm.mac);
    let who = |earlier: &u32| &file.vms[*earlier as usize];
    if vm.mac.value == file.gateway.mac.value {
        report.add(
            vm.mac.at,
            format!("{} is the gateway's MAC address", vm.mac.value),
            "give the machine one of its own",
        );
    }
    if let Some(earlier) = shared.macs.get(&(i as u32)) {
        duplicate(report, vm.mac.at, &vm.mac.value.to_string(), who(earlier));
    }
    if vm.addresses.is_empty() {
        report.add(vm.name.at, format!("VM `{}` has no address", vm.name.value), "add one to `addresses`");
    }
    for (nth, address) in (0..).zip(&vm.addresses) {
        in_subnet(report, file, vpc, address, subnets);
        if let Some(earlier) = shared.addresses.get(&(i as u32, nth)) {
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

#[cfg(test)]
mod tests {
    use super::repeated;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn the_one_before_is_the_last_that_had_it(values in proptest::collection::vec(0u8..6, 0..20)) {
            let held: Vec<(u8, usize)> = values.into_iter().zip(0..).collect();
            let mut holders = HashMap::new();
            let one_before = |(value, holder): &(u8, usize)| Some((*holder, holders.insert(*value, *holder)?));
            let naive: HashMap<usize, usize> = held.iter().filter_map(one_before).collect();
            prop_assert_eq!(repeated(held.clone()).into_iter().collect::<HashMap<_, _>>(), naive);
        }
    }
}
