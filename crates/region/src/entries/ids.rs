//! Assigns ids to objects that tables refer to by number.

use super::PortStates;
use super::internet::{NumberRanges, assign_ranges, public_ranges, subscriber_ranges};
use super::machine_numbers::MachineNumbers;
use crate::check::{FlatRoute, MAX_NAT_SUBSCRIBERS, MAX_PUBLIC_ADDRESSES, MAX_TRANSIT_PATHS, MAX_VPCS, ResolvedRegion};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Ids by name. A gateway keeps them for all versions of its region file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct IdAssignments {
    /// VPCs, by name.
    pub vpcs: BTreeMap<String, u32>,
    /// Route tables, by VPC and name (the main one: empty).
    pub instances: BTreeMap<(String, String), u32>,
    /// Remotes, by name.
    pub remotes: BTreeMap<String, u32>,
    /// Next hops: uplinks, by name.
    pub next_hops: BTreeMap<String, u32>,
    /// ECMP groups, by their sets of uplinks.
    pub groups: BTreeMap<Vec<String>, u32>,
    /// Transit paths. Their lists have ids downwards from [`NO_TRANSIT`].
    pub ways: BTreeMap<TransitPath, u32>,
    /// Secret of the hash of flows, for a region file without one; 0: none. A node chooses it once, and
    /// keeps it over restarts and take-overs as it keeps the ids.
    pub flow_secret: u32,
    /// First numbers of public addresses in the pool of ports, by prefix.
    pub public_addresses: NumberRanges<Ipv4Net>,
    /// First numbers of machines in the pool of ports, by VPC and subnet.
    pub nat_subscribers: NumberRanges<(String, Ipv4Net)>,
    /// Machines with NAT64. It stays the last stored field: older versions have not stored it.
    pub nat64_machines: MachineNumbers,
    /// State of the ports, by which groups share out their next hops. It is not stored, because each
    /// process observes it anew.
    #[serde(skip)]
    pub ports: PortStates,
    /// Longest IP packets that the paths to servers and remotes carry, in bytes, where a router has
    /// reported less than the MTU of the port. They are not stored, because they age.
    #[serde(skip)]
    pub path_mtus: PathMtus,
}

/// Path MTUs in bytes by destination.
pub type PathMtus = BTreeMap<IpAddr, u16>;

/// A path of packets through other VPCs, by their names. The lists of these VPCs decide besides the
/// list of the source VPC.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct TransitPath {
    /// The VPCs that packets pass through, in order.
    pub via: Vec<String>,
    /// The VPC that packets are delivered in. `None` if they leave by an exit of the last one in
    /// `via`.
    pub to: Option<String>,
}

/// Upper bits of the ids of transit lists, which no VPC's id has (programs/gateway/metadata.p4).
const TRANSIT: u32 = MAX_VPCS as u32;
/// Lower 16 bits of an id: no list. Routes that leave the region's VPCs refer to a list by the
/// lower bits of its id.
pub(super) const NO_TRANSIT: u32 = MAX_TRANSIT_PATHS as u32;

impl TransitPath {
    /// Returns the transit path of a route. `None` if the route passes through no other VPC.
    pub(super) fn of(region: &ResolvedRegion, route: &FlatRoute) -> Option<TransitPath> {
        let name = |vpc: &usize| region.file.vpcs[*vpc].name.value.to_string();
        let (via, to) = route.transit_path()?;
        Some(TransitPath { via: via.iter().map(name).collect(), to: to.as_ref().map(name) })
    }
}

impl IdAssignments {
    /// Returns the secret of the hash of flows.
    pub fn flow_secret_of(&self, region: &ResolvedRegion) -> u32 {
        region.file.gateway.flow_secret.as_ref().map_or(self.flow_secret, |secret| secret.value)
    }

    /// Assigns ids to all objects without one, and frees the ids of removed objects. Returns the
    /// ids of the new VPCs.
    pub fn assign(&mut self, region: &ResolvedRegion) -> Vec<u32> {
        let file = &region.file;
        let text = |name: &crate::model::Name| name.value.to_string();
        let fresh = assign_ids(&mut self.vpcs, file.vpcs.iter().map(|v| text(&v.name)).collect());
        let instances = file.vpcs.iter().flat_map(|v| {
            let vpc = text(&v.name);
            let tables = std::iter::once(String::new()).chain(v.route_tables.iter().map(|t| text(&t.name)));
            tables.map(move |table| (vpc.clone(), table))
        });
        assign_ids(&mut self.instances, instances.collect());
        assign_ids(&mut self.remotes, file.remotes.iter().map(|r| text(&r.name)).collect());
        assign_ids(&mut self.next_hops, file.uplinks.iter().map(|u| text(&u.name)).collect());
        let sets = region
            .server_uplinks
            .iter()
            .chain(&region.remote_uplinks)
            .chain([&region.internet_uplinks])
            .filter(|set| set.len() > 1);
        assign_ids(&mut self.groups, sets.map(|set| uplink_names(region, set)).collect());
        let routes = region.tables.iter().flatten().flatten();
        assign_ranges(&mut self.public_addresses, &public_ranges(region), MAX_PUBLIC_ADDRESSES);
        assign_ranges(&mut self.nat_subscribers, &subscriber_ranges(region), MAX_NAT_SUBSCRIBERS);
        self.nat64_machines.assign(region);
        assign_ids(&mut self.ways, routes.filter_map(|route| TransitPath::of(region, route)).collect());
        fresh
    }

    /// Returns the id of the list that decides, besides the list of the source VPC, about packets
    /// of a route to the VPC of index `to`.
    pub(super) fn deciding_list(&self, region: &ResolvedRegion, route: &FlatRoute, to: usize) -> u32 {
        match TransitPath::of(region, route) {
            Some(way) => self.list_of(&way),
            None => self.vpcs[&*region.file.vpcs[to].name.value],
        }
    }

    /// Returns the lower bits of the list's id, after [`TRANSIT`], for a route that leaves the
    /// region's VPCs.
    pub(super) fn transit_list_bits(&self, region: &ResolvedRegion, route: &FlatRoute) -> u32 {
        TransitPath::of(region, route).map_or(NO_TRANSIT, |way| self.transit_of(&way))
    }

    /// Returns the id of the list of a path.
    pub(super) fn list_of(&self, way: &TransitPath) -> u32 {
        TRANSIT | self.transit_of(way)
    }

    fn transit_of(&self, way: &TransitPath) -> u32 {
        NO_TRANSIT - 1 - self.ways[way]
    }
}

/// Returns a set of uplinks as the key of [`IdAssignments::groups`], in the order of the file.
pub(super) fn uplink_names(region: &ResolvedRegion, uplinks: &[usize]) -> Vec<String> {
    uplinks.iter().map(|u| region.file.uplinks[*u].name.value.to_string()).collect()
}

/// Keeps the ids of `wanted`, assigns the lowest free ids to keys without one, and frees all
/// others. Returns the new ids.
fn assign_ids<K: Ord + Clone>(numbers: &mut BTreeMap<K, u32>, wanted: BTreeSet<K>) -> Vec<u32> {
    numbers.retain(|key, _| wanted.contains(key));
    let taken: BTreeSet<u32> = numbers.values().copied().collect();
    let mut free = (0..).filter(|n| !taken.contains(n));
    let mut fresh = Vec::new();
    for key in wanted {
        if let std::collections::btree_map::Entry::Vacant(slot) = numbers.entry(key)
            && let Some(number) = free.next()
        {
            slot.insert(number);
            fresh.push(number);
        }
    }
    fresh
}
