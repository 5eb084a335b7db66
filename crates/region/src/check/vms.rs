//! Checks virtual machines.

use super::vpcs::VpcSubnets;
use super::{NameIndex, names, usable};
use crate::model::{RegionFile, Vm};
use crate::problem::ProblemCollector;
use crate::spanned::{SourcePos, WithPos};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Duplicate addresses within a VPC: from the index of a machine (and of its address) to the index
/// of an earlier machine with the same one. They are found by sorting, because that needs less time
/// and memory than a hash table of all addresses, and duplicates are rare.
struct DuplicateAddresses {
    macs: HashMap<u32, u32>,
    addresses: HashMap<(u32, u32), u32>,
}

impl DuplicateAddresses {
    fn of(file: &RegionFile, vpcs: &NameIndex) -> DuplicateAddresses {
        let known = |vm: &Vm| vpcs.get(&**vm.vpc).map_or(u32::MAX, |vpc| *vpc as u32);
        let vpcs: Vec<u32> = file.vms.iter().map(known).collect();
        let machines = || (0..).zip(file.vms.iter().zip(&vpcs)).filter(|(_, (_, vpc))| **vpc != u32::MAX);
        let macs = machines().map(|(machine, (vm, vpc))| ((*vpc, vm.mac.value), machine)).collect();
        let addresses = machines().flat_map(|(machine, (vm, vpc))| {
            let addresses = (0..).zip(&vm.addresses);
            addresses.map(move |(nth, address)| ((*vpc, address.value), (machine, nth)))
        });
        DuplicateAddresses {
            macs: find_repeated(macs).into_iter().collect(),
            addresses: find_repeated(addresses.collect())
                .into_iter()
                .map(|(later, (earlier, _))| (later, earlier))
                .collect(),
        }
    }
}

/// Returns each holder of a value that an earlier holder has, with the previous holder of the
/// value.
fn find_repeated<T: Ord, Holder: Ord + Copy>(mut held: Vec<(T, Holder)>) -> Vec<(Holder, Holder)> {
    held.sort_unstable();
    let pairs = held.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    pairs.map(|pair| (pair[1].1, pair[0].1)).collect()
}

/// Checks the machines. Returns the VPC and server of each.
pub(super) fn check(
    report: &mut ProblemCollector,
    file: &RegionFile,
    vpcs: &NameIndex,
    servers: &NameIndex,
    subnets: &[VpcSubnets],
) -> Vec<(usize, usize)> {
    names::index_names(report, "VM", file.vms.iter().map(|vm| &vm.name));
    let shared = DuplicateAddresses::of(file, vpcs);
    let mut places = Vec::with_capacity(file.vms.len());
    for (i, vm) in file.vms.iter().enumerate() {
        let vpc = names::resolve(report, "VPC", &vm.vpc, vpcs);
        let server = names::resolve(report, "server", &vm.server, servers);
        if let Some(vpc) = vpc {
            check_machine(report, file, &shared, i, vpc, &subnets[vpc]);
        }
        if let (Some(vpc), Some(server)) = (vpc, server) {
            places.push((vpc, server));
        }
    }
    places
}

fn check_machine(
    report: &mut ProblemCollector,
    file: &RegionFile,
    shared: &DuplicateAddresses,
    i: usize,
    vpc: usize,
    subnets: &VpcSubnets,
) {
    let vm = &file.vms[i];
    usable::check_unicast(report, &vm.mac);
    let who = |earlier: &u32| &file.vms[*earlier as usize];
    if vm.mac.value == file.gateway.mac.value {
        report.add(
            vm.mac.at,
            format!("{} is the gateway's MAC address", vm.mac.value),
            "give the machine one of its own",
        );
    }
    if let Some(earlier) = shared.macs.get(&(i as u32)) {
        report_duplicate(report, vm.mac.at, &vm.mac.value.to_string(), who(earlier));
    }
    if vm.addresses.is_empty() {
        report.add(vm.name.at, format!("VM `{}` has no address", vm.name.value), "add one to `addresses`");
    }
    for (nth, address) in (0..).zip(&vm.addresses) {
        check_in_subnet(report, file, vpc, address, subnets);
        if let Some(earlier) = shared.addresses.get(&(i as u32, nth)) {
            report_duplicate(report, address.at, &address.value.to_string(), who(earlier));
        }
    }
}

fn report_duplicate(report: &mut ProblemCollector, at: SourcePos, what: &str, earlier: &Vm) {
    let message = format!(
        "{what} belongs to VM `{}` of the same VPC already, in line {}",
        earlier.name.value, earlier.name.at.line
    );
    report.add(at, message, "give each machine of a VPC addresses of its own");
}

fn check_in_subnet(
    report: &mut ProblemCollector,
    file: &RegionFile,
    vpc: usize,
    address: &WithPos<IpAddr>,
    subnets: &VpcSubnets,
) {
    let vpc = &file.vpcs[vpc];
    if vpc.gateways.iter().any(|gateway| gateway.value == address.value) {
        let message = format!("{} is an address of the gateway in VPC `{}`", address.value, vpc.name.value);
        report.add(address.at, message, "give the machine or the gateway another address");
    }
    match subnets.covering(&IpNet::from(address.value)) {
        None if !usable::check_address(report, address, "the address of a machine") => {}
        None => report.add(
            address.at,
            format!("{} is in no subnet of VPC `{}`", address.value, vpc.name.value),
            "correct the address, or add its subnet to the VPC",
        ),
        // The subnet itself was reported, because machines can use none of its addresses.
        Some((subnet, _)) if crate::addresses::enclosing_unusable_range(subnet).is_some() => {}
        Some((IpNet::V4(subnet), _)) if subnet.prefix_len() < 31 => {
            let ends = [subnet.network(), subnet.broadcast()].map(IpAddr::V4);
            if ends.contains(&address.value) {
                let message = format!("{} is the network or broadcast address of {subnet}", address.value);
                report.add(address.at, message, "use an address between them");
            }
        }
        // A /127 is a link between two routers (RFC 6164) and a /128 is one machine. In all others,
        // the first address is the subnet-router anycast address.
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
    use super::find_repeated;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn the_one_before_is_the_last_that_had_it(values in proptest::collection::vec(0u8..6, 0..20)) {
            let held: Vec<(u8, usize)> = values.into_iter().zip(0..).collect();
            let mut holders = HashMap::new();
            let one_before = |(value, holder): &(u8, usize)| Some((*holder, holders.insert(*value, *holder)?));
            let naive: HashMap<usize, usize> = held.iter().filter_map(one_before).collect();
            prop_assert_eq!(find_repeated(held.clone()).into_iter().collect::<HashMap<_, _>>(), naive);
        }
    }
}
