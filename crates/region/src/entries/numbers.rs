//! Numbers of things that tables refer to by number.

use crate::check::{FlatRoute, MAX_VPCS, MAX_WAYS, Region};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Who has which number. The same numbers hold for all versions of a region file that a gateway is given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// VPCs, by name.
    pub vpcs: BTreeMap<String, u32>,
    /// Route tables, by VPC and name (the main one: empty).
    pub instances: BTreeMap<(String, String), u32>,
    /// Remotes, by name.
    pub remotes: BTreeMap<String, u32>,
    /// Next hops: uplinks, by name.
    pub next_hops: BTreeMap<String, u32>,
    /// ECMP groups: sets of uplinks.
    pub groups: BTreeMap<Vec<String>, u32>,
    /// Ways through other VPCs: their lists have numbers from that of no list downwards.
    pub ways: BTreeMap<Way, u32>,
}

/// A way of packets through VPCs, by name: whose lists decide besides the one of the VPC that they come from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Way {
    /// Those that they pass through, in order.
    pub via: Vec<String>,
    /// The one that they are delivered in, if it is not an exit of the last one.
    pub to: Option<String>,
}

/// What the numbers of ways' lists begin with, and no VPC's number does
/// (programs/gateway/metadata.p4).
const TRANSIT: u32 = MAX_VPCS as u32;
/// What stands behind it for no list. Routes that leave the region's VPCs name a list by this part
/// of its number.
const NO_TRANSIT: u32 = MAX_WAYS as u32;

impl Way {
    /// Of a route; none if it leads through no other VPC.
    pub(super) fn of(region: &Region, route: &FlatRoute) -> Option<Way> {
        let name = |vpc: &usize| region.file.vpcs[*vpc].name.value.to_string();
        let (via, to) = route.way()?;
        Some(Way { via: via.iter().map(name).collect(), to: to.as_ref().map(name) })
    }
}

impl Numbers {
    /// Gives a number to whatever has none, and frees those of what is gone. Returns the numbers of the new VPCs.
    pub fn assign(&mut self, region: &Region) -> Vec<u32> {
        let file = &region.file;
        let text = |name: &crate::model::Name| name.value.to_string();
        let fresh = assign(&mut self.vpcs, file.vpcs.iter().map(|v| text(&v.name)).collect());
        let instances = file.vpcs.iter().flat_map(|v| {
            let vpc = text(&v.name);
            let tables = std::iter::once(String::new()).chain(v.route_tables.iter().map(|t| text(&t.name)));
            tables.map(move |table| (vpc.clone(), table))
        });
        assign(&mut self.instances, instances.collect());
        assign(&mut self.remotes, file.remotes.iter().map(|r| text(&r.name)).collect());
        assign(&mut self.next_hops, file.uplinks.iter().map(|u| text(&u.name)).collect());
        let sets = region.server_uplinks.iter().chain(&region.remote_uplinks).filter(|set| set.len() > 1);
        assign(&mut self.groups, sets.map(|set| uplink_names(region, set)).collect());
        let routes = region.tables.iter().flatten().flatten();
        assign(&mut self.ways, routes.filter_map(|route| Way::of(region, route)).collect());
        fresh
    }

    /// The list that decides about packets that take a route to the VPC of index `to`, besides the
    /// one of the VPC that they come from.
    pub(super) fn list(&self, region: &Region, route: &FlatRoute, to: usize) -> u32 {
        match Way::of(region, route) {
            Some(way) => self.list_of(&way),
            None => self.vpcs[&*region.file.vpcs[to].name.value],
        }
    }

    /// The same for a route that leaves the region's VPCs, as the part of the list's number behind
    /// [`TRANSIT`].
    pub(super) fn transit(&self, region: &Region, route: &FlatRoute) -> u32 {
        Way::of(region, route).map_or(NO_TRANSIT, |way| self.transit_of(&way))
    }

    /// The list of a way.
    pub(super) fn list_of(&self, way: &Way) -> u32 {
        TRANSIT | self.transit_of(way)
    }

    fn transit_of(&self, way: &Way) -> u32 {
        NO_TRANSIT - 1 - self.ways[way]
    }
}

/// A set of uplinks as the key of [`Numbers::groups`]: in the order of the file.
pub(super) fn uplink_names(region: &Region, uplinks: &[usize]) -> Vec<String> {
    uplinks.iter().map(|u| region.file.uplinks[*u].name.value.to_string()).collect()
}

/// Keeps the numbers of `wanted`, gives the lowest free ones to those without, frees all others; returns the new ones.
fn assign<K: Ord + Clone>(numbers: &mut BTreeMap<K, u32>, wanted: BTreeSet<K>) -> Vec<u32> {
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
