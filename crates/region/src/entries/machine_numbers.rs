//! Numbers of machines with NAT64.

use crate::check::ResolvedRegion;
use crate::nat64::MAX_NAT64_MACHINES;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// Numbers of machines that use NAT64. A machine keeps its number, by which its sessions are found; that of
/// a removed machine comes last again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MachineNumbers {
    /// By VPC and address.
    pub by_machine: BTreeMap<(String, Ipv6Addr), u32>,
    next: u32,
}

impl MachineNumbers {
    /// Numbers the machines of a region, and frees the numbers of all others.
    pub(super) fn assign(&mut self, region: &ResolvedRegion) {
        let wanted: BTreeSet<(String, Ipv6Addr)> = nat64_machines(region, |_| true)
            .map(|(machine, address)| {
                (region.file.vpcs[region.vm_locations[machine].0].name.value.to_string(), address)
            })
            .collect();
        self.by_machine.retain(|machine, _| wanted.contains(machine));
        let mut taken: BTreeSet<u32> = self.by_machine.values().copied().collect();
        for machine in wanted {
            if self.by_machine.contains_key(&machine) || taken.len() >= MAX_NAT64_MACHINES {
                continue;
            }
            while taken.contains(&self.next) {
                self.next = self.following(self.next);
            }
            taken.insert(self.next);
            self.by_machine.insert(machine, self.next);
            self.next = self.following(self.next);
        }
    }

    fn following(&self, number: u32) -> u32 {
        (number + 1) % MAX_NAT64_MACHINES as u32
    }
}

/// Iterates over the machines of the VPCs with NAT64 that `is_wanted` selects, with each of their addresses.
pub(super) fn nat64_machines(
    region: &ResolvedRegion,
    is_wanted: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (usize, Ipv6Addr)> {
    let of_nat64 = region.machines_of(move |vpc| is_wanted(vpc) && region.file.vpcs[vpc].nat64.is_some());
    of_nat64.flat_map(|machine| {
        let addresses = region.file.vms[machine].addresses.iter();
        addresses.filter_map(move |address| match address.value {
            IpAddr::V6(address) => Some((machine, address)),
            IpAddr::V4(_) => None,
        })
    })
}
