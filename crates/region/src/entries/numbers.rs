//! Numbers of things that tables refer to by number.

use crate::check::Region;
use std::collections::{BTreeMap, BTreeSet};

/// Who has which number. The same numbers hold for all versions of a region file that a gateway is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
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
}

impl Numbers {
    /// Gives a number to whatever has none, and frees those of what is gone. Returns the numbers of the new VPCs.
    pub(super) fn assign(&mut self, region: &Region) -> Vec<u32> {
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
        fresh
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
